package levers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/qunerd/quner/internal/levers"
)

// history is a machine on which quner, somebody else and crashes take turns. What quner chooses is never what the other
// does, so one rule judges everything: once quner has let go, each lever has what somebody else gave it last.
type history struct {
	rig    simRig
	random *rand.Rand
	last   map[string]levers.Value // by lever: what the other set, or what was found
	said   []string
}

func TestHistories(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := &history{rig: simRig{t, simulated(t, "workstation")}, random: rand.New(rand.NewPCG(seed, 1)), last: map[string]levers.Value{}}
			for _, s := range opened(t, h.rig.sim).States(t.Context()) {
				h.last[s.Name] = s.Value
			}
			for range 12 {
				h.live(t)
			}
		})
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
	values := []levers.Value{"schedutil", "ondemand", "conservative"}
	if l.Kind() == levers.GPUCap {
		values = []levers.Value{"300000", "280000", "260000"}
	}
	v := values[h.random.IntN(len(values))]
	h.rig.foreign(l, v)
	h.last[l.Name()] = v
	h.tell("somebody sets %s to %s", l.Name(), v)
}

func (h *history) point(b *levers.Bank) levers.Point {
	var p []levers.Setting
	for _, l := range b.Levers() {
		values := []levers.Value{"powersave", "performance", ""}
		if l.Kind() == levers.GPUCap {
			values = []levers.Value{"120000", "180000", "240000", ""}
		}
		if v := values[h.random.IntN(len(values))]; v != "" {
			p = append(p, levers.Setting{Lever: l.Name(), Value: v})
		}
	}
	return levers.NewPoint(p...)
}

func (h *history) tell(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...)+"\n")
}

func second[T any](_ T, err error) error { return err }
