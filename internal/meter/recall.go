package meter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// recall takes up the windows that the meter before has written down. Those on sessions wait for their clients.
func (m *Meter) recall() {
	if !m.opts.Journal {
		return
	}
	m.journal = m.openJournal()
	m.recallResults()
	r := m.loadJournal()
	if r == nil {
		return
	}
	m.journal.written = true
	r.Windows = slices.DeleteFunc(r.Windows, func(w windowRecord) bool { return m.kept.has(w.UID, w.ID) })
	if len(r.Windows) == 0 {
		return
	}
	now, clock := time.Now(), int64(m.host.Monotonic())
	at := func(ns int64) time.Time { return now.Add(time.Duration(ns - clock)) }
	m.condition = r.Condition
	windows := make([]*Window, len(r.Windows))
	for i := range r.Windows {
		windows[i] = m.window(&r.Windows[i], r.Devices, now, at)
	}
	for i := range r.Devices {
		m.resume(i, r, windows, at)
	}
	for _, w := range windows {
		m.windows[w.id] = w
		m.owned[w.req.Owner]++
		m.open++
	}
	m.wake <- struct{}{}
	m.log.Info("windows of the daemon before go on", "count", len(windows))
}

// window makes a window of its record, with its parts on no timeline yet.
func (m *Meter) window(r *windowRecord, devices []deviceRecord, now time.Time, at func(int64) time.Time) *Window {
	w := &Window{
		m: m, id: r.ID, opened: at(r.Opened), staged: at(r.Staged), gate: make(gate, 1),
		req: OpenRequest{
			Owner: r.UID, Exact: r.Exact, Name: r.Name, IdleWatts: r.Idle, IdleWattsUncertainty: r.IdlePlus,
			Weight: r.Weight, Workload: r.Workload, Unit: r.Unit, HintJoulesPerUnit: r.Hint, Detached: r.Detached,
		},
		absent: unique(append(r.Absent, ReasonRestarted)),
		life:   life{until: now.Add(ResumeTime), waiting: true},
	}
	if r.Detached {
		w.life = life{until: at(r.Until), detached: true}
	}
	if r.Moved {
		w.changes = -1
	}
	for _, s := range r.Stages {
		w.stages = append(w.stages, Stage{s.Name, time.Duration(s.Length), s.Energy, s.Gross})
	}
	w.marks.Store(int32(len(w.stages))) //nolint:gosec // a few
	w.parts = make([]part, 0, len(r.Parts))
	for _, p := range r.Parts {
		name := devices[p.Device].Name
		switch d := m.device(name); {
		case d != nil:
			w.parts = append(w.parts, part{device: d, coarse: p.Coarse, member: member{weight: weightOf(r.Weight)}, level: p.Level})
			if p.Floors {
				w.parts[len(w.parts)-1].books = &m.floors
			}
		case m.psys != nil && m.psys.name == name: // it was written last
			w.parts = append(w.parts, part{device: m.psys, coarse: p.Coarse})
			w.psys = &w.parts[len(w.parts)-1]
		default:
			w.absent = append(w.absent, ReasonLost)
		}
	}
	return w
}

func weightOf(w float64) int64 { return int64(w*unitWeight + 0.5) }

// resume sets a device's timeline to where it was, and the windows' parts on it.
func (m *Meter) resume(index int, r *journalRecord, windows []*Window, at func(int64) time.Time) {
	record := &r.Devices[index]
	d := m.device(record.Name)
	if d == nil && m.psys != nil && m.psys.name == record.Name {
		d = m.psys
	}
	if d == nil {
		return
	}
	d.line.resume(record, record.Counts && record.Backend == d.backend && d.backend != PowerSampler, at)
	type place struct {
		part   *part
		record *partRecord
	}
	var places []place
	for i, w := range windows {
		for j := range r.Windows[i].Parts {
			p := &r.Windows[i].Parts[j]
			k := slices.IndexFunc(w.parts, func(q part) bool { return q.device == d })
			if p.Device == index && k >= 0 {
				places = append(places, place{&w.parts[k], p})
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.record.At, b.record.At) })
	for _, p := range places {
		if p.record.Joined {
			p.part.resume(p.record, at)
		} else {
			d.waiting = append(d.waiting, p.part)
		}
	}
}

// resume sets a fresh timeline to where another one was at its base. Where no counter has gone on since, a gap begins.
func (t *timeline) resume(r *deviceRecord, counts bool, at func(int64) time.Time) {
	base := at(r.Base)
	t.started, t.now.at, t.blind = true, base, base
	t.now.totals = r.Totals.totals()
	t.since = t.now.totals
	t.measured, t.loose = r.Measured, fine{r.Loose[0], r.Loose[1]}
	for _, n := range r.Notes {
		t.notes = append(t.notes, note{at(n.From), at(n.To), n.Reason, n.Gap})
	}
	if counts {
		t.counter.base = reading{value: r.Value, at: base, asleep: time.Duration(r.Asleep)}
		t.counter.hasBase = true
	}
	t.epochs = t.epochs[:0]
	for _, e := range r.Epochs {
		one := epoch{condition: e.Condition}
		if e.At != 0 {
			one.begin = t.stampAt(at(e.At))
			if !one.begin.at.After(base) {
				one.begin.totals = e.Totals.totals()
			}
		}
		t.epochs = append(t.epochs, one)
	}
}

// resume puts the part where it was. Windows come in the order in which they were opened.
func (p *part) resume(r *partRecord, at func(int64) time.Time) {
	line := &p.device.line
	base := line.base()
	line.joinAt(&p.member, at(r.At))
	if !p.opened.at.After(base) {
		p.opened.totals = r.Totals.totals()
	}
	p.blur, p.before, p.took, p.portion = time.Duration(r.Blur), r.Before, time.Duration(r.Took), r.Portion
	p.told = &span{unit.Energy(r.Told[0]), r.Told[1], ownFloor{uj: r.Told[2], err: r.Told[3], missing: r.Told[4]}}
	p.falls = -1 // where in a step of the counter it began is not known any longer
}

// What a journal may hold.
const (
	maxRecords = 65536   // windows
	maxParts   = 256     // of a window, and devices in all
	maxNS      = 1 << 60 // 36 years: what has been measured is a sum over the lives of all daemons of a boot
)

var errRecord = errors.New("not what a meter writes")

// check says what is wrong with a journal. One of another boot is of no use: the counters and clocks it speaks of are gone.
func (r *journalRecord) check(boot string, now int64) error {
	if r.Boot == "" || r.Boot != boot {
		return fmt.Errorf("boot %q, this is %q", clip(r.Boot), boot)
	}
	c := checker{now: r.Clock}
	c.want(r.Clock >= 0 && r.Clock <= now && now < 1<<62, "clock")
	c.want(len(r.Condition) <= 64<<10, "condition")
	c.want(len(r.Devices) <= maxParts && len(r.Windows) <= maxRecords, "sizes")
	names, ids := map[string]bool{}, map[string]bool{}
	for i := range r.Devices {
		c.device(&r.Devices[i], names)
	}
	for i := range r.Windows {
		c.window(&r.Windows[i], len(r.Devices), ids)
	}
	return c.err
}

// checker keeps the first thing that is wrong.
type checker struct {
	now int64
	err error
}

func (c *checker) want(ok bool, what string) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf("%s: %w", what, errRecord)
	}
}

// past wants a moment that is not after the journal was written.
func (c *checker) past(ns int64, what string) {
	c.want(ns > -maxNS && ns <= c.now && c.now-ns <= maxNS, what)
}

// length wants a duration.
func (c *checker) length(ns int64, what string) { c.want(ns >= 0 && ns <= maxNS, what) }

func (c *checker) finite(what string, values ...float64) {
	for _, v := range values {
		c.want(!math.IsNaN(v) && math.Abs(v) < 1e21, what)
	}
}

func (c *checker) totals(t totalsRecord) {
	c.finite("totals", t[:]...)
	c.want(t[4] >= 0 && t[5] >= 0 && t[5] <= maxNS && t[6] >= 0 && t[6] <= t[5], "totals")
}

func (c *checker) device(d *deviceRecord, names map[string]bool) {
	c.want(d.Name != "" && len(d.Name) <= 200 && !names[d.Name], "device")
	names[d.Name] = true
	c.past(d.Base, "base")
	c.length(d.Asleep, "asleep")
	c.want(d.Value >= 0 && d.Measured > -1<<62, "value")
	c.totals(d.Totals)
	c.finite("loose", d.Loose[:]...)
	c.want(len(d.Epochs) > 0 && len(d.Epochs) <= journalEpochs, "epochs")
	for _, e := range d.Epochs {
		c.want(len(e.Condition) <= 64<<10, "epoch")
		if e.At != 0 {
			c.past(e.At, "epoch")
		}
		c.totals(e.Totals)
	}
	c.want(len(d.Notes) <= maxNotes, "notes")
	for _, n := range d.Notes {
		c.past(n.From, "note")
		c.want(n.To >= n.From && (n.Reason == "" || isLabel(n.Reason)), "note")
		c.past(n.To, "note")
	}
}

func (c *checker) window(w *windowRecord, devices int, ids map[string]bool) {
	c.want(isID(w.ID) && !ids[w.ID], "id")
	ids[w.ID] = true
	c.want(isLabel(w.Name) && (w.Workload == "" || isLabel(w.Workload)) && (w.Unit == "" || isLabel(w.Unit)), "label")
	c.want(w.Weight >= MinWeight && w.Weight <= MaxWeight && amount(w.Hint), "weight")
	for _, watts := range []map[string]float64{w.Idle, w.IdlePlus} {
		for name, v := range watts {
			c.want(len(name) <= 200 && amount(v) && v <= maxIdle, "idle")
		}
	}
	c.past(w.Opened, "opened")
	c.past(w.Staged, "staged")
	c.want(w.Staged >= w.Opened, "staged")
	c.want(!w.Detached || w.Until > -maxNS && w.Until <= c.now+maxNS, "until")
	c.want(len(w.Stages) <= journalStages+1 && len(w.Absent) <= 64 && len(w.Parts) <= maxParts, "sizes")
	for _, reason := range w.Absent {
		c.want(isLabel(reason), "reason")
	}
	for _, s := range w.Stages {
		c.want(isLabel(s.Name), "stage")
		c.length(s.Length, "stage")
		c.finite("stage", float64(s.Energy), float64(s.Gross))
	}
	seen := map[int]bool{}
	for i := range w.Parts {
		c.part(&w.Parts[i], devices, seen)
	}
}

func (c *checker) part(p *partRecord, devices int, seen map[int]bool) {
	c.want(p.Device >= 0 && p.Device < devices && !seen[p.Device], "part")
	seen[p.Device] = true
	c.want(p.Joined || p.Coarse, "part")
	if p.Joined {
		c.past(p.At, "part")
	}
	c.totals(p.Totals)
	c.length(p.Blur, "blur")
	c.length(p.Took, "took")
	c.want(p.Before >= 0 && p.Before < 1e15 && p.Portion >= 0 && p.Portion <= 1, "part")
	c.finite("told", p.Told[:]...)
	c.want(p.Level <= inContext, "level")
}

// isID reports whether a text is an id as newID makes them.
func isID(s string) bool {
	if len(s) != 32 {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(b byte) bool { return (b < '0' || b > '9') && (b < 'a' || b > 'f') })
}
