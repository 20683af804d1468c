package daemon

import (
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// cpuTime is how much the CPUs have worked since the machine started; zero where the kernel does not tell.
func (d *Daemon) cpuTime() host.CPUTime {
	used, err := d.host.CPUTime()
	if err != nil {
		return host.CPUTime{}
	}
	return used
}

// foreignShare is the share of the CPUs, and foreignLeast the number of them, that may be busy while a state settles: the
// sweep's own workload does not run then, the daemon and its caller hardly.
const (
	foreignShare = 0.2
	foreignLeast = 0.5
)

// foreignLoad is whose work the CPUs have done between two looks at which the sweep's workload did not run, as a reason for
// a window not to count; none if it was next to nothing.
func foreignLoad(from, to host.CPUTime, seconds float64) void {
	passed := to.Total - from.Total
	if !(passed > 0) || from.Total == 0 || !(seconds > 0) {
		return void{}
	}
	busy, of := (to.Busy-from.Busy)/seconds, passed/seconds
	if busy <= max(foreignLeast, foreignShare*of) {
		return void{}
	}
	return voided(VoidLoad, "somebody else's load on the CPUs: %.1f of %.0f were busy while the workload did not run", busy, of)
}

// moves tells whether an axis moves what a metered device draws: a board by its cap, a package by its limit and by the
// governor of its CPUs.
func (a axis) moves(device string) bool {
	kind, rest, _ := strings.Cut(device, "/")
	_, part, _ := strings.Cut(rest, "/")
	for _, set := range a.settings[a.Found] {
		owner, id, _ := strings.Cut(set.Lever, "/")
		switch {
		case kind == "gpu" && id == rest:
			return true
		case kind == "cpu" && part == "" && (owner == "cpufreq" || strings.HasPrefix(owner, "rapl")):
			return true
		}
	}
	return false
}
