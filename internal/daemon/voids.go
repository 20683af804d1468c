package daemon

import (
	"fmt"
	"slices"

	"github.com/qunerd/quner/internal/tune"
)

// VoidReason is a kind of reason for a window not to count.
type VoidReason string

// The kinds.
const (
	VoidLevers      VoidReason = "levers"      // a lever did not stay as set
	VoidCall        VoidReason = "call"        // somebody asked for something else meanwhile
	VoidLoad        VoidReason = "load"        // somebody else was at work on the machine
	VoidThrottling  VoidReason = "throttling"  // heat, or the power supply, slowed a device down
	VoidWork        VoidReason = "work"        // the workload did not run as it was to, or did not tell its work
	VoidMeasurement VoidReason = "measurement" // a device did not measure all of it
)

// remedy is what a person can do about windows that do not count for such a reason; empty where their text says it.
func (r VoidReason) remedy() string {
	switch r {
	case VoidLoad:
		return "; wait until it has ended, or end it, then tune again"
	case VoidThrottling:
		return "; let it cool, see to its fans and its air, or set a lower limit before you tune again"
	default:
		return ""
	}
}

// VoidCount is how many windows of a sweep did not count for one kind of reason.
type VoidCount struct {
	Why     VoidReason
	Windows int
	Last    string // the reason of the last of them, in words
}

// void is why a window does not count; the zero value: it does.
type void struct {
	why  VoidReason
	text string
}

func (v void) is() bool { return v.text != "" }

func voided(why VoidReason, format string, args ...any) void {
	return void{why, fmt.Sprintf(format, args...)}
}

// spoil takes the window that runs for void. Of several reasons the first is told.
func (t *sweep) spoil(v void) {
	if !t.spoilt.is() {
		t.spoilt = v
	}
}

// maxVoids is how many windows in a row may be void before the sweep ends: what spoils them does not go away, and the
// workload is somebody's time.
const maxVoids = 5

// patience counts voids in a row.
func (t *sweep) patience() error {
	if !t.spoilt.is() {
		t.voids = 0
		return nil
	}
	if t.voids++; t.voids < maxVoids {
		return nil
	}
	if t.lease.idle && t.spoilt.why == VoidLoad {
		return notNow("%s", t.spoilt.text)
	}
	return fmt.Errorf("%w: %d in a row: %s%s", ErrVoided, maxVoids, t.spoilt.text, t.spoilt.why.remedy())
}

// Progress is what is told of one window that has just ended.
type Progress struct {
	tune.Progress
	Why      VoidReason // for which it does not count; empty if it does
	WorkUnit string     // what its work is counted in, in the singular; empty: runs of a command, or not known yet
}

// progress counts the windows that do not count, and tells the caller of each window.
func (t *sweep) progress(p tune.Progress) {
	told := Progress{Progress: p, WorkUnit: t.spec.WorkUnit}
	if t.service != nil {
		told.WorkUnit = t.service.counted()
	}
	if p.Sample.Void != "" {
		told.Why = VoidMeasurement // what the search itself misses in a window
		if t.spoilt.text == p.Sample.Void {
			told.Why = t.spoilt.why
		}
		t.book(told.Why, 1, p.Sample.Void)
	}
	t.workload.Progress(told)
}

func (t *sweep) book(why VoidReason, windows int, text string) {
	i := slices.IndexFunc(t.counts, func(c VoidCount) bool { return c.Why == why })
	if i < 0 {
		i, t.counts = len(t.counts), append(t.counts, VoidCount{Why: why})
	}
	t.counts[i].Windows += windows
	t.counts[i].Last = text
}

// voidCounts are the windows that did not count, most first. The search drops some that it had taken for good, when a later
// one shows that there is a counter: they were told to nobody.
func (t *sweep) voidCounts(all int) []VoidCount {
	for _, c := range t.counts {
		all -= c.Windows
	}
	if all > 0 {
		t.book(VoidMeasurement, all, "no energy")
	}
	slices.SortStableFunc(t.counts, func(a, b VoidCount) int { return b.Windows - a.Windows })
	return t.counts
}
