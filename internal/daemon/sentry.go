package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// sentry keeps watch over a sweep: whether heat slows the machine down, and whether others are at work on its boards.
type sentry struct {
	host     *host.Host
	caller   int    // the process whose descendants are the workload's; 0: nobody knows it
	serves   bool   // the workload is a service, whose processes are those of uid
	idle     bool   // the workload is to do nothing
	uid      uint32 // of the service
	resident map[identity]bool
	own      map[identity]bool     // known to be the workload's
	seen     bool                  // the workload has been on a board by a process of its own
	rest     map[string]unit.Power // by board, the least that it drew while a state settled, after work
	settles  int
}

// identity is a process, whatever becomes of its number.
type identity struct {
	pid     int
	started uint64
}

// newSentry looks who is on the boards before the first window. They are taken for idle, as what a sweep refuses to begin
// beside is at work: a notebook that holds its memory, or the server that the workload asks for its work.
func (t *sweep) newSentry(ctx context.Context) *sentry {
	s := &sentry{
		host: t.d.host, caller: int(t.spec.Caller.PID), serves: t.service != nil, idle: t.lease.idle, uid: t.spec.WorkloadUID,
		resident: map[identity]bool{}, own: map[identity]bool{}, rest: map[string]unit.Power{},
	}
	if s.serves || s.idle {
		s.caller = 0
	}
	for _, g := range s.host.GPUs.All() {
		for _, p := range s.on(ctx, g) {
			s.resident[identity{p.PID, p.Started}] = true
		}
	}
	return s
}

// goBetween is the name, cut to 15 bytes, of the server through which NVIDIA's MPS has processes share a board. It comes with
// the first of them, whoever that is, and stays.
const goBetween = "nvidia-cuda-mps"

// on lists the processes that have a compute context on a board, as far as the kernel knows them.
func (s *sentry) on(ctx context.Context, g *host.GPU) []host.Process {
	pids, err := g.Processes(ctx)
	if err != nil {
		return nil // it does not tell: what it draws at rest has to do
	}
	var all []host.Process
	for _, pid := range pids {
		if p, err := s.host.Process(pid); err == nil && !p.Ended && p.Name != goBetween {
			all = append(all, p)
		}
	}
	return all
}

// deepest is how many generations a process may be below the caller.
const deepest = 64

// foreign tells whether a process is none of the workload's, and was not there before the sweep.
func (s *sentry) foreign(p host.Process) bool {
	id := identity{p.PID, p.Started}
	switch {
	case s.own[id]:
		return false
	case s.resident[id]:
		return false
	case s.serves:
		return p.UID != s.uid
	case s.caller == 0:
		return true
	}
	for at, depth := p, 0; at.PID > 1 && depth < deepest; depth++ {
		if at.PID == s.caller {
			s.own[id], s.seen = true, true
			return false
		}
		above, err := s.host.Process(at.Parent)
		if err != nil {
			break
		}
		at = above
	}
	return true
}

// stranger is a process of somebody else's on a board.
type stranger struct {
	board string
	host.Process
}

func (s stranger) String() string {
	return fmt.Sprintf("pid %d (%s) of uid %d on gpu/%s", s.PID, s.Name, s.UID, s.board)
}

// strangers lists who else is on the boards now.
func (s *sentry) strangers(ctx context.Context) []stranger {
	var all []stranger
	for _, g := range s.host.GPUs.All() {
		for _, p := range s.on(ctx, g) {
			if s.foreign(p) {
				all = append(all, stranger{g.Info().UUID, p})
			}
		}
	}
	return all
}

// settled watches what the boards draw while a state settles and the workload does not run, and tells of somebody's load.
func (s *sentry) settled(ctx context.Context, over time.Duration) (void, error) {
	// What the counters say first is of the workload's end, or of before it.
	if err := sleep(ctx, over/2); err != nil {
		return void{}, err
	}
	boards := s.host.GPUs.All()
	type mark struct {
		energy unit.Energy
		at     time.Time
		err    error
	}
	from := make([]mark, len(boards))
	for i, g := range boards {
		from[i].energy, from[i].at, from[i].err = g.Energy(ctx)
	}
	if err := sleep(ctx, over-over/2); err != nil {
		return void{}, err
	}
	s.settles++
	var found void
	for i, g := range boards {
		e, at, err := g.Energy(ctx)
		if err != nil || from[i].err != nil || e < from[i].energy || !at.After(from[i].at) {
			continue // a board without a counter: its power sensor may still tell of the workload's end
		}
		if v := s.drawn(ctx, g, (e - from[i].energy).Per(at.Sub(from[i].at))); !found.is() {
			found = v
		}
	}
	return found, nil
}

// restLeast and restShare are how much more a board may draw while the workload does not run than at the quietest such moment
// in the sweep: the share is of its highest cap. Boards keep their clocks up for seconds after work, and do not always do so
// for equally long.
const (
	restLeast = 25 * unit.Watt
	restShare = 0.3
)

// drawn judges what a board drew at rest. Before the first window it has not worked, and its clocks are lower than they will
// be again.
func (s *sentry) drawn(ctx context.Context, g *host.GPU, p unit.Power) void {
	if s.settles < 2 {
		return void{}
	}
	uuid := g.Info().UUID
	least, known := s.rest[uuid]
	if !known || p < least {
		s.rest[uuid] = p
	}
	slack := restLeast
	if _, hi, err := g.LimitRange(); err == nil {
		slack = max(slack, unit.FromWatts(restShare*hi.Watts()))
	}
	if !known || p <= least+slack {
		return void{}
	}
	var there []string
	for _, q := range s.on(ctx, g) {
		if !s.own[identity{q.PID, q.Started}] {
			there = append(there, fmt.Sprintf("pid %d (%s) of uid %d", q.PID, q.Name, q.UID))
		}
	}
	who := ""
	if len(there) > 0 {
		who = "; on it: " + strings.Join(there, ", ")
	}
	return voided(VoidLoad, "somebody else's load on gpu/%s: %.0f W while the workload did not run, %.0f W at its quietest%s",
		uuid, p.Watts(), least.Watts(), who)
}

// blind names the devices, of those that windows sum, that do not tell whether heat slows them down.
func (s *sentry) blind(ctx context.Context, devices []string) []string {
	tells := map[string]bool{}
	for _, g := range s.host.GPUs.All() {
		t, err := g.Throttling(ctx)
		tells["gpu/"+g.Info().UUID] = err == nil && (t.NowErr == nil || t.SpentErr == nil)
	}
	_, err := s.host.CPUHeat()
	var all []string
	for _, d := range devices {
		kind, _, _ := strings.Cut(d, "/")
		switch {
		case kind == "gpu" && !tells[d]:
			all = append(all, d)
		case kind == "cpu" && err != nil && !slices.Contains(all, "cpu"):
			all = append(all, "cpu")
		}
	}
	return all
}
