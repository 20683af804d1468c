package meter_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/meter"
)

// The laptop's board sleeps, and the driver's library is left shut for it.
func TestASleepingBoardIsWokenOnlyIfTheWindowSaysSo(t *testing.T) {
	on(t, "laptop", func(r *rig) {
		ctx := context.Background()
		gpus := r.sim.Host().GPUs
		time.Sleep(time.Minute)
		if r.sim.Wakes("gpu0") != 0 || len(gpus.Waiting()) == 0 {
			t.Fatalf("%d wakes, waiting for %v", r.sim.Wakes("gpu0"), gpus.Waiting())
		}
		if w := r.open(meter.OpenRequest{Exact: true}); slices.ContainsFunc(w.Devices(), func(d string) bool { return d[:3] == "gpu" }) {
			t.Errorf("by default a sleeping board is charged: %v", w.Devices())
		} else {
			r.close(w, meter.CloseRequest{})
		}
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
		time.Sleep(5 * time.Second)
		res := r.close(w, meter.CloseRequest{Synced: true})
		has(t, res.Reasons, meter.ReasonSleeping)
		if res.Method != meter.Unknown || len(res.Devices) != 0 || slices.Contains(res.Reasons, meter.ReasonNoGPU) {
			t.Errorf("%+v", res)
		}
		if _, err := r.Open(ctx, meter.OpenRequest{Name: "a", Devices: []string{"gpu/GPU-x"}}); !errors.Is(err, meter.ErrUnknownDevice) {
			t.Errorf("a board by its name: %v", err)
		}
		cpu := r.open(meter.OpenRequest{Exact: true, Devices: []string{"cpu"}, MayWake: true})
		if r.sim.Wakes("gpu0") != 0 || gpus.Wakes() != 0 {
			t.Fatalf("%d wakes, %d counted, before any window may", r.sim.Wakes("gpu0"), gpus.Wakes())
		}
		r.close(cpu, meter.CloseRequest{})

		w = r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}, MayWake: true})
		if r.sim.Wakes("gpu0") != 1 || gpus.Wakes() != 1 || len(w.Devices()) != 1 {
			t.Fatalf("%d wakes, %d counted, devices %v", r.sim.Wakes("gpu0"), gpus.Wakes(), w.Devices())
		}
		r.sim.SetLoad("gpu0", 1)
		before := r.sim.Truth("gpu0")
		time.Sleep(30 * time.Second)
		want := r.sim.Truth("gpu0") - before
		res = r.close(w, meter.CloseRequest{Synced: true})
		if res.Method != meter.Sampled || slices.Contains(res.Reasons, meter.ReasonSleeping) {
			t.Errorf("%s, %v", res.Method, res.Reasons)
		}
		within(t, "the woken board", res.Energy, want, res.HalfWidth)
		again := r.open(meter.OpenRequest{Exact: true, MayWake: true})
		if r.sim.Wakes("gpu0") != 1 || gpus.Wakes() != 1 || !slices.Contains(again.Devices(), w.Devices()[0]) {
			t.Errorf("an awake board is woken: %d wakes; %v", r.sim.Wakes("gpu0"), again.Devices())
		}
		r.close(again, meter.CloseRequest{})
	})
}

// A board that its own work has woken can be metered from then on.
func TestABoardThatWakesIsTakenIn(t *testing.T) {
	on(t, "laptop", func(r *rig) {
		ctx := context.Background()
		time.Sleep(time.Minute)
		r.sim.SetLoad("gpu0", 1)
		if _, err := r.sim.Host().GPUs.Retry(ctx); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Adopt(ctx), r.Adopt(ctx)); err != nil {
			t.Fatal(err)
		}
		w := r.open(meter.OpenRequest{Exact: true})
		gpus := 0
		for _, d := range w.Devices() {
			if d[:3] == "gpu" {
				gpus++
			}
		}
		time.Sleep(10 * time.Second)
		if res := r.close(w, meter.CloseRequest{Synced: true}); gpus != 1 || res.Method != meter.Sampled {
			t.Errorf("%d boards, %s, %v", gpus, res.Method, res.Reasons)
		}
		for _, s := range r.Sensors() {
			if s.Reason == meter.ReasonNoGPU {
				t.Errorf("%+v beside a board", s)
			}
		}
	})
}

// A card whose driver is the kernel's is woken by a look at its sensor.
func TestASleepingCardIsWokenOnlyIfTheWindowSaysSo(t *testing.T) {
	on(t, "amd", func(r *rig) {
		if err := r.sim.Foreign("sys/bus/pci/devices/0000:03:00.0/power/control", "auto"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w := r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}})
		time.Sleep(5 * time.Second)
		res := r.close(w, meter.CloseRequest{Synced: true})
		has(t, res.Reasons, meter.ReasonSleeping)
		if n := r.sim.Wakes("gpu0"); n != 0 || res.Method != meter.Unknown {
			t.Fatalf("%d wakes; %s", n, res.Method)
		}
		w = r.open(meter.OpenRequest{Exact: true, Devices: []string{"gpu"}, MayWake: true})
		if n, counted := r.sim.Wakes("gpu0"), r.sim.Host().GPUs.Wakes(); n != 1 || counted != 1 {
			t.Errorf("%d wakes, %d counted", n, counted)
		}
		time.Sleep(10 * time.Second)
		if res := r.close(w, meter.CloseRequest{Synced: true}); res.Method != meter.Sampled || slices.Contains(res.Reasons, meter.ReasonSleeping) {
			t.Errorf("%s, %v", res.Method, res.Reasons)
		}
	})
}
