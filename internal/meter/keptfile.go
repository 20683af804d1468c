package meter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Results that are kept lie beside the journal of open windows, and like that do not outlive the boot.
const (
	resultsName   = "results.json"
	resultsSchema = 1
)

// resultsRecord is the file. Times are the host's monotonic clock in ns.
type resultsRecord struct {
	Schema  int            `json:"schema"`
	Boot    string         `json:"boot"`
	Clock   int64          `json:"clock_ns"`
	Results []resultRecord `json:"results"` // each owner's oldest first
}

// resultRecord is a result with its owner.
type resultRecord struct {
	UID    uint32         `json:"uid"`
	Exact  bool           `json:"exact,omitempty"`
	Due    bool           `json:"due,omitempty"` // its owner has not been told
	Hint   float64        `json:"hint_j,omitempty"`
	Ended  int64          `json:"ended_ns"`
	Result Result         `json:"result"`
	Beyond []beyondRecord `json:"beyond"` // of the devices, in their order
}

// beyondRecord is what sums need of a device beside its figures.
type beyondRecord struct {
	Bound unit.Energy `json:"bound_uj"`
	Holes unit.Energy `json:"holes_uj"`
}

var errResultsFull = errors.New("more results wait for their owners than there is room for in 1 MiB; each owner's newest are there first")

func (s *shelved) record(ns func(time.Time) int64) resultRecord {
	r := resultRecord{UID: s.owner, Exact: s.exact, Due: s.due, Hint: s.hint, Ended: ns(s.Ended), Result: s.Result}
	for i := range s.Devices {
		r.Beyond = append(r.Beyond, beyondRecord{s.Devices[i].bound, s.Devices[i].holes})
	}
	return r
}

func (r *resultRecord) shelved(at func(int64) time.Time) shelved {
	s := shelved{Result: r.Result, Ended: at(r.Ended), owner: r.UID, exact: r.Exact, hint: r.Hint, due: r.Due}
	for i, b := range r.Beyond {
		s.Devices[i].bound, s.Devices[i].holes = b.Bound, b.Holes
	}
	return s
}

// writeResults writes the results down where there are others that their owners have not been told, or all of them at the
// end. The journal's mutex is held.
func (m *Meter) writeResults(end bool) {
	j := m.journal
	if !end && j.tells(m.kept.due()) { // asked first: there may be an hour's results, and ten jots a second
		return
	}
	results, version := m.kept.snapshot()
	data, n, err := m.encodeResults(results)
	switch {
	case n > 0:
		err = cmp.Or(j.replace(resultsName, data), err)
		j.kept = true
	case err == nil && j.kept:
		err = j.file.Dir.Remove(resultsName)
		j.kept = err != nil
	}
	j.version = version
	m.tellTrouble(&j.untold, err, "results of energy windows")
}

// tells reports whether the results on disk are those that their owners wait for, as far as there is room. The journal's
// mutex is held.
func (j *journal) tells(version uint64) bool {
	return version == j.version && (j.untold == nil || errors.Is(j.untold, errResultsFull))
}

// encodeResults writes results down, n of them: those that are due first, and of each owner in turn the newest.
func (m *Meter) encodeResults(results []shelved) (data []byte, n int, err error) {
	now, clock := time.Now(), m.host.Monotonic()
	ns := func(t time.Time) int64 { return int64(clock + t.Sub(now)) }
	head, err := json.Marshal(resultsRecord{resultsSchema, m.journal.boot, int64(clock), []resultRecord{}})
	if err != nil {
		return nil, 0, err
	}
	room, full := journalBytes-len(head), false
	type line struct {
		text  []byte
		ended time.Time
	}
	var lines []line
	for _, s := range inTurn(results) {
		text, failed := s.encode(ns, int64(clock))
		if failed != nil {
			m.log.Debug("result is not written down", "window", s.ID, "err", failed)
			continue
		}
		if room -= len(text) + 1; room < 0 {
			full = full || s.due
			break
		}
		lines = append(lines, line{text, s.Ended})
	}
	if full {
		err = errResultsFull
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.ended.Compare(b.ended) })
	texts := make([][]byte, len(lines))
	for i := range lines {
		texts[i] = lines[i].text
	}
	data = slices.Concat(bytes.TrimSuffix(head, []byte("]}")), bytes.Join(texts, []byte(",")), []byte("]}\n"))
	return data, len(lines), err
}

// encode writes one result down, unless whoever reads the file would refuse it: that would cost all others too.
func (s *shelved) encode(ns func(time.Time) int64, clock int64) ([]byte, error) {
	r := s.record(ns)
	c := checker{now: clock}
	c.result(&r, map[string]bool{})
	if c.err != nil {
		return nil, c.err
	}
	return json.Marshal(r)
}

// inTurn sorts results so that those that are due come first, and of each owner in turn the newest: who has many cannot
// take the room of those who have few.
func inTurn(results []shelved) []shelved {
	slices.SortStableFunc(results, func(a, b shelved) int { return b.Ended.Compare(a.Ended) })
	rank, seen := map[string]int{}, map[uint32]int{}
	for i := range results {
		rank[results[i].ID] = seen[results[i].owner]
		seen[results[i].owner]++
	}
	late := func(s *shelved) int {
		if s.due {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(results, func(a, b shelved) int {
		return cmp.Or(cmp.Compare(late(&a), late(&b)), cmp.Compare(rank[a.ID], rank[b.ID]))
	})
	return results
}

// recallResults puts on the shelves what the meter before has written down.
func (m *Meter) recallResults() {
	j := m.journal
	f := host.StateFile{Dir: j.file.Dir, Name: resultsName, Schema: resultsSchema, Log: m.log}
	now := time.Now()
	clock := int64(m.host.Monotonic())
	var found *resultsRecord
	err := f.Load(func(data []byte) error {
		var r resultsRecord
		err := f.Decode(data, &r, func() error { return r.check(j.boot, clock) })
		if err == nil {
			found = &r
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("results of the daemon before are not read", "err", err)
	}
	if found == nil {
		return
	}
	j.kept = true
	_, most := m.bounds()
	for i := range found.Results {
		r := &found.Results[i]
		m.kept.put(r.shelved(func(ns int64) time.Time { return now.Add(time.Duration(ns - clock)) }), most)
	}
	m.kept.sweep(now)
	_, j.version = m.kept.snapshot()
}

// check says what is wrong with results. Those of another boot are of no use: nobody is there any more who would ask.
func (r *resultsRecord) check(boot string, now int64) error {
	if r.Boot == "" || r.Boot != boot {
		return fmt.Errorf("boot %q, this is %q", clip(r.Boot), boot)
	}
	c := checker{now: r.Clock}
	c.want(r.Clock >= 0 && r.Clock <= now && now < 1<<62, "clock")
	c.want(len(r.Results) <= maxRecords, "sizes")
	ids := map[string]bool{}
	for i := range r.Results {
		c.result(&r.Results[i], ids)
	}
	return c.err
}

func (c *checker) result(r *resultRecord, ids map[string]bool) {
	w := &r.Result
	c.want(isID(w.ID) && !ids[w.ID], "id")
	ids[w.ID] = true
	c.want(isLabel(w.Name) && (w.Workload == "" || isLabel(w.Workload)) && (w.Unit == "" || isLabel(w.Unit)), "label")
	c.past(r.Ended, "ended")
	c.want(amount(r.Hint) && amount(w.Work), "work")
	c.want(w.Share == "exclusive" || w.Share == "shared", "share")
	c.want(len(w.Devices) <= maxParts && len(r.Beyond) == len(w.Devices) && len(w.Stages) <= maxRecords, "sizes")
	c.figures(w.Method, w.Coverage, w.Duration, w.MaxGap, w.Reasons)
	c.want(len(w.Backend) <= 200, "backend")
	c.energies(w.Energy, w.HalfWidth, w.UpperBound, w.Gross, w.Floor, w.Platform)
	c.want(!math.IsNaN(w.PerUnit+w.PerUnitHalfWidth) && !math.IsInf(w.PerUnit+w.PerUnitHalfWidth, 0), "per unit")
	for i := range w.Devices {
		d := &w.Devices[i]
		c.want(d.Device != "" && len(d.Device) <= 200 && len(d.Label) <= 200 && len(d.FloorFrom) <= 64<<10 && len(d.Backend) <= 64, "device")
		c.figures(d.Method, d.Coverage, d.Duration, d.MaxGap, d.Reasons)
		c.energies(d.Energy, d.HalfWidth, d.Gross, d.Floor, d.Total, r.beyond(i).Bound, r.beyond(i).Holes,
			d.Terms.Edges, d.Terms.Floor, d.Terms.Clock, d.Terms.Gain)
		c.want(len(d.Terms.GainFrom) <= 64, "gain")
	}
	for _, s := range w.Stages {
		c.want(s.Name == "" || isLabel(s.Name), "stage")
		c.length(int64(s.Duration), "stage")
		c.energies(s.Energy, s.Gross)
	}
}

// beyond is a device's, also of a record that lacks it.
func (r *resultRecord) beyond(i int) beyondRecord {
	if i < len(r.Beyond) {
		return r.Beyond[i]
	}
	return beyondRecord{}
}

// figures wants what a result and each of its devices have.
func (c *checker) figures(m Method, coverage float64, lasted, gap time.Duration, reasons []string) {
	c.want(m == Sampled || m == Estimated || m == Unknown, "method")
	c.want(!math.IsNaN(coverage) && coverage >= 0 && coverage <= 1, "coverage")
	c.length(int64(lasted), "duration")
	c.length(int64(gap), "gap")
	c.want(len(reasons) <= 256, "reasons")
	for _, reason := range reasons {
		c.want(isLabel(reason), "reason")
	}
}

// energies wants amounts that can be added up by the hundred: each is less than a rack draws in a month.
func (c *checker) energies(all ...unit.Energy) {
	for _, e := range all {
		c.want(e > -1<<56 && e < 1<<56, "energy")
	}
}
