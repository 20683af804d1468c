package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
	"github.com/qunerd/quner/internal/unit"
)

// SavingsFile is where the savings are, in the state directory.
const SavingsFile = "savings.json"

// savingsEvery is how often savings are written at most, and at the stop.
const savingsEvery = 10 * time.Minute

// Bounds of what is kept: days with a row of their own, rows of one day, and rows of all that is older.
const (
	savingsDays   = 366
	savingsPerDay = 16
	savingsOlder  = 64
)

// Earlier stands for the days that have no row of their own any more.
const Earlier = "earlier"

// Saving is what one day has saved under one certificate; or, without a certificate, how long it is not known.
type Saving struct {
	Day         string           `json:"day"` // "2026-11-30", of the machine's clock; Earlier
	Profile     profiles.Profile `json:"profile"`
	Workload    string           `json:"workload,omitempty"`    // that the certificate names
	Certificate string           `json:"certificate,omitempty"` // id and time of the point; empty: unmeasured
	Seconds     float64          `json:"seconds"`
	Used        float64          `json:"used_j,omitempty"`  // by the whole host in that time, as metered
	Saved       float64          `json:"saved_j,omitempty"` // estimated
	Half        float64          `json:"half_j,omitempty"`  // half of the 95 % interval
}

// Savings are all that is known, the oldest day first.
type Savings struct {
	Since time.Time // the first that is known
	Rows  []Saving
}

// Total is what was saved in all, with the half-width of its 95 % interval. The error of one certificate is the same in
// each of its rows, that of another is its own.
func (s Savings) Total() (saved, half unit.Energy, measured bool) {
	sum, by := 0.0, map[string]float64{}
	for _, r := range s.Rows {
		if r.Certificate != "" {
			sum, measured = sum+r.Saved, true
			by[r.Certificate] += r.Half
		}
	}
	square := 0.0
	for _, h := range by {
		square += h * h
	}
	return unit.FromJoules(sum), unit.FromJoules(math.Sqrt(square)), measured
}

// savings books what points save, on disk too. It belongs to the loop.
type savings struct {
	file  host.StateFile
	now   Savings
	at    time.Time // of the last booking
	under situation // what held then
	saved time.Time
	dirty bool
}

// situation is what decides how a stretch of time is booked.
type situation struct {
	profile profiles.Profile
	point   profiles.TunedPoint // the certificate that holds; empty: none
}

type savingsFile struct {
	Schema int       `json:"schema"`
	Since  time.Time `json:"since"`
	Rows   []Saving  `json:"rows"`
}

func openSavings(state host.Dir, log *slog.Logger) (*savings, error) {
	s := &savings{file: host.StateFile{Dir: state, Name: SavingsFile, Schema: 1, Log: log}, now: Savings{Since: time.Now()}, saved: time.Now()}
	err := s.file.Load(func(data []byte) error {
		read, err := s.decode(data)
		if err == nil {
			s.now = read
		}
		return err
	})
	return s, err
}

func (s *savings) decode(data []byte) (Savings, error) {
	var content savingsFile
	err := s.file.Decode(data, &content, func() error {
		if len(content.Rows) > savingsDays*savingsPerDay+savingsOlder {
			return fmt.Errorf("%d rows", len(content.Rows))
		}
		for _, r := range content.Rows {
			if err := r.check(); err != nil {
				return err
			}
		}
		return nil
	})
	return Savings{Since: content.Since, Rows: content.Rows}, err
}

func (r Saving) check() error {
	if _, err := time.Parse(time.DateOnly, r.Day); err != nil && r.Day != Earlier {
		return fmt.Errorf("day %q", r.Day)
	}
	for _, v := range []float64{r.Seconds, r.Used, r.Half} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: figure %v", r.Day, v)
		}
	}
	if math.IsNaN(r.Saved) || math.IsInf(r.Saved, 0) || r.Certificate == "" && r.Saved != 0 {
		return fmt.Errorf("%s: saved %v J, certificate %q", r.Day, r.Saved, r.Certificate)
	}
	return nil
}

// book adds a stretch of time to its row.
func (s *savings) book(r Saving) {
	same := func(a Saving) bool {
		return a.Day == r.Day && a.Profile == r.Profile && a.Workload == r.Workload && a.Certificate == r.Certificate
	}
	i := slices.IndexFunc(s.now.Rows, same)
	if i < 0 {
		s.makeRoom(r.Day)
		i = len(s.now.Rows)
		s.now.Rows = append(s.now.Rows, Saving{Day: r.Day, Profile: r.Profile, Workload: r.Workload, Certificate: r.Certificate})
	}
	s.now.Rows[i].add(r)
	s.dirty = true
}

func (r *Saving) add(other Saving) {
	r.Seconds += other.Seconds
	r.Used += other.Used
	r.Saved += other.Saved
	r.Half += other.Half
}

// makeRoom keeps a day, and all that is older than a year, to a few rows: what is folded keeps its sums, and its errors
// are added up as if they were one's, which is never too little.
func (s *savings) makeRoom(day string) {
	s.fold(day, day, savingsPerDay)
	others := map[string]bool{}
	for _, r := range s.now.Rows {
		if r.Day != Earlier && r.Day != day {
			others[r.Day] = true
		}
	}
	days := slices.Sorted(maps.Keys(others))
	for len(days) >= savingsDays {
		s.fold(days[0], Earlier, 0)
		s.fold(Earlier, Earlier, savingsOlder)
		days = days[1:]
	}
}

// many stands for certificates that share a row.
const many = "several"

// fold moves the rows of one day to those of another; a day that then has as many rows as it may have shares one for
// each profile.
func (s *savings) fold(from, to string, most int) {
	n := 0
	for i := range s.now.Rows {
		if s.now.Rows[i].Day == from {
			n++
		}
	}
	if n == 0 || from == to && n < most {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(s.now.Rows), func(r Saving) bool { return r.Day == from })
	moved := slices.DeleteFunc(slices.Clone(s.now.Rows), func(r Saving) bool { return r.Day != from })
	s.now.Rows = rest
	for _, r := range moved {
		r.Day = to
		if from == to {
			r.Workload = ""
			if r.Certificate != "" {
				r.Certificate = many
			}
		}
		i := slices.IndexFunc(s.now.Rows, func(a Saving) bool {
			return a.Day == to && a.Profile == r.Profile && a.Workload == r.Workload && a.Certificate == r.Certificate
		})
		if i < 0 {
			s.now.Rows = append(s.now.Rows, r)
		} else {
			s.now.Rows[i].add(r)
		}
	}
}

// save writes what there is, unless it was written a short while ago. It stays to be written until it could be.
func (s *savings) save(now bool) error {
	if !s.dirty || !now && time.Since(s.saved) < savingsEvery {
		return nil
	}
	s.saved = time.Now() // also a failed try waits
	err := s.file.Save(savingsFile{Schema: s.file.Schema, Since: s.now.Since, Rows: s.now.Rows})
	s.dirty = err != nil
	return err
}

// bookSavings books the time since the tick before. What held at both its ends is taken to have held between them; what
// did not is not measured.
func (d *Daemon) bookSavings(ctx context.Context, s *state) {
	b, now := s.savings, time.Now()
	before, since := b.under, b.at
	b.at, b.under = now, d.situation(ctx, s)
	passed := now.Sub(since)
	if since.IsZero() || passed <= 0 || s.profile == profiles.Unknown {
		return
	}
	r := Saving{Day: now.Format(time.DateOnly), Profile: before.profile, Seconds: min(passed, 3*d.cfg.Tick).Seconds()}
	watts, known := d.hostWatts()
	if p := before.point; p.ID != "" && known && p.ID == b.under.point.ID && p.TunedAt.Equal(b.under.point.TunedAt) && before.profile == b.under.profile {
		r.Workload, r.Certificate = p.Workload, fmt.Sprintf("%s@%d", p.ID, p.TunedAt.Unix())
		r.Used = watts.Watts() * r.Seconds
		// For what now takes E, the state found would have taken E ÷ (1 − saving).
		left := 1 - p.Saving
		r.Saved, r.Half = r.Used*p.Saving/left, r.Used*p.SavingHalfWidth/(left*left)
	}
	b.book(r)
	s.told(d.log, "savings", b.save(false))
}

// situation is what the savings of the next stretch of time depend on: a certificate, if one speaks of what the machine
// does now. At rest that is time itself; else it is the workload that the certificate names, and that says it is running by
// a window of its owner's.
func (d *Daemon) situation(ctx context.Context, s *state) situation {
	now := situation{profile: s.profile}
	p := s.inForce
	if s.source != PointTuned || s.sweep != nil || !p.Certified || p.Profile != s.profile || !(p.Saving < 1) ||
		p.SavingHalfWidth < 0 || s.degraded["levers"] != "" {
		return now
	}
	proposed := s.detector.Judge(s.sample)
	switch {
	case p.Profile == profiles.Idle && p.Workload == "" && proposed == profiles.Idle:
		now.point = p
	case p.Profile == profiles.Training && p.Workload != "":
		running := d.meter.Running(ctx, meter.Viewer{UID: p.UID, Exact: true}, false)
		if slices.ContainsFunc(running, func(w meter.Running) bool { return w.Workload == p.Workload }) {
			now.point = p
		}
	}
	return now
}

// hostWatts is what the host drew between the last two ticks, with what is added for the rest of it; not known where a
// device that a sweep would count is not.
func (d *Daemon) hostWatts() (sum unit.Power, known bool) {
	counted := d.counted()
	for _, p := range d.meter.Power() {
		if !slices.Contains(counted, p.Device) {
			continue
		}
		if !p.Known && !strings.EqualFold(p.Reason, meter.ReasonSleeping) {
			return 0, false
		}
		sum, known = sum+p.Power, true
	}
	return sum + d.cfg.Base, known
}

// Savings returns what is known of the savings. They are estimates.
func (d *Daemon) Savings(ctx context.Context) (Savings, error) {
	var out Savings
	err := d.do(ctx, func(_ context.Context, s *state) error {
		out = Savings{Since: s.savings.now.Since, Rows: slices.Clone(s.savings.now.Rows)}
		return nil
	})
	slices.SortStableFunc(out.Rows, func(a, b Saving) int { return strings.Compare(order(a.Day), order(b.Day)) })
	return out, err
}

// order puts what has no day before all that has.
func order(day string) string {
	if day == Earlier {
		return ""
	}
	return day
}

// SavingsSum is the total for the status.
type SavingsSum struct {
	Since    time.Time   `json:"since"`
	Measured bool        `json:"measured"` // any time under a certificate; else nothing is known
	Saved    unit.Energy `json:"saved_uj"`
	Half     unit.Energy `json:"half_width_uj"`
}

func (s *savings) sum() SavingsSum {
	saved, half, measured := s.now.Total()
	return SavingsSum{Since: s.now.Since, Measured: measured, Saved: saved, Half: half}
}
