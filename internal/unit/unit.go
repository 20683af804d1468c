// Package unit holds energy and power as integer types, as package time holds durations, so that no figure loses its
// unit between a counter file and a report.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Energy is an amount of energy in microjoules. An int64 of them spans ±9.2 TJ: a 1 kW package for 292 years.
type Energy int64

// Units of energy.
const (
	Microjoule Energy = 1
	Millijoule        = 1000 * Microjoule
	Joule             = 1000 * Millijoule
	Kilojoule         = 1000 * Joule
	Megajoule         = 1000 * Kilojoule
)

// Power is a power in microwatts.
type Power int64

// Units of power.
const (
	Microwatt Power = 1
	Milliwatt       = 1000 * Microwatt
	Watt            = 1000 * Milliwatt
	Kilowatt        = 1000 * Watt
)

// Joules returns e as a floating-point number of joules.
func (e Energy) Joules() float64 { return float64(e) / float64(Joule) }

// FromJoules returns the energy nearest to j joules. Values beyond the type, and NaN, saturate; NaN becomes 0.
func FromJoules(j float64) Energy { return Energy(saturate(j * float64(Joule))) }

// Per returns the mean power of e spent over d. It is 0 when d is not positive: a rate over no time is no rate.
func (e Energy) Per(d time.Duration) Power {
	if d <= 0 {
		return 0
	}
	return Power(saturate(float64(e) / d.Seconds()))
}

// String prints e for people with four significant digits and a fitting unit: "12.34 J", "1.257 MJ".
func (e Energy) String() string { return scaled(float64(e), "J") }

// Watts returns p as a floating-point number of watts.
func (p Power) Watts() float64 { return float64(p) / float64(Watt) }

// FromWatts returns the power nearest to w watts. Values beyond the type saturate; NaN becomes 0.
func FromWatts(w float64) Power { return Power(saturate(w * float64(Watt))) }

// Over returns the energy of p held for d. Negative durations give negative energy.
func (p Power) Over(d time.Duration) Energy {
	return Energy(saturate(float64(p) * d.Seconds()))
}

// String prints p for people: "95.00 W", "1.250 kW".
func (p Power) String() string { return scaled(float64(p), "W") }

// ParsePower reads a power as people write it: a number and one of µW, uW, mW, W, kW ("180 W", "1.2kW"). A bare number
// is refused, since nobody can tell its unit; so are NaN and infinities.
func ParsePower(s string) (Power, error) {
	text := strings.TrimSpace(s)
	for _, u := range []struct {
		suffix string
		size   Power
	}{{"µW", Microwatt}, {"uW", Microwatt}, {"mW", Milliwatt}, {"kW", Kilowatt}, {"W", Watt}} {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("power %q: not a number before %s", s, u.suffix)
		}
		if math.Abs(v)*float64(u.size) > math.MaxInt64/2 {
			return 0, fmt.Errorf("power %q: out of range", s)
		}
		return Power(math.Round(v * float64(u.size))), nil
	}
	return 0, fmt.Errorf("power %q: no unit (allowed: µW, mW, W, kW)", s)
}

func saturate(v float64) int64 {
	switch {
	case math.IsNaN(v):
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(math.Round(v))
}

// scaled prints a value given in millionths of its unit.
func scaled(micro float64, symbol string) string {
	steps := []struct {
		size   float64
		prefix string
	}{{1e12, "M"}, {1e9, "k"}, {1e6, ""}, {1e3, "m"}, {1, "µ"}}
	if micro == 0 {
		return "0 " + symbol
	}
	size := math.Abs(micro)
	for _, s := range steps {
		// 0.99995 rounds up to the next unit at four digits, so the step starts a little below it.
		if size >= s.size*0.99995 {
			v := micro / s.size
			digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)*1.00005))))
			return strconv.FormatFloat(v, 'f', digits, 64) + " " + s.prefix + symbol
		}
	}
	return strconv.FormatFloat(micro, 'g', 4, 64) + " µ" + symbol
}
