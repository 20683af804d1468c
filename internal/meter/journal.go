package meter

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// The journal of open windows lies in the runtime directory, which no boot outlives.
const (
	journalDir    = "quner-admin"
	journalName   = "windows.json"
	journalSchema = 1
	// journalBytes is what the windows may take, so that the file stays below host.MaxFile.
	journalBytes = host.MaxFile - 128<<10
	// journalStages is how many stages of a window are written down by themselves; those before are put together.
	journalStages = 32
	// journalEpochs is how many changes of the operating point are: a window that saw more has no floor of the host's.
	journalEpochs = 16
)

// journal is where the windows that are open, and the results that are kept, are written down.
type journal struct {
	file    host.StateFile
	boot    string
	trouble error // why the newest windows are not on disk; by the meter's mutex
	untold  error // why the newest results are not; likewise

	mu      sync.Mutex        // over what follows: one writes at a time
	written bool              // windows are there
	sum     [sha256.Size]byte // of what was written last, where that was windows on no device
	kept    bool              // results are there
	version uint64            // of what was due when they were written
}

// journalRecord is the file. Times are the host's monotonic clock in ns.
type journalRecord struct {
	Schema    int            `json:"schema"`
	Boot      string         `json:"boot"`
	Clock     int64          `json:"clock_ns"`
	Condition string         `json:"condition"`
	Devices   []deviceRecord `json:"devices"`
	Windows   []windowRecord `json:"windows"`
}

// deviceRecord is a device's timeline at its base.
type deviceRecord struct {
	Name     string        `json:"name"`
	Backend  Backend       `json:"backend"`
	Counts   bool          `json:"counts"` // value is a counter's, which goes on without us
	Value    unit.Energy   `json:"value_uj"`
	Base     int64         `json:"base_ns"`
	Asleep   int64         `json:"asleep_ns"`
	Totals   totalsRecord  `json:"totals"`
	Measured unit.Energy   `json:"measured_uj"`
	Loose    [2]float64    `json:"loose_uj"`
	Notes    []noteRecord  `json:"notes,omitempty"`
	Epochs   []epochRecord `json:"epochs"` // the newest last; there is one at least
}

// epochRecord is a stretch under one condition.
type epochRecord struct {
	Condition string       `json:"condition"`
	At        int64        `json:"at"` // 0: nobody remembers its begin
	Totals    totalsRecord `json:"t"`
}

// totalsRecord is energy, phi (whole and fraction each), psi, measured and together.
type totalsRecord [7]float64

type noteRecord struct {
	From   int64  `json:"from_ns"`
	To     int64  `json:"to_ns"`
	Reason string `json:"reason"`
	Gap    bool   `json:"gap,omitempty"`
}

// windowRecord is an open window.
type windowRecord struct {
	ID       string             `json:"id"`
	UID      uint32             `json:"uid"`
	Exact    bool               `json:"exact,omitempty"`
	Detached bool               `json:"detached,omitempty"`
	Until    int64              `json:"until_ns,omitempty"` // of a detached one
	Name     string             `json:"name"`
	Idle     map[string]float64 `json:"idle_w,omitempty"`
	IdlePlus map[string]float64 `json:"idle_plus_w,omitempty"`
	Weight   float64            `json:"weight"`
	Workload string             `json:"workload,omitempty"`
	Unit     string             `json:"unit,omitempty"`
	Hint     float64            `json:"hint_j,omitempty"`
	Opened   int64              `json:"opened_ns"`
	Staged   int64              `json:"staged_ns"`
	Moved    bool               `json:"moved,omitempty"` // the condition has changed within it
	Absent   []string           `json:"absent,omitempty"`
	Stages   []stageRecord      `json:"stages,omitempty"`
	Parts    []partRecord       `json:"parts"`
}

type stageRecord struct {
	Name   string      `json:"name"`
	Length int64       `json:"ns"`
	Energy unit.Energy `json:"uj"`
	Gross  unit.Energy `json:"gross_uj"`
}

// partRecord is a window's place on one device.
type partRecord struct {
	Device  int          `json:"d"` // in journalRecord.Devices
	Coarse  bool         `json:"c,omitempty"`
	Joined  bool         `json:"j,omitempty"`
	At      int64        `json:"at,omitempty"`
	Totals  totalsRecord `json:"t,omitzero"`
	Blur    int64        `json:"blur,omitempty"`
	Before  unit.Power   `json:"before,omitempty"`
	Took    int64        `json:"took,omitempty"`
	Portion float64      `json:"portion,omitempty"`
	Told    [5]float64   `json:"told,omitzero"` // µJ and seconds; of the own floor µJ, ± µJ and seconds without
	Floors  bool         `json:"floors,omitempty"`
	Level   restState    `json:"level,omitempty"`
}

var errJournalFull = errors.New("more windows are open than there is room for in 1 MiB; each owner's oldest are there first")

// openJournal is where the meter writes its windows down.
func (m *Meter) openJournal() *journal {
	return &journal{boot: m.host.BootID(), file: host.StateFile{
		Dir: m.host.Run.Sub(journalDir), Name: journalName, Schema: journalSchema, Log: m.log,
	}}
}

// encode writes the windows down, n of them: of each owner in turn, as far as there is room. The sum is of
// windows on no device alone, of which nothing changes.
func (m *Meter) encode(ctx context.Context) (data []byte, sum [sha256.Size]byte, n int, err error) {
	r, windows := m.record(ctx)
	var list bytes.Buffer
	left := 0
	for _, w := range windows {
		one, err := json.Marshal(w)
		if err != nil {
			return nil, sum, 0, fmt.Errorf("window %s: %w", w.ID, err)
		}
		if list.Len()+len(one) > journalBytes {
			left++
			continue
		}
		if n++; n > 1 {
			list.WriteByte(',')
		}
		list.Write(one)
	}
	head, err := json.Marshal(r)
	if err != nil {
		return nil, sum, 0, err
	}
	if len(r.Devices) == 0 {
		sum = sha256.Sum256(list.Bytes())
	}
	// The list of windows is last and is empty in the head.
	data = slices.Concat(bytes.TrimSuffix(head, []byte("[]}")), []byte{'['}, list.Bytes(), []byte("]}\n"))
	if len(data) > host.MaxFile {
		return nil, sum, 0, fmt.Errorf("%s: %w", journalName, host.ErrFull)
	}
	if left > 0 {
		err = errJournalFull
	}
	return data, sum, n, err
}

// record makes the picture of the devices, and of the windows in the order in which they are to be written.
func (m *Meter) record(ctx context.Context) (journalRecord, []windowRecord) {
	now, clock := time.Now(), m.host.Monotonic()
	ns := func(t time.Time) int64 { return int64(clock + t.Sub(now)) }
	m.mu.Lock()
	r := journalRecord{
		Schema: journalSchema, Boot: m.journal.boot, Clock: int64(clock), Condition: m.condition, Windows: []windowRecord{},
	}
	var windows []*Window
	var records []windowRecord
	for _, w := range m.windows {
		if w.req.Observe {
			continue
		}
		windows = append(windows, w)
		records = append(records, w.record(ns, m.changes))
	}
	m.mu.Unlock()
	if len(windows) == 0 {
		return r, nil
	}
	for i, w := range windows {
		w.recordStages(&records[i], ns)
	}
	for _, d := range m.all() {
		d.record(ctx, &r, windows, records, ns)
	}
	order(records)
	return r, records
}

// order sorts windows so that each owner's oldest come first: who has many cannot take the room of those who have few.
func order(records []windowRecord) {
	slices.SortFunc(records, func(a, b windowRecord) int { return cmp.Compare(a.Opened, b.Opened) })
	rank, seen := map[string]int{}, map[uint32]int{}
	for _, w := range records {
		rank[w.ID] = seen[w.UID]
		seen[w.UID]++
	}
	slices.SortStableFunc(records, func(a, b windowRecord) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
}

// record is the window without its stages and parts. The meter's mutex is held.
func (w *Window) record(ns func(time.Time) int64, changes int) windowRecord {
	q := &w.req
	r := windowRecord{
		ID: w.id, UID: q.Owner, Exact: q.Exact, Detached: w.life.detached, Name: q.Name,
		Idle: q.IdleWatts, IdlePlus: q.IdleWattsUncertainty, Weight: q.Weight, Workload: q.Workload, Unit: q.Unit,
		Hint: q.HintJoulesPerUnit, Opened: ns(w.opened), Moved: w.changes != changes, Parts: []partRecord{},
	}
	if r.Detached {
		r.Until = ns(w.life.until)
	}
	return r
}

// recordStages adds the window's stages, unless it is being closed at this moment.
func (w *Window) recordStages(r *windowRecord, ns func(time.Time) int64) {
	r.Staged = r.Opened
	select {
	case w.gate <- struct{}{}:
		defer w.gate.leave()
	default:
		return
	}
	r.Absent, r.Staged = w.absent, ns(w.staged)
	stages := w.stages
	if more := len(stages) - journalStages; more > 0 {
		earlier := stageRecord{Name: "earlier"}
		for _, s := range stages[:more] {
			earlier.Length, earlier.Energy, earlier.Gross = earlier.Length+int64(s.Duration), earlier.Energy+s.Energy, earlier.Gross+s.Gross
		}
		r.Stages, stages = append(r.Stages, earlier), stages[more:]
	}
	for _, s := range stages {
		r.Stages = append(r.Stages, stageRecord{s.Name, int64(s.Duration), s.Energy, s.Gross})
	}
}

// record adds the device, and the windows' parts on it. One that hangs is left out.
func (d *device) record(ctx context.Context, r *journalRecord, windows []*Window, records []windowRecord, ns func(time.Time) int64) {
	if d.enter(ctx) != nil {
		for i, w := range windows {
			if w.on(d) >= 0 {
				records[i].Absent = append(slices.Clip(records[i].Absent), ReasonHung)
			}
		}
		return
	}
	defer d.gate.leave()
	t := &d.line
	device := deviceRecord{
		Name: d.name, Backend: d.backend, Counts: t.counter.hasBase && d.backend != PowerSampler,
		Value: t.counter.base.value, Base: ns(t.base()), Asleep: int64(t.counter.base.asleep),
		Totals: t.now.record(), Measured: t.measured, Loose: [2]float64{t.loose.whole, t.loose.frac},
	}
	for _, n := range t.notes {
		device.Notes = append(device.Notes, noteRecord{ns(n.from), ns(n.to), n.reason, n.gap})
	}
	for _, e := range t.epochs[max(0, len(t.epochs)-journalEpochs):] {
		one := epochRecord{Condition: e.condition, Totals: e.begin.record()}
		if !e.begin.at.IsZero() {
			one.At = ns(e.begin.at)
		}
		device.Epochs = append(device.Epochs, one)
	}
	used := false
	for i, w := range windows {
		for j := range w.parts {
			if p := &w.parts[j]; p.device == d && (p.joined || p.coarse) {
				records[i].Parts = append(records[i].Parts, p.record(len(r.Devices), ns))
				used = true
			}
		}
	}
	if used {
		r.Devices = append(r.Devices, device)
	}
}

func (p *part) record(device int, ns func(time.Time) int64) partRecord {
	r := partRecord{Device: device, Coarse: p.coarse, Joined: p.joined, Floors: p.book != nil || p.books != nil, Level: p.level}
	if p.joined {
		r.At, r.Totals = ns(p.opened.at), p.opened.record()
		r.Blur, r.Before, r.Took, r.Portion = int64(p.blur), p.before, int64(p.took), round6(p.portion)
		if t := p.told; t != nil {
			r.Told = [5]float64{float64(t.gross), round6(t.seconds), round6(t.own.uj), round6(t.own.err), round6(t.own.missing)}
		}
	}
	return r
}

func (t totals) record() totalsRecord {
	return totalsRecord{
		t.energy.whole, round6(t.energy.frac), t.phi.whole, round6(t.phi.frac), round6(t.psi),
		float64(t.measured), float64(t.together),
	}
}

// round6 keeps six digits of a fraction: of µJ and seconds nobody needs more, and the file is shorter.
func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }

func (r totalsRecord) totals() totals {
	return totals{
		energy: fine{r[0], r[1]}, phi: fine{r[2], r[3]}, psi: r[4],
		measured: time.Duration(r[5]), together: time.Duration(r[6]),
	}
}

// load reads the journal that is there, of this boot; nil where there is none.
func (m *Meter) loadJournal() *journalRecord {
	f := m.journal.file
	var found *journalRecord
	now, boot := int64(m.host.Monotonic()), m.journal.boot
	err := f.Load(func(data []byte) error {
		var r journalRecord
		err := f.Decode(data, &r, func() error { return r.check(boot, now) })
		if err == nil {
			found = &r
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("windows of the daemon before are not read", "err", err)
	}
	return found
}
