package host

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Slowdown is a set of causes for which a board runs slower than its clocks and its power cap would have it. What the cap
// does is none of them: that is what a cap is for.
type Slowdown uint8

// The causes, as nvml.h tells them apart.
const (
	SlowHeat       Slowdown = 1 << iota // the driver keeps the board, or its memory, below its greatest temperature
	SlowHotChip                         // the chip itself has halved its clocks, or more, for its heat
	SlowPowerBrake                      // the power supply has asked the board to brake
	// SlowChip is the chip's own brake with none of these causes told: its fast guard against a draw too high. Boards may
	// also say so in passing while their clocks change, so that one look at it proves nothing.
	SlowChip
)

// String names the causes for people.
func (s Slowdown) String() string {
	var words []string
	for i, word := range []string{"heat", "heat (the chip's own guard)", "the power supply's brake", "the chip's own brake"} {
		if s&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// Throttling is what a board says of its slowdowns. Each part has its own error, since boards and drivers differ in what
// they tell: it wraps ErrNotSupported where they do not.
type Throttling struct {
	Now    Slowdown // at this moment
	NowErr error
	// Spent is for how long the board has been slowed down by heat or by the power supply, all in all; it only grows while the
	// driver stays loaded. From when it counts is not told, so that differences alone say anything.
	Spent    time.Duration
	SpentErr error
}

// Throttler is a Device that tells of its slowdowns.
type Throttler interface {
	Throttling() Throttling
}

// Throttling asks the board for its slowdowns. The error is that of a board that could not be asked; what it does not tell
// is in the answer.
func (g *GPU) Throttling(ctx context.Context) (Throttling, error) {
	return ask(ctx, g, func(dev Device) (Throttling, error) {
		if t, ok := dev.(Throttler); ok {
			return t.Throttling(), nil
		}
		err := fmt.Errorf("%s: slowdowns: %w", g.info.UUID, ErrNotSupported)
		return Throttling{NowErr: err, SpentErr: err}, nil
	})
}
