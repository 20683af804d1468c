package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// statusFile is where the picture lies for readers without gRPC, in the runtime directory.
const statusFile = "quner/status.json"

// Status returns the newest picture. It takes no part of the loop's time.
func (d *Daemon) Status() *Status { return d.picture.Load().status }

// Changed returns the newest picture and a channel that is closed when there is a newer one.
func (d *Daemon) Changed() (*Status, <-chan struct{}) {
	p := d.picture.Load()
	return p.status, p.next
}

// publish makes a new picture of s for readers, and writes status.json.
func (d *Daemon) publish(s *state) {
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	now := &Status{
		Version: d.opts.Version, Time: time.Now(), Started: s.started, Host: d.opts.Simulated,
		Profile: s.profile, Mode: s.mode, PointSource: s.source,
		NeedsTune: s.source == PointDefault, Revalidate: s.source == PointTuned && s.inForce.Soft != s.print.Soft.Key(),
		Levers: s.bank.States(ctx), Missing: s.bank.Missing(),
		Devices: d.meter.Power(),
		Signal: Signal{
			Sample: s.sample, Proposes: s.detector.Proposes(),
			Agreeing: s.detector.Agreeing(), Needed: s.detector.Needed(),
		},
		Tune: s.tuned, Retune: s.retunes.now, Savings: s.savings.sum(), OpenWindows: d.meter.OpenCount(),
	}
	switch l := s.sweep; {
	case l == nil || l.still:
	case l.floor:
		now.PointSource = PointFloor
	default:
		now.PointSource = PointSweep
	}
	if err := s.history.save(); err != nil {
		s.degraded["history"] = fmt.Sprintf("the history is not on disk: %v", err)
	} else {
		delete(s.degraded, "history")
	}
	if err := d.meter.JournalTrouble(); err != nil {
		s.degraded["windows"] = fmt.Sprintf("energy windows, or their results, would not survive a restart: %v", err)
	} else {
		delete(s.degraded, "windows")
	}
	for _, subject := range slices.Sorted(maps.Keys(s.degraded)) {
		now.Degraded = append(now.Degraded, s.degraded[subject])
	}
	now.Degraded = append(now.Degraded, s.bank.Degraded()...)
	if err := d.writeStatus(now); err != nil && s.degraded["status"] == "" {
		s.degraded["status"] = err.Error()
		d.log.Warn("status file", "err", err)
	} else if err == nil {
		delete(s.degraded, "status")
	}
	d.tellManager(s, now)
	old := d.picture.Swap(&published{status: now, next: make(chan struct{})})
	if old != nil {
		close(old.next)
	}
}

// publishTimeout bounds the read-back of all levers for one picture. It is the default tick: a thread that went to sleep
// while a timer ran is woken at its end even where it was stopped, and this one's end is then when the next tick wakes
// the process anyway.
const publishTimeout = 10 * time.Second

func (d *Daemon) writeStatus(now *Status) error {
	if err := d.host.Run.Mkdir("quner", 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	return d.host.Run.ReplaceVolatile(statusFile, append(data, '\n'), 0o644)
}
