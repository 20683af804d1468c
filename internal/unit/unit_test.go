package unit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

func TestStringPicksTheUnitAPersonWouldUse(t *testing.T) {
	for _, c := range []struct {
		in   fmt.Stringer
		want string
	}{
		{unit.Energy(0), "0 J"},
		{unit.Energy(15), "15.00 µJ"},
		{12_345_678 * unit.Microjoule, "12.35 J"},
		{-12_345_678 * unit.Microjoule, "-12.35 J"},
		{999_999 * unit.Microjoule, "1.000 J"},
		{42 * unit.Kilojoule, "42.00 kJ"},
		{1_256_500 * unit.Joule, "1.256 MJ"},
		{95 * unit.Watt, "95.00 W"},
		{1250 * unit.Watt, "1.250 kW"},
		{unit.Power(0), "0 W"},
	} {
		if got := c.in.String(); got != c.want {
			t.Errorf("%d prints %q, want %q", c.in, got, c.want)
		}
	}
}

func TestPowerAndEnergyAreInverse(t *testing.T) {
	if got := (300 * unit.Watt).Over(10 * time.Second); got != 3000*unit.Joule {
		t.Errorf("300 W over 10 s = %v", got)
	}
	if got := (3000 * unit.Joule).Per(10 * time.Second); got != 300*unit.Watt {
		t.Errorf("3000 J per 10 s = %v", got)
	}
	if got := unit.Joule.Per(0); got != 0 {
		t.Errorf("a rate over no time = %v, want 0", got)
	}
}

func TestFromSaturatesInsteadOfWrapping(t *testing.T) {
	for in, want := range map[float64]unit.Energy{
		1e300: math.MaxInt64, -1e300: math.MinInt64, 1.5: 1_500_000,
	} {
		if got := unit.FromJoules(in); got != want {
			t.Errorf("FromJoules(%g) = %d, want %d", in, got, want)
		}
	}
	if got := unit.FromWatts(math.NaN()); got != 0 {
		t.Errorf("FromWatts(NaN) = %d", got)
	}
}

func TestParsePowerNamesWhatIsAllowed(t *testing.T) {
	for in, want := range map[string]unit.Power{
		"180 W": 180 * unit.Watt, "1.2kW": 1200 * unit.Watt, "250mW": 250 * unit.Milliwatt, " 15 uW ": 15,
	} {
		if got, err := unit.ParsePower(in); err != nil || got != want {
			t.Errorf("ParsePower(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "180", "W", "NaN W", "Inf W", "1e30 W", "180 J"} {
		if got, err := unit.ParsePower(in); err == nil {
			t.Errorf("ParsePower(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParsePower(f *testing.F) {
	f.Add("180 W")
	f.Add("-1.5kW")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := unit.ParsePower(s)
		if err == nil && p == math.MinInt64 {
			t.Errorf("ParsePower(%q) saturated silently", s)
		}
	})
}

func ExampleEnergy_Per() {
	fmt.Println((3000 * unit.Joule).Per(10 * time.Second))
	// Output: 300.0 W
}
