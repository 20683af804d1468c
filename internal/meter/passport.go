package meter

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Where a sensor's period is from.
const (
	PeriodMeasured = "measured" // by polling the counter
	PeriodAtMost   = "at_most"  // it had moved at every poll
	PeriodAssumed  = "assumed"  // what counters of its kind do; it has not been measured
)

// What a counter takes in beside its device.
const (
	ScopeMIG    = "mig"    // a board cut into slices: the energy is the whole board's, and no slice's
	ScopeModule = "module" // board and CPU of one module: it overlaps what CPU counters say
)

// Verdicts counts what the readings of a counter were taken for since the meter began.
type Verdicts struct {
	OK        uint32 `json:"ok"`        // a rise the device can have drawn
	Ambiguous uint32 `json:"ambiguous"` // a rise, but one more wrap would fit as well
	Wrap      uint32 `json:"wrap"`      // it passed its end
	Reset     uint32 `json:"reset"`     // it started anew
	Jump      uint32 `json:"jump"`      // it rose by more than the device can draw
	Backward  uint32 `json:"backward"`  // it fell to a value that nothing explains
	Recovered uint32 `json:"recovered"` // what looked like a jump or a reset was a glitch
	Unread    uint32 `json:"unread"`    // reading it failed
}

func (t *tally) public() Verdicts {
	n := func(v verdict) uint32 { return t.verdicts[v] }
	return Verdicts{
		OK: n(ok), Ambiguous: n(ambiguous), Wrap: n(wrap), Reset: n(reset), Jump: n(jump),
		Backward: n(backward) + n(believed), Recovered: n(recovered), Unread: n(unread),
	}
}

// passport is what has been learned of a counter beside its timeline. It belongs to whoever has passed the device's gate.
type passport struct {
	began time.Time // when it was first looked at
	pace  pace      // from the newest probe
}

// clocked is a source that keeps how long its newest answers took.
type clocked struct {
	source
	took [31]time.Duration
	n    int
}

func (c *clocked) energy(ctx context.Context) (unit.Energy, time.Time, error) {
	began := time.Now()
	e, at, err := c.source.energy(ctx)
	if err == nil {
		c.took[c.n%len(c.took)] = time.Since(began)
		c.n++
	}
	return e, at, err
}

// cost is the median of the newest answers' times; 0 before the first.
func (c *clocked) cost() time.Duration { return median(c.took[:min(c.n, len(c.took))]) }

// passportWait is how long a passport waits for a device that somebody else reads.
const passportWait = 100 * time.Millisecond

// Sensors returns the passport of every energy counter, and of what is missing.
func (m *Meter) Sensors() []Sensor {
	m.mu.Lock()
	all := slices.Clone(m.sensors)
	m.mu.Unlock()
	power := m.Power()
	for i := range all {
		s := &all[i]
		j := slices.IndexFunc(power, func(p DevicePower) bool { return s.Counted && p.Device == s.Name })
		if j >= 0 && !power[j].Known && power[j].Reason != ReasonShortWindow && power[j].Reason != ReasonGap {
			s.Reason = power[j].Reason // it cannot be read, or says nothing
			s.Counted = s.Reason != ReasonMirrored && s.Reason != ReasonFrozen
		}
		for _, d := range m.all() {
			if d.name == s.Name {
				d.describe(s)
			}
		}
	}
	return all
}

// boardSensor says what a board's counter is.
func boardSensor(d *device, info host.GPUInfo) Sensor {
	s := Sensor{Name: d.name, Label: d.label, Backend: d.backend, Counted: true, Detail: info.PCI, Limit: d.limit, Resolution: d.grain}
	switch {
	case strings.HasPrefix(info.UUID, "MIG-"):
		s.Detail = "a slice of a board: the energy is told of the whole board alone"
	case info.MIG:
		s.Scope = ScopeMIG
	case info.Module:
		s.Scope = ScopeModule
	}
	return s
}

// describe adds to a sensor what its device has learned. A device whose driver hangs keeps what is known without it.
func (d *device) describe(s *Sensor) {
	ctx, cancel := context.WithTimeout(context.Background(), passportWait)
	defer cancel()
	if d.gate.pass(ctx) != nil {
		return
	}
	defer d.gate.leave()
	s.Read = true
	s.Verdicts = d.line.counter.tally.public()
	s.MaxGap, _ = d.line.troubles(d.pass.began, d.line.now.at)
	if whole := d.line.now.at.Sub(d.pass.began); whole > 0 {
		s.Coverage = min(1, float64(d.line.stamp().measured)/float64(whole))
	}
	if c, is := d.source.(*clocked); is {
		s.ReadCost = c.cost()
	}
	s.Period, s.PeriodFrom = d.period, PeriodAssumed
	if p := d.pass.pace; p.period > 0 {
		s.Period, s.PeriodFrom, s.Jitter = p.period, PeriodMeasured, p.jitter
		if p.atMost {
			s.PeriodFrom = PeriodAtMost
		}
	}
	if d.step != nil && d.step.steps.period > 0 && d.pass.pace.period == 0 {
		s.Period, s.PeriodFrom, s.Jitter = d.step.steps.period, PeriodMeasured, d.step.steps.jitter
	}
	s.Smallest = d.pass.pace.smallest
	if d.frozen() && s.Counted {
		s.Reason, s.Counted = ReasonFrozen, false
	}
}

// ProbeOptions say how long the counters are polled, at most.
type ProbeOptions struct {
	CPU      time.Duration // all zones together; 0: not at all
	GPU      time.Duration // all boards that are awake, together; 0: not at all
	Progress func(done float64)
}

const (
	zonePoll  = 50 * time.Microsecond // between two looks at all zones, which cost some µs each
	boardPoll = time.Millisecond      // between two looks at all boards, whose counters move every 10 to 100 ms
	slowPoll  = 20 * time.Millisecond // at most, where looking takes long
	// enough intervals end a probe before its time.
	enough = 12
)

// Probe measures how the counters move. It ends early once all of them have shown enough steps, and with the context. It
// changes no total and wakes no board.
func (m *Meter) Probe(ctx context.Context, o ProbeOptions) {
	var zones, boards []*device
	for _, d := range m.all() {
		switch {
		case d.backend == PowerSampler: // it has no counter
		case d.board != nil:
			boards = append(boards, d)
		default:
			zones = append(zones, d)
		}
	}
	m.probe(ctx, zones, zonePoll, o.CPU, func(float64) {})
	progress := o.Progress
	if progress == nil {
		progress = func(float64) {}
	}
	m.probe(ctx, boards, boardPoll, o.GPU, progress)
}

func (m *Meter) probe(ctx context.Context, devices []*device, every, most time.Duration, progress func(float64)) {
	polls := map[*device][]poll{}
	if most > 0 {
		for _, d := range devices {
			polls[d] = nil
		}
	}
	for began := time.Now(); len(polls) > 0; {
		if time.Since(began) >= most {
			break
		}
		round := time.Now()
		done := true
		for _, d := range devices {
			seen, polled := polls[d]
			if !polled {
				continue
			}
			p, err := d.poll(ctx)
			if err != nil {
				delete(polls, d) // unreadable, hung, or asleep by now: it is asked no more
				continue
			}
			seen = append(seen, p)
			polls[d] = seen
			done = done && paces(seen, enough)
		}
		if done {
			break
		}
		progress(min(1, float64(time.Since(began))/float64(most)))
		// A probe leaves the driver most of its time.
		if !rest(ctx, max(every, min(3*time.Since(round), slowPoll))) {
			break
		}
	}
	for d, seen := range polls {
		if d.gate.pass(ctx) == nil {
			d.pass.pace = paceOf(seen)
			d.gate.leave()
		}
	}
}

// rest waits, and reports whether the context let it.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// paces reports whether polls have met that many steps and one more: then there are that many intervals.
func paces(polls []poll, intervals int) bool {
	steps := 0
	for i := len(polls) - 1; i > 0 && steps <= intervals; i-- {
		if polls[i].value > polls[i-1].value {
			steps++
		}
	}
	return steps > intervals
}

// poll reads the counter past its timeline.
func (d *device) poll(ctx context.Context) (poll, error) {
	if err := d.gate.pass(ctx); err != nil {
		return poll{}, err
	}
	defer d.gate.leave()
	e, at, err := d.source.energy(ctx)
	return poll{at, e}, err
}

// frozen reports whether the device's counter stands still. A power sensor's integral does so whenever nobody looks at it.
func (d *device) frozen() bool { return d.sampler == nil && d.line.counter.tally.frozen() }
