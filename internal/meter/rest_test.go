package meter

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval holds the truth, for independent parts and for ones that swing slowly.
func TestScatterCoversTheTruth(t *testing.T) {
	for _, c := range []struct {
		name  string
		again float64 // correlation of neighbours
		parts int
		least float64
	}{
		{"independent", 0, 30, 0.95},
		{"swinging", 0.3, 60, 0.90},
		{"many", 0.5, 600, 0.95},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			const runs = 2000
			held := 0
			for range runs {
				watts, x := make([]float64, c.parts), rng.NormFloat64()
				for i := range watts {
					x = c.again*x + math.Sqrt(1-c.again*c.again)*rng.NormFloat64()
					watts[i] = 50 + x
				}
				if _, half := scatter(watts); math.Abs(mean(watts)-50) <= half {
					held++
				}
			}
			share := float64(held) / runs
			t.Logf("%.1f %% of intervals hold the truth", 100*share)
			if share < c.least {
				t.Errorf("coverage %.3f, want at least %.3f", share, c.least)
			}
		})
	}
}

func TestStudentIsStudents(t *testing.T) {
	for dof, want := range map[int]float64{1: 12.706, 7: 2.365, 10: 2.228, 11: 2.201, 29: 2.045, 100: 1.984, 1e6: 1.960} {
		if got := student95(dof); math.Abs(got-want) > 0.003 {
			t.Errorf("%d degrees of freedom: %.4f, want %.3f", dof, got, want)
		}
	}
}

// course makes parts of levels: n parts of a power each, with 1 % of ripple.
func course(levels ...float64) []float64 {
	var watts []float64
	for i := 0; i+1 < len(levels); i += 2 {
		for n := range int(levels[i]) {
			ripple := 1.01
			if n%2 == 0 {
				ripple = 0.99
			}
			watts = append(watts, levels[i+1]*ripple)
		}
	}
	return watts
}

func TestRestIsToldFromATailAndFromWork(t *testing.T) {
	for _, c := range []struct {
		name                         string
		watts                        []float64
		settled, rose, fell, drifted bool
	}{
		{"rest", course(30, 31), true, false, false, false},
		{"too short to tell", course(9, 31), false, false, false, false},
		{"a tail", course(5, 80, 5, 60), false, false, false, true},
		{"work begins", course(20, 31, 3, 90), false, true, false, true},
		{"a spike is rest", append(course(20, 31), 60, 31, 31, 31, 31, 31), true, false, false, false},
		{"a lower level after a while", course(15, 60, 3, 31), false, false, true, false},
		{"creeps", course(10, 50, 10, 48.5, 10, 47), true, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, rose, fell := moved(c.watts)
			if got := settled(c.watts); got != c.settled {
				t.Errorf("settled %v, want %v", got, c.settled)
			}
			if rose != c.rose || fell != c.fell || drifts(c.watts) != c.drifted {
				t.Errorf("rose %v, fell %v, drifts %v; want %v, %v, %v", rose, fell, drifts(c.watts), c.rose, c.fell, c.drifted)
			}
		})
	}
}
