package meter

import (
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// sourceFigure is one source's figure for a stretch of time.
type sourceFigure struct {
	energy unit.Energy
	half   unit.Energy   // of the 95 % interval
	length time.Duration // that the figure covers
}

const (
	// disagreeShare is by how much the greater of two figures may exceed the smaller, beyond what both say they may be off,
	// in per mille.
	disagreeShare = 50
	// overlapShare is how much of the longer stretch the shorter must be to be compared with it, in per mille.
	overlapShare = 800
)

// crossCheck compares what the counter says of a window with what the power sensor's samples integrate to over nearly the
// same stretch. Where they differ by more than 5 % beyond both uncertainties it reports so, and half is the counter's
// half-width widened to cover both; the figure itself stays the counter's. Stretches too different to be compared agree.
func crossCheck(counter, power sourceFigure) (half unit.Energy, disagree bool) {
	shorter, longer := min(counter.length, power.length), max(counter.length, power.length)
	if shorter <= 0 || longer > shorter*1000/overlapShare {
		return counter.half, false
	}
	// The sensor's mean power over its own stretch stands for the rest of the counter's, which is one more uncertainty.
	scaled := unit.Energy(math.Round(float64(power.energy) * (float64(counter.length) / float64(power.length))))
	other := power.half + abs(power.energy.Per(power.length).Over(longer-shorter))
	apart := abs(counter.energy - scaled)
	allowed := min(abs(counter.energy), abs(scaled)) * disagreeShare / 1000
	if apart <= allowed+counter.half+other {
		return counter.half, false
	}
	return max(counter.half, apart+other), true
}

func abs(e unit.Energy) unit.Energy { return max(e, -e) }
