package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
	"github.com/qunerd/quner/internal/unit"
)

// twoStates is a plan of one axis with two states.
var twoStates = daemon.TunePlan{
	Axes:       []tune.Axis{{Name: "gpu", States: []string{"100 W", "300 W"}, Found: 1}},
	MaxWindows: 8, Base: 40 * unit.Watt, Devices: []string{"gpu/GPU-1"},
}

// sweepOf is a daemon's sweep that runs the workload n times.
func sweepOf(n int) func(context.Context, daemon.TuneSpec, daemon.TuneWorkload) (daemon.TuneReport, error) {
	return func(ctx context.Context, spec daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error) {
		if err := w.Plan(twoStates); err != nil || spec.DryRun {
			return daemon.TuneReport{Plan: twoStates}, err
		}
		for i := range n {
			label := twoStates.Axes[0].States[i%2]
			work, err := w.Run(ctx, daemon.TuneRun{Window: i + 1, MaxWindows: 8, State: []string{label}, AtLeast: 2 * time.Second})
			if err != nil {
				return daemon.TuneReport{}, fmt.Errorf("tune: %w", err)
			}
			w.Progress(daemon.Progress{Progress: tune.Progress{Axis: "gpu", Phase: tune.PhasePass, Label: label, Window: i + 1, Max: 8,
				Sample: tune.Sample{Work: work.Amount, Seconds: 2, Joules: 100 * float64(1+i%2)}}, WorkUnit: spec.WorkUnit})
		}
		return theReport(), nil
	}
}

func theReport() daemon.TuneReport {
	nan := math.NaN()
	return daemon.TuneReport{
		Plan: twoStates, Energy: 3 * unit.Kilojoule, Applied: true, Note: "kept",
		Voids:     []daemon.VoidCount{{Why: daemon.VoidLoad, Windows: 1, Last: "pid 7 (\x1b[2J) is at work"}},
		Unwatched: []string{"gpu/0000:03:00.0"},
		Chosen:    levers.NewPoint(levers.Setting{Lever: "nvml/GPU-1", Value: "100000"}),
		Result: tune.Result{
			Objective: tune.WorkPerJoule, Principle: tune.Principle, Chosen: []int{0}, Windows: 5, Voided: 1, Payback: 900,
			Saved: tune.Interval{Value: 0.5, Low: 0.48, High: 0.53}, Slowdown: tune.Interval{Value: 0.04, Low: 0.03, High: 0.05},
			Axes: []tune.AxisResult{{
				Name: "gpu", Found: 2, Chosen: 0, Verdict: tune.Edge,
				States: []tune.StateResult{
					{Label: "100 W", Windows: 2, SameAs: tune.Nothing, JoulesPerWork: tune.Interval{Value: 50, Low: 49, High: 52}, Allowed: true, InBand: true},
					{Label: "200 W", SameAs: tune.Nothing, Skipped: "not reached", JoulesPerWork: tune.Interval{Value: nan, Low: nan, High: nan}},
					{Label: "300 W", Windows: 2, SameAs: tune.Nothing, JoulesPerWork: tune.Interval{Value: 100, Low: 99, High: 101}, Allowed: true},
				},
			}},
		},
	}
}

type tuneClient = grpc.BidiStreamingClient[qunerv1.TuneRequest, qunerv1.TuneResponse]

func openTune(t *testing.T, s *stand) (tuneClient, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c, err := qunerv1.NewAdminServiceClient(dial(t, s.admin())).Tune(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c, cancel
}

func send(t *testing.T, c tuneClient, m *qunerv1.TuneRequest) {
	t.Helper()
	if err := c.Send(m); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func startMessage(s *qunerv1.TuneStart) *qunerv1.TuneRequest {
	return &qunerv1.TuneRequest{Message: &qunerv1.TuneRequest_Start{Start: s}}
}

func finished(window uint32, work float64, failure string) *qunerv1.TuneRequest {
	return &qunerv1.TuneRequest{Message: &qunerv1.TuneRequest_Finished{
		Finished: &qunerv1.RunFinished{Window: window, Work: work, Failure: failure}}}
}

func receive(t *testing.T, c tuneClient) *qunerv1.TuneResponse {
	t.Helper()
	m, err := c.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestVoidsAreTold: why windows did not count is said at once and in the report, fit for a terminal.
func TestVoidsAreTold(t *testing.T) {
	p := progressOut(daemon.Progress{
		Progress: tune.Progress{Sample: tune.Sample{Void: "pid 7 (\x1b[2J) is at work"}}, Why: daemon.VoidLoad, WorkUnit: "token",
	}, "")
	if p.GetVoided() != "pid 7 (?[2J) is at work" || p.GetVoidedWhy() != "load" || p.GetWorkUnit() != "token" {
		t.Errorf("%v", p)
	}
	r := reportOut(theReport(), daemon.TuneSpec{}, nil)
	if len(r.GetVoidedBy()) != 1 || r.GetVoidedBy()[0].GetWhy() != "load" || r.GetVoidedBy()[0].GetWindows() != 1 ||
		r.GetVoidedBy()[0].GetLast() != "pid 7 (?[2J) is at work" || len(r.GetUnwatched()) != 1 {
		t.Errorf("%v, %v", r.GetVoidedBy(), r.GetUnwatched())
	}
}

func TestTune(t *testing.T) {
	s := start(t, nil)
	s.tune = sweepOf(4)
	c, _ := openTune(t, s)
	send(t, c, startMessage(&qunerv1.TuneStart{Workload: "bert", Apply: true}))
	plan := receive(t, c).GetPlan()
	if plan.GetBaseWatts() != 40 || plan.GetAxes()[0].GetFound() != 1 || plan.GetDevices()[0] != "gpu/GPU-1" {
		t.Errorf("%v", plan)
	}
	for i := range uint32(4) {
		run := receive(t, c).GetRun()
		if run.GetWindow() != i+1 || run.GetMinMs() != 2000 || run.GetState()[0] != twoStates.Axes[0].States[i%2] {
			t.Fatalf("run %d: %v", i, run)
		}
		send(t, c, finished(run.GetWindow(), 2, ""))
		p := receive(t, c).GetProgress()
		if p.GetBest() != "100 W" || p.GetJoulesPerWork() != 50*float64(1+i%2) || p.GetWorkPerSecond() != 1 || p.GetPhase() != "pass" {
			t.Errorf("progress %d: %v", i, p)
		}
	}
	r := receive(t, c).GetReport()
	if r.GetPrior() != nil || r.GetAxes()[0].GetFrom() != "" || math.Abs(r.GetSlowdownHalfWidth()-0.01) > 1e-12 {
		t.Errorf("from %v, %q; slowdown ± %v", r.GetPrior(), r.GetAxes()[0].GetFrom(), r.GetSlowdownHalfWidth())
	}
	if r.GetVerdict() != "edge" || !r.GetCertified() || r.GetSaving() != 0.5 || math.Abs(r.GetSavingHalfWidth()-0.03) > 1e-12 ||
		r.GetMaxSlowdown() != 0.10 || r.GetEnergyUj() != 3_000_000_000 || r.GetPaybackS() != 900 || !r.GetApplied() ||
		r.GetChosenLabels()[0] != "100 W" || r.GetChosen()[0].GetValue() != "100000" || r.GetPrinciple() != tune.Principle {
		t.Errorf("%v", r)
	}
	if states := r.GetStates(); len(states) != 3 || !states[0].GetChosen() || !states[2].GetFound() || states[0].GetJoulesPerWorkHalfWidth() != 2 ||
		states[1].GetSkipped() != "not reached" || states[1].JoulesPerWork != nil || states[1].GetSameAs() != "" {
		t.Errorf("a state that was not measured has a reason and no figures: %v", states)
	}
	if _, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

func TestTuneTellsTheDaemonWhatIsWanted(t *testing.T) {
	s := start(t, nil)
	var got daemon.TuneSpec
	s.tune = func(_ context.Context, spec daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error) {
		got = spec
		return daemon.TuneReport{}, w.Plan(twoStates)
	}
	c, _ := openTune(t, s)
	none := 0.0
	send(t, c, startMessage(&qunerv1.TuneStart{Profile: qunerv1.Profile_PROFILE_IDLE, Objective: "edp", MaxSlowdown: &none, NoCpu: true,
		Force: true, Fresh: true, MaxWindows: 7, DryRun: true}))
	receive(t, c)
	if _, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("a dry run ends after its plan: %v", err)
	}
	want := daemon.TuneSpec{Caller: got.Caller, Profile: profiles.Idle, Objective: tune.EDP, NoCPU: true, Force: true, Fresh: true, MaxWindows: 7, DryRun: true}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// From which point a search starts, and what becomes of that, is told.
func TestTuneTellsWhereItStarts(t *testing.T) {
	tuned := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	for _, moved := range []string{"", "300 W against 100 W: watts 8.0 % lower than before"} {
		s := start(t, nil)
		s.tune = func(_ context.Context, _ daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error) {
			plan := twoStates
			plan.Prior = &daemon.PriorPoint{ID: "a1b2", TunedAt: tuned, Labels: []string{"200 W"}, Changed: []string{"kernel: 6.1.0 → 6.6.0"}}
			r := theReport()
			r.Plan, r.Result.Axes[0].From, r.Result.Axes[0].Moved = plan, 1, moved
			return r, w.Plan(plan)
		}
		c, _ := openTune(t, s)
		send(t, c, startMessage(&qunerv1.TuneStart{}))
		want := &qunerv1.PriorPoint{Id: "a1b2", TunedAtUnixNs: tuned.UnixNano(), ChosenLabels: []string{"200 W"}, Changed: []string{"kernel: 6.1.0 → 6.6.0"}}
		if got := receive(t, c).GetPlan().GetPrior(); !proto.Equal(got, want) {
			t.Errorf("plan: %v", got)
		}
		r := receive(t, c).GetReport()
		if !proto.Equal(r.GetPrior(), want) || r.GetAxes()[0].GetFrom() != "200 W" || r.GetAxes()[0].GetMoved() != moved {
			t.Errorf("report: %v, axis %v", r.GetPrior(), r.GetAxes()[0])
		}
	}
}

// A sweep that is attached to a service is told whose windows count; only root may name another's.
func TestTuneOfAService(t *testing.T) {
	start := &qunerv1.TuneStart{Workload: "chat", Attach: true, WorkloadUid: proto.Uint32(1000)}
	of := func(uid uint32) caller { return caller{Peer: Peer{UID: uid}} }
	for uid, fine := range map[uint32]bool{0: true, 1000: true, 1001: false} {
		spec, err := specIn(start, of(uid))
		if fine && (err != nil || !spec.Attach || spec.WorkloadUID != 1000 || spec.Workload != "chat") {
			t.Errorf("uid %d: %+v, %v", uid, spec, err)
		}
		if !fine && codeOf(err) != codes.InvalidArgument {
			t.Errorf("uid %d may have the windows of another counted: %v", uid, err)
		}
	}
	start.WorkloadUid = nil
	if spec, err := specIn(start, of(1001)); err != nil || spec.WorkloadUID != 1001 {
		t.Errorf("%+v, %v", spec, err)
	}
}

// Its caller runs nothing, and has nothing to say.
func TestACallerOfAnAttachedSweepHasNoRunsToEnd(t *testing.T) {
	s := start(t, nil)
	s.tune = func(ctx context.Context, _ daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error) {
		if err := w.Plan(twoStates); err != nil {
			return daemon.TuneReport{}, err
		}
		<-ctx.Done()
		return daemon.TuneReport{}, context.Cause(ctx)
	}
	c, _ := openTune(t, s)
	send(t, c, startMessage(&qunerv1.TuneStart{Workload: "chat", Attach: true}))
	receive(t, c)
	send(t, c, finished(1, 1e9, ""))
	if _, err := c.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "takes no more messages") {
		t.Errorf("%v", err)
	}
}

func TestTuneRefusesWhatMakesNoSense(t *testing.T) {
	s := start(t, nil)
	high, nan := 1.0, math.NaN()
	for name, first := range map[string]*qunerv1.TuneRequest{
		"no start":        finished(1, 1, ""),
		"nothing":         {},
		"bad workload":    startMessage(&qunerv1.TuneStart{Workload: "a b"}),
		"long workload":   startMessage(&qunerv1.TuneStart{Workload: strings.Repeat("a", 65)}),
		"bad objective":   startMessage(&qunerv1.TuneStart{Objective: "fun"}),
		"bad profile":     startMessage(&qunerv1.TuneStart{Profile: 77}),
		"a full stop":     startMessage(&qunerv1.TuneStart{MaxSlowdown: &high}),
		"not a number":    startMessage(&qunerv1.TuneStart{MaxSlowdown: &nan}),
		"nothing to move": startMessage(&qunerv1.TuneStart{NoGpu: true, NoCpu: true}),
		"no service":      startMessage(&qunerv1.TuneStart{Attach: true}),
		"unit of another": startMessage(&qunerv1.TuneStart{Attach: true, Workload: "chat", WorkUnit: "token"}),
		"for ever":        startMessage(&qunerv1.TuneStart{MaxWindows: 1 << 30}),
	} {
		c, _ := openTune(t, s)
		send(t, c, first)
		if _, err := c.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.calls) != 0 {
		t.Errorf("the daemon was asked: %v", s.calls)
	}
}

func TestTuneEndsWithABadRun(t *testing.T) {
	for name, c := range map[string]struct {
		answer *qunerv1.TuneRequest
		want   codes.Code
		says   string
	}{
		"it failed":       {finished(1, 0, "exit status 3\x1b[2J"), codes.Aborted, "exit status 3?[2J"},
		"no work":         {finished(1, 0, ""), codes.InvalidArgument, "work 0"},
		"endless work":    {finished(1, math.Inf(1), ""), codes.InvalidArgument, "work +Inf"},
		"no number":       {finished(1, math.NaN(), ""), codes.InvalidArgument, "work NaN"},
		"next to no work": {finished(1, 1e-320, ""), codes.InvalidArgument, "work 1e-320"},
		"another's end":   {finished(2, 1, ""), codes.InvalidArgument, "window 2 has ended"},
		"a second go":     {startMessage(&qunerv1.TuneStart{}), codes.InvalidArgument, "only the ends of runs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			s.tune = sweepOf(2)
			stream, _ := openTune(t, s)
			send(t, stream, startMessage(&qunerv1.TuneStart{}))
			receive(t, stream) // plan
			receive(t, stream) // run
			send(t, stream, c.answer)
			_, err := stream.Recv()
			if status.Code(err) != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v with %q", err, c.want, c.says)
			}
		})
	}
}

func TestTuneEndsWhenItsCallerGoes(t *testing.T) {
	for name, leave := range map[string]func(tuneClient, context.CancelFunc) error{
		"the caller dies":    func(_ tuneClient, cancel context.CancelFunc) error { cancel(); return nil },
		"the caller says so": func(c tuneClient, _ context.CancelFunc) error { return c.CloseSend() },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			ended := make(chan error, 1)
			settling := make(chan struct{})
			s.tune = func(ctx context.Context, _ daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error) {
				close(settling)
				<-ctx.Done() // between two runs, where nobody waits for the caller
				_, err := w.Run(ctx, daemon.TuneRun{Window: 1})
				ended <- errors.Join(err, context.Cause(ctx))
				return daemon.TuneReport{}, err
			}
			c, cancel := openTune(t, s)
			send(t, c, startMessage(&qunerv1.TuneStart{}))
			<-settling
			if err := leave(c, cancel); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, errGone) && !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the sweep goes on")
			}
		})
	}
}

// FuzzSpec gives the start of a sweep anything an operator may send: what passes must be fit for the daemon and a log.
func FuzzSpec(f *testing.F) {
	for _, m := range []*qunerv1.TuneStart{{}, {Workload: "bert", Objective: "edp", MaxWindows: 3}, {Workload: "chat", Attach: true, WorkloadUid: proto.Uint32(7)}, {Workload: "a b"}, {Profile: 9}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := new(qunerv1.TuneStart)
		if proto.Unmarshal(data, start) != nil {
			return
		}
		spec, err := specIn(start, caller{})
		if err != nil {
			if codeOf(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", start, err)
			}
			return
		}
		if !(spec.MaxSlowdown >= 0 && spec.MaxSlowdown < 1) || strings.ContainsAny(spec.Workload, " \n\x1b/") || len(spec.Workload) > 64 ||
			spec.MaxWindows < 0 || spec.MaxWindows > maxTuneWindows {
			t.Errorf("%v became %+v", start, spec)
		}
	})
}

func TestTheBestSoFarIsTheSearchs(t *testing.T) {
	axes := []tune.Axis{{Name: "gpu", States: []string{"100 W", "300 W"}}, {Name: "governor", States: []string{"powersave"}}}
	lit := tune.Sample{Work: 1, Seconds: 1, Joules: 100}
	for _, c := range []struct {
		p    tune.Progress
		want string
	}{
		{tune.Progress{Axis: "gpu", Best: 1, Sample: lit}, "300 W"},
		{tune.Progress{Axis: "governor", Best: 0, Sample: lit}, "powersave"},
		{tune.Progress{Axis: "gpu", Best: 0, Sample: tune.Sample{Void: "noise"}}, "100 W"},
		{tune.Progress{Axis: "gpu", Best: tune.Nothing, Sample: lit}, ""},
		{tune.Progress{Axis: "gpu", Best: 2, Sample: lit}, ""},
		{tune.Progress{Axis: "package", Best: 0, Sample: lit}, ""},
		{tune.Progress{Axis: "gpu", Best: 0, Sample: tune.Sample{Work: 1, Seconds: 1, Joules: math.NaN()}}, ""},
	} {
		if got := best(axes, c.p); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

func TestReportOfASweepThatFoundNothing(t *testing.T) {
	nan := math.NaN()
	r := reportOut(daemon.TuneReport{Result: tune.Result{
		Saved: tune.Interval{Value: nan, Low: nan, High: nan}, Payback: math.Inf(1), Note: "in turn",
		Axes: []tune.AxisResult{{Name: "gpu", Chosen: tune.Nothing, Verdict: tune.NoEnergy}},
	}, Note: "nothing to apply"}, daemon.TuneSpec{}, nil)
	if r.GetVerdict() != "no_energy" || r.GetCertified() || r.PaybackS != nil || len(r.GetChosenLabels()) != 0 ||
		r.Saving != nil || r.GetNote() != "Nothing to apply. In turn." {
		t.Errorf("%v", r)
	}
}
