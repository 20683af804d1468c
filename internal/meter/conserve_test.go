package meter

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// badBoard is a board whose counter moves in steps, at a power that changes, and misbehaves now and then.
type badBoard struct {
	board100W
	step time.Duration

	mu    sync.Mutex
	rnd   *rand.Rand
	at    time.Time // up to here energy is drawn
	drawn float64   // µJ
	watts float64
	base  float64 // µJ: of the counter's zero
	bad   bool    // faults happen
}

func (b *badBoard) Devices() ([]host.Device, error) { return []host.Device{b}, nil }

// turn sets the power from now on.
func (b *badBoard) turn(watts float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw(time.Now())
	b.watts = watts
}

func (b *badBoard) draw(to time.Time) {
	b.drawn += b.watts * 1e6 * to.Sub(b.at).Seconds()
	b.at = to
}

func (b *badBoard) Energy() (unit.Energy, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := time.Since(b.began); since/b.step != b.at.Sub(b.began)/b.step {
		b.draw(b.began.Add(since / b.step * b.step))
	}
	e := unit.Energy(b.drawn-b.base) / unit.Millijoule * unit.Millijoule
	if !b.bad {
		return e, nil
	}
	switch b.rnd.IntN(60) {
	case 0:
		return 0, errors.New("input/output error")
	case 1:
		return 0, nil // a glitch
	case 2:
		return e + 100*unit.Kilojoule, nil
	case 3:
		if b.rnd.IntN(5) == 0 {
			b.base = b.drawn // the driver was loaded anew
		}
	}
	return e, nil
}

// TestEnergyIsConservedBetweenSteps opens, marks and closes windows of many owners at any moment between the steps
// of a counter that is followed, some waiting for a step, under faults and changes of the operating point: what they were
// charged and what nobody was is all that was measured.
func TestEnergyIsConservedBetweenSteps(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { conserve(t, rand.New(rand.NewPCG(seed, 9)), seed%2 == 1) })
		})
	}
}

func conserve(t *testing.T, rnd *rand.Rand, bad bool) {
	now := time.Now()
	b := &badBoard{
		board100W: board100W{began: now}, at: now, watts: 50, bad: bad, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 1)),
		step: []time.Duration{10, 20, 100}[rnd.IntN(3)] * time.Millisecond,
	}
	tr := powercapTree(t, nil, "intel-rapl:0 package-0")
	tr.h.GPUs = host.NewGPUs(b)
	ctx, cancel := context.WithCancel(context.Background())
	if err := tr.h.GPUs.Open(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := New(ctx, tr.h, Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var running, owners sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	var mu sync.Mutex
	var charged unit.Energy
	windows := 0
	for owner := range uint32(6) {
		own := rand.New(rand.NewPCG(uint64(owner), rnd.Uint64()))
		owners.Go(func() {
			for range 40 {
				time.Sleep(time.Duration(own.ExpFloat64() * float64(150*time.Millisecond)))
				w, err := m.Open(ctx, OpenRequest{
					Name: "w", Owner: owner, Exact: true, Devices: []string{"gpu"}, Weight: 0.5 + own.Float64(), WaitEdge: own.IntN(6) == 0,
				})
				if err != nil {
					t.Error(err)
					return
				}
				b.turn([]float64{50, 300}[own.IntN(2)])
				time.Sleep(time.Duration(own.ExpFloat64() * float64(300*time.Millisecond)))
				switch own.IntN(8) {
				case 1:
					_, _ = w.Mark(ctx, "stage")
				case 2:
					m.SetCondition(ctx, strconv.Itoa(own.IntN(3)))
				}
				res, err := w.Close(ctx, CloseRequest{Synced: true, WaitEdge: own.IntN(6) == 0})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				charged += res.Devices[0].Gross
				windows++
				mu.Unlock()
			}
		})
	}
	owners.Wait()
	time.Sleep(3 * time.Second) // what was forecast is known by now
	m.Tick(ctx)
	cancel()
	running.Wait()
	line := &m.device("gpu/GPU-bench").line
	if len(line.members) != 0 {
		t.Errorf("%d windows are left", len(line.members))
	}
	sum := float64(charged) + line.loose.whole + line.loose.frac + line.carry
	if math.Abs(sum-float64(line.measured)) > 1 || charged == 0 {
		t.Errorf("%d windows charged %v, %v unattributed, of %v: %g µJ are missing",
			windows, charged, unit.Energy(line.loose.whole), line.measured, float64(line.measured)-sum)
	}
	if drawn := unit.Energy(b.drawn); !bad && (line.measured > drawn || line.measured < drawn-drawn/50) {
		t.Errorf("measured %v of %v drawn", line.measured, drawn)
	}
	if err := tr.h.GPUs.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhoPaysWhat is the arithmetic of sharing: a board draws 300 W and rests at 50.
func TestWhoPaysWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		b := &badBoard{board100W: board100W{began: now}, at: now, watts: 300, step: time.Millisecond}
		tr := powercapTree(t, nil, "intel-rapl:0 package-0")
		tr.h.GPUs = host.NewGPUs(b)
		ctx, cancel := context.WithCancel(context.Background())
		if err := tr.h.GPUs.Open(ctx); err != nil {
			t.Fatal(err)
		}
		m, err := New(ctx, tr.h, Options{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx) })
		time.Sleep(5 * time.Second)
		open := func(floor float64) *Window {
			w, err := m.Open(ctx, OpenRequest{Name: "w", Exact: true, Devices: []string{"gpu"}, IdleWatts: map[string]float64{"gpu": floor}})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		closes := func(name string, w *Window, want float64, share string) {
			res, err := w.Close(ctx, CloseRequest{Synced: true})
			if err != nil || math.Abs(res.Energy.Joules()-want) > 1 || res.Share != share {
				t.Errorf("%s: %v ± %v, %s; want %g J, %s (%v)", name, res.Energy, res.HalfWidth, res.Share, want, share, err)
			}
		}
		line := &m.device("gpu/GPU-bench").line
		a := open(50)
		time.Sleep(5 * time.Second)
		second := open(50)
		time.Sleep(5 * time.Second)
		closes("A, 0 to 10 s", a, 1875, "shared")
		closes("B, 5 to 10 s", second, 625, "shared")

		short := open(50)
		time.Sleep(4 * time.Second)
		closes("0 to 4 s", short, 1000, "exclusive")
		before := line.loose
		time.Sleep(6 * time.Second)
		m.Tick(ctx)
		if rest := line.loose.since(before) / 1e6; math.Abs(rest-1800) > 1 {
			t.Errorf("4 to 10 s: %g J unattributed, want 1800", rest)
		}
		cancel()
		running.Wait()
		if err := tr.h.GPUs.Close(); err != nil {
			t.Error(err)
		}
	})
}
