package hostsim

import (
	"path"
	"path/filepath"
	"strings"
)

// SetOnBattery pulls the machine's plug or puts it back, in all that the tree says of mains and batteries. It panics on a
// machine without a battery.
func (s *Sim) SetOnBattery(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	online, status := "1\n", "Full\n"
	if on {
		online, status = "0\n", "Discharging\n"
	}
	found := false
	for name := range s.fix.files {
		if path.Base(name) != "type" || !strings.Contains(name, "/power_supply/") {
			continue
		}
		file, text := "online", online
		if s.fix.text(name) == "Battery" {
			file, text, found = "status", status, true
		}
		file = path.Join(path.Dir(name), file)
		if _, ok := s.fix.files[file]; ok {
			// A directory that has gone has nobody to read it.
			_ = replace(s.dir, filepath.Join("host", file), []byte(text))
		}
	}
	if !found {
		panic("simulated host " + s.fix.Name() + ": no battery")
	}
}
