package levers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// epp is the energy performance preference of one cpufreq policy: what an active-mode pstate driver tells the processor
// to weigh speed against energy by. Under the governor performance the driver decides it.
type epp struct {
	attr
	policy  string
	choices []Value
}

func eppClass() class {
	return class{kind: EnergyPreference, rank: 1, discover: discoverEPP, lines: echoLines}
}

func discoverEPP(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	policies, err := policiesOf(h.Sys)
	if err != nil {
		return nil, []Missing{{"epp", EnergyPreference, host.ReasonOf(err), err.Error()}}
	}
	var found []Lever
	var missing []Missing
	for _, p := range policies {
		e, m := openEPP(ctx, h.Sys, p)
		switch {
		case m != nil:
			missing = append(missing, *m)
		case e != nil:
			found = append(found, e)
		}
	}
	if len(found)+len(missing) > 0 {
		return found, missing
	}
	reason, detail := absentHere(h)
	if len(policies) > 0 {
		reason, detail = host.NotSupported, "the cpufreq driver has no energy preference"
	}
	return nil, []Missing{{"epp", EnergyPreference, reason, detail}}
}

// eppPrefix begins the name of a preference's lever; its policy ends it.
const eppPrefix = "epp/"

// openEPP looks at one policy. A policy without the file is neither a lever nor, by itself, a thing to report.
func openEPP(ctx context.Context, sys host.Dir, policy string) (*epp, *Missing) {
	e := &epp{policy: policy, attr: attr{
		sys: sys, name: eppPrefix + policy, file: path.Join(cpufreqDir, policy, "energy_performance_preference"),
	}}
	now, err := e.Get(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, e.missingFor(EnergyPreference, err)
	}
	offered, err := e.beside(ctx, "energy_performance_available_preferences")
	if err != nil {
		return nil, e.missingFor(EnergyPreference, err)
	}
	for word := range strings.FieldsSeq(offered) {
		// "default" is another name for one of the others, and reads back as that.
		if v := Value(word); v != "default" && valid(word) && !slices.Contains(e.choices, v) {
			e.choices = append(e.choices, v)
		}
	}
	if len(e.choices) == 0 || len(e.choices) == 1 && e.choices[0] == now {
		return nil, e.missing(EnergyPreference, host.ZeroRange, fmt.Sprintf("%s offers only %q", e.name, printable(offered)))
	}
	return e, nil
}

func (e *epp) Kind() Kind           { return EnergyPreference }
func (e *epp) Span() Span           { return Span{Choices: slices.Clone(e.choices)} }
func (e *epp) Same(a, b Value) bool { return a == b }

func (e *epp) Get(ctx context.Context) (Value, error) {
	v, err := e.get(ctx)
	return v, offline(e.name, err, e.explain)
}

func (e *epp) Set(ctx context.Context, v Value) error {
	if err := e.Span().Allows(v); err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	return e.Restore(ctx, v)
}

// Restore takes raw numbers too: an original may be one that has no name.
func (e *epp) Restore(ctx context.Context, v Value) error {
	now, err := e.put(ctx, v)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: implied %q by the governor: %w: %w", e.name, fastest, host.ErrImplied, err)
	case err != nil:
		return e.refused(v, err)
	case now != v:
		return notTaken(e.name, v, now)
	}
	return nil
}

// master is the governor of the same policy.
func (e *epp) master() string { return governorName(e.policy) }

func (e *epp) impliedBy(governor Value) bool { return governor == fastest }

// masterNow reads the governor itself, which may offer no choice and so be no lever.
func (e *epp) masterNow(ctx context.Context) (Value, error) {
	s, err := e.beside(ctx, "scaling_governor")
	return Value(s), e.explain(err)
}
