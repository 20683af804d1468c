package meter

import (
	"errors"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Method says how a figure came to be.
type Method string

// The methods, best first.
const (
	Sampled   Method = "sampled"   // measured
	Estimated Method = "estimated" // from the caller's hint, never from a counter
	Unknown   Method = "unknown"   // could not be measured
)

// Backend is the kind of counter behind a figure.
type Backend string

// The backends of this host.
const (
	NVMLCounter  Backend = "nvml_counter"  // nvmlDeviceGetTotalEnergyConsumption
	HwmonCounter Backend = "hwmon_counter" // hwmon energyN_input
	PowerSampler Backend = "power_sampler" // a power sensor's samples, integrated
	RAPL         Backend = "rapl"          // powercap energy_uj
	NoBackend    Backend = "none"
)

// Reasons of a figure, as they are on the wire.
const (
	ReasonShortWindow  = "short_window"                 // shorter than what the counter can tell apart
	ReasonReset        = "reset"                        // the counter started anew
	ReasonBackward     = "backward"                     // the counter fell to a value it cannot have
	ReasonJump         = "jump"                         // the counter rose by more than the device can draw
	ReasonGap          = "gap"                          // part of the window has no reading
	ReasonAmbiguous    = "ambiguous"                    // the counter may have wrapped once more: the figure is a lower bound
	ReasonMirrored     = "mirrored"                     // a die repeats another die's counter and is left out
	ReasonFrozen       = "frozen"                       // the counter does not move
	ReasonPermission   = "permission"                   // the daemon may not read the counter
	ReasonNoPowercap   = "no_powercap"                  // the host has no CPU energy counter
	ReasonNoGPU        = "no_gpu"                       // the host has no GPU that tells its energy
	ReasonNoCounter    = "no_counter"                   // the device has no energy counter
	ReasonUnreadable   = "unreadable"                   // the counter is there and reading it fails
	ReasonSleeping     = "sleeping"                     // the device sleeps and is not woken
	ReasonLost         = "lost"                         // the device is gone
	ReasonHung         = "hung"                         // a driver call has not come back
	ReasonFloorNone    = "floor_none"                   // no idle floor is known: the figure is gross
	ReasonFloorCaller  = "floor_caller"                 // the idle floor is the caller's word
	ReasonFloorSuspect = "floor_suspect"                // three windows have cost less than nothing above this floor
	ReasonPointChanged = "point_changed"                // the operating point changed within the window
	ReasonUnsynced     = "unsynced"                     // GPU work may have been in flight at the close
	ReasonShared       = "shared"                       // other windows were open on a device
	ReasonCoarse       = "coarse"                       // CPU energy is told on the sampler's ticks only
	ReasonOrphaned     = "orphaned"                     // its owner went away: the figure ends there
	ReasonTimeLimit    = "time_limit"                   // it was detached and ended by itself
	ReasonRestarted    = "daemon_restarted"             // the daemon was restarted within the window
	ReasonDisagree     = "sources_disagree"             // counter and integrated power differ by more than 5 %: the interval covers both
	ReasonAveraging    = "averaging_longer_than_window" // the power sensor tells a mean over more time than the window lasted
	ReasonContained    = "contained"                    // of a sensor: another counter contains it
	ReasonTwin         = "twin"                         // of a sensor: another interface to the same counter
	ReasonPlatform     = "platform"                     // of a sensor: the whole platform, reported apart
)

// Errors a caller branches on.
var (
	ErrNoWindow      = errors.New("no such window")
	ErrTooMany       = errors.New("too many")
	ErrUnknownDevice = errors.New("no such device")
	ErrBadRequest    = errors.New("bad request")
	ErrNotSampled    = errors.New("not measured")
	ErrOnSession     = errors.New("the window lives on a session, which alone marks and closes it")
)

// Options are the meter's limits; a zero field means its default.
type Options struct {
	MaxWindows  int // open at once; 4096
	MaxPerOwner int // open at once of one uid; 1024
	MaxStages   int // of one window; 1024
	// Plain leaves the edges of windows where the counter's readings are instead of carrying them to its steps. It is
	// there to be compared with.
	Plain     bool
	Heartbeat time.Duration // between reads while a window is open; 1 s

	MaxLife     time.Duration // of a detached window; 24 h
	KeepResults int           // of windows that have ended, of one uid; 1024
	// Journal: windows survive the meter. They are written down in the runtime directory at each heartbeat, and New takes
	// them up.
	Journal bool
}

func (o Options) withDefaults() Options {
	if o.MaxWindows == 0 {
		o.MaxWindows = 4096
	}
	if o.MaxPerOwner == 0 {
		o.MaxPerOwner = 1024
	}
	if o.MaxStages == 0 {
		o.MaxStages = 1024
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = time.Second
	}
	if o.MaxLife == 0 {
		o.MaxLife = 24 * time.Hour
	}
	if o.KeepResults == 0 {
		o.KeepResults = 1024
	}
	return o
}

// OpenRequest says what a window is to measure.
type OpenRequest struct {
	Owner uint32 // uid
	// Exact: the owner may see exact CPU figures. Without it CPU devices are charged from tick to tick of the sampler in
	// steps of 0.1 J, and no counter is read because of the window.
	Exact bool
	// Observe: the window is charged all that its devices draw and takes nothing from the windows beside it. For the
	// daemon's own windows; a client's always share.
	Observe bool

	Name    string   // [A-Za-z0-9._-]{1,64}
	Devices []string // names, or "cpu" and "gpu" for all of a kind; empty: every GPU that is awake, CPU packages and dram
	// IdleWatts is the caller's floor. The key is a device, or "cpu" or "gpu": then the watts are those of all the
	// window's devices of that kind together (less those named themselves), and are divided among them in proportion to
	// what each drew.
	IdleWatts            map[string]float64
	IdleWattsUncertainty map[string]float64 // ± W, 95 %, by the same keys
	Weight               float64            // share of a device used together, 0.001…1000; 0 means 1
	Workload             string             // a label, or empty
	Unit                 string             // of the work: "token"; a label, or empty
	HintJoulesPerUnit    float64            // for an estimate when nothing can be measured; 0: none

	// WaitEdge: Open returns at the next step of the slowest counter the window charges exactly (at most one of its
	// periods later), and the window begins there.
	WaitEdge bool

	// Detached: the window is on no session. It ends by itself after Limit, MinLife at least, or Options.MaxLife where that
	// is 0.
	Detached bool
	Limit    time.Duration
	// MayWake: a board that sleeps is woken for the window.
	MayWake bool
}

// CloseRequest ends a window.
type CloseRequest struct {
	Work           float64 // in the window's unit; 0 when not told
	Synced         bool    // the caller's GPU work was complete before it asked
	RequireSampled bool    // a figure that is not Sampled makes Close return ErrNotSampled beside it
	WaitEdge       bool    // the window ends, on each device, at the counter's next step, at most one period later
}

// Result is what a window cost.
type Result struct {
	ID       string
	Name     string
	Workload string
	Duration time.Duration
	Method   Method // the worst of the devices'
	Backend  string // of the devices, joined by "+"; "none" when there is no device

	Energy        unit.Energy // gross less floor; signed. Estimated: the hint times the work
	HalfWidth     unit.Energy // of the 95 % interval
	UpperBound    unit.Energy // at most this much; when HasUpperBound
	HasUpperBound bool        // unless the method is Sampled, always where any bound is known
	Gross         unit.Energy
	Floor         unit.Energy // what was taken off
	AboveIdle     bool        // every device had a floor
	Coverage      float64     // share of the duration that was measured, 0…1, the least of the devices
	MaxGap        time.Duration
	Reasons       []string
	Devices       []DeviceEnergy
	Stages        []Stage // ended by a mark each; the last one, unnamed, ends with the window. None without a mark

	Work             float64
	Unit             string
	PerUnit          float64 // joules per unit of work, when HasPerUnit: a unit may cost less than any unit.Energy
	PerUnitHalfWidth float64 // joules, 95 %
	HasPerUnit       bool

	Platform    unit.Energy // psys over the window, whoever caused it; never part of the sum; when HasPlatform
	HasPlatform bool
	Share       string // "exclusive" or "shared"
}

// DeviceEnergy is one device's part of a window.
type DeviceEnergy struct {
	Device    string
	Label     string
	Backend   Backend
	Method    Method      // when not Sampled, Energy is no measurement: kept, signed, for sums only
	Energy    unit.Energy // gross less floor
	HalfWidth unit.Energy // 95 %
	Gross     unit.Energy // the window's share of Total
	Floor     unit.Energy
	FloorFrom string        // "none", "caller", or the ids of the certificates used, joined by "+"
	Began     time.Time     // the edge that the stretch begins at which the figure is of
	Duration  time.Duration // from there to the edge that it ends at
	Coverage  float64
	MaxGap    time.Duration
	Reasons   []string
	Terms     Terms
	Total     unit.Energy // the device's own over the window, whoever caused it

	small bool        // measured, and Unknown only because that cannot be told from zero
	bound unit.Energy // Energy is at most this much
	holes unit.Energy // of Terms.Edges, what has no reading: it adds up
}

// Terms are the parts of a 95 % half-width, kept apart.
type Terms struct {
	Edges unit.Energy // what the counter's step hides at both ends, and the time without a reading
	Floor unit.Energy // the floor's uncertainty over the window
	Clock unit.Energy // between asking for a reading and getting it
	Gain  unit.Energy // the sensor's systematic error, as GainFrom says
	// GainFrom is "assumed" where nobody has told how true the sensor's scale is, or "documented".
	GainFrom string
}

// Stage is a part of a window between marks. Energy is above idle on the devices that have a floor. The window's total is
// never made of its stages.
type Stage struct {
	Name     string
	Duration time.Duration
	Energy   unit.Energy
	Gross    unit.Energy
}

// DevicePower is the mean power of a device between the last two ticks, or the reason why it is not known.
type DevicePower struct {
	Device  string     `json:"device"`
	Label   string     `json:"label"`
	Backend Backend    `json:"backend"`
	Power   unit.Power `json:"power_uw"`
	Known   bool       `json:"known"`
	Reason  string     `json:"reason,omitempty"`
}
