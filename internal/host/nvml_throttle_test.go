//go:build cgo && linux

package host_test

import (
	"errors"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
)

func nvmlThrottling(t *testing.T, lib string) {
	const untold = -1
	for _, c := range []struct {
		name  string
		files map[string]string
		now   host.Slowdown
		told  bool
		spent time.Duration
	}{
		{"a board that tells nothing", nil, 0, false, untold},
		{"nothing is the matter", map[string]string{"reasons": "0"}, 0, true, untold},
		{"idle, clocks set, the power cap, sync boost, display, board, reliability", map[string]string{"reasons": "1815"}, 0, true, untold},
		{"the driver's guard against heat", map[string]string{"reasons": "32"}, host.SlowHeat, true, untold},
		{"the chip's guard against heat", map[string]string{"reasons": "72"}, host.SlowHotChip, true, untold},
		{"the power supply's brake, and the cap", map[string]string{"reasons": "140"}, host.SlowPowerBrake, true, untold},
		{"the chip's brake", map[string]string{"reasons": "8"}, host.SlowChip, true, untold},
		{"all of them", map[string]string{"reasons": "232"}, host.SlowHeat | host.SlowHotChip | host.SlowPowerBrake, true, untold},
		{"a board without such reasons", map[string]string{"reasons": "32", "reasons_supported": "7"}, 0, false, untold},
		{"a board with them", map[string]string{"reasons": "32", "reasons_supported": "2047"}, host.SlowHeat, true, untold},
		{"counters", map[string]string{"sw_therm_ns": "5000000000000", "hw_therm_ns": "20", "brake_ns": "1"}, 0, false, 5_000*time.Second + 21},
		{"one counter", map[string]string{"hw_therm_ns": "20", "thermal_ns": "900"}, 0, false, 20},
		{"an older counter", map[string]string{"thermal_ns": "900"}, 0, false, 900},
		{"a counter of nonsense", map[string]string{"sw_therm_ns": "18446744073709551615"}, 0, false, untold},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, 1)
			for name, value := range c.files {
				m.put(0, name, value)
			}
			got, err := m.board(lib).Throttling(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Now != c.now || c.told != (got.NowErr == nil) || !c.told && !errors.Is(got.NowErr, host.ErrNotSupported) {
				t.Errorf("now %v (%v), want %v", got.Now, got.NowErr, c.now)
			}
			if c.spent == untold && got.SpentErr == nil || c.spent != untold && (got.Spent != c.spent || got.SpentErr != nil) {
				t.Errorf("spent %v (%v), want %v", got.Spent, got.SpentErr, c.spent)
			}
		})
	}
	m := newMachine(t, 1)
	m.put(0, "reasons", "32")
	g := m.board(lib)
	m.put(0, "fail", "* 15")
	if got, err := g.Throttling(t.Context()); err != nil || !errors.Is(got.NowErr, host.ErrLost) || !errors.Is(got.SpentErr, host.ErrLost) {
		t.Errorf("of a lost board: %+v, %v", got, err)
	}
}
