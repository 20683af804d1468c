package hostsim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/qunerd/quner/internal/unit"
)

// model is host.toml: the power model of a machine. Watts are at the wall side of each part's own counter.
type model struct {
	Name     string        `toml:"name"`
	Sigma    float64       `toml:"sigma"` // relative noise of power, drawn anew for each part and 100 ms
	CPU      cpuModel      `toml:"cpu"`
	DRAM     partModel     `toml:"dram"`
	Platform platformModel `toml:"platform"`
	GPUs     []gpuModel    `toml:"gpu"`
	Refusals []refusal     `toml:"refuse"` // what the kernel of this machine never does
}

// cpuModel is all packages together; they share load and power equally.
type cpuModel struct {
	IdleW       float64                  `toml:"idle_w"`      // with nothing to do
	BusyW       float64                  `toml:"busy_w"`      // added by a full load at full speed
	CoreShare   float64                  `toml:"core_share"`  // of package energy, in the core zone
	Rate        float64                  `toml:"rate"`        // units of work a second at full load and speed
	Governors   map[string]governorModel `toml:"governors"`   // each that a policy offers
	Preferences map[string]governorModel `toml:"preferences"` // energy preferences, on top of the governor
}

// governorModel is what a governor or an energy preference makes of the CPU, relative to its full speed.
type governorModel struct {
	Speed float64 `toml:"speed"`  // 0…1, of the work rate
	Power float64 `toml:"power"`  // of busy_w
	RestW float64 `toml:"rest_w"` // added to idle_w
}

type partModel struct {
	IdleW float64 `toml:"idle_w"`
	BusyW float64 `toml:"busy_w"` // added by a fully loaded CPU
}

type platformModel struct {
	W float64 `toml:"w"` // what psys counts beside packages and dram
}

// kindAMD is a board whose cap and power lie in the tree, as amdgpu has them; other boards are NVIDIA's.
const kindAMD = "amdgpu"

type gpuModel struct {
	Kind      string  `toml:"kind"` // "nvidia", which is the default, or "amdgpu"
	UUID      string  `toml:"uuid"` // NVIDIA only
	PCI       string  `toml:"pci"`
	Name      string  `toml:"name"`
	VBIOS     string  `toml:"vbios"`
	Driver    string  `toml:"driver"`     // the driver's version
	Curve     string  `toml:"curve"`      // the curve's file in the fixture
	MinW      float64 `toml:"min_w"`      // lowest cap; this and the next three are in the tree for an amdgpu
	MaxW      float64 `toml:"max_w"`      // highest cap
	DefaultW  float64 `toml:"default_w"`  // the vendor's cap
	FoundW    float64 `toml:"found_w"`    // the cap at the beginning
	IdleW     float64 `toml:"idle_w"`     // with no load
	ContextW  float64 `toml:"context_w"`  // on top of that while a process is on the board
	RateScale float64 `toml:"rate_scale"` // units of work in one unit of the curve's rate
	CPUShare  float64 `toml:"cpu_share"`  // 0…1, load a full GPU load puts on the CPU
	HostBound float64 `toml:"host_bound"` // 0…1, part of the rate that follows the CPU's speed
	EnergyMJ  int64   `toml:"energy_mj"`  // millijoules on the counter at the beginning

	NoCounter  bool    `toml:"no_counter"`   // as boards before Volta: they tell their power, not their energy
	PowerMeanS float64 `toml:"power_mean_s"` // seconds that the power told is the mean of; 0: it is of the last step

	MIG         bool    `toml:"mig"`           // it is cut into slices
	Module      bool    `toml:"module"`        // it shares a module with a CPU
	RefusesCap  bool    `toml:"refuses_cap"`   // as laptop boards do: the cap is not supported
	SleepAfterS float64 `toml:"sleep_after_s"` // seconds of doing nothing until it suspends; 0: it cannot
	AsleepW     float64 `toml:"asleep_w"`      // drawn while suspended
}

// governorNames are the kernel's.
var governorNames = [...]string{"performance", "powersave", "userspace", "ondemand", "conservative", "schedutil"} //nolint:gochecknoglobals // constant

// parseModel reads host.toml. An unknown key, a value of the wrong type or out of range is an error that names line and key.
func parseModel(data []byte) (model, error) {
	var m model
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return model{}, positioned(err)
	}
	if err := m.check(); err != nil {
		if bad := (*valueError)(nil); errors.As(err, &bad) {
			return model{}, fmt.Errorf("line %d: %w", lineOf(string(data), bad), err)
		}
		return model{}, err
	}
	return m, nil
}

// positioned gives a decoder's error the line and the key it is about.
func positioned(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		line, _ := first.Position()
		return fmt.Errorf("line %d: key %s: unknown", line, strings.Join(first.Key(), "."))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		if key := strings.Join(bad.Key(), "."); key != "" {
			return fmt.Errorf("line %d: key %s: %w", line, key, err)
		}
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// valueError is a value that has the right type and makes no sense.
type valueError struct {
	table   string // "", "cpu", "gpu"
	nth     int    // of an array of tables, from 0
	key     string
	value   any
	allowed string
}

func (e *valueError) Error() string {
	key := strings.Trim(e.table+"."+e.key, ".")
	return fmt.Sprintf("key %s: value %v (allowed: %s)", key, e.value, e.allowed)
}

// lineOf finds the line of a key; where the key is missing, that of its table; else 1.
func lineOf(text string, e *valueError) int {
	at, table, nth := 1, "", -1
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			table = strings.Trim(line, "[] ")
			if table == e.table {
				nth++
			}
		}
		here := table == e.table && (e.table == "" || nth == e.nth)
		key, _, assigns := strings.Cut(line, "=")
		switch {
		case here && assigns && strings.TrimSpace(key) == e.key:
			return i + 1
		case here && strings.HasPrefix(line, "["):
			at = i + 1
		}
	}
	return at
}

// bound is a number and what it may be.
type bound struct {
	key    string
	value  float64
	lo, hi float64
}

func within(table string, nth int, bounds ...bound) error {
	for _, b := range bounds {
		if math.IsNaN(b.value) || b.value < b.lo || b.value > b.hi {
			return &valueError{table, nth, b.key, b.value, fmt.Sprintf("%g to %g", b.lo, b.hi)}
		}
	}
	return nil
}

// maxPart is the most one part of a machine may draw, W.
const maxPart = 10_000

func (m *model) check() error {
	if m.Name == "" || strings.ContainsAny(m.Name, " /\n") {
		return &valueError{"", 0, "name", m.Name, "one word"}
	}
	// Four sigma must leave power positive.
	if err := within("", 0, bound{"sigma", m.Sigma, 0, 0.2}); err != nil {
		return err
	}
	if err := within("cpu", 0, bound{"idle_w", m.CPU.IdleW, 0, maxPart}, bound{"busy_w", m.CPU.BusyW, 0, maxPart},
		bound{"core_share", m.CPU.CoreShare, 0, 1}, bound{"rate", m.CPU.Rate, 0, 1e9}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m.CPU.Governors)) {
		table := "cpu.governors." + name
		if !slices.Contains(governorNames[:], name) {
			return &valueError{table, 0, "", name, strings.Join(governorNames[:], " ")}
		}
		if err := m.CPU.Governors[name].check(table); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.CPU.Preferences)) {
		if err := m.CPU.Preferences[name].check("cpu.preferences." + name); err != nil {
			return err
		}
	}
	if err := within("dram", 0, bound{"idle_w", m.DRAM.IdleW, 0, maxPart}, bound{"busy_w", m.DRAM.BusyW, 0, maxPart}); err != nil {
		return err
	}
	if err := within("platform", 0, bound{"w", m.Platform.W, 0, maxPart}); err != nil {
		return err
	}
	for i := range m.GPUs {
		if err := m.GPUs[i].check(i); err != nil {
			return err
		}
	}
	for i := range m.Refusals {
		if err := m.Refusals[i].check(i); err != nil {
			return err
		}
	}
	return nil
}

func (g governorModel) check(table string) error {
	return within(table, 0, bound{"speed", g.Speed, 0.01, 1}, bound{"power", g.Power, 0, 2}, bound{"rest_w", g.RestW, 0, maxPart})
}

func (g *gpuModel) check(nth int) error {
	if g.Kind != "" && g.Kind != "nvidia" && g.Kind != kindAMD {
		return &valueError{"gpu", nth, "kind", fmt.Sprintf("%q", g.Kind), "nvidia or amdgpu"}
	}
	for _, text := range []struct{ key, value, allowed string }{
		{"uuid", g.UUID, "as NVML gives it, GPU-…"}, {"pci", g.PCI, "0000:bb:dd.f"}, {"name", g.Name, "the board's name"},
		{"curve", g.Curve, "a .csv of the fixture"},
	} {
		if text.key == "uuid" && g.Kind == kindAMD {
			continue
		}
		if text.value == "" || strings.ContainsAny(text.value, "/\n") {
			return &valueError{"gpu", nth, text.key, fmt.Sprintf("%q", text.value), text.allowed}
		}
	}
	if g.Kind != kindAMD {
		if err := within("gpu", nth, bound{"min_w", g.MinW, 1, maxPart}, bound{"max_w", g.MaxW, g.MinW, maxPart},
			bound{"default_w", g.DefaultW, g.MinW, g.MaxW}, bound{"found_w", g.FoundW, g.MinW, g.MaxW}); err != nil {
			return err
		}
	}
	return within("gpu", nth, bound{"sleep_after_s", g.SleepAfterS, 0, 3600}, bound{"asleep_w", g.AsleepW, 0, maxPart},
		bound{"idle_w", g.IdleW, 0, maxPart}, bound{"context_w", g.ContextW, 0, maxPart}, bound{"rate_scale", g.RateScale, 1e-9, 1e12},
		bound{"cpu_share", g.CPUShare, 0, 1}, bound{"host_bound", g.HostBound, 0, 1},
		bound{"energy_mj", float64(g.EnergyMJ), 0, math.MaxInt64 / 4000}, bound{"power_mean_s", g.PowerMeanS, 0, memory.Seconds()})
}

func watts(w float64) unit.Power { return unit.FromWatts(w) }
