package meter

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// powerSample is one figure of a power sensor, or the lack of one.
type powerSample struct {
	power unit.Power
	at    time.Time // carries the monotonic clock
	err   error     // nothing was read
}

// lapse is what one sample leaves unknown about the energy since the sample before.
type lapse uint8

const (
	noLapse lapse = iota // the energy up to the sample is known
	began                // the first sample: there is nothing before it
	missing              // no number: the next sample spans this interval too, if it comes soon
	stale                // taken no later than the newest one: it adds nothing
	split                // the sample before is too long ago: what was drawn since is unknown, and is not counted
)

func (l lapse) String() string {
	return [...]string{"none", "began", "missing", "stale", "split"}[l]
}

// known reports whether the energy between the sample and the one before is counted.
func (l lapse) known() bool { return l == noLapse }

// errNoNumber is a sample that is one of the values with which sensors say that they do not know.
var errNoNumber = errors.New("the power sensor's value is no power")

// powerSensor is what is known of a power sensor.
type powerSensor struct {
	period    time.Duration // between two looks at it, nominally
	update    time.Duration // between two figures of its own: what is read may be this old; 0: it is of the instant
	averaging time.Duration // each figure is the mean over this long; 0: it is of an instant
	limit     unit.Power    // more than the device can draw; 0: not known
}

// The rules of integration, in periods.
const (
	holdTenths  = 15 // the first and the last sample stand for what lies beyond them for at most 1.5 periods
	splitTenths = 25 // further apart than 2.5 periods nobody knows what was drawn between two samples
)

// hold is how long a sample may stand for what lies beyond it.
func (s powerSensor) hold() time.Duration { return min(s.period, maxPeriod) * holdTenths / 10 }

// apart is how far apart two samples may be.
func (s powerSensor) apart() time.Duration { return min(s.period, maxPeriod) * splitTenths / 10 }

// maxPeriod keeps the arithmetic within its types: nobody looks at a sensor that seldom.
const maxPeriod = time.Hour

// check returns why a sample's figure is no power, or nil.
func (s powerSensor) check(p unit.Power) error {
	if p < 0 || isSentinel(p) || p > maxSensible || s.limit > 0 && p > s.limit {
		return errNoNumber
	}
	return nil
}

// maxSensible is more than any one device draws. It keeps the arithmetic within its types.
const maxSensible = unit.Power(1e12) * unit.Microwatt

// isSentinel reports whether a power is all ones in one of the widths and units that drivers use.
func isSentinel(p unit.Power) bool {
	for _, u := range [...]unit.Power{unit.Microwatt, unit.Milliwatt, unit.Watt} {
		if p == math.MaxUint16*u || p == math.MaxUint32*u {
			return true
		}
	}
	return false
}

// integral turns the samples of one power sensor into energy that only rises: trapezoids between real samples, over the
// time that passed. It is pure: what it knows it was told.
type integral struct {
	sensor powerSensor

	last   powerSample // the newest real one
	has    bool
	recent []powerSample // the newest real ones, as far back as an edge can be blurred

	total    unit.Energy // up to last
	known    time.Duration
	rest     uint64      // of total, in halves of µW·ns: less than halfMicrojoule
	jump     float64     // µW: by how much the newest sample differs from the one before
	variance float64     // µJ², of total: when within each interval the power changed
	bound    float64     // µJ: total is at most this far off, if the power did in each interval no more than the samples show
	shown    unit.Energy // the most that was ever told
}

// halfMicrojoule is a microjoule in halves of a µW·ns: the mean of two samples is half their sum.
const halfMicrojoule = 2_000_000_000

// newIntegral begins at 0.
func newIntegral(s powerSensor) *integral { return &integral{sensor: s} }

// step takes a sample and returns the energy up to it, since the beginning, and what is unknown about it. Equal samples and
// zeros are figures like any other. Samples are to come in the order of their time.
func (g *integral) step(s powerSample) (unit.Energy, lapse) {
	if s.err != nil || g.sensor.check(s.power) != nil {
		return g.tell(g.total), missing
	}
	if g.has && !s.at.After(g.last.at) {
		return g.tell(g.total), stale
	}
	verdict := noLapse
	switch {
	case !g.has:
		verdict = began
	case s.at.Sub(g.last.at) > g.sensor.apart():
		verdict = split
		g.recent, g.jump = g.recent[:0], 0
	default:
		g.trapezoid(s)
	}
	g.last, g.has = s, true
	g.remember(s)
	return g.tell(g.total), verdict
}

// trapezoid counts the interval up to a sample: as if the power had gone there in a straight line. It may also have jumped
// at any moment, which makes the energy uniform between that of the one sample held and that of the other. Where the power
// jumps in one interval after the other it also does so unseen within them: the variance of a process that forgets itself
// from sample to sample is three times that of a single jump.
func (g *integral) trapezoid(s powerSample) {
	length := s.at.Sub(g.last.at)
	high, low := bits.Mul64(uint64(g.last.power)+uint64(s.power), uint64(length))
	low, carry := bits.Add64(low, g.rest, 0)
	whole, rest := bits.Div64(high+carry, low, halfMicrojoule)
	g.total += unit.Energy(whole)
	g.known += length
	g.rest = rest
	jump := math.Abs(float64(s.power - g.last.power))
	between, late := jump*length.Seconds(), jump*g.sensor.update.Seconds()
	busy := 1.0
	if jump > 0 {
		busy += 2 * min(1, g.jump/jump)
	}
	g.jump = jump
	g.variance += (busy*between*between + late*late) / 12
	g.bound += (busy*between + late) / 2
}

// remember keeps a sample for as long as it can blur an edge.
func (g *integral) remember(s powerSample) {
	blur := 2 * max(g.sensor.averaging, g.sensor.update)
	if blur == 0 {
		return
	}
	keep := 0
	for keep < len(g.recent) && s.at.Sub(g.recent[keep].at) > blur {
		keep++
	}
	g.recent = append(g.recent[:copy(g.recent, g.recent[keep:])], s)
}

// tell keeps what is told from falling: after a held sample the true energy may be less than what was told, and catches up.
func (g *integral) tell(e unit.Energy) unit.Energy {
	g.shown = max(g.shown, e)
	return g.shown
}

// until returns the energy up to a moment that is not before the newest sample, which stands for what lies beyond it for at
// most 1.5 periods; rest is how much of the time up to the moment then has nothing that stands for it. Before the first
// sample nothing is known.
func (g *integral) until(t time.Time) (e unit.Energy, rest time.Duration, ok bool) {
	if !g.has {
		return 0, 0, false
	}
	more, rest := g.sensor.held(g.last.power, t.Sub(g.last.at))
	return g.tell(g.total + more), rest, true
}

// held returns the energy of an edge of a window that lies a time away from its first or last sample, and how much of that
// time the sample cannot stand for.
func (s powerSensor) held(p unit.Power, away time.Duration) (e unit.Energy, rest time.Duration) {
	covered := min(max(0, away), s.hold())
	return p.Over(covered), max(0, away) - covered
}

// powerMark is an integral at its newest sample. A window's figure is what lies between two.
type powerMark struct {
	at       time.Time
	energy   unit.Energy
	known    time.Duration // that the energy was drawn in
	power    unit.Power
	variance float64    // µJ²
	bound    float64    // µJ
	spread   unit.Power // between the least and the greatest power that the sample may be blurred with
}

// mark returns where the integral is. Its at is zero before the first sample.
func (g *integral) mark() powerMark {
	m := powerMark{at: g.last.at, energy: g.total, known: g.known, power: g.last.power, variance: g.variance, bound: g.bound}
	lo, hi := m.power, m.power
	for _, s := range g.recent {
		lo, hi = min(lo, s.power), max(hi, s.power)
	}
	m.spread = hi - lo
	return m
}

// powerFigure is the energy between two marks of an integral.
type powerFigure struct {
	energy unit.Energy
	half   unit.Energy   // of the 95 % interval
	length time.Duration // between the marks, gaps included
	known  time.Duration // of it, what the energy is of
	reason string        // ReasonAveraging, or empty
}

// between returns the figure of a window that lasts from one mark to a later one.
//
// A sensor that is late, or tells a mean, sees a change of power after it happened: on average by half its update period
// and half its averaging time. What that shifts out of the window at the one end it shifts in at the other, so that the
// difference of the power at the ends corrects it. What remains at each end is at most the local spread of power over
// half the update period (when within it the figure was taken is unknown), and over an eighth of the averaging time (a mean
// of two levels can have been made with the higher one first or last).
func (s powerSensor) between(from, to powerMark) powerFigure {
	f := powerFigure{energy: to.energy - from.energy, length: to.at.Sub(from.at), known: to.known - from.known}
	f.energy += (to.power - from.power).Over((s.update + s.averaging) / 2)
	if s.averaging > f.length {
		f.reason = ReasonAveraging
	}
	sigma := math.Sqrt(max(0, to.variance-from.variance))
	within := min(within95*sigma, to.bound-from.bound)
	edge := s.update/2 + s.averaging/8
	edges := math.Hypot(float64(from.spread.Over(edge)), float64(to.spread.Over(edge)))
	if s.averaging > 0 { // all of a ramp is late by the same
		edges += math.Abs(float64((to.power - from.power).Over(s.update / 2)))
	}
	f.half = unit.Energy(math.Ceil(max(0, within) + edges))
	return f
}

// within95 is how many standard deviations 95 % of the errors lie within. For a normal error that is known to be one it were
// 1.96; here the deviation is an estimate from a few jumps, and what happened between two samples may exceed them.
const within95 = 2.3
