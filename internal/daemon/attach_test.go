package daemon_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
)

// live is a service that works request by request on the simulated board, each in a window of its own, and never waits.
type live struct {
	t        *testing.T
	d        *daemon.Daemon
	sim      *hostsim.Sim
	owner    uint32
	workload string
	unit     string
	size     float64 // of the requests, in the board's units of work, in the mean
	untold   bool    // their work
	idle     bool    // nothing is done on the board in a window

	mu    sync.Mutex
	pause time.Duration // the longest between the end of one request's work and the begin of the next one's
}

func (s *live) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}

// serve serves with so many workers until stop is called.
func (s *live) serve(workers int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { s.work(ctx) })
	}
	return func() { cancel(); all.Wait() }
}

func (s *live) work(ctx context.Context) {
	for i, ended := 0, time.Now(); ctx.Err() == nil; i++ {
		units := s.size * (0.5 + float64(i*7%11)/10) // from half to half as much again
		w, err := s.d.Meter().Open(ctx, meter.OpenRequest{Owner: s.owner, Name: "request", Workload: s.workload, Unit: s.unit})
		if err != nil {
			s.t.Error(err)
			return
		}
		s.mu.Lock()
		s.pause = max(s.pause, time.Since(ended))
		s.mu.Unlock()
		if s.idle {
			err = sleep(ctx, 50*time.Millisecond)
		} else {
			err = s.sim.Work(ctx, "gpu0", units)
		}
		if err != nil {
			w.Abandon()
			return
		}
		ended = time.Now()
		done := units
		if s.untold {
			done = 0
		}
		if _, err := w.Close(ctx, meter.CloseRequest{Work: done, Synced: true}); err != nil && ctx.Err() == nil {
			s.t.Error(err)
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bystander is the caller of a sweep that is attached to a service.
type bystander struct {
	t    *testing.T
	told func(daemon.Progress) // may be nil
}

func (bystander) Plan(daemon.TunePlan) error { return nil }

func (o bystander) Run(context.Context, daemon.TuneRun) (daemon.TuneWork, error) {
	return daemon.TuneWork{}, errors.New("the caller of an attached sweep is asked to run something")
}

func (o bystander) Progress(p daemon.Progress) {
	o.t.Logf("%s %s window %d of %d: %+v", p.Phase, p.Label, p.Window, p.Max, p.Sample)
	if o.told != nil {
		o.told(p)
	}
}

func attachedSweep(workload string, uid uint32) daemon.TuneSpec {
	spec := gpuSweep()
	spec.Workload, spec.WorkloadUID, spec.Attach = workload, uid, true
	return spec
}

// reckoner compares the work that trials have counted with what the board does meanwhile, and their length with that of the
// requests.
type reckoner struct {
	t          *testing.T
	sim        *hostsim.Sim
	busy       float64 // units of work that are under way at a time, in the median
	trials     float64
	wrong, far float64 // sum of the errors, and the greatest, as shares
}

func (k *reckoner) look(p daemon.Progress) {
	if p.Sample.Void != "" {
		k.t.Errorf("void: %s", p.Sample.Void)
	}
	rate := k.sim.Rate("gpu0")
	if least := 20 * k.busy / rate; p.Sample.Seconds < 0.85*least || p.Sample.Seconds < 2 {
		k.t.Errorf("%s: a trial of %.1f s; windows of %.2f s in the median", p.Label, p.Sample.Seconds, least/20)
	}
	off := p.Sample.Work/p.Sample.Seconds/rate - 1
	k.trials, k.wrong, k.far = k.trials+1, k.wrong+off, max(k.far, math.Abs(off))
}

func (k *reckoner) judge() {
	k.t.Logf("work counted %+.3f %% off in the mean of %g trials, %.3f %% at most", 100*k.wrong/k.trials, k.trials, 100*k.far)
	if !(math.Abs(k.wrong/k.trials) <= 0.005) || k.far > 0.02 {
		k.t.Errorf("work counted %+.2f %% off in the mean, %.2f %% at most", 100*k.wrong/k.trials, 100*k.far)
	}
}

// A service is tuned while it serves: it never waits, what it does is counted, and what others do is not.
func TestALiveServiceIsTuned(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		size    float64
	}{
		"short requests":        {1, 5},
		"long requests":         {1, 60},
		"requests side by side": {3, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, "workstation")
				before := sim.Digest()
				d, stop := start(t, sim, config.Default())
				service := &live{t: t, d: d, sim: sim, owner: 1000, workload: "chat", unit: "tokens", size: c.size}
				others := []*live{
					{t: t, d: d, sim: sim, owner: 1001, workload: "chat", unit: "request", size: 1e6, idle: true},
					{t: t, d: d, sim: sim, owner: 1000, workload: "mail", size: 1e6, idle: true},
				}
				stops := []func(){service.serve(c.workers), others[0].serve(1), others[1].serve(2)}
				time.Sleep(30 * time.Second) // the machine trains by now
				pause := service.longest()
				count := &reckoner{t: t, sim: sim, busy: c.size * float64(c.workers)}
				r, err := d.Tune(t.Context(), attachedSweep("chat", 1000), bystander{t, count.look})
				if err != nil {
					t.Fatal(err)
				}
				count.judge()
				if now := service.longest(); now > pause {
					t.Errorf("the service paused for %v, and before for %v at most", now, pause)
				}
				a := r.Result.Axes[0]
				if got := a.States[a.Chosen].Label; got != "200 W" || !r.Certified() || !r.Applied || r.WorkUnit != "token" {
					t.Errorf("chosen %s, verdict %s, applied %v, in %s; want 200 W, certified, applied, in token", got, r.Verdict(), r.Applied, r.WorkUnit)
				}
				points, _, err := d.Points(t.Context())
				if err != nil || len(points) != 1 || points[0].Workload != "chat" || points[0].UID != 1000 || points[0].WorkUnit != "token" {
					t.Errorf("%+v, %v", points, err)
				}
				for _, stop := range stops {
					stop()
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if sim.Digest() != before {
					t.Errorf("the host is not as found: %v", sim.Settings())
				}
			})
		})
	}
}

// What cannot be tuned is said, and the host put back.
func TestAServiceThatTellsNothingEndsTheSweep(t *testing.T) {
	for name, c := range map[string]struct {
		service *live
		workers int
		says    string
		within  time.Duration
	}{
		"no service":           {&live{}, 0, "no window of workload chat of uid 1000 has closed with work for 60 s; does the service", 62 * time.Second},
		"another uid's":        {&live{owner: 1001, workload: "chat", size: 20}, 1, "of uid 1000 has closed with work for 60 s; does", 62 * time.Second},
		"another workload's":   {&live{owner: 1000, workload: "mail", size: 20}, 1, "of uid 1000 has closed with work for 60 s; does", 62 * time.Second},
		"work is not told":     {&live{owner: 1000, workload: "chat", size: 20, untold: true}, 1, "without); does the service", 62 * time.Second},
		"its windows are long": {&live{owner: 1000, workload: "chat", size: 1000}, 1, "in the median; a trial takes 20 of them, and at most 2m0s", 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, "workstation")
				found := sim.Settings()
				d, stop := start(t, sim, config.Default())
				service := c.service
				service.t, service.d, service.sim = t, d, sim
				quit := service.serve(c.workers)
				began := time.Now()
				r, err := d.Tune(t.Context(), attachedSweep("chat", 1000), bystander{t: t})
				if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), c.says) || r.Applied {
					t.Errorf("%v, want what says %q", err, c.says)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("it took %v to say so", took)
				}
				if diff := cmp.Diff(found, sim.Settings()); diff != "" {
					t.Errorf("after the sweep:\n%s", diff)
				}
				quit()
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWindowsThatCountDifferentThingsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		tokens := &live{t: t, d: d, sim: sim, owner: 7, workload: "chat", unit: "token", size: 20}
		requests := &live{t: t, d: d, sim: sim, owner: 7, workload: "chat", unit: "request", size: 20}
		stops := []func(){tokens.serve(1), requests.serve(1)}
		_, err := d.Tune(t.Context(), attachedSweep("chat", 7), bystander{t: t})
		if !errors.Is(err, daemon.ErrRefused) || !strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "request") {
			t.Errorf("%v", err)
		}
		for _, stop := range stops {
			stop()
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A window that stays open hides its work: what it spans does not count.
func TestAWindowThatDoesNotCloseSpoilsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := machine(t, "workstation")
		d, stop := start(t, sim, config.Default())
		service := &live{t: t, d: d, sim: sim, owner: 7, workload: "chat", size: 20}
		quit := service.serve(1)
		w, err := d.Meter().Open(t.Context(), meter.OpenRequest{Owner: 7, Name: "whole-run", Workload: "chat"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Tune(t.Context(), attachedSweep("chat", 7), bystander{t, func(p daemon.Progress) {
			if p.Sample.Void == "" {
				t.Errorf("it counts: %+v", p)
			}
		}})
		if !errors.Is(err, daemon.ErrVoided) || !strings.Contains(err.Error(), "do not close") {
			t.Errorf("%v", err)
		}
		w.Abandon()
		quit()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Ctrl-C at any stage of a sweep puts the host back, and the service goes on.
func TestACancelledSweepOfAServicePutsTheHostBack(t *testing.T) {
	for _, after := range []time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second, 20 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := machine(t, "workstation")
				found := sim.Settings()
				d, stop := start(t, sim, config.Default())
				service := &live{t: t, d: d, sim: sim, owner: 1000, workload: "chat", size: 20}
				quit := service.serve(2)
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if _, err := d.Tune(ctx, attachedSweep("chat", 1000), bystander{t: t}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				if diff := cmp.Diff(found, sim.Settings()); diff != "" {
					t.Errorf("after the sweep:\n%s", diff)
				}
				if n := d.Meter().OpenCount(); n != 2 {
					t.Errorf("%d windows open, want the service's 2", n)
				}
				quit()
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
