package tune

import (
	"context"
	"encoding/csv"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	replayDir   = flag.String("curves", "testdata", "directory of measured power-cap curves to replay")
	replaySeeds = flag.Int("seeds", 10, "sweeps per curve and σ")
)

// curve is a measured power-cap curve, from the lowest cap to the highest: the truth a replayed sweep has to find.
type curve struct {
	name        string
	label       []string
	rate, watts []float64 // work/s, W
}

// noise is how a replayed window strays from the curve: relative standard deviations.
type noise struct {
	joules float64 // of joules per work
	watts  float64 // of the device's watts
	speed  float64 // of work/s
	drift  float64 // by which joules per work and watts grow with each window
}

// seeded is the usual noise at σ: σ on joules per work, σ/2 on watts.
func seeded(sigma float64) noise { return noise{joules: sigma, watts: sigma / 2} }

func (c curve) top() int             { return len(c.rate) - 1 }
func (c curve) cost(s int) float64   { return c.watts[s] / c.rate[s] }
func (c curve) allowed(s int) bool   { return c.rate[s] >= 0.9*c.rate[c.top()] }
func (c curve) spread() float64      { return slices.Max(c.watts)/slices.Min(c.watts) - 1 }
func (c curve) axis() Axis           { return Axis{Name: "gpu", States: c.label, Found: c.top()} }
func (c curve) regret(s int) float64 { return c.cost(s)/c.cost(c.best()) - 1 }

// best is the allowed state of least true joules per work.
func (c curve) best() int {
	best := c.top()
	for s := range c.rate {
		if c.allowed(s) && c.cost(s) < c.cost(best) {
			best = s
		}
	}
	return best
}

// trial replays the curve along the last axis of the state.
func (c curve) trial(seed uint64, n noise) Trial {
	rng := rand.New(rand.NewPCG(seed, 1))
	window := 0.0
	return func(_ context.Context, state []int) (Sample, error) {
		s := state[len(state)-1]
		drift := math.Exp(n.drift * window)
		window++
		work := c.rate[s] * (1 + n.speed*rng.NormFloat64())
		return Sample{
			Work:     work,
			Seconds:  1,
			Joules:   work * c.cost(s) * drift * (1 + n.joules*rng.NormFloat64()),
			Achieved: c.watts[s] * drift * (1 + n.watts*rng.NormFloat64()),
		}, nil
	}
}

// readCurves reads every curve of the zeus form in dir.
func readCurves(t *testing.T, dir string) []curve {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no curves: %v", dir, err)
	}
	var all []curve
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, row := range rows[1:] {
			name := filepath.Base(file) + " " + strings.Join(row[:4], " ")
			if len(all) == 0 || all[len(all)-1].name != name {
				all = append(all, curve{name: name})
			}
			c := &all[len(all)-1]
			c.label = append(c.label, row[4]+" W")
			c.rate = append(c.rate, 1/number(t, row[5]))
			c.watts = append(c.watts, number(t, row[6]))
		}
	}
	return slices.DeleteFunc(all, func(c curve) bool { return c.top() == 0 })
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// score is the figures of a replay: shares 0…1, regret as a fraction.
type score struct {
	sweeps                                      float64
	inBand, windows, certified, wrong, tooSlow  float64
	flat, flatRight, meanRegret, p99Regret, max float64
	regrets                                     []float64
}

// replay sweeps every curve with many seeds. Flat recall is over curves that are clearly flat or clearly not, all other
// figures over those that are not flat. A state that is better than the best allowed one counts as no regret, not less.
func replay(t *testing.T, curves []curve, n noise, opts Options) score {
	t.Helper()
	var a score
	for _, c := range curves {
		for seed := range uint64(*replaySeeds) {
			opts.Seed = seed
			r, err := Sweep(t.Context(), []Axis{c.axis()}, c.trial(seed, n), opts)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			a.add(c, r)
		}
	}
	slices.Sort(a.regrets)
	a.p99Regret = a.regrets[len(a.regrets)*99/100]
	a.wrong /= max(1, a.certified)
	a.flatRight /= a.flat
	for _, v := range []*float64{&a.inBand, &a.windows, &a.certified, &a.tooSlow, &a.meanRegret} {
		*v /= a.sweeps
	}
	return a
}

func (a *score) add(c curve, r Result) {
	x := r.Axes[0]
	if c.spread() < 0.03 || c.spread() > 0.08 {
		a.flat++
		if (x.Verdict == Flat) == (c.spread() < 0.03) {
			a.flatRight++
		}
	}
	if c.spread() <= 0.08 {
		return
	}
	a.sweeps++
	a.windows += float64(r.Windows)
	regret := max(0, c.regret(x.Chosen))
	a.regrets = append(a.regrets, regret)
	a.meanRegret += regret
	a.max = max(a.max, regret)
	inside := regret <= Band
	if inside {
		a.inBand++
	}
	if x.Verdict == Interior || x.Verdict == Edge {
		a.certified++
		if !inside {
			a.wrong++
		}
	}
	if !c.allowed(x.Chosen) {
		a.tooSlow++
	}
}

func (a score) log(t *testing.T, what string) {
	t.Helper()
	t.Logf("%-28s in band %.4f  windows %5.2f  regret %.4f p99 %.4f max %.3f  certified %.4f wrong %.4f  flat %.4f  slow %.4f",
		what, a.inBand, a.windows, a.meanRegret, a.p99Regret, a.max, a.certified, a.wrong, a.flatRight, a.tooSlow)
}

// TestReplay holds the search to its bars at σ = 2 % on measured curves; -v prints the other noises, -curves DIR and
// -seeds N replay a whole collection.
func TestReplay(t *testing.T) {
	curves := readCurves(t, *replayDir)
	a := replay(t, curves, seeded(0.02), Options{})
	a.log(t, "σ 2 %")
	for _, bar := range []struct {
		what string
		ok   bool
	}{
		{"in band ≥ 98.5 %", a.inBand >= 0.985},
		{"mean windows ≤ 15", a.windows <= 15},
		{"mean regret ≤ 0.15 %", a.meanRegret <= 0.0015},
		{"p99 regret ≤ 3 %", a.p99Regret <= 0.03},
		{"certified ≥ 90 %", a.certified >= 0.90},
		{"wrong certificates ≤ 5 %", a.wrong <= 0.05},
		{"flat recall ≥ 98 %", a.flatRight >= 0.98},
		{"too slow ≤ 5 %", a.tooSlow <= 0.05},
	} {
		if !bar.ok {
			t.Errorf("not met at σ = 2 %%: %s", bar.what)
		}
	}
	if !testing.Verbose() {
		return
	}
	for _, sigma := range []float64{0.005, 0.01, 0.03} {
		b := replay(t, curves, seeded(sigma), Options{})
		b.log(t, "σ "+strconv.FormatFloat(100*sigma, 'g', 3, 64)+" %")
	}
	noisy := seeded(0.02)
	for _, speed := range []float64{0.005, 0.01, 0.02} {
		noisy.speed = speed
		b := replay(t, curves, noisy, Options{})
		b.log(t, "σ 2 %, speed "+strconv.FormatFloat(100*speed, 'g', 3, 64)+" %")
	}
}

// TestReplayUnderDrift: a host that warms up through the sweep must not tilt the choice.
func TestReplayUnderDrift(t *testing.T) {
	curves := readCurves(t, *replayDir)
	for _, drift := range []float64{0.002, 0.005, -0.005, 0.02} {
		n := seeded(0.01)
		n.drift = drift
		a := replay(t, curves, n, Options{})
		a.log(t, "σ 1 %, drift "+strconv.FormatFloat(100*drift, 'g', 3, 64)+" %/window")
		if a.inBand < 0.97 || a.wrong > 0.05 {
			t.Errorf("drift %v a window: in band %.4f, wrong %.4f", drift, a.inBand, a.wrong)
		}
	}
}
