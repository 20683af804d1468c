package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/unit"
)

// lever reports on one as it was seen.
func (v View) lever(ctx context.Context, h *host.Host, s levers.State) Lever {
	r := Lever{
		Name: s.Name, Kind: s.Kind, Present: s.State != levers.Lost, Readable: s.Err == nil, State: s.State,
		Range: rangeText(s.Span), Reason: s.Reason, Detail: printable(s.Note),
	}
	if s.Found != "" {
		r.Found = valueText(s.Found, s.Unit)
	}
	if r.Readable {
		r.Value = valueText(s.Value, s.Unit)
		if e := effective(ctx, h, s); e != "" && valueText(e, s.Unit) != r.Value {
			r.Effective = valueText(e, s.Unit)
		}
		err := v.writable(h, s)
		r.Writable = err == nil
		if err != nil {
			r.Reason, r.Detail = host.ReasonOf(err), printable(err.Error())
		}
	}
	r.Why, r.Remedy = leverWhy(r.Kind, r.Reason, r.Detail), leverRemedy(r.Kind, r.Reason)
	r.Owner = v.owner(s)
	if by, ok := Contested(v.Conflicts, s.Kind); ok && r.Reason == "" && r.Owner == by.Daemon {
		r.State, r.Why = levers.Yielded, "left to "+by.Daemon
		r.Remedy = "sudo qunerctl levers take " + string(s.Kind)
	} else if r.Reason == "" && r.State == levers.Yielded {
		r.Why, r.Remedy = r.Detail, "sudo qunerctl levers take "+s.Name
	}
	return r
}

// owner is who moves a lever.
func (v View) owner(s levers.State) string {
	by, contested := Contested(v.Conflicts, s.Kind)
	switch decided := v.Decided[s.Name]; {
	case decided != "":
		return decided
	case contested:
		return by.Daemon
	case s.State == levers.Yielded:
		return OwnerOthers
	case v.Served, s.State == levers.Held, s.State == levers.Lost:
		return OwnerQuner
	}
	return ""
}

// enforcedAge is how old a board's own word may be on what it enforces.
const enforcedAge = 10 * time.Second

// effective is what binds where a lever's own value may not: of a package's two interfaces the lower, of a board what it
// enforces.
func effective(ctx context.Context, h *host.Host, s levers.State) levers.Value {
	if s.Kind != levers.GPUCap {
		return s.Effective
	}
	for _, gpu := range h.GPUs.All() {
		if strings.HasSuffix(s.Name, "/"+gpu.Info().UUID) {
			if r, err := gpu.Read(ctx, enforcedAge); err == nil && r.EnforcedErr == nil && r.Enforced > 0 {
				return levers.Value(strconv.FormatInt(int64(r.Enforced/unit.Milliwatt), 10))
			}
		}
	}
	return ""
}

// writable returns why a lever could not be written by this process, as far as can be told without writing.
func (v View) writable(h *host.Host, s levers.State) error {
	i := slices.IndexFunc(v.Levers, func(l levers.Lever) bool { return l.Name() == s.Name })
	if i < 0 {
		return nil
	}
	if s.Kind == levers.GPUCap {
		return mayCap(h)
	}
	file, below := strings.CutPrefix(levers.File(v.Levers[i]), h.Sys.Path()+"/")
	if !below {
		return nil
	}
	return h.Sys.Writable(file)
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
	caps, err := capabilities(string(status))
	if err == nil && caps&(1<<capSysAdmin) == 0 {
		return fmt.Errorf("this process has no CAP_SYS_ADMIN: %w", host.ErrNoPermission)
	}
	return err
}

// capabilities finds the effective ones in a process's status.
func capabilities(status string) (uint64, error) {
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
	if s.Unit == "" {
		return ""
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
