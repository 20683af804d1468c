package script

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/qunerd/quner/api/client"
)

// requestUnits is the work of a request, in the simulated board's units.
const requestUnits = 4

// serve is the program "serve WORKLOAD": a service on the simulated board that tells each request's work in a window, until
// it is terminated. Then it says how many requests it has served and for how long at most it stood still between two.
func serve() {
	if err := serving(os.Args[1], os.Getenv("QUNER_SOCKET")); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serving(workload, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := client.Dial(ctx, client.Options{Dir: dir, Strict: true})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	requests, longest := 0, time.Duration(0)
	for ended := time.Now(); ; {
		w, err := c.Open(ctx, client.OpenOptions{Name: "request", Workload: workload, Unit: "tokens"})
		if err != nil && ctx.Err() == nil {
			return err
		}
		longest = max(longest, time.Since(ended))
		err = exec.CommandContext(ctx, "qunerd", "simulate-work", "--units", strconv.Itoa(requestUnits)).Run()
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		ended = time.Now()
		r, err := w.Close(ctx, client.CloseOptions{Work: 10 * requestUnits, Synced: true})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if requests++; requests == 1 {
			fmt.Println("serving:", r)
		}
	}
	fmt.Printf("served %d requests, stood still for %d ms at most\n", requests, longest.Milliseconds())
	return nil
}
