package server

import (
	"math"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
	"github.com/qunerd/quner/internal/unit"
)

// oneWindowSweep is what a budget of a window for each end comes to: figures, and intervals without an end.
func oneWindowSweep() daemon.TuneReport {
	wide := func(v float64) tune.Interval { return tune.Interval{Value: v, Low: 0, High: math.Inf(1)} }
	none := tune.Interval{Value: math.NaN(), Low: math.NaN(), High: math.NaN()}
	saved := tune.Interval{Value: 0.2, Low: math.Inf(-1), High: 1}
	return daemon.TuneReport{
		Energy: 100 * unit.Joule, Chosen: levers.NewPoint(levers.Setting{Lever: "nvml/GPU-1", Value: "100000"}),
		Result: tune.Result{
			Saved: saved, Slowdown: saved, Payback: 900, Chosen: []int{0},
			Axes: []tune.AxisResult{{Name: "gpu", Found: 2, Chosen: 0, Verdict: tune.Uncertified, States: []tune.StateResult{
				{Label: "100 W", Windows: 1, SameAs: tune.Nothing, WorkPerSecond: wide(1), Watts: wide(90), JoulesPerWork: wide(90), Achieved: 80},
				{Label: "200 W", SameAs: 2, Skipped: "draws what 300 W draws", WorkPerSecond: none, Watts: none, JoulesPerWork: none, Achieved: math.NaN()},
				{Label: "300 W", Windows: 1, SameAs: tune.Nothing, WorkPerSecond: wide(2), Watts: wide(200), JoulesPerWork: wide(100), Achieved: math.NaN()},
			}}},
		},
	}
}

func TestFiguresThatAreNotKnownAreAbsent(t *testing.T) {
	r := reportOut(oneWindowSweep(), daemon.TuneSpec{}, map[string]string{"nvml/GPU-1": "mW"})
	eachFigure(r.ProtoReflect(), func(name protoreflect.FullName, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s is %v", name, v)
		}
	})
	if r.GetSaving() != 0.2 || r.SavingHalfWidth != nil {
		t.Errorf("one window has no interval: saving %v ± %v", r.GetSaving(), r.SavingHalfWidth)
	}
	if r.PaybackS != nil {
		t.Errorf("a saving that is not certified pays nothing back: %g s", r.GetPaybackS())
	}
	if r.GetChosen()[0].GetUnit() != "mW" {
		t.Errorf("a value without its unit: %v", r.GetChosen())
	}
	s := r.GetStates()[1]
	if s.Watts != nil || s.AchievedWatts != nil || s.GetSameAs() != "300 W" || s.GetSkipped() != "draws what 300 W draws" || s.GetAxis() != "gpu" {
		t.Errorf("a state that nobody measured: %v", s)
	}
	p := progressOut(daemon.Progress{Progress: tune.Progress{Sample: tune.Sample{Work: 1, Seconds: 2, Joules: math.NaN()}}}, "")
	if p.Watts != nil || p.JoulesPerWork != nil || p.GetWorkPerSecond() != 0.5 {
		t.Errorf("a window without a counter: %v", p)
	}
}

// eachFigure visits every figure that is present.
func eachFigure(m protoreflect.Message, visit func(protoreflect.FullName, float64)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				eachFigure(v.List().Get(i).Message(), visit)
			}
		case fd.IsList():
		case fd.Kind() == protoreflect.MessageKind:
			eachFigure(v.Message(), visit)
		case fd.Kind() == protoreflect.DoubleKind:
			visit(fd.FullName(), v.Float())
		}
		return true
	})
}

func TestEnergyThatNobodyMeasuredIsAbsent(t *testing.T) {
	seen := meter.DeviceEnergy{Device: "gpu/GPU-1", Method: meter.Sampled, Coverage: 1, Energy: unit.Joule}
	small := meter.DeviceEnergy{Device: "gpu/GPU-1", Method: meter.Unknown, Coverage: 1, Energy: -unit.Joule}
	dark := meter.DeviceEnergy{Device: "cpu/package-0", Method: meter.Unknown, HalfWidth: unit.Joule}
	for name, c := range map[string]struct {
		method  meter.Method
		devices []meter.DeviceEnergy
		known   bool
	}{
		"no device":               {meter.Unknown, nil, false},
		"one that told nothing":   {meter.Unknown, []meter.DeviceEnergy{seen, dark}, false},
		"too small, for sums":     {meter.Unknown, []meter.DeviceEnergy{small}, true},
		"measured":                {meter.Sampled, []meter.DeviceEnergy{seen}, true},
		"estimated from the hint": {meter.Estimated, []meter.DeviceEnergy{dark}, true},
	} {
		r := resultOut(meter.Result{Method: c.method, Devices: c.devices})
		if (r.EnergyUj != nil) != c.known || (r.GrossUj != nil) != c.known || r.PlatformUj != nil {
			t.Errorf("%s: energy %v, gross %v, platform %v", name, r.EnergyUj, r.GrossUj, r.PlatformUj)
		}
		for i, d := range r.GetDevices() {
			if is := !unseen(c.devices[i]); (d.EnergyUj != nil) != is || (d.DeviceTotalUj != nil) != is || (d.GetTerms() != nil) != is {
				t.Errorf("%s: %v", name, d)
			}
		}
	}
	if s := stageOut(meter.Stage{Name: "load"}); s.EnergyUj != nil || s.GrossUj != nil {
		t.Errorf("a stage in which no counter moved: %v", s)
	}
}

func TestSignalThatIsNotThereIsAbsent(t *testing.T) {
	s := statusOut(&daemon.Status{Devices: []meter.DevicePower{{Device: "cpu/package-0"}, {Device: "gpu/GPU-1", Known: true}}})
	if s.GetSignal().GpuUtilisation != nil {
		t.Errorf("no board, yet it is used %v", s.GetSignal().GetGpuUtilisation())
	}
	if d := s.GetDevices(); d[0].PowerUw != nil || d[1].PowerUw == nil {
		t.Errorf("power %v and %v", d[0], d[1])
	}
	idle := statusOut(&daemon.Status{Signal: daemon.Signal{Sample: profiles.Sample{GPUs: 1}}})
	if got := idle.GetSignal(); got.GpuUtilisation == nil || got.GetGpuUtilisation() != 0 {
		t.Errorf("a board at rest: %v", got)
	}
}

func TestOfALeverThatMakesNoDifferenceNothingIsChosen(t *testing.T) {
	sweep := oneWindowSweep()
	sweep.Note = "not certified, so nothing is kept"
	sweep.Result.Axes[0].Verdict = tune.Flat
	sweep.Result.Saved, sweep.Result.Slowdown = tune.Interval{}, tune.Interval{}
	r := reportOut(sweep, daemon.TuneSpec{}, nil)
	if r.Saving != nil || r.SavingHalfWidth != nil || r.Slowdown != nil {
		t.Errorf("nothing was saved that anybody knows of: %v", r)
	}
	if len(r.GetChosen()) != 0 || len(r.GetChosenLabels()) != 0 || r.GetAxes()[0].GetChosen() != "" || r.GetStates()[0].GetChosen() || r.GetNote() != "" {
		t.Errorf("%v", r)
	}
}
