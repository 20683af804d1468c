package main

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Bench is what is to be measured.
type Bench struct {
	Curves []Curve
	Seeds  int
	Sigmas []float64 // %
	Rates  []float64 // noise on work/s, in σ
}

// Cell is one row of the tables.
type Cell struct {
	Search string
	Sigma  float64 // %
	Rate   float64 // σ
}

// Result is the rows.
type Result struct {
	Scores map[Cell]Score
	Missed map[Cell]map[string]int // how often the choice was out of band, by curve
}

// Run measures everything. Equal seeds give equal figures, whatever the number of processors.
func (b Bench) Run(ctx context.Context) (Result, error) {
	r := Result{Scores: map[Cell]Score{}, Missed: map[Cell]map[string]int{}}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	tallies := map[Cell][]tally{}
	for _, cell := range b.cells() {
		mine := make([]tally, len(b.Curves))
		tallies[cell] = mine
		for i, c := range b.Curves {
			g.Go(func() error { return b.one(ctx, cell, c, &mine[i]) })
		}
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	for cell, parts := range tallies {
		var sum tally
		for _, t := range parts {
			sum.merge(t)
		}
		r.Scores[cell], r.Missed[cell] = sum.score(), sum.names
	}
	return r, nil
}

func (b Bench) cells() []Cell {
	var all []Cell
	for _, rate := range b.Rates {
		for _, sigma := range b.Sigmas {
			for _, name := range names() {
				all = append(all, Cell{name, sigma, rate})
			}
		}
	}
	return all
}

// one replays one curve with all seeds.
func (b Bench) one(ctx context.Context, cell Cell, c Curve, t *tally) error {
	noise, axis := seeded(cell.Sigma/100, cell.Rate), c.thinned()
	search := searchers(noise)[cell.Search]
	keep := c.kept()
	for seed := range uint64(b.Seeds) {
		o, err := search(ctx, axis, axis.trial(seed, noise), seed)
		if err != nil {
			return fmt.Errorf("%s, σ %g %%, %s, seed %d: %w", cell.Search, cell.Sigma, c.Name, seed, err)
		}
		o.Chosen = keep[o.Chosen]
		for i, s := range o.Path {
			o.Path[i] = keep[s]
		}
		t.add(c, o)
	}
	return nil
}
