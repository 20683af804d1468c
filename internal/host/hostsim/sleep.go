package hostsim

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// A board under runtime power management is awake while something holds it (a load, the vendor's library, power/control
// "on") and for a while after; what is not a load is a load of share 0.

// linger is how long a board stays awake with nothing to do; 0 where it cannot sleep.
func (p *parts) linger(board int) time.Duration {
	return time.Duration(p.model.GPUs[board].SleepAfterS * float64(time.Second))
}

// awakeUntil is the instant up to which a load keeps its device awake.
func (p *parts) awakeUntil(l *load) time.Duration {
	if l.device == 0 || l.to == never {
		return l.to
	}
	return l.to + p.linger(l.device-1)
}

// awake reports whether a board is up at an instant.
func (p *parts) awake(board int, loads []*load, at time.Duration) bool {
	return p.linger(board) == 0 || slices.ContainsFunc(loads, func(l *load) bool {
		return l.device == 1+board && l.from <= at && at < p.awakeUntil(l)
	})
}

func (b *board) awake() bool { return b.sim.line.parts.awake(b.index, b.sim.line.loads, b.sim.now()) }

// hold keeps a board awake from now on.
func (b *board) hold(why string) *load {
	now := b.sim.now()
	l := &load{name: why, device: 1 + b.index, from: now, to: never}
	b.sim.begin(l)
	return l
}

// rouse wakes a sleeping board, on account of who called.
func (b *board) rouse() {
	if !b.awake() {
		b.wakes++
	}
}

// glance is an access that keeps the board awake for a while.
func (b *board) glance() {
	if b.sim.line.parts.linger(b.index) == 0 {
		return
	}
	b.rouse()
	now := b.sim.now()
	if b.glanced == nil || b.sim.line.parts.awakeUntil(b.glanced) <= now {
		b.glanced = b.hold("glance")
	}
	b.glanced.to = now
}

// ruled follows power/control.
func (b *board) ruled() {
	on := strings.TrimSpace(b.sim.settings[b.files.control]) == "on"
	switch {
	case on && b.control == nil:
		b.control = b.hold("power/control")
	case !on && b.control != nil:
		b.sim.end(b.control, b.sim.now())
		b.control = nil
	}
}

// attach is the vendor's library being initialised: it opens all its boards, which wakes them and keeps them up.
func (s *Sim) attach() {
	s.attached++
	if s.attached > 1 {
		return
	}
	for _, b := range s.boards {
		if b.isNVIDIA() && s.line.parts.linger(b.index) > 0 {
			b.rouse()
			s.library = append(s.library, b.hold("library"))
		}
	}
}

// detach is the library being shut down, or its process ending: all is how often.
func (s *Sim) detach(all bool) {
	s.attached--
	if all || s.attached < 0 {
		s.attached = 0
	}
	if s.attached > 0 {
		return
	}
	for _, l := range s.library {
		s.end(l, s.now())
	}
	s.library = nil
}

// Wakes returns how often a sleeping board was woken by an access of ours, the library's initialisation or a reading, not
// by a load. uuid may also be its PCI address or "gpu0". It panics on a board the machine does not have.
func (s *Sim) Wakes(uuid string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.boards {
		if uuid == b.model.UUID || uuid == b.model.PCI || uuid == boardName(i) {
			return b.wakes
		}
	}
	panic(fmt.Sprintf("simulated host %s: no board %q", s.fix.Name(), uuid))
}

// peek is an access to a file that the board has to be up for: all that amdgpu measures and sets.
func (s *Sim) peek(op host.Op, name string) {
	if op != host.OpRead {
		return
	}
	for _, b := range s.boards {
		if b.files.hwmon == "" {
			continue
		}
		sensor := strings.HasPrefix(path.Base(name), "power1_") || isEnergyReading(name)
		if path.Dir(name) == b.files.hwmon && sensor || name == b.files.busy {
			b.glance()
		}
	}
}
