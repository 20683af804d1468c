package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// vigilLook is how often a board is asked in a window. What it counts itself is compared at the ends.
const vigilLook = 500 * time.Millisecond

// vigil is a sentry's watch over one window. It belongs to its goroutine until that has ended.
type vigil struct {
	*sentry
	cancel context.CancelFunc
	ended  chan struct{}

	before []stranger            // on the boards before the workload ran
	during map[identity]stranger // while it did
	cpus   map[int]host.CPUHeat
	boards map[string]*boardHeat // by UUID
}

// boardHeat is what a board has told of its slowdowns in a window.
type boardHeat struct {
	first, last host.Throttling
	slow        host.Slowdown // seen
}

// hear takes what the board tells now. What boards may say in passing must have been said twice.
func (b *boardHeat) hear(t host.Throttling) {
	b.slow |= t.Now&^host.SlowChip | t.Now&b.last.Now
	b.last = t
}

// watch begins a vigil. The workload does not run yet, unless it is a service.
func (s *sentry) watch(ctx context.Context) *vigil {
	ctx, cancel := context.WithCancel(ctx)
	v := &vigil{
		sentry: s, cancel: cancel, ended: make(chan struct{}), during: map[identity]stranger{}, boards: map[string]*boardHeat{},
	}
	v.before = s.strangers(ctx)
	v.cpus, _ = s.host.CPUHeat() // CPUs that do not tell are nobody's heat; the report says so
	v.feel(ctx)
	go func() {
		defer close(v.ended)
		for sleep(ctx, vigilLook) == nil {
			v.feel(ctx)
			for _, other := range s.strangers(ctx) {
				v.during[identity{other.PID, other.Started}] = other
			}
		}
	}()
	return v
}

// feel asks the boards for their slowdowns.
func (v *vigil) feel(ctx context.Context) {
	for _, g := range v.host.GPUs.All() {
		t, err := g.Throttling(ctx)
		if err != nil {
			continue // a board that hangs or is lost has measured nothing either
		}
		b := v.boards[g.Info().UUID]
		if b == nil {
			b = &boardHeat{first: t}
			v.boards[g.Info().UUID] = b
		}
		b.hear(t)
	}
}

// end ends the vigil and tells what spoils the window. The workload has ended, unless it is a service.
func (v *vigil) end(ctx context.Context) []void {
	v.cancel()
	<-v.ended
	v.feel(ctx)
	var all []void
	if x := v.company(v.strangers(ctx)); x.is() {
		all = append(all, x)
	}
	for _, uuid := range slices.Sorted(maps.Keys(v.boards)) {
		if x := v.boards[uuid].void(uuid); x.is() {
			all = append(all, x)
		}
	}
	if x := v.hotCPUs(); x.is() {
		all = append(all, x)
	}
	return all
}

// company judges who else was on the boards. Where the workload has been seen there by processes of its own, all others are
// somebody else's. Where it has not, it works by others, a container's or a server's, and those that come and go with it
// are taken for its own; who is there while it does not run is not.
func (v *vigil) company(after []stranger) void {
	all := slices.Concat(v.before, after)
	if v.seen || v.serves || v.idle {
		for _, id := range slices.SortedFunc(maps.Keys(v.during), func(a, b identity) int { return a.pid - b.pid }) {
			all = append(all, v.during[id])
		}
	}
	if len(all) == 0 {
		return void{}
	}
	return voided(VoidLoad, "somebody else is at work: %v, none of the workload's", all[0])
}

// void tells whether the board was slowed down.
func (b *boardHeat) void(uuid string) void {
	spent := time.Duration(0)
	if b.first.SpentErr == nil && b.last.SpentErr == nil {
		spent = b.last.Spent - b.first.Spent
	}
	if b.slow == 0 && spent <= 0 {
		return void{}
	}
	by, lasted := "heat or by the power supply", ""
	if b.slow != 0 {
		by = b.slow.String()
	}
	if spent > 0 {
		lasted = fmt.Sprintf(" for %v", spent.Round(time.Millisecond))
	}
	return voided(VoidThrottling, "thermal throttling: gpu/%s was slowed down by %s%s", uuid, by, lasted)
}

// hotCPUs tells whether any CPU was slowed down.
func (v *vigil) hotCPUs() void {
	now, err := v.host.CPUHeat()
	if err != nil {
		return void{}
	}
	var hot []int
	for n, was := range v.cpus {
		if is, online := now[n]; online && (is.Events > was.Events || is.Spent > was.Spent) {
			hot = append(hot, n)
		}
	}
	switch len(hot) {
	case 0:
		return void{}
	case 1:
		return voided(VoidThrottling, "thermal throttling: CPU %d was slowed down by heat", hot[0])
	}
	return voided(VoidThrottling, "thermal throttling: CPU %d and %d others were slowed down by heat", slices.Min(hot), len(hot)-1)
}
