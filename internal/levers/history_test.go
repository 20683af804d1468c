package levers_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/levers"
)

// history is a machine on which quner, somebody else and crashes take turns. What quner chooses is never what the other
// does, so one rule judges everything: once quner has let go, each lever has what somebody else gave it last.
type history struct {
	rig    simRig
	random *rand.Rand
	last   map[string]levers.Value // by lever: what the other set, or what was found
	spans  map[string]levers.Span  // by lever, at the beginning
	said   []string
}

func TestHistories(t *testing.T) {
	for _, name := range []string{"workstation", "laptop", "amd", "server"} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(name, " seed ", seed), func(t *testing.T) {
				t.Parallel()
				h := &history{rig: simRig{t, simulated(t, name)}, random: rand.New(rand.NewPCG(seed, 1)),
					last: map[string]levers.Value{}, spans: map[string]levers.Span{}}
				for _, s := range opened(t, h.rig.sim).States(t.Context()) {
					h.last[s.Name], h.spans[s.Name] = s.Value, s.Span
				}
				for range 12 {
					h.live(t)
				}
			})
		}
	}
}

// live is one life of a process, crash or not, and the restore after it.
func (h *history) live(t *testing.T) {
	s := h.rig.sim
	crashes := h.random.IntN(2) == 0
	if crashes {
		s.CutAt(s.Boundaries()+1+h.random.IntN(150), h.random.IntN(2) == 0)
	}
	b := opened(t, s)
	for range 1 + h.random.IntN(6) {
		switch h.random.IntN(4) {
		case 0:
			h.foreign(t, b)
		case 1:
			h.tell("let go: %v", second(b.Apply(t.Context(), nil)))
		default:
			p := h.point(b)
			h.tell("apply %s: %v", p.Key(), second(b.Apply(t.Context(), p)))
		}
	}
	s.Heal()
	h.tell("the process ends, crash %v", crashes)
	if h.random.IntN(3) == 0 {
		h.foreign(t, b)
	}
	if _, err := opened(t, s).Restore(t.Context(), false); err != nil {
		t.Fatalf("%v\n%s", err, h.said)
	}
	for _, st := range opened(t, s).States(t.Context()) {
		if st.Value != h.last[st.Name] || st.State != levers.Free {
			t.Fatalf("%s has %q (%s), somebody else gave it %q\n%s", st.Name, st.Value, st.State, h.last[st.Name], h.said)
		}
	}
}

// foreign is somebody else moving one lever.
func (h *history) foreign(t *testing.T, b *levers.Bank) {
	all := b.Levers()
	if len(all) == 0 {
		return // discovered by a process that was dead already
	}
	l := all[h.random.IntN(len(all))]
	v := h.pick(h.others(l))
	if err := h.rig.foreign(l, v); errors.Is(err, unix.EBUSY) {
		return // a preference that the governor decides: nobody can
	} else if err != nil {
		t.Fatalf("somebody sets %s to %s: %v", l.Name(), v, err)
	}
	h.last[l.Name()] = v
	h.tell("somebody sets %s to %s", l.Name(), v)
}

func (h *history) pick(values []levers.Value) levers.Value { return values[h.random.IntN(len(values))] }

// others are the values that somebody else chooses, and ours those that quner does.
func (h *history) others(l levers.Lever) []levers.Value {
	switch l.Kind() {
	case levers.Governor:
		if all := l.Span().Choices; !slices.Contains(all, "schedutil") {
			return []levers.Value{"powersave"}
		}
		return []levers.Value{"schedutil", "ondemand", "conservative"}
	case levers.EnergyPreference:
		return []levers.Value{"balance_performance"}
	}
	return percents(h.spans[l.Name()], 100, 96, 92)
}

func (h *history) ours(l levers.Lever) []levers.Value {
	switch l.Kind() {
	case levers.Governor:
		if all := l.Span().Choices; !slices.Contains(all, "schedutil") {
			return []levers.Value{"performance"}
		}
		return []levers.Value{"powersave", "performance"}
	case levers.EnergyPreference:
		return []levers.Value{"balance_power", "power"}
	}
	return percents(h.spans[l.Name()], 40, 60, 80)
}

// percents are shares of what a lever with a range may have.
func percents(span levers.Span, shares ...int64) []levers.Value {
	var values []levers.Value
	for _, share := range shares {
		values = append(values, levers.Value(strconv.FormatInt(max(span.Lo+span.Step, span.Hi*share/100/span.Step*span.Step), 10)))
	}
	return values
}

func (h *history) point(b *levers.Bank) levers.Point {
	var p []levers.Setting
	for _, l := range b.Levers() {
		if v := h.pick(append(h.ours(l), "")); v != "" {
			p = append(p, levers.Setting{Lever: l.Name(), Value: v})
		}
	}
	return levers.NewPoint(p...)
}

func (h *history) tell(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...)+"\n")
}

func second[T any](_ T, err error) error { return err }
