package hostsim

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// attribute is how the kernel takes what is written to a file of the tree.
type attribute uint8

const (
	fixed attribute = iota // not writable
	governor
	energyPreference
	frequency
	powerLimit
	plainNumber
	onOff     // "0" or "1"
	sleepRule // power/control: "on" or "auto"
	boardCap  // an amdgpu's power1_cap
)

// attributeOf tells by a file's canonical name.
func attributeOf(name string) attribute {
	base := path.Base(name)
	switch {
	case strings.HasPrefix(name, policyRoot):
		switch base {
		case "scaling_governor":
			return governor
		case "energy_performance_preference":
			return energyPreference
		case "scaling_min_freq", "scaling_max_freq":
			return frequency
		}
	case strings.Contains(name, "/powercap/"):
		switch {
		case strings.HasSuffix(base, "_power_limit_uw"):
			return powerLimit
		case strings.HasSuffix(base, "_time_window_us"):
			return plainNumber
		case base == "enabled":
			return onOff
		}
	case strings.HasSuffix(name, "/power/control"):
		return sleepRule
	case base == "power1_cap" && strings.Contains(name, "/hwmon/"):
		return boardCap
	}
	return fixed
}

// limitStep is the unit of the hardware's power limit register.
const limitStep = unit.Watt / 8

// accept returns what a file holds after data was written to it, or the errno the kernel gives.
func (s *Sim) accept(name string, data []byte) (string, error) {
	if err := s.refused(host.OpWrite, name); err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	beside := func(file string) []string { return strings.Fields(s.content(path.Join(path.Dir(name), file))) }
	oneOf := func(choices ...string) (string, error) {
		if !slices.Contains(choices, text) {
			return "", unix.EINVAL
		}
		return text + "\n", nil
	}
	switch attributeOf(name) {
	case governor:
		return oneOf(beside("scaling_available_governors")...)
	case energyPreference:
		return s.acceptPreference(path.Dir(name), text)
	case onOff:
		return oneOf("0", "1")
	case sleepRule:
		return oneOf("on", "auto")
	case boardCap:
		return s.acceptCap(name, text)
	case frequency:
		return number(text, func(v uint64) uint64 {
			return min(max(v, firstNumber(beside("cpuinfo_min_freq"))), firstNumber(beside("cpuinfo_max_freq")))
		})
	case powerLimit:
		return number(text, func(v uint64) uint64 { return v - v%uint64(limitStep) })
	case plainNumber:
		return number(text, func(v uint64) uint64 { return v })
	}
	return "", unix.EACCES
}

func number(text string, taken func(uint64) uint64) (string, error) {
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return "", unix.EINVAL
	}
	return strconv.FormatUint(taken(v), 10) + "\n", nil
}

func firstNumber(fields []string) uint64 {
	if len(fields) == 0 {
		return 0
	}
	v, err := strconv.ParseUint(fields[0], 10, 63)
	if err != nil {
		return 0
	}
	return v
}

// content returns what a file holds that changes by writes alone.
func (s *Sim) content(name string) string {
	if text, ok := s.settings[name]; ok {
		return text
	}
	return s.fix.files[name]
}

// put stores what was written to a setting: in the tree, and in the power model from this instant on.
func (s *Sim) put(name string, data []byte) error {
	text, err := s.accept(name, data)
	if err != nil {
		return err
	}
	if err := s.store(name, text); err != nil {
		return err
	}
	if attributeOf(name) == governor {
		if err := s.impliedPreference(path.Dir(name)); err != nil {
			return err
		}
	}
	s.turn(s.withSettings(s.line.knobsAt(s.now())))
	for _, b := range s.boards {
		if name == b.files.control {
			b.ruled()
		}
	}
	return nil
}

// store keeps what a setting now says, in the tree too.
func (s *Sim) store(name, text string) error {
	if err := replace(s.dir, filepath.Join("host", name), []byte(text)); err != nil {
		return err
	}
	s.settings[name] = text
	return nil
}

// turn puts knobs in force now.
func (s *Sim) turn(k knobs) {
	now := s.now()
	s.line.settle(now)
	s.line.changes = append(s.line.changes, change{now, k})
	s.stir()
}

// withSettings returns k with what the tree's settings say.
func (s *Sim) withSettings(k knobs) knobs {
	k.governors, k.preferences = nil, nil
	for _, dir := range s.fix.policies {
		k.governors = append(k.governors, strings.TrimSpace(s.settings[dir+"/scaling_governor"]))
		k.preferences = append(k.preferences, strings.TrimSpace(s.settings[dir+"/energy_performance_preference"]))
	}
	for i, b := range s.fix.boards {
		if b.hwmon != "" {
			k.caps = withCap(k.caps, i, unit.Power(firstNumber(strings.Fields(s.settings[b.hwmon+"/power1_cap"]))))
		}
	}
	k.limits = make([]unit.Power, len(s.fix.packages))
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		prefix, ok := strings.CutSuffix(name, "_power_limit_uw")
		if !ok || strings.TrimSpace(s.content(prefix+"_name")) != "long_term" {
			continue
		}
		i := slices.Index(s.fix.packages, s.fix.text(path.Dir(name)+"/name"))
		v := unit.Power(firstNumber(strings.Fields(s.settings[name])))
		// The MSR and the MMIO register both bind: the lower one does. 0 is unset.
		if i >= 0 && v > 0 && (k.limits[i] == 0 || v < k.limits[i]) {
			k.limits[i] = v
		}
	}
	return k
}

func withCap(caps []unit.Power, i int, p unit.Power) []unit.Power {
	caps = slices.Clone(caps)
	caps[i] = p
	return caps
}

// Foreign lets somebody else write a setting, as the kernel would take it: no access of the daemon's, so it is neither
// counted nor stopped. name is that of a file in the tree ("sys/…"), or "gpu0/limit_mw" of an NVIDIA board.
func (s *Sim) Foreign(name, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.boards {
		if name == boardName(i)+"/limit_mw" && b.hasLimit() {
			mw, err := strconv.ParseInt(value, 10, 48)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return b.setLimit(unit.Power(mw) * unit.Milliwatt)
		}
	}
	name = s.resolve(name)
	if err := s.put(name, []byte(value)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
