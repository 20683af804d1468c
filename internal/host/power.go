package host

import (
	"context"
	"errors"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// PowerFrom is the way a board told its power.
type PowerFrom string

// The ways, the best first for adding power up to energy.
const (
	PowerInstant PowerFrom = "instant" // the power of a moment
	PowerBuffer  PowerFrom = "buffer"  // samples that the driver had taken by itself
	PowerUsage   PowerFrom = "usage"   // the driver's figure for people, which may be a mean
)

// PowerSample is one figure of a board's power sensor.
type PowerSample struct {
	Power     unit.Power
	At        time.Time     // when it was taken or, if it is a mean, when that ended; carries the monotonic clock
	Averaging time.Duration // what it is the mean over; 0: it is the power of a moment, or nobody says
	From      PowerFrom
}

// PowerSampler is a Device that tells how its power was had. It is for adding power up to energy, where a board has no
// energy counter; Power is for everything else.
type PowerSampler interface {
	// PowerSamples returns the samples taken since the call before, oldest first; at the first call the newest alone. It
	// may return none: then there has been none since. Its figures may be such that no board draws.
	PowerSamples() ([]PowerSample, error)
}

// PowerSamples returns the samples of the board's power since the call before, oldest first; most boards have one, of this
// moment. One caller only adds a board's power up: two would take samples from each other.
func (g *GPU) PowerSamples(ctx context.Context) ([]PowerSample, error) {
	return ask(ctx, g, func(dev Device) ([]PowerSample, error) {
		if s, ok := dev.(PowerSampler); ok {
			return s.PowerSamples()
		}
		began := time.Now()
		p, err := dev.Power()
		if err != nil {
			return nil, err
		}
		return []PowerSample{{Power: p, At: began, From: PowerUsage}}, nil
	})
}

// HasCounter asks the board for its energy and reports whether it has a counter. A board that does not answer, or whose
// counter cannot be read now, has one until it says otherwise.
func (g *GPU) HasCounter(ctx context.Context) bool {
	_, _, err := g.Energy(ctx)
	return !errors.Is(err, ErrNotSupported)
}
