package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// powercap is where the kernel lists its energy zones, flat: "intel-rapl:0:1" lies within "intel-rapl:0".
const powercap = "class/powercap"

// raplPeriod is how often RAPL counters move, about 1 ms.
const raplPeriod = time.Millisecond

// raplLimit is the least that counts as more than a package can draw: turbo runs well above PL1.
const raplLimit = unit.Kilowatt

// platformLimit is the same for a whole machine.
const platformLimit = 4 * unit.Kilowatt

// role is what a zone is to a window's sum.
type role uint8

const (
	counts    role = iota // disjoint from all other counted zones
	contained             // inside another
	whole                 // psys: contains packages
	twin                  // the same counter seen through another interface
	nameless              // does not tell what it is
)

// zone is a powercap energy zone before it is opened.
type zone struct {
	dir    string // "intel-rapl:0:1"
	device string // "cpu/package-0/dram"
	label  string
	role   role
	span   unit.Energy
	limit  unit.Power
	why    string // it is nameless
}

// findZones lists the zones with an energy counter and says what each is. Identity comes from names, never from an index.
func findZones(sys host.Dir) ([]zone, error) {
	dirs, err := sys.List(powercap)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	var zones []zone
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, "intel-rapl") || !strings.Contains(dir, ":") {
			continue
		}
		switch name, err := sys.ReadString(path.Join(powercap, dir, "name")); {
		case err != nil:
			zones = append(zones, unnamed(dir, err.Error()))
		case !isLabel(name):
			zones = append(zones, unnamed(dir, fmt.Sprintf("%s: name %q is not one of a zone", dir, name)))
		default:
			names[dir] = name
		}
	}
	for _, dir := range dirs {
		if name, ok := names[dir]; ok {
			zones = append(zones, describe(sys, dir, name, names[parentOf(dir)]))
		}
	}
	dropTwins(zones)
	return zones, nil
}

// unnamed is a zone that cannot be told from others: it is shown, and not counted.
func unnamed(dir, why string) zone {
	return zone{dir: dir, device: "cpu/@" + dir, label: "unnamed zone", role: nameless, why: why}
}

func parentOf(dir string) string {
	return dir[:strings.LastIndexByte(dir, ':')]
}

// describe names a zone by its own and its parent's name.
func describe(sys host.Dir, dir, name, parent string) zone {
	z := zone{dir: dir, device: "cpu/" + name, label: name}
	if parent != "" {
		z.device, z.label = "cpu/"+parent+"/"+name, name+" of "+parent
	}
	switch {
	case name == "psys":
		z.device, z.role = "platform/psys", whole
	case parent == "" && strings.HasPrefix(name, "package-"):
		z.label = "CPU " + name
	case name == "dram":
	default:
		z.role = contained
	}
	dirPath := path.Join(powercap, dir)
	if end, err := sys.ReadUint(path.Join(dirPath, "max_energy_range_uj")); err == nil && end <= math.MaxInt64/2 {
		z.span = spanOf(unit.Energy(end))
	}
	z.limit = limitOf(sys, dirPath)
	if z.role == whole {
		z.limit = max(z.limit, platformLimit)
	}
	return z
}

// spanOf returns how much a counter of 32 bits holds from the largest value it can show.
func spanOf(largest unit.Energy) unit.Energy {
	return largest + unit.Energy(math.Round(float64(largest)/(1<<32-1)))
}

// grainOf returns the unit of a counter of 32 bits.
func grainOf(span unit.Energy) unit.Energy { return max(1, span>>32) }

// limitOf returns more than a zone can draw: 1.5 times the largest of its limits, and never less than raplLimit.
func limitOf(sys host.Dir, dir string) unit.Power {
	largest := unit.Power(0)
	for i := range 8 {
		for _, file := range []string{"max_power_uw", "power_limit_uw"} {
			uw, err := sys.ReadUint(path.Join(dir, fmt.Sprintf("constraint_%d_%s", i, file)))
			if err == nil && uw < uint64(unit.Kilowatt*1000) {
				largest = max(largest, unit.Power(uw))
			}
		}
	}
	return max(raplLimit, largest+largest/2)
}

// dropTwins marks all but one of the zones of one identity; the MSR interface is kept before MMIO's.
func dropTwins(zones []zone) {
	kept := map[string]int{}
	mmio := func(z zone) bool { return strings.HasPrefix(z.dir, "intel-rapl-mmio") }
	for i := range zones {
		j, seen := kept[zones[i].device]
		switch {
		case !seen:
			kept[zones[i].device] = i
		case mmio(zones[j]) && !mmio(zones[i]):
			zones[j].repeat(&zones[i])
			kept[zones[i].device] = i
		default:
			zones[i].repeat(&zones[kept[zones[i].device]])
		}
	}
}

// repeat makes z another view of the counter that is kept, under a name of its own.
func (z *zone) repeat(kept *zone) {
	z.role = twin
	z.device = kept.device + "@" + z.dir
}

// zoneCounter is the file of a zone's counter.
type zoneCounter sysFile

func (z *zoneCounter) energy(context.Context) (unit.Energy, time.Time, error) {
	file := (*sysFile)(z)
	text, at, err := file.read()
	if err != nil {
		return 0, at, err
	}
	e, err := parseMicrojoules(text)
	return e, at, file.called(err)
}

var errNotEnergy = errors.New("not a number of microjoules")

// parseMicrojoules reads the text of an energy_uj file without allocating.
func parseMicrojoules(text []byte) (unit.Energy, error) {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	if len(text) == 0 || len(text) > 19 {
		return 0, errNotEnergy
	}
	var v uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, errNotEnergy
		}
		v = v*10 + uint64(c-'0')
	}
	if v > math.MaxInt64 {
		return 0, errNotEnergy
	}
	return unit.Energy(v), nil
}

// isLabel reports whether a text is made of 1 to 64 of A-Z a-z 0-9 . _ -
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
