package main

import (
	"context"
	"math"
	"slices"

	"github.com/qunerd/quner/internal/tune"
)

// Names of the searches, in the order of the tables.
const (
	nameCertified  = "quner"
	nameExhaustive = "exhaustive"
	nameThree      = "three passes"
	nameTernary    = "ternary"
	nameGreedy     = "greedy"
)

// rivals are the simple searches.
func rivals() []string { return []string{nameExhaustive, nameThree, nameTernary, nameGreedy} }

// names are all searches, in the order of the tables.
func names() []string { return slices.Concat([]string{nameCertified}, starts(), rivals()) }

func searchers(n Noise) map[string]Searcher {
	return map[string]Searcher{
		nameCertified: certified, nameKept: kept(n), nameAgain: off(0, n), nameTwoOff: off(2, n),
		nameExhaustive: passes(1), nameThree: passes(3), nameTernary: ternary, nameGreedy: greedy,
	}
}

// flatEnds is by how much less than this share the highest and the lowest cap differ in power for the simple searches to
// call a curve flat: the rule that the search of internal/tune applies to its own pre-check.
const flatEnds = 0.05

// looks is what a simple search has measured: means by state.
type looks struct {
	ctx         context.Context
	trial       tune.Trial
	n           []int
	work, watts []float64 // sums of work/s and of joules/s
	device      []float64
	windows     int
}

func newLooks(ctx context.Context, c Curve, trial tune.Trial) *looks {
	n := len(c.Rate)
	return &looks{
		ctx: ctx, trial: trial, n: make([]int, n),
		work: make([]float64, n), watts: make([]float64, n), device: make([]float64, n),
	}
}

// at measures a state once more.
func (l *looks) at(s int) error {
	sample, err := l.trial(l.ctx, []int{s})
	if err != nil {
		return err
	}
	l.windows++
	l.n[s]++
	l.work[s] += sample.Work / sample.Seconds
	l.watts[s] += sample.Joules / sample.Seconds
	l.device[s] += sample.Achieved
	return nil
}

// cost is joules per work; +Inf where the state was not measured or is too slow against the highest.
func (l *looks) cost(s int) float64 {
	top := len(l.n) - 1
	if l.n[s] == 0 || s != top && l.work[s]/float64(l.n[s]) < (1-maxSlowdown)*l.work[top]/float64(l.n[top]) {
		return math.Inf(1)
	}
	return l.watts[s] / l.work[s]
}

// outcome chooses the least cost.
func (l *looks) outcome() Outcome {
	top := len(l.n) - 1
	best := top
	for s := range l.n {
		if l.cost(s) < l.cost(best) {
			best = s
		}
	}
	o := Outcome{Chosen: best, Windows: l.windows}
	if l.n[0] > 0 {
		o.Flat = math.Abs(l.device[0]*float64(l.n[top])/(l.device[top]*float64(l.n[0]))-1) < flatEnds
	}
	return o
}

// passes measures every state so often, there and back.
func passes(n int) Searcher {
	return func(ctx context.Context, c Curve, trial tune.Trial, _ uint64) (Outcome, error) {
		l := newLooks(ctx, c, trial)
		for pass := range n {
			for i := range l.n {
				s := i
				if pass%2 == 1 {
					s = len(l.n) - 1 - i
				}
				if err := l.at(s); err != nil {
					return Outcome{}, err
				}
			}
		}
		return l.outcome(), nil
	}
}

// ternary measures the ends, and then narrows the range by two states at its thirds, each measured once.
func ternary(ctx context.Context, c Curve, trial tune.Trial, _ uint64) (Outcome, error) {
	l := newLooks(ctx, c, trial)
	once := func(s int) (float64, error) {
		if l.n[s] == 0 {
			if err := l.at(s); err != nil {
				return 0, err
			}
		}
		if cost := l.cost(s); !math.IsInf(cost, 1) {
			return cost, nil
		}
		return math.MaxFloat64 / float64(1+s), nil // too slow: the lower the worse
	}
	lo, hi := 0, c.top()
	for _, s := range []int{hi, lo} {
		if _, err := once(s); err != nil {
			return Outcome{}, err
		}
	}
	for hi-lo > 2 {
		a, b := lo+(hi-lo)/3, hi-(hi-lo)/3
		ca, err := once(a)
		if err != nil {
			return Outcome{}, err
		}
		cb, err := once(b)
		if err != nil {
			return Outcome{}, err
		}
		if ca <= cb {
			hi = b
		} else {
			lo = a
		}
	}
	for s := lo; s <= hi; s++ {
		if _, err := once(s); err != nil {
			return Outcome{}, err
		}
	}
	return l.outcome(), nil
}

// greedy walks down from the highest state and stops at the first that is no better.
func greedy(ctx context.Context, c Curve, trial tune.Trial, _ uint64) (Outcome, error) {
	l := newLooks(ctx, c, trial)
	for s := c.top(); s >= 0; s-- {
		if err := l.at(s); err != nil {
			return Outcome{}, err
		}
		if s < c.top() && !(l.cost(s) < l.cost(s+1)) {
			break
		}
	}
	return l.outcome(), nil
}
