package levers

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

const (
	boardUUID = "GPU-5f0c1a2b-0000-4000-8000-000000000001"
	boardCap  = "nvml/" + boardUUID
	policy0   = "cpufreq/policy0"
	policy1   = "cpufreq/policy1"
	thisBoot  = "0a1b2c3d-1111-4222-8333-444455556666"
	otherBoot = "99999999-1111-4222-8333-444455556666"
)

// machine is a small host in a temporary directory, with two policies and one board, whose file accesses can be broken.
type machine struct {
	t     *testing.T
	root  string
	host  *host.Host
	board *board
	log   bytes.Buffer

	mu      sync.Mutex
	hook    func(host.Access) error // asked first; nil: no opinion
	changes []string                // changing accesses, "write sys/…"
	saved   map[string]string       // preferences that a pstate driver keeps meanwhile
	forgets bool                    // it does not
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), board: &board{uuid: boardUUID, limit: 300 * unit.Watt, lo: 100 * unit.Watt, hi: 350 * unit.Watt}}
	for i := range 2 {
		m.addPolicy(i, "schedutil", "conservative ondemand userspace powersave performance schedutil")
	}
	m.put("proc/sys/kernel/random/boot_id", thisBoot)
	m.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse2\n")
	m.boot()
	return m
}

// boot starts the machine's software anew: another process on the same files and boards.
func (m *machine) boot() {
	d := host.NewDir(m.root, m.access)
	m.host = &host.Host{Sys: d.Sub("sys"), Proc: d.Sub("proc"), Etc: d.Sub("etc"), Run: d.Sub("run"), Var: d.Sub("var/lib/quner")}
	m.host.GPUs = host.NewGatedGPUs(&driver{board: m.board}, m.host.Sys, m.host.Proc)
}

func (m *machine) access(a host.Access) error {
	m.mu.Lock()
	hook := m.hook
	if a.Op.Changes() {
		m.changes = append(m.changes, fmt.Sprint(a.Op, " ", a.Name))
	}
	m.mu.Unlock()
	if hook != nil {
		if err := hook(a); err != nil {
			return err
		}
	}
	if a.Op == host.OpWrite {
		return m.pstate(a.Name, strings.TrimSpace(string(a.Data)))
	}
	return nil
}

// breakFiles asks f before every access; nil ends that.
func (m *machine) breakFiles(f func(host.Access) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = f
}

// changed returns the changing accesses since the last call, caps set included.
func (m *machine) changed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Concat(m.changes, m.board.sets())
	m.changes = nil
	return all
}

func (m *machine) addPolicy(i int, now, offered string) {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/", i)
	m.put(dir+"scaling_governor", now+"\n")
	m.put(dir+"scaling_available_governors", offered+"\n")
}

func (m *machine) put(name, text string) {
	m.t.Helper()
	file := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) text(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// governor and setGovernor are someone else at the machine.
func (m *machine) governor(policy int) string {
	return strings.TrimSpace(m.text(governorFile(policy)))
}

func (m *machine) setGovernor(policy int, v string) { m.put(governorFile(policy), v+"\n") }

func governorFile(policy int) string {
	return fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/scaling_governor", policy)
}

// settings is what the machine is set to, as a text.
func (m *machine) settings() string {
	all := fmt.Sprintf("%s %s %v", m.text(governorFile(0)), m.text(governorFile(1)), m.board.cap())
	for _, file := range []string{eppFile(0), eppFile(1), zoneFile, strings.Replace(zoneFile, "rapl", "rapl-mmio", 1), capFile} {
		if data, err := os.ReadFile(filepath.Join(m.root, file)); err == nil {
			all += " " + string(data)
		}
	}
	return all
}

// bank opens the bank of a new process.
func (m *machine) bank() *Bank {
	m.t.Helper()
	b, err := m.tryBank()
	if err != nil {
		m.t.Fatalf("open bank: %v", err)
	}
	return b
}

func (m *machine) tryBank() (*Bank, error) {
	_ = m.host.GPUs.Close()
	m.boot()
	m.t.Cleanup(func() { _ = m.host.GPUs.Close() })
	return OpenBank(m.t.Context(), m.host, slog.New(slog.NewTextHandler(&m.log, nil)))
}

func (m *machine) apply(b *Bank, settings ...Setting) []Write {
	m.t.Helper()
	w, err := b.Apply(m.t.Context(), NewPoint(settings...))
	if err != nil {
		m.t.Fatalf("apply: %v", err)
	}
	return w
}

func (m *machine) restore(b *Bank) Restored {
	m.t.Helper()
	r, err := b.Restore(m.t.Context(), false)
	if err != nil {
		m.t.Fatalf("restore: %v", err)
	}
	return r
}

// stateFiles lists the state directory.
func (m *machine) stateFiles() []string {
	entries, err := os.ReadDir(filepath.Join(m.root, "var/lib/quner"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (m *machine) stored() journal {
	m.t.Helper()
	j, err := parseJournal(strings.NewReader(m.text(path.Join("var/lib/quner", journalFile))))
	if err != nil {
		m.t.Fatal(err)
	}
	return j
}

// driver is a library with one board.
type driver struct{ board *board }

func (d *driver) Init() error {
	if d.board.initHang != nil {
		<-d.board.initHang
	}
	return d.board.initErr
}
func (d *driver) Shutdown() error                 { return nil }
func (d *driver) Version() (string, error)        { return d.board.version, nil }
func (d *driver) Devices() ([]host.Device, error) { return []host.Device{d.board}, nil }

// board is an NVIDIA card that can be broken.
type board struct {
	mu         sync.Mutex
	uuid       string
	version    string
	limit      unit.Power
	lo, hi     unit.Power
	rangeErr   error
	initErr    error
	initHang   chan struct{} // Init waits for its closing
	lost       bool
	setErr     error
	grain      unit.Power // caps are rounded down to a multiple of it
	ignores    bool
	hang       chan struct{} // SetLimit waits for its closing
	limitsSeen []string
}

func (b *board) cap() unit.Power {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// with changes the board as its owner or its faults would.
func (b *board) with(f func(*board)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

func (b *board) sets() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.limitsSeen
	b.limitsSeen = nil
	return seen
}

func (b *board) Info() (host.GPUInfo, error) {
	return host.GPUInfo{UUID: b.uuid, PCI: "0000:01:00.0", Name: "NVIDIA A40"}, nil
}
func (b *board) Energy() (unit.Energy, error)               { return 0, host.ErrNotSupported }
func (b *board) Power() (unit.Power, error)                 { return 0, host.ErrNotSupported }
func (b *board) Utilisation() (float64, error)              { return 0, host.ErrNotSupported }
func (b *board) EnforcedLimit() (unit.Power, error)         { return b.Limit() }
func (b *board) DefaultLimit() (unit.Power, error)          { return b.hi, nil }
func (b *board) Processes() ([]int, error)                  { return nil, nil }
func (b *board) LimitRange() (lo, hi unit.Power, err error) { return b.lo, b.hi, b.rangeErr }

func (b *board) Limit() (unit.Power, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return 0, host.ErrLost
	}
	return b.limit, nil
}

func (b *board) SetLimit(p unit.Power) error {
	b.mu.Lock()
	b.limitsSeen = append(b.limitsSeen, "set "+p.String())
	hang := b.hang
	b.mu.Unlock()
	if hang != nil {
		<-hang
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.lost:
		return host.ErrLost
	case b.setErr != nil:
		return b.setErr
	case p < b.lo || p > b.hi:
		return host.ErrOutOfRange
	case b.ignores:
		return nil
	}
	if b.grain > 0 {
		p -= p % b.grain
	}
	b.limit = p
	return nil
}
