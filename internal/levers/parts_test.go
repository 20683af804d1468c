package levers

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// What a machine may have beside its policies and its board.
const (
	epp0     = "epp/policy0"
	package0 = "rapl/package-0"
	twin0    = "rapl-mmio/package-0"
	card0    = "amdgpu/0000:03:00.0"

	zoneFile = "sys/class/powercap/intel-rapl:0/constraint_1_power_limit_uw"
	cardDir  = "sys/devices/pci0000:00/0000:03:00.0"
	capFile  = cardDir + "/hwmon/hwmon5/power1_cap"
)

// addEPP makes a policy one of an active-mode pstate driver, as the kernel behaves: see pstate.
func (m *machine) addEPP(i int, now string) {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/", i)
	m.addPolicy(i, "powersave", "performance powersave")
	m.put(dir+"energy_performance_preference", now+"\n")
	m.put(dir+"energy_performance_available_preferences", "default performance balance_performance balance_power power\n")
	if m.saved == nil {
		m.saved = map[string]string{}
	}
}

func eppFile(policy int) string {
	return strings.Replace(governorFile(policy), "scaling_governor", "energy_performance_preference", 1)
}

// pstate is the driver's side of a write: under the governor performance the preference reads as that and takes no write;
// when the governor goes, most kernels bring back what it was, and some forget.
func (m *machine) pstate(file, text string) error {
	dir, base := path.Split(file)
	preference := dir + "energy_performance_preference"
	if _, err := os.Stat(filepath.Join(m.root, preference)); err != nil {
		return nil //nolint:nilerr // a policy of another driver
	}
	before := strings.TrimSpace(m.text(dir + "scaling_governor"))
	switch {
	case base == "energy_performance_preference" && before == "performance":
		return unix.EBUSY
	case base != "scaling_governor" || before == text:
	case text == "performance":
		m.saved[preference] = m.text(preference)
		m.put(preference, "performance\n")
	case before == "performance" && !m.forgets && m.saved[preference] != "":
		m.put(preference, m.saved[preference])
	}
	return nil
}

// preference is what someone who looks at a policy sees.
func (m *machine) preference(policy int) string { return strings.TrimSpace(m.text(eppFile(policy))) }

// someoneSets is someone else writing a file of the machine, as the kernel takes it.
func (m *machine) someoneSets(file, text string) {
	m.t.Helper()
	if err := m.pstate(file, text); err != nil {
		m.t.Fatalf("%s: %v", file, err)
	}
	m.put(file, text+"\n")
}

// addZone adds a powercap zone with a long-term limit, which is not its first constraint.
func (m *machine) addZone(zone, name, limit, maximum string) {
	dir := "sys/class/powercap/" + zone + "/"
	for file, text := range map[string]string{
		"name": name, "enabled": "1", "energy_uj": "1",
		"constraint_0_name": "short_term", "constraint_0_power_limit_uw": "99000000", "constraint_0_max_power_uw": "0",
		"constraint_1_name": "long_term", "constraint_1_power_limit_uw": limit, "constraint_1_max_power_uw": maximum,
	} {
		if text != "" {
			m.put(dir+file, text+"\n")
		}
	}
}

// addCard adds an AMD card: a display controller with a sensor directory.
func (m *machine) addCard(now, lo, hi string) {
	for file, text := range map[string]string{
		"hwmon/hwmon5/name": "amdgpu", "hwmon/hwmon5/power1_cap": now, "hwmon/hwmon5/power1_cap_min": lo,
		"hwmon/hwmon5/power1_cap_max": hi, "power/runtime_status": "active", "power/control": "auto",
	} {
		if text != "" {
			m.put(cardDir+"/"+file, text+"\n")
		}
	}
	m.link("sys/class/drm/card0/device", "../../../devices/pci0000:00/0000:03:00.0")
	m.link("sys/bus/pci/devices/0000:03:00.0", "../../../devices/pci0000:00/0000:03:00.0")
	m.put("sys/class/drm/card0-DP-1/status", "connected\n")
}

func (m *machine) link(name, target string) {
	m.t.Helper()
	file := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		m.t.Fatal(err)
	}
}

// sleep puts the card to sleep, or wakes it. Asleep, each access to its sensors wakes it, as older kernels do.
func (m *machine) sleep(asleep bool) {
	m.put(cardDir+"/power/runtime_status", map[bool]string{true: "suspended\n", false: "active\n"}[asleep])
}

// canonical is the name of a file with the card's links followed, so that a hook need know one name only.
func canonical(name string) string {
	for _, link := range []string{"sys/class/drm/card0/device/", "sys/bus/pci/devices/0000:03:00.0/"} {
		name = strings.Replace(name, link, cardDir+"/", 1)
	}
	return name
}

// fileRig is the rig of a lever that is one file.
func fileRig(m *machine, name, file string) *rig {
	write := func(f func(host.Access) error) {
		m.breakFiles(func(a host.Access) error {
			if a.Op == host.OpWrite && canonical(a.Name) == file {
				return f(a)
			}
			return nil
		})
	}
	dir := filepath.Dir(filepath.Join(m.root, file))
	heal := func() { m.breakFiles(nil) }
	return &rig{
		m: m, name: name, heal: heal,
		now:     func() Value { return Value(strings.TrimSpace(m.text(file))) },
		foreign: func(v Value) { m.someoneSets(file, string(v)) },
		refused: []error{unix.EACCES, unix.EROFS, unix.EINVAL},
		refuse:  func(err error) { write(func(host.Access) error { return err }) },
		ignore:  func(bool) { write(func(host.Access) error { return host.Handled }) },
		vanish: func(gone bool) {
			from, to := dir, dir+".offline"
			if !gone {
				from, to = to, from
			}
			if err := os.Rename(from, to); err != nil {
				m.t.Fatal(err)
			}
		},
		hang: func() func() {
			stuck := make(chan struct{})
			write(func(host.Access) error { <-stuck; return nil })
			return func() { heal(); close(stuck) }
		},
	}
}

// rounds lets the host round what is written to the rig's file down, to the unit of its lever or beyond it.
func (r *rig) rounds(file string, fine, coarse int64) {
	r.round = func(beyond bool) {
		grain := fine
		if beyond {
			grain = coarse
		}
		r.m.breakFiles(func(a host.Access) error {
			if a.Op != host.OpWrite || canonical(a.Name) != file {
				return nil
			}
			n, err := strconv.ParseInt(strings.TrimSpace(string(a.Data)), 10, 64)
			if err != nil {
				return unix.EINVAL
			}
			r.m.put(file, strconv.FormatInt(n-n%grain, 10)+"\n")
			return host.Handled
		})
	}
}
