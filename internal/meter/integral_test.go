package meter

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// moment returns the moment of a sample, so many seconds after the beginning of all tests here.
func moment(seconds float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(math.Round(seconds * 1e9)))
}

func sampleOf(watts, seconds float64) powerSample {
	return powerSample{power: unit.FromWatts(watts), at: moment(seconds)}
}

// every returns a sample at each multiple of a period from one second to another, inclusive.
func every(watts, from, to, period float64) []powerSample {
	var all []powerSample
	for i := 0; from+float64(i)*period <= to+1e-9; i++ {
		all = append(all, sampleOf(watts, from+float64(i)*period))
	}
	return all
}

func lost(samples ...powerSample) []powerSample {
	for i := range samples {
		samples[i].err = errors.New("not read")
	}
	return samples
}

func joined(parts ...[]powerSample) []powerSample {
	var all []powerSample
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const second = time.Second

// TestIntegralVectors checks figures worked out by hand: the energy from the first sample to the last, its half-width, and
// the time between samples that is counted.
func TestIntegralVectors(t *testing.T) {
	jitter := []powerSample{sampleOf(300, 0)}
	for _, s := range []float64{0.9, 2.1, 2.95, 4.3, 5, 6.4, 7.1, 8.2, 8.9, 10} {
		jitter = append(jitter, sampleOf(300, s))
	}
	for _, c := range []struct {
		name    string
		sensor  powerSensor
		samples []powerSample
		joules  float64
		half    float64
		known   float64 // seconds
		reason  string
	}{
		{"constant 300 W for 10 s", powerSensor{period: second}, every(300, 0, 10, 1), 3000, 0, 10, ""},
		{"50 W for 10 s, then 300 W for 10 s", powerSensor{period: second},
			joined(every(50, 0, 10, 1), every(300, 11, 20, 1)), 500 + 175 + 2700, 125, 20, ""},
		{"the step right after a sample", powerSensor{period: second},
			joined(every(50, 0, 10, 1), every(300, 10.000000001, 20, 1)), 500 + 3000, 0, 20, ""},
		{"zeros are figures", powerSensor{period: second}, joined(every(0, 0, 5, 1), every(100, 6, 10, 1)), 450, 50, 10, ""},
		{"one missing in the middle", powerSensor{period: second},
			joined(every(300, 0, 4, 1), lost(sampleOf(0, 5)), every(300, 6, 10, 1)), 3000, 0, 10, ""},
		{"one missing across a step", powerSensor{period: second},
			joined(every(50, 0, 4, 1), lost(sampleOf(0, 5)), every(300, 6, 10, 1)), 200 + 350 + 1200, 250, 10, ""},
		{"two missing in a row are a gap", powerSensor{period: second},
			joined(every(300, 0, 4, 1), lost(sampleOf(0, 5), sampleOf(0, 6)), every(300, 7, 10, 1)), 2100, 0, 7, ""},
		{"2.5 periods are none", powerSensor{period: second}, joined(every(300, 0, 4, 1), every(300, 6.5, 10.5, 1)), 3150, 0, 10.5, ""},
		{"jittered periods", powerSensor{period: second}, jitter, 3000, 0, 10, ""},
		{"sentinels", powerSensor{period: second, limit: 450 * unit.Watt},
			joined(every(300, 0, 2, 1), every(65.535, 3, 3, 1), every(300, 4, 4, 1), every(4294967.295, 5, 5, 1), every(300, 6, 6, 1),
				every(451, 7, 7, 1), every(300, 8, 8, 1), every(-1, 9, 9, 1), every(300, 10, 10, 1)), 3000, 0, 10, ""},
		{"the limit itself is a figure", powerSensor{period: second, limit: 450 * unit.Watt}, every(450, 0, 10, 1), 4500, 0, 10, ""},
		{"out of order and twice", powerSensor{period: second},
			joined(every(300, 0, 5, 1), every(900, 3, 3, 1), every(300, 5, 10, 1)), 3000, 0, 10, ""},
		// The mean shows the step at 5 s as a ramp of 1 s; half a second of the difference is still outside at the end.
		{"a mean over 1 s, closed under load", powerSensor{period: 0.5e9, averaging: second},
			joined(every(50, 0, 5, .5), []powerSample{sampleOf(175, 5.5)}, every(300, 6, 10, .5)), 250 + 1500, 82.99, 10, ""},
		{"a mean over 1 s in a window of 0.5 s", powerSensor{period: 0.5e9, averaging: second},
			every(300, 0, .5, .5), 150, 0, .5, ReasonAveraging},
		{"a sensor that is up to 100 ms late", powerSensor{period: 0.1e9, update: 0.1e9},
			joined(every(50, 0, 5, .1), every(300, 5.1, 10, .1)), 250 + 1500 - 12.5 + 12.5, 23.47, 10, ""},
	} {
		g := newIntegral(c.sensor)
		var from powerMark
		for _, s := range c.samples {
			if _, v := g.step(s); v == began {
				from = g.mark()
			}
		}
		f := c.sensor.between(from, g.mark())
		if d := math.Abs(f.energy.Joules() - c.joules); d > 1e-5 {
			t.Errorf("%s: %v, want %g J", c.name, f.energy, c.joules)
		}
		if d := math.Abs(f.half.Joules() - c.half); d > 0.01 {
			t.Errorf("%s: ± %v, want %g J", c.name, f.half, c.half)
		}
		if math.Abs(f.known.Seconds()-c.known) > 1e-6 || f.reason != c.reason {
			t.Errorf("%s: %v known, reason %q; want %g s, %q", c.name, f.known, f.reason, c.known, c.reason)
		}
	}
}

// TestIntegralOfTheDocumentedStep: sampled at the step itself, twice, 50 W then 300 W for 10 s each are 3500 J; sampled once
// a second they are 3500 J with the step's 125 J.
func TestIntegralOfTheDocumentedStep(t *testing.T) {
	for phase := 0.0; phase < 1; phase += 0.05 {
		sensor := powerSensor{period: second}
		g := newIntegral(sensor)
		var from powerMark
		for i := range 22 { // 50 W up to 10 s, 300 W up to 20 s; the window is the 20 s
			s := float64(i) - phase
			if s < 0 {
				s = 0
			}
			s = min(s, 20)
			w := 50.0
			if s >= 10 {
				w = 300
			}
			g.step(sampleOf(w, s))
			if i == 0 {
				from = g.mark()
			}
		}
		f := sensor.between(from, g.mark())
		if f.length != 20*second || math.Abs(f.energy.Joules()-3500) > 125+1e-6 || f.half != 125*unit.Joule {
			t.Errorf("phase %.2f: %v ± %v over %v", phase, f.energy, f.half, f.length)
		}
	}
}

// TestIntegralCoverage lets a step fall anywhere and demands that the interval holds at least 95 % of the errors.
func TestIntegralCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name   string
		sensor powerSensor
		steps  int
	}{
		{"one step", powerSensor{period: second}, 1},
		{"twenty steps", powerSensor{period: second}, 20},
		{"late sensor", powerSensor{period: second / 10, update: second / 10}, 5},
		{"late sensor, seldom looked at", powerSensor{period: second, update: second / 10}, 5},
	} {
		const windows = 2000
		inside, sum, width := 0, 0.0, 0.0
		for range windows {
			truth, f := randomWindow(random, c.sensor, c.steps)
			off := f.energy.Joules() - truth
			sum, width = sum+off, width+f.half.Joules()
			if math.Abs(off) <= f.half.Joules()+1e-5 {
				inside++
			}
		}
		share, mean := float64(inside)/windows, sum/windows
		t.Logf("%s: %.1f %% inside, mean error %.2f J, mean half-width %.1f J", c.name, share*100, mean, width/windows)
		if share < 0.95 || math.Abs(mean) > 0.1*width/windows {
			t.Errorf("%s: %.1f %% inside, mean error %.2f J", c.name, share*100, mean)
		}
	}
}

// randomWindow makes 20 s of power with jumps at random moments and returns its true energy and the integral's figure.
func randomWindow(random *rand.Rand, sensor powerSensor, steps int) (truth float64, f powerFigure) {
	when := make([]float64, steps)
	watts := []float64{50 + 250*random.Float64()}
	for i := range when {
		when[i] = 1 + 18*random.Float64()
		watts = append(watts, 50+250*random.Float64())
	}
	for i := range when { // sorted, so that no two jumps share their place in watts
		for j := range when[:i] {
			if when[i] < when[j] {
				when[i], when[j] = when[j], when[i]
			}
		}
	}
	power := func(s float64) float64 {
		i := 0
		for i < len(when) && when[i] <= s {
			i++
		}
		return watts[i]
	}
	before := 0.0
	for i, s := range append(when, 20) {
		truth += watts[i] * (s - before)
		before = s
	}
	phase := random.Float64() * sensor.update.Seconds()
	g := newIntegral(sensor)
	var from powerMark
	for i := range int(20/sensor.period.Seconds()) + 1 {
		s := float64(i) * sensor.period.Seconds()
		seen := s
		if step := sensor.update.Seconds(); step > 0 {
			seen = max(0, math.Floor((s-phase)/step)*step+phase)
		}
		g.step(sampleOf(power(seen), s))
		if i == 0 {
			from = g.mark()
		}
	}
	return truth, sensor.between(from, g.mark())
}

// TestIntegralIsExact: the integral of straight lines through their own ends is exact to what an integer holds, however
// long.
func TestIntegralIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		g := newIntegral(powerSensor{period: second})
		sum, last := new(big.Int), powerSample{}
		now := moment(0)
		for i := range 300 {
			s := powerSample{power: unit.Power(random.Int64N(int64(unit.Kilowatt))), at: now}
			if isSentinel(s.power) {
				continue
			}
			if e, v := g.step(s); i > 0 && v != noLapse || e < 0 {
				t.Fatalf("sample %d: %v, %v", i, e, v)
			}
			if i > 0 {
				twice := big.NewInt(int64(s.power + last.power))
				sum.Add(sum, twice.Mul(twice, big.NewInt(int64(s.at.Sub(last.at)))))
			}
			last, now = s, now.Add(1+time.Duration(random.Int64N(int64(2500*time.Millisecond))))
		}
		whole, rest := new(big.Int).DivMod(sum, big.NewInt(halfMicrojoule), new(big.Int))
		if whole.Int64() != int64(g.total) || rest.Uint64() != g.rest {
			t.Fatalf("%d and %d halves, want %d and %d", g.total, g.rest, whole, rest)
		}
	}
}

func TestIntegralHolds(t *testing.T) {
	g := newIntegral(powerSensor{period: second})
	if _, _, ok := g.until(moment(0)); ok {
		t.Error("something is held before the first sample")
	}
	g.step(sampleOf(300, 0))
	g.step(sampleOf(300, 1))
	for _, c := range []struct {
		seconds, joules float64
		rest            time.Duration
	}{{1, 300, 0}, {2, 600, 0}, {2.5, 750, 0}, {2.75, 750, second / 4}, {100, 750, 97500 * time.Millisecond}} {
		e, rest, ok := g.until(moment(c.seconds))
		if e != unit.FromJoules(c.joules) || rest != c.rest || !ok {
			t.Errorf("up to %g s: %v, %v unknown, %v", c.seconds, e, rest, ok)
		}
	}
	// The next sample shows that the power had fallen: what was told stands until the truth has caught up, and no more is told.
	if e, v := g.step(sampleOf(0, 1.5)); e != 750*unit.Joule || v != noLapse || g.mark().energy != 375*unit.Joule {
		t.Errorf("after the hold %v, %v; mark %v", e, v, g.mark().energy)
	}
	for i := range 20 {
		g.step(sampleOf(50, 2+float64(i)))
	}
	if e, _ := g.step(sampleOf(50, 22)); e != g.mark().energy || e != unit.FromJoules(375+12.5+1000) {
		t.Errorf("caught up to %v, mark %v", e, g.mark().energy)
	}
	if e, rest := g.sensor.held(300*unit.Watt, 2*second); e != 450*unit.Joule || rest != second/2 {
		t.Errorf("2 s before the first sample: %v, %v", e, rest)
	}
}

func TestIntegralSplits(t *testing.T) {
	g := newIntegral(powerSensor{period: second})
	for _, c := range []struct {
		sample powerSample
		joules float64
		lapse  lapse
	}{
		{lost(sampleOf(0, 0))[0], 0, missing}, {sampleOf(100, 1), 0, began}, {sampleOf(100, 2), 100, noLapse},
		{sampleOf(100, 4.51), 100, split}, {sampleOf(100, 5.51), 200, noLapse}, {sampleOf(100, 5.51), 200, stale},
		{sampleOf(100, 8.01), 450, noLapse},
	} {
		if e, v := g.step(c.sample); e != unit.FromJoules(c.joules) || v != c.lapse {
			t.Errorf("at %v: %v, %v; want %g J, %v", c.sample.at, e, v, c.joules, c.lapse)
		}
	}
}

// FuzzIntegral: whatever a sensor says and whenever, the energy never falls, is never more than the greatest power seen all
// the time, and what is counted is counted once.
func FuzzIntegral(f *testing.F) {
	f.Add(uint16(1000), []byte{100, 10, 100, 10, 0, 10, 255, 10, 100, 40})
	f.Add(uint16(1), []byte{0, 0, 0, 0})
	f.Add(uint16(100), []byte{1, 1, 2, 250, 3, 1, 4, 1})
	f.Fuzz(func(t *testing.T, ms uint16, steps []byte) {
		sensor := powerSensor{period: time.Duration(ms) * time.Millisecond, limit: 300 * unit.Watt, update: time.Duration(ms) * time.Millisecond / 3}
		g := newIntegral(sensor)
		now, highest, told := moment(0), unit.Power(0), unit.Energy(0)
		var known time.Duration
		for len(steps) >= 2 {
			now = now.Add((time.Duration(steps[1]) - 8) * sensor.period / 64)
			s := powerSample{power: unit.Power(steps[0])*unit.Watt*3/2 - unit.Watt, at: now}
			if steps[0] == 255 {
				s.power = math.MaxInt64
			}
			before := g.last.at
			e, v := g.step(s)
			if e < told {
				t.Fatalf("fell from %v to %v", told, e)
			}
			told = e
			if v.known() {
				known += s.at.Sub(before)
			}
			if v == noLapse || v == began || v == split {
				highest = max(highest, s.power)
			}
			if highest > sensor.limit {
				t.Fatalf("%v was taken for a power", highest)
			}
			if g.total > highest.Over(known)+1 {
				t.Fatalf("%v in %v at no more than %v", g.total, known, highest)
			}
			if steps[1]%7 == 0 {
				held, _, _ := g.until(now.Add(time.Duration(steps[1]) * sensor.period / 64))
				if held < told {
					t.Fatalf("held %v, told %v", held, told)
				}
				told = held
			}
			steps = steps[2:]
		}
		if m := g.mark(); m.variance < 0 || m.bound < 0 || math.IsNaN(m.variance) || m.spread < 0 {
			t.Fatalf("mark %+v", m)
		}
	})
}

// TestIntegralOfATelegraph: power that jumps between two levels about as often as the sensor looks is the hardest there is.
func TestIntegralOfATelegraph(t *testing.T) {
	const tick, windows = 0.001, 1000 // s
	random := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		update time.Duration
		length float64
	}{{0, 1}, {0, 10}, {second / 10, 1}, {second / 10, 10}} {
		sensor := powerSensor{period: second / 10, update: c.update}
		inside, sum, width := 0, 0.0, 0.0
		for range windows {
			watts, left := 50.0, random.ExpFloat64()*0.2
			phase := int(random.Float64() * 100)
			told, truth := watts, 0.0
			g := newIntegral(sensor)
			var from powerMark
			for i := range int(math.Round((2+c.length)/tick)) + 1 {
				if c.update == 0 || i%100 == phase {
					told = watts
				}
				if i%100 == 0 {
					g.step(sampleOf(told, float64(i)*tick))
				}
				if i == 2000 { // by then it has jumped at random
					from, truth = g.mark(), 0
				}
				truth += watts * tick
				if left -= tick; left <= 0 {
					watts, left = 350-watts, random.ExpFloat64()*0.2
				}
			}
			truth -= told * tick // the last tick lies beyond the window
			f := sensor.between(from, g.mark())
			off := f.energy.Joules() - truth
			sum, width = sum+off, width+f.half.Joules()
			if math.Abs(off) <= f.half.Joules()+1 {
				inside++
			}
		}
		share, mean := float64(inside)/windows, sum/windows
		t.Logf("%g s, a figure up to %v old: %.1f %% inside, mean error %.2f J, mean half-width %.1f J of %g J",
			c.length, c.update, share*100, mean, width/windows, 175*c.length)
		if share < 0.94 || math.Abs(mean) > 0.02*175*c.length {
			t.Errorf("%g s, up to %v old: %.1f %% inside, mean error %.2f J", c.length, c.update, share*100, mean)
		}
	}
}
