package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// ErrNotAtRest means that a device draws more than it does at rest, or cannot be measured, so that it gets no floor.
var ErrNotAtRest = errors.New("no floor")

// How long measuring a floor may take.
const (
	MinFloor = 30 * time.Second
	MaxFloor = time.Hour
)

const (
	maxSettle = 60 * time.Second // for power to settle, and for each time that it was not settled after all
	loadGrace = 5                // parts of work that may be the end of something
	// displayShare is what a display may keep a board busy with that no process computes on.
	displayShare = 0.05
	partsMost    = 600 // of one measurement
)

// FloorStep is how far the measurement of a floor has got.
type FloorStep struct {
	Measuring bool          // else power has yet to settle
	Elapsed   time.Duration // of the phase
	Of        time.Duration
	Power     unit.Power // of the newest part; while measuring, the mean so far
	Done      bool
	Floor     Floor // once it is done: without Driver, Kernel, BootID and ID
}

// FloorTrial measures one device at rest. Windows of others do not matter to it. It is for one goroutine, which calls Step
// every Part until it is done or fails, or Abandon.
type FloorTrial struct {
	m       *Meter
	d       *device
	lasting time.Duration
	part    time.Duration

	window    *Window
	measuring bool
	since     time.Time // begin of the phase
	deadline  time.Time
	watts     []float64
	level     restState
	worked    int // parts in a row with work
	works     int // parts with work, while measuring
	cpu       cpuUse
}

// TryFloor begins to measure what a device draws at rest, for at least so long.
func (m *Meter) TryFloor(ctx context.Context, device string, lasting time.Duration) (*FloorTrial, error) {
	d := m.device(device)
	switch {
	case d == nil || d.left.Load():
		return nil, m.unknown(device)
	case lasting < MinFloor || lasting > MaxFloor:
		return nil, fmt.Errorf("a floor in %v: not %v to %v: %w", lasting, MinFloor, MaxFloor, ErrBadRequest)
	}
	t := &FloorTrial{
		m: m, d: d, lasting: lasting, part: max(time.Second, lasting/partsMost),
		deadline: time.Now().Add(2*lasting + 2*maxSettle),
	}
	if d.sleeps != nil && d.sleeps() {
		return nil, t.refuse("it sleeps, and is not woken")
	}
	return t, t.settle(ctx)
}

// Part is how long a caller waits between two steps.
func (t *FloorTrial) Part() time.Duration { return t.part }

// Abandon ends the measurement.
func (t *FloorTrial) Abandon() {
	if t.window != nil {
		t.window.Abandon()
		t.window = nil
	}
}

func (t *FloorTrial) refuse(format string, args ...any) error {
	t.Abandon()
	return fmt.Errorf("%s: %s: %w", t.d.name, fmt.Sprintf(format, args...), ErrNotAtRest)
}

// open puts the trial's own window on the device: it observes, so that it takes nothing from the windows beside it.
func (t *FloorTrial) open(ctx context.Context, wait bool) error {
	t.Abandon()
	w, err := t.m.Open(ctx, OpenRequest{
		Name: "floor", Exact: true, Observe: true, Devices: []string{t.d.name}, WaitEdge: wait,
		IdleWatts: map[string]float64{t.d.name: 0}, // all of it: an older certificate is not to be taken off
	})
	if err != nil {
		return err
	}
	t.window, t.since, t.measuring, t.watts = w, time.Now(), wait, nil
	t.worked, t.works = 0, 0
	t.cpu = t.m.cpuUse()
	return nil
}

// settle begins to wait until the device's power stays the same.
func (t *FloorTrial) settle(ctx context.Context) error {
	t.level = t.d.level(ctx)
	return t.open(ctx, false)
}

// Step takes one part in. An ErrNotAtRest ends the trial, and so does any other error.
func (t *FloorTrial) Step(ctx context.Context) (FloorStep, error) {
	s, err := t.step(ctx)
	if err != nil || s.Done {
		t.Abandon()
	}
	return s, err
}

func (t *FloorTrial) step(ctx context.Context) (FloorStep, error) {
	if err := t.work(ctx); err != nil {
		return FloorStep{}, err
	}
	if t.d.board != nil && t.d.board.restLevel(ctx, t.part/2) != t.level { // a context has come or gone
		return t.again(ctx)
	}
	if t.level == unseen {
		return FloorStep{}, t.refuse("nobody knows whether a compute context is open on it")
	}
	s, err := t.window.Mark(ctx, "part")
	if err != nil {
		return FloorStep{}, fmt.Errorf("%s: %w", t.d.name, err)
	}
	if s.Duration > t.part/2 {
		t.watts = append(t.watts, s.Gross.Per(s.Duration).Watts())
	}
	if t.measuring {
		return t.measure(ctx)
	}
	switch {
	case settled(t.watts) && t.worked == 0:
		err = t.open(ctx, true)
	case time.Since(t.since) > maxSettle:
		n := len(t.watts)
		err = t.refuse("its power has not settled in %v: %.1f W, %.1f W five seconds before", maxSettle,
			mean(t.watts[max(0, n-settleParts):]), mean(t.watts[max(0, n-2*settleParts):max(0, n-settleParts)]))
	}
	return t.told(), err
}

// told is how far the trial has got.
func (t *FloorTrial) told() FloorStep {
	s := FloorStep{Measuring: t.measuring, Elapsed: time.Since(t.since), Of: 2 * settleParts * t.part}
	if t.measuring {
		s.Of, s.Power = t.lasting, unit.FromWatts(mean(t.watts))
	} else if n := len(t.watts); n > 0 {
		s.Power = unit.FromWatts(t.watts[n-1])
	}
	return s
}

// again goes back to waiting for rest: what was seen was none.
func (t *FloorTrial) again(ctx context.Context) (FloorStep, error) {
	if time.Now().After(t.deadline) {
		return FloorStep{}, t.refuse("its power does not settle")
	}
	err := t.settle(ctx)
	return t.told(), err
}

// work refuses a device that is at work, or whose CPU is.
func (t *FloorTrial) work(ctx context.Context) error {
	what := t.atWork(ctx)
	if what == "" {
		t.worked = 0
		return nil
	}
	t.worked++
	t.works++
	if t.measuring && (t.worked >= stretch || t.works > max(stretch, len(t.watts)/10)) || t.worked > loadGrace {
		return t.refuse("%s", what)
	}
	return nil
}

// atWork says what work the device does; empty: none.
func (t *FloorTrial) atWork(ctx context.Context) string {
	if b := t.d.board; b != nil {
		r, err := b.gpu.Read(ctx, t.part/4)
		if err != nil || r.UtilErr != nil || r.Utilisation == 0 {
			return ""
		}
		if pids, err := b.gpu.Processes(ctx); err == nil && len(pids) > 0 {
			return fmt.Sprintf("it is %.0f %% at work, for pid %s", 100*r.Utilisation, pidList(pids))
		}
		if r.Utilisation <= displayShare {
			return ""
		}
		return fmt.Sprintf("it is %.0f %% at work", 100*r.Utilisation)
	}
	if t.d.kind != "cpu" || time.Since(t.cpu.at) < loadGrace*t.part-t.part/2 {
		return "" // a moment's work says nothing yet
	}
	if busy, of := t.m.cpuUse().since(t.cpu); busy > max(0.5, 0.02*of) {
		return fmt.Sprintf("on average %.1f of %.0f CPUs are at work", busy, of)
	}
	return ""
}

// pidList names the first few.
func pidList(pids []int) string {
	var words []string
	for _, pid := range pids[:min(len(pids), 5)] {
		words = append(words, fmt.Sprint(pid))
	}
	return strings.Join(words, ", ")
}

// measure judges what has been measured so far, and ends at its time.
func (t *FloorTrial) measure(ctx context.Context) (FloorStep, error) {
	low, now, rose, fell := moved(t.watts)
	switch {
	case rose:
		return FloorStep{}, t.refuse("its power rose from %.1f to %.1f W meanwhile: something is at work", low, now)
	case fell:
		return t.again(ctx)
	case time.Since(t.since) < t.lasting:
		return t.told(), nil
	case drifts(t.watts):
		return t.again(ctx)
	}
	return t.finish(ctx)
}

// finish makes the certificate.
func (t *FloorTrial) finish(ctx context.Context) (FloorStep, error) {
	s := t.told()
	w := t.window
	t.window = nil
	r, err := w.Close(ctx, CloseRequest{Synced: true, WaitEdge: true})
	if err != nil {
		return s, fmt.Errorf("%s: %w", t.d.name, err)
	}
	if len(r.Devices) != 1 {
		return s, t.refuse("not measured: %s", strings.Join(r.Reasons, ", "))
	}
	d := r.Devices[0]
	if why := spoilt(d); why != "" {
		return s, t.refuse("not measured: %s", why)
	}
	seconds := d.Duration.Seconds() * d.Coverage
	watts := d.Gross.Joules() / seconds
	sigma, half := scatter(t.watts)
	half = math.Hypot(half, (d.Terms.Edges+d.Terms.Clock).Joules()/seconds)
	low := t.d.lowestAt(ctx, t.m.Condition())
	switch {
	case half > 1+0.25*watts:
		return s, t.refuse("its power at rest is not steady: %.1f W ± %.1f W", watts, half)
	case t.level == bare && low > 0 && above(watts, low.Watts()):
		return s, t.refuse("it drew %.1f W, and has been seen at %.1f W at this operating point: something is at work", watts, low.Watts())
	}
	s.Done = true
	s.Floor = Floor{
		Device: t.d.name, State: FloorBare, Condition: t.m.Condition(),
		Mean: unit.FromWatts(watts), Sigma: unit.FromWatts(sigma), N: len(t.watts), HalfWidth: unit.FromWatts(half) + 1,
		From: t.since.Round(0), To: t.since.Round(0).Add(time.Since(t.since)),
	}
	if t.level == inContext {
		s.Floor.State = FloorContext
	}
	return s, nil
}

// spoilt says why a window's figure is no measurement of a device at rest.
func spoilt(d DeviceEnergy) string {
	harmless := []string{ReasonFloorCaller, ReasonUnsynced, ReasonShared}
	bad := slices.DeleteFunc(slices.Clone(d.Reasons), func(r string) bool { return slices.Contains(harmless, r) })
	if len(bad) == 0 && (d.Method != Sampled || d.Coverage < 0.99) {
		bad = []string{fmt.Sprintf("%s, %.0f %% covered", d.Method, 100*d.Coverage)}
	}
	return strings.Join(bad, ", ")
}

// lowestAt is the lowest power that ticks have seen at a condition; 0: none yet.
func (d *device) lowestAt(ctx context.Context, condition string) unit.Power {
	if d.enter(ctx) != nil {
		return 0
	}
	defer d.gate.leave()
	return d.lowest[condition]
}

// cpuUse is what the CPUs have done since boot, and when that was asked.
type cpuUse struct {
	at   time.Time
	used host.CPUTime
	err  error
}

func (m *Meter) cpuUse() cpuUse {
	used, err := m.host.CPUTime()
	return cpuUse{time.Now(), used, err}
}

// since returns how many CPUs were at work on average, and how many there are; 0 where the kernel does not tell.
func (u cpuUse) since(from cpuUse) (busy, of float64) {
	seconds := u.at.Sub(from.at).Seconds()
	if u.err != nil || from.err != nil || seconds <= 0 {
		return 0, 0
	}
	return (u.used.Busy - from.used.Busy) / seconds, (u.used.Total - from.used.Total) / seconds
}
