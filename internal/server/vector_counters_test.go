package server

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/api/client"
)

// oneGPU is a machine with one board that tells its highest cap, 300 W: more than 450 W is then no power of it.
func oneGPU(life script) machine {
	return machine{cards: []card{{uuid: "GPU-v", most: 300, energy: life}}}
}

// onePackage is a machine with one package: what it says it drew may be 1 kW at most.
func onePackage(life script) machine { return machine{zones: []zone{pack(life)}} }

const second = time.Second

// counterVectors are the rows of the counter's rule. A window's readings are at its two edges and at each half second
// between, unless a counter cannot be read.
func counterVectors() []vector {
	eio := unix.EIO
	synced := client.CloseOptions{Synced: true}
	noRange := func(life script) machine {
		return machine{zones: []zone{{dir: "intel-rapl:0", name: "package-0", life: life}}}
	}
	return []vector{
		{name: "ok", input: "100 W for 10 s",
			machine: onePackage(evenly(5e9, 100)), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1000}, within: 0.01, covers: 1, holds: []float64{1000}}},
		{name: "ok, at P_max", input: "1 kW for 10 s on a package without limits",
			machine: onePackage(evenly(5e9, 1000)), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{10000}, within: 0.1, covers: 1}},
		{name: "ok, above a kilowatt by its limits", input: "1.4 kW for 10 s, the largest constraint is 1 kW",
			machine: machine{zones: []zone{{dir: "intel-rapl:0", name: "package-0", life: evenly(5e9, 1400), most: wide,
				files: map[string]string{"constraint_0_max_power_uw": "1000000000"}}}}, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{14000}, within: 0.1, covers: 1}},
		{name: "ok, a board above its cap", input: "440 W for 10 s, highest cap 300 W: up to 450 W are believed",
			machine: oneGPU(evenly(50e9, 440)), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{4400}, within: 45, covers: 1, holds: []float64{4400}}},
		{name: "ok, turbo above PL1", input: "110 W for 10 s on a package of 45 W",
			machine: machine{zones: []zone{{dir: "intel-rapl:0", name: "package-0", life: evenly(5e9, 110), most: wide,
				files: map[string]string{"constraint_0_max_power_uw": "45000000"}}}}, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1100}, within: 0.1, covers: 1, holds: []float64{1100}}},
		{name: "first", input: "EIO until 1.2 s after the open, then 50e9 µJ and 100 W; 10 s",
			machine: onePackage(script{{0, 0, 0, eio}, {1.2, 50e9, 100, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{850}, within: 0.1, covers: 0.85, gap: 1500 * time.Millisecond, reasons: "gap unreadable", holds: []float64{1000}}},
		{name: "unread (EIO)", input: "100e9 → error → 100.0006e9 µJ, 10 s each",
			machine: onePackage(script{{0, 100e9, 0, nil}, {0.0005, 0, 0, eio}, {19.9995, 100_000_600_000, 0, nil}}), lasts: 20 * second,
			want: want{method: "sampled", joules: []float64{0.6}, within: 0.001, covers: 1}},
		{name: "jump", input: "+12e9 µJ in 1 s, P_max 1 kW",
			machine: onePackage(script{{0, 100e9, 50, nil}, {0.0005, 0, 0, eio}, {0.9995, 112e9, 50, nil}}), lasts: second,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: second, reasons: "jump gap", atMost: 1100}},
		{name: "jump within a longer window", input: "50 W, but +12e9 µJ in the 6th second; 10 s",
			machine: onePackage(script{{0, 100e9, 50, nil}, {4.6, 0, 0, eio}, {5.4, 112e9, 50, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{450}, within: 0.1, covers: 0.9, gap: second, reasons: "jump gap", holds: []float64{500}}},
		{name: "jump of a board", input: "+600 J in 1 s, highest cap 300 W",
			machine: oneGPU(script{{0, 100e9, 50, nil}, {4.6, 0, 0, eio}, {5.4, 101e9, 50, nil}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{450}, within: 10, covers: 0.9, gap: second, reasons: "jump gap", holds: []float64{500}}},
		{name: "wrap", input: "range 262143328850; 262143000000 → 99671150 µJ, 1 s",
			machine: onePackage(evenly(262143000000, 100.000061)), lasts: second, live: true,
			want: want{method: "sampled", joules: []float64{100}, within: 0.001, covers: 1, holds: []float64{100}}},
		{name: "many wraps", input: "700 W, 15.26 µJ a unit, 1795 s at 1 s reads",
			machine: machine{zones: []zone{{dir: "intel-rapl:0", name: "package-0", life: evenly(1e9, 700), most: narrow}}}, lasts: 1795 * second,
			want: want{method: "sampled", joules: []float64{1_256_500}, within: 1, covers: 1, holds: []float64{1_256_500}}},
		{name: "wrap, one more would fit", input: "range 65.5 kJ, unread for 100 s, +10 kJ, P_max 1 kW",
			machine: machine{zones: []zone{{dir: "intel-rapl:0", name: "package-0", most: narrow,
				life: script{{0, 1e9, 100, nil}, {0.0005, 0, 0, eio}, {99.9995, 11e9, 100, nil}}}}}, lasts: 100 * second,
			want: want{method: "unknown", joules: []float64{10000}, within: 0.1, covers: 1, reasons: "ambiguous", holds: []float64{10000, 75532}}},
		{name: "wrap that fell asleep", input: "100 W over the end of the range, suspended for an hour just then; 10 s",
			machine: machine{zones: []zone{pack(evenly(261743328850, 100))}, sleeps: script{{0, 0, 0, nil}, {4, 3600e6, 0, nil}}}, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{900}, within: 0.2, covers: 0.9, gap: second, reasons: "reset gap"}},
		{name: "rise over a sleep", input: "100 W, suspended for an hour in between; 10 s",
			machine: machine{zones: []zone{pack(evenly(1e9, 100))}, sleeps: script{{0, 0, 0, nil}, {4, 3600e6, 0, nil}}}, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1000}, within: 0.2, covers: 1}},
		{name: "no range, no wrap", input: "as wrap, without max_energy_range_uj; 20 W, 10 s",
			machine: noRange(script{{0, 262143000000, 20, nil}, {4.7, 99671150, 20, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{180}, within: 0.1, covers: 0.9, gap: second, reasons: "reset gap"}},
		{name: "reset", input: "200e9 → 5e6 µJ, 5 s",
			machine: onePackage(script{{0, 200e9, 1, nil}, {0.0005, 0, 0, eio}, {4.9995, 5e6, 1, nil}}), lasts: 5 * second,
			want: want{method: "unknown", joules: []float64{none}, covers: -1, gap: 5 * second, reasons: "reset gap", atMost: 5100}},
		{name: "reset within a longer window", input: "200e9 → 5e6 µJ in 5 s, then 20 W for 45 s",
			machine: onePackage(script{{0, 200e9, 20, nil}, {0.0005, 0, 0, eio}, {4.9995, 5e6, 20, nil}}), lasts: 50 * second,
			want: want{method: "sampled", joules: []float64{890}, within: 0.5, covers: 0.89, gap: 5500 * time.Millisecond, reasons: "reset gap", holds: []float64{1000}}},
		{name: "driver reload", input: "NVML 5 000 000 000 → 12 000 mJ, 1 s; 100 W before and after, 10 s",
			machine: oneGPU(script{{0, 5e12, 100, nil}, {4.6, 0, 0, eio}, {5.4, 12e6, 100, nil}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{900}, within: 12, covers: 0.9, gap: second, reasons: "reset gap", holds: []float64{1000}}},
		{name: "backward", input: "50 W, twice 150e9 between readings above 200e9 µJ; 10 s",
			machine: onePackage(script{{0, 200e9, 50, nil}, {3, 150e9, 1, nil}, {5, 200_250_000_000, 50, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{500}, within: 0.1, covers: 1}},
		{name: "backward, believed the third time", input: "50 W, 200e9 → 150e9 µJ for good; 10 s",
			machine: onePackage(script{{0, 200e9, 50, nil}, {3, 150e9, 50, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{350}, within: 0.1, covers: 0.7, gap: 3 * second, reasons: "backward gap", holds: []float64{500}}},
		{name: "recovered at 120 s: glitch to 0", input: "55.8e12 → 0 → 55.8e12 + 6e6 µJ, dt 60 s",
			machine: noRange(script{{0, 55.8e12, 0, nil}, {0.0005, 0, 0, eio}, {60.4, 0, 0, nil}, {60.6, 0, 0, eio}, {119.9995, 55_800_006_000_000, 0, nil}}),
			lasts:   120 * second,
			want:    want{method: "sampled", joules: []float64{6}, within: 0.001, covers: 1, holds: []float64{6}}},
		{name: "too late to recover, at 121 s", input: "55.8e12 → 0 → 55.8e12 + 6e6 µJ, the last after 121 s",
			machine: noRange(script{{0, 55.8e12, 0, nil}, {0.0005, 0, 0, eio}, {60.4, 0, 0, nil}, {60.6, 0, 0, eio}, {120.9995, 55_800_006_000_000, 0, nil}}),
			lasts:   121 * second,
			want:    want{method: "unknown", joules: []float64{none}, covers: -1, gap: 60500 * time.Millisecond, reasons: "reset jump gap"}},
		{name: "recovered, with energy credited meanwhile", input: "2 W, for 3 s a counter from 0 at 5 W instead; 10 s",
			machine: onePackage(script{{0, 100e9, 2, nil}, {2, 0, 5, nil}, {5, 100_010_000_000, 2, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{20}, within: 0.01, covers: 1}},
		{name: "recovered, glitch upwards", input: "4 W, for 1 s at 90e9 instead of 1e9 µJ; 10 s",
			machine: onePackage(script{{0, 1e9, 4, nil}, {5, 90e9, 4, nil}, {6, 1_024_000_000, 4, nil}}), lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{40}, within: 0.01, covers: 1}},
	}
}
