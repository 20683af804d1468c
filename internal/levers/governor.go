package levers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

const cpufreqDir = "devices/system/cpu/cpufreq"

// governor is the scaling governor of one cpufreq policy: several CPUs may share it, and policies may differ.
type governor struct {
	attr
	choices []Value
}

func governorClass() class {
	return class{kind: Governor, rank: 0, discover: discoverGovernors, lines: echoLines}
}

// governorNames are the kernel's governors that can be chosen. userspace is none of them: it waits for a program to set
// frequencies, and quner is not that program. As an original it is put back like any other.
func governorNames() []Value {
	return []Value{fastest, "powersave", "ondemand", "conservative", "schedutil"}
}

// fastest is the governor under which an active-mode pstate driver decides the energy preference itself. The preference
// that it decides on has the same name.
const fastest Value = "performance"

// policiesOf lists the cpufreq policies: "policy0". A kernel without cpufreq has none.
func policiesOf(sys host.Dir) ([]string, error) {
	names, err := sys.List(cpufreqDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	policy := regexp.MustCompile(`^policy[0-9]{1,6}$`)
	return slices.DeleteFunc(names, func(n string) bool { return !policy.MatchString(n) }), nil
}

func discoverGovernors(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	policies, err := policiesOf(h.Sys)
	if err != nil {
		return nil, []Missing{{"cpufreq", Governor, host.ReasonOf(err), err.Error()}}
	}
	if len(policies) == 0 {
		reason, detail := absentHere(h)
		return nil, []Missing{{"cpufreq", Governor, reason, detail}}
	}
	var found []Lever
	var missing []Missing
	for _, p := range policies {
		g, m := openGovernor(ctx, h.Sys, p)
		if m != nil {
			missing = append(missing, *m)
			continue
		}
		found = append(found, g)
	}
	return found, missing
}

// openGovernor looks at one policy. It is a lever if it can be read and has something to choose from.
func openGovernor(ctx context.Context, sys host.Dir, policy string) (*governor, *Missing) {
	g := &governor{attr: attr{sys: sys, name: governorName(policy), file: path.Join(cpufreqDir, policy, "scaling_governor")}}
	now, err := g.Get(ctx)
	if err != nil {
		return nil, g.missingFor(Governor, err)
	}
	offered, err := g.beside(ctx, "scaling_available_governors")
	if err != nil {
		return nil, g.missingFor(Governor, err)
	}
	for word := range strings.FieldsSeq(offered) {
		if v := Value(word); slices.Contains(governorNames(), v) && !slices.Contains(g.choices, v) {
			g.choices = append(g.choices, v)
		}
	}
	switch {
	case len(g.choices) == 0:
		detail := fmt.Sprintf("%s offers no governor that can be chosen: %q", g.name, printable(offered))
		return nil, g.missing(Governor, host.NotSupported, detail)
	case len(g.choices) == 1 && g.choices[0] == now:
		return nil, g.missing(Governor, host.ZeroRange, fmt.Sprintf("%s offers only %q", g.name, now))
	}
	return g, nil
}

func governorName(policy string) string { return "cpufreq/" + policy }

func (g *governor) Kind() Kind           { return Governor }
func (g *governor) Span() Span           { return Span{Choices: slices.Clone(g.choices)} }
func (g *governor) Same(a, b Value) bool { return a == b }

func (g *governor) Get(ctx context.Context) (Value, error) {
	v, err := g.get(ctx)
	return v, offline(g.name, err, g.explain)
}

func (g *governor) Set(ctx context.Context, v Value) error {
	if err := g.Span().Allows(v); err != nil {
		return fmt.Errorf("%s: %w", g.name, err)
	}
	return g.Restore(ctx, v)
}

func (g *governor) Restore(ctx context.Context, v Value) error {
	now, err := g.put(ctx, v)
	if err != nil {
		return offline(g.name, err, func(err error) error { return g.refused(v, err) })
	}
	if now != v {
		return notTaken(g.name, v, now)
	}
	return nil
}

// errOffline is a cpufreq policy that has no CPU online: its directory stays, and its files answer EBUSY.
var errOffline = errors.New("all CPUs of the policy are offline")

// offline is an error of a cpufreq file, explained.
func offline(name string, err error, explain func(error) error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s: %w: %w", name, errOffline, err)
	}
	return explain(err)
}

// gone reports whether a lever's error says that the device is not there at present.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrLost) || errors.Is(err, unix.ENODEV) || errors.Is(err, errOffline)
}
