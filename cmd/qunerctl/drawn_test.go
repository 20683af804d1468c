package main

import (
	"testing"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestWhatAllDrewIsToldOfASharedWindow(t *testing.T) {
	joule := func(n int64) *int64 { n *= 1e6; return &n }
	device := func(total *int64, coverage float64) *qunerv1.DeviceEnergy {
		return &qunerv1.DeviceEnergy{Device: "gpu/a", DeviceTotalUj: total, Coverage: coverage}
	}
	for name, c := range map[string]struct {
		share   string
		devices []*qunerv1.DeviceEnergy
		want    int64
	}{
		"shared":         {"shared", []*qunerv1.DeviceEnergy{device(joule(100), 1), device(joule(25), 1)}, 125e6},
		"alone":          {"exclusive", []*qunerv1.DeviceEnergy{device(joule(100), 1)}, 0},
		"one not known":  {"shared", []*qunerv1.DeviceEnergy{device(joule(100), 1), device(nil, 1)}, 0},
		"with a gap":     {"shared", []*qunerv1.DeviceEnergy{device(joule(100), 0.7)}, 0},
		"with no device": {"shared", nil, 0},
	} {
		got, ok := drawnByAll(&qunerv1.WindowResult{Share: c.share, DurationNs: int64(time.Second), Devices: c.devices})
		if got != c.want && ok || ok != (c.want != 0) {
			t.Errorf("%s: %d µJ, %v; want %d", name, got, ok, c.want)
		}
	}
}
