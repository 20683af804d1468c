package main

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/qunerd/quner/internal/tune"
)

// Noise is how a replayed window strays from the curve: relative standard deviations of independent normal errors. Joules
// per work are cost × (1 + joules·z), whatever the errors of the others.
type Noise struct {
	Joules float64 // of joules per work
	Watts  float64 // of the device's watts
	Rate   float64 // of work/s
}

// seeded is the noise of the bars at σ, and with so many σ on work/s.
func seeded(sigma, rate float64) Noise {
	return Noise{Joules: sigma, Watts: sigma / 2, Rate: rate * sigma}
}

// trial replays a curve. Each curve has noise of its own for each seed.
func (c Curve) trial(seed uint64, n Noise) tune.Trial {
	name := fnv.New64a()
	_, _ = name.Write([]byte(c.Name)) // a hash never fails
	rng := rand.New(rand.NewPCG(seed, name.Sum64()))
	positive := func(sigma float64) float64 { return max(0.01, 1+sigma*rng.NormFloat64()) }
	return func(_ context.Context, state []int) (tune.Sample, error) {
		s := state[0]
		joules, watts, rate := positive(n.Joules), positive(n.Watts), positive(n.Rate)
		return tune.Sample{
			Work: c.Rate[s] * rate, Seconds: 1,
			Joules:   c.Rate[s] * rate * c.cost(s) * joules,
			Achieved: c.Watts[s] * watts,
		}, nil
	}
}

// Outcome is what a search came to.
type Outcome struct {
	Chosen    int
	Windows   int
	Flat      bool
	Certified bool
	Path      []int // the state it would have chosen after each window

	Tells           bool // of the two figures below: the search of internal/tune does
	Saved, Slowdown tune.Interval
}

// Searcher is a search along one curve, the state found being the highest.
type Searcher func(ctx context.Context, c Curve, trial tune.Trial, seed uint64) (Outcome, error)

// certified is the search of internal/tune.
func certified(ctx context.Context, c Curve, trial tune.Trial, seed uint64) (Outcome, error) {
	return c.search(ctx, nil, trial, seed)
}

// search searches along the curve, from what an earlier sweep has left if there is such.
func (c Curve) search(ctx context.Context, prior *tune.Prior, trial tune.Trial, seed uint64) (Outcome, error) {
	var o Outcome
	axis := c.axis()
	axis.Prior = prior
	r, err := tune.Sweep(ctx, []tune.Axis{axis}, trial, tune.Options{
		MaxSlowdown: maxSlowdown, Seed: seed, Progress: func(p tune.Progress) { o.Path = append(o.Path, p.Best) },
	})
	if err != nil {
		return o, err
	}
	x := r.Axes[0]
	o.Chosen, o.Windows = x.Chosen, r.Windows
	o.Flat = x.Verdict == tune.Flat
	o.Certified = x.Verdict == tune.Interior || x.Verdict == tune.Edge
	o.Tells, o.Saved, o.Slowdown = true, r.Saved, r.Slowdown
	return o, nil
}

// Score is the figures of a replay: shares 0…1, regret as a fraction. Windows include the pre-check.
type Score struct {
	InBand         float64 `json:"in_band"`
	MeanWindows    float64 `json:"mean_windows"`
	MeanRegret     float64 `json:"mean_regret"`
	P99Regret      float64 `json:"p99_regret"`
	Certified      float64 `json:"certified"`
	WrongCertified float64 `json:"wrong_certified"` // of the certified
	FlatRecall     float64 `json:"flat_recall"`
	SlowViolations float64 `json:"slow_violations"`
	Told           int     `json:"told"`          // sweeps that chose something else than found and told its saving; none: no figures
	SavedHeld      float64 `json:"saved_held"`    // of the 95 % intervals of the saving, where something else was chosen than found
	SlowdownHeld   float64 `json:"slowdown_held"` // of those of the slowdown
	SavedHalf      float64 `json:"saved_half"`    // the mean half-width of the saving's interval
	Sweeps         int     `json:"sweeps"`        // over curves that are not flat

	ByBudget []float64 `json:"-"` // share in band if the sweep had to end after 1, 2, … windows
}

// tally counts outcomes.
type tally struct {
	judged, right           int // flat or not
	sweeps, inBand, windows int
	certified, wrong, slow  int
	told, saved, slowdown   int // sweeps that told of a saving, and of these the intervals that hold the truth
	half                    float64
	regret                  float64
	regrets                 []float64
	byBudget                []int
	names                   map[string]int // curves that were missed, and how often
}

// budgets is how many windows the plot of the budget goes to.
const budgets = 40

// add takes an outcome in.
func (t *tally) add(c Curve, o Outcome) {
	spread := c.spread()
	if spread < flatBelow || spread > flatAbove {
		t.judged++
		if o.Flat == (spread < flatBelow) {
			t.right++
		}
	}
	if spread <= flatAbove {
		return
	}
	regret := c.regret(o.Chosen)
	inside := regret <= tune.Band
	t.sweeps++
	t.windows += o.Windows
	t.regret += regret
	t.regrets = append(t.regrets, regret)
	if inside {
		t.inBand++
	} else {
		if t.names == nil {
			t.names = map[string]int{}
		}
		t.names[c.Name]++
	}
	if o.Certified {
		t.certified++
		if !inside {
			t.wrong++
		}
	}
	if !c.allowed(o.Chosen) {
		t.slow++
	}
	t.tell(c, o)
	if len(o.Path) == 0 {
		return
	}
	if t.byBudget == nil {
		t.byBudget = make([]int, budgets)
	}
	for b := range t.byBudget {
		at := o.Chosen
		if b < len(o.Path)-1 {
			at = o.Path[b]
		}
		if c.regret(at) <= tune.Band {
			t.byBudget[b]++
		}
	}
}

// tell holds what the search told of its choice against the curve. A spread that is not known yet bounds nothing, and is none.
func (t *tally) tell(c Curve, o Outcome) {
	if !o.Tells || o.Chosen == c.top() || math.IsInf(o.Saved.Low, 0) {
		return
	}
	holds := func(i tune.Interval, truth float64) int {
		if i.Low-1e-9 <= truth && truth <= i.High+1e-9 { // work/s without noise is told to the last digit
			return 1
		}
		return 0
	}
	t.told++
	t.saved += holds(o.Saved, 1-c.cost(o.Chosen)/c.cost(c.top()))
	t.slowdown += holds(o.Slowdown, 1-c.Rate[o.Chosen]/c.Rate[c.top()])
	t.half += (o.Saved.High - o.Saved.Low) / 2
}

// merge takes another tally in.
func (t *tally) merge(o tally) {
	for _, v := range [][2]*int{
		{&t.judged, &o.judged}, {&t.right, &o.right}, {&t.sweeps, &o.sweeps}, {&t.inBand, &o.inBand},
		{&t.windows, &o.windows}, {&t.certified, &o.certified}, {&t.wrong, &o.wrong}, {&t.slow, &o.slow},
		{&t.told, &o.told}, {&t.saved, &o.saved}, {&t.slowdown, &o.slowdown},
	} {
		*v[0] += *v[1]
	}
	t.regret += o.regret
	t.half += o.half
	t.regrets = append(t.regrets, o.regrets...)
	if t.byBudget == nil {
		t.byBudget = slices.Clone(o.byBudget)
	} else {
		for b, n := range o.byBudget {
			t.byBudget[b] += n
		}
	}
	for name, n := range o.names {
		if t.names == nil {
			t.names = map[string]int{}
		}
		t.names[name] += n
	}
}

// score makes shares of the counts.
func (t *tally) score() Score {
	share := func(part, whole int) float64 {
		if whole == 0 {
			return 0
		}
		return float64(part) / float64(whole)
	}
	s := Score{
		InBand: share(t.inBand, t.sweeps), MeanWindows: share(t.windows, t.sweeps), Sweeps: t.sweeps,
		Certified: share(t.certified, t.sweeps), WrongCertified: share(t.wrong, t.certified),
		SlowViolations: share(t.slow, t.sweeps), FlatRecall: 1,
		Told: t.told, SavedHeld: share(t.saved, t.told), SlowdownHeld: share(t.slowdown, t.told), SavedHalf: t.half / float64(max(t.told, 1)),
	}
	if t.judged > 0 {
		s.FlatRecall = share(t.right, t.judged)
	}
	if t.sweeps > 0 {
		slices.Sort(t.regrets)
		s.MeanRegret = t.regret / float64(t.sweeps)
		s.P99Regret = t.regrets[int(math.Ceil(0.99*float64(t.sweeps)))-1]
	}
	for _, n := range t.byBudget {
		s.ByBudget = append(s.ByBudget, share(n, t.sweeps))
	}
	return s
}
