// Command machine looks at a simulated machine from outside, for the demo: what all its settings hash to, and what its
// measured curve says the best power cap is.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/qunerd/quner/internal/host/hostsim"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "new":
		f, err := hostsim.Load(args[1])
		if err != nil {
			return err
		}
		_, err = hostsim.New(args[2], f, hostsim.Options{})
		return err
	case len(args) == 2 && args[0] == "digest":
		s, err := hostsim.Open(args[1], hostsim.Options{})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, s.Digest())
		return err
	case len(args) == 2 && args[0] == "truth":
		s, err := hostsim.Open(args[1], hostsim.Options{})
		if err != nil {
			return err
		}
		return truth(out, s.States(0))
	}
	return errors.New("usage: machine new HOST DIR | digest DIR | truth DIR")
}

// maxSlowdown is the speed floor of the demo, qunerctl tune's default.
const maxSlowdown = 0.10

// truth prints the states of a board, noise aside; the last is the one found.
func truth(out io.Writer, states []hostsim.State) error {
	if len(states) == 0 {
		return errors.New("the machine has no board")
	}
	cost := func(s hostsim.State) float64 { return s.Power.Watts() / s.Rate }
	found := states[len(states)-1]
	best := found
	for _, s := range states {
		if s.Rate >= (1-maxSlowdown)*found.Rate && cost(s) < cost(best) {
			best = s
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cap\tunits/s\tJ/unit\tspeed\tallowed\t\t")
	for _, s := range states {
		mark, allowed := "", "no"
		if s.Rate >= (1-maxSlowdown)*found.Rate {
			allowed = "yes"
		}
		if s == best {
			mark = fmt.Sprintf("best allowed: %.1f %% fewer joules", 100*(1-cost(s)/cost(found)))
		}
		fmt.Fprintf(w, "%.0f W\t%.2f\t%.3f\t%+.1f %%\t%s\t%s\t\n",
			s.Cap.Watts(), s.Rate, cost(s), 100*(s.Rate/found.Rate-1), allowed, mark)
	}
	return w.Flush()
}
