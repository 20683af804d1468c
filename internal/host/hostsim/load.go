package hostsim

import (
	"context"
	"os"
	"strconv"
	"time"
)

// SetLoad puts a load of 0…1 on a device, "gpu0" or "cpu", from this instant until the next SetLoad for it, beside what
// other loads there are. It panics on a device the machine does not have.
func (s *Sim) SetLoad(device string, share float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.fix.device(device)
	if err != nil {
		panic(err)
	}
	now := s.now()
	for _, l := range s.line.loads {
		if l.name == "set" && l.device == d {
			l.to = min(l.to, now)
		}
	}
	if share > 0 {
		s.begin(&load{name: "set", device: d, share: share, from: now, to: never, pid: os.Getpid()})
	}
	s.stir()
}

// begin adds a load; it may have begun up to the timeline's memory ago.
func (s *Sim) begin(l *load) {
	s.line.settle(s.now())
	l.from = max(l.from, s.line.settled)
	s.line.loads = append(s.line.loads, l)
}

// stir tells all who pace themselves by a rate that it may have changed.
func (s *Sim) stir() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.refreshLoad()
}

// Rate returns the units of work a second that a device now does, all its loads together.
func (s *Sim) Rate(device string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.fix.device(device)
	if err != nil {
		panic(err)
	}
	return s.line.drawAt(s.now()).rate[d]
}

// granted returns what one load gets of its device's rate.
func (s *Sim) granted(l *load, at time.Duration) float64 {
	p := s.line.drawAt(at)
	if l.from > at || at >= l.to || p.asked[l.device] == 0 {
		return 0
	}
	return p.rate[l.device] * l.share / p.asked[l.device]
}

// Work does units of work on a device and returns when they are done: a workload in this process, on the simulation's
// time. Several share the device's rate.
func (s *Sim) Work(ctx context.Context, device string, units float64) error {
	l, err := s.hire(device)
	if err != nil {
		return err
	}
	defer s.dismiss(l)
	for {
		s.mu.Lock()
		now, changed := s.now(), s.changed
		rate := s.granted(l, now)
		s.mu.Unlock()
		// Without a rate it waits for one.
		wait := time.Duration(1<<62 - 1)
		if need := units / rate * 1e9; rate > 0 && need < float64(wait) {
			wait = time.Duration(need)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-changed:
			timer.Stop()
		}
		units -= rate * (s.now() - now).Seconds()
		if units <= 0 {
			return nil
		}
	}
}

// hire puts a full load on a device.
func (s *Sim) hire(device string) (*load, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.fix.device(device)
	if err != nil {
		return nil, err
	}
	s.serial++
	l := &load{name: "work " + strconv.Itoa(s.serial), device: d, share: 1, from: s.now(), to: never, pid: os.Getpid()}
	s.begin(l)
	s.stir()
	return l, nil
}

func (s *Sim) dismiss(l *load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.to = min(l.to, s.now())
	s.stir()
}
