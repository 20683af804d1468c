package levers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

func TestDiscoverPackages(t *testing.T) {
	const zone = "sys/class/powercap/intel-rapl:0/"
	for name, c := range map[string]struct {
		change  func(*machine)
		levers  []string
		missing []string // "name REASON"
	}{
		"none":            {func(*machine) {}, nil, []string{"rapl ABSENT"}},
		"virtual machine": {func(m *machine) { m.put("proc/cpuinfo", "flags\t\t: fpu hypervisor\n") }, nil, []string{"rapl VM"}},
		"two packages of two dies, numbered at random, and psys": {func(m *machine) {
			m.addZone("intel-rapl:0", "psys", "90000000", "")
			for i, n := range []string{"package-1-die-1", "package-0-die-0", "package-1-die-0", "package-0-die-1"} {
				m.addZone(fmt.Sprintf("intel-rapl:%d", i+1), n, "120000000", "150000000")
			}
			m.addZone("intel-rapl:1:0", "core", "120000000", "")
		}, []string{"rapl/package-0-die-0", "rapl/package-0-die-1", "rapl/package-1-die-0", "rapl/package-1-die-1"}, nil},
		"both interfaces": {func(m *machine) {
			m.addZone("intel-rapl:0", "package-0", "65000000", "65000000")
			m.addZone("intel-rapl-mmio:0", "package-0", "45000000", "65000000")
		}, []string{package0, twin0}, nil},
		"the same name twice": {func(m *machine) {
			m.addZone("intel-rapl:0", "package-0", "65000000", "")
			m.addZone("intel-rapl:1", "package-0", "65000000", "")
		}, []string{package0}, []string{package0 + " NOT_SUPPORTED"}},
		"counters without limits, as on AMD": {func(m *machine) { m.put(zone+"name", "package-0\n") }, nil, []string{package0 + " NOT_SUPPORTED"}},
		"a name with a path in it":           {func(m *machine) { m.addZone("intel-rapl:0", "package-0/../x", "65000000", "") }, nil, []string{"rapl ABSENT"}},
		"zone that is off": {func(m *machine) {
			m.addZone("intel-rapl:0", "package-0", "65000000", "")
			m.put(zone+"enabled", "0\n")
		}, nil, []string{package0 + " NOT_SUPPORTED"}},
		"no limit set": {func(m *machine) { m.addZone("intel-rapl:0", "package-0", "0", "65000000") }, nil, []string{package0 + " NOT_SUPPORTED"}},
		"locked, seen at the maximum": {func(m *machine) {
			m.addZone("intel-rapl:0", "package-0", "65000000", "65000000")
			m.failRead(zone+"constraint_1_max_power_uw", unix.ENODATA)
		}, nil, []string{package0 + " BIOS_LOCKED"}},
		"limit cannot be read, which comes as ENODATA": {func(m *machine) {
			m.addZone("intel-rapl:0", "package-0", "65000000", "65000000")
			m.failRead(zoneFile, unix.ENODATA)
		}, nil, []string{package0 + " UNREADABLE"}},
		"absurd limit, absurd maximum": {func(m *machine) { m.addZone("intel-rapl:0", "package-0", "3400000000000000", "0") }, nil, []string{package0 + " NOT_SUPPORTED"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.change(m)
			found, missing := Discover(t.Context(), m.host)
			defer m.host.GPUs.Close()
			var names, reasons []string
			for _, l := range found {
				if l.Kind() == PackageLimit {
					names = append(names, l.Name())
				}
			}
			for _, x := range of(missing, PackageLimit) {
				reasons = append(reasons, x.Name+" "+string(x.Reason))
			}
			if !slices.Equal(names, c.levers) || !slices.Equal(reasons, c.missing) {
				t.Errorf("found %q, missing %v; want %q, %q", names, of(missing, PackageLimit), c.levers, c.missing)
			}
			if w := m.changed(); len(w) != 0 {
				t.Errorf("discovery wrote: %q", w)
			}
		})
	}
}

func TestPackageSpan(t *testing.T) {
	for name, c := range map[string]struct {
		found, maximum, minimum string
		raise                   bool
		lo, hi                  int64 // W/8
	}{
		"as usual":                        {"65000000", "65000000", "", false, 130, 520},
		"below the maximum":               {"45000000", "65000000", "", false, 90, 360},
		"below it, and may be raised":     {"45000000", "65000000", "", true, 90, 520},
		"above the stated maximum":        {"85000000", "45000000", "", false, 170, 680},
		"above it, and may be raised":     {"85000000", "45000000", "", true, 170, 680},
		"maximum of 0":                    {"65000000", "0", "", true, 130, 520},
		"maximum of 3.4 GW":               {"65000000", "3400000000000000", "", true, 130, 520},
		"no maximum":                      {"65000000", "", "", true, 130, 520},
		"limit of 3.4 GW":                 {"3400000000000000", "125000000", "", false, 250, 1000},
		"stated minimum":                  {"65000000", "65000000", "30000000", false, 240, 520},
		"minimum above what was found":    {"65000000", "65000000", "80000000", false, 130, 520},
		"a small one: never below a watt": {"2500000", "2500000", "", false, 8, 20},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.addZone("intel-rapl:0", "package-0", c.found, c.maximum)
			if c.minimum != "" {
				m.put("sys/class/powercap/intel-rapl:0/constraint_1_min_power_uw", c.minimum)
			}
			b, err := Options{AllowRaise: c.raise}.OpenBank(t.Context(), m.host, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.host.GPUs.Close()
			want := Span{Lo: c.lo * limitStep, Hi: c.hi * limitStep, Step: limitStep, Unit: "µW"}
			if got := b.lever(package0).Span(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("span %v, want %v", got, want)
			}
			m.apply(b, Setting{package0, Value(fmt.Sprint(want.Lo))})
			m.restore(m.bank())
			if got := m.text(zoneFile); got != c.found+"\n" {
				t.Errorf("restored %q", got)
			}
		})
	}
}

func TestBothInterfacesAreWrittenAndTheLowerBinds(t *testing.T) {
	m := newMachine(t)
	m.addZone("intel-rapl:0", "package-0", "65000000", "65000000")
	m.addZone("intel-rapl-mmio:0", "package-0", "45000000", "65000000")
	found, b := m.settings(), m.bank()
	m.apply(b, Setting{package0, "40000000"}, Setting{twin0, "40000000"})
	if n := b.Held(); n != 2 {
		t.Errorf("%d entries", n)
	}
	m.apply(b, Setting{package0, "40000000"}, Setting{twin0, "30000000"})
	for _, s := range b.States(t.Context()) {
		if s.Kind == PackageLimit && s.Effective != "30000000" {
			t.Errorf("%s: %q is in force, want the lower", s.Name, s.Effective)
		}
	}
	m.restore(m.bank())
	if m.settings() != found {
		t.Errorf("restored %q, was %q", m.settings(), found)
	}
}

func TestBIOSLockIsFoundOnceAndNotTriedAgain(t *testing.T) {
	m := newMachine(t)
	m.addZone("intel-rapl:0", "package-0", "65000000", "65000000")
	b := m.bank()
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && a.Name == zoneFile {
			return unix.ENODATA
		}
		return nil
	})
	p := NewPoint(Setting{package0, "40000000"}, Setting{policy0, "powersave"})
	for i := range 3 {
		_, err := b.Apply(t.Context(), p)
		if locked := errors.Is(err, unix.ENODATA); err == nil || locked != (i == 0) || i > 0 && !errors.Is(err, ErrUnknown) {
			t.Errorf("apply %d: %v", i, err)
		}
	}
	tries := slices.DeleteFunc(m.changed(), func(c string) bool { return c != "write "+zoneFile })
	if len(tries) != 1 || strings.Count(m.log.String(), "BIOS_LOCKED") != 1 {
		t.Errorf("%d writes, log:\n%s", len(tries), m.log.String())
	}
	i := slices.IndexFunc(b.Missing(), func(x Missing) bool { return x.Name == package0 && x.Reason == host.BIOSLocked })
	if i < 0 || m.governor(0) != "powersave" {
		t.Errorf("missing %v; governor %q", b.Missing(), m.governor(0))
	}
	m.restore(b)
	if b.Held() != 0 {
		t.Errorf("%d held", b.Held())
	}
}
