package levers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// rig is one lever on a machine, with hands on what is behind it. The suite below is the same for every kind.
type rig struct {
	m       *machine
	name    string
	chosen  Value   // within the span, not what is found
	other   Value   // likewise, and not chosen
	strange Value   // an original outside the span that the host takes
	outside []Value // outside the span

	now     func() Value        // what the hardware has, past the lever
	foreign func(Value)         // someone else sets it
	refuse  func(error)         // writes fail with this; nil heals
	refused []error             // what this host's writes fail with
	ignore  func(bool)          // writes succeed and do nothing
	round   func(coarse bool)   // values are rounded, coarsely beyond the unit; nil where there is nothing to round
	vanish  func(bool)          // the device is gone
	hang    func() (end func()) // writes do not come back
	heal    func()              // ends what the others began
}

func governorRig(t *testing.T) *rig {
	r := fileRig(newMachine(t), policy0, governorFile(0))
	r.chosen, r.other, r.strange = "powersave", "performance", "userspace"
	r.outside = []Value{"turbo", "", "userspace", "powersave\n", "../../x"}
	r.refused = append(r.refused, unix.EBUSY, unix.EIO)
	return r
}

func eppRig(t *testing.T) *rig {
	m := newMachine(t)
	m.addEPP(0, "balance_performance")
	r := fileRig(m, epp0, eppFile(0))
	r.chosen, r.other, r.strange = "power", "balance_power", "128"
	r.outside = []Value{"default", "", "turbo", "129", "power\n"}
	r.refused = append(r.refused, unix.EIO)
	return r
}

func packageRig(t *testing.T) *rig {
	m := newMachine(t)
	m.addZone("intel-rapl:0", "package-0", "65000000", "65000000")
	r := fileRig(m, package0, zoneFile)
	r.chosen, r.other, r.strange = "40000000", "30000000", "85000000"
	r.outside = []Value{"16000000", "65000001", "0", "-40000000", "40 W", ""}
	r.refused = append(r.refused, unix.EIO, unix.ENODATA)
	r.rounds(zoneFile, limitStep, 35_000_000)
	return r
}

func amdCapRig(t *testing.T) *rig {
	m := newMachine(t)
	m.addCard("280000000", "100000000", "300000000")
	r := fileRig(m, card0, capFile)
	r.chosen, r.other, r.strange = "200000000", "150000000", "290000000"
	r.outside = []Value{"99999999", "280000001", "0", "-200000000", "200 W", ""}
	r.rounds(capFile, amdCapStep, 70_000_000)
	return r
}

func gpuCapRig(t *testing.T) *rig {
	m := newMachine(t)
	return &rig{
		m: m, name: boardCap, chosen: "200000", other: "150000", strange: "340000",
		outside: []Value{"99999", "300001", "0", "-200000", "200 W", "", "99999999999999999999"},
		now:     func() Value { return milliwatts(m.board.cap()) },
		foreign: func(v Value) {
			mw, err := unit.ParsePower(string(v) + " mW")
			if err != nil {
				t.Fatal(err)
			}
			m.board.with(func(b *board) { b.limit = mw })
		},
		refused: []error{host.ErrNoPermission, host.ErrNotSupported, host.ErrOutOfRange},
		refuse:  func(err error) { m.board.with(func(b *board) { b.setErr = err }) },
		ignore:  func(on bool) { m.board.with(func(b *board) { b.ignores = on }) },
		round: func(coarse bool) {
			m.board.with(func(b *board) {
				b.grain = unit.Watt
				if coarse {
					b.grain = 70 * unit.Watt
				}
			})
		},
		heal:   func() { m.board.with(func(b *board) { b.setErr, b.ignores, b.grain = nil, false, 0 }) },
		vanish: func(gone bool) { m.board.with(func(b *board) { b.lost = gone }) },
		hang: func() func() {
			stuck := make(chan struct{})
			m.board.with(func(b *board) { b.hang = stuck })
			return func() { m.board.with(func(b *board) { b.hang = nil }); close(stuck) }
		},
	}
}

// lever discovers the machine's levers and returns the rig's.
func (r *rig) lever(t *testing.T) Lever {
	t.Helper()
	found, _ := Discover(t.Context(), r.m.host)
	t.Cleanup(func() { _ = r.m.host.GPUs.Close() })
	for _, l := range found {
		if l.Name() == r.name {
			return l
		}
	}
	t.Fatalf("%s not discovered", r.name)
	return nil
}

func TestConformance(t *testing.T) {
	rigs := map[Kind]func(*testing.T) *rig{
		Governor: governorRig, EnergyPreference: eppRig, PackageLimit: packageRig, GPUCap: gpuCapRig, AMDCap: amdCapRig,
	}
	for _, c := range classes() {
		newRig := rigs[c.kind]
		if newRig == nil {
			t.Errorf("kind %q is not in the suite", c.kind)
			continue
		}
		t.Run(string(c.kind), func(t *testing.T) {
			t.Run("healthy", func(t *testing.T) { healthy(t, newRig(t)) })
			t.Run("refusing", func(t *testing.T) { refusing(t, newRig) })
			t.Run("ignoring", func(t *testing.T) { ignoring(t, newRig(t)) })
			t.Run("rounding", func(t *testing.T) { rounding(t, newRig) })
			t.Run("another's", func(t *testing.T) { anothers(t, newRig) })
			t.Run("crash", func(t *testing.T) { crashed(t, newRig) })
			t.Run("vanished", func(t *testing.T) { vanished(t, newRig(t)) })
			t.Run("hung", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { hung(t, newRig(t)) }) })
			t.Run("bank", func(t *testing.T) { bankOnBroken(t, newRig) })
		})
	}
}

func healthy(t *testing.T, r *rig) {
	ctx := t.Context()
	l := r.lever(t)
	if c := r.m.changed(); len(c) != 0 {
		t.Errorf("discovery wrote: %q", c)
	}
	found, err := l.Get(ctx)
	if err != nil || found != r.now() {
		t.Fatalf("Get = %q, %v; hardware has %q", found, err, r.now())
	}
	for _, v := range r.outside {
		if err := l.Set(ctx, v); !errors.Is(err, ErrOutOfSpan) {
			t.Errorf("Set(%q) = %v, want ErrOutOfSpan", v, err)
		}
	}
	if c := r.m.changed(); len(c) != 0 {
		t.Errorf("values outside the span were written: %q", c)
	}
	for _, v := range []Value{r.chosen, r.other, found} {
		if err := l.Set(ctx, v); err != nil || r.now() != v {
			t.Errorf("Set(%q) = %v; hardware has %q", v, err, r.now())
		}
	}
	if err := l.Restore(ctx, r.strange); err != nil || r.now() != r.strange {
		t.Errorf("Restore(%q) = %v; hardware has %q", r.strange, err, r.now())
	}
	if !l.Same(r.chosen, r.chosen) || l.Same(r.chosen, r.other) {
		t.Error("Same cannot tell values apart, or one from itself")
	}
}

func refusing(t *testing.T, newRig func(*testing.T) *rig) {
	r := newRig(t)
	l := r.lever(t)
	for _, cause := range r.refused {
		found := r.now()
		r.refuse(cause)
		for _, write := range []func(context.Context, Value) error{l.Set, l.Restore} {
			err := write(t.Context(), r.chosen)
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), r.name) {
				t.Errorf("refused with %v: error is %v", cause, err)
			}
		}
		if v, err := l.Get(t.Context()); err != nil || v != found {
			t.Errorf("refused with %v: reads %q, %v", cause, v, err)
		}
		r.heal()
	}
	if err := l.Set(t.Context(), r.chosen); err != nil {
		t.Errorf("healed: %v", err)
	}
}

func ignoring(t *testing.T, r *rig) {
	l := r.lever(t)
	found := r.now()
	r.ignore(true)
	for _, write := range []func(context.Context, Value) error{l.Set, l.Restore} {
		err := write(t.Context(), r.chosen)
		if !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), string(r.chosen)) || !strings.Contains(err.Error(), string(found)) {
			t.Errorf("ignored write: error is %v, want ErrNotTaken with both values", err)
		}
	}
}

func rounding(t *testing.T, newRig func(*testing.T) *rig) {
	r := newRig(t)
	if r.round == nil {
		t.Log("a choice has nothing to round")
		return
	}
	l := r.lever(t)
	r.round(false)
	if err := l.Set(t.Context(), r.chosen[:len(r.chosen)-1]+"7"); err != nil || r.now() != r.chosen {
		t.Errorf("rounded within the unit: %v, hardware has %q", err, r.now())
	}
	r.round(true)
	if err := l.Set(t.Context(), r.chosen); !errors.Is(err, ErrNotTaken) {
		t.Errorf("rounded beyond the unit: %v, want ErrNotTaken", err)
	}
}

func vanished(t *testing.T, r *rig) {
	l := r.lever(t)
	r.vanish(true)
	_, err := l.Get(t.Context())
	if reason := host.ReasonOf(err); reason != host.Absent && reason != host.Lost {
		t.Errorf("Get = %v (%s), want a lever that is gone", err, reason)
	}
	if err := l.Set(t.Context(), r.chosen); err == nil {
		t.Error("Set took a value for a device that is gone")
	}
	r.vanish(false)
	if err := l.Set(t.Context(), r.chosen); err != nil || r.now() != r.chosen {
		t.Errorf("back again: %v, hardware has %q", err, r.now())
	}
}

func hung(t *testing.T, r *rig) {
	l := r.lever(t)
	end := r.hang()
	if err := l.Set(t.Context(), r.chosen); !errors.Is(err, host.ErrHung) {
		t.Errorf("Set on a hung device = %v", err)
	}
	if _, err := l.Get(t.Context()); !errors.Is(err, host.ErrHung) {
		t.Errorf("Get while a write is out = %v", err)
	}
	end()
	synctest.Wait()
	if v, err := l.Get(t.Context()); err != nil || v != r.chosen {
		t.Errorf("late write: Get = %q, %v, want %q", v, err, r.chosen)
	}
	end = r.hang()
	defer func() { // the write that is out ends before the machine's files do
		end()
		synctest.Wait()
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("service stops")
	go cancel(stop)
	if err := l.Set(ctx, r.other); !errors.Is(err, stop) {
		t.Errorf("Set with an ended context = %v", err)
	}
}

// bankOnBroken proves for every fault that what the Bank did can be undone by the next process once the fault is gone.
func bankOnBroken(t *testing.T, newRig func(*testing.T) *rig) {
	faults := map[string]func(*rig) (heal func()){
		"ignoring": func(r *rig) func() { r.ignore(true); return r.heal },
		"vanished": func(r *rig) func() { r.vanish(true); return func() { r.vanish(false) } },
		"hung":     func(r *rig) func() { return r.hang() },
	}
	for _, cause := range newRig(t).refused {
		faults[cause.Error()] = func(r *rig) func() { r.refuse(cause); return r.heal }
	}
	if newRig(t).round != nil {
		faults["rounding"] = func(r *rig) func() { r.round(true); return r.heal }
	}
	for name, fault := range faults {
		for _, when := range []string{"free", "held"} {
			t.Run(name+" while "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { undone(t, newRig(t), fault, when == "held") })
			})
		}
	}
}

func undone(t *testing.T, r *rig, fault func(*rig) (heal func()), held bool) {
	ctx, found := t.Context(), r.m.settings()
	b := r.m.bank()
	if held {
		r.m.apply(b, Setting{r.name, r.other})
	}
	heal := fault(r)
	if _, err := b.Apply(ctx, NewPoint(Setting{r.name, r.chosen})); err == nil {
		t.Error("Apply on a broken lever is silent")
	}
	left, restoreErr := b.Restore(ctx, false)
	if held && restoreErr == nil && len(left.Left) == 0 && r.m.settings() != found {
		t.Errorf("Restore claims success; the host has %s", r.m.settings())
	}
	heal()
	synctest.Wait()
	r.m.restore(r.m.bank())
	if got := r.m.settings(); got != found {
		t.Errorf("after the fault the host has %q, was %q\n%s", got, found, r.m.log.String())
	}
	if n := r.m.bank().Held(); n != 0 {
		t.Errorf("%d entries stay after a restore", n)
	}
	_ = r.m.host.GPUs.Close()
}

// anothers proves that what someone else has set since is left and said, and put back with force alone.
func anothers(t *testing.T, newRig func(*testing.T) *rig) {
	for _, force := range []bool{false, true} {
		r := newRig(t)
		found := r.now()
		r.m.apply(r.m.bank(), Setting{r.name, r.chosen})
		r.foreign(r.other)
		b := r.m.bank()
		out, err := b.Restore(t.Context(), force)
		if err != nil {
			t.Fatal(err)
		}
		said := len(out.Left) == 1 && out.Left[0].Lever == r.name && strings.Contains(out.Left[0].Why, string(r.other)) && !out.Left[0].Kept
		if force && r.now() != found || !force && (r.now() != r.other || !said) {
			t.Errorf("force %v: hardware has %q, found %q, someone else set %q; left: %v", force, r.now(), found, r.other, out.Left)
		}
		if b.Held() != 0 {
			t.Errorf("force %v: an entry stays", force)
		}
	}
}

// crashed proves that a value is still ours whichever side of the write a process ended on, and whatever the host has
// made of it by rounding.
func crashed(t *testing.T, newRig func(*testing.T) *rig) {
	for _, written := range []bool{false, true} {
		r := newRig(t)
		found, b := r.now(), r.m.bank()
		want := r.chosen
		if r.round != nil {
			want = r.chosen[:len(r.chosen)-1] + "7"
			r.round(false)
		}
		steps, _ := b.plan(t.Context(), NewPoint(Setting{r.name, want}), intent{})
		if err := b.announce(steps); err != nil {
			t.Fatal(err)
		}
		if written {
			if err := steps[0].lever.Set(t.Context(), want); err != nil {
				t.Fatal(err)
			}
		}
		r.heal()
		b = r.m.bank()
		if b.Held() != 1 {
			t.Fatalf("written %v: %d entries", written, b.Held())
		}
		if out := r.m.restore(b); len(out.Left) != 0 || r.now() != found {
			t.Errorf("written %v: hardware has %q, found %q; left: %v", written, r.now(), found, out.Left)
		}
	}
}
