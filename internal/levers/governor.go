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
	sys     host.Dir
	file    string // scaling_governor, in sys
	name    string
	choices []Value
	guard   guard
}

func governorClass() class {
	return class{kind: Governor, rank: 0, discover: discoverGovernors, lines: echoLines}
}

// governorNames are the kernel's governors that can be chosen. userspace is none of them: it waits for a program to set
// frequencies, and quner is not that program. As an original it is put back like any other.
func governorNames() []Value {
	return []Value{"performance", "powersave", "ondemand", "conservative", "schedutil"}
}

func discoverGovernors(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	names, err := h.Sys.List(cpufreqDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []Missing{{"cpufreq", Governor, host.ReasonOf(err), err.Error()}}
	}
	policy := regexp.MustCompile(`^policy[0-9]{1,6}$`)
	var found []Lever
	var missing []Missing
	for _, n := range names {
		if !policy.MatchString(n) {
			continue
		}
		g, m := openGovernor(ctx, h.Sys, n)
		if m != nil {
			missing = append(missing, *m)
			continue
		}
		found = append(found, g)
	}
	if len(found)+len(missing) == 0 {
		reason, detail := absentHere(h)
		missing = []Missing{{"cpufreq", Governor, reason, detail}}
	}
	return found, missing
}

// openGovernor looks at one policy. It is a lever if it can be read and has something to choose from.
func openGovernor(ctx context.Context, sys host.Dir, policy string) (*governor, *Missing) {
	g := &governor{sys: sys, name: "cpufreq/" + policy, file: path.Join(cpufreqDir, policy, "scaling_governor")}
	now, err := g.Get(ctx)
	if err != nil {
		return nil, &Missing{g.name, Governor, host.ReasonOf(err), err.Error()}
	}
	offered, err := guarded(ctx, &g.guard, func() (string, error) {
		return sys.ReadString(path.Join(cpufreqDir, policy, "scaling_available_governors"))
	})
	if err != nil {
		return nil, &Missing{g.name, Governor, host.ReasonOf(err), err.Error()}
	}
	for word := range strings.FieldsSeq(offered) {
		if v := Value(word); slices.Contains(governorNames(), v) && !slices.Contains(g.choices, v) {
			g.choices = append(g.choices, v)
		}
	}
	switch {
	case len(g.choices) == 0:
		detail := fmt.Sprintf("%s offers no governor that can be chosen: %q", g.name, printable(offered))
		return nil, &Missing{g.name, Governor, host.NotSupported, detail}
	case len(g.choices) == 1 && g.choices[0] == now:
		return nil, &Missing{g.name, Governor, host.ZeroRange, fmt.Sprintf("%s offers only %q", g.name, now)}
	}
	return g, nil
}

func (g *governor) Name() string         { return g.name }
func (g *governor) Kind() Kind           { return Governor }
func (g *governor) Span() Span           { return Span{Choices: slices.Clone(g.choices)} }
func (g *governor) Same(a, b Value) bool { return a == b }
func (g *governor) address() address     { return address{Path: g.sys.File(g.file)} }

func (g *governor) Get(ctx context.Context) (Value, error) {
	v, err := guarded(ctx, &g.guard, g.read)
	return v, g.explain(err)
}

func (g *governor) Set(ctx context.Context, v Value) error {
	if err := g.Span().Allows(v); err != nil {
		return fmt.Errorf("%s: %w", g.name, err)
	}
	return g.write(ctx, v)
}

func (g *governor) Restore(ctx context.Context, v Value) error { return g.write(ctx, v) }

// write writes with a newline, as echo does and as the kernel shows the value.
func (g *governor) write(ctx context.Context, v Value) error {
	now, err := guarded(ctx, &g.guard, func() (Value, error) {
		if err := g.sys.Write(g.file, []byte(v+"\n")); err != nil {
			return "", err
		}
		return g.read()
	})
	if err != nil {
		return g.explain(err)
	}
	if now != v {
		return notTaken(g.name, v, now)
	}
	return nil
}

func (g *governor) read() (Value, error) {
	s, err := g.sys.ReadString(g.file)
	if err != nil {
		return "", err
	}
	if !valid(s) {
		return "", fmt.Errorf("%s: holds %q: %w", g.sys.File(g.file), printable(s), host.ErrUnread)
	}
	return Value(s), nil
}

// explain names the lever, and what the kernel means where its word for it is misleading.
func (g *governor) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: all CPUs of the policy are offline: %w", g.name, err)
	}
	return fmt.Errorf("%s: %w", g.name, err)
}

func notTaken(name string, wrote, reads Value) error {
	return fmt.Errorf("%s: wrote %q, reads %q: %w", name, wrote, reads, ErrNotTaken)
}

// valid reports whether a text of the host can be a value: one line of printable ASCII, so that it survives the journal,
// a log and a shell as it is.
func valid(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
