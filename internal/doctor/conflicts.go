package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
)

// Conflict is a service that runs beside quner and does what quner does, or would. Nothing is ever done about it but to
// say so, and to leave it the levers that it moves.
type Conflict struct {
	Daemon   string        `json:"daemon"`
	Unit     string        `json:"unit,omitempty"` // the system's unit it runs in; empty where its name alone is known
	PID      int           `json:"pid,omitempty"`  // 0: it leaves no process
	Contests []levers.Kind `json:"contests"`       // empty: it ends processes, as memguard does
	Remedy   string        `json:"remedy"`         // the exact command that ends it
	Detail   string        `json:"detail"`         // what it does, for people
}

// Certain reports whether it is known for what it is. A unit of the system is made by root; a process's name is made by
// the process, and so is the unit of a user's own service manager.
func (c Conflict) Certain() bool { return c.Unit != "" }

// Contested returns the conflict that moves a kind of lever and is certain.
func Contested(all []Conflict, kind levers.Kind) (Conflict, bool) {
	i := slices.IndexFunc(all, func(c Conflict) bool { return c.Certain() && slices.Contains(c.Contests, kind) })
	if i < 0 {
		return Conflict{}, false
	}
	return all[i], true
}

// Conflicts looks once. It reads /proc and /run: no process is started and no bus asked.
func Conflicts(h *host.Host) []Conflict { return NewWatch(h).Look() }

// Watch looks for conflicts again and again. Of processes that were there before it reads one in recheck, and those that
// were a conflict, so that a look at a busy machine stays cheap. It belongs to one goroutine.
type Watch struct {
	host  *host.Host
	all   []rival
	known map[int]match
	turn  int
}

// match is what a process is.
type match struct {
	rival int // -1: none of them
	unit  string
}

const (
	recheck = 64      // looks until an unremarkable process is read again: its number may have been given to another
	most    = 1 << 16 // processes looked at
)

// NewWatch returns a Watch that has not looked yet.
func NewWatch(h *host.Host) *Watch { return &Watch{host: h, all: rivals()} }

// Look returns the services that run now, power daemons first. A process that vanishes meanwhile is none.
func (w *Watch) Look() []Conflict {
	running := make([]*Conflict, len(w.all))
	known := make(map[int]match, len(w.known))
	for _, pid := range w.processes() {
		m, old := w.known[pid]
		if !old || m.rival >= 0 || pid%recheck == w.turn {
			m = w.identify(strconv.Itoa(pid))
		}
		known[pid] = m
		if m.rival < 0 {
			continue
		}
		// The unit's first process is its own; a certain one outranks a name.
		if c := running[m.rival]; c == nil || !c.Certain() && m.unit != "" {
			one := w.all[m.rival].conflict(m.unit, pid)
			running[m.rival] = &one
		}
	}
	w.known, w.turn = known, (w.turn+1)%recheck
	if i := slices.IndexFunc(w.all, func(r rival) bool { return r.name == tlp }); running[i] == nil && w.tlpActs() {
		one := w.all[i].conflict(tlpUnit, 0)
		one.Detail += "; it leaves no process, and that it is turned off shows here after the next boot only"
		running[i] = &one
	}
	return w.told(running)
}

// told are the conflicts that are any on this host.
func (w *Watch) told(running []*Conflict) []Conflict {
	found := []Conflict{}
	for i, c := range running {
		if c != nil && (!w.all[i].pstate || hasPreference(w.host.Sys)) {
			found = append(found, *c)
		}
	}
	return found
}

// processes lists the processes by rising number.
func (w *Watch) processes() []int {
	names, err := w.host.Proc.List("")
	if err != nil {
		return nil
	}
	var pids []int
	for _, n := range names {
		if n[0] < '1' || n[0] > '9' {
			continue
		}
		if pid, err := strconv.Atoi(n); err == nil && len(pids) < most {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// identify reads what a process is.
func (w *Watch) identify(pid string) match {
	cgroup, err := w.host.Proc.Read(pid + "/cgroup")
	if err != nil {
		return match{rival: -1}
	}
	unit := systemUnit(string(cgroup))
	var comm string
	if unit == "" || !slices.ContainsFunc(w.all, func(r rival) bool { return slices.Contains(r.units, unit) }) {
		if comm, err = w.host.Proc.ReadString(pid + "/comm"); err != nil {
			return match{rival: -1}
		}
	}
	i, certain := ofProcess(w.all, unit, comm)
	if !certain {
		unit = ""
	}
	return match{i, unit}
}

// tlpActs reports whether TLP has set this host up since it booted: its unit is active, though no process is left, or
// its runtime directory is there.
func (w *Watch) tlpActs() bool {
	if _, err := w.host.Run.Stat("systemd/units/invocation:" + tlpUnit); err == nil {
		return true
	}
	return w.host.Run.Exists("tlp")
}

// systemUnit finds the system service manager's unit in a /proc/PID/cgroup: what comes first below system.slice and its
// slices. Whatever lies deeper is a container's or a user's to name. A process elsewhere has none.
func systemUnit(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(fields) != 3 || fields[1] != "" && fields[1] != "name=systemd" {
			continue // a controller of the old hierarchy, which may be cut differently
		}
		below, ok := strings.CutPrefix(fields[2], "/system.slice/")
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(below, "/") {
			if !strings.HasSuffix(part, ".slice") {
				return part
			}
		}
	}
	return ""
}
