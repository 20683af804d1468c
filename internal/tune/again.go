package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

const (
	// A ratio of two states is another one than before if it differs by more than so many (unlike) standard errors of both,
	// and more than what an update of a driver may change everywhere (slack). A doubt too many costs a few windows.
	unlike = 2.5
	slack  = 0.01
	// otherWork: if the work/s or the watts of the state found are further from what they were (a factor of e^0.1), it is not
	// the same work, or the machine is not what it was.
	otherWork = 0.1
)

// prior is what an earlier sweep has left, if the search can start from it.
func (x *search) prior() *Prior {
	p := x.axis.Prior
	if p == nil || p.State > x.top || x.top == 0 || !p.Covers(0, x.axis.Found, x.top) {
		return nil
	}
	return p
}

// again looks once more at the state that an earlier sweep has chosen, at those beside it and at the one found. While they
// are to each other what they were, the rest of the axis is taken to be what it was too: the choice was certified against it
// then, and is certified now against what is looked at. Else the search goes on, with the windows it has, as if there had
// been none before.
func (x *search) again(ctx context.Context) error {
	p := x.prior()
	if p == nil {
		return nil
	}
	x.phase, x.from = PhaseAgain, p.State
	untouched := fmt.Sprintf("taken to be as it was when %s was chosen", x.axis.States[p.State])
	for s := range x.top + 1 {
		x.skipped[s] = untouched
	}
	for {
		around := x.nearby(p)
		for s := range x.top + 1 {
			if within := s >= slices.Min(around) && s <= slices.Max(around); x.skipped[s] == untouched && (within || s == x.axis.Found) {
				x.skipped[s] = ""
			}
		}
		next := x.unlooked(around)
		if next == Nothing {
			if x.moved = cmp.Or(x.differs(p), x.level(), x.overtaken(p)); x.moved != "" {
				clear(x.skipped[:x.top+1])
				return nil
			}
			x.settle()
			next = x.next()
		}
		if next == Nothing {
			next = x.wanted()
		}
		if next == Nothing {
			x.held = true
			return nil
		}
		if err := x.measure(ctx, next); err != nil {
			return err
		}
	}
}

// nearby are the state chosen before and its neighbours, and the neighbours of those that seem to be the best, or would be
// chosen, now: nothing is chosen that stands at the end of what was looked at.
func (x *search) nearby(p *Prior) []int {
	out := append([]int{p.State}, p.beside(p.State, x.top)...)
	for _, s := range []int{x.best(), x.choose()} {
		if s != p.State && x.rep[s] != x.found() && x.fit.n[x.rep[s]] > 1 {
			out = append(out, p.beside(s, x.top)...)
		}
	}
	return out
}

// unlooked is the first state that still needs its first window, of the one found and some others; Nothing if none does.
func (x *search) unlooked(others []int) int {
	for _, s := range append([]int{x.axis.Found}, others...) {
		if x.fit.n[x.rep[s]] == 0 {
			return s
		}
	}
	return Nothing
}

// differs is what is no longer as it was, "" if all is that was measured again.
func (x *search) differs(p *Prior) string {
	names := []string{qRate: "work per second", qWatts: "watts", qJoules: "joules per work"}
	words := func(of string, q quantity, d float64) string {
		way := "higher"
		if d < 0 {
			way = "lower"
		}
		return fmt.Sprintf("%s: %s %.1f %% %s than before", of, names[q], 100*math.Abs(math.Expm1(d)), way)
	}
	found, point := x.axis.Found, p.State
	for _, q := range []quantity{qRate, qWatts, qJoules} {
		was, se := p.earlier(found, q)
		if d := x.fit.mean[x.rep[found]][q] - was; !(math.Abs(d) < otherWork+2*math.Hypot(x.guess(q, x.rep[found], x.rep[found]), se)) {
			return words(x.axis.States[found], q, d)
		}
		for s := range x.top + 1 {
			was, se := p.against(s, q)
			if s == point || x.fit.n[x.rep[s]] == 0 || math.IsNaN(was) {
				continue
			}
			now, _ := x.fit.diff(x.rep[s], x.rep[point], q)
			d, doubt := now-was, math.Hypot(x.guess(q, x.rep[s], x.rep[point]), se)
			if !(math.Abs(d) < slack+unlike*doubt) {
				return words(x.axis.States[s]+" against "+x.axis.States[point], q, d)
			}
		}
	}
	return ""
}

// level is that all states looked at draw the same, "" if they do not. A lever that does nothing has no such point.
func (x *search) level() string {
	for s := range x.top + 1 {
		if x.rep[s] == s && x.fit.n[s] > 0 && !x.alike(s, x.found()) {
			return ""
		}
	}
	return "all states looked at draw the same"
}

// overtaken is that a state is best now that was known to be dearer or too slow, or was not measured; "" if none is.
func (x *search) overtaken(p *Prior) string {
	best := x.best()
	if best == x.rep[p.State] || x.fit.n[best] < 2 {
		return ""
	}
	rate, _ := p.against(best, qRate)
	watts, _ := p.against(best, qWatts)
	mine, _ := p.earlier(best, qRate)
	found, _ := p.earlier(x.axis.Found, qRate)
	if x.opts.Objective.cost(rate, watts) <= math.Log1p(Band) && (mine-found >= x.floor || x.opts.Objective == AtRest) {
		return ""
	}
	return x.axis.States[best] + " is better than " + x.axis.States[p.State] + " now"
}
