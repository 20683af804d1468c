package tune

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// host is a machine in formulas, with three axes that act on each other: a board under a cap, and a processor that feeds it,
// whose clock is the governor's choice and is held down by its package limit. While the processor works the board waits.
type host struct {
	base         float64 // W that nothing moves
	rest, full   float64 // W of the board at rest, and at its highest clock
	wait, bend   float64 // share of the board's time that does not go with its clock; exponent of its power
	feed         float64 // time the processor takes for a unit of work at its highest clock, the board's being 1
	cpuRest, cpu float64 // W of the package at rest, and more at its highest clock
}

func anyHost(rng *rand.Rand) host {
	return host{
		base: 20 + 60*rng.Float64(), rest: 25 + 30*rng.Float64(), full: 250 + 150*rng.Float64(), wait: 0.6 * rng.Float64(),
		bend: 2.2 + rng.Float64(), feed: 0.02 + 0.4*rng.Float64(), cpuRest: 10 + 10*rng.Float64(), cpu: 40 + 80*rng.Float64(),
	}
}

const (
	caps   = 9
	limits = 7
)

func clocks() []float64 { return []float64{0.5, 0.85, 1} } // by governor

func (h host) axes() []Axis {
	gpu, package_, governor := Axis{Name: "gpu", Found: caps - 1}, Axis{Name: "package", Found: limits - 1}, Axis{Name: "governor", Found: 2}
	for s := range caps {
		gpu.States = append(gpu.States, fmt.Sprintf("%.0f W", h.capOf(s)))
	}
	for s := range limits {
		package_.States = append(package_.States, fmt.Sprintf("%.0f %%", 100*limitOf(s)))
	}
	governor.States = []string{"powersave", "schedutil", "performance"}
	return []Axis{gpu, governor, package_}
}

func (h host) capOf(s int) float64 { return h.full * (0.4 + 0.6*float64(s)/(caps-1)) }
func limitOf(s int) float64        { return 0.4 + 0.1*float64(s) }

// at is the rate, and the watts of the host, the board and the package, in a combination.
func (h host) at(s []int) (rate, watts, board, pkg float64) {
	f := math.Pow((h.capOf(s[0])-h.rest)/(h.full-h.rest), 1/h.bend)
	// The limit holds the package's busy power down; it is rated so that all of it is needed at the highest clock.
	c := min(clocks()[s[1]], math.Pow(max(0.01, (limitOf(s[2])*(h.cpu+h.cpuRest)-h.cpuRest)/h.cpu), 1/2.5))
	computing, feeding := h.wait+(1-h.wait)/f, h.feed/c
	all := computing + feeding
	board = (computing*h.capOf(s[0]) + feeding*h.rest) / all
	pkg = h.cpuRest + h.cpu*math.Pow(c, 2.5)*(feeding+0.2*computing)/all
	return 1 / all, h.base + board + pkg, board, pkg
}

func (h host) cost(s []int) float64 {
	rate, watts, _, _ := h.at(s)
	return watts / rate
}

// best is the allowed combination of least cost.
func (h host) best() (best []int) {
	axes := h.axes()
	found := []int{axes[0].Found, axes[1].Found, axes[2].Found}
	least, _, _, _ := h.at(found)
	best = found
	for i := range caps * 3 * limits {
		s := []int{i % caps, i / caps % 3, i / caps / 3}
		if rate, _, _, _ := h.at(s); rate >= 0.9*least && h.cost(s) < h.cost(best) {
			best = s
		}
	}
	return best
}

func (h host) trial(seed uint64, sigma, speed float64) Trial {
	rng := rand.New(rand.NewPCG(seed, 4))
	return func(_ context.Context, s []int) (Sample, error) {
		rate, watts, board, pkg := h.at(s)
		work := rate * (1 + speed*rng.NormFloat64())
		pkg *= 1 + sigma/2*rng.NormFloat64()
		return Sample{
			Work: work, Seconds: 1, Joules: work / rate * watts * (1 + sigma*rng.NormFloat64()),
			AchievedBy: []float64{board * (1 + sigma/2*rng.NormFloat64()), pkg, pkg},
		}, nil
	}
}

// Three axes that act on each other take at most 35 windows in the mean, and end near the best of all combinations; an axis
// that does nothing takes at most four.
func TestThreeAxes(t *testing.T) {
	const hosts, seeds = 60, 5
	for _, tt := range []struct{ speed, windows, inBand, regret, slow float64 }{
		{0, 35, 0.98, 0.002, 0.01},
		{0.005, 38, 0.85, 0.01, 0.05}, // where the floor runs costs windows, and some doubt remains
	} {
		var windows, regret, inBand, slow, worst, n float64
		for i := range uint64(hosts) {
			h := anyHost(rand.New(rand.NewPCG(i, 5)))
			best, found := h.best(), []int{caps - 1, 2, limits - 1}
			for seed := range uint64(seeds) {
				spent := map[string]int{}
				r, err := Sweep(t.Context(), h.axes(), h.trial(seed, 0.02, tt.speed), Options{Seed: seed, Progress: func(p Progress) { spent[p.Axis]++ }})
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range r.Axes {
					if a.Verdict == Flat && spent[a.Name] > 4 {
						t.Errorf("host %d, seed %d: %s is flat and took %d windows", i, seed, a.Name, spent[a.Name])
					}
				}
				above := max(0, h.cost(r.Chosen)/h.cost(best)-1)
				n, windows, regret = n+1, windows+float64(r.Windows), regret+above
				if above <= Band {
					inBand++
				}
				chosen, _, _, _ := h.at(r.Chosen)
				if full, _, _, _ := h.at(found); chosen < 0.9*full {
					slow++
					worst = max(worst, 0.9-chosen/full)
				}
			}
		}
		t.Logf("noise on work/s %v: %.1f windows, in band %.3f, regret %.4f, too slow %.3f by at most %.4f",
			tt.speed, windows/n, inBand/n, regret/n, slow/n, worst)
		if windows/n > tt.windows || inBand/n < tt.inBand || regret/n > tt.regret || slow/n > tt.slow || worst > 0.01 {
			t.Errorf("noise on work/s %v: out of bounds", tt.speed)
		}
	}
}
