package meter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// source is an energy counter. It says when it was asked, on the monotonic clock.
type source interface {
	energy(context.Context) (unit.Energy, time.Time, error)
}

// device is one counter with its timeline. What is below the gate belongs to whoever has passed it.
type device struct {
	name     string
	label    string
	kind     string
	backend  Backend
	source   source
	board    *board                      // of NVIDIA's
	sampler  *sampler                    // the source, where that is a power sensor
	witness  *sampler                    // a power sensor beside the counter; nil where there is none
	sleeps   func() bool                 // of a GPU: it is suspended
	wake     func(context.Context) error // touches a GPU, which wakes it if it sleeps
	restless bool                        // looking at it would keep it from going to sleep
	step     *stepper                    // of a counter that moves in long steps; nil for one whose every reading will do
	period   time.Duration               // between the counter's steps
	grain    unit.Energy                 // the counter's resolution
	limit    unit.Power                  // more than it can draw
	asleep   func() time.Duration
	pass     passport    // below the gate
	left     atomic.Bool // a mirror of another device: not counted

	followed atomic.Bool // somebody follows its steps

	gate     gate
	line     timeline
	last     reading // the newest, good or not
	why      string  // reason of the newest if it failed
	took     time.Duration
	waiting  []*part // for the sampler's next tick
	tick     stamp   // the sampler's newest good one
	ticked   bool
	sampled  unit.Energy // the counter then
	heard    time.Time   // when the witness was last looked at
	reported stamp       // where Power has got to
	power    DevicePower
	turned   time.Time             // when the condition last changed
	lowest   map[string]unit.Power // between two ticks, by condition

	goneMu sync.Mutex
	gone   []*part // ended while the gate was shut
	turn   *string // the condition since, if it changed while the gate was shut
}

// gate is a lock that is waited for no longer than a driver call may take. A channel, since a wait in a test's faked time
// must let that time pass.
type gate chan struct{}

// pass takes the gate. It fails when the context ends, or when whoever is inside hangs.
func (g gate) pass(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(host.CallTimeout + time.Second)
	defer timer.Stop()
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return host.ErrHung
	}
}

func (g gate) leave() { <-g }

// enter takes the device's gate and lets go what ended while it was shut.
func (d *device) enter(ctx context.Context) error {
	if err := d.gate.pass(ctx); err != nil {
		return err
	}
	d.goneMu.Lock()
	gone, turn := d.gone, d.turn
	d.gone, d.turn = nil, nil
	d.goneMu.Unlock()
	for _, p := range gone {
		d.drop(p)
	}
	if turn != nil {
		d.line.turn(*turn)
	}
	return nil
}

// edge makes a reading's moment of an edge of a window: a reading that began after asked; one that another edge has made
// since will do. Where the counter's steps are followed no reading is needed: the edge lies between two of theirs.
func (d *device) edge(ctx context.Context, asked time.Time) {
	if d.step == nil || d.step.off {
		d.read(ctx, asked)
		return
	}
	if !d.step.live(asked) {
		d.read(ctx, asked)
		asked = d.last.at
	} else {
		d.took = 0
	}
	d.line.pass(asked)
}

// read takes a reading that began after asked, if none has.
func (d *device) read(ctx context.Context, asked time.Time) {
	if d.last.at.After(asked) {
		return
	}
	d.take(d.source.energy(ctx))
}

// take takes in what a source said. What is older than the newest reading adds nothing.
func (d *device) take(e unit.Energy, at time.Time, err error) {
	now := time.Now()
	if at.IsZero() {
		at = now // the board was never reached
	}
	if at.Before(d.last.at) {
		return
	}
	if errors.Is(err, errLapse) {
		d.step.lapse()
		err = nil
	}
	d.last = d.reading(e, at)
	d.last.err = err
	d.took, d.why = now.Sub(at), whyOf(err)
	if d.sampler != nil {
		d.took = 0 // a sample says when it was taken
	}
	if d.step != nil && err == nil {
		l := sight{asked: at, got: now, value: e}
		if d.sampler != nil {
			l.got, l.power = at, d.sampler.newest().power
		}
		d.step.observe(l)
		return
	}
	if !at.Before(d.line.now.at) || d.step != nil {
		d.line.cut(d.last, d.why, nil)
	}
}

// moves tells that the counter does so in steps of a period.
func (d *device) moves(period time.Duration) {
	d.period, d.line.hold, d.line.counter.blur = period, 4*period, period
}

// reading is a value of the counter at a moment.
func (d *device) reading(e unit.Energy, at time.Time) reading {
	return reading{value: e, at: at, asleep: d.asleep()}
}

// sample is a tick of the sampler: with a reading, windows that may know ticks alone begin and get their newest edge. A
// board's reading may be shared with others who look at it, if at most maxAge old.
func (d *device) sample(ctx context.Context, maxAge time.Duration) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.gate.leave()
	switch {
	case d.step != nil && d.step.active: // it is read all the time
	case d.sampler != nil && d.restless:
		return nil // until a window needs it
	case d.board != nil && d.sampler == nil && maxAge > 0:
		e, at, err := d.board.recent(ctx, maxAge)
		d.take(e, at, err)
	default:
		d.read(ctx, time.Now())
	}
	d.tock()
	return nil
}

// tock keeps the newest cut as the sampler's, unless its energy is not known yet.
func (d *device) tock() {
	if d.last.err != nil || d.line.open < len(d.line.memory) || !d.line.counter.hasBase {
		return
	}
	d.tick, d.ticked, d.sampled = d.line.stamp(), true, d.last.value
	for _, p := range d.waiting {
		d.line.join(&p.member)
		p.before = d.line.power
	}
	clear(d.waiting)
	d.waiting = d.waiting[:0]
}

// drop takes a window off the device with no figure made of it.
func (d *device) drop(p *part) {
	if !p.joined {
		for i, w := range d.waiting {
			if w == p {
				d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
				break
			}
		}
		return
	}
	d.line.leave(&p.member, d.line.stamp(), 1, forecast{})
}

// report renews the mean power since the report before.
func (d *device) report() DevicePower {
	now := d.line.stamp()
	stretch := now.measured - d.reported.measured
	p := DevicePower{Device: d.name, Label: d.label, Backend: d.backend}
	switch {
	case d.left.Load():
		p.Reason = ReasonMirrored
	case d.last.err != nil:
		p.Reason = d.why
	case d.sampler != nil:
		return d.sensed(p)
	case stretch >= minPowerSpan:
		p.Known, p.Power = true, unit.Energy(now.energy.since(d.reported.energy)).Per(stretch)
		d.remember(p.Power, stretch)
	case now.at.Sub(d.reported.at) < minPowerSpan && d.power.Known:
		return d.power
	case now.at.Sub(d.reported.at) < minPowerSpan:
		p.Reason = ReasonShortWindow
	default:
		p.Reason = ReasonGap
	}
	d.reported, d.power = now, p
	return p
}

// sensed is what the power sensor said last, if that is not long ago.
func (d *device) sensed(p DevicePower) DevicePower {
	switch n := d.sampler.newest(); {
	case n.at.IsZero() || time.Since(n.at) > longTick:
		p.Reason = ReasonGap
		if d.sleeps() {
			p.Reason = ReasonSleeping
		}
	default:
		p.Known, p.Power = true, n.power
	}
	d.reported, d.power = d.line.stamp(), p
	return p
}

// longTick is more than the time between two ticks.
const longTick = 15 * time.Second

// sensor returns the device's power sensor, source or witness; nil where there is none.
func (d *device) sensor() *sampler {
	if d.sampler != nil {
		return d.sampler
	}
	return d.witness
}

// listen looks at the power sensor beside the counter, if it is time to. A board without one is not asked again.
func (d *device) listen(ctx context.Context) {
	if d.witness == nil || time.Since(d.heard) < powerPeriod {
		return
	}
	d.heard = time.Now()
	if _, _, err := d.witness.look(ctx); host.ReasonOf(err) == host.NotSupported {
		d.witness = nil
	}
}

// whyOf names the reason why a counter was not read.
func whyOf(err error) string {
	if err == nil {
		return ""
	}
	switch host.ReasonOf(err) {
	case host.NoPermission:
		return ReasonPermission
	case host.Suspended:
		return ReasonSleeping
	case host.Lost, host.NoDriver, host.Absent:
		return ReasonLost
	case host.Hung:
		return ReasonHung
	case host.NotSupported:
		return ReasonNoCounter
	}
	return ReasonUnreadable
}

// nvmlPeriod is how often NVML's energy counter moves, 100 ms at most.
const nvmlPeriod = 100 * time.Millisecond

// boardLimit stands for 1.5 times the highest cap of a board that does not tell it.
const boardLimit = 2 * unit.Kilowatt

// board reads a GPU's counter, and leaves one that sleeps asleep.
type board struct {
	gpu    *host.GPU
	status *host.File // power/runtime_status of its PCI function; nil where the kernel has none
	mu     sync.Mutex // over status, which is read before a device's gate too
	rest   level
}

func newBoard(sys host.Dir, gpu *host.GPU) *board {
	b := &board{gpu: gpu}
	pci := strings.ToLower(gpu.Info().PCI)
	if len(pci) > len("0000:01:00.0") {
		pci = pci[len(pci)-len("0000:01:00.0"):] // NVML writes the domain with eight digits
	}
	if file, err := sys.Open("bus/pci/devices/" + pci + "/power/runtime_status"); err == nil {
		b.status = file
	}
	return b
}

// sleeps reports whether the kernel has suspended the board.
func (b *board) sleeps() bool {
	if b.status == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var buf [16]byte
	n, err := b.status.ReadAt(buf[:])
	return err == nil && strings.HasPrefix(string(buf[:n]), "suspend")
}

func (b *board) energy(ctx context.Context) (unit.Energy, time.Time, error) {
	if b.sleeps() {
		return 0, time.Now(), host.ErrSuspended
	}
	return b.gpu.Energy(ctx)
}

// recent is energy for those who are content with a reading others have made.
func (b *board) recent(ctx context.Context, maxAge time.Duration) (unit.Energy, time.Time, error) {
	if b.sleeps() {
		return 0, time.Now(), host.ErrSuspended
	}
	r, err := b.gpu.Read(ctx, maxAge)
	if err == nil {
		err = r.EnergyErr
	}
	return r.Energy, r.At, err
}

func (b *board) limit() unit.Power {
	if _, hi, err := b.gpu.LimitRange(); err == nil && hi > 0 {
		return hi + hi/2
	}
	return boardLimit
}
