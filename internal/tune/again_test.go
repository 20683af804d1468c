package tune

import (
	"context"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shifted is the curve as if all that its states do lay so many states higher.
func (c curve) shifted(by int) curve {
	out := curve{name: c.name, label: c.label}
	for s := range c.rate {
		from := min(c.top(), max(0, s-by))
		out.rate, out.watts = append(out.rate, c.rate[from]), append(out.watts, c.watts[from])
	}
	return out
}

// sharp is a bend of which only the best state is in the band, and the highest does one piece of work a second.
func sharp(n int, best float64) curve {
	c := bend(n, best)
	rate := func(s int) float64 { return c.watts[s] / (1 + 2*math.Pow((float64(s)-best)/float64(n), 2)) }
	for s := range c.rate {
		c.rate[s] = rate(s) / rate(c.top())
	}
	return c
}

// leave is what a whole sweep of the curve leaves.
func (c curve) leave(t *testing.T, seed uint64, n noise, opts Options) *Prior {
	t.Helper()
	opts.Seed = seed + 1000
	return sweepOne(t, c, c.trial(opts.Seed, n), opts).Axes[0].Prior()
}

// again sweeps every curve from what before says an earlier sweep has left, and from nothing.
func again(t *testing.T, curves []curve, n noise, before func(c curve, seed uint64) *Prior) (fresh, from score) {
	t.Helper()
	for _, c := range curves {
		for seed := range uint64(*replaySeeds) {
			prior := before(c, seed)
			if prior == nil {
				continue
			}
			axis := c.axis()
			fresh.add(c, sweepOne(t, c, c.trial(seed, n), Options{Seed: seed}))
			axis.Prior = prior
			r, err := Sweep(t.Context(), []Axis{axis}, c.trial(seed, n), Options{Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if r.Axes[0].From != prior.State {
				t.Errorf("%s: started from %d, %d was chosen before", c.name, r.Axes[0].From, prior.State)
			}
			from.add(c, r)
		}
	}
	for _, a := range []*score{&fresh, &from} {
		a.wrong /= max(1, a.certified)
		for _, v := range []*float64{&a.inBand, &a.windows, &a.certified, &a.tooSlow} {
			*v /= a.sweeps
		}
	}
	t.Logf("%s: from nothing in band %.4f, %.2f windows, certified %.4f; from before in band %.4f, %.2f windows, certified %.4f, wrong %.4f, slow %.4f",
		t.Name(), fresh.inBand, fresh.windows, fresh.certified, from.inBand, from.windows, from.certified, from.wrong, from.tooSlow)
	return fresh, from
}

// A search that starts from what an earlier one has left is as right as one from nothing, wherever the optimum has gone,
// and takes far fewer windows where it has stayed.
func TestAgain(t *testing.T) {
	curves := readCurves(t, *replayDir)
	for _, sigma := range []float64{0.005, 0.02, 0.03} {
		n := seeded(sigma)
		for name, tt := range map[string]struct {
			before func(c curve, seed uint64) *Prior
			most   float64 // windows, as a share of those of a search from nothing
		}{
			"nothing has moved": {func(c curve, seed uint64) *Prior { return c.leave(t, seed, n, Options{}) }, 0.85},
			"it was a state lower": {func(c curve, seed uint64) *Prior {
				return c.shifted(-1).leave(t, seed, n, Options{})
			}, 1.1},
			"it was two states higher": {func(c curve, seed uint64) *Prior {
				return c.shifted(2).leave(t, seed, n, Options{})
			}, 1.1},
			"another curve": {func(c curve, seed uint64) *Prior {
				return strange(curves, c, seed).leave(t, seed, n, Options{})
			}, 1.1},
		} {
			t.Run(name, func(t *testing.T) {
				fresh, from := again(t, curves, n, tt.before)
				if from.inBand < min(fresh.inBand, 0.995)-0.003 || from.wrong > 0.01 || from.certified < fresh.certified-0.02 || from.tooSlow > 0.01 {
					t.Errorf("σ %v: not as right as from nothing", sigma)
				}
				if from.windows > tt.most*fresh.windows {
					t.Errorf("σ %v: %.2f windows, from nothing %.2f", sigma, from.windows, fresh.windows)
				}
			})
		}
	}
}

// strange is another curve over as many states, at the same level at the top.
func strange(curves []curve, c curve, seed uint64) curve {
	all := slices.DeleteFunc(slices.Clone(curves), func(o curve) bool { return o.top() != c.top() })
	o := all[rand.New(rand.NewPCG(seed, 9)).IntN(len(all))]
	out := curve{name: o.name, label: c.label}
	for s := range o.rate {
		out.rate = append(out.rate, o.rate[s]*c.rate[c.top()]/o.rate[o.top()])
		out.watts = append(out.watts, o.watts[s]*c.watts[c.top()]/o.watts[o.top()])
	}
	return out
}

// What is looked at where nothing has moved, and what the result says of it.
func TestAgainLooksAtThePointAndBesideIt(t *testing.T) {
	c := sharp(9, 4)
	quiet := noise{joules: 0.002, watts: 0.001}
	axis := c.axis()
	axis.Prior = c.leave(t, 1, quiet, Options{MaxSlowdown: ample})
	var phases []Phase
	r, err := Sweep(t.Context(), []Axis{axis}, c.trial(1, quiet), Options{MaxSlowdown: ample, Progress: func(p Progress) { phases = append(phases, p.Phase) }})
	if err != nil {
		t.Fatal(err)
	}
	x := r.Axes[0]
	if x.From != axis.Prior.State || x.Moved != "" || x.Chosen != axis.Prior.State || x.Verdict != Interior {
		t.Errorf("from %d, moved %q, chosen %d, %s; before %d", x.From, x.Moved, x.Chosen, x.Verdict, axis.Prior.State)
	}
	if slices.ContainsFunc(phases, func(p Phase) bool { return p != PhaseAgain }) {
		t.Errorf("phases %v", phases)
	}
	for s, st := range x.States {
		near := math.Abs(float64(s-x.From)) <= 1 || s == x.Found
		if (st.Windows > 0) != near || !near && !strings.Contains(st.Skipped, "when "+c.label[x.From]+" was chosen") {
			t.Errorf("state %d: %d windows, skipped %q", s, st.Windows, st.Skipped)
		}
	}
	if r.Saved.Value <= 0 || math.IsNaN(r.Slowdown.Value) {
		t.Errorf("saved %+v, slowdown %+v", r.Saved, r.Slowdown)
	}
}

// Why an earlier result is not believed any more.
func TestAgainSaysWhatHasMoved(t *testing.T) {
	quiet := noise{joules: 0.002, watts: 0.001}
	before, opts := sharp(9, 4), Options{MaxSlowdown: ample}
	scaled := func(c curve, rate, watts float64) curve {
		out := curve{name: c.name, label: c.label}
		for s := range c.rate {
			out.rate, out.watts = append(out.rate, c.rate[s]*rate), append(out.watts, c.watts[s]*watts)
		}
		return out
	}
	unbound := scaled(before, 1, 1)
	for s := range unbound.rate { // the work draws no more than the lowest cap leaves
		unbound.rate[s], unbound.watts[s] = before.rate[8], before.watts[8]
	}
	for name, tt := range map[string]struct {
		now  curve
		want string
	}{
		"the optimum":    {sharp(9, 6), "^[0-9]+ W against [0-9]+ W: .* than before$"},
		"other work":     {scaled(before, 3, 1), "^350 W: work per second 2[0-9.]{2,5} % higher than before$"},
		"another driver": {scaled(before, 1, 0.8), "^350 W: watts (19|20).[0-9] % lower than before$"},
		"no cap binds":   {unbound, "^[0-9]+ W against [0-9]+ W: .* than before$"},
	} {
		t.Run(name, func(t *testing.T) {
			axis := tt.now.axis()
			axis.Prior = before.leave(t, 1, quiet, opts)
			r, err := Sweep(t.Context(), []Axis{axis}, tt.now.trial(1, quiet), opts)
			if err != nil {
				t.Fatal(err)
			}
			fresh := sweepOne(t, tt.now, tt.now.trial(1, quiet), opts).Axes[0]
			if x := r.Axes[0]; x.Chosen != fresh.Chosen || x.Verdict != fresh.Verdict {
				t.Errorf("chosen %d, %s; from nothing %d, %s", x.Chosen, x.Verdict, fresh.Chosen, fresh.Verdict)
			}
			if !regexp.MustCompile(tt.want).MatchString(r.Axes[0].Moved) {
				t.Errorf("moved %q, want %q", r.Axes[0].Moved, tt.want)
			}
		})
	}
}

// A prior that tells too little leads to a search from nothing; one that no sweep can have left is refused.
func TestAPriorOfNoUse(t *testing.T) {
	c := bend(9, 4)
	for name, p := range map[string]*Prior{"nothing seen": {State: 4}, "half of it seen": {State: 4, Seen: []Seen{{State: 4}}}} {
		axis := c.axis()
		axis.Prior = p
		r, err := Sweep(t.Context(), []Axis{axis}, c.trial(1, noise{}), Options{MaxSlowdown: ample})
		if err != nil || r.Axes[0].From != Nothing || r.Axes[0].Moved != "" || r.Axes[0].Verdict != Interior {
			t.Errorf("%s: %+v, %v", name, r.Axes[0], err)
		}
	}
	for name, p := range map[string]*Prior{"chosen": {State: 9}, "below": {State: -1}, "seen": {State: 4, Seen: []Seen{{State: 9}}}} {
		axis := c.axis()
		axis.Prior = p
		if _, err := Sweep(t.Context(), []Axis{axis}, c.trial(1, noise{}), Options{}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, v := range []Verdict{Flat, Uncertified, NoEnergy} {
		if (AxisResult{Verdict: v}).Prior() != nil {
			t.Errorf("%s leaves something", v)
		}
	}
}

// What was measured on one axis while another stood elsewhere than it stands now tells nothing.
func TestAgainOnTwoAxes(t *testing.T) {
	gov, gpu := bend(3, 1), bend(9, 4)
	trial := func(n float64) Trial {
		rng := rand.New(rand.NewPCG(7, 7))
		return func(_ context.Context, s []int) (Sample, error) {
			work := gov.rate[s[0]] * gpu.rate[s[1]]
			return Sample{Work: work, Seconds: 1, Joules: work * gov.cost(s[0]) * gpu.cost(s[1]) * (1 + n*rng.NormFloat64()),
				AchievedBy: []float64{gov.watts[s[0]], gpu.watts[s[1]]}}, nil
		}
	}
	opts := Options{MaxSlowdown: ample}
	axes := []Axis{gov.axis(), gpu.axis()}
	first, err := Sweep(t.Context(), axes, trial(0.002), opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range axes {
		if axes[i].Prior = first.Axes[i].Prior(); axes[i].Prior == nil {
			t.Fatalf("axis %d: %s", i, first.Axes[i].Verdict)
		}
	}
	second, err := Sweep(t.Context(), axes, trial(0.002), opts)
	if err != nil || !slices.Equal(second.Chosen, first.Chosen) || second.Windows >= first.Windows || second.Axes[1].From != first.Chosen[1] {
		t.Errorf("%v, chosen %v in %d windows; before %v in %d", err, second.Chosen, second.Windows, first.Chosen, first.Windows)
	}
	gov = bend(3, 3) // now the first axis is best elsewhere
	third, err := Sweep(t.Context(), axes, trial(0.002), opts)
	if err != nil || third.Chosen[0] == first.Chosen[0] || third.Axes[0].Moved == "" || third.Axes[1].From != Nothing {
		t.Errorf("%v, chosen %v, moved %q, second axis from %d", err, third.Chosen, third.Axes[0].Moved, third.Axes[1].From)
	}
}
