package meter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// FloorState is which of its levels at rest a device was at.
type FloorState string

// The states. A CPU has one level only, which counts as bare.
const (
	FloorBare    FloorState = "bare"    // no compute context was open on the board
	FloorContext FloorState = "context" // one was, and did nothing
)

// Floor is a certificate of what a device draws at rest at one operating point.
type Floor struct {
	ID        string     `json:"id"` // 12 hexadecimal digits, of all that follows
	Device    string     `json:"device"`
	State     FloorState `json:"state"`
	Condition string     `json:"condition"` // the operating point, as SetCondition was told it; empty: the host as found
	Mean      unit.Power `json:"mean_uw"`
	Sigma     unit.Power `json:"sigma_uw"` // standard deviation of the mean powers of N equal parts of the time
	N         int        `json:"n"`
	HalfWidth unit.Power `json:"half_width_uw"` // of the mean's 95 % interval
	Driver    string     `json:"driver,omitempty"`
	Kernel    string     `json:"kernel"`
	BootID    string     `json:"boot_id"`
	From      time.Time  `json:"from"`
	To        time.Time  `json:"to"`
	// Suspect: windows have cost less than nothing above it, three times by more than their intervals. It is not part of ID.
	Suspect bool `json:"suspect,omitempty"`
}

// Named returns the certificate with the id that its content has.
func (f Floor) Named() Floor {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d %d %d %q %q %q %d %d", f.Device, f.State, f.Condition,
		f.Mean, f.Sigma, f.N, f.HalfWidth, f.Driver, f.Kernel, f.BootID, f.From.UnixNano(), f.To.UnixNano()))
	f.ID = hex.EncodeToString(sum[:6])
	return f
}

// Check says what no measurement can have made of a certificate: one that is not believed is not charged by.
func (f Floor) Check() error {
	most := unit.FromWatts(maxIdle)
	switch {
	case f.Device == "":
		return fmt.Errorf("floor %q: no device", f.ID)
	case f.State != FloorBare && f.State != FloorContext:
		return fmt.Errorf("floor %q: state %q: allowed are %q and %q", f.ID, clip(string(f.State)), FloorBare, FloorContext)
	case f.Mean < 0 || f.Mean > most || f.Sigma < 0 || f.Sigma > most || f.HalfWidth < 0 || f.HalfWidth > most:
		return fmt.Errorf("floor %q: %d ± %d µW, σ %d µW: not powers at rest", f.ID, f.Mean, f.HalfWidth, f.Sigma)
	case f.N < minParts || f.To.Sub(f.From) < MinFloor:
		return fmt.Errorf("floor %q: %d parts in %v: at least %d, and %v", f.ID, f.N, f.To.Sub(f.From), minParts, MinFloor)
	case f.ID != f.Named().ID:
		return fmt.Errorf("floor %q: its content makes it %q", f.ID, f.Named().ID)
	}
	return nil
}

// Same reports whether two certificates are of the same device, state and operating point, so that the newer is the one to
// use.
func (f Floor) Same(g Floor) bool { return f.key() == g.key() }

// floorKey is what a floor is found by.
type floorKey struct {
	device, condition string
	state             FloorState
}

func (f Floor) key() floorKey { return floorKey{f.Device, f.Condition, f.State} }

// floorBook holds the floors of one moment. It does not change: windows keep the one they were opened with, so that what
// a window is charged for its stages and in all follows one set of floors.
type floorBook struct {
	floors  map[floorKey]*Floor
	byID    map[string]*Floor
	devices map[string]bool // that have any
}

// find returns the floor with an id, or nil.
func (b *floorBook) find(id string) *Floor {
	if b == nil {
		return nil
	}
	return b.byID[id]
}

// SetFloors tells what the devices draw at rest, one certificate for each device, state and condition; of several the
// newest counts. Windows opened from now on are charged above it where their caller gives no floor.
func (m *Meter) SetFloors(floors []Floor) {
	book := &floorBook{floors: map[floorKey]*Floor{}, byID: map[string]*Floor{}, devices: map[string]bool{}}
	below := map[string]int{}
	for _, f := range floors {
		if old, ok := book.floors[f.key()]; ok && old.To.After(f.To) {
			continue
		}
		book.floors[f.key()] = &f
		book.devices[f.Device] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range book.floors {
		book.byID[f.ID] = f
		if n := m.below[f.ID]; n > 0 {
			below[f.ID] = n
		}
		if f.Suspect {
			below[f.ID] = max(below[f.ID], suspicious)
		}
	}
	m.below = below
	m.floors.Store(book)
}

// suspicious is how many windows below a floor make it suspect.
const suspicious = 3

// ripple is what a device at rest may draw less than its floor in so long, with no floor to blame: what it draws goes up and
// down, as it did while it was measured. 95 %.
func (f Floor) ripple(d time.Duration) unit.Energy {
	part := f.To.Sub(f.From).Seconds() / float64(f.N)
	return unit.Energy(2 * float64(f.Sigma) * math.Sqrt(part*max(d.Seconds(), part)))
}

// doubt books a device's figure against its floor, and says so in the figure if the floor is suspect. A figure speaks
// against a floor when it is below it by more than its whole interval, which holds the floor's own, and the ripple of rest.
func (m *Meter) doubt(d *DeviceEnergy) {
	if d.FloorFrom == floorNone || d.FloorFrom == floorCaller {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := strings.Split(d.FloorFrom, "+")
	// Of several floors nobody knows which one is wrong.
	f := m.floors.Load().find(ids[0])
	if id := ids[0]; len(ids) == 1 && f != nil && d.Energy < -d.HalfWidth-f.ripple(d.Duration) && d.Coverage > 0.99 {
		m.below[id]++
		if m.below[id] == suspicious {
			m.log.Warn("idle floor is suspect: three windows have cost less than nothing above it; measure it again",
				"device", d.Device, "floor", id, "below_by", -d.Energy)
		}
	}
	if slices.ContainsFunc(ids, func(id string) bool { return m.below[id] >= suspicious }) {
		d.Reasons = append(d.Reasons, ReasonFloorSuspect)
	}
}

// Suspects reports whether a floor has become suspect.
func (m *Meter) Suspects(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.below[id] >= suspicious
}

// Where a device's floor is from, beside a certificate's id.
const (
	floorNone   = "none"
	floorCaller = "caller"
)

// ownFloor is what a device draws at rest in a window's share of the time.
type ownFloor struct {
	uj      float64
	err     float64 // µJ, 95 %: a floor that is wrong is wrong all the time, so it grows with the time
	missing float64 // seconds for which no floor is known
	points  int     // operating points in the window
	from    string  // ids, joined by "+"
}

func (o *ownFloor) add(f *Floor, seconds float64) {
	if seconds <= 0 {
		return
	}
	o.points++
	switch {
	case f == nil:
		o.missing += seconds
		return
	case o.from == "":
		o.from = f.ID
	case !containsID(o.from, f.ID):
		o.from += "+" + f.ID
	}
	o.uj += float64(f.Mean) * seconds
	o.err += float64(f.HalfWidth) * seconds
}

// since is what came after an earlier look at the same window.
func (o ownFloor) since(p ownFloor) ownFloor {
	o.uj, o.err, o.missing = o.uj-p.uj, o.err-p.err, o.missing-p.missing
	return o
}

// known reports whether there is a floor for all of the time.
func (o ownFloor) known() bool { return o.from != "" && o.missing < 1e-6 }

// floor makes what is taken off a device of it.
func (o ownFloor) floor() floor {
	if !o.known() {
		return floor{from: floorNone}
	}
	return floor{
		energy: unit.Energy(math.Round(o.uj)), err: unit.Energy(math.Ceil(o.err)), known: true, from: o.from,
	}
}

// restState is a device's level at rest, as a window met it when it opened.
type restState uint8

const (
	unseen restState = iota
	bare
	inContext
)
