package meter

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// figureOf is a window of one second on a device.
func figureOf(energy, edges, floor float64, from string) Result {
	d := DeviceEnergy{
		Device: "gpu/a", Method: Sampled, Coverage: 1, FloorFrom: from,
		Energy: unit.FromJoules(energy), Gross: unit.FromJoules(energy + 50), Floor: unit.FromJoules(50),
		Terms: Terms{Edges: unit.FromJoules(edges), Floor: unit.FromJoules(floor)},
	}
	if d.Energy <= half(d.Terms) {
		d.Method = Unknown
	}
	return Result{Duration: time.Second, Method: d.Method, Devices: []DeviceEnergy{d}, Work: 2, Unit: "token"}
}

func TestSumsAddUpAsTheirPartsDepend(t *testing.T) {
	var same, two []Result
	for i := range 1000 {
		same = append(same, figureOf(10, 1, 2, "a"))
		two = append(two, figureOf(10, 1, 2, []string{"a", "b"}[i%2]))
	}
	s := SumOf(same)
	if s.Energy != 10_000*unit.Joule || s.Terms.Floor != 2000*unit.Joule || s.Small != 0 || !s.AboveIdle || s.Work != 2000 {
		t.Errorf("%+v", s)
	}
	// 1,000 windows at ±2 W of one floor are ±2,000 J, not ±63 J; the edges are ±32 J.
	if want := unit.FromJoules(math.Hypot(2000, math.Sqrt(1000))); (s.HalfWidth - want).Joules() > 0.001 {
		t.Errorf("± %v, want %v", s.HalfWidth, want)
	}
	if s := SumOf(two); (s.Terms.Floor.Joules() - 1000*math.Sqrt2) > 0.001 {
		t.Errorf("floors of two certificates: ± %v", s.Terms.Floor)
	}
	if one := SumOf(same[:1]); one.HalfWidth != half(same[0].Devices[0].Terms) || !one.HasPerUnit || one.PerUnit != 5 {
		t.Errorf("one window: %+v, want ± %v", one, half(same[0].Devices[0].Terms))
	}
}

// Each window is too small to be told from nothing, and a sum that leaves such windows out is biased.
func TestSumsHoldWhatIsTooSmallByItself(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []Result
	for range 10_000 {
		all = append(all, figureOf(0.1+random.NormFloat64()/2, 1, 0, "a"))
	}
	s := SumOf(all)
	if s.Small < 9000 || s.Small == s.Windows {
		t.Fatalf("%d of %d are small", s.Small, s.Windows)
	}
	if d := math.Abs(s.Energy.Joules() - 1000); d > s.HalfWidth.Joules() || s.HalfWidth.Joules() > 101 {
		t.Errorf("%v ± %v, want 1 kJ", s.Energy, s.HalfWidth)
	}
}

func TestSumsSayWhatTheyLack(t *testing.T) {
	lost := figureOf(0, 0, 0, "a")
	lost.Devices[0] = DeviceEnergy{Device: "gpu/a", Method: Unknown, FloorFrom: floorNone, bound: 300 * unit.Joule}
	lost.Work = 0
	s := SumOf([]Result{figureOf(10, 1, 2, "a"), lost})
	if s.Unmeasured != 1 || s.Energy != 10*unit.Joule || s.Work != 0 || s.HasPerUnit || s.UpperBound < 310*unit.Joule || !s.HasUpperBound || !s.Known {
		t.Errorf("%+v", s)
	}
	if s := SumOf([]Result{lost, {}}); s.Known || s.AboveIdle || s.Unmeasured != 2 || s.HasUpperBound {
		t.Errorf("nothing: %+v", s)
	}
	if s := SumOf(nil); s.Known || s.AboveIdle || s.Windows != 0 {
		t.Errorf("none: %+v", s)
	}
}
