package meter

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// history is a timeline under random treatment, with what each window should have been charged if no reading fails.
type history struct {
	t       *testing.T
	rnd     *rand.Rand
	line    timeline
	now     time.Time
	asleep  time.Duration
	value   unit.Energy         // of the counter, unwrapped from its last start
	open    map[*member]float64 // µJ it should have been charged
	charged unit.Energy         // of all windows that have ended
	tick    stamp
}

const testSpan = 262144 * unit.Joule

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: clock0, open: map[*member]float64{}}
	h.line.counter = counter{span: testSpan, limit: unit.Kilowatt}
	h.line.marks = []*stamp{&h.tick}
	h.value = unit.Energy(h.rnd.Int64N(int64(testSpan)))
	return h
}

// pass lets time go by at some power and returns the energy.
func (h *history) pass() unit.Energy {
	d := time.Duration(h.rnd.ExpFloat64() * float64(400*time.Millisecond))
	h.now = h.now.Add(d)
	e := unit.FromWatts(h.rnd.Float64() * 700).Over(d)
	h.value += e
	return e
}

// look reads the counter, which fails as told.
func (h *history) look(fault string) verdict {
	r := reading{value: h.value % testSpan, at: h.now, asleep: h.asleep}
	switch fault {
	case "error":
		r.err = errIO
	case "zero":
		r.value = 0
	case "high":
		r.value = min(testSpan-1, r.value+100*unit.Kilojoule)
	case "low":
		r.value /= 2
	}
	return h.line.cut(r, ReasonUnreadable, nil)
}

// conserved checks that every microjoule credited is with a window or with nobody.
func (h *history) conserved(step int) {
	h.t.Helper()
	sum := float64(h.charged) + h.line.loose.whole + h.line.loose.frac + h.line.carry
	for m := range h.open {
		sum += float64(m.weight) / unitWeight * h.line.now.phi.since(m.opened.phi)
	}
	if diff := sum - float64(h.line.measured); math.Abs(diff) > 1 {
		h.t.Fatalf("step %d: windows and unattributed differ from measured by %g µJ", step, diff)
	}
	if e := h.line.now.energy; math.Abs(e.whole+e.frac-float64(h.line.measured)) > 1 {
		h.t.Fatalf("step %d: the device's sum is off", step)
	}
}

func (h *history) any() *member {
	members := make([]*member, 0, len(h.line.members))
	members = append(members, h.line.members...)
	if len(members) == 0 {
		return nil
	}
	return members[h.rnd.IntN(len(members))]
}

// TestEnergyIsConserved treats timelines badly: read errors, glitches, restarts, sleeps, windows that come and go at any
// time and strangers that leave at an older tick.
func TestEnergyIsConserved(t *testing.T) {
	for seed := range uint64(150) {
		h := newHistory(t, seed)
		verdicts := map[verdict]int{}
		for step := range 400 {
			h.pass()
			faults := []string{"", "", "", "", "", "", "error", "zero", "high", "low"}
			if seed%3 == 0 {
				faults = faults[:6]
			}
			switch h.rnd.IntN(40) {
			case 0:
				h.value = unit.Energy(h.rnd.Int64N(int64(unit.Joule))) // a restart
			case 1:
				h.asleep += time.Hour
			case 2:
				h.now = h.now.Add(3 * time.Minute) // nobody looked
			case 3:
				h.line.pass(h.now)
				h.pass()
			}
			v := h.look(faults[h.rnd.IntN(len(faults))])
			verdicts[v]++
			if h.rnd.IntN(4) == 0 && h.line.open == len(h.line.memory) {
				h.tick = h.line.stamp()
			}
			switch h.rnd.IntN(5) {
			case 0, 1:
				m := &member{weight: 1 + h.rnd.Int64N(3*unitWeight)}
				if h.rnd.IntN(10) == 0 {
					m.weight = 0
				}
				h.line.join(m)
				h.open[m] = 0
			case 2, 3:
				m := h.any()
				if m == nil {
					break
				}
				until, quantum := h.line.stamp(), unit.Energy(1)
				if h.rnd.IntN(3) == 0 && !h.tick.at.Before(m.opened.at) {
					until, quantum = h.tick, 100*unit.Millijoule
				}
				gross := h.line.leave(m, until, quantum, forecast{})
				if m.weight > 0 {
					h.charged += gross
					if quantum > 1 {
						// What a stranger is charged is rounded; the rest is nobody's.
						if gross%quantum != 0 {
							t.Fatalf("charged %v, not in steps of %v", gross, quantum)
						}
					}
				}
				delete(h.open, m)
			}
			h.conserved(step)
		}
		if seed == 1 {
			for _, v := range []verdict{ok, unread, jump, reset, backward, believed, recovered} {
				if verdicts[v] == 0 {
					t.Errorf("the histories never see %v (%d)", v, v)
				}
			}
		}
	}
}

// TestSharesAreByWeight compares with the plain sum over slices, where every reading is good.
func TestSharesAreByWeight(t *testing.T) {
	for seed := range uint64(50) {
		h := newHistory(t, seed)
		h.look("")
		var loose float64
		for range 500 {
			e := h.pass()
			var weight int64
			for m := range h.open {
				weight += m.weight
			}
			for m := range h.open {
				h.open[m] += float64(e) * float64(m.weight) / float64(weight)
			}
			if weight == 0 {
				loose += float64(e)
			}
			if v := h.look(""); !v.credits() {
				t.Fatalf("verdict %v", v)
			}
			if h.rnd.IntN(2) == 0 {
				m := &member{weight: 1 + h.rnd.Int64N(3*unitWeight)}
				h.line.join(m)
				h.open[m] = 0
			} else if m := h.any(); m != nil {
				want := h.open[m]
				delete(h.open, m)
				if got := h.line.leave(m, h.line.stamp(), 1, forecast{}); math.Abs(float64(got)-want) > 1 {
					t.Fatalf("charged %d µJ, want %.2f", got, want)
				}
			}
		}
		if got := h.line.loose.whole + h.line.loose.frac; math.Abs(got-loose) > 0.01 {
			t.Errorf("unattributed %.2f µJ, want %.2f", got, loose)
		}
	}
}

// at returns a timeline and a function that reads it at a second; a negative value fails.
func at(limit unit.Power) (*timeline, func(s float64, uj int64) verdict) {
	line := &timeline{counter: counter{limit: limit}}
	return line, func(s float64, uj int64) verdict {
		return line.cut(look{at: s, uj: uj}.reading(), ReasonUnreadable, nil)
	}
}

func TestUnreadEdgeIsSplitByTime(t *testing.T) {
	line, read := at(unit.Kilowatt)
	read(0, 0)
	read(10, -1)
	var m member
	m.weight = unitWeight
	line.join(&m)
	if longest, why := line.troubles(clock0, clock0.Add(10*time.Second)); longest != 10*time.Second || !slices.Contains(why, ReasonUnreadable) {
		t.Errorf("before the good reading: gap %v, reasons %v", longest, why)
	}
	read(30, 30e6)
	if gross := line.leave(&m, line.stamp(), 1, forecast{}); gross != 20*unit.Joule {
		t.Errorf("charged %v of 30 J over 30 s for the last 20 s", gross)
	}
	if m.blur != 30*time.Second {
		t.Errorf("the edge is uncertain by %v", m.blur)
	}
	if longest, why := line.troubles(clock0, clock0.Add(30*time.Second)); longest != 0 || len(why) != 0 {
		t.Errorf("after it: gap %v, reasons %v", longest, why)
	}
}

func TestGlitchRefundsItsGap(t *testing.T) {
	const base = 55.8e12
	line, read := at(unit.Kilowatt)
	var m, later member
	m.weight, later.weight = unitWeight, unitWeight
	read(0, base)
	line.join(&m)
	if v := read(60, 0); v != reset {
		t.Fatalf("verdict %v", v)
	}
	if longest, why := line.troubles(clock0, line.now.at); longest != time.Minute || !slices.Equal(why, []string{ReasonReset, ReasonGap}) {
		t.Errorf("before the recovery: gap %v, reasons %v", longest, why)
	}
	line.join(&later)
	if v := read(120, base+6e6); v != recovered {
		t.Fatalf("verdict %v", v)
	}
	if longest, why := line.troubles(clock0, line.now.at); longest != 0 || len(why) != 0 {
		t.Errorf("after it: gap %v, reasons %v", longest, why)
	}
	known := line.now.measured - m.opened.measured
	first := line.leave(&m, line.stamp(), 1, forecast{})
	second := line.leave(&later, line.stamp(), 1, forecast{})
	if known != 2*time.Minute || first != 4500*unit.Millijoule || second != 1500*unit.Millijoule {
		t.Errorf("%v measured, %v and %v charged; want 4.5 J and 1.5 J", known, first, second)
	}
}

func TestResetLeavesAGap(t *testing.T) {
	line, read := at(unit.Kilowatt)
	m := member{weight: unitWeight}
	read(0, 200e9)
	line.join(&m)
	read(5, 5e6)
	read(10, 55e6)
	if known := line.now.measured - m.opened.measured; known != 5*time.Second {
		t.Errorf("%v measured of 10 s", known)
	}
	if longest, why := line.troubles(clock0, line.now.at); longest != 5*time.Second || !slices.Contains(why, ReasonReset) {
		t.Errorf("gap %v, reasons %v", longest, why)
	}
	if e := line.leave(&m, line.stamp(), 1, forecast{}); e != 50*unit.Joule {
		t.Errorf("charged %v", e)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	line, read := at(unit.Kilowatt)
	read(0, 1e6)
	for i := range 3 * maxMemory {
		read(1+float64(i)/1000, -1)
		m := member{weight: unitWeight}
		line.join(&m)
		line.leave(&m, line.stamp(), 1, forecast{})
	}
	if len(line.memory) > maxMemory {
		t.Errorf("%d slices remembered", len(line.memory))
	}
	if v := read(100, 5e6); v != first {
		t.Errorf("verdict %v after the base was given up", v)
	}
	for i := range 3 * maxNotes {
		read(101+float64(2*i), 5e6+1e12*int64(i))
	}
	if len(line.notes) > maxNotes {
		t.Errorf("%d notes", len(line.notes))
	}
}

func FuzzParseMicrojoules(f *testing.F) {
	for _, s := range []string{"0\n", "262143328850\n", "", "\n", "-1\n", "9223372036854775808", "18446744073709551615\n", "1 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parseMicrojoules(text)
		if err == nil && e < 0 {
			t.Errorf("%q gives %d", text, e)
		}
		for _, c := range text {
			if err == nil && c != '\n' && (c < '0' || c > '9') {
				t.Errorf("%q passes as %d", text, e)
			}
		}
	})
}

func FuzzLabel(f *testing.F) {
	for _, s := range []string{"a", "tune-window", "a b", "", "é", "A.b_9-", "../x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isLabel(s) {
			return
		}
		if len(s) > 64 || s == "" {
			t.Errorf("%d bytes pass", len(s))
		}
		for _, r := range s {
			if r < '-' || r > 'z' || r == '/' {
				t.Errorf("%q passes", s)
			}
		}
	})
}
