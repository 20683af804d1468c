package meter

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// The kinds of devices. A window may name all of a kind of the first two.
const (
	kindCPU      = "cpu"
	kindGPU      = "gpu"
	kindPlatform = "platform"
)

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
			m.add(m.newZone(z))
		}
		m.sense(s)
	}
	if len(m.devices()) == 0 {
		detail := "no package below /sys/class/powercap has an energy counter"
		if err != nil {
			detail = err.Error()
		}
		m.sense(Sensor{Name: "cpu", Label: "CPU", Backend: NoBackend, Reason: ReasonNoPowercap, Detail: detail})
	}
	m.dies = pairDies(m.devices())
}

func (m *Meter) newZone(z zone) *device {
	kind := kindCPU
	if z.role == whole {
		kind = kindPlatform
	}
	d := &device{
		name: z.device, label: z.label, kind: kind, backend: RAPL, period: raplPeriod, limit: z.limit,
		grain:  grainOf(z.span),
		source: &zoneCounter{sys: m.host.Sys, name: path.Join(powercap, z.dir, "energy_uj")},
	}
	return m.prepare(d, z.span)
}

// findGPUs takes in the boards of NVIDIA's library and the cards of the amdgpu driver.
func (m *Meter) findGPUs(ctx context.Context) {
	for _, gpu := range m.host.GPUs.All() {
		d := m.newBoard(ctx, gpu)
		m.add(d)
		m.sense(boardSensor(d, gpu.Info()))
	}
	cards, err := findAMDCards(m.host)
	if err != nil {
		m.log.Warn("graphics cards cannot all be read", "err", err)
	}
	for _, c := range cards {
		s := c.passport()
		if !c.apu {
			d := m.newCard(c)
			m.add(d)
			s.Limit, s.Resolution = d.limit, d.grain
		}
		m.sense(s)
	}
	if len(m.host.GPUs.All())+len(cards) > 0 {
		return
	}
	s := Sensor{Name: "gpu", Label: "GPU", Backend: NoBackend, Reason: ReasonNoGPU}
	if why := m.host.GPUs.Why(); why != nil {
		s.Detail = why.Error()
	}
	m.sense(s)
}

// newBoard makes a device of a board: of its counter, with its power sensor as a witness, or of the sensor where there is
// no counter.
func (m *Meter) newBoard(ctx context.Context, gpu *host.GPU) *device {
	b := newBoard(m.host.Sys, gpu)
	d := &device{
		name: "gpu/" + gpu.Info().UUID, label: gpu.Info().Name, kind: kindGPU, backend: NVMLCounter,
		source: b, board: b, sleeps: b.sleeps, wake: b.wake, period: nvmlPeriod, grain: 1000, limit: b.limit(),
	}
	power := newSampler(boardPower{b}, nvmlPeriod, d.limit)
	if gpu.HasCounter(ctx) {
		d.witness = power
	} else {
		d.integrates(power)
	}
	return m.prepare(d, 0)
}

// newCard makes a device of a card of the amdgpu driver.
func (m *Meter) newCard(c *amdCard) *device {
	d := &device{
		name: c.device(), label: c.label, kind: kindGPU, backend: HwmonCounter,
		source: c, sleeps: func() bool { return c.awake() != nil }, wake: c.wake, restless: c.CanSleep(m.host.Sys),
		period: nvmlPeriod, grain: 1, limit: c.limit(),
	}
	if c.backend() != HwmonCounter {
		d.integrates(newSampler(c, amdUpdate, d.limit))
	}
	return m.prepare(d, 0)
}

// integrates makes the device's energy that of a power sensor's samples.
func (d *device) integrates(s *sampler) {
	d.backend, d.sampler, d.source, d.period, d.grain = PowerSampler, s, s, powerPeriod, 1
}

// prepare gives a device its gate and its rule.
func (m *Meter) prepare(d *device, span unit.Energy) *device {
	d.gate = make(gate, 1)
	d.source = &clocked{source: d.source}
	d.asleep = m.host.Asleep
	d.line.counter = counter{span: span, limit: d.limit}
	d.line.marks = []*stamp{&d.tick, &d.reported}
	d.line.turn("")
	if d.kind == kindGPU {
		d.step = newStepper(d)
		d.step.plain = m.opts.Plain
		d.moves(d.period)
	}
	d.power = DevicePower{Device: d.name, Label: d.label, Backend: d.backend, Reason: ReasonShortWindow}
	return d
}
