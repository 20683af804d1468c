package meter

import (
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Sensor is the passport of one energy counter: what it is, why it is not counted if it is not, how it moves and what its
// readings have come to.
type Sensor struct {
	Name    string // "cpu/package-0", "gpu/GPU-…"
	Label   string // for people
	Backend Backend
	Counted bool   // part of a window's sum
	Reason  string // empty when it is counted and can be read
	Detail  string // the fact behind the reason
	Scope   string // what it takes in beside its device: ScopeMIG, ScopeModule; empty: nothing

	Resolution unit.Energy // its unit, as its range or its interface tells
	Span       unit.Energy // where it wraps; 0: never, and every fall is a reset
	Limit      unit.Power  // more than the device can draw: a steeper rise is a jump

	// Read: it is read, and so what follows is known. Those inside another counter and its twins are not, and of one
	// whose driver hangs just now nothing is told.
	Read       bool
	Period     time.Duration // between its steps
	PeriodFrom string        // PeriodMeasured, PeriodAtMost, PeriodAssumed
	Jitter     time.Duration // standard deviation of the intervals between its steps, where they were measured
	Smallest   unit.Energy   // least that it rose by while it was polled; 0: it was not polled, or did not move
	ReadCost   time.Duration // median time of a reading
	Verdicts   Verdicts
	Coverage   float64       // share of the time since the first look of which the energy is known, 0…1
	MaxGap     time.Duration // longest time since then without that
}
