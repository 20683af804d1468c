package host_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// board is a device whose calls take as long as a test says.
type board struct {
	uuid   string
	delay  atomic.Int64 // of every call, ns
	visits atomic.Int64 // to the energy counter
	limit  atomic.Int64
}

func (b *board) wait()                              { time.Sleep(time.Duration(b.delay.Load())) }
func (b *board) Info() (host.GPUInfo, error)        { return host.GPUInfo{UUID: b.uuid}, nil }
func (b *board) Energy() (unit.Energy, error)       { b.wait(); b.visits.Add(1); return unit.Joule, nil }
func (b *board) Power() (unit.Power, error)         { return unit.Watt, nil }
func (b *board) Utilisation() (float64, error)      { return 0.5, nil }
func (b *board) Limit() (unit.Power, error)         { return unit.Power(b.limit.Load()), nil }
func (b *board) EnforcedLimit() (unit.Power, error) { return b.Limit() }
func (b *board) DefaultLimit() (unit.Power, error)  { return 300 * unit.Watt, nil }
func (b *board) LimitRange() (lo, hi unit.Power, err error) {
	return 100 * unit.Watt, 300 * unit.Watt, nil
}
func (b *board) Processes() ([]int, error) { return nil, host.ErrNotSupported }

func (b *board) SetLimit(p unit.Power) error {
	b.wait()
	b.limit.Store(int64(p))
	return nil
}

// library is a driver of such boards.
type library struct {
	boards []*board
	open   int // initialised less shut down
	fail   error
}

func (l *library) Init() error {
	if l.fail != nil {
		return l.fail
	}
	l.open++
	return nil
}
func (l *library) Shutdown() error          { l.open--; return nil }
func (l *library) Version() (string, error) { return "550.1", nil }
func (l *library) Devices() ([]host.Device, error) {
	var all []host.Device
	for _, b := range l.boards {
		all = append(all, b)
	}
	return all, nil
}

func open(t *testing.T, l *library) *host.GPUs {
	t.Helper()
	gpus := host.NewGPUs(l)
	if err := gpus.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	return gpus
}

func TestReadersOfOneMomentShareAVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{uuid: "GPU-a"}
		gpus := open(t, &library{boards: []*board{b}})
		defer gpus.Close()
		gpu := gpus.All()[0]
		for _, step := range []struct {
			pause, maxAge time.Duration
			visits        int64
		}{{0, time.Second, 1}, {time.Second, time.Second, 1}, {time.Millisecond, time.Second, 2}, {0, 0, 3}} {
			time.Sleep(step.pause)
			if _, err := gpu.Read(t.Context(), step.maxAge); err != nil {
				t.Fatal(err)
			}
			if got := b.visits.Load(); got != step.visits {
				t.Errorf("after %v with maxAge %v: %d visits, want %d", step.pause, step.maxAge, got, step.visits)
			}
		}
	})
}

func TestAHungBoardBlocksNobodyElseAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick, well := &board{uuid: "GPU-sick"}, &board{uuid: "GPU-well"}
		gpus := open(t, &library{boards: []*board{sick, well}})
		defer gpus.Close()
		sick.delay.Store(int64(time.Minute))
		if _, _, err := gpus.All()[0].Energy(t.Context()); !errors.Is(err, host.ErrHung) {
			t.Fatalf("a call of a minute: %v, want ErrHung", err)
		}
		began := time.Now()
		if _, err := gpus.All()[0].Limit(t.Context()); !errors.Is(err, host.ErrHung) || time.Since(began) > 0 {
			t.Errorf("the next call: %v after %v, want ErrHung at once", err, time.Since(began))
		}
		if _, _, err := gpus.All()[1].Energy(t.Context()); err != nil {
			t.Errorf("the other board: %v", err)
		}
		sick.delay.Store(0)
		time.Sleep(time.Minute)
		if _, _, err := gpus.All()[0].Energy(t.Context()); err != nil || gpus.All()[0].Hung() {
			t.Errorf("after the call came back: %v, hung %v", err, gpus.All()[0].Hung())
		}
	})
}

func TestALateWriteIsReadBackAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{uuid: "GPU-a"}
		gpus := open(t, &library{boards: []*board{b}})
		defer gpus.Close()
		gpu := gpus.All()[0]
		var told atomic.Int64
		gpu.OnLateWrite(func(now unit.Power, _ error) { told.Store(int64(now)) })
		b.delay.Store(int64(10 * time.Second))
		if _, err := gpu.SetLimit(t.Context(), 150*unit.Watt); !errors.Is(err, host.ErrHung) {
			t.Fatalf("SetLimit: %v, want ErrHung", err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := unit.Power(told.Load()); got != 150*unit.Watt {
			t.Errorf("told %v of the late write, want 150 W", got)
		}
		b.delay.Store(0)
		if now, err := gpu.SetLimit(t.Context(), 200*unit.Watt); err != nil || now != 200*unit.Watt {
			t.Errorf("the write after: %v, %v", now, err)
		}
		if got := unit.Power(told.Load()); got != 150*unit.Watt {
			t.Errorf("a write in time was told as late: %v", got)
		}
	})
}

func TestACancelledReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{uuid: "GPU-a"}
		gpus := open(t, &library{boards: []*board{b}})
		defer gpus.Close()
		b.delay.Store(int64(time.Second))
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		if _, _, err := gpus.All()[0].Energy(ctx); !errors.Is(err, cause) {
			t.Errorf("a cancelled read: %v", err)
		}
		time.Sleep(time.Second)
		if gpus.All()[0].Hung() {
			t.Error("a board whose reader left counts as hung")
		}
	})
}

func TestTheLibraryIsShutDownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{boards: []*board{{uuid: "GPU-a"}}}
		gpus := open(t, l)
		gpu := gpus.All()[0]
		if err := gpus.Close(); err != nil || l.open != 0 {
			t.Errorf("close: %v, %d open", err, l.open)
		}
		if err := gpus.Close(); err != nil || l.open != 0 {
			t.Errorf("close again: %v, %d open", err, l.open)
		}
		if _, err := gpu.Limit(t.Context()); !errors.Is(err, host.ErrNoDriver) {
			t.Errorf("a board after close: %v, want ErrNoDriver", err)
		}
	})
}

func TestNoDriverIsAReasonNotAnError(t *testing.T) {
	for name, gpus := range map[string]*host.GPUs{
		"none": host.NewGPUs(nil), "absent": host.NewGPUs(&library{fail: host.ErrNoDriver}),
	} {
		if err := gpus.Open(t.Context()); err != nil {
			t.Errorf("%s: open: %v", name, err)
		}
		if host.ReasonOf(gpus.Why()) != host.NoDriver || len(gpus.All()) != 0 {
			t.Errorf("%s: why %v, %d boards", name, gpus.Why(), len(gpus.All()))
		}
	}
	empty := &library{}
	gpus := open(t, empty)
	if host.ReasonOf(gpus.Why()) != host.NotSupported || empty.open != 0 {
		t.Errorf("a library without boards: why %v, %d open", gpus.Why(), empty.open)
	}
}

// mute is a board that does not say who it is.
type mute struct{ board }

func (*mute) Info() (host.GPUInfo, error) { return host.GPUInfo{}, host.ErrLost }

// halfLibrary lists a board that answers and one that does not.
type halfLibrary struct{ library }

func (halfLibrary) Devices() ([]host.Device, error) {
	return []host.Device{&mute{}, &board{uuid: "GPU-a"}}, nil
}

func TestABoardThatIsLeftOutIsSaid(t *testing.T) {
	gpus := host.NewGPUs(&halfLibrary{})
	if err := gpus.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(gpus.All()) != 1 || !errors.Is(gpus.Bad(), host.ErrLost) {
		t.Errorf("%d boards, left out because %v; want one, and one lost", len(gpus.All()), gpus.Bad())
	}
	if err := gpus.Close(); err != nil {
		t.Error(err)
	}
}

// TestPowerSamplesOfAPlainDevice: a device that says no more than its power has one sample, of now.
func TestPowerSamplesOfAPlainDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpus := host.NewGPUs(&library{boards: []*board{{uuid: "GPU-a"}}})
		if err := gpus.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer gpus.Close()
		g := gpus.All()[0]
		all, err := g.PowerSamples(t.Context())
		want := host.PowerSample{Power: unit.Watt, At: time.Now(), From: host.PowerUsage}
		if err != nil || len(all) != 1 || all[0] != want {
			t.Errorf("samples %+v, %v; want %+v", all, err, want)
		}
		if !g.HasCounter(t.Context()) {
			t.Error("its counter was not found")
		}
	})
}
