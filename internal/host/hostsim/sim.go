package hostsim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Options are what a simulation may be told beside its fixture.
type Options struct {
	Seed uint64 // of all noise and phases
}

// Sim is a simulated machine. It is safe for concurrent use.
//
// It lives in a directory: host/ is its tree, sim/ what it shares with processes that put load on it, run/quner stands
// where the socket directory says, var/ is the state directory. The machine outlives the process: New on a directory
// that holds it already takes it up as it stands, settings and counters included.
type Sim struct {
	dir   string
	fix   Fixture
	start time.Time
	host  *host.Host

	mu        sync.Mutex
	line      timeline
	settings  map[string]string // file to content, as last stored
	began     map[string]string // counter files, as taken up
	shown     map[string]string // counter files, as last written
	highest   map[string]unit.Energy
	canonical map[string]string // names as accessed, to names with links resolved
	boards    []*board
	files     map[string]*loadFile
	changed   chan struct{} // closed and replaced when any rate may have changed
	serial    int
	asleep    time.Duration
	offline   map[string]bool // policies, by directory
	attached  int             // how often the vendor's library is initialised
	library   []*load         // what it holds its boards awake with
	hot       [][]stretch     // by device: when heat slowed it down
	mirrored  map[int]bool    // real processes that are shown in its /proc
	faultState
}

// New sets a machine up in dir, or takes up the one that is there, which must be the same fixture. In a synctest bubble
// it is to be called in the bubble, since the machine's time begins here.
func New(dir string, f Fixture, o Options) (*Sim, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	fresh, err := unpack(dir, f)
	if err != nil {
		return nil, err
	}
	f.zones = slices.Clone(f.zones) // where each counter began is the machine's own
	p := &parts{model: f.model, curves: f.curves, packages: len(f.packages), seed: o.Seed}
	s := &Sim{
		dir: dir, fix: f, start: time.Now(),
		line:     timeline{parts: p, sums: make([]sum, p.count())},
		settings: map[string]string{}, began: map[string]string{}, shown: map[string]string{}, highest: map[string]unit.Energy{},
		canonical: map[string]string{}, files: map[string]*loadFile{}, changed: make(chan struct{}),
		offline: map[string]bool{}, mirrored: map[int]bool{},
		faultState: faultState{touched: map[string]*touches{}},
	}
	s.hot = make([][]stretch, 1+len(f.curves))
	if err := s.takeUp(); err != nil {
		return nil, err
	}
	// A machine that is taken up may be running in another process, which then knows its load better.
	if fresh {
		s.refreshLoad()
	}
	root := filepath.Join(dir, "host")
	tree := s.hook("")
	s.host = &host.Host{
		Sys:    host.NewDir(root, tree).Sub("sys"),
		Proc:   host.NewDir(root, tree).Sub("proc"),
		Etc:    host.NewDir(root, tree).Sub("etc/quner"),
		Run:    host.NewDir(dir, s.hook("run/")),
		Var:    host.NewDir(filepath.Join(dir, "var"), s.hook("var/")),
		GPUs:   host.NewGatedGPUs(s.driver(), host.NewDir(root, tree).Sub("sys"), host.NewDir(root, tree).Sub("proc")),
		Asleep: s.slept,
	}
	return s, nil
}

// Open takes up the machine in dir.
func Open(dir string, o Options) (*Sim, error) {
	data, err := os.ReadFile(filepath.Join(dir, fixtureCopy))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrNoSimulation, err)
	}
	f, err := named(filepath.Join(dir, fixtureCopy), data)
	if err != nil {
		return nil, err
	}
	return New(dir, f, o)
}

// Host returns the machine as the daemon sees it. It is always the same one.
func (s *Sim) Host() *host.Host { return s.host }

// Dir returns the directory the machine lives in.
func (s *Sim) Dir() string { return s.dir }

// now returns the time since the beginning.
func (s *Sim) now() time.Duration { return time.Since(s.start) }

func (s *Sim) slept() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asleep
}

// Suspend lets the machine have slept for d between this instant and the one before. Nothing is drawn meanwhile, and no
// setting changes.
func (s *Sim) Suspend(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep += d
}

// Truth returns what a device has drawn since the beginning, exactly and without wraps: "gpu0", "package-0", "core",
// "dram", "psys"; parts of further packages as "package-1/dram". It panics on a device the machine does not have.
func (s *Sim) Truth(device string) unit.Energy {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.line.settle(now)
	sums := s.line.until(now)
	for i := range s.boards {
		if device == boardName(i) {
			return sums[s.line.parts.board(i)].uj
		}
	}
	for i := range s.fix.zones {
		if z := &s.fix.zones[i]; z.device == device && device != "" {
			return s.zoneEnergy(z, sums)
		}
	}
	panic(fmt.Sprintf("simulated host %s: no device %q", s.fix.Name(), device))
}

// Power returns what the whole machine draws now, noise aside: packages, their memory, boards.
func (s *Sim) Power() unit.Power {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line.parts.counted(s.line.drawAt(s.now()))
}

// State is one operating point of a board under full load, noise aside.
type State struct {
	Cap   unit.Power
	Power unit.Power // boards, packages and their memory
	Rate  float64    // units of work a second
}

// States returns what the machine would draw and do at each measured cap of a board with nothing but a full load on it
// and all other settings as they are: the truth a tuner has to find.
func (s *Sim) States(boardIndex int) []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	k := s.line.knobsAt(now)
	loads := []*load{{device: 1 + boardIndex, share: 1, to: never}}
	var states []State
	for _, c := range s.fix.curves[boardIndex] {
		k.caps = withCap(k.caps, boardIndex, c.Cap)
		p := s.line.parts.picture(k, loads, now)
		states = append(states, State{c.Cap, s.line.parts.counted(p), p.rate[1+boardIndex]})
	}
	return states
}

// counted is the power of boards, packages and memory.
func (p *parts) counted(v picture) unit.Power {
	total := 0.0
	for i, w := range v.watts {
		if p.isNoisy(i) {
			total += w
		}
	}
	return watts(total)
}

// zoneEnergy returns what a zone has counted since the beginning.
func (s *Sim) zoneEnergy(z *zone, sums []sum) unit.Energy {
	p := s.line.parts
	switch z.kind {
	case zonePackage:
		return sums[p.pkg(z.pkg)].uj
	case zoneDRAM:
		return sums[p.dram(z.pkg)].uj
	case zoneCore:
		return unit.Energy(float64(sums[p.pkg(z.pkg)].uj) * p.model.CPU.CoreShare)
	case zonePsys:
		total := sums[p.platform()].uj
		for i := range p.packages {
			total += sums[p.pkg(i)].uj + sums[p.dram(i)].uj
		}
		return total
	}
	return 0 // an uncore zone without graphics counts nothing
}
