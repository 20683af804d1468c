package meter

import (
	"context"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// dies are two dies of one package. On some parts both show one counter: then the second is left out.
type dies struct {
	a, b *device

	mu     sync.Mutex
	mirror mirror
}

// mirror decides whether two counters are one. It is pure.
type mirror struct {
	a, b  unit.Energy
	known bool
	newer uint8 // of the newest increments, a bit each: they were equal
}

// mirrorReads is how many equal increments make two counters one. A step between the two readings of a pair makes two
// increments differ, so a few others may lie between them; two counters of their own hardly ever rise by the same.
const mirrorReads = 3

// step takes a reading of both and reports whether they are one.
func (m *mirror) step(a, b unit.Energy) bool {
	da, db := a-m.a, b-m.b
	seen := m.known
	m.a, m.b, m.known = a, b, true
	if !seen || da == 0 && db == 0 {
		return false
	}
	m.newer <<= 1
	if da == db {
		m.newer |= 1
	}
	return bits.OnesCount8(m.newer) >= mirrorReads
}

// pairDies pairs each die of a package with its first, and each die's memory with the first's.
func pairDies(devices []*device) []*dies {
	var pairs []*dies
	firsts := map[string]*device{}
	for _, d := range devices {
		pack, die, isDie := strings.Cut(d.name, "-die-")
		if !isDie {
			continue
		}
		_, part, _ := strings.Cut(die, "/")
		key := pack + "/" + part
		if firsts[key] == nil {
			firsts[key] = d
			continue
		}
		pairs = append(pairs, &dies{a: firsts[key], b: d})
	}
	return pairs
}

// compareDies looks at the dies often enough at the start to tell mirrors before the first window.
func (m *Meter) compareDies(ctx context.Context) {
	for range mirrorReads + 2 {
		if len(m.dies) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
		for _, p := range m.dies {
			m.sample(ctx, p.a, 0)
			m.sample(ctx, p.b, 0)
		}
		m.compare()
	}
}

// compare looks at the sampler's newest readings of all dies.
func (m *Meter) compare() {
	for _, p := range m.dies {
		a, okA := p.a.value()
		b, okB := p.b.value()
		if okA && okB && p.step(a, b) && !p.b.left.Swap(true) {
			m.log.Info("two dies show one counter; one is counted", "counted", p.a.name, "left", p.b.name)
		}
	}
}

func (p *dies) step(a, b unit.Energy) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mirror.step(a, b)
}

// value returns the sampler's newest reading of the counter.
func (d *device) value() (unit.Energy, bool) {
	if d.enter(context.Background()) != nil {
		return 0, false
	}
	defer d.gate.leave()
	return d.sampled, d.ticked
}
