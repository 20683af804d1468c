package meter

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// result makes the window's figures from its devices'.
func (w *Window) result(r CloseRequest, asked time.Time, ends []end) Result {
	res := Result{
		ID: w.id, Name: w.req.Name, Workload: w.req.Workload, Duration: asked.Sub(w.opened),
		Method: Sampled, AboveIdle: true, Coverage: 1, Share: "exclusive", Unit: w.req.Unit,
	}
	if w.psys != nil {
		if e := ends[len(ends)-1]; e.known > 0 {
			res.Platform, res.HasPlatform = e.total, true
		}
		ends = ends[:len(ends)-1]
	}
	res.Devices = w.deviceEnergies(r, ends)
	for _, d := range res.Devices {
		res.add(d)
	}
	w.addReasons(&res)
	res.interval()
	if len(w.stages) > 0 {
		last := make([]span, len(ends))
		for i := range ends {
			last[i] = ends[i].last
		}
		res.Stages = append(slices.Clone(w.stages), w.stage("", asked, last))
	}
	if len(res.Devices) == 0 {
		res.Method, res.Backend, res.AboveIdle, res.Coverage = Unknown, string(NoBackend), false, 0
	}
	res.count(r.Work, w.req.HintJoulesPerUnit)
	return res
}

// mostEstimate is what no host has used in a day, in joules: a hint that comes to more is none.
const mostEstimate = 1e12

// count tells the result of the work, and makes an estimate of the hint where nothing was measured.
func (res *Result) count(work, hint float64) {
	res.Work = work
	if joules := hint * work; res.Method == Unknown && joules > 0 && joules <= mostEstimate {
		res.estimate(unit.FromJoules(joules))
	}
	if work > 0 && res.Method != Unknown {
		res.PerUnit, res.PerUnitHalfWidth, res.HasPerUnit = perUnit(res.Energy, res.HalfWidth, work)
	}
}

// deviceEnergies makes each device's figures. A die found out to mirror another is left out.
func (w *Window) deviceEnergies(r CloseRequest, ends []end) []DeviceEnergy {
	spans := make([]span, len(ends))
	for i := range ends {
		if !w.parts[i].device.left.Load() {
			spans[i] = ends[i].span
		}
	}
	floors := w.floors(spans)
	all := make([]DeviceEnergy, 0, len(ends))
	for i := range ends {
		p := &w.parts[i]
		if p.device.left.Load() {
			w.absent = append(w.absent, ReasonMirrored)
			continue
		}
		d := p.energy(ends[i], floors[i])
		w.m.doubt(&d)
		if p.device.kind == kindGPU && !r.Synced {
			d.Reasons = append(d.Reasons, ReasonUnsynced)
		}
		all = append(all, d)
	}
	return all
}

// energy makes one device's figures.
func (p *part) energy(e end, f floor) DeviceEnergy {
	d := p.device
	out := DeviceEnergy{
		Device: d.name, Label: d.label, Backend: d.backend, Method: Sampled,
		Gross: e.gross, Floor: f.energy, Energy: e.gross - f.energy, FloorFrom: f.from,
		Coverage: e.coverage(), MaxGap: e.gap, Reasons: unique(e.reasons), Total: e.total, Began: e.begun, Duration: e.elapsed,
		Terms: Terms{
			Edges: e.edges(p), Floor: f.err,
			Clock: unit.Energy(float64(e.power.Over(e.took)) * e.share),
			Gain:  unit.Energy(e.gain * float64(e.gross)), GainFrom: d.gainFrom(),
		},
	}
	switch f.from {
	case floorCaller:
		out.Reasons = append(out.Reasons, ReasonFloorCaller)
	case floorNone:
		out.Reasons = append(out.Reasons, ReasonFloorNone)
	}
	if e.own.points > 1 {
		out.Reasons = append(out.Reasons, ReasonPointChanged)
	}
	out.holes = e.holes()
	out.HalfWidth = half(out.Terms) + out.holes
	out.Terms.Edges += out.holes
	out.bound = p.bound(e, out)
	out.judge(p, e)
	return out
}

// bound is the most the window can have cost on the device: where nothing was read, all the device can draw.
func (p *part) bound(e end, out DeviceEnergy) unit.Energy {
	unseen := unit.Energy(float64(p.device.limit.Over(e.rest())) * max(e.share, 1-e.coverage()))
	most := out.Energy + out.HalfWidth + unseen
	if most < 0 { // the floor is wrong, and bounds nothing
		most = out.Gross + out.HalfWidth + unseen
	}
	if slices.Contains(e.reasons, ReasonAmbiguous) {
		most = p.device.limit.Over(e.elapsed)
	}
	return max(0, min(most, p.device.limit.Over(e.elapsed)+p.device.grain))
}

// gainFrom says where what is known of the sensor's scale is from.
func (d *device) gainFrom() string {
	if d.sampler != nil && d.board != nil {
		return "documented"
	}
	return "assumed"
}

// frozenAfter is for how many of its periods, and a second at least, a counter that stands still is taken for slow.
const frozenAfter = 10

// minSteps is how many steps of its counter a window must last to be measured: in less, most of what it is charged is
// what the steps at its edges are taken to hold.
const minSteps = 3

// judge decides whether a figure is a measurement. What cannot be told from zero is none.
func (out *DeviceEnergy) judge(p *part, e end) {
	switch {
	case e.known <= 0:
		out.nothing()
		if !slices.ContainsFunc(out.Reasons, isCause) {
			out.Reasons = append(out.Reasons, ReasonShortWindow)
		}
	case e.still && e.known >= max(time.Second, frozenAfter*e.period):
		out.bound = p.device.limit.Over(e.elapsed)
		out.nothing()
		out.Reasons = append(out.Reasons, ReasonFrozen)
	case e.elapsed < (minSteps * e.period).Truncate(e.period/16):
		out.Method = Unknown
		out.Reasons = append(out.Reasons, ReasonShortWindow)
		out.bound = p.device.limit.Over(e.elapsed)
	case slices.Contains(e.reasons, ReasonAmbiguous): // it is a lower bound
		out.Method = Unknown
		out.Terms.Edges += max(0, out.bound-out.Energy)
		out.HalfWidth = half(out.Terms)
	case out.Energy <= out.HalfWidth:
		out.Method, out.small = Unknown, true
		if p.coarse && e.elapsed < 2*minCoarse {
			out.Reasons = append(out.Reasons, ReasonShortWindow)
		}
	}
	out.Reasons = unique(out.Reasons)
}

// nothing makes the figure that of a device nothing was measured of: it has bounds alone.
func (out *DeviceEnergy) nothing() {
	out.Method, out.Coverage = Unknown, 0
	out.Energy, out.Gross, out.Floor, out.Total = 0, 0, 0, 0
	out.HalfWidth = out.bound
	out.Terms = Terms{Edges: out.bound, GainFrom: out.Terms.GainFrom}
}

// isCause reports whether a reason says why nothing was measured.
func isCause(reason string) bool {
	return !slices.Contains([]string{ReasonFloorNone, ReasonFloorCaller, ReasonCoarse, ReasonShared, ReasonGap, ReasonPointChanged}, reason)
}

// half puts the terms of one figure together: edges and clock are accidents of their own, floor and gain hold throughout.
func half(t Terms) unit.Energy {
	return unit.Energy(math.Ceil(math.Sqrt(
		sq(float64(t.Edges)) + sq(float64(t.Clock)) + sq(float64(t.Floor)+float64(t.Gain)))))
}

func sq(x float64) float64 { return x * x }

// add takes a device into the sum.
func (res *Result) add(d DeviceEnergy) {
	res.Energy += d.Energy
	res.Gross += d.Gross
	res.Floor += d.Floor
	res.UpperBound += d.bound
	res.HasUpperBound = true
	res.AboveIdle = res.AboveIdle && d.FloorFrom != floorNone
	res.Coverage = min(res.Coverage, d.Coverage)
	res.MaxGap = max(res.MaxGap, d.MaxGap)
	if !d.small { // what is too small by itself is measured all the same: the sum may not be
		res.Method = worse(res.Method, d.Method)
	}
	if slices.Contains(d.Reasons, ReasonShared) {
		res.Share = "shared"
	}
	for _, r := range d.Reasons {
		if !slices.Contains(res.Reasons, r) {
			res.Reasons = append(res.Reasons, r)
		}
	}
	if backends := strings.Split(res.Backend, "+"); res.Backend == "" {
		res.Backend = string(d.Backend)
	} else if !slices.Contains(backends, string(d.Backend)) {
		backends = append(backends, string(d.Backend))
		slices.Sort(backends)
		res.Backend = strings.Join(backends, "+")
	}
}

func worse(a, b Method) Method {
	rank := []Method{Sampled, Estimated, Unknown}
	return rank[max(slices.Index(rank, a), slices.Index(rank, b))]
}

// interval puts the devices' terms together: edges and clocks add in quadrature, floors and gains linearly, since one
// wrong idea of idle is wrong on every device.
func (res *Result) interval() {
	var random, constant float64
	var holes unit.Energy
	for _, d := range res.Devices {
		random += sq(float64(d.Terms.Edges-d.holes)) + sq(float64(d.Terms.Clock))
		constant += float64(d.Terms.Floor + d.Terms.Gain)
		holes += d.holes
	}
	res.HalfWidth = unit.Energy(math.Ceil(math.Sqrt(random+sq(constant)))) + holes
	if res.Method == Sampled && res.Energy <= res.HalfWidth {
		res.Method = Unknown
	}
	if res.Method == Sampled {
		res.UpperBound, res.HasUpperBound = 0, false
	}
}

// estimate puts the caller's hint in the place of a figure that is no measurement. The interval covers what was measured.
func (res *Result) estimate(hint unit.Energy) {
	measured, width := res.Energy, res.HalfWidth
	if res.HasUpperBound {
		hint = min(hint, res.UpperBound)
	}
	res.Method, res.Energy = Estimated, hint
	if width == 0 {
		res.HalfWidth = hint
		return
	}
	res.HalfWidth = max(hint-measured, measured-hint) + width
}

func (w *Window) addReasons(res *Result) {
	w.m.mu.Lock()
	changed := w.m.changes != w.changes
	w.m.mu.Unlock()
	if changed {
		res.Reasons = append(res.Reasons, ReasonPointChanged)
	}
	res.Reasons = unique(append(res.Reasons, w.absent...))
	if !res.AboveIdle || len(res.Devices) == 0 {
		res.Reasons = unique(append(res.Reasons, ReasonFloorNone))
	}
}

// unique keeps the first of equal reasons.
func unique(reasons []string) []string {
	var out []string
	for _, r := range reasons {
		if r != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}
