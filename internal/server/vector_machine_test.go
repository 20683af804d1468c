package server

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// leg is a stretch of what a counter says: from a moment on, in seconds after the window is opened, it shows raw and rises
// with watts, or cannot be read. The first leg holds before its beginning too.
type leg struct {
	from  float64
	raw   int64   // µJ
	watts float64 // what it counts, and what a power sensor beside it would say
	err   error
}

// script is the life of one counter, its legs in order.
type script []leg

// evenly is a counter at one power throughout.
func evenly(raw int64, watts float64) script { return script{{0, raw, watts, nil}} }

// leg returns the one that holds at a moment.
func (s script) leg(t time.Duration) leg {
	now := s[0]
	for _, l := range s[1:] {
		if t >= seconds(l.from) {
			now = l
		}
	}
	return now
}

// at returns what a counter says at a moment that moves in steps, the first of them phase after the window's opening: it
// shows what it was at the last one.
func (s script) at(t, step, phase time.Duration) (int64, error) {
	now := s.leg(t)
	if now.err != nil {
		return 0, now.err
	}
	moved := time.Duration(math.Floor(float64(t-phase)/float64(step)))*step + phase
	if then := s.leg(moved); then.err == nil {
		now = then
	}
	return now.raw + int64(math.Round(now.watts*(moved-seconds(now.from)).Seconds()*1e6)), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// zone is a powercap zone of a machine.
type zone struct {
	dir, name string // "intel-rapl:0:1", "dram"
	life      script
	most      uint64            // max_energy_range_uj; 0: the file is not there
	files     map[string]string // further ones
}

// card is a board of a machine. Its counter moves in steps of 100 ms.
type card struct {
	uuid   string
	most   float64 // W, the highest power cap; 0: it does not tell
	energy script
	sensor script        // its watts are what the power sensor says; nil: it has none
	phase  time.Duration // from the window's opening to a step of its counter
	hangs  float64       // seconds after the open: the driver's first call then does not come back
	asleep bool
}

// wide is the range of a counter of 32 bits with 61 µJ a unit, as on most Intel parts; narrow has 15.26 µJ a unit.
const (
	wide   = 262143328850
	narrow = 65532610987
)

// pack is a package with the usual range.
func pack(life script) zone {
	return zone{dir: "intel-rapl:0", name: "package-0", life: life, most: wide}
}

// machine is a host whose counters say what a vector wants. Everything else about it is real files in a directory.
type machine struct {
	zero   time.Time // when the window is opened
	zones  []zone
	cards  []card
	sleeps script // its raw is for how long the host has been suspended, in µs
	hung   *atomic.Bool
	freed  chan struct{}
}

// host lays the machine out in a directory.
func (m *machine) host(t testing.TB, dir string) *host.Host {
	t.Helper()
	put := func(name, text string) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/stat", "cpu  1 0 1 1000 0 0 0 0 0 0\ncpu0 1 0 1 1000 0 0 0 0 0 0\n")
	put("proc/loadavg", "0.00 0.00 0.00 1/100 4242\n")
	put("proc/uptime", "1000.00 1000.00\n")
	put("etc/quner/.keep", "")
	for _, z := range m.zones {
		at := "sys/class/powercap/" + z.dir
		put(at+"/name", z.name+"\n")
		put(at+"/energy_uj", strings.Repeat("0", digits)+"\n")
		if z.most > 0 {
			put(at+"/max_energy_range_uj", fmt.Sprintln(z.most))
		}
		for name, text := range z.files {
			put(at+"/"+name, text+"\n")
		}
	}
	for i, c := range m.cards {
		if c.asleep {
			put(fmt.Sprintf("sys/bus/pci/devices/0000:%02x:00.0/power/runtime_status", i+1), "suspended\n")
		}
	}
	m.freed, m.hung = make(chan struct{}), new(atomic.Bool)
	h := host.Real(dir, nil)
	h.Sys = host.NewDir(dir, func(a host.Access) error { return m.access(dir, a) }).Sub("sys")
	h.Asleep = func() time.Duration {
		if m.sleeps == nil {
			return 0
		}
		us, _ := m.sleeps.at(time.Since(m.zero), time.Millisecond, 0)
		return time.Duration(us) * time.Microsecond
	}
	if len(m.cards) > 0 {
		h.GPUs = host.NewGPUs(m)
	}
	return h
}

// digits is how many a counter's file always has, so that it can be written over in place while others hold it open.
const digits = 19

// access makes a counter's file say what the script does, in the moment before it is read.
func (m *machine) access(dir string, a host.Access) error {
	if path.Base(a.Name) != "energy_uj" || a.Op != host.OpRead && a.Op != host.OpOpen {
		return nil
	}
	for _, z := range m.zones {
		if path.Base(path.Dir(a.Name)) != z.dir {
			continue
		}
		uj, err := z.life.at(time.Since(m.zero), time.Millisecond, 0)
		if err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(dir, a.Name), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(fmt.Appendf(nil, "%0*d\n", digits, z.shown(uint64(uj))), 0) //nolint:gosec // scripts are not negative
		return errors.Join(err, file.Close())
	}
	return nil
}

// shown is what the kernel makes of a true energy: the hardware counts in 2³² units, of which the range is all but one.
func (z zone) shown(uj uint64) uint64 {
	if z.most == 0 {
		return uj
	}
	hi, lo := bits.Mul64(uj, math.MaxUint32)
	units, _ := bits.Div64(hi%z.most, lo, z.most)
	hi, lo = bits.Mul64(units&math.MaxUint32, z.most)
	value, rest := bits.Div64(hi, lo, math.MaxUint32)
	if rest > 0 {
		value++
	}
	return value
}

// The machine is its boards' driver too.

func (m *machine) Init() error              { return nil }
func (m *machine) Shutdown() error          { return nil }
func (m *machine) Version() (string, error) { return "550.54.15", nil }

func (m *machine) Devices() ([]host.Device, error) {
	var all []host.Device
	for i := range m.cards {
		all = append(all, &device{m: m, card: &m.cards[i], nth: i})
	}
	return all, nil
}

// device is one board as its driver shows it.
type device struct {
	m    *machine
	card *card
	nth  int
}

func (d *device) Info() (host.GPUInfo, error) {
	return host.GPUInfo{UUID: d.card.uuid, PCI: fmt.Sprintf("0000:%02x:00.0", d.nth+1), Name: "NVIDIA Vector"}, nil
}

func (d *device) Energy() (unit.Energy, error) {
	t := time.Since(d.m.zero)
	if d.card.hangs > 0 && t.Seconds() >= d.card.hangs && !d.m.hung.Swap(true) {
		<-d.m.freed
	}
	uj, err := d.card.energy.at(t, 100*time.Millisecond, d.card.phase)
	return unit.Energy(uj) / unit.Millijoule * unit.Millijoule, err
}

func (d *device) Power() (unit.Power, error) {
	if d.card.sensor == nil {
		return 0, host.ErrNotSupported
	}
	now := d.card.sensor.leg(time.Since(d.m.zero))
	return unit.FromWatts(now.watts), now.err
}

func (d *device) LimitRange() (lo, hi unit.Power, err error) {
	if d.card.most == 0 {
		return 0, 0, host.ErrNotSupported
	}
	return unit.FromWatts(d.card.most / 3), unit.FromWatts(d.card.most), nil
}

func (d *device) Utilisation() (float64, error)      { return 0, host.ErrNotSupported }
func (d *device) Limit() (unit.Power, error)         { return 0, host.ErrNotSupported }
func (d *device) EnforcedLimit() (unit.Power, error) { return 0, host.ErrNotSupported }
func (d *device) DefaultLimit() (unit.Power, error)  { return 0, host.ErrNotSupported }
func (d *device) SetLimit(unit.Power) error          { return host.ErrNotSupported }
func (d *device) Processes() (pids []int, err error) { return nil, nil }

// free lets the driver's call that hangs come back.
func (m *machine) free() {
	if m.freed != nil {
		close(m.freed)
	}
}
