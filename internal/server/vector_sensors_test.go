package server

import (
	"github.com/qunerd/quner/api/client"
	"github.com/qunerd/quner/internal/host"
)

// sensorVectors are about boards with a power sensor and no counter.
func sensorVectors() []vector {
	no := script{{0, 0, 0, host.ErrNotSupported}}
	sensed := func(life script) machine {
		return machine{cards: []card{{uuid: "GPU-v", most: 300, energy: no, sensor: life}}}
	}
	synced := client.CloseOptions{Synced: true}
	return []vector{
		{name: "power, constant", input: "no counter; sensor says 300 W for 10 s",
			machine: sensed(script{{0, 0, 300, nil}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{3000}, within: 1, covers: 1, reasons: "", holds: []float64{3000}}},
		{name: "power, a step", input: "no counter; sensor says 50 W for 10 s, then 300 W for 10 s",
			machine: sensed(script{{0, 0, 50, nil}, {10, 0, 300, nil}}), close: synced, lasts: 20 * second,
			want: want{method: "sampled", joules: []float64{3500}, within: 125, covers: 1, reasons: "", holds: []float64{3500}}},
		{name: "power, zeros are figures", input: "no counter; sensor says 0 W for 5 s, then 300 W for 5 s",
			machine: sensed(script{{0, 0, 0, nil}, {5, 0, 300, nil}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1500}, within: 125, covers: 1, holds: []float64{1500}}},
		{name: "power, a sentinel", input: "no counter; sensor says 300 W, but 0xFFFFFFFF mW for a moment; 10 s",
			machine: sensed(script{{0, 0, 300, nil}, {5.03, 0, 4294967.295, nil}, {5.13, 0, 300, nil}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{3000}, within: 1, covers: 1, holds: []float64{3000}}},
		{name: "power, more than it can draw", input: "no counter; sensor says 300 W, but 460 W of at most 450 W for a moment; 10 s",
			machine: sensed(script{{0, 0, 300, nil}, {5.03, 0, 460, nil}, {5.13, 0, 300, nil}}), close: synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{3000}, within: 1, covers: 1, holds: []float64{3000}}},
		{name: "power, a gap", input: "no counter; sensor says 300 W, but nothing for 4 of 20 s",
			machine: sensed(script{{0, 0, 300, nil}, {8.05, 0, 0, host.ErrUnread}, {12.05, 0, 300, nil}}), close: synced, lasts: 20 * second,
			want: want{method: "sampled", joules: []float64{4800}, within: 150, reasons: "gap unreadable", holds: []float64{6000}}},
		{name: "sources_disagree", input: "counter 100 W, sensor 174 W, 10 s: the interval holds both",
			machine: machine{cards: []card{{uuid: "GPU-v", most: 300, energy: evenly(50e9, 100), sensor: script{{0, 0, 174, nil}}}}},
			close:   synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1000}, within: 11, covers: 1, reasons: "sources_disagree", holds: []float64{1000, 1740}},
		},
		{name: "sources agree", input: "counter 100 W, sensor 102 W, 10 s",
			machine: machine{cards: []card{{uuid: "GPU-v", most: 300, energy: evenly(50e9, 100), sensor: script{{0, 0, 102, nil}}}}},
			close:   synced, lasts: 10 * second,
			want: want{method: "sampled", joules: []float64{1000}, within: 11, covers: 1, holds: []float64{1000}}},
	}
}
