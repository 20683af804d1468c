// Package doctor says what a host exposes: each lever and energy counter, whether it works, and if not why and what would
// help; and which other services do what quner does. It looks and changes nothing; the daemon and qunerd doctor show the
// same report.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// Report is what a host exposes.
type Report struct {
	Host      string     `json:"host"`      // CPU model, kernel, boards
	Conflicts []Conflict `json:"conflicts"` // services that do what quner does
	Levers    []Lever    `json:"levers"`
	Counters  []Counter  `json:"counters"`
	Notes     []string   `json:"notes,omitempty"` // what could not be seen, a sentence each
}

// Lever is one control, there or missing.
type Lever struct {
	Name      string      `json:"name"`
	Kind      levers.Kind `json:"kind"`
	Present   bool        `json:"present"`
	Readable  bool        `json:"readable"`
	Writable  bool        `json:"writable"`            // by this process, as far as can be told without writing
	Value     string      `json:"value,omitempty"`     // for people: "schedutil", "300.0 W"
	Effective string      `json:"effective,omitempty"` // what binds, where that is not Value: the lower of two interfaces, the enforced limit
	Range     string      `json:"range,omitempty"`     // for people: "powersave performance", "100.0 W … 300.0 W"
	Found     string      `json:"found,omitempty"`     // what it was before quner moved it; empty while quner does not hold it
	Owner     string      `json:"owner,omitempty"`     // "quner", "others", or the service that it is left to; empty: nobody
	State     string      `json:"state"`               // levers.Free, Held, Yielded or Lost
	Reason    host.Reason `json:"reason,omitempty"`    // why it cannot be moved
	Why       string      `json:"why,omitempty"`       // the same in plain words; also why it is left to others
	Detail    string      `json:"detail,omitempty"`    // the fact behind it, as the host told it
	Remedy    string      `json:"remedy,omitempty"`    // what would help; empty where nothing is wrong or nothing can be done
}

// Movable reports whether quner can move the lever and may.
func (l Lever) Movable() bool {
	return l.Writable && l.Reason == "" && (l.State == levers.Free || l.State == levers.Held)
}

// Counter is one energy counter, or the lack of one.
type Counter struct {
	Name    string        `json:"name"`
	Label   string        `json:"label,omitempty"`
	Backend meter.Backend `json:"backend"`
	Counted bool          `json:"counted"` // part of a window's sum
	Reason  string        `json:"reason,omitempty"`
	Why     string        `json:"why,omitempty"` // the same in plain words
	Detail  string        `json:"detail,omitempty"`
	Remedy  string        `json:"remedy,omitempty"`
	Passport
}

// Who decides about levers, beside the services in conflicts.
const (
	OwnerQuner  = "quner"
	OwnerOthers = "others"
)

// View is what is known of a host's levers.
type View struct {
	Levers    []levers.Lever
	States    []levers.State
	Missing   []levers.Missing
	Conflicts []Conflict
	Decided   map[string]string // OwnerQuner or OwnerOthers, by lever, where a person has decided
	Served    bool              // a daemon has them: what nobody else has is quner's
	Frozen    error             // why nothing is moved
}

// Examine reports on a host: on its levers as they were seen, on those missing, and on the sensors of its meter. It writes
// nothing. A board that does not answer delays it by at most the host's own call timeout.
func Examine(ctx context.Context, h *host.Host, v View, m *meter.Meter) Report {
	r := Report{Host: hostLine(h), Conflicts: v.Conflicts, Levers: []Lever{}, Counters: []Counter{}}
	for _, s := range v.States {
		r.Levers = append(r.Levers, v.lever(ctx, h, s))
	}
	for _, gone := range v.Missing {
		gone = known(h, gone)
		r.Levers = append(r.Levers, Lever{
			Name: gone.Name, Kind: gone.Kind, Reason: gone.Reason, Detail: printable(gone.Detail),
			Why: leverWhy(gone.Kind, gone.Reason, gone.Detail), Remedy: leverRemedy(gone.Kind, gone.Reason),
		})
	}
	for _, s := range m.Sensors() {
		r.Counters = append(r.Counters, v.counter(s))
	}
	slices.SortStableFunc(r.Counters, func(a, b Counter) int { return cmp.Compare(rank(a), rank(b)) })
	if v.Frozen != nil {
		r.Notes = append(r.Notes, "No lever is moved: "+printable(v.Frozen.Error())+".")
	}
	return r
}

// counter reports on one. What is known of the levers explains a lack better than the lack itself.
func (v View) counter(s meter.Sensor) Counter {
	c := Counter{
		Name: s.Name, Label: s.Label, Backend: s.Backend, Counted: s.Counted, Reason: s.Reason, Detail: printable(s.Detail),
		Why: counterWhy(s.Reason), Remedy: counterRemedy(s.Reason), Passport: passportOf(s),
	}
	missing := func(why host.Reason) bool {
		return slices.ContainsFunc(v.Missing, func(m levers.Missing) bool { return m.Reason == why })
	}
	switch {
	case s.Reason == meter.ReasonNoPowercap && missing(host.VM):
		c.Why, c.Remedy = leverWhy("", host.VM, ""), leverRemedy("", host.VM)
	case s.Reason == meter.ReasonNoGPU && missing(host.Suspended):
		c.Reason, c.Why = meter.ReasonSleeping, counterWhy(meter.ReasonSleeping)
	}
	return c
}

// known corrects a lack of NVIDIA's driver by what the PCI bus says: with no board there is no driver to miss.
func known(h *host.Host, m levers.Missing) levers.Missing {
	if m.Kind != levers.GPUCap || m.Reason != host.NoDriver {
		return m
	}
	names, err := h.Sys.List("bus/pci/devices")
	for _, n := range names {
		vendor, _ := h.Sys.ReadString("bus/pci/devices/" + n + "/vendor")
		class, _ := h.Sys.ReadString("bus/pci/devices/" + n + "/class")
		if vendor == "0x10de" && strings.HasPrefix(class, "0x03") {
			return m
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		m.Reason, m.Detail = host.Absent, "no NVIDIA GPU"
	}
	return m
}

// rank puts the counters that are added up first and those that are not there last.
func rank(c Counter) int {
	switch {
	case c.Counted:
		return 0
	case c.Backend == meter.NoBackend:
		return 2
	}
	return 1
}

// withRoot says what root would see in addition, if anything: the journal where that is hidden, and other people's
// processes where /proc keeps them from each other.
func withRoot(r Report, hidden, others bool) string {
	var more []string
	for _, l := range r.Levers {
		if l.Reason == host.NoPermission {
			more = append(more, "whether the levers can be moved")
			break
		}
	}
	for _, c := range r.Counters {
		if c.Reason == meter.ReasonPermission {
			more = append(more, "the CPU's energy counters")
			break
		}
	}
	if hidden {
		more = append(more, "which values quner has changed")
	}
	if others {
		more = append(more, "which other power daemons run")
	}
	if len(more) == 0 {
		return ""
	}
	return "Seen without root. Root would also see " + strings.Join(more, ", ") + ": sudo qunerd doctor"
}

// hostLine is the machine in a line: what it computes with, and on what.
func hostLine(h *host.Host) string {
	var parts []string
	if model := h.CPU().Model; model != "" {
		parts = append(parts, model)
	}
	if release, err := h.Proc.ReadString("sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+release)
	}
	for _, gpu := range h.GPUs.All() {
		parts = append(parts, gpu.Info().Name)
	}
	if version := h.GPUs.Version(); version != "" {
		parts = append(parts, "driver "+version)
	}
	if len(parts) == 0 {
		return "a host that tells nothing about itself"
	}
	return printable(strings.Join(parts, ", "))
}

// Usable counts the levers that can be moved.
func (r Report) Usable() (n int) {
	for _, l := range r.Levers {
		if l.Movable() {
			n++
		}
	}
	return n
}

// Charged counts the energy counters that a window sums.
func (r Report) Charged() (n int) {
	for _, c := range r.Counters {
		if c.Counted {
			n++
		}
	}
	return n
}

// printable escapes what a host's text must not do to a terminal or a log.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == 0xfffd || 0x80 <= c && c < 0xa0 {
			return '?'
		}
		return c
	}, s)
}
