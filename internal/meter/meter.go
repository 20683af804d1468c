package meter

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// Meter owns the energy counters of one host. Its methods are safe for concurrent use.
type Meter struct {
	host    *host.Host
	opts    Options
	log     *slog.Logger
	began   time.Time                 // the grid of heartbeats starts here
	list    atomic.Pointer[[]*device] // in the order they are read; boards may come to it
	adopted chan *device              // that have come since the start, to be followed
	psys    *device                   // nil where the platform has no counter
	dies    []*dies
	power   atomic.Pointer[[]DevicePower]
	wake    chan struct{} // a first window has opened
	jot     chan struct{} // there is something to write down
	kept    shelves       // results of windows that have ended
	journal *journal      // nil where windows do not survive the meter

	adopting sync.Mutex // boards are taken in

	mu        sync.Mutex // over what follows, held for microseconds
	sensors   []Sensor   // as found; readings may add a reason
	windows   map[string]*Window
	owned     map[uint32]int
	open      int    // windows, also those not yet or no longer in the map
	opened    uint64 // windows so far
	condition string
	changes   int            // of the condition
	below     map[string]int // windows that were below a floor, by its id
	taps      []*Tap

	floors atomic.Pointer[floorBook]
}

// New finds the host's energy counters; a host with none is fine. The GPUs must have been opened.
func New(ctx context.Context, h *host.Host, o Options, log *slog.Logger) (*Meter, error) {
	m := &Meter{
		host: h, opts: o.withDefaults(), log: log, began: time.Now(), wake: make(chan struct{}, 1), jot: make(chan struct{}, 1), adopted: make(chan *device, maxBoards),
		windows: map[string]*Window{}, owned: map[uint32]int{}, below: map[string]int{},
	}
	m.findCPU()
	m.findGPUs(ctx)
	m.recall()
	for _, d := range m.all() {
		if err := d.begin(ctx); err != nil {
			return nil, err
		}
	}
	m.compareDies(ctx)
	m.publish()
	return m, nil
}

// all returns the devices and the platform, which is read like one.
func (m *Meter) all() []*device {
	if m.psys == nil {
		return m.devices()
	}
	return append(slices.Clip(m.devices()), m.psys)
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
	if m.unwritten() {
		m.touch()
	}
}

// publish renews what Power returns.
func (m *Meter) publish() {
	all := make([]DevicePower, 0, len(m.devices()))
	for _, d := range m.devices() {
		if d.enter(context.Background()) != nil {
			all = append(all, DevicePower{Device: d.name, Label: d.label, Backend: d.backend, Reason: ReasonHung})
			continue
		}
		p := d.report()
		if d.frozen() {
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
	for _, d := range m.devices() {
		if !d.left.Load() {
			names = append(names, d.name)
		}
	}
	return names
}

// Power returns the mean power of each device between the last two ticks.
func (m *Meter) Power() []DevicePower { return slices.Clone(*m.power.Load()) }
