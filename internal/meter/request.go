package meter

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// What a window's weight may be.
const (
	MinWeight = 0.001
	MaxWeight = 1000.0
)

// MinLife is the shortest time limit of a detached window: that of a heartbeat, within which nothing is told to those who
// may not see exact CPU energy.
const MinLife = time.Second

// check says what is wrong with a request.
func (m *Meter) check(r OpenRequest) error {
	for _, l := range []struct {
		what, text string
		optional   bool
	}{{"name", r.Name, false}, {"workload", r.Workload, true}, {"unit", r.Unit, true}} {
		if !isLabel(l.text) && (l.text != "" || !l.optional) {
			return fmt.Errorf("%s %q: not [A-Za-z0-9._-]{1,64}: %w", l.what, clip(l.text), ErrBadRequest)
		}
	}
	if !(r.Weight >= MinWeight && r.Weight <= MaxWeight) {
		return fmt.Errorf("weight %g: not %g to %g: %w", r.Weight, MinWeight, MaxWeight, ErrBadRequest)
	}
	if longest, _ := m.bounds(); r.Limit != 0 && (r.Limit < MinLife || r.Limit > longest) {
		return fmt.Errorf("time limit %v: not %v to %v: %w", r.Limit, MinLife, longest, ErrBadRequest)
	}
	if !amount(r.HintJoulesPerUnit) {
		return fmt.Errorf("hint of %g joules a unit: not a number above 0: %w", r.HintJoulesPerUnit, ErrBadRequest)
	}
	if err := m.checkWatts("idle_watts", r.IdleWatts); err != nil {
		return err
	}
	return m.checkWatts("idle_watts_uncertainty", r.IdleWattsUncertainty)
}

// maxIdle is more than any one device draws at rest, in watts.
const maxIdle = 1e5

func (m *Meter) checkWatts(what string, watts map[string]float64) error {
	for key, w := range watts {
		if key != "cpu" && key != "gpu" && m.device(key) == nil {
			return fmt.Errorf("%s: %w", what, m.unknown(key))
		}
		if !amount(w) || w > maxIdle {
			return fmt.Errorf("%s of %s: %g: not a power: %w", what, key, w, ErrBadRequest)
		}
	}
	return nil
}

func amount(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

func (m *Meter) device(name string) *device {
	all := m.devices()
	i := slices.IndexFunc(all, func(d *device) bool { return d.name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// unknown is the error for a device the host does not have.
func (m *Meter) unknown(name string) error {
	have := m.Devices()
	if m.asleep() && strings.HasPrefix(name, "gpu/") {
		return fmt.Errorf("device %q: a board sleeps, and is not woken unless the window may wake it: %w", clip(name), ErrUnknownDevice)
	}
	if len(have) == 0 {
		return fmt.Errorf("device %q: this host has none: %w", clip(name), ErrUnknownDevice)
	}
	return fmt.Errorf("device %q: this host has %s: %w", clip(name), strings.Join(have, ", "), ErrUnknownDevice)
}

// choose returns the devices a request means, in the order they are read, and why a kind is missing that is charged by
// default.
func (m *Meter) choose(names []string) (chosen []*device, absent []string, err error) {
	if len(names) == 0 {
		return m.byDefault()
	}
	for _, name := range names {
		if name != "cpu" && name != "gpu" && m.device(name) == nil {
			return nil, nil, m.unknown(name)
		}
	}
	for _, d := range m.devices() {
		if !d.left.Load() && (slices.Contains(names, d.name) || slices.Contains(names, d.kind)) {
			chosen = append(chosen, d)
		}
	}
	absent = m.mirrored(names)
	for _, kind := range []string{"cpu", "gpu"} {
		if slices.Contains(names, kind) && !slices.ContainsFunc(chosen, func(d *device) bool { return d.kind == kind }) {
			absent = append(absent, m.whyNo(kind))
		}
	}
	return chosen, absent, nil
}

// byDefault returns every GPU that is awake, CPU packages and dram.
func (m *Meter) byDefault() (chosen []*device, absent []string, err error) {
	has := map[string]bool{}
	for _, d := range m.devices() {
		has[d.kind] = true
		if !d.left.Load() && (d.kind != kindGPU || !d.sleeps()) {
			chosen = append(chosen, d)
		}
	}
	absent = m.mirrored([]string{kindCPU})
	if !has["cpu"] {
		absent = append(absent, ReasonNoPowercap)
	}
	if len(chosen) == 0 && !has["gpu"] { // a host may well have none, and then nothing is left out
		absent = append(absent, m.whyNo("gpu"))
	}
	return chosen, absent, nil
}

// Resolve returns the devices that names mean: "cpu" and "gpu" are all of a kind, none at all is every device that is awake.
func (m *Meter) Resolve(names []string) ([]string, error) {
	chosen, _, err := m.choose(names)
	var devices []string
	for _, d := range chosen {
		devices = append(devices, d.name)
	}
	return devices, err
}

// mirrored says that a device of these is left out since it shows another one's counter.
func (m *Meter) mirrored(names []string) []string {
	for _, d := range m.devices() {
		if d.left.Load() && (slices.Contains(names, d.name) || slices.Contains(names, d.kind)) {
			return []string{ReasonMirrored}
		}
	}
	return nil
}

func (m *Meter) whyNo(kind string) string {
	switch {
	case kind == kindCPU:
		return ReasonNoPowercap
	case m.asleep():
		return ReasonSleeping
	}
	return ReasonNoGPU
}

// clip shortens a caller's text for an error.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
