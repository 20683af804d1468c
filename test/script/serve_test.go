package script

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/qunerd/quner/api/client"
	"github.com/qunerd/quner/internal/host/hostsim"
)

// requestUnits is the work of a request, in the simulated board's units, and tokensPerUnit what the service calls that.
const (
	requestUnits  = 2
	tokensPerUnit = 10
)

// serve is the program "serve WORKLOAD WORKERS": a service on the simulated board, so many requests at a time, that tells
// each request's work in a window, until it is terminated. Then it says how many requests it has served and for how long at
// most none was under way.
func serve() {
	s := &service{workload: os.Args[1], dir: os.Getenv("QUNER_SOCKET")}
	workers, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = s.serve(workers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
	fmt.Printf("served %d requests, stood still for %d ms at most\n", s.requests, s.longest.Milliseconds())
}

type service struct {
	workload, dir string
	client        *client.Client

	mu       sync.Mutex
	requests int
	active   int
	idle     time.Time     // since when nothing is active
	longest  time.Duration // that nothing was
}

func (s *service) serve(workers int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if s.client, err = client.Dial(ctx, client.Options{Dir: s.dir, Strict: true}); err != nil {
		return err
	}
	defer func() { _ = s.client.Close() }()
	s.idle = time.Now()
	ended := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				err = s.request(ctx)
			}
			ended <- err
		}()
	}
	for range workers {
		if one := <-ended; ctx.Err() == nil {
			stop()
			err = one
		}
	}
	return err
}

// request serves one.
func (s *service) request(ctx context.Context) error {
	w, err := s.client.Open(ctx, client.OpenOptions{Name: "request", Workload: s.workload, Unit: "tokens"})
	if err != nil {
		return err
	}
	s.begin()
	err = hostsim.SimulateWork(ctx, s.dir, "gpu0", requestUnits, nil)
	s.end()
	if err != nil {
		return err
	}
	r, err := w.Close(ctx, client.CloseOptions{Work: tokensPerUnit * requestUnits, Synced: true})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests++; s.requests == 1 {
		fmt.Println("serving:", r)
	}
	return nil
}

func (s *service) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active++; s.active == 1 {
		s.longest = max(s.longest, time.Since(s.idle))
	}
}

func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 {
		s.idle = time.Now()
	}
}
