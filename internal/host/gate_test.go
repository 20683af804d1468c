package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/qunerd/quner/internal/host"
)

// bus is a PCI bus in a temporary directory, whose files can be broken and whose readings are counted.
type bus struct {
	t     *testing.T
	root  string
	reads int
	fail  string // a file that cannot be read
}

func newBus(t *testing.T) *bus { return &bus{t: t, root: t.TempDir()} }

func (b *bus) dir() host.Dir {
	return host.NewDir(b.root, func(a host.Access) error {
		if a.Op.Changes() {
			b.t.Errorf("the gate makes a change: %v %s", a.Op, a.Name)
		}
		if a.Op == host.OpRead {
			b.reads++
			if a.Name == b.fail {
				return os.ErrPermission
			}
		}
		return nil
	})
}

func (b *bus) put(name, text string) {
	b.t.Helper()
	file := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

const pciDir = "sys/bus/pci/devices/"

// board puts a display controller on the bus.
func (b *bus) board(address, vendor, control, status string) {
	b.put(pciDir+address+"/vendor", vendor)
	b.put(pciDir+address+"/class", "0x030200")
	if control != "" {
		b.put(pciDir+address+"/power/control", control)
		b.put(pciDir+address+"/power/runtime_status", status)
	}
}

func (b *bus) gpus(l *library) *host.GPUs {
	return host.NewGatedGPUs(l, b.dir().Sub("sys"), b.dir().Sub("proc"))
}

func TestGate(t *testing.T) {
	const nvidia, first, second = "0x10de", "0000:01:00.0", "0000:02:00.0"
	d3 := func(b *bus, address, status string) {
		b.put("proc/driver/nvidia/gpus/"+address+"/power", "Runtime D3 status:          "+status+"\nVideo Memory:               Active")
	}
	driver := func(b *bus, name string) {
		if err := os.Symlink("../../../bus/pci/drivers/"+name, filepath.Join(b.root, pciDir+first, "driver")); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		bus     func(*bus)
		asleep  []string // what keeps the library shut
		waiting int
	}{
		"no bus":                       {bus: func(*bus) {}},
		"awake":                        {bus: func(b *bus) { b.board(first, nvidia, "auto", "active") }},
		"cannot sleep":                 {bus: func(b *bus) { b.board(first, nvidia, "on", "suspended") }},
		"no run-time power management": {bus: func(b *bus) { b.board(first, nvidia, "", "") }},
		"not supported by the device":  {bus: func(b *bus) { b.board(first, nvidia, "auto", "unsupported") }},
		"driver never suspends": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "suspended")
			d3(b, first, "Disabled by default")
		}},
		"driver cannot suspend": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "suspended")
			d3(b, first, "Not supported")
		}},
		"asleep": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "suspended")
			d3(b, first, "Enabled (fine-grained)")
		}, asleep: []string{first}, waiting: 1},
		"asleep with no driver": {bus: func(b *bus) { b.board(first, nvidia, "auto", "suspended") }, asleep: []string{first}, waiting: 1},
		"falling asleep":        {bus: func(b *bus) { b.board(first, nvidia, "auto", "suspending") }, asleep: []string{first}, waiting: 1},
		"waking for another":    {bus: func(b *bus) { b.board(first, nvidia, "auto", "resuming") }, asleep: []string{first}, waiting: 1},
		"one of two asleep": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "active")
			b.board(second, nvidia, "auto", "suspended")
		}, asleep: []string{second}, waiting: 2},
		"status cannot be read": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "active")
			b.fail = pciDir + first + "/power/runtime_status"
		}, asleep: []string{first}, waiting: 1},
		"another vendor's board": {bus: func(b *bus) { b.board(first, "0x1002", "auto", "suspended") }},
		"the sound of a board": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "suspended")
			b.put(pciDir+first+"/class", "0x040300")
		}},
		"handed to a virtual machine": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "suspended")
			driver(b, "vfio-pci")
		}},
		"asleep under the vendor's driver": {bus: func(b *bus) {
			b.board(first, nvidia, "auto", "suspended")
			driver(b, "nvidia")
		}, asleep: []string{first}, waiting: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t)
			c.bus(b)
			l := &library{boards: []*board{{uuid: "GPU-1"}}}
			gpus := b.gpus(l)
			defer gpus.Close()
			if err := gpus.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			var asleep []string
			for _, w := range gpus.Waiting() {
				if w.Asleep {
					asleep = append(asleep, w.PCI)
				}
			}
			shut := len(c.asleep) > 0
			if !slices.Equal(asleep, c.asleep) || len(gpus.Waiting()) != c.waiting {
				t.Errorf("waiting for %v of %v, want %v of %d", asleep, gpus.Waiting(), c.asleep, c.waiting)
			}
			if shut != (len(gpus.All()) == 0) || shut != errors.Is(gpus.Why(), host.ErrSuspended) || shut == (l.open > 0) {
				t.Errorf("%d boards, why %v, library opened %d times", len(gpus.All()), gpus.Why(), l.open)
			}
			if gpus.Wakes() != 0 {
				t.Errorf("%d wakes", gpus.Wakes())
			}
		})
	}
}

func TestGateOpensWhenNoBoardSleepsAnyLonger(t *testing.T) {
	b := newBus(t)
	for i := range 100 {
		b.put(fmt.Sprintf("%s0000:00:%02x.0/vendor", pciDir, i), "0x8086")
	}
	b.board("0000:01:00.0", "0x10de", "auto", "suspended")
	l := &library{boards: []*board{{uuid: "GPU-1"}}}
	gpus := b.gpus(l)
	defer gpus.Close()
	if opened, err := gpus.Retry(t.Context()); opened || err != nil || l.open != 0 {
		t.Fatalf("a retry of what was never tried: %v, %v", opened, err)
	}
	for range 3 {
		if err := gpus.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.reads = 0
		if opened, err := gpus.Retry(t.Context()); opened || err != nil {
			t.Fatalf("opened %v, %v", opened, err)
		}
		if b.reads > 4 {
			t.Errorf("a retry reads %d files", b.reads)
		}
	}
	b.put(pciDir+"0000:01:00.0/power/runtime_status", "active")
	opened, err := gpus.Retry(t.Context())
	if !opened || err != nil || gpus.Waiting() != nil || gpus.Why() != nil || len(gpus.All()) != 1 {
		t.Errorf("awake: opened %v, %v; waiting %v, why %v", opened, err, gpus.Waiting(), gpus.Why())
	}
	if opened, _ := gpus.Retry(t.Context()); opened || l.open != 1 {
		t.Errorf("opened again: %v, %d times", opened, l.open)
	}
}

func TestWakeIsCounted(t *testing.T) {
	b := newBus(t)
	b.board("0000:01:00.0", "0x10de", "auto", "suspended")
	b.board("0000:02:00.0", "0x10de", "auto", "active")
	gpus := b.gpus(&library{boards: []*board{{uuid: "GPU-1"}, {uuid: "GPU-2"}}})
	defer gpus.Close()
	if err := gpus.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it open
		if err := gpus.Wake(t.Context()); err != nil || len(gpus.All()) != 2 || gpus.Waiting() != nil {
			t.Fatalf("%v; %d boards, waiting %v", err, len(gpus.All()), gpus.Waiting())
		}
	}
	if n := gpus.Wakes(); n != 1 {
		t.Errorf("%d wakes, want that of the board that slept", n)
	}
}
