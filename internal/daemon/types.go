package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/tune"
	"github.com/qunerd/quner/internal/unit"
)

// Caller is who asks, as the kernel told the server.
type Caller struct {
	UID uint32
	PID int32 // for log lines, and to tell a sweep's own processes from others; never for what is allowed
}

// Status is one picture of the machine: immutable once published. Its JSON is status.json.
type Status struct {
	Version     string              `json:"version"`
	Time        time.Time           `json:"time"`
	Started     time.Time           `json:"started"`
	Host        string              `json:"simulated_host,omitempty"`
	Profile     profiles.Profile    `json:"profile"`
	Mode        profiles.ModeState  `json:"mode"`
	NeedsTune   bool                `json:"needs_tune"`
	PointSource PointSource         `json:"point_source"`
	Revalidate  bool                `json:"revalidate"` // the point was tuned before kernel, microcode or driver changed
	Levers      []levers.State      `json:"levers"`
	Missing     []levers.Missing    `json:"missing"`
	Devices     []meter.DevicePower `json:"devices"`
	Signal      Signal              `json:"signal"`
	Tune        TuneState           `json:"tune"`
	Retune      RetuneState         `json:"retune"`
	Savings     SavingsSum          `json:"savings_estimated"`
	Degraded    []string            `json:"degraded,omitempty"` // one sentence each
	OpenWindows int                 `json:"open_windows"`
}

// PointSource says where the operating point in force comes from.
type PointSource string

// Where a point comes from.
const (
	PointFound   PointSource = "found"   // the host as found
	PointDefault PointSource = "default" // the conservative default of the profile
	PointTuned   PointSource = "tuned"   // a cached point
	PointSweep   PointSource = "sweep"   // a sweep holds the levers
	PointFloor   PointSource = "floor"   // a measurement of idle floors holds the levers
)

// Signal is what the detector last saw.
type Signal struct {
	Sample   profiles.Sample  `json:"sample"`
	Proposes profiles.Profile `json:"proposes"`
	Agreeing int              `json:"agreeing"`
	Needed   int              `json:"needed"`
}

// TuneState is the sweep that runs and the one before.
type TuneState struct {
	Running     bool      `json:"running"`
	Workload    string    `json:"workload,omitempty"`
	Window      int       `json:"window,omitempty"`
	Last        time.Time `json:"last,omitzero"`
	LastVerdict string    `json:"last_verdict,omitempty"`
}

// ModeChange is a wish to change who decides the profile.
type ModeChange struct {
	Mode   profiles.Mode
	Pause  time.Duration // with ModeOff; 0: until resumed
	Resume bool          // back to the mode before ModeOff
	DryRun bool
}

// Applied is what applying, or planning to apply, came to.
type Applied struct {
	Writes  []levers.Write
	Profile profiles.Profile
	Source  PointSource
	Mode    profiles.ModeState
}

// TuneSpec says what a sweep looks for.
type TuneSpec struct {
	Caller      Caller
	Profile     profiles.Profile // unknown: training
	Workload    string
	Apply       bool
	Objective   tune.Objective
	MaxSlowdown float64 // 0…1
	NoGPU       bool
	NoCPU       bool
	Force       bool
	Fresh       bool          // start from nothing, also where a point is to be validated again
	MaxWindows  int           // 0: the default
	Budget      time.Duration // about as long as the sweep may take; 0: as long as its windows take
	WorkloadUID uint32        // whose windows carry the workload's name
	Attach      bool          // the work is that of those windows, which a service opens and closes by itself; no caller runs it
	WorkUnit    string        // what the work is counted in; empty: runs of a command
	DryRun      bool
}

// TunePlan is what a sweep will try.
type TunePlan struct {
	Axes       []tune.Axis
	MaxWindows int
	Base       unit.Power
	Devices    []string
	Budget     time.Duration // 0: only the windows bound the sweep
	Prior      *PriorPoint   // from which the search starts; nil: from nothing
}

// TuneRun is a request to the caller to run the workload once.
type TuneRun struct {
	Window     int
	MaxWindows int
	State      []string // a label an axis
	AtLeast    time.Duration
}

// TuneWork is what a caller has done in a window.
type TuneWork struct {
	Amount  float64       // runs of a command, or what the workload says
	Stalled time.Duration // for how long the caller itself did not run, as after Ctrl-Z
}

// TuneWorkload is the caller's side of a sweep: it is shown the plan and the progress, and runs the workload; not that of a
// service to which the sweep is attached.
type TuneWorkload interface {
	Plan(TunePlan) error
	// Run runs the workload once or more, for at least r.AtLeast, and returns what was done. Its error ends the sweep.
	Run(ctx context.Context, r TuneRun) (TuneWork, error)
	Progress(Progress)
}

// TuneReport is the outcome of a sweep.
type TuneReport struct {
	Plan    TunePlan
	Result  tune.Result
	Chosen  levers.Point // empty if none
	Energy  unit.Energy  // spent by the sweep
	Applied bool
	Note    string

	WorkUnit string // what the work is counted in; empty: runs of a command

	Voids     []VoidCount // windows that did not count, by the kind of reason, most first
	Unwatched []string    // devices that do not tell whether heat slows them down
}

// Payback is for how many seconds of work in the chosen states the saving takes to make up for all that the sweep has
// taken; infinite where nothing is saved.
func (r *TuneReport) Payback() float64 {
	if !(r.Result.Joules > 0) {
		return r.Result.Payback
	}
	return r.Result.Payback * max(1, r.Energy.Joules()/r.Result.Joules) // what was spent between the windows counts too
}

// Certified reports whether the chosen state of every axis that does anything is certified.
func (r *TuneReport) Certified() bool {
	switch r.Verdict() {
	case tune.Interior, tune.Edge:
		return true
	default:
		return false
	}
}

// Verdict is the least sure of the axes' verdicts; axes that are flat, or were left as found
// because they could not pay back, decide only where all are.
func (r *TuneReport) Verdict() tune.Verdict {
	rank := func(v tune.Verdict) int {
		return slices.Index([]tune.Verdict{tune.Flat, tune.Interior, tune.Edge, tune.Uncertified, tune.NoEnergy}, v)
	}
	verdict, stopped := tune.Flat, false
	for _, a := range r.Result.Axes {
		if a.Stopped != "" {
			stopped = true
			continue
		}
		if rank(a.Verdict) > rank(verdict) {
			verdict = a.Verdict
		}
	}
	if verdict == tune.Flat && stopped {
		return tune.Uncertified
	}
	return verdict
}
