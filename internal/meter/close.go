package meter

import (
	"context"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// minCoarse is the shortest window a stranger gets CPU figures for.
const minCoarse = time.Second

// span is a stretch of a device's timeline as one window sees it.
type span struct {
	gross   unit.Energy
	seconds float64 // measured, that the window answers for
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
	reasons []string
}

// close takes the part off its device and says what it came to. A device that does not answer is a reason, not an error.
func (p *part) close(ctx context.Context, opened, asked time.Time) end {
	d := p.device
	if err := d.enter(ctx); err != nil {
		d.goneLater(p)
		return end{elapsed: asked.Sub(opened), gap: asked.Sub(opened), reasons: []string{ReasonHung}}
	}
	defer d.gate.leave()
	until := d.tick
	if !p.coarse {
		d.read(ctx, asked)
		until = d.line.stamp()
	}
	if !p.joined || until.at.Before(p.opened.at) {
		e := end{elapsed: asked.Sub(opened), reasons: []string{ReasonCoarse, ReasonShortWindow}}
		if d.last.err != nil {
			e.gap, e.reasons = e.elapsed, []string{ReasonCoarse, d.why}
		}
		d.drop(p)
		return e
	}
	e := p.finish(opened, asked, until)
	e.gross = d.line.leave(&p.member, until, p.step())
	e.share = max(e.share, ratio(float64(e.gross), float64(e.total)))
	return e
}

// finish reads off the timeline what the window came to at a stamp.
func (p *part) finish(opened, asked time.Time, until stamp) end {
	d := p.device
	e := end{
		span:    span{seconds: p.seconds(p.opened, until)},
		last:    span{p.share(p.staged, until, p.step()), p.seconds(p.staged, until)},
		total:   p.seen(p.opened, until, p.step()),
		elapsed: until.at.Sub(p.opened.at),
		known:   until.measured - p.opened.measured,
		blur:    p.blur,
		shared:  until.together > p.opened.together,
		still:   until.energy.since(p.opened.energy) == 0,
		share:   max(p.portion, d.line.shareOf(&p.member)),
		power:   max(p.before, d.line.power),
		took:    p.took + d.took,
	}
	if p.weight == 0 {
		e.shared, e.share = false, 1
	}
	e.gap, e.reasons = d.line.troubles(p.opened.at, until.at)
	if p.coarse {
		e.elapsed, e.took = asked.Sub(opened), 0
		e.reasons = append(e.reasons, ReasonCoarse)
		if e.elapsed < minCoarse {
			e.known = 0
			e.reasons = append(e.reasons, ReasonShortWindow)
		}
	}
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
	return e
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

// edges is what the counter's steps may hide at the two ends of the window, and the time it has no reading for. A step's
// age is anything from 0 to its period with equal chance; at the one edge it adds, at the other it takes away.
func (e end) edges(p *part) unit.Energy {
	d := p.device
	steps := float64(e.power.Over(d.period)) * uniform95
	holes := float64(e.power.Over(e.rest() + e.blur))
	return unit.Energy((steps+holes)*e.share) + d.grain + p.step()/2
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
}

// floors divides the caller's floors over the window's devices.
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
			continue
		}
		floors[i] = floor{
			energy: unit.FromJoules(watts * part * s.seconds),
			err:    unit.FromJoules(w.req.IdleWattsUncertainty[key] * part * s.seconds),
			known:  true,
		}
	}
	return floors
}
