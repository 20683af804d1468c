package benchmeter

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
)

// The loads.
const (
	Constant  = "constant"  // at rest; busy from the moment the window is open
	Step      = "step"      // one change at any moment of the window, half of them up and half of them down
	StepUp    = "step_up"   // the upward half of them
	StepDown  = "step_down" // the downward half
	Telegraph = "telegraph" // up and down all the time
)

// The modes of the meter.
const (
	Aligned  = "aligned"   // as it is by default
	Plain    = "plain"     // edges are left where the counter's readings are
	WaitEdge = "wait_edge" // open and close wait for the counter's step
)

// Cell is one combination that is measured.
type Cell struct {
	Load   string
	Step   time.Duration // the counter's period
	Window time.Duration
	Mode   string
}

func (c Cell) String() string {
	return fmt.Sprintf("%s/step_%v/window_%v/%s", c.Load, c.Step, c.Window, c.Mode)
}

// minSteps is how many steps of the counter a window must span for its figure to be a measurement.
const minSteps = 3

// Short reports whether the cell's windows are too short to be measured.
func (c Cell) Short() bool { return c.Window < minSteps*c.Step }

// Options are what holds for every cell.
type Options struct {
	Seed   uint64
	Jitter float64       // of the counter's steps, as a share of its period
	Vary   float64       // windows are longer by any share of a step up to this, so that they end at any phase of it
	Call   time.Duration // that a call of the driver takes
}

// Figure is one window's result beside the truth, in joules.
type Figure struct {
	Truth     float64
	Energy    float64
	HalfWidth float64
	Bound     float64 // the upper bound, where there is one
	Bounded   bool
	Sampled   bool
	Short     bool // the stretch it is of is under minSteps steps
	Astray    bool // with wait_edge: it ended before it was asked to, or after the step that follows
	// What the same window is as a difference of two readings of the counter, and the energy between the two.
	Difference      float64
	DifferenceTruth float64
}

// bench is one board with a meter that runs, in faked time.
type bench struct {
	cell    Cell
	options Options
	rnd     *rand.Rand
	counter *Counter
	meter   *meter.Meter
}

// Measure runs n windows of a cell on one meter. It must be called in a synctest bubble; dir is empty. The seed of batch i
// is its own.
func (c Cell) Measure(ctx context.Context, o Options, dir string, i, n int) (figures []Figure, err error) {
	name := fnv.New64a()
	fmt.Fprintf(name, "%v/%d", c, i)
	b := &bench{cell: c, options: o, rnd: rand.New(rand.NewPCG(o.Seed, name.Sum64()))}
	load := NewLoad(rest)
	if c.Load == Telegraph {
		load = NewTelegraph(rand.New(rand.NewPCG(b.rnd.Uint64(), 1)))
	}
	b.counter = newCounter(load, o, c.Step, b.rnd)
	h := &host.Host{
		Sys: host.NewDir(filepath.Join(dir, "sys"), nil), Proc: host.NewDir(filepath.Join(dir, "proc"), nil),
		GPUs: host.NewGPUs(b.counter), Asleep: func() time.Duration { return 0 },
	}
	if err := h.GPUs.Open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.GPUs.Close()) }()
	b.meter, err = meter.New(ctx, h, meter.Options{Plain: c.Mode == Plain}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.meter.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	for len(figures) < n {
		f, err := b.window(ctx)
		if err != nil {
			return nil, fmt.Errorf("%v: window %d: %w", c, len(figures), err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// window measures one window, after a pause in which the board is at rest.
func (b *bench) window(ctx context.Context) (Figure, error) {
	from, to := rest, busy
	if b.cell.Load == StepDown || b.cell.Load == Step && b.rnd.IntN(2) == 1 {
		from, to = busy, rest
	}
	b.set(b.counter.now(), from)
	time.Sleep(b.between(2*time.Second, 6*time.Second))

	var f Figure
	asked := b.counter.now()
	before := b.counter.shows(asked)
	w, err := b.meter.Open(ctx, meter.OpenRequest{Name: "bench", Devices: []string{"gpu"}, WaitEdge: b.cell.Mode == WaitEdge})
	if err != nil {
		return f, err
	}
	opened := b.counter.now()
	work := b.work()
	switched := opened
	if b.cell.Load != Constant {
		switched += b.between(0, work)
	}
	b.set(switched, to)
	time.Sleep(work)

	ask := b.counter.now()
	after := b.counter.shows(ask)
	res, err := w.Close(ctx, meter.CloseRequest{Synced: true, WaitEdge: b.cell.Mode == WaitEdge})
	if err != nil {
		return f, err
	}
	if len(res.Devices) != 1 {
		return f, fmt.Errorf("figures for %d devices, want one", len(res.Devices))
	}
	f = figure(res)
	f.Difference, f.DifferenceTruth = (after - before).Joules(), b.counter.Load.Joules(asked, ask)
	f.Truth, f.Short = f.DifferenceTruth, ask-asked < minSteps*b.cell.Step
	if b.cell.Mode == WaitEdge {
		begun, covers := res.Devices[0].Began.Sub(b.counter.began), res.Devices[0].Duration
		f.Truth = b.counter.Load.Joules(begun, begun+covers)
		f.Short = covers.Round(b.cell.Step) < minSteps*b.cell.Step // whole steps, but for how they are late and when they are seen
		f.Astray = opened-begun > b.cell.Step/8 || begun+covers < ask || begun+covers > ask+b.longest()
	}
	return f, nil
}

// set changes what the board draws, unless it does that by itself.
func (b *bench) set(from time.Duration, watts int64) {
	if b.cell.Load != Telegraph {
		b.counter.Load.Set(from, watts)
	}
}

// work is for how long the client works. One that waits for the counter ends in between two steps, and its window at the
// next: it is the cell's long.
func (b *bench) work() time.Duration {
	if b.cell.Mode != WaitEdge {
		return b.cell.Window + time.Duration(b.options.Vary*b.rnd.Float64()*float64(b.cell.Step))
	}
	return b.cell.Window - b.between(0, min(b.cell.Step, b.cell.Window))
}

// longest is the most that may be between a moment and the counter's next step, seen half a step late.
func (b *bench) longest() time.Duration {
	return b.counter.Period + b.counter.Period/2 + b.counter.Jitter + b.counter.Call
}

// between returns any time from lo to hi.
func (b *bench) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(b.rnd.Int64N(int64(hi-lo)))
}

func figure(res meter.Result) Figure {
	return Figure{
		Energy: res.Energy.Joules(), HalfWidth: res.HalfWidth.Joules(), Sampled: res.Method == meter.Sampled,
		Bound: res.UpperBound.Joules(), Bounded: res.HasUpperBound,
	}
}
