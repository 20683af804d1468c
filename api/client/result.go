package client

import (
	"fmt"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// Result is what a window cost. There is no field that reads as zero joules when nothing was measured: ask Joules.
type Result struct {
	Window *qunerv1.WindowResult // all that is known; its energies count only as the method says
	Cause  error                 // why the daemon did not measure it; nil if it did
}

// Measured tells whether the figure comes from counters alone.
func (r Result) Measured() bool { return r.Window.GetMethod() == qunerv1.Method_METHOD_SAMPLED }

// Joules returns the window's energy and the half-width of its 95 % interval; above idle if the window had a floor.
// ok is false when it is unknown: see UpperBound then. An estimate is ok and not Measured.
func (r Result) Joules() (joules, halfWidth float64, ok bool) {
	if r.Window == nil || r.Window.EnergyUj == nil {
		return 0, 0, false
	}
	switch r.Window.GetMethod() {
	case qunerv1.Method_METHOD_SAMPLED, qunerv1.Method_METHOD_ESTIMATED:
		return micro(r.Window.GetEnergyUj()), micro(r.Window.GetHalfWidthUj()), true
	default:
		return 0, 0, false
	}
}

// JoulesPerUnit returns joules per unit of work and the half-width of the 95 % interval. ok is false when the energy is
// unknown or no work was told.
func (r Result) JoulesPerUnit() (joules, halfWidth float64, ok bool) {
	if _, _, known := r.Joules(); !known || r.Window.JoulesPerUnit == nil {
		return 0, 0, false
	}
	return r.Window.GetJoulesPerUnit(), r.Window.GetJoulesPerUnitHalfWidth(), true
}

// UpperBound returns the joules that the window cost at most. ok is false when not even that is known.
func (r Result) UpperBound() (joules float64, ok bool) {
	if r.Window == nil || r.Window.UpperBoundUj == nil {
		return 0, false
	}
	return micro(r.Window.GetUpperBoundUj()), true
}

// Reasons say, for machines, what is to be known about the figure: "unsynced", "floor_none", "daemon_unreachable".
func (r Result) Reasons() []string { return r.Window.GetReasons() }

// String prints the result for a log line.
func (r Result) String() string {
	if j, u, ok := r.Joules(); ok {
		kind := ""
		if !r.Measured() {
			kind = " (estimated)"
		}
		return fmt.Sprintf("%.4g J ± %.2g J%s", j, u, kind)
	}
	if bound, ok := r.UpperBound(); ok {
		return fmt.Sprintf("unknown, at most %.4g J %v", bound, r.Reasons())
	}
	return fmt.Sprintf("unknown %v", r.Reasons())
}

func micro(uj int64) float64 { return float64(uj) / 1e6 }
