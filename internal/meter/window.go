package meter

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Window is a measurement that is under way. Its methods are safe for concurrent use.
type Window struct {
	m       *Meter
	id      string
	req     OpenRequest
	opened  time.Time
	changes int // of the condition, when it opened
	parts   []part
	psys    *part    // the platform beside CPU devices; nil where there is none
	absent  []string // why a kind of device that is charged by default is not there
	life    life     // by the meter's mutex
	marks   atomic.Int32

	gate   gate // over what follows
	ended  bool
	stages []Stage
	staged time.Time
}

// part is a window's place on one device. It belongs to the device's gate while the window is open.
type part struct {
	member
	device  *device
	coarse  bool                       // from tick to tick
	before  unit.Power                 // drawn just before it opened
	took    time.Duration              // by the reading it opened with
	portion float64                    // of the device's energy, just after it opened
	falls   int                        // of the stepper, when it opened
	told    *span                      // what its stages so far were said to be; nil before the first
	book    *floorBook                 // the floors known when it opened; nil where its device has none
	level   restState                  // of the board, when it opened
	books   *atomic.Pointer[floorBook] // where the floors will be, of a window that outlived its meter
	heard   *powerMark                 // the power sensor's newest sample, when it opened; nil where there is none
	early   bool                       // it opened before the counter's steps were known
}

// Open begins a window.
func (m *Meter) Open(ctx context.Context, r OpenRequest) (*Window, error) {
	if r.Weight == 0 {
		r.Weight = 1
	}
	if err := m.check(r); err != nil {
		return nil, err
	}
	if err := m.admit(r.Owner); err != nil {
		return nil, err
	}
	if err := m.wakeFor(ctx, r); err != nil {
		m.withdraw(r.Owner)
		return nil, fmt.Errorf("window %s: %w", r.Name, err)
	}
	devices, absent, err := m.choose(r.Devices)
	if err != nil {
		m.withdraw(r.Owner)
		return nil, err
	}
	w := &Window{m: m, id: newID(), req: r, opened: time.Now(), gate: make(gate, 1), absent: absent}
	w.life = m.lifeOf(w)
	w.staged = w.opened
	w.enlist(devices)
	w.levels(ctx)
	if err := w.begin(ctx); err != nil {
		w.release()
		m.dismiss(w)
		return nil, fmt.Errorf("window %s: %w", r.Name, err)
	}
	m.mu.Lock()
	w.changes = m.changes
	m.windows[w.id] = w
	m.opened++
	m.mu.Unlock()
	m.touch()
	return w, nil
}

// begin opens the window's parts. Those that wait for a step of a counter come first, so that the others begin when all
// waiting is over.
func (w *Window) begin(ctx context.Context) error {
	if w.req.WaitEdge {
		for i := range w.parts {
			if err := w.parts[i].openAtStep(ctx, w.opened); err != nil {
				return fmt.Errorf("%s: %w", w.parts[i].device.name, err)
			}
		}
		w.opened = time.Now()
		w.staged = w.opened
	}
	for i := range w.parts {
		if err := w.parts[i].open(ctx, w.opened); err != nil {
			return fmt.Errorf("%s: %w", w.parts[i].device.name, err)
		}
	}
	return nil
}

// enlist gives the window a part on each device, and one on the platform if it charges a CPU.
func (w *Window) enlist(devices []*device) {
	weight := weightOf(w.req.Weight)
	if w.req.Observe {
		weight = 0
	}
	w.parts = make([]part, 0, len(devices)+1)
	cpu := false
	for _, d := range devices {
		w.parts = append(w.parts, part{device: d, member: member{weight: weight}, coarse: d.kind != kindGPU && !w.req.Exact})
		cpu = cpu || d.kind != kindGPU
	}
	if cpu && w.m.psys != nil {
		w.parts = append(w.parts, part{device: w.m.psys, coarse: !w.req.Exact})
		w.psys = &w.parts[len(w.parts)-1]
	}
}

// charged returns the parts that make the window's sum.
func (w *Window) charged() []part {
	if w.psys != nil {
		return w.parts[:len(w.parts)-1]
	}
	return w.parts
}

// open puts the part on its device's timeline: at a reading, or for a stranger at the sampler's next tick.
func (p *part) open(ctx context.Context, asked time.Time) error {
	d := p.device
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.gate.leave()
	if p.coarse {
		d.waiting = append(d.waiting, p)
		return nil
	}
	if p.joined {
		return nil
	}
	if d.step != nil {
		d.step.rouse()
	}
	d.edge(ctx, asked)
	p.join(d.line.now.at)
	return nil
}

// join puts the part on the timeline at a moment.
func (p *part) join(at time.Time) {
	d := p.device
	d.line.joinAt(&p.member, at)
	p.before, p.took, p.portion = d.line.power, d.took, d.line.shareOf(&p.member)
	if s := d.step; s != nil {
		p.falls, p.early = s.falls, len(s.raw) > 0
		p.took += s.blur(at)
	}
	if sensor := d.sensor(); sensor != nil {
		p.heard = new(sensor.sum.mark())
	}
}

// openAtStep puts the part on the timeline at the counter's next step. It does nothing where that cannot be waited for.
func (p *part) openAtStep(ctx context.Context, asked time.Time) error {
	if p.coarse || p.device.step == nil {
		return nil
	}
	_, err := p.await(ctx, &waiter{part: p, after: asked, done: make(chan struct{})})
	return err
}

// await waits for an edge at the counter's next step and reports whether it came; it does not where the counter's steps
// are not known or it does not move.
func (p *part) await(ctx context.Context, w *waiter) (bool, error) {
	d := p.device
	if err := d.enter(ctx); err != nil {
		return false, err
	}
	if d.step.off {
		d.gate.leave()
		return false, nil
	}
	d.step.waiters = append(d.step.waiters, w)
	d.step.rouse()
	patience := time.NewTimer(4*d.step.period() + 400*time.Millisecond)
	d.gate.leave()
	defer patience.Stop()
	select {
	case <-w.done:
		return true, nil
	case <-patience.C:
	case <-ctx.Done():
	}
	if err := d.enter(context.WithoutCancel(ctx)); err != nil {
		return false, err
	}
	defer d.gate.leave()
	if !d.step.forgo(w) {
		return true, nil
	}
	return false, context.Cause(ctx)
}

// admit counts a window that is about to open.
func (m *Meter) admit(owner uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open >= m.opts.MaxWindows {
		return fmt.Errorf("windows open: %d: %w", m.open, ErrTooMany)
	}
	if n := m.owned[owner]; n >= m.opts.MaxPerOwner {
		return fmt.Errorf("windows open of uid %d: %d: %w", owner, n, ErrTooMany)
	}
	m.owned[owner]++
	if m.open++; m.open == 1 {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// dismiss forgets a window that has ended.
func (m *Meter) dismiss(w *Window) {
	m.mu.Lock()
	delete(m.windows, w.id)
	m.mu.Unlock()
	m.withdraw(w.req.Owner)
}

// withdraw takes a window out of the count.
func (m *Meter) withdraw(owner uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	if m.owned[owner]--; m.owned[owner] == 0 {
		delete(m.owned, owner)
	}
}

// ID returns 128 random bits in hex.
func (w *Window) ID() string { return w.id }

// Opened returns when the window began.
func (w *Window) Opened() time.Time { return w.opened }

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, it says
	return hex.EncodeToString(id[:])
}

// Devices returns what the window charges.
func (w *Window) Devices() []string {
	names := make([]string, 0, len(w.parts))
	parts := w.charged()
	for i := range parts { // by index: a copy would read what a device's other windows may be changing
		names = append(names, parts[i].device.name)
	}
	return names
}

// Mark ends the current stage under this name and begins the next. A device whose counter cannot be read now adds
// nothing to the stage.
func (w *Window) Mark(ctx context.Context, name string) (Stage, error) {
	if !isLabel(name) {
		return Stage{}, fmt.Errorf("stage name %q: not [A-Za-z0-9._-]{1,64}: %w", clip(name), ErrBadRequest)
	}
	if err := w.gate.pass(ctx); err != nil {
		return Stage{}, fmt.Errorf("window %s: %w", w.req.Name, err)
	}
	defer w.gate.leave()
	if w.ended {
		return Stage{}, ErrNoWindow
	}
	if len(w.stages) >= w.m.opts.MaxStages {
		return Stage{}, fmt.Errorf("stages of the window: %d: %w", len(w.stages), ErrTooMany)
	}
	asked := time.Now()
	spans := make([]span, 0, len(w.parts))
	for i := range w.charged() {
		s, err := w.parts[i].mark(ctx, asked)
		if err != nil {
			return Stage{}, fmt.Errorf("window %s: %s: %w", w.req.Name, w.parts[i].device.name, err)
		}
		spans = append(spans, s)
	}
	s := w.stage(name, asked, spans)
	w.stages, w.staged = append(w.stages, s), asked
	w.marks.Add(1)
	return s, nil
}

// Abandon ends a window whose owner went away: nothing is read for it. It does nothing to one that has ended.
func (w *Window) Abandon() {
	if w.gate.pass(context.Background()) != nil {
		return // a call on it hangs, and will end it
	}
	defer w.gate.leave()
	if w.ended {
		return
	}
	w.ended = true
	w.release()
	w.m.dismiss(w)
	w.m.log.Debug("window abandoned", "window", w.id, "name", w.req.Name, "uid", w.req.Owner,
		"seconds", time.Since(w.opened).Seconds())
}

// release takes the parts off their devices.
func (w *Window) release() {
	for i := range w.parts {
		p := &w.parts[i]
		if p.device.enter(context.Background()) != nil {
			p.device.goneLater(p)
			continue
		}
		if p.joined {
			p.device.line.pass(time.Now())
		}
		p.device.drop(p)
		p.device.gate.leave()
	}
}

func (d *device) goneLater(p *part) {
	d.goneMu.Lock()
	defer d.goneMu.Unlock()
	d.gone = append(d.gone, p)
}

// mark ends the current stage on the device.
func (p *part) mark(ctx context.Context, asked time.Time) (span, error) {
	d := p.device
	if err := d.enter(ctx); err != nil {
		return span{}, err
	}
	defer d.gate.leave()
	now := d.tick
	if !p.coarse {
		d.edge(ctx, asked)
		now = d.line.stamp()
	}
	if !p.joined {
		return span{}, nil
	}
	return p.stage(p.charge(now, p.expect(now.at))), nil
}

// stage is what a window's charge has grown by since the stage before. A stage whose end was not read yet when it was
// told makes the next one more or less.
func (p *part) stage(charged span) span {
	s := p.sinceTold(charged)
	p.told = &charged
	return s
}

// sinceTold is what the stage that is under way has come to.
func (p *part) sinceTold(charged span) span {
	if p.told == nil {
		return charged
	}
	return span{charged.gross - p.told.gross, charged.seconds - p.told.seconds, charged.own.since(p.told.own)}
}

// charge is what the window has come to at a place, with what is expected on top.
func (p *part) charge(at stamp, f forecast) span {
	uj := at.energy.since(p.opened.energy) + f.total
	if p.weight > 0 {
		uj = float64(p.weight)/unitWeight*at.phi.since(p.opened.phi) + f.share
	}
	return span{rounded(uj, p.step()), p.seconds(p.opened, at) + f.seconds, p.rest(at, f)}
}

// expect is what is not read yet of the time up to a moment.
func (p *part) expect(until time.Time) forecast {
	if p.device.step == nil {
		return forecast{}
	}
	return p.device.line.forecast(&p.member, until, p.device.step.outlook(until))
}

// step is what the part's energy is rounded to: strangers see CPU energy in tenths of a joule.
func (p *part) step() unit.Energy {
	if p.coarse {
		return unit.Joule / 10
	}
	return 1
}
