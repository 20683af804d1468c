package meter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// maxBoards bounds how many boards may come after the start before somebody runs the meter.
const maxBoards = 64

// devices returns what is metered, in the order in which it is read. The list does not change; a longer one may follow.
func (m *Meter) devices() []*device {
	if all := m.list.Load(); all != nil {
		return *all
	}
	return nil
}

// add puts a device at the end of the list. One caller at a time adds.
func (m *Meter) add(d *device) {
	all := append(slices.Clone(m.devices()), d)
	m.list.Store(&all)
}

// sense notes a sensor that was found.
func (m *Meter) sense(s Sensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sensors = append(m.sensors, s)
}

// begin takes the first look at a device.
func (d *device) begin(ctx context.Context) error {
	if err := d.sample(ctx, 0); err != nil {
		return err
	}
	d.reported = d.line.stamp()
	d.pass.began = d.line.now.at
	return nil
}

// Adopt takes in the boards that the driver's library has shown since the meter began: it was shut while one slept. Windows
// opened from now on may charge them.
func (m *Meter) Adopt(ctx context.Context) error {
	m.adopting.Lock()
	defer m.adopting.Unlock()
	for _, gpu := range m.host.GPUs.All() {
		if m.device("gpu/"+gpu.Info().UUID) != nil {
			continue
		}
		d := m.newBoard(ctx, gpu)
		if err := d.begin(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		m.mu.Lock()
		m.sensors = slices.DeleteFunc(m.sensors, func(s Sensor) bool { return s.Name == "gpu" && s.Reason == ReasonNoGPU })
		m.mu.Unlock()
		m.sense(boardSensor(d, gpu.Info()))
		m.add(d)
		d.turnTo(ctx, m.Condition(), time.Now())
		select {
		case m.adopted <- d:
		default: // nobody runs the meter: edges are readings
		}
		m.publish()
	}
	return nil
}

// namesGPU reports whether a request's devices have a GPU among them.
func namesGPU(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return n == "gpu" || strings.HasPrefix(n, "gpu/") })
}

// wakeFor wakes the boards that sleep and that a window names, or all of them if it names none.
func (m *Meter) wakeFor(ctx context.Context, r OpenRequest) error {
	if !r.MayWake || !namesGPU(r.Devices) {
		return nil
	}
	if waiting := m.host.GPUs.Waiting(); len(waiting) > 0 {
		if err := m.host.GPUs.Wake(ctx); err != nil {
			return err
		}
		m.log.Info("boards are woken for an energy window", "boards", len(waiting), "uid", r.Owner, "window", r.Name)
		if err := m.Adopt(ctx); err != nil {
			return err
		}
	}
	for _, d := range m.devices() {
		named := len(r.Devices) == 0 || slices.Contains(r.Devices, "gpu") || slices.Contains(r.Devices, d.name)
		if d.kind != kindGPU || !named || !d.sleeps() {
			continue
		}
		m.host.GPUs.CountWake()
		m.log.Info("board is woken for an energy window", "device", d.name, "uid", r.Owner, "window", r.Name)
		if err := d.wake(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

// wake asks the board for its counter, which it has to be up for.
func (b *board) wake(ctx context.Context) error {
	_, _, err := b.gpu.Energy(ctx)
	if host.ReasonOf(err) == host.NotSupported {
		return nil
	}
	return err
}

// wake reads the card's sensor. A kernel that does not wake cards for that leaves it asleep, which the window says.
func (c *amdCard) wake(context.Context) error {
	_, err := c.sys.ReadString(cmp.Or(c.counter, c.power).name)
	return err
}

// asleep reports whether a board keeps the driver's library shut by sleeping.
func (m *Meter) asleep() bool {
	return slices.ContainsFunc(m.host.GPUs.Waiting(), func(b host.PCIBoard) bool { return b.Asleep })
}
