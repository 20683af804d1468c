package meter

import (
	"context"
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// minCoarse is the shortest window a stranger gets CPU figures for.
const minCoarse = time.Second

// span is a stretch of a device's timeline as one window sees it.
type span struct {
	gross   unit.Energy
	seconds float64 // measured, that the window answers for
	own     ownFloor
}

// end is what a part came to.
type end struct {
	span
	last    span // the stage since the last mark
	total   unit.Energy
	elapsed time.Duration
	known   time.Duration // of it, measured
	blur    time.Duration
	gap     time.Duration
	shared  bool
	still   bool       // the counter did not move
	share   float64    // the largest share of the device's energy it had at an edge or on the whole
	power   unit.Power // the largest mean power seen around and in it
	took    time.Duration
	begun   time.Time
	period  time.Duration // of the counter's steps, by then
	rough   bool          // the edges are anywhere within a step of the counter's
	gain    float64       // by how much of the figure the sensor's scale may be wrong
	doubt   float64       // µJ, of the device: what its steps hide at the edges, where those are known to lie in them
	reasons []string
}

// close takes the part off its device and says what it came to: at the counter's next step if it is to wait for that. A
// device that does not answer is a reason, not an error.
func (p *part) close(ctx context.Context, opened, asked time.Time, wait bool) end {
	if wait && !p.coarse && p.joined && p.device.step != nil {
		w := &waiter{part: p, after: asked, ends: true, done: make(chan struct{})}
		if served, err := p.await(ctx, w); err == nil && served {
			return w.end
		}
	}
	d := p.device
	if err := d.enter(ctx); err != nil {
		d.goneLater(p)
		return end{elapsed: asked.Sub(opened), gap: asked.Sub(opened), reasons: []string{ReasonHung}}
	}
	defer d.gate.leave()
	if p.coarse {
		return p.closeCoarse(opened, asked)
	}
	d.edge(ctx, asked)
	if !p.joined {
		return end{}
	}
	return p.leave(d.line.now.at)
}

// closeCoarse ends a stranger's part at the sampler's newest tick.
func (p *part) closeCoarse(opened, asked time.Time) end {
	d := p.device
	if !p.joined || d.tick.at.Before(p.opened.at) {
		e := end{elapsed: asked.Sub(opened), reasons: []string{ReasonCoarse, ReasonShortWindow}}
		if d.last.err != nil {
			e.gap, e.reasons = e.elapsed, []string{ReasonCoarse, d.why}
		}
		d.drop(p)
		return e
	}
	e := p.finish(d.tick, forecast{})
	e.elapsed, e.took = asked.Sub(opened), 0
	e.reasons = append(e.reasons, ReasonCoarse)
	if e.elapsed < minCoarse {
		e.known = 0
		e.reasons = append(e.reasons, ReasonShortWindow)
	}
	p.depart(&e, d.tick, forecast{})
	return e
}

// leave ends the part at a moment that is not before the device's newest good reading.
func (p *part) leave(at time.Time) end {
	until := p.device.line.stampAt(at)
	f := p.expect(at)
	e := p.finish(until, f)
	e.begun = p.opened.at
	p.depart(&e, until, f)
	return e
}

// depart takes the window off the timeline.
func (p *part) depart(e *end, until stamp, f forecast) {
	e.gross = p.device.line.leave(&p.member, until, p.step(), f)
	e.last = p.sinceTold(e.span)
	e.share = max(e.share, ratio(float64(e.gross), float64(e.total)))
}

// finish reads off the timeline what the window came to at a place, and what is expected on top.
func (p *part) finish(until stamp, f forecast) end {
	d := p.device
	e := end{
		span:    p.charge(until, f),
		total:   rounded(until.energy.since(p.opened.energy)+f.total, p.step()),
		elapsed: until.at.Sub(p.opened.at),
		known:   until.measured - p.opened.measured + f.known,
		blur:    p.blur,
		shared:  until.together > p.opened.together || f.shared,
		share:   max(p.portion, d.line.shareOf(&p.member)),
		power:   max(p.before, d.line.power),
		took:    p.took + d.took,
		begun:   p.opened.at,
		period:  d.period,
	}
	e.still = e.total == 0
	if p.weight == 0 {
		e.shared, e.share = false, 1
	}
	e.gap, e.reasons = d.line.troubles(p.opened.at, until.at)
	if d.last.err != nil {
		e.reasons = append(e.reasons, d.why)
	}
	if e.shared {
		e.reasons = append(e.reasons, ReasonShared)
	}
	if mean := e.total.Per(e.known); e.known >= d.period {
		e.power = max(e.power, mean)
	}
	if e.power == 0 {
		e.power = d.limit
	}
	p.sureness(&e, until.at)
	return e
}

// sureness says how well the edges of the window are known.
func (p *part) sureness(e *end, until time.Time) {
	d := p.device
	s := d.step
	if s == nil {
		e.rough = true
		return
	}
	lo, hi := s.powers()
	e.power = max(e.power, unit.Power(hi), unit.Power(p.cut.hi))
	e.rough = s.off || p.falls != s.falls || len(s.raw) > 0
	e.power = max(e.power, s.strongest())
	e.doubt = math.Hypot(p.cut.doubt(lo, hi), s.tail(until))
	e.took += s.blur(until)
	if p.early {
		e.took += s.found
	}
	switch {
	case d.sampler != nil:
		p.integrated(e)
	case d.witness != nil && p.heard != nil && !p.heard.at.IsZero():
		p.compare(e)
	}
}

// integrated adds what is not sure of samples of power: what it did between them, and that they are late.
func (p *part) integrated(e *end) {
	sensor := p.device.sampler.sum.sensor
	now := p.device.sampler.sum.mark()
	var heard powerMark
	if p.heard != nil {
		heard = *p.heard
	}
	f := sensor.between(heard, now)
	late := (now.power - heard.power).Over((sensor.update + sensor.averaging) / 2)
	e.doubt = math.Hypot(e.doubt, float64(f.half)) + float64(abs(late))
	e.rough = false
	e.gain = powerGain
	if sensor.averaging > e.elapsed {
		e.reasons = append(e.reasons, ReasonAveraging)
	}
}

// powerGain is how true a power sensor's scale is: nvml.h gives ±5 % for nvmlDeviceGetPowerUsage, amdgpu says nothing.
const powerGain = 0.05

// compareFrom is the shortest window in which counter and power sensor are held against each other: how late a sensor is
// nobody knows, and in less that may look like a disagreement.
const compareFrom = 5 * time.Second

// compare holds the counter's figure against the integral of the power sensor's samples.
func (p *part) compare(e *end) {
	if e.elapsed < compareFrom {
		return
	}
	f := p.device.witness.since(*p.heard)
	lo, hi := p.device.step.powers()
	f.half += unit.Power(hi - lo).Over(2 * e.period)
	counter := sourceFigure{e.total, unit.Energy(e.steps()) + e.power.Over(e.took+e.blur), e.known}
	if half, disagree := crossCheck(counter, sourceFigure{f.energy, f.half, f.known}); disagree {
		e.rough, e.doubt = false, float64(half)
		e.reasons = append(e.reasons, ReasonDisagree)
	}
}

// shareOf returns the part of the device's energy a window gets at present, 0…1; one that only observes sees all.
func (t *timeline) shareOf(m *member) float64 {
	if m.weight == 0 {
		return 1
	}
	return ratio(float64(m.weight), float64(t.weight))
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return min(1, max(0, a/b))
}

// rest is the time of a window without a measurement.
func (e end) rest() time.Duration { return max(0, e.elapsed-e.known) }

// coverage is the share of the window that was measured.
func (e end) coverage() float64 { return ratio(float64(e.known), float64(e.elapsed)) }

// uniform95 is the part of a uniform error's width within which 95 % of it lies.
const uniform95 = 0.95

// steps is what the counter's steps may hide at the two ends of the window, in µJ of the device. Where an edge is anywhere
// in a step, the step's age is anything from 0 to its period with equal chance; at the one edge it adds, at the other it
// takes away.
func (e end) steps() float64 {
	if e.rough {
		return float64(e.power.Over(e.period)) * uniform95
	}
	return e.doubt
}

// edges is what is not sure at the window's ends.
func (e end) edges(p *part) unit.Energy {
	return unit.Energy(e.steps()*e.share) + p.device.grain + p.step()/2
}

// holes is what the window may have been charged in the time it has no reading for.
func (e end) holes() unit.Energy {
	return unit.Energy(float64(e.power.Over(e.rest()+e.blur)) * e.share)
}

// stage makes the figures of a stage.
func (w *Window) stage(name string, until time.Time, spans []span) Stage {
	s := Stage{Name: name, Duration: until.Sub(w.staged)}
	for _, f := range w.floors(spans) {
		s.Energy -= f.energy
	}
	for _, sp := range spans {
		s.Gross += sp.gross
	}
	s.Energy += s.Gross
	return s
}

// floor is what is taken off one device.
type floor struct {
	energy unit.Energy
	err    unit.Energy // 95 %
	known  bool
	from   string // floorNone, floorCaller or the ids of certificates
}

// floors divides the caller's floors over the window's devices. A device the caller gives none for has its own, if its
// certificates cover the window.
func (w *Window) floors(spans []span) []floor {
	floors := make([]floor, len(spans))
	kinds := map[string]unit.Energy{} // gross energy of the devices under the key of their kind
	count := map[string]float64{}
	parts := w.charged()
	for i := range spans {
		d := parts[i].device
		if _, named := w.req.IdleWatts[d.name]; !named {
			kinds[d.kind] += max(0, spans[i].gross)
			count[d.kind]++
		}
	}
	for i, s := range spans {
		d := parts[i].device
		key, part := d.name, 1.0
		if _, named := w.req.IdleWatts[key]; !named {
			key, part = d.kind, 1/count[d.kind]
			if all := kinds[d.kind]; all > 0 {
				part = ratio(float64(s.gross), float64(all))
			}
		}
		watts, ok := w.req.IdleWatts[key]
		if !ok {
			floors[i] = s.own.floor()
			continue
		}
		floors[i] = floor{
			energy: unit.FromJoules(watts * part * s.seconds),
			err:    unit.FromJoules(w.req.IdleWattsUncertainty[key] * part * s.seconds),
			known:  true, from: floorCaller,
		}
	}
	return floors
}
