package main

import (
	"context"
	"math"

	"github.com/qunerd/quner/internal/tune"
)

// Names of the searches that start from what an earlier sweep has left.
const (
	nameKept   = "again, as kept"
	nameAgain  = "again, from the optimum"
	nameTwoOff = "again, two steps off"
)

// starts are the searches that start from something, in the order of the tables.
func starts() []string { return []string{nameKept, nameAgain, nameTwoOff} }

// earlier keeps the noise of an earlier sweep apart from that of the one that is replayed.
const earlier = 1 << 32

// from searches along a curve from what an earlier sweep has left; nil: from nothing.
func from(left func(ctx context.Context, c Curve, seed uint64) (*tune.Prior, error)) Searcher {
	return func(ctx context.Context, c Curve, trial tune.Trial, seed uint64) (Outcome, error) {
		prior, err := left(ctx, c, seed)
		if err != nil {
			return Outcome{}, err
		}
		return c.search(ctx, prior, trial, seed)
	}
}

// kept is what a whole sweep of the same curve leaves.
func kept(n Noise) Searcher {
	return from(func(ctx context.Context, c Curve, seed uint64) (*tune.Prior, error) {
		r, err := tune.Sweep(ctx, []tune.Axis{c.axis()}, c.trial(seed+earlier, n), tune.Options{MaxSlowdown: maxSlowdown, Seed: seed + earlier})
		if err != nil {
			return nil, err
		}
		return r.Axes[0].Prior(), nil
	})
}

// off is what a sweep leaves that was right when the curve lay so many states lower or, where there is no room, higher: its
// best state is so far from today's. A flat curve leaves nothing.
func off(steps int, n Noise) Searcher {
	return from(func(ctx context.Context, c Curve, seed uint64) (*tune.Prior, error) {
		if c.spread() < flatBelow {
			return nil, nil //nolint:nilnil // nothing is an answer
		}
		best := c.best()
		shift := -steps
		if best+shift < 0 {
			shift = min(steps, c.top()-best)
		}
		p := &tune.Prior{State: best + shift}
		trial := c.trial(seed+earlier, n)
		for s := range c.Rate {
			windows := 1
			if s == p.State {
				windows = 3
			}
			var rate, watts float64
			for range windows {
				sample, err := trial(ctx, []int{min(c.top(), max(0, s-shift))})
				if err != nil {
					return nil, err
				}
				rate += math.Log(sample.Work/sample.Seconds) / float64(windows)
				watts += math.Log(sample.Joules/sample.Seconds) / float64(windows)
			}
			// As sure as so many windows are, were the spread known.
			figure := func(v, sigma float64) tune.Interval {
				half := 2 * sigma / math.Sqrt(float64(windows))
				return tune.Interval{Value: math.Exp(v), Low: math.Exp(v - half), High: math.Exp(v + half)}
			}
			p.Seen = append(p.Seen, tune.Seen{
				State: s, WorkPerSecond: figure(rate, n.Rate), Watts: figure(watts, math.Hypot(n.Joules, n.Rate)),
				JoulesPerWork: figure(watts-rate, n.Joules),
			})
		}
		return p, nil
	})
}
