package hostsim

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Names of the simulated workstation that tests go by.
const (
	packageCounter = "class/powercap/intel-rapl:0/energy_uj"
	packageLimit   = "class/powercap/intel-rapl:0/constraint_0_power_limit_uw"
	mmioLimit      = "class/powercap/intel-rapl-mmio:0/constraint_0_power_limit_uw"
	governor0      = "devices/system/cpu/cpufreq/policy0/scaling_governor"
	a40            = "GPU-6f1d2c44-90ab-4e57-8a3b-c2d1e0f94a40"
)

// fixture returns a built-in machine with parts of its text replaced, old then new.
func fixture(t testing.TB, name string, change ...string) Fixture {
	t.Helper()
	f, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(change...).Replace(string(f.source))
	if len(change) > 0 && bytes.Equal(f.source, []byte(text)) {
		t.Fatalf("%q is not in %s", change[0], name)
	}
	f, err = parseFixture([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// newSim sets a machine up in a temporary directory.
func newSim(t testing.TB, f Fixture) *Sim {
	t.Helper()
	s, err := New(t.TempDir(), f, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// quiet is the workstation without noise.
func quiet(t testing.TB) Fixture {
	t.Helper()
	return fixture(t, "workstation", "sigma = 0.01", "sigma = 0")
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.6g, want %.6g ± %.2g", what, got, want, tolerance)
	}
}

// TestPhysics checks the watts and rates of chosen states against the model's arithmetic, done by hand.
func TestPhysics(t *testing.T) {
	tests := []struct {
		name                  string
		cpu, gpu              float64
		governor, pl1         string
		cap                   unit.Power
		gpuW, packageW, dramW float64
		gpuRate, cpuRate      float64
		frequency             string
		loadAverage           string
	}{
		{"at rest", 0, 0, "", "", 0, 31, 9, 1.8, 0, 0, "800000", "0.00"},
		// 3600/3739.5 epochs an hour × 45 × (1 − 0.1 × 0.02); the input pipeline takes 0.3 of the CPU.
		{"training", 0, 1, "", "", 0, 244.261, 9 + .3*72*.95, 1.8 + .3*5, .962696 * 45 * .998, 0, "1500000", "2.40"},
		{"training at 200 W", 0, 1, "", "", 200 * unit.Watt, 179.226, 9 + .3*72*.95, 3.3, .901715 * 45 * .998, 0, "1500000", "2.40"},
		{"half a load", 0, .5, "", "", 0, 31 + (244.261-31)/2, 9 + .15*72*.95, 1.8 + .15*5, .962696 * 45 * .998 / 2, 0, "1200000", "1.20"},
		// 9 + 68.4 W would be above PL1: 56/68.4 of the dynamic power leaves the cube root of the speed.
		{"compiling", 1, 0, "", "", 0, 31, 65, 6.8, 0, 98 * math.Cbrt(56/68.4), "3001000", "8.00"},
		{"compiling at 30 W", 1, 0, "", "30000000", 0, 31, 30, 6.8, 0, 98 * math.Cbrt(21/68.4), "3001000", "8.00"},
		{"compiling, limit unset", 1, 0, "", "0", 0, 31, 65, 6.8, 0, 98 * math.Cbrt(56/68.4), "3001000", "8.00"},
		{"compiling slowly", 1, 0, "powersave", "", 0, 31, 9 + 72*.11, 6.8, 0, 22, "800000", "8.00"},
		{"performance at rest", 0, 0, "performance", "", 0, 31, 12, 1.8, 0, 0, "3001000", "0.00"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, quiet(t))
				for _, dir := range s.fix.policies {
					if c.governor != "" {
						mustForeign(t, s, dir+"/scaling_governor", c.governor)
					}
				}
				if c.pl1 != "" {
					mustForeign(t, s, "sys/"+packageLimit, c.pl1)
				}
				if c.cap != 0 {
					mustForeign(t, s, "gpu0/limit_mw", "200000")
				}
				s.SetLoad("cpu", c.cpu)
				s.SetLoad("gpu0", c.gpu)
				time.Sleep(10 * time.Second)
				near(t, "gpu0", s.Truth("gpu0").Joules(), 10*c.gpuW, .02)
				near(t, "package-0", s.Truth("package-0").Joules(), 10*c.packageW, .02)
				near(t, "core", s.Truth("core").Joules(), 8*c.packageW, .02)
				near(t, "dram", s.Truth("dram").Joules(), 10*c.dramW, .02)
				near(t, "psys", s.Truth("psys").Joules(), 10*(c.packageW+c.dramW+14), .05)
				near(t, "rate of gpu0", s.Rate("gpu0"), c.gpuRate, 1e-3)
				near(t, "rate of cpu", s.Rate("cpu"), c.cpuRate, 1e-6)
				if f, err := s.Host().Sys.ReadString(filepath.Dir(governor0) + "/scaling_cur_freq"); f != c.frequency {
					t.Errorf("frequency %q (%v), want %q", f, err, c.frequency)
				}
				// As a library reads it, past the hook.
				avg, err := os.ReadFile(s.Host().Proc.File("loadavg"))
				if one, _, _ := strings.Cut(string(avg), " "); one != c.loadAverage {
					t.Errorf("load average %q (%v), want %q", one, err, c.loadAverage)
				}
			})
		})
	}
}

func mustForeign(t *testing.T, s *Sim, name, value string) {
	t.Helper()
	if err := s.Foreign(name, value); err != nil {
		t.Fatal(err)
	}
}

// TestReadingChangesNothing lets the same minute pass under a reader and without one.
func TestReadingChangesNothing(t *testing.T) {
	minute := func(t *testing.T, seed uint64, reader *rand.Rand) (sum unit.Energy) {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(t.TempDir(), fixture(t, "workstation"), Options{Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			events := rand.New(rand.NewPCG(7, 7))
			for range 60 {
				s.SetLoad("gpu0", events.Float64())
				s.SetLoad("cpu", events.Float64())
				mustForeign(t, s, "gpu0/limit_mw", []string{"100000", "212345", "300000"}[events.IntN(3)])
				next := time.Now().Add(time.Duration(events.Int64N(int64(2 * time.Second))))
				for reader != nil && reader.IntN(10) > 0 {
					time.Sleep(min(time.Until(next), time.Duration(reader.Int64N(int64(150*time.Millisecond)))))
					if _, err := s.Host().Sys.ReadUint(packageCounter); err != nil {
						t.Fatal(err)
					}
					_, _ = s.boards[0].Energy()
				}
				time.Sleep(time.Until(next))
			}
			sum = s.Truth("gpu0") + s.Truth("package-0") + s.Truth("dram")
		})
		return sum
	}
	alone := minute(t, 1, nil)
	for i := range 3 {
		if read := minute(t, 1, rand.New(rand.NewPCG(1, uint64(i)))); read != alone {
			t.Errorf("%d µJ under a reader, %d µJ without", read, alone)
		}
	}
	if other := minute(t, 2, nil); other == alone {
		t.Error("another seed draws the very same energy")
	}
}

// TestNoise measures the noise of 100 ms means.
func TestNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation"))
		s.SetLoad("gpu0", 1)
		var n, mean, squares float64
		last := s.Truth("gpu0")
		for range 2000 {
			time.Sleep(cell)
			e := s.Truth("gpu0")
			w := e.Joules()/cell.Seconds() - last.Joules()/cell.Seconds()
			last = e
			n++
			d := w - mean
			mean += d / n
			squares += d * (w - mean)
		}
		near(t, "mean power", mean, 244.261, 244.261*.001)
		near(t, "relative deviation", math.Sqrt(squares/n)/mean, .01, .0007)
	})
}

// TestWorkstationOptimum proves that the built-in board has something to find: the best state of the whole host lies
// inside the range, is fast enough, and nearly alone.
func TestWorkstationOptimum(t *testing.T) {
	s := newSim(t, fixture(t, "workstation"))
	states := s.States(0)
	top := states[len(states)-1]
	perJoule := func(x State) float64 { return x.Rate / x.Power.Watts() }
	best, worst, inBand := 0, 0, 0
	for i, x := range states {
		if perJoule(x) > perJoule(states[best]) && x.Rate >= .9*top.Rate {
			best = i
		}
		if perJoule(x) < perJoule(states[worst]) {
			worst = i
		}
	}
	for _, x := range states {
		if x.Rate >= .9*top.Rate && perJoule(x)*1.0191 >= perJoule(states[best]) {
			inBand++
		}
		if perJoule(x) > perJoule(states[best]) {
			t.Errorf("%v is better still: the optimum is only the speed limit's", x.Cap)
		}
	}
	if best == 0 || best == len(states)-1 || states[best].Cap != 200*unit.Watt {
		t.Errorf("the best state is %v", states[best].Cap)
	}
	if inBand != 1 {
		t.Errorf("%d states within the band", inBand)
	}
	if spread := 1 - perJoule(states[worst])/perJoule(states[best]); spread < .08 {
		t.Errorf("a spread of %.3f", spread)
	}
	if top.Rate < 30 || top.Rate > 60 {
		t.Errorf("%.1f units a second", top.Rate)
	}
}

// TestHourOfLoad runs an hour with the reads of a daemon at rest, across a wrap.
func TestHourOfLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation"))
		s.SetLoad("gpu0", 1)
		const span = 262143328911
		start := time.Now()
		last, err := s.Host().Sys.ReadUint(packageCounter)
		if err != nil {
			t.Fatal(err)
		}
		var total, wraps uint64
		for time.Since(start) < time.Hour {
			time.Sleep(10 * time.Second)
			v, err := s.Host().Sys.ReadUint(packageCounter)
			if err != nil {
				t.Fatal(err)
			}
			if v < last {
				wraps++
			}
			total += (v + span - last) % span
			last = v
		}
		if wraps != 1 {
			t.Errorf("the package's counter wrapped %d times, want once", wraps)
		}
		near(t, "package's counter", float64(total)*1e-6, s.Truth("package-0").Joules(), .1)
		near(t, "an hour of the board", s.Truth("gpu0").Joules(), 244.261*3600, 200)
	})
}

func TestWorkInSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, quiet(t))
		rate := s.States(0)[8].Rate
		begin := time.Now()
		if err := s.Work(t.Context(), "gpu0", 10*rate); err != nil {
			t.Fatal(err)
		}
		near(t, "seconds alone", time.Since(begin).Seconds(), 10, 1e-6)

		// Half-way the cap falls to 200 W.
		begin = time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			mustForeign(t, s, "gpu0/limit_mw", "200000")
		}()
		if err := s.Work(t.Context(), "gpu0", 10*rate); err != nil {
			t.Fatal(err)
		}
		near(t, "seconds with a lower cap", time.Since(begin).Seconds(), 5+5*3992.39/3739.5, 1e-4)

		// Two at a time take twice as long.
		begin = time.Now()
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- s.Work(t.Context(), "gpu0", s.States(0)[4].Rate) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		near(t, "seconds of two", time.Since(begin).Seconds(), 2, 1e-6)
		if r := s.Rate("gpu0"); r != 0 {
			t.Errorf("a rate of %g with nothing to do", r)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Work(ctx, "gpu0", 1e9); err != context.DeadlineExceeded { //nolint:errorlint // exactly it
			t.Errorf("an endless job ended with %v", err)
		}
		if err := s.Work(t.Context(), "gpu1", 1); err == nil {
			t.Error("a board that is not there has worked")
		}
	})
}

// TestTwoPackages checks that packages share the CPU's power, and that zones belong to the package they lie in, whatever
// their number in the tree.
func TestTwoPackages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := func(dir, name string) string {
			return "-- sys/devices/virtual/powercap/intel-rapl/" + dir + "/name --\n" + name + "\n" +
				"-- sys/devices/virtual/powercap/intel-rapl/" + dir + "/energy_uj --\n0\n"
		}
		s := newSim(t, fixture(t, "workstation", "sigma = 0.01", "sigma = 0",
			"-- proc/loadavg --", zone("intel-rapl:2", "package-1")+zone("intel-rapl:2/intel-rapl:2:0", "dram")+"-- proc/loadavg --"))
		s.SetLoad("cpu", .5)
		time.Sleep(10 * time.Second)
		for device, watts := range map[string]float64{
			"package-0": (9 + .5*68.4) / 2, "package-1": (9 + .5*68.4) / 2,
			"dram": (1.8 + .5*5) / 2, "package-1/dram": (1.8 + .5*5) / 2,
			"psys": 9 + .5*68.4 + 1.8 + .5*5 + 14,
		} {
			near(t, device, s.Truth(device).Joules(), 10*watts, 1e-4)
		}
		v, err := s.Host().Sys.ReadUint("devices/virtual/powercap/intel-rapl/intel-rapl:2/energy_uj")
		if err != nil || v != uint64(s.Truth("package-1")) {
			t.Errorf("a zone without a range counts %d, %v; the truth is %d", v, err, s.Truth("package-1"))
		}
	})
}
