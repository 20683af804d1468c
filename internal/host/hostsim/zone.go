package hostsim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// zone is one powercap zone: a directory with an energy counter.
type zone struct {
	file   string // its energy_uj
	device string // what Truth calls it; "" for a twin
	kind   zoneKind
	pkg    int    // of Fixture.packages
	most   uint64 // max_energy_range_uj; 0: does not wrap
	start  uint64 // the counter's value at the beginning, µJ
}

type zoneKind uint8

const (
	zonePackage zoneKind = iota
	zoneCore
	zoneUncore
	zoneDRAM
	zonePsys
)

// step is how often a RAPL counter moves.
const step = time.Millisecond

// findZones lists the powercap zones of the tree and the packages they belong to.
func (f *Fixture) findZones() error {
	var dirs []string
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		if path.Base(name) == "energy_uj" && strings.HasPrefix(name, "sys/") {
			dirs = append(dirs, path.Dir(name))
		}
	}
	for _, dir := range dirs {
		if n := f.text(dir + "/name"); strings.HasPrefix(n, "package-") && !slices.Contains(f.packages, n) {
			f.packages = append(f.packages, n)
		}
	}
	var err error
	for _, dir := range dirs {
		z, bad := f.zoneAt(dir)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", dir, bad))
			continue
		}
		f.zones = append(f.zones, z)
	}
	return err
}

func (f *Fixture) text(name string) string { return strings.TrimSpace(f.files[name]) }

func (f *Fixture) zoneAt(dir string) (zone, error) {
	z := zone{file: dir + "/energy_uj"}
	name, owner := f.text(dir+"/name"), f.text(path.Dir(dir)+"/name")
	switch {
	case strings.HasPrefix(name, "package-"):
		z.kind, owner = zonePackage, name
	case name == "core":
		z.kind = zoneCore
	case name == "uncore":
		z.kind = zoneUncore
	case name == "dram":
		z.kind = zoneDRAM
	case name == "psys":
		z.kind, owner = zonePsys, ""
	default:
		return z, fmt.Errorf("name: value %q (allowed: package-…, core, uncore, dram, psys)", name)
	}
	if z.pkg = slices.Index(f.packages, owner); z.pkg < 0 && z.kind != zonePsys {
		return z, fmt.Errorf("zone %q: lies in no package", name)
	}
	z.device = name
	if z.pkg > 0 && z.kind != zonePackage {
		z.device = owner + "/" + name
	}
	if strings.Contains(dir, "intel-rapl-mmio") {
		z.device = ""
	}
	var err error
	if z.start, err = strconv.ParseUint(f.text(z.file), 10, 63); err != nil {
		return z, fmt.Errorf("energy_uj: value %q is not a number", f.text(z.file))
	}
	if most := f.text(dir + "/max_energy_range_uj"); most != "" {
		if z.most, err = strconv.ParseUint(most, 10, 62); err != nil || z.most < math.MaxUint32 {
			return z, fmt.Errorf("max_energy_range_uj: value %q (allowed: at least %d)", most, uint32(math.MaxUint32))
		}
	}
	return z, nil
}

// counter turns energy since the beginning into what energy_uj says. The hardware counts in 2³² units, of which the
// range is all but one, and the kernel multiplies.
func (z *zone) counter(since unit.Energy) uint64 {
	total := z.start + uint64(max(0, since))
	if z.most == 0 {
		return total
	}
	hi, lo := bits.Mul64(total, math.MaxUint32)
	if hi >= z.most {
		hi %= z.most
	}
	units, _ := bits.Div64(hi, lo, z.most)
	hi, lo = bits.Mul64(units&math.MaxUint32, z.most)
	value, rest := bits.Div64(hi, lo, math.MaxUint32)
	if rest > 0 {
		value++ // the smallest number whose units these are, so that a machine taken up again loses none
	}
	return value
}
