package meter

import "math"

// minParts is the least number of parts that a floor's scatter is learnt from, and minBatches that of batches.
const (
	minParts   = 8
	minBatches = 5
)

// scatter returns the standard deviation of the parts' powers and the half-width of the 95 % interval of their mean.
//
// Powers of neighbouring parts are alike: fans, refresh and clocks go up and down over seconds. So the interval is made by
// batch means: the parts are joined in batches of 1, 2, 3 … as long as there are minBatches; the scatter of batches,
// with Student's t for their number, gives one half-width each, and the widest counts. Of independent parts all are about
// the same; of correlated ones the longer batches scatter more, and show it.
func scatter(watts []float64) (sigma, half float64) {
	for length := 1; len(watts)/length >= minBatches; length++ {
		batches := make([]float64, len(watts)/length)
		for i := range batches {
			batches[i] = mean(watts[i*length : (i+1)*length])
		}
		s, n := deviation(batches), float64(len(batches))
		half = max(half, student95(len(batches)-1)*s/math.Sqrt(n))
		if length == 1 {
			sigma = s
		}
	}
	return sigma, half
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// deviation is the standard deviation of a sample.
func deviation(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += sq(x - m)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

// student95 is Student's t within which 95 % lie, for a number of degrees of freedom of 1 or more.
func student95(dof int) float64 {
	few := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}
	if dof <= len(few) {
		return few[max(dof, 1)-1]
	}
	// The first terms of the quantile's expansion in 1/dof: within 0.002 from here on.
	const z = 1.959964
	n := float64(dof)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}

// settleParts is how many parts a device's power must be the same as in as many before.
const settleParts = 5

// settled reports whether the newest parts draw what those before them did. After work a board's power falls for seconds.
func settled(watts []float64) bool {
	if len(watts) < 2*settleParts {
		return false
	}
	n := len(watts)
	return alike(watts[n-2*settleParts:n-settleParts], watts[n-settleParts:])
}

// drifts reports whether the last third of the parts draws something else than the first.
func drifts(watts []float64) bool {
	third := len(watts) / 3
	return third > 1 && !alike(watts[:third], watts[len(watts)-third:])
}

// alike reports whether two stretches draw the same, within 2 % or 0.2 W and thrice what they scatter; a quarter is never
// the same.
func alike(a, b []float64) bool {
	near, most := max(0.02*mean(a), 0.2), 0.25*mean(a)+1
	noise := math.Hypot(deviation(a)/math.Sqrt(float64(len(a))), deviation(b)/math.Sqrt(float64(len(b))))
	return math.Abs(mean(a)-mean(b)) <= near+min(3*noise, most)
}

// stretch is how many parts in a row make a level of their own rather than a spike, which belongs to rest.
const stretch = 3

// moved compares the newest stretch with the lowest and the mean of those before: rose is a load that has come; fell, that
// what was taken for rest was not.
func moved(watts []float64) (low, now float64, rose, fell bool) {
	n := len(watts)
	if n < 2*stretch {
		return 0, 0, false, false
	}
	now = mean(watts[n-stretch:])
	before := watts[:n-stretch]
	low = math.Inf(1)
	for i := range len(before) - stretch + 1 {
		low = min(low, mean(before[i:i+stretch]))
	}
	fell = now < mean(before)-max(0.05*mean(before), 0.5)-3*deviation(before)
	return low, now, above(now, low), fell
}

// above reports whether a power is clearly more than the lowest one seen.
func above(watts, lowest float64) bool { return watts > 1.25*lowest+2 }
