package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/unit"
)

// TunedPoint is an operating point with the evidence behind it.
type TunedPoint struct {
	ID              string            `json:"id"` // 12 hexadecimal digits; given by the Store
	Profile         Profile           `json:"profile"`
	Workload        string            `json:"workload,omitempty"` // as the caller named it
	PowerSource     Source            `json:"power_source"`
	Point           levers.Point      `json:"-"` // in the file as settings, with units
	Units           map[string]string `json:"-"` // unit of a value, by lever; none for choices
	Verdict         string            `json:"verdict"`
	Certified       bool              `json:"certified"`
	Objective       string            `json:"objective"`
	Saving          float64           `json:"saving"`            // fraction of joules per work saved against the state found
	SavingHalfWidth float64           `json:"saving_half_width"` // of the 95 % interval
	Slowdown        float64           `json:"slowdown"`          // fraction of work per second lost against the state found
	Windows         int               `json:"windows"`
	Energy          unit.Energy       `json:"sweep_energy_uj"`
	TunedAt         time.Time         `json:"tuned_at"`
	Hard            string            `json:"hard"` // Fingerprint.Hard.Key of the host
	Soft            string            `json:"soft"` // Fingerprint.Soft.Key of the host
	Evidence
}

// Evidence is what a sweep has measured beside the point itself. Points of before it was kept have none.
type Evidence struct {
	UID               uint32          `json:"workload_uid"` // whose windows carry the workload's name
	WorkUnit          string          `json:"work_unit,omitempty"`
	SlowdownHalfWidth float64         `json:"slowdown_half_width,omitempty"` // of the 95 % interval
	Payback           float64         `json:"payback_s,omitempty"`           // of this work, until the sweep had paid for itself
	MaxSlowdown       float64         `json:"max_slowdown,omitempty"`        // that was allowed
	Base              unit.Power      `json:"base_uw,omitempty"`             // added for the rest of the host
	Voided            int             `json:"voided,omitempty"`              // of the windows
	Watts             float64         `json:"watts,omitempty"`               // of the host in the chosen states
	Axes              []AxisEvidence  `json:"axes,omitempty"`
	States            []StateEvidence `json:"states,omitempty"` // those that were measured
	HardFacts         Facts           `json:"hard_facts,omitempty"`
	SoftFacts         Facts           `json:"soft_facts,omitempty"`
}

// AxisEvidence is what became of one axis.
type AxisEvidence struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Chosen  string `json:"chosen,omitempty"` // label of the state
}

// StateEvidence is what was measured of one state. A figure that is not known is nil.
type StateEvidence struct {
	Axis          string  `json:"axis"`
	Label         string  `json:"label"`
	Windows       int     `json:"windows"`
	WorkPerSecond *Figure `json:"work_per_second,omitempty"`
	Watts         *Figure `json:"watts,omitempty"`
	JoulesPerWork *Figure `json:"joules_per_work,omitempty"`
	Achieved      *Figure `json:"achieved_watts,omitempty"`
	SameAs        string  `json:"same_as,omitempty"` // label of the state that stands for it
	Allowed       bool    `json:"allowed,omitempty"`
	InBand        bool    `json:"in_band,omitempty"`
	Found         bool    `json:"found,omitempty"`
	Chosen        bool    `json:"chosen,omitempty"`
}

// Figure is a measured figure; its half-width, of the 95 % interval, is nil while there is no spread to learn from.
type Figure struct {
	Value float64  `json:"value"`
	Half  *float64 `json:"half_width,omitempty"`
}

// findID is the id a point has: one per host, profile, workload and power source, so that tuning again replaces.
func (p TunedPoint) findID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", p.Hard, p.Profile, p.Workload, p.PowerSource))
	return hex.EncodeToString(sum[:6])
}

// check refuses a point that no sweep can have made.
func (p TunedPoint) check() error {
	switch {
	case p.Profile != Idle && p.Profile != Training:
		return fmt.Errorf("point %q: profile %q: allowed are %q and %q", p.ID, p.Profile, Idle, Training)
	case p.PowerSource != Mains && p.PowerSource != Battery:
		return fmt.Errorf("point %q: power source %q: allowed are %q and %q", p.ID, p.PowerSource, Mains, Battery)
	case p.Hard == "":
		return fmt.Errorf("point %q: no hard key of the host it was tuned on", p.ID)
	case p.Windows < 0:
		return fmt.Errorf("point %q: %d windows", p.ID, p.Windows)
	}
	for _, v := range []float64{p.Saving, p.SavingHalfWidth, p.Slowdown, p.SlowdownHalfWidth, p.Payback, p.Watts} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("point %q: figure %v is not finite", p.ID, v)
		}
	}
	for _, s := range p.Point {
		if s.Lever == "" || s.Value == "" {
			return fmt.Errorf("point %q: setting %q = %q is incomplete", p.ID, s.Lever, s.Value)
		}
	}
	return nil
}

// Settled reports whether the sweep behind the point has come to an answer: a certified state, or that none makes a
// difference.
func (p TunedPoint) Settled() bool { return p.Certified || p.Verdict == "flat" }

// better reports whether p is to be preferred to q where neither was tuned for a workload known to run: one that was
// tuned for no workload in particular, then a certified one, then the newer.
func (p TunedPoint) better(q TunedPoint) bool {
	switch {
	case (p.Workload == "") != (q.Workload == ""):
		return p.Workload == ""
	case p.Certified != q.Certified:
		return p.Certified
	case !p.TunedAt.Equal(q.TunedAt):
		return p.TunedAt.After(q.TunedAt)
	}
	return p.ID < q.ID
}

// record is a TunedPoint as the file holds it.
type record struct {
	TunedPoint
	Settings []setting `json:"settings"`
}

type setting struct {
	Lever string       `json:"lever"`
	Value levers.Value `json:"value"`
	Unit  string       `json:"unit,omitempty"`
}

func toRecord(p TunedPoint) record {
	r := record{TunedPoint: p, Settings: make([]setting, 0, len(p.Point))}
	for _, s := range p.Point {
		r.Settings = append(r.Settings, setting{s.Lever, s.Value, p.Units[s.Lever]})
	}
	return r
}

func (r record) point() TunedPoint {
	p := r.TunedPoint
	p.Units = map[string]string{}
	settings := make([]levers.Setting, 0, len(r.Settings))
	for _, s := range r.Settings {
		settings = append(settings, levers.Setting{Lever: s.Lever, Value: s.Value})
		if s.Unit != "" {
			p.Units[s.Lever] = s.Unit
		}
	}
	p.Point = levers.NewPoint(settings...)
	return p
}
