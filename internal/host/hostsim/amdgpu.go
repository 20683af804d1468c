package hostsim

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/unit"
)

// boardFiles is where a board shows in the tree; a name is empty where it does not.
type boardFiles struct {
	control string // power/control
	status  string // power/runtime_status, of a board that can sleep
	hwmon   string // directory of an amdgpu's sensors
	busy    string // gpu_busy_percent, of an amdgpu
}

// findBoards ties the model's boards to the tree. What an amdgpu board's cap may be, the tree says.
func (f *Fixture) findBoards(names []string) error {
	f.model.GPUs = slices.Clone(f.model.GPUs)
	f.boards = make([]boardFiles, len(f.model.GPUs))
	for i := range f.model.GPUs {
		g, b := &f.model.GPUs[i], &f.boards[i]
		for _, name := range names {
			_, below, ok := strings.Cut(name, "/"+g.PCI+"/")
			switch {
			case !ok:
			case below == "power/control":
				b.control = name
			case below == "power/runtime_status" && g.SleepAfterS > 0:
				b.status = name
			case below == "gpu_busy_percent" && g.Kind == kindAMD:
				b.busy = name
			case strings.HasPrefix(below, "hwmon/") && path.Base(below) == "power1_cap" && g.Kind == kindAMD:
				b.hwmon = path.Dir(name)
			}
		}
		if g.SleepAfterS > 0 && b.status == "" {
			return fmt.Errorf("host.toml: board %s sleeps, but has no power/runtime_status", g.PCI)
		}
		if b.status != "" {
			f.counters = append(f.counters, b.status)
		}
		if g.Kind == kindAMD {
			if err := f.readCaps(g, b.hwmon); err != nil {
				return fmt.Errorf("board %s: %w", g.PCI, err)
			}
		}
	}
	return nil
}

// readCaps gives the model what an amdgpu's files say.
func (f *Fixture) readCaps(g *gpuModel, dir string) error {
	if dir == "" {
		return errors.New("hwmon/*/power1_cap: absent")
	}
	for _, v := range []struct {
		file string
		to   *float64
	}{
		{"power1_cap_min", &g.MinW}, {"power1_cap_max", &g.MaxW}, {"power1_cap_default", &g.DefaultW}, {"power1_cap", &g.FoundW},
	} {
		n, err := strconv.ParseUint(f.text(dir+"/"+v.file), 10, 32)
		if err != nil {
			return fmt.Errorf("%s: value %q is not a number of µW", v.file, f.text(dir+"/"+v.file))
		}
		*v.to = unit.Power(n).Watts()
	}
	return nil
}

// acceptCap is a write to power1_cap as amdgpu takes it: in whole watts, above the minimum and up to the maximum. Boards
// were seen to refuse the minimum itself (210 W refused, 211 W taken), and any cap while they sleep.
func (s *Sim) acceptCap(name, text string) (string, error) {
	for _, b := range s.boards {
		if b.files.hwmon == path.Dir(name) && !b.awake() {
			return "", unix.EPERM
		}
	}
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return "", unix.EINVAL
	}
	limit := func(file string) uint64 { return firstNumber(strings.Fields(s.content(path.Dir(name) + "/" + file))) }
	const watt = uint64(unit.Watt)
	if v /= watt; v <= limit("power1_cap_min")/watt || v > limit("power1_cap_max")/watt {
		return "", unix.EINVAL
	}
	return strconv.FormatUint(v*watt, 10) + "\n", nil
}

// boardText computes what a board's own file says now.
func (s *Sim) boardText(name string, now time.Duration) (string, bool) {
	for _, b := range s.boards {
		switch {
		case name == b.files.status:
			if b.awake() {
				return "active\n", true
			}
			return "suspended\n", true
		case name == b.files.busy:
			use := s.line.drawAt(b.stepAt(now)).use[1+b.index]
			return strconv.Itoa(int(math.Round(use*100))) + "\n", true
		case b.files.hwmon == path.Dir(name) && isPowerReading(name):
			return b.powerText(now), true
		case b.files.hwmon == path.Dir(name) && isEnergyReading(name):
			return strconv.FormatInt(int64(b.energy()), 10) + "\n", true
		}
	}
	return "", false
}

// isEnergyReading reports whether a file is the energy counter of a hardware monitor, in microjoules. amdgpu has none so
// far; a board of a fixture may.
func isEnergyReading(name string) bool {
	return strings.Contains(name, "/hwmon/") && path.Base(name) == "energy1_input"
}

func isPowerReading(name string) bool {
	base := path.Base(name)
	return strings.Contains(name, "/hwmon/") && (base == "power1_average" || base == "power1_input")
}
