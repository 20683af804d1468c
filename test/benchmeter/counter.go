package benchmeter

import (
	"math/rand/v2"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Counter is a board's energy counter: at any moment it shows what the load had drawn at the counter's last step, in whole
// millijoules, as NVML's does. It is the whole driver of a host with this one board.
type Counter struct {
	Load   *Load
	Period time.Duration
	Phase  time.Duration // of the steps, less than a period
	Jitter time.Duration // each step is late by up to this, less than a period; no two steps by the same
	Call   time.Duration // that a call of the driver takes; it reads in the middle
	Seed   uint64        // of the jitter

	began time.Time
}

// newCounter returns a counter with a random phase, on a clock that starts now.
func newCounter(load *Load, o Options, period time.Duration, rnd *rand.Rand) *Counter {
	return &Counter{
		Load: load, Period: period, Phase: time.Duration(rnd.Int64N(int64(period))),
		Jitter: time.Duration(o.Jitter * float64(period)), Call: o.Call, Seed: rnd.Uint64(), began: time.Now(),
	}
}

// now is the time on the load's clock.
func (c *Counter) now() time.Duration { return time.Since(c.began) }

// step returns when the counter makes its n-th step; the first is number 0.
func (c *Counter) step(n int64) time.Duration {
	late := time.Duration(0)
	if c.Jitter > 0 {
		late = time.Duration(rand.New(rand.NewPCG(c.Seed, uint64(n))).Int64N(int64(c.Jitter)))
	}
	return c.Phase + time.Duration(n)*c.Period + late
}

// Stepped returns when the counter made its last step before or at a moment. It is negative before the first.
func (c *Counter) Stepped(at time.Duration) time.Duration {
	n := int64(at/c.Period) + 1
	for c.step(n) > at {
		n--
	}
	return c.step(n)
}

// shows is what the counter reads at a moment. What the board drew before the load began makes no figure round.
func (c *Counter) shows(at time.Duration) unit.Energy {
	const before = 123_456_789 * unit.Millijoule
	return before + unit.Energy(c.Load.Drawn(c.Stepped(at))/1e6)*unit.Millijoule
}

// wait lets half a call pass.
func (c *Counter) wait() {
	if c.Call > 0 {
		time.Sleep(c.Call / 2)
	}
}

// Energy implements host.Device.
func (c *Counter) Energy() (unit.Energy, error) {
	c.wait()
	e := c.shows(c.now())
	c.wait()
	return e, nil
}

// Power implements host.Device: the mean of the last whole step, no more than the counter tells too.
func (c *Counter) Power() (unit.Power, error) {
	c.wait()
	to := c.Stepped(c.now())
	from := c.Stepped(to - 1)
	c.wait()
	return unit.FromWatts(c.Load.Joules(from, to) / (to - max(0, from)).Seconds()), nil
}

// Init implements host.Driver.
func (c *Counter) Init() error { return nil }

// Shutdown implements host.Driver.
func (c *Counter) Shutdown() error { return nil }

// Version implements host.Driver.
func (c *Counter) Version() (string, error) { return "simulated", nil }

// Devices implements host.Driver.
func (c *Counter) Devices() ([]host.Device, error) { return []host.Device{c}, nil }

// Info implements host.Device.
func (c *Counter) Info() (host.GPUInfo, error) {
	return host.GPUInfo{UUID: "GPU-simulated", PCI: "0000:01:00.0", Name: "simulated board"}, nil
}

// Utilisation implements host.Device.
func (c *Counter) Utilisation() (float64, error) { return 0, host.ErrNotSupported }

// Limit implements host.Device.
func (c *Counter) Limit() (unit.Power, error) { return unit.FromWatts(float64(busy)), nil }

// EnforcedLimit implements host.Device.
func (c *Counter) EnforcedLimit() (unit.Power, error) { return c.Limit() }

// DefaultLimit implements host.Device.
func (c *Counter) DefaultLimit() (unit.Power, error) { return c.Limit() }

// LimitRange implements host.Device.
func (c *Counter) LimitRange() (lo, hi unit.Power, err error) {
	return unit.FromWatts(100), unit.FromWatts(float64(busy)), nil
}

// SetLimit implements host.Device.
func (c *Counter) SetLimit(unit.Power) error { return host.ErrNoPermission }

// Processes implements host.Device.
func (c *Counter) Processes() ([]int, error) { return nil, nil }
