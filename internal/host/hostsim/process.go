package hostsim

import (
	"bytes"
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
		_ = os.RemoveAll(filepath.Join(s.dir, dir)) // a directory that has gone has nobody to read it
	}
}

// isProcess reports whether a name of the tree is of a process that runs on the machine, and not of the fixture.
func (s *Sim) isProcess(name string) bool {
	rest, ok := strings.CutPrefix(name, "proc/")
	pid, _, _ := strings.Cut(rest, "/")
	if _, err := strconv.Atoi(pid); !ok || err != nil {
		return false
	}
	for file := range s.fix.files {
		if strings.HasPrefix(file, "proc/"+pid+"/") {
			return false
		}
	}
	return true
}

// deepest is how many generations above it a process is shown with.
const deepest = 64

// lineage is a process of the real machine and those above it, up to the first.
func lineage(pid int) []int {
	var all []int
	for pid > 1 && len(all) < deepest {
		all = append(all, pid)
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			break
		}
		// The parent is the second field after the name, which stands in parentheses and may hold any.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}
	return all
}

// showProcesses shows the real processes that put load on the machine, and those above them, in its /proc, so that one can
// tell whose they are; those that have ended are taken out, and at the end all.
func (s *Sim) showProcesses(last bool) error {
	for pid := range s.mirrored {
		if !last && !isDead(pid) {
			continue
		}
		delete(s.mirrored, pid)
		if err := os.RemoveAll(filepath.Join(s.dir, "host/proc", strconv.Itoa(pid))); err != nil {
			return err
		}
	}
	for _, f := range s.files {
		for _, pid := range f.lineage {
			if s.mirrored[pid] || last {
				continue
			}
			if err := s.mirror(pid); err != nil {
				return err
			}
		}
	}
	return nil
}

// mirror copies what the kernel says of a process. One that has ended meanwhile is left out.
func (s *Sim) mirror(pid int) error {
	n := strconv.Itoa(pid)
	for _, file := range []string{"stat", "status"} {
		data, err := os.ReadFile(filepath.Join("/proc", n, file))
		if err != nil {
			return nil //nolint:nilerr // it has ended
		}
		if err := os.MkdirAll(filepath.Join(s.dir, "host/proc", n), 0o755); err != nil {
			return err
		}
		if err := replace(s.dir, filepath.Join("host/proc", n, file), data); err != nil {
			return err
		}
		s.mirrored[pid] = true
	}
	return nil
}

// forgetProcesses takes out what another run of the machine, which was killed, has left of processes.
func (s *Sim) forgetProcesses() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "host/proc"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := filepath.Join("proc", e.Name()); s.isProcess(name) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, "host", name)))
		}
	}
	return err
}
