package meter

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Meter owns the energy counters of one host. Its methods are safe for concurrent use.
type Meter struct {
	host    *host.Host
	opts    Options
	log     *slog.Logger
	began   time.Time // the grid of heartbeats starts here
	devices []*device // in the order they are read; fixed
	psys    *device   // nil where the platform has no counter
	dies    []*dies
	sensors []Sensor // as found; readings may add a reason
	power   atomic.Pointer[[]DevicePower]
	wake    chan struct{} // a first window has opened
	kept    shelves       // results of windows that have ended
	journal *journal      // nil where windows do not survive the meter

	mu        sync.Mutex // over what follows, held for microseconds
	windows   map[string]*Window
	owned     map[uint32]int
	open      int // windows, also those not yet or no longer in the map
	condition string
	changes   int            // of the condition
	below     map[string]int // windows that were below a floor, by its id

	floors atomic.Pointer[floorBook]
}

// New finds the host's energy counters; a host with none is fine. The GPUs must have been opened.
func New(ctx context.Context, h *host.Host, o Options, log *slog.Logger) (*Meter, error) {
	m := &Meter{
		host: h, opts: o.withDefaults(), log: log, began: time.Now(), wake: make(chan struct{}, 1),
		windows: map[string]*Window{}, owned: map[uint32]int{}, below: map[string]int{},
	}
	m.findCPU()
	m.findGPUs()
	m.recall()
	for _, d := range m.all() {
		if err := d.sample(ctx, 0); err != nil {
			return nil, err
		}
		d.reported = d.line.stamp()
		d.pass.began = d.line.now.at
	}
	m.compareDies(ctx)
	m.publish()
	return m, nil
}

func (m *Meter) findCPU() {
	zones, err := findZones(m.host.Sys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("CPU energy counters cannot be listed", "err", err)
	}
	for _, z := range zones {
		s := Sensor{
			Name: z.device, Label: z.label, Backend: RAPL, Detail: z.dir, Span: z.span, Limit: z.limit, Resolution: grainOf(z.span),
		}
		switch z.role {
		case nameless:
			s.Reason, s.Detail = ReasonUnreadable, z.why
		case contained:
			s.Reason = ReasonContained
		case twin:
			s.Reason = ReasonTwin
		case whole:
			s.Reason = ReasonPlatform
			m.psys = m.newZone(z)
		case counts:
			s.Counted = true
			m.devices = append(m.devices, m.newZone(z))
		}
		m.sensors = append(m.sensors, s)
	}
	if len(m.devices) == 0 {
		detail := "no package below /sys/class/powercap has an energy counter"
		if err != nil {
			detail = err.Error()
		}
		m.sensors = append(m.sensors, Sensor{Name: "cpu", Label: "CPU", Backend: NoBackend, Reason: ReasonNoPowercap, Detail: detail})
	}
	m.dies = pairDies(m.devices)
}

func (m *Meter) newZone(z zone) *device {
	kind := "cpu"
	if z.role == whole {
		kind = "platform"
	}
	d := &device{
		name: z.device, label: z.label, kind: kind, backend: RAPL, period: raplPeriod, limit: z.limit,
		grain:  grainOf(z.span),
		source: &zoneCounter{sys: m.host.Sys, name: path.Join(powercap, z.dir, "energy_uj")},
	}
	return m.prepare(d, z.span)
}

func (m *Meter) findGPUs() {
	gpus := m.host.GPUs.All()
	for _, gpu := range gpus {
		b := newBoard(m.host.Sys, gpu)
		d := m.prepare(&device{
			name: "gpu/" + gpu.Info().UUID, label: gpu.Info().Name, kind: "gpu", backend: NVMLCounter,
			source: b, board: b, period: nvmlPeriod, grain: 1000, limit: b.limit(),
		}, 0)
		m.devices = append(m.devices, d)
		m.sensors = append(m.sensors, boardSensor(d, gpu.Info()))
	}
	if len(gpus) > 0 {
		return
	}
	s := Sensor{Name: "gpu", Label: "GPU", Backend: NoBackend, Reason: ReasonNoGPU}
	if why := m.host.GPUs.Why(); why != nil {
		s.Detail = why.Error()
	}
	m.sensors = append(m.sensors, s)
}

// prepare gives a device its gate and its rule.
func (m *Meter) prepare(d *device, span unit.Energy) *device {
	d.gate = make(gate, 1)
	d.source = &clocked{source: d.source}
	d.asleep = m.host.Asleep
	d.line.counter = counter{span: span, limit: d.limit}
	d.line.marks = []*stamp{&d.tick, &d.reported}
	d.line.turn("")
	if d.board != nil {
		d.step = newStepper(d)
		d.step.plain = m.opts.Plain
		d.moves(d.period)
	}
	d.power = DevicePower{Device: d.name, Label: d.label, Backend: d.backend, Reason: ReasonShortWindow}
	return d
}

// all returns the devices and the platform, which is read like one.
func (m *Meter) all() []*device {
	if m.psys == nil {
		return m.devices
	}
	return append(slices.Clip(m.devices), m.psys)
}

// Run reads every source at each heartbeat while a window is open, and follows the steps of the counters that move in
// long ones, until ctx ends. In its first seconds it measures how the counters move. At rest no timer runs.
func (m *Meter) Run(ctx context.Context) error {
	var all errgroup.Group
	learned := time.Now().Add(learning)
	for _, d := range m.devices {
		if d.step != nil {
			all.Go(func() error { m.follow(ctx, d, learned); return nil })
		}
	}
	all.Go(func() error { m.heartbeats(ctx); return nil })
	return all.Wait()
}

// learning is how long a counter's steps are followed at the start with no window open.
const learning = 2 * time.Second

// follow reads a counter as its stepper plans, while a window is open on it.
func (m *Meter) follow(ctx context.Context, d *device, learned time.Time) {
	for {
		for m.look(ctx, d, learned) {
		}
		select {
		case <-ctx.Done():
			return
		case <-d.step.watch:
		}
	}
}

// look waits for the next reading that a device's stepper plans and makes it; it reports false when there is none.
func (m *Meter) look(ctx context.Context, d *device, learned time.Time) bool {
	if d.enter(ctx) != nil {
		return ctx.Err() == nil
	}
	at, on := d.step.plan(time.Now(), learned)
	d.gate.leave()
	if !on || !sleepUntil(ctx, at) || d.enter(ctx) != nil {
		return on && ctx.Err() == nil
	}
	defer d.gate.leave()
	d.take(d.source.energy(ctx))
	return ctx.Err() == nil
}

// sleepUntil waits for a moment; it reports false when the context ends first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// heartbeats measures how the CPU's counters move, and then reads every source at each heartbeat while a window is open,
// until ctx ends.
func (m *Meter) heartbeats(ctx context.Context) {
	m.Probe(ctx, ProbeOptions{CPU: startProbe})
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		for m.OpenCount() > 0 {
			if !m.awaitBeat(ctx) {
				return
			}
			m.beat(ctx)
			m.pulse(ctx)
		}
		m.writeJournal(ctx) // the last window may have ended since
	}
}

// startProbe is some twenty steps of a RAPL counter.
const startProbe = 20 * time.Millisecond

// awaitBeat waits for the next point of a grid that no window's opening can shift: a stranger could else choose when CPU
// counters are read.
func (m *Meter) awaitBeat(ctx context.Context) bool {
	timer := time.NewTimer(m.opts.Heartbeat - time.Since(m.began)%m.opts.Heartbeat)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// beat reads every source, but GPUs only where a window needs it: their counters do not wrap and they may want to sleep.
func (m *Meter) beat(ctx context.Context) {
	for _, d := range m.all() {
		if d.board == nil || d.busy(ctx) {
			m.sample(ctx, d, 0)
		}
	}
	m.compare()
}

// busy reports whether a window is open on the device.
func (d *device) busy(ctx context.Context) bool {
	if d.enter(ctx) != nil {
		return false
	}
	defer d.gate.leave()
	return len(d.line.members) > 0
}

func (m *Meter) sample(ctx context.Context, d *device, maxAge time.Duration) {
	if err := d.sample(ctx, maxAge); err != nil && ctx.Err() == nil {
		m.log.Warn("energy counter is not answering", "device", d.name, "err", err)
	}
}

// Tick reads every source that may be read, so that no wrap is missed, and renews Power.
func (m *Meter) Tick(ctx context.Context) {
	for _, d := range m.all() {
		m.sample(ctx, d, time.Second)
	}
	m.compare()
	m.publish()
	m.kept.sweep(time.Now())
}

// publish renews what Power returns.
func (m *Meter) publish() {
	all := make([]DevicePower, 0, len(m.devices))
	for _, d := range m.devices {
		if d.enter(context.Background()) != nil {
			all = append(all, DevicePower{Device: d.name, Label: d.label, Backend: d.backend, Reason: ReasonHung})
			continue
		}
		p := d.report()
		if d.line.counter.tally.frozen() {
			p.Known, p.Power, p.Reason = false, 0, ReasonFrozen
		}
		all = append(all, p)
		d.gate.leave()
	}
	m.power.Store(&all)
}

// SetCondition tells the operating point in force: an opaque text. A change cuts the timeline.
func (m *Meter) SetCondition(ctx context.Context, condition string) {
	m.mu.Lock()
	changed := condition != m.condition
	m.condition = condition
	if changed {
		m.changes++
	}
	m.mu.Unlock()
	if !changed {
		return
	}
	asked := time.Now()
	for _, d := range m.all() {
		d.turnTo(ctx, condition, asked)
	}
}

// Condition returns the operating point in force, as SetCondition was told it.
func (m *Meter) Condition() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.condition
}

// Limit changes the limits of windows and of results; a zero field is the default. Windows that are open stay.
func (m *Meter) Limit(o Options) {
	o = o.withDefaults()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opts.MaxWindows, m.opts.MaxPerOwner, m.opts.MaxLife, m.opts.KeepResults = o.MaxWindows, o.MaxPerOwner, o.MaxLife, o.KeepResults
}

// OpenCount returns how many windows are open.
func (m *Meter) OpenCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Devices returns the names of the devices a window may charge.
func (m *Meter) Devices() []string {
	var names []string
	for _, d := range m.devices {
		if !d.left.Load() {
			names = append(names, d.name)
		}
	}
	return names
}

// Power returns the mean power of each device between the last two ticks.
func (m *Meter) Power() []DevicePower { return slices.Clone(*m.power.Load()) }
