package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// FloorEntry is a certificate as the store holds it.
type FloorEntry struct {
	meter.Floor
	Void string // why no window is charged by it any more; empty: it holds
}

// software is what decides whether a certificate still speaks of this machine.
type software struct {
	kernel, boot, driver string
	boards               map[string]bool // devices that the driver drives
}

func softwareOf(h *host.Host) software {
	s := software{boot: h.BootID(), boards: map[string]bool{}}
	if kernel, err := h.Proc.ReadString("sys/kernel/osrelease"); err == nil {
		s.kernel = kernel
	}
	for _, gpu := range h.GPUs.All() {
		s.boards["gpu/"+gpu.Info().UUID] = true
	}
	if len(s.boards) > 0 {
		s.driver = h.GPUs.Version()
	}
	return s
}

// certify completes what was measured to a certificate of this machine.
func (s software) certify(f meter.Floor) meter.Floor {
	f.Kernel, f.BootID = s.kernel, s.boot
	if s.boards[f.Device] {
		f.Driver = s.driver
	}
	return f.Named()
}

// void says why a certificate does not hold with this software. Of a board that sleeps the driver may not be known.
func (s software) void(f meter.Floor) string {
	switch {
	case f.Kernel != s.kernel:
		return fmt.Sprintf("measured on kernel %s, this is %s", f.Kernel, s.kernel)
	case s.boards[f.Device] && f.Driver != s.driver:
		return fmt.Sprintf("measured on GPU driver %s, this is %s", f.Driver, s.driver)
	}
	return ""
}

// tellFloors gives the meter the certificates that hold.
func (d *Daemon) tellFloors(s *state) {
	var valid []meter.Floor
	for _, f := range s.floors.all {
		if s.software.void(f) == "" {
			valid = append(valid, f)
		}
	}
	d.meter.SetFloors(valid)
}

// noticeSuspects keeps it on disk that windows have cost less than nothing above a floor.
func (d *Daemon) noticeSuspects(s *state) {
	var news []meter.Floor
	for _, f := range s.floors.all {
		if !f.Suspect && d.meter.Suspects(f.ID) {
			f.Suspect = true
			news = append(news, f)
		}
	}
	if len(news) > 0 {
		s.told(d.log, "floors", s.floors.put(news...))
	}
}

// Floors returns the certificates of idle floors, by device.
func (d *Daemon) Floors(ctx context.Context) ([]FloorEntry, error) {
	var all []FloorEntry
	err := d.do(ctx, func(_ context.Context, s *state) error {
		all = d.entries(s, s.floors.all)
		return nil
	})
	return all, err
}

func (d *Daemon) entries(s *state, floors []meter.Floor) []FloorEntry {
	entries := make([]FloorEntry, len(floors))
	for i, f := range floors {
		f.Suspect = f.Suspect || d.meter.Suspects(f.ID)
		entries[i] = FloorEntry{Floor: f, Void: s.software.void(f)}
	}
	return sortedFloors(entries)
}

// ForgetFloors removes certificates. Windows that are open keep theirs.
func (d *Daemon) ForgetFloors(ctx context.Context, c Caller, ids []string, all, dryRun bool) ([]FloorEntry, error) {
	var gone []FloorEntry
	err := d.do(ctx, func(_ context.Context, s *state) error {
		if all {
			ids = nil
			for _, f := range s.floors.all {
				ids = append(ids, f.ID)
			}
		}
		forget := s.floors.forget
		if dryRun {
			forget = s.floors.find
		}
		floors, err := forget(ids...)
		gone = d.entries(s, floors)
		if err != nil || dryRun || len(gone) == 0 {
			return err
		}
		d.log.Info("floors forgotten", "uid", c.UID, "count", len(gone))
		d.tellFloors(s)
		s.remember(c.author("floor forget"), nil)
		d.publish(s)
		return nil
	})
	return gone, err
}

// inPart ends the condition of a point that was not reached in all.
const inPart = " (in part)"

// conditionOf is what the meter is told of a point, and of what bringing it into force came to.
func conditionOf(p levers.Point, err error) string {
	if err != nil {
		return p.Key() + inPart
	}
	return p.Key()
}

// PointOf is the point of a condition, as far as its text tells.
func PointOf(condition string) levers.Point {
	var settings []levers.Setting
	for word := range strings.FieldsSeq(strings.TrimSuffix(condition, inPart)) {
		if lever, value, ok := strings.Cut(word, "="); ok {
			settings = append(settings, levers.Setting{Lever: lever, Value: levers.Value(value)})
		}
	}
	return levers.NewPoint(settings...)
}
