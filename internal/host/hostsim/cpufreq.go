package hostsim

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// activeMode reports whether a policy's driver chooses frequencies itself: then the governors are two names for its ways
// of doing so, "powersave" is not slow, and "performance" decides the energy preference too.
func (s *Sim) activeMode(dir string) bool {
	switch s.fix.text(dir + "/scaling_driver") {
	case "intel_pstate", "amd-pstate-epp":
		return true
	}
	return false
}

// acceptPreference is a write to energy_performance_preference. Intel's driver takes raw numbers too; both drivers take
// nothing but the most performance while the governor is "performance".
func (s *Sim) acceptPreference(dir, text string) (string, error) {
	raw, err := strconv.ParseUint(text, 10, 8)
	isRaw := err == nil && s.fix.text(dir+"/scaling_driver") == "intel_pstate"
	if !isRaw && !slices.Contains(strings.Fields(s.content(dir+"/energy_performance_available_preferences")), text) {
		return "", unix.EINVAL
	}
	if isRaw && raw == 0 {
		text = "performance"
	}
	if text != "performance" && s.activeMode(dir) && strings.TrimSpace(s.content(dir+"/scaling_governor")) == "performance" {
		return "", unix.EBUSY
	}
	return text + "\n", nil
}

// impliedPreference makes a policy's energy preference follow a governor just written. Leaving "performance" does not
// bring the preference back: so amd-pstate does (gamemode issue 419). Intel's driver does bring back what it had saved;
// the simulation takes the worse of the two for both, since who copes with it copes with the other.
func (s *Sim) impliedPreference(dir string) error {
	name := dir + "/energy_performance_preference"
	old, ok := s.settings[name]
	if !ok || !s.activeMode(dir) || strings.TrimSpace(s.content(dir+"/scaling_governor")) != "performance" || old == "performance\n" {
		return nil
	}
	return s.store(name, "performance\n")
}

// SetOnline takes all CPUs of a policy, "policy3", offline or brings them back with the settings they had. Offline, the
// policy's directory stays and each of its files answers EBUSY. It panics on a policy the machine does not have.
func (s *Sim) SetOnline(policy string, online bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := path.Dir(policyRoot) + "/" + policy
	if !slices.Contains(s.fix.policies, dir) {
		panic("simulated host " + s.fix.Name() + ": no " + policy)
	}
	s.offline[dir] = !online
	const list = "sys/devices/system/cpu/online"
	if _, ok := s.fix.files[list]; ok {
		// Without the file nobody can look; the policy's answers are what counts.
		_ = replace(s.dir, filepath.Join("host", list), []byte(s.onlineCPUs()))
	}
}

// onlineCPUs is the list of CPUs as the kernel writes it, "0-2,5".
func (s *Sim) onlineCPUs() string {
	var up []int
	for _, dir := range s.fix.policies {
		if s.offline[dir] {
			continue
		}
		for _, word := range strings.Fields(s.fix.files[dir+"/related_cpus"]) {
			if n, err := strconv.Atoi(word); err == nil {
				up = append(up, n)
			}
		}
	}
	slices.Sort(up)
	var spans []string
	for i := 0; i < len(up); {
		last := i
		for last+1 < len(up) && up[last+1] == up[last]+1 {
			last++
		}
		span := strconv.Itoa(up[i])
		if last > i {
			span += "-" + strconv.Itoa(up[last])
		}
		spans, i = append(spans, span), last+1
	}
	return strings.Join(spans, ",") + "\n"
}
