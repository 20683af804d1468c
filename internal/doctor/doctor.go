// Package doctor says what a host exposes: each lever and energy counter, whether it works, and if not why and what would
// help. It looks and changes nothing; the daemon and qunerd doctor show the same report.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/unit"
)

// Report is what a host exposes.
type Report struct {
	Host     string    `json:"host"` // CPU model and kernel
	Levers   []Lever   `json:"levers"`
	Counters []Counter `json:"counters"`
}

// Lever is one control, there or missing.
type Lever struct {
	Name     string      `json:"name"`
	Kind     levers.Kind `json:"kind"`
	Present  bool        `json:"present"`
	Readable bool        `json:"readable"`
	Writable bool        `json:"writable"`
	Value    string      `json:"value,omitempty"` // for people: "schedutil", "300.0 W"
	Range    string      `json:"range,omitempty"` // for people: "powersave performance", "100.0 W … 300.0 W"
	Reason   host.Reason `json:"reason,omitempty"`
	Detail   string      `json:"detail,omitempty"`
	Remedy   string      `json:"remedy,omitempty"`
}

// Counter is one energy counter, or the lack of one.
type Counter struct {
	Name    string        `json:"name"`
	Label   string        `json:"label,omitempty"`
	Backend meter.Backend `json:"backend"`
	Counted bool          `json:"counted"` // part of a window's sum
	Reason  string        `json:"reason,omitempty"`
	Detail  string        `json:"detail,omitempty"`
	Remedy  string        `json:"remedy,omitempty"`
}

// Examine looks at a host: at the levers found there, those missing, and the sensors of its meter. It writes nothing. A
// lever that does not answer delays it by at most the host's own call timeout.
func Examine(ctx context.Context, h *host.Host, found []levers.Lever, missing []levers.Missing, m *meter.Meter) Report {
	r := Report{Host: hostLine(h), Levers: []Lever{}, Counters: []Counter{}}
	for _, l := range found {
		r.Levers = append(r.Levers, examine(ctx, h, l))
	}
	for _, gone := range missing {
		r.Levers = append(r.Levers, Lever{
			Name: gone.Name, Kind: gone.Kind, Reason: gone.Reason, Detail: gone.Detail,
			Remedy: leverRemedy(gone.Kind, gone.Reason),
		})
	}
	for _, s := range m.Sensors() {
		r.Counters = append(r.Counters, Counter{
			Name: s.Name, Label: s.Label, Backend: s.Backend, Counted: s.Counted, Reason: s.Reason, Detail: s.Detail,
			Remedy: counterRemedy(s.Reason),
		})
	}
	return r
}

// hostLine is the machine in a line: what it computes with, and on what.
func hostLine(h *host.Host) string {
	var parts []string
	if model := h.CPU().Model; model != "" {
		parts = append(parts, model)
	}
	if release, err := h.Proc.ReadString("sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+release)
	}
	for _, gpu := range h.GPUs.All() {
		parts = append(parts, gpu.Info().Name)
	}
	if version := h.GPUs.Version(); version != "" {
		parts = append(parts, "driver "+version)
	}
	if len(parts) == 0 {
		return "a host that tells nothing about itself"
	}
	return printable(strings.Join(parts, ", "))
}

// examine reads one lever and asks whether it could be written.
func examine(ctx context.Context, h *host.Host, l levers.Lever) Lever {
	span := l.Span()
	r := Lever{Name: l.Name(), Kind: l.Kind(), Present: true, Range: rangeText(span)}
	value, err := l.Get(ctx)
	if err == nil {
		r.Readable = true
		r.Value = valueText(value, span.Unit)
		err = writable(h, l)
		r.Writable = err == nil
	}
	if err != nil {
		r.Reason, r.Detail = host.ReasonOf(err), printable(err.Error())
		r.Remedy = leverRemedy(r.Kind, r.Reason)
	}
	return r
}

// writable returns why a lever could not be written by this process, as far as can be told without writing.
func writable(h *host.Host, l levers.Lever) error {
	switch l.Kind() {
	case levers.Governor:
		policy := strings.TrimPrefix(l.Name(), "cpufreq/")
		return h.Sys.Writable("devices/system/cpu/cpufreq/" + policy + "/scaling_governor")
	case levers.GPUCap:
		return mayCap(h)
	}
	return nil
}

// capSysAdmin is the bit of CAP_SYS_ADMIN in a capability mask, from the kernel's linux/capability.h.
const capSysAdmin = 21

// mayCap returns why NVIDIA's driver would refuse this process a new power cap: the driver asks for CAP_SYS_ADMIN. A host
// that does not tell this process's capabilities is believed to grant them.
func mayCap(h *host.Host) error {
	status, err := h.Proc.Read("self/status")
	if err != nil {
		return nil //nolint:nilerr // a simulated host has no such file, and needs no such right
	}
	caps, err := effective(string(status))
	if err == nil && caps&(1<<capSysAdmin) == 0 {
		return fmt.Errorf("this process has no CAP_SYS_ADMIN: %w", host.ErrNoPermission)
	}
	return err
}

// effective finds the effective capabilities in a process's status.
func effective(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if mask, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err != nil {
				return 0, fmt.Errorf("effective capabilities: %w", err)
			}
			return caps, nil
		}
	}
	return 0, fmt.Errorf("effective capabilities: %w", host.ErrUnread)
}

// rangeText is a span for people.
func rangeText(s levers.Span) string {
	if s.Choices != nil {
		words := make([]string, len(s.Choices))
		for i, c := range s.Choices {
			words[i] = string(c)
		}
		return strings.Join(words, " ")
	}
	lo, hi := strconv.FormatInt(s.Lo, 10), strconv.FormatInt(s.Hi, 10)
	return valueText(levers.Value(lo), s.Unit) + " … " + valueText(levers.Value(hi), s.Unit)
}

// valueText is a value for people: powers in a fitting unit, all else in the host's own text.
func valueText(v levers.Value, of string) string {
	sizes := map[string]unit.Power{"mW": unit.Milliwatt, "µW": unit.Microwatt, "W": unit.Watt}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if size, ok := sizes[of]; ok && err == nil && n >= 0 && n <= int64(unit.Kilowatt*1000)/int64(size) {
		return (unit.Power(n) * size).String()
	}
	return printable(strings.TrimSpace(string(v) + " " + of))
}

// Usable counts the levers that can be moved.
func (r Report) Usable() int {
	return len(slices.DeleteFunc(slices.Clone(r.Levers), func(l Lever) bool { return !l.Writable }))
}

// printable escapes what a host's text must not do to a terminal or a log.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == 0xfffd || 0x80 <= c && c < 0xa0 {
			return '?'
		}
		return c
	}, s)
}
