package hostsim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process of the simulated machine.
type Process struct {
	PID    int
	Parent int
	Name   string
	UID    uint32
	Device string  // a board that it has a context on, or "cpu"; empty: it does nothing
	Share  float64 // of the device that it asks for, 0…1; with 0 it only holds its context
}

// Spawn starts a process on the machine, which goes on until end is called. It panics on a device the machine does not have,
// and where the tree cannot be written.
func (s *Sim) Spawn(p Process) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	dir := filepath.Join("host/proc", strconv.Itoa(p.PID))
	err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755)
	for file, text := range map[string]string{
		"comm": p.Name + "\n",
		"stat": fmt.Sprintf("%d (%s) S %d %d %d 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n",
			p.PID, p.Name, p.Parent, p.PID, p.PID, int64(s.uptime(now)*100)),
		"status": fmt.Sprintf("Name:\t%s\nPid:\t%d\nPPid:\t%d\nUid:\t%[4]d\t%[4]d\t%[4]d\t%[4]d\n", p.Name, p.PID, p.Parent, p.UID),
	} {
		err = errors.Join(err, replace(s.dir, filepath.Join(dir, file), []byte(text)))
	}
	if err != nil {
		panic(err)
	}
	s.processes[p.PID] = p
	var l *load
	if p.Device != "" {
		d, err := s.fix.device(p.Device)
		if err != nil {
			panic(err)
		}
		l = &load{name: "process " + strconv.Itoa(p.PID), device: d, share: p.Share, from: now, to: never, pid: p.PID}
		s.begin(l)
		s.stir()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l != nil {
			s.end(l, s.now())
			s.stir()
		}
		delete(s.processes, p.PID)
		_ = os.RemoveAll(filepath.Join(s.dir, dir)) // a directory that has gone has nobody to read it
	}
}

// isProcess reports whether a name of the tree is of a process that Spawn has started.
func (s *Sim) isProcess(name string) bool {
	pid, ok := strings.CutPrefix(name, "proc/")
	pid, _, _ = strings.Cut(pid, "/")
	n, err := strconv.Atoi(pid)
	_, spawned := s.processes[n]
	return ok && err == nil && spawned
}
