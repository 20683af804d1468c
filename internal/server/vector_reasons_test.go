package server

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/host"
)

// zoneVectors are about which counters make the sum.
func zoneVectors() []vector {
	zoneAt := func(dir, name string, watts float64) zone {
		return zone{dir: dir, name: name, life: evenly(1e9, watts), most: wide}
	}
	return []vector{
		{name: "zones", input: "package-0 +10 J, psys +25, core +8, uncore +1, dram +3 in 1 s",
			machine: machine{zones: []zone{
				zoneAt("intel-rapl:0", "package-0", 10), zoneAt("intel-rapl:0:0", "core", 8), zoneAt("intel-rapl:0:1", "uncore", 1),
				zoneAt("intel-rapl:0:2", "dram", 3), zoneAt("intel-rapl:1", "psys", 25),
			}}, lasts: second, live: true,
			want: want{method: "sampled", joules: []float64{10, 3}, sum: 13, platform: 25, within: 0.01, covers: 1}},
		{name: "MMIO twin", input: "package 70 / dram 70 W, both again under mmio, 1 s",
			machine: machine{zones: []zone{
				zoneAt("intel-rapl-mmio:0", "package-0", 70), zoneAt("intel-rapl-mmio:0:0", "dram", 70),
				zoneAt("intel-rapl:0", "package-0", 70), zoneAt("intel-rapl:0:0", "dram", 70),
			}}, lasts: second, live: true,
			want: want{method: "sampled", joules: []float64{70, 70}, sum: 140, within: 0.01, covers: 1}},
		{name: "MMIO alone", input: "a package under mmio only, 70 W, 1 s",
			machine: machine{zones: []zone{zoneAt("intel-rapl-mmio:0", "package-0", 70)}}, lasts: second,
			want: want{method: "sampled", joules: []float64{70}, within: 0.01, covers: 1}},
		{name: "mirrored dies", input: "two dies, identical increments of 100 W, 1 s",
			machine: machine{zones: []zone{zoneAt("intel-rapl:0", "package-0-die-0", 100), zoneAt("intel-rapl:1", "package-0-die-1", 100)}},
			lasts:   second,
			want:    want{method: "sampled", joules: []float64{100}, within: 0.01, covers: 1, reasons: "mirrored"}},
		{name: "mirrored dies, found out meanwhile", input: "two dies that stand still until the open, then identical increments of 100 W, 10 s",
			machine: machine{zones: []zone{
				{dir: "intel-rapl:0", name: "package-0-die-0", life: script{{0, 1e9, 0, nil}, {0.0001, 1e9, 100, nil}}, most: wide},
				{dir: "intel-rapl:1", name: "package-0-die-1", life: script{{0, 1e9, 0, nil}, {0.0001, 1e9, 100, nil}}, most: wide},
			}}, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1000}, within: 0.1, covers: 1, reasons: "mirrored"}},
		{name: "mirrored dies, their dram too", input: "two dies of 100 W with dram of 5 W each, all the same twice, 1 s",
			machine: machine{zones: []zone{
				zoneAt("intel-rapl:0", "package-0-die-0", 100), zoneAt("intel-rapl:0:0", "dram", 5),
				zoneAt("intel-rapl:1", "package-0-die-1", 100), zoneAt("intel-rapl:1:0", "dram", 5),
			}}, lasts: second,
			want: want{method: "sampled", joules: []float64{100, 5}, sum: 105, within: 0.01, covers: 1, reasons: "mirrored"},
		},
		{name: "a die's dram is no die", input: "one die of 50 W, dram of 50 W too, 1 s",
			machine: machine{zones: []zone{zoneAt("intel-rapl:0", "package-0-die-0", 50), zoneAt("intel-rapl:0:0", "dram", 50)}}, lasts: second,
			want: want{method: "sampled", joules: []float64{50, 50}, sum: 100, within: 0.01, covers: 1},
		},
		{name: "dies apart", input: "two dies, 100 W and 70 W, 1 s",
			machine: machine{zones: []zone{zoneAt("intel-rapl:0", "package-0-die-0", 100), zoneAt("intel-rapl:1", "package-0-die-1", 70)}},
			lasts:   second,
			want:    want{method: "sampled", joules: []float64{100, 70}, sum: 170, within: 0.01, covers: 1}},
		{name: "one bad zone", input: "package 100 W, its dram EACCES, 1 s",
			machine: machine{zones: []zone{zoneAt("intel-rapl:0", "package-0", 100),
				{dir: "intel-rapl:0:0", name: "dram", most: wide, life: script{{0, 0, 0, unix.EACCES}}}}},
			lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{100, none}, within: 0.01, covers: -1, gap: second, reasons: "gap permission"}},
	}
}

// reasonVectors are the reasons that a single window can have, beside those of the counter's rule.
func reasonVectors() []vector {
	at100 := func() machine { return oneGPU(evenly(50e9, 100)) }
	broken := func(err error) machine { return onePackage(script{{0, 0, 0, err}}) }
	lostBoard := func(err error) machine { return oneGPU(script{{0, 0, 0, err}}) }
	synced := client.CloseOptions{Synced: true}
	return []vector{
		{name: "short_window", input: "a board at 100 W, counter's step 100 ms, 50 ms",
			machine: at100(), close: synced, lasts: 50 * time.Millisecond, live: true,
			want: want{method: "unknown", joules: []float64{5}, within: 15, reasons: "short_window", holds: []float64{5}},
		},
		{name: "short_window, require_sampled", input: "the same, with require_sampled",
			machine: at100(), close: client.CloseOptions{Synced: true, RequireSampled: true}, lasts: 50 * time.Millisecond, live: true,
			want: want{err: codes.FailedPrecondition}},
		{name: "short_window, hint", input: "the same, 10 units at 0.5 J each as a hint",
			machine: at100(), open: client.OpenOptions{HintJoulesPerUnit: 0.5, Unit: "token"}, close: client.CloseOptions{Synced: true, Work: 10},
			lasts: 50 * time.Millisecond,
			want:  want{method: "estimated", joules: []float64{0}, within: 30, reasons: "short_window", perUnit: 0.5}},
		{name: "short_window, 2.5 steps", input: "the same, 250 ms: fewer than 3 steps are no measurement",
			machine: at100(), close: synced, lasts: 250 * time.Millisecond, live: true,
			want: want{method: "unknown", joules: []float64{25}, within: 30, reasons: "short_window", holds: []float64{25}}},
		{name: "short_window of a package", input: "100 W, counter's step 1 ms, 2 ms",
			machine: onePackage(evenly(5e9, 100)), lasts: 2 * time.Millisecond,
			want: want{method: "unknown", joules: []float64{0.2}, within: 0.3, reasons: "short_window", holds: []float64{0.2}}},
		{name: "edges", input: "a board, 50 W before the open, 300 W from it on, last step 50 ms ago at both; 1 s: −12.5 J uncorrected",
			machine: machine{cards: []card{{uuid: "GPU-v", most: 300, phase: 50 * time.Millisecond,
				energy: script{{-20, 50e9, 50, nil}, {0, 51e9, 300, nil}}}}}, close: synced, lasts: second,
			want: want{method: "sampled", joules: []float64{300}, within: 3, covers: 1, holds: []float64{300}}},
		{name: "edges, wait_edge", input: "the same with wait_edge at both: the window is from step to step",
			machine: machine{cards: []card{{uuid: "GPU-v", most: 300, phase: 50 * time.Millisecond,
				energy: script{{-20, 50e9, 50, nil}, {0, 51e9, 300, nil}}}}}, lasts: second,
			open: client.OpenOptions{WaitEdge: true}, close: client.CloseOptions{Synced: true, WaitEdge: true},
			want: want{method: "sampled", joules: []float64{300}, within: 3, covers: 1, holds: []float64{300}}},
		{name: "frozen", input: "a package's counter stands still, 10 s",
			machine: onePackage(evenly(7e9, 0)), lasts: 10 * second,
			want: want{method: "unknown", joules: []float64{none}, reasons: "frozen", holds: []float64{1000}}},
		{name: "permission", input: "energy_uj EACCES, 1 s",
			machine: broken(unix.EACCES), lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "gap permission", atMost: 2100}},
		{name: "unreadable", input: "energy_uj EIO, 1 s",
			machine: broken(unix.EIO), lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "gap unreadable", atMost: 2100}},
		{name: "lost zone", input: "energy_uj ENODEV, 1 s",
			machine: broken(unix.ENODEV), lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "gap lost"}},
		{name: "lost", input: "a board off the bus after 8.2 of 10 s, 100 W before",
			machine: oneGPU(script{{0, 50e9, 100, nil}, {8.2, 0, 0, host.ErrLost}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{785}, within: 50, reasons: "gap lost", holds: []float64{1000}}},
		{name: "lost throughout", input: "a board off the bus, 1 s",
			machine: lostBoard(host.ErrLost), close: synced, lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "gap lost"}},
		{name: "no_counter", input: "a board with neither counter nor sensor, 1 s",
			machine: lostBoard(host.ErrNotSupported), close: synced, lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "gap no_counter"}},
		{name: "hung", input: "a board whose driver does not come back after 0.7 s, 6 s",
			machine: machine{cards: []card{{uuid: "GPU-v", most: 300, energy: evenly(50e9, 100), hangs: 0.7}}}, close: synced, lasts: 6 * second,
			want: want{joules: []float64{50}, within: 12, reasons: "gap hung"}},
		{name: "sleeping", input: "a board that sleeps, asked for by name, 1 s",
			machine: machine{cards: []card{{uuid: "GPU-v", most: 300, energy: script{{0, 0, 0, unix.EIO}}, asleep: true}}},
			open:    client.OpenOptions{Devices: []string{"gpu"}}, close: synced, lasts: second, live: true,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "gap sleeping"}},
		{name: "no_powercap, no_gpu", input: "a virtual machine with neither, 1 s",
			lasts: second, live: true,
			want: want{method: "unknown", reasons: "no_powercap no_gpu"}},
		{name: "no_powercap", input: "a board at 100 W and no CPU counter, 10 s",
			machine: at100(), open: client.OpenOptions{Devices: []string{}}, close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1000}, within: 11, covers: 1, reasons: "no_powercap", holds: []float64{1000}}},
		{name: "floor_none", input: "a package at 100 W, no floor, 1 s",
			machine: onePackage(evenly(5e9, 100)), lasts: second, live: true,
			want: want{method: "sampled", joules: []float64{100}, within: 0.01, reasons: "floor_none"}},
		{name: "floor_caller", input: "a package at 100 W, floor 40 ± 1 W, 10 s: 600 J above idle, ± 10 J of it the floor's",
			machine: onePackage(evenly(5e9, 100)), lasts: 10 * second,
			open:  client.OpenOptions{IdleWatts: map[string]float64{"cpu": 40}, IdleWattsPlus: map[string]float64{"cpu": 1}},
			close: client.CloseOptions{Work: 100},
			want:  want{method: "sampled", joules: []float64{1000}, within: 0.01, reasons: "floor_caller", holds: []float64{600, 591, 609}, perUnit: 6}},
		{name: "nothing above the floor", input: "a package at 100 W, floor 100 ± 2 W, 60 s: ± 120 J",
			machine: onePackage(evenly(5e9, 100)), lasts: 60 * second,
			open: client.OpenOptions{IdleWatts: map[string]float64{"cpu": 100}, IdleWattsPlus: map[string]float64{"cpu": 2}},
			want: want{method: "unknown", joules: []float64{6000}, within: 0.01, reasons: "floor_caller", atMost: 125, holds: []float64{119}}},
		{name: "unsynced", input: "a board at 100 W, closed without synced, 1 s",
			machine: at100(), lasts: second, live: true,
			want: want{joules: []float64{100}, within: 15, reasons: "unsynced", holds: []float64{100}}},
		{name: "coarse", input: "a package at 100 W for somebody who may not know it exactly, 10 s",
			machine: onePackage(evenly(5e9, 100)), stranger: true, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{900}, within: 0.1, covers: 0.9, reasons: "coarse", holds: []float64{1000}}},
		{name: "coarse and short", input: "the same, 0.5 s",
			machine: onePackage(evenly(5e9, 100)), stranger: true, lasts: second / 2, live: true,
			want: want{method: "unknown", joules: []float64{none}, reasons: "coarse short_window"}},
		{name: "shared", input: "a board at 300 W, two windows of floor 50 W, 10 s: each 1500 J − 250 J",
			machine: oneGPU(evenly(50e9, 300)), close: synced, lasts: 10 * second,
			open: client.OpenOptions{IdleWatts: map[string]float64{"gpu": 50}}, beside: &client.OpenOptions{IdleWatts: map[string]float64{"gpu": 50}},
			want: want{method: "sampled", joules: []float64{1500}, within: 31, covers: 1, reasons: "floor_caller shared", holds: []float64{1250}}},
		{name: "point_changed", input: "the profile is set to training in the midst of 10 s",
			sim: "workstation", close: synced, lasts: 10 * second, meanwhile: train,
			want: want{method: "sampled", joules: []float64{some, some, some}, reasons: "point_changed"}},
	}
}

// train sets the profile by hand, which moves the governors.
func train(t testing.TB, conn grpc.ClientConnInterface) {
	t.Helper()
	r := &qunerv1.SetModeRequest{Mode: qunerv1.Mode_MODE_TRAINING}
	if _, err := qunerv1.NewAdminServiceClient(conn).SetMode(t.Context(), r); err != nil {
		t.Error(err)
	}
}
