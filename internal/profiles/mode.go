// Package profiles decides which workload the machine is under, with hysteresis, and remembers the operating point tuned
// for it. The daemon's loop owns the detector; the store of points is its own file.
package profiles

import "time"

// Profile is a kind of workload.
type Profile string

// The profiles. Unknown holds before the first sample only.
const (
	Unknown  Profile = ""
	Idle     Profile = "idle"
	Training Profile = "training"
)

// Mode says who decides the profile.
type Mode string

// The modes.
const (
	ModeAuto     Mode = "auto"     // the detector
	ModeIdle     Mode = "idle"     // a person: idle
	ModeTraining Mode = "training" // a person: training
	ModeOff      Mode = "off"      // paused: the host as found, metering goes on
)

// ModeState is a mode with who set it, and when. It survives the daemon.
type ModeState struct {
	Mode   Mode      `json:"mode"`
	UID    uint32    `json:"set_by_uid"`
	Set    time.Time `json:"set_at,omitzero"`
	Until  time.Time `json:"until,omitzero"`   // end of a pause
	Before Mode      `json:"before,omitempty"` // the mode a pause returns to
}
