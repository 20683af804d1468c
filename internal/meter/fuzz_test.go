package meter

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// FuzzZones gives the finder of zones any text that firmware and kernel may put into a tree: names, ranges and limits of a
// package, of a zone within it, and of a second package.
func FuzzZones(f *testing.F) {
	f.Add("package-0", "dram", "package-1", "262143328850\n", "65000000\n")
	f.Add("package-0-die-0", "dram", "package-0-die-1", "65532610987", "0")
	f.Add("psys", "package-0", "package-0", "0", "18446744073709551615")
	f.Add("", "core", "..", "-1", "")
	f.Add("dram", "dram", "dram", "9223372036854775807", "1e9")
	f.Fuzz(func(t *testing.T, first, inner, second, most, limit string) {
		dir := t.TempDir()
		for zone, name := range map[string]string{"intel-rapl:0": first, "intel-rapl:0:0": inner, "intel-rapl:1": second, "intel-rapl-mmio:0": first} {
			at := filepath.Join(dir, "sys", powercap, zone)
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"name": name, "max_energy_range_uj": most, "constraint_0_power_limit_uw": limit} {
				if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		zones, err := findZones(host.NewDir(dir, nil).Sub("sys"))
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]bool{}
		var devices []*device
		for _, z := range zones {
			if z.span < 0 || z.limit < raplLimit && z.role != nameless {
				t.Errorf("%s: span %d, limit %v", z.dir, z.span, z.limit)
			}
			if z.role != counts {
				continue
			}
			if counted[z.device] || !strings.HasPrefix(z.device, "cpu/") {
				t.Errorf("%s: device %q is counted twice, or is none of a CPU's", z.dir, z.device)
			}
			counted[z.device] = true
			devices = append(devices, &device{name: z.device})
		}
		for _, p := range pairDies(devices) {
			if p.a == p.b || !slices.Contains(devices, p.a) || !slices.Contains(devices, p.b) {
				t.Errorf("pair %q, %q", p.a.name, p.b.name)
			}
		}
	})
}

// FuzzCounter gives the counter's rule any readings, eight bytes each: none of them is credited more than the device can
// draw in the time, and what is credited is never taken back below that.
func FuzzCounter(f *testing.F) {
	f.Add(uint32(0), uint64(262143328911), []byte{0, 0, 0, 1, 0, 0, 0, 9, 0, 1, 0, 2, 0, 0, 0, 3})
	f.Add(uint32(1000), uint64(0), []byte{255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, watts uint32, span uint64, data []byte) {
		c := counter{span: unit.Energy(span >> 8), limit: unit.Power(watts) * unit.Watt} //nolint:gosec // it fits
		at, asleep := clock0, time.Duration(0)
		var sum unit.Energy
		bound := unit.Energy(0)
		for len(data) >= 8 {
			word := binary.BigEndian.Uint64(data)
			data = data[8:]
			dt := time.Duration(word>>54) * time.Second / 8 // up to 128 s
			at = at.Add(dt)
			r := reading{at: at, asleep: asleep, value: unit.Energy(word & (1<<50 - 1))} //nolint:gosec // it fits
			switch word >> 52 & 3 {
			case 1:
				r.value, r.err = 0, errIO
			case 2:
				asleep += time.Minute
				r.asleep = asleep
			}
			bound += c.limit.Over(dt + slack)
			v, credit := c.step(r)
			sum += credit
			if !v.credits() && credit != 0 || credit < 0 && v != recovered {
				t.Fatalf("%v credits %v", v, credit)
			}
			if sum < 0 || sum > bound {
				t.Fatalf("%v in all after %v, of at most %v", sum, at.Sub(clock0), bound)
			}
		}
	})
}

// FuzzPace gives the measurer of steps any polls: time goes on, and the counter does what it likes.
func FuzzPace(f *testing.F) {
	f.Add([]byte{1, 0, 1, 0, 1, 9, 1, 0, 1, 9, 1, 0, 1, 9, 1, 9, 1, 9})
	f.Add([]byte{0, 0, 0, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		at, value := clock0, unit.Energy(1e6)
		var polls []poll
		for ; len(data) >= 2; data = data[2:] {
			at = at.Add(time.Duration(data[0]) * time.Millisecond)
			value += unit.Energy(int8(data[1])) //nolint:gosec // a fall is wanted too
			polls = append(polls, poll{at, value})
		}
		p := paceOf(polls)
		if p.period < 0 || p.jitter < 0 || p.smallest < 0 || p.steps < 0 || p.steps > max(0, len(polls)-1) {
			t.Errorf("%+v of %d polls", p, len(polls))
		}
		if p.period > at.Sub(clock0) {
			t.Errorf("a period of %v in %v", p.period, at.Sub(clock0))
		}
	})
}
