package hostsim

import (
	"path"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// faultState is what is broken, what was touched and when the crash comes. Guarded by Sim.mu.
type faultState struct {
	faults     []*fault
	touched    map[string]*touches
	boundaries int
	cutAt      int // 0: never
	torn       bool
	dead       bool
	watch      func(name string, changes bool)
}

// touches counts the accesses to one name; to is the name with links followed.
type touches struct {
	to            string
	reads, writes int
}

// fault makes matching accesses fail, or hang until released.
type fault struct {
	op      host.Op // of a file
	call    string  // or of a board: "set_limit"
	pattern string
	err     error
	hang    chan struct{}
}

// Touches returns how many accesses there were to files, or calls to boards ("gpu/UUID/energy"), whose name begins with
// prefix, as accessed or with links followed. What changes nothing counts as a read.
func (s *Sim) Touches(prefix string) (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.touched {
		if strings.HasPrefix(name, prefix) || strings.HasPrefix(t.to, prefix) {
			reads, writes = reads+t.reads, writes+t.writes
		}
	}
	return reads, writes
}

func (s *Sim) touch(name, to string, changes bool) {
	t := s.touched[name]
	if t == nil {
		t = &touches{to: to}
		s.touched[name] = t
	}
	if changes {
		t.writes++
	} else {
		t.reads++
	}
	if s.watch != nil {
		s.watch(name, changes)
	}
}

// OnAccess has f called before each access that Touches counts, with its name as accessed, until another f takes its place;
// nil ends it. It is called with the machine's lock held, so it must neither wait nor touch the machine.
func (s *Sim) OnAccess(f func(name string, changes bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = f
}

// Fail makes every access of kind op to a matching file fail with err, an errno most of the time, until healed. name is
// "sys/…", "proc/…", "etc/…", "run/…" or "var/…", as accessed or with links followed, or a pattern of path.Match.
func (s *Sim) Fail(op host.Op, name string, err error) (heal func()) {
	return s.broken(&fault{op: op, pattern: name, err: err})
}

// Hang makes matching accesses, as for Fail, not come back until released.
func (s *Sim) Hang(op host.Op, name string) (release func()) {
	return s.broken(&fault{op: op, pattern: name, hang: make(chan struct{})})
}

// FailGPU makes one call of a board's driver fail with err until healed: "info", "energy", "power", "utilisation",
// "limit", "enforced_limit", "limit_range", "default_limit", "set_limit", "processes", "throttling"; with an empty uuid one of the
// library's, "init", "shutdown", "version", "devices". Both may be patterns of path.Match: a board whose "*" fails is lost.
func (s *Sim) FailGPU(uuid, call string, err error) (heal func()) {
	return s.broken(&fault{call: call, pattern: "gpu/" + uuid + "/" + call, err: err})
}

// HangGPU makes one call, as for FailGPU, not come back until released; it then does what it was to do.
func (s *Sim) HangGPU(uuid, call string) (release func()) {
	return s.broken(&fault{call: call, pattern: "gpu/" + uuid + "/" + call, hang: make(chan struct{})})
}

func (s *Sim) broken(f *fault) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.faults, f)
		if i < 0 {
			return
		}
		s.faults = slices.Delete(s.faults, i, i+1)
		if f.hang != nil {
			close(f.hang)
		}
	}
}

// fault waits for, and returns, what is broken about a file access. The lock is let go while it hangs.
func (s *Sim) fault(op host.Op, names ...string) error {
	return s.strike(func(f *fault) bool { return f.call == "" && f.op == op && f.matches(names...) })
}

func (s *Sim) strike(hit func(*fault) bool) error {
	for _, f := range slices.Clone(s.faults) {
		if !hit(f) {
			continue
		}
		if f.err != nil {
			return f.err
		}
		s.mu.Unlock()
		<-f.hang
		s.mu.Lock()
		if s.dead {
			return ErrCut
		}
	}
	return nil
}

func (f *fault) matches(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		ok, err := path.Match(f.pattern, name)
		return name != "" && (name == f.pattern || err == nil && ok)
	})
}

// Boundaries returns how many changing accesses there have been: to files of any directory, and power caps set.
func (s *Sim) Boundaries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boundaries
}

// CutAt ends the process at its k-th changing access, counted from 1 as Boundaries does: that one and everything after
// it, reads too, is refused with ErrCut. With torn the k-th leaves its traces first: half the file; a setting, which is
// one system call, whole. 0 takes the cut back.
func (s *Sim) CutAt(k int, torn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAt, s.torn = k, torn
}

// Heal ends the cut: another process may take over.
func (s *Sim) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAt, s.dead = 0, false
}

// cutting counts a boundary and refuses what comes after the crash.
func (s *Sim) cutting(changes bool, tear func()) error {
	if s.dead {
		return ErrCut
	}
	if !changes {
		return nil
	}
	s.boundaries++
	if s.cutAt == 0 || s.boundaries < s.cutAt {
		return nil
	}
	s.dead = true
	s.detach(true) // the kernel closes what a dead process had open
	if s.torn {
		tear()
	}
	return ErrCut
}
