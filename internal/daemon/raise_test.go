package daemon_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
	"github.com/qunerd/quner/internal/unit"
)

// power is a limit of a machine: what it may have at most, in its own unit.
type power struct{ found, stated int64 }

// isPower reports whether a setting of a machine is a limit of power.
func isPower(name string) bool {
	return strings.HasSuffix(name, "/limit_mw") || strings.HasSuffix(name, "power_limit_uw") || strings.HasSuffix(name, "/power1_cap")
}

// numberOf reads a setting.
func numberOf(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stated is the most that a machine says a limit takes, read past quner; 0 where it says nothing that makes sense.
func stated(t *testing.T, sim *hostsim.Sim, name string) int64 {
	t.Helper()
	if strings.HasSuffix(name, "/limit_mw") {
		for _, board := range sim.Host().GPUs.All() {
			if _, hi, err := board.LimitRange(); err == nil && name == fmt.Sprintf("gpu%d/limit_mw", boardIndex(sim, board.Info().UUID)) {
				return int64(hi / unit.Milliwatt)
			}
		}
		return 0
	}
	file := strings.Replace(strings.Replace(name, "power_limit_uw", "max_power_uw", 1), "power1_cap", "power1_cap_max", 1)
	text, err := os.ReadFile(filepath.Join(sim.Dir(), "host", file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n > int64(2*unit.Kilowatt/unit.Microwatt) {
		return 0
	}
	return n
}

// boardIndex is the place of a board in the driver's order, which is the simulation's.
func boardIndex(sim *hostsim.Sim, uuid string) int {
	for i, board := range sim.Host().GPUs.All() {
		if board.Info().UUID == uuid {
			return i
		}
	}
	return -1
}

// lowered is a host on which somebody has set limits below what the hardware takes, where it lets them: there is something
// to be raised. It returns the limits as they are found.
func lowered(t *testing.T, name string) (*hostsim.Sim, map[string]power) {
	t.Helper()
	sim := machine(t, name)
	for setting, text := range sim.Settings() {
		if isPower(setting) {
			_ = sim.Foreign(setting, strconv.FormatInt(numberOf(t, text)*8/10, 10)) // locked ones stay
		}
	}
	if err := sim.Host().GPUs.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	limits := map[string]power{}
	for setting, text := range sim.Settings() {
		if isPower(setting) {
			limits[setting] = power{numberOf(t, text), stated(t, sim, setting)}
		}
	}
	return sim, limits
}

// check tells of limits that are above what they may be, and returns how many are above the value found.
func check(t *testing.T, sim *hostsim.Sim, limits map[string]power, allow bool, when string) (raised int) {
	t.Helper()
	now := sim.Settings()
	for name, p := range limits {
		n, most := numberOf(t, now[name]), p.found
		if allow {
			most = max(p.found, p.stated)
		}
		if n > most {
			t.Errorf("%s: %s is %d, found %d, stated %d", when, name, n, p.found, p.stated)
		}
		if n > p.found {
			raised++
		}
	}
	return raised
}

// anyPoint is a point of some of the levers, with values within and beyond all that makes sense.
func anyPoint(rng *rand.Rand, all []levers.Lever) levers.Point {
	var p []levers.Setting
	for _, l := range all {
		span := l.Span()
		switch {
		case rng.IntN(3) == 0:
		case len(span.Choices) > 0:
			p = append(p, levers.Setting{Lever: l.Name(), Value: span.Choices[rng.IntN(len(span.Choices))]})
		default:
			wild := []int64{span.Lo, span.Hi, span.Hi + 1, span.Hi + span.Step, 2 * span.Hi, 1 << 40, rng.Int64N(3 * span.Hi)}
			v := strconv.FormatInt(wild[rng.IntN(len(wild))], 10)
			p = append(p, levers.Setting{Lever: l.Name(), Value: levers.Value(v)})
		}
	}
	return levers.NewPoint(p...)
}

// bothWays runs f for every simulated host with levers, with and without the owner's leave to raise.
func bothWays(t *testing.T, f func(t *testing.T, name string, allow bool)) {
	for _, name := range hostsim.Names() {
		for _, allow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s allow_raise=%v", name, allow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { f(t, name, allow) })
			})
		}
	}
}

func TestNoPointRaisesAPowerUnlessTheOwnerSaysSo(t *testing.T) {
	bothWays(t, func(t *testing.T, name string, allow bool) {
		sim, limits := lowered(t, name)
		found := sim.Settings()
		bank, err := levers.Options{AllowRaise: allow}.OpenBank(t.Context(), sim.Host(), nil)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		raised := 0
		for range 20 {
			p := anyPoint(rng, bank.Levers())
			writes, _ := bank.Apply(t.Context(), p) // a host may refuse some
			raised += check(t, sim, limits, allow, p.Key())
			for _, w := range writes {
				if !allow && w.Unit != "" && w.Moved() && numberOf(t, string(w.To)) > numberOf(t, string(bankFound(t, bank, w))) {
					t.Errorf("%+v", w)
				}
			}
		}
		// Only the chip that takes nothing above what it has been lowered to, or no limit at all, is never raised.
		movable := slices.ContainsFunc(bank.Levers(), func(l levers.Lever) bool {
			return l.Span().Choices == nil && l.Span().Lo < l.Span().Hi
		})
		if allow && movable && raised == 0 {
			t.Error("no limit was ever raised: nothing is tested")
		}
		if _, err := bank.Restore(t.Context(), false); err != nil {
			t.Error(err)
		}
		if !maps.Equal(found, sim.Settings()) {
			t.Error("after the restore the host is not as found")
		}
		if err := sim.Host().GPUs.Close(); err != nil {
			t.Error(err)
		}
	})
}

// bankFound is what the lever of a write had before quner; what it has where it is not held.
func bankFound(t *testing.T, b *levers.Bank, w levers.Write) levers.Value {
	t.Helper()
	for _, s := range b.States(t.Context()) {
		if s.Name == w.Lever && s.Found != "" {
			return s.Found
		}
	}
	return w.To // back at its original
}

// storedAbove puts a point into the state directory that has every limit at the most the hardware takes and beyond, as a
// sweep of an owner who then allowed it may have left.
func storedAbove(t *testing.T, sim *hostsim.Sim, limits map[string]power) {
	t.Helper()
	h := sim.Host()
	store, err := profiles.OpenStore(h.Var, nil)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := levers.Discover(t.Context(), h)
	p := profiles.TunedPoint{
		Profile: profiles.Training, PowerSource: profiles.PowerSource(h), Certified: true, Verdict: string(tune.Interior),
		Units: map[string]string{}, Hard: profiles.FingerprintOf(h).Hard.Key(), TunedAt: time.Now(),
	}
	for _, l := range found {
		if span := l.Span(); span.Choices == nil {
			p.Point = append(p.Point, levers.Setting{Lever: l.Name(), Value: levers.Value(strconv.FormatInt(3*span.Hi, 10))})
			p.Units[l.Name()] = span.Unit
		}
	}
	if len(p.Point) == 0 {
		return
	}
	if _, err := store.Put(p); err != nil {
		t.Fatal(err)
	}
}

func TestNeitherDefaultsNorStoredPointsRaiseAPower(t *testing.T) {
	bothWays(t, func(t *testing.T, name string, allow bool) {
		sim, limits := lowered(t, name)
		storedAbove(t, sim, limits)
		cfg := raised()
		cfg.AllowRaise = allow
		d, stop := start(t, sim, cfg)
		owner := person{t, d}
		for _, m := range []profiles.Mode{profiles.ModeTraining, profiles.ModeIdle, profiles.ModeAuto, profiles.ModeTraining} {
			owner.mode(daemon.ModeChange{Mode: m})
			check(t, sim, limits, allow, string(m))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestASweepRaisesOnlyWithTheOwnersLeave(t *testing.T) {
	for _, allow := range []bool{false, true} {
		for _, name := range []string{"workstation", "server"} {
			t.Run(fmt.Sprintf("%s allow_raise=%v", name, allow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sim, limits := lowered(t, name)
					cfg := config.Default()
					cfg.AllowRaise = allow
					d, stop := start(t, sim, cfg)
					raised := 0
					work := worker{t: t, sim: sim, before: func(r daemon.TuneRun) error {
						raised += check(t, sim, limits, allow, strings.Join(r.State, ", "))
						return nil
					}}
					r, err := d.Tune(t.Context(), daemon.TuneSpec{Apply: true, MaxSlowdown: 0.1}, work)
					if err != nil {
						t.Fatal(err)
					}
					for _, a := range r.Plan.Axes {
						if a.Found < 0 || a.Found >= len(a.States) || a.Name != "governor" && allow != (a.Found < len(a.States)-1) {
							t.Errorf("axis %s: found %d of %v", a.Name, a.Found, a.States)
						}
					}
					if allow != (raised > 0) {
						t.Errorf("%d windows above the value found", raised)
					}
					if err := stop(); err != nil {
						t.Error(err)
					}
					check(t, sim, limits, false, "after the stop")
				})
			})
		}
	}
}
