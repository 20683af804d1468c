// Package levers finds, moves and puts back the controls that decide how much power a machine draws. The daemon's loop
// owns the one Bank; before any first write the value found is on disk in the Bank's journal.
package levers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// Value is a lever's setting in the host's own text: "schedutil", "250000" (mW for an NVML cap, µW
// for the others).
type Value string

// Span is what a lever may be set to: one of Choices, or a whole number from Lo to Hi in the lever's own unit.
type Span struct {
	Choices []Value `json:"choices,omitempty"` // in the host's order; nil for a range
	Lo      int64   `json:"lo,omitempty"`      // inclusive
	Hi      int64   `json:"hi,omitempty"`      // inclusive; the value found unless the owner allows raising
	Step    int64   `json:"step,omitempty"`    // the interface's resolution, at least 1; 0 for choices
	Unit    string  `json:"unit,omitempty"`    // of Lo, Hi, Step and Value: "mW", "µW"; "" for choices
}

// Lever is one control instance: one cpufreq policy, one package, one board. Its methods are called by the Bank alone.
type Lever interface {
	// Name is stable over reboots: "cpufreq/policy0", "rapl/package-0", "nvml/GPU-5f0c…", "amdgpu/0000:03:00.0".
	Name() string
	// Kind is the sort of control.
	Kind() Kind
	// Span is what Set takes.
	Span() Span
	// Get reads the hardware, never a cache.
	Get(context.Context) (Value, error)
	// Set writes a chosen value and reads it back. A value outside Span is ErrOutOfSpan before any write; a host that
	// does not take it is ErrNotTaken.
	Set(context.Context, Value) error
	// Restore writes an original, whatever it was, and reads it back.
	Restore(context.Context, Value) error
	// Same reports whether two values are one within the lever's unit.
	Same(a, b Value) bool
}

// Kind is a sort of lever, and the name of the axis its instances move on together.
type Kind string

// The kinds of lever.
const (
	Governor         Kind = "governor" // cpufreq scaling_governor, one a policy
	EnergyPreference Kind = "epp"      // cpufreq energy_performance_preference, one a policy
	PackageLimit     Kind = "package"  // RAPL long-term limit, one a package or die and interface
	GPUCap           Kind = "gpu"      // NVIDIA power cap, one a board
	AMDCap           Kind = "amdgpu"   // AMD power cap, one a card
)

// Errors a caller branches on.
var (
	ErrOutOfSpan = errors.New("outside what the lever takes")
	ErrNotTaken  = errors.New("host did not take the value")
	ErrUnknown   = errors.New("no such lever on this host")
	ErrJournal   = errors.New("journal of original values")
	ErrFrozen    = errors.New("levers are not to be moved")
)

// Setting is one lever and the value it is to have.
type Setting struct {
	Lever string `json:"lever"`
	Value Value  `json:"value"`
}

// Point is an operating point: settings sorted by lever name, at most one a lever. The empty Point is the host as found.
type Point []Setting

// NewPoint sorts settings into a Point; of two for one lever the later wins.
func NewPoint(settings ...Setting) Point {
	byName := map[string]Value{}
	for _, s := range settings {
		byName[s.Lever] = s.Value
	}
	p := make(Point, 0, len(byName))
	for name, v := range byName {
		p = append(p, Setting{name, v})
	}
	slices.SortFunc(p, func(a, b Setting) int { return strings.Compare(a.Lever, b.Lever) })
	return p
}

// Key is the canonical text of the point: equal points have equal keys, and different ones different.
func (p Point) Key() string {
	parts := make([]string, len(p))
	for i, s := range p {
		parts[i] = s.Lever + "=" + string(s.Value)
	}
	return strings.Join(parts, " ")
}

// Value returns the setting of one lever.
func (p Point) Value(lever string) (Value, bool) {
	for _, s := range p {
		if s.Lever == lever {
			return s.Value, true
		}
	}
	return "", false
}

// Missing is a control that the host might have had and does not, with the reason.
type Missing struct {
	Name   string      `json:"name"` // "cpufreq", "nvml/GPU-5f0c…"
	Kind   Kind        `json:"kind"`
	Reason host.Reason `json:"reason"`
	Detail string      `json:"detail,omitempty"` // the fact behind the reason, for people
}
