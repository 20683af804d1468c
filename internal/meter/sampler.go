package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// powerSource tells a device's power. averaging is what its samples are means over.
type powerSource interface {
	samples(context.Context) (taken []powerSample, averaging time.Duration, err error)
}

// powerPeriod is how often a power sensor is looked at while a window needs it; sensors renew their figure about as often.
const powerPeriod = 100 * time.Millisecond

// errLapse comes with a sampler's good reading: energy counts from there on, and what was drawn since the reading before is
// not known.
var errLapse = errors.New("no power sample for too long")

// sampler is a source made of a power sensor: a counter that moves when it is looked at. It belongs to one device, which
// makes one call at a time.
type sampler struct {
	from powerSource
	sum  *integral
}

// newSampler integrates what a sensor says, to be looked at every powerPeriod. update is how often the sensor renews its
// figure, and limit more than the device can draw.
func newSampler(from powerSource, update time.Duration, limit unit.Power) *sampler {
	return &sampler{from: from, sum: newIntegral(powerSensor{period: powerPeriod, update: update, limit: limit})}
}

// since returns what the device drew from a mark until the newest sample.
func (s *sampler) since(from powerMark) powerFigure { return s.sum.sensor.between(from, s.sum.mark()) }

// energy looks at the sensor and returns the energy up to now. A look that brought no number is no reading, unless the
// newest sample may still stand for it. With errLapse the figure is good, but counts from here.
func (s *sampler) energy(ctx context.Context) (unit.Energy, time.Time, error) {
	asked := time.Now()
	e, at, err := s.look(ctx)
	if !at.Before(asked) && (err == nil || errors.Is(err, errLapse)) {
		return e, at, err
	}
	now := time.Now()
	if s.sum.has && now.Sub(s.sum.last.at) <= s.sum.sensor.hold() && canHold(err) {
		held, _, _ := s.sum.until(now)
		return held, now, ifLapsed(errors.Is(err, errLapse))
	}
	if err == nil || errors.Is(err, errLapse) {
		err = errNothingNew
	}
	return 0, asked, err
}

// errNothingNew is a look that brought no number.
var errNothingNew = fmt.Errorf("power sensor: %w", host.ErrUnread)

// look looks at the sensor and returns the energy up to its newest sample, and when that was taken. Without a new number
// there is an error. With errLapse the figure is good, but counts from there.
func (s *sampler) look(ctx context.Context) (unit.Energy, time.Time, error) {
	asked := time.Now()
	taken, averaging, err := s.from.samples(ctx)
	if err != nil {
		return 0, asked, err
	}
	s.sum.sensor.averaging = averaging
	news, lapsed := false, false
	for _, p := range taken {
		_, v := s.sum.step(p)
		news = news || v != missing && v != stale
		lapsed = lapsed || v == split
	}
	if !news {
		return 0, asked, errNothingNew
	}
	e, _, _ := s.sum.until(s.sum.last.at)
	return e, s.sum.last.at, ifLapsed(lapsed)
}

// newest returns the newest number of the sensor; its at is zero before the first.
func (s *sampler) newest() powerSample { return s.sum.last }

// canHold reports whether a look that failed so leaves the newest sample standing: a reading may fail now and then; a device
// that sleeps or is gone draws something else.
func canHold(err error) bool {
	if errors.Is(err, errLapse) {
		return true
	}
	switch host.ReasonOf(err) {
	case "", host.Unreadable:
		return true
	}
	return false
}

func ifLapsed(lapsed bool) error {
	if lapsed {
		return errLapse
	}
	return nil
}

// boardPower is the power sensor of a GPU, which is left asleep if it is.
type boardPower struct{ *board }

func (b boardPower) samples(ctx context.Context) ([]powerSample, time.Duration, error) {
	if b.sleeps() {
		return nil, 0, host.ErrSuspended
	}
	all, err := b.gpu.PowerSamples(ctx)
	var taken []powerSample
	var averaging time.Duration
	for _, s := range all {
		taken, averaging = append(taken, powerSample{power: s.Power, at: s.At}), s.Averaging
	}
	return taken, averaging, err
}
