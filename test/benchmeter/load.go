// Package benchmeter measures how true the meter's figures are: windows on simulated energy counters, whose load is known
// exactly, in faked time. `make bench-meter` runs all of it.
package benchmeter

import (
	"math/rand/v2"
	"sort"
	"sync"
	"time"
)

// The two powers between which every load moves, in watts.
const (
	rest int64 = 50
	busy int64 = 300
)

// dwell is how long the telegraph stays at a power in the mean.
const dwell = 200 * time.Millisecond

// Load is what a board draws: a power that is constant by pieces, and so has an exact integral. Watts and nanoseconds make
// whole nanojoules; 2^63 of them are a year at 300 W. It is safe for concurrent use.
type Load struct {
	mu     sync.Mutex
	pieces []piece
	flips  *rand.Rand // of a telegraph; nil otherwise
}

// piece lasts until the next one begins.
type piece struct {
	from   time.Duration // since the load began
	watts  int64
	before int64 // nJ drawn until then
}

// NewLoad returns a load that draws watts until told otherwise.
func NewLoad(watts int64) *Load { return &Load{pieces: []piece{{watts: watts}}} }

// NewTelegraph returns a load that flips between the two powers for ever, after exponential dwells.
func NewTelegraph(flips *rand.Rand) *Load {
	l := NewLoad(rest)
	if flips.IntN(2) == 1 {
		l = NewLoad(busy)
	}
	l.flips = flips
	return l
}

// Set lets the load draw watts from a moment on, which may lie in the future. What was planned for later is forgotten.
func (l *Load) Set(from time.Duration, watts int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(from, watts)
}

func (l *Load) set(from time.Duration, watts int64) {
	n := sort.Search(len(l.pieces), func(i int) bool { return l.pieces[i].from >= from })
	l.pieces = l.pieces[:n]
	p := piece{from: from, watts: watts}
	if n > 0 {
		p.before = l.pieces[n-1].until(from)
	}
	l.pieces = append(l.pieces, p)
}

func (p piece) until(at time.Duration) int64 { return p.before + p.watts*int64(at-p.from) }

// Drawn returns the energy since the load began, in nJ. Before that it is 0.
func (l *Load) Drawn(at time.Duration) int64 {
	if at <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.flips != nil && l.last().from <= at {
		stay := time.Duration(l.flips.ExpFloat64() * float64(dwell))
		l.set(l.last().from+max(1, stay), rest+busy-l.last().watts)
	}
	i := sort.Search(len(l.pieces), func(i int) bool { return l.pieces[i].from > at })
	return l.pieces[i-1].until(at)
}

func (l *Load) last() piece { return l.pieces[len(l.pieces)-1] }

// Joules returns what was drawn between two moments.
func (l *Load) Joules(from, to time.Duration) float64 {
	return float64(l.Drawn(to)-l.Drawn(from)) / 1e9
}
