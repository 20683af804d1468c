package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// beside: a state that was dearer than its axis's choice by more (a factor of e^0.06) while the other axes stood where
	// they were found is not looked at again: the others shift a state against its neighbour by less.
	beside = 0.06
	// cornerWindows is how many windows a neighbour of the corner gets at most before it is decided by estimate.
	cornerWindows = 4
	// rounds is how often one axis's move may make another one look again.
	rounds = 4
)

// corner looks, with all axes set, at the neighbours of the states chosen while other axes stood elsewhere, and moves there
// if they are better by more than the band; then at what stands elsewhere since.
func (s *sweep) corner(ctx context.Context, searched []*search, r *Result) error {
	var moved []string
	looked := make([][]int, len(searched)) // the combination in which an axis was looked at last
	for i := range searched {
		looked[i] = slices.Concat(s.held[:i+1], s.found[i+1:])
	}
	for range rounds {
		still := true
		for i, x := range searched {
			if x.flat || x.stopped != "" || s.settled(looked[i], i) {
				continue
			}
			was := s.held[i]
			at, err := s.around(ctx, x)
			if err != nil {
				return err
			}
			looked[i] = slices.Clone(s.held)
			if s.held[i] == was {
				continue
			}
			still = false
			a := &r.Axes[i]
			moved = append(moved, fmt.Sprintf("%s from %s to %s", a.Name, a.States[was].Label, a.States[s.held[i]].Label))
			a.Chosen = s.held[i]
			a.conclude(at)
		}
		if still {
			break
		}
	}
	if len(moved) > 0 {
		r.Note = "With all axes set, better was found beside their single optima: " + strings.Join(moved, ", ") + ". "
	}
	return nil
}

// settled tells whether all axes but one stand where they stood.
func (s *sweep) settled(looked []int, but int) bool {
	now := slices.Clone(s.held)
	now[but] = looked[but]
	return s.same(now, looked)
}

// around searches the states beside the one chosen on an axis, with the other axes at the corner, and moves there if that is
// better. It returns nil if there was nothing to look at.
func (s *sweep) around(ctx context.Context, before *search) (*search, error) {
	x := newSearch(s, before.axis, before.pos)
	x.limits(1)
	x.phase = PhaseCorner
	chosen := s.held[x.pos]
	copy(x.rep, before.rep[:x.states()])
	x.axis.Found = x.rep[chosen] // what the neighbours are held against
	x.fit = fitWindows(x.ws, x.rep)
	for n := range x.states() {
		if x.rep[n] == x.rep[chosen] {
			x.skipped[n] = ""
		} else {
			x.skipped[n] = "not beside the corner"
		}
	}
	worth := false
	for _, n := range before.neighbours(x.rep[chosen]) {
		x.skipped[n] = ""
		worth = true
	}
	if !worth {
		return nil, nil
	}
	err := x.lookBeside(ctx)
	better := err == nil && x.aheadOf(x.best(), x.found()) > math.Log1p(Band)
	if better {
		err = x.refine(ctx)
	}
	if err != nil && !errors.Is(err, errBudget) {
		return nil, err
	}
	if better {
		s.held[x.pos] = x.choose()
	}
	return x, nil
}

// aheadOf is by how much (in ln) the cost of a is below that of b.
func (x *search) aheadOf(a, b int) float64 {
	d, _ := x.fit.diff(b, a, qCost)
	return d
}

// neighbours are the measured states next to one, above and below it, that came near it.
func (x *search) neighbours(chosen int) []int {
	var out []int
	for _, step := range []int{-1, 1} {
		for n := chosen + step; n >= 0 && n <= x.top; n += step {
			if x.fit.n[n] == 0 || x.rep[n] != n || n == chosen {
				continue
			}
			if d, _ := x.fit.diff(n, chosen, qCost); math.Abs(d) < beside && x.fit.n[chosen] > 0 {
				out = append(out, n)
			}
			break
		}
	}
	return out
}

// lookBeside measures the neighbours once, and again those that seem better, until that is sure or their windows are used up.
func (x *search) lookBeside(ctx context.Context) error {
	for {
		here, next := x.found(), Nothing
		for n := range x.states() {
			if x.rep[n] != n || x.skipped[n] != "" || n == here {
				continue
			}
			if x.fit.n[n] == 0 {
				next = n
				break
			}
			// Better by half of the band may be better by all of it.
			if x.allowed(n) && x.aheadOf(n, here) > math.Log1p(Band)/2 && x.fit.n[n] < cornerWindows {
				next = n
			}
		}
		if next == Nothing {
			return nil
		}
		if err := x.measure(ctx, next); err != nil {
			return err
		}
	}
}
