package hostsim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// driver is the vendor's library of a machine with boards.
type driver struct{ sim *Sim }

func (s *Sim) driver() host.Driver {
	if !slices.ContainsFunc(s.boards, (*board).isNVIDIA) {
		return nil
	}
	return driver{s}
}

func (d driver) Init() error     { return d.sim.call("init", d.sim.attach) }
func (d driver) Shutdown() error { return d.sim.call("shutdown", func() { d.sim.detach(false) }) }

func (d driver) Version() (version string, err error) {
	i := slices.IndexFunc(d.sim.boards, (*board).isNVIDIA)
	err = d.sim.call("version", func() { version = d.sim.boards[i].model.Driver })
	return version, err
}

func (d driver) Devices() ([]host.Device, error) {
	var all []host.Device
	err := d.sim.call("devices", func() {
		for _, b := range d.sim.boards {
			if b.isNVIDIA() {
				all = append(all, b)
			}
		}
	})
	return all, err
}

// board is one simulated GPU. Its caps live in the timeline; found and base are what the machine was taken up with.
type board struct {
	sim   *Sim
	index int
	model *gpuModel
	files boardFiles
	found unit.Power
	base  unit.Energy
	phase time.Duration // of the counter's steps

	control *load // while power/control is "on"
	glanced *load // the last access that kept it awake
	wakes   int
	says    []*untruth // of its power sensor
}

func (b *board) isNVIDIA() bool { return b.model.Kind != kindAMD }

// hasLimit reports whether the vendor's library sets the board's cap.
func (b *board) hasLimit() bool { return b.isNVIDIA() && !b.model.RefusesCap }

func boardName(i int) string { return "gpu" + strconv.Itoa(i) }

// newBoard takes a board up: at the fixture's values, or where its state file says it stood.
func (s *Sim) newBoard(i int) (*board, error) {
	g := &s.fix.model.GPUs[i]
	b := &board{sim: s, index: i, model: g, files: s.fix.boards[i], found: watts(g.FoundW), base: unit.Energy(g.EnergyMJ) * unit.Millijoule}
	b.phase = time.Duration(mix(s.line.parts.seed^mix(uint64(i)))%uint64(cell/time.Millisecond)) * time.Millisecond
	if !b.isNVIDIA() { // all its state is in the tree
		if text, ok := s.began[path.Join(b.files.hwmon, "energy1_input")]; ok {
			b.base = unit.Energy(firstNumber(strings.Fields(text)))
		}
		return b, nil
	}
	text, err := os.ReadFile(filepath.Join(s.dir, b.stateFile()))
	if errors.Is(err, fs.ErrNotExist) {
		return b, b.save(b.found)
	}
	if err != nil {
		return nil, err
	}
	var mw, mj int64
	if _, err := fmt.Sscanf(string(text), boardState, &mw, &mj); err != nil {
		return nil, fmt.Errorf("%s: %w", b.stateFile(), err)
	}
	b.found, b.base = unit.Power(mw)*unit.Milliwatt, unit.Energy(mj)*unit.Millijoule
	return b, nil
}

// boardState is the content of a board's state file.
const boardState = "limit_mw %d\nenergy_mj %d\n"

func (b *board) stateFile() string { return "sim/" + boardName(b.index) }

func (b *board) save(limit unit.Power) error {
	if !b.isNVIDIA() {
		return nil
	}
	text := fmt.Sprintf(boardState, limit/unit.Milliwatt, b.energy()/unit.Millijoule)
	return replace(b.sim.dir, b.stateFile(), []byte(text))
}

// call makes a call of the driver's that is about no board; f is what it does if it comes about.
func (s *Sim) call(name string, f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.enter("", name, false, nil)
	if err == nil {
		f()
	}
	return err
}

// enter counts a driver call and decides whether it comes about.
func (s *Sim) enter(uuid, call string, changes bool, tear func()) error {
	name := "gpu/" + uuid + "/" + call
	s.touch(name, name, changes)
	if err := s.cutting(changes, tear); err != nil {
		return err
	}
	return s.strike(func(f *fault) bool { return f.call != "" && f.matches(name) })
}

// ask makes one reading call of a board.
func ask[T any](b *board, call string, f func() T) (T, error) {
	b.sim.mu.Lock()
	defer b.sim.mu.Unlock()
	var v T
	err := b.sim.enter(b.model.UUID, call, false, nil)
	if err == nil {
		v = f()
	}
	return v, err
}

func (b *board) Info() (host.GPUInfo, error) {
	return ask(b, "info", func() host.GPUInfo {
		return host.GPUInfo{
			UUID: b.model.UUID, PCI: b.model.PCI, Name: b.model.Name, VBIOS: b.model.VBIOS, MIG: b.model.MIG, Module: b.model.Module,
		}
	})
}

// stepAt returns the instant at which the board last updated its figures.
func (b *board) stepAt(now time.Duration) time.Duration {
	if now < b.phase {
		return 0
	}
	return now - (now-b.phase)%cell
}

func (b *board) Energy() (unit.Energy, error) {
	e, err := ask(b, "energy", b.energy)
	if err == nil && b.model.NoCounter {
		return 0, fmt.Errorf("energy counter: %w", host.ErrNotSupported)
	}
	return e, err
}

// energy is the counter: whole millijoules up to the last step.
func (b *board) energy() unit.Energy {
	s := b.sim
	if len(s.line.changes) == 0 {
		return b.base // being taken up
	}
	now := s.now()
	s.line.settle(now)
	sums := s.line.until(b.stepAt(now))
	e := s.rising(boardName(b.index), sums[s.line.parts.board(b.index)].uj)
	return (b.base + e) / unit.Millijoule * unit.Millijoule
}

func (b *board) Utilisation() (float64, error) {
	return ask(b, "utilisation", func() float64 {
		use := b.sim.line.drawAt(b.stepAt(b.sim.now())).use[1+b.index]
		return float64(int(use*100+0.5)) / 100 // the driver gives whole percent
	})
}

func (b *board) limit() unit.Power { return b.sim.line.knobsAt(b.sim.now()).caps[b.index] }

func (b *board) EnforcedLimit() (unit.Power, error) { return ask(b, "enforced_limit", b.limit) }

func (b *board) Limit() (unit.Power, error) { return supported(b, "limit", b.limit) }

func (b *board) DefaultLimit() (unit.Power, error) {
	return supported(b, "default_limit", func() unit.Power { return watts(b.model.DefaultW) })
}

// supported is a reading of the cap, which laptop boards do not have.
func supported[T any](b *board, call string, f func() T) (T, error) {
	v, err := ask(b, call, f)
	if err == nil && b.model.RefusesCap {
		var none T
		return none, fmt.Errorf("power cap: %w", host.ErrNotSupported)
	}
	return v, err
}

func (b *board) LimitRange() (lo, hi unit.Power, err error) {
	_, err = supported(b, "limit_range", func() bool { return true })
	if err != nil {
		return 0, 0, err
	}
	return watts(b.model.MinW), watts(b.model.MaxW), nil
}

func (b *board) SetLimit(p unit.Power) error {
	b.sim.mu.Lock()
	defer b.sim.mu.Unlock()
	tear := func() { _ = b.setLimit(p) } // one call: it happened, and nobody was told
	if err := b.sim.enter(b.model.UUID, "set_limit", true, tear); err != nil {
		return err
	}
	return b.setLimit(p)
}

func (b *board) setLimit(p unit.Power) error {
	p = p / unit.Milliwatt * unit.Milliwatt
	if b.model.RefusesCap {
		return fmt.Errorf("power cap: %w", host.ErrNotSupported)
	}
	if p < watts(b.model.MinW) || p > watts(b.model.MaxW) {
		return fmt.Errorf("power cap %v: %w", p, host.ErrOutOfRange)
	}
	if err := b.save(p); err != nil {
		return err
	}
	k := b.sim.line.knobsAt(b.sim.now())
	k.caps = withCap(k.caps, b.index, p)
	b.sim.turn(k)
	return nil
}

func (b *board) Processes() ([]int, error) {
	return ask(b, "processes", func() []int {
		var pids []int
		now := b.sim.now()
		for _, l := range b.sim.line.loads {
			if l.device == 1+b.index && l.pid > 0 && l.from <= now && now < l.to {
				pids = append(pids, l.pid)
			}
		}
		slices.Sort(pids)
		return slices.Compact(pids)
	})
}

// device returns the number of a device that takes loads: "cpu" or a board, as "gpu0" or
// by its UUID or PCI address. Boards are numbered as in host.toml, whoever made them.
func (f *Fixture) device(name string) (int, error) {
	if name == "cpu" {
		return 0, nil
	}
	names := []string{"cpu"}
	for i, g := range f.model.GPUs {
		if name == boardName(i) || name == g.PCI || g.UUID != "" && name == g.UUID {
			return 1 + i, nil
		}
		names = append(names, boardName(i))
	}
	return 0, fmt.Errorf("device %q: unknown to simulated host %s (allowed: %s)", name, f.Name(), strings.Join(names, ", "))
}

func deviceName(i int) string {
	if i == 0 {
		return "cpu"
	}
	return boardName(i - 1)
}
