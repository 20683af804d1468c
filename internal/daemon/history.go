package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
)

// HistoryFile is where the history is, in the state directory.
const HistoryFile = "history.json"

// historyLength is how many events are kept.
const historyLength = 200

// Event is one admin call, or one write of a lever.
type Event struct {
	Time     time.Time    `json:"time"`
	UID      uint32       `json:"uid"`                 // who asked; meaningless with ByDaemon
	ByDaemon bool         `json:"by_daemon,omitempty"` // a switch of profile, a stop
	Call     string       `json:"call"`                // what was asked; of a write, why it was made
	Lever    string       `json:"lever,omitempty"`     // of a write
	From     levers.Value `json:"from,omitempty"`
	To       levers.Value `json:"to,omitempty"`
	Unit     string       `json:"unit,omitempty"`
	Note     string       `json:"note,omitempty"`
	Error    string       `json:"error,omitempty"`
}

// history remembers the newest events, on disk too. It belongs to the loop.
type history struct {
	file   host.StateFile
	events []Event
	dirty  bool
}

type historyFile struct {
	Schema int     `json:"schema"`
	Events []Event `json:"events"`
}

func openHistory(state host.Dir, log *slog.Logger) (*history, error) {
	h := &history{file: host.StateFile{Dir: state, Name: HistoryFile, Schema: 1, Log: log}}
	err := h.file.Load(func(data []byte) error {
		events, err := h.decode(data)
		if err == nil {
			h.events = events
		}
		return err
	})
	return h, err
}

func (h *history) decode(data []byte) ([]Event, error) {
	var content historyFile
	err := h.file.Decode(data, &content, func() error { return nil })
	if n := len(content.Events); n > historyLength {
		content.Events = content.Events[n-historyLength:]
	}
	return content.Events, err
}

func (h *history) add(e Event) {
	e.Time = time.Now()
	if len(h.events) >= historyLength {
		h.events = slices.Delete(h.events, 0, len(h.events)-historyLength+1)
	}
	h.events = append(h.events, e)
	h.dirty = true
}

// save writes the history if there is news. It stays news until it could be written.
func (h *history) save() error {
	if !h.dirty {
		return nil
	}
	if err := h.file.Save(historyFile{Schema: h.file.Schema, Events: h.events}); err != nil {
		return err
	}
	h.dirty = false
	return nil
}

// maxNote is the longest text of others that an event keeps: a host's error may be of any length.
const maxNote = 300

// author is on whose behalf the loop moves levers at the moment.
type author struct {
	call     string
	uid      uint32
	byDaemon bool
}

func byDaemon(why string) author { return author{call: why, byDaemon: true} }

func (c Caller) author(call string) author { return author{call: call, uid: c.UID} }

// attrs say in a log line who it was.
func (a author) attrs() []any {
	if a.byDaemon {
		return []any{"why", a.call}
	}
	return []any{"call", a.call, "uid", a.uid}
}

// remember books an admin call with what became of it. A call that was refused is news too.
func (s *state) remember(a author, err error) {
	e := Event{UID: a.uid, ByDaemon: a.byDaemon, Call: a.call}
	if err != nil {
		e.Error = short(err.Error())
	}
	s.history.add(e)
}

// rememberWrites books what was written to levers.
func (s *state) rememberWrites(a author, writes []levers.Write) {
	for _, w := range writes {
		if !w.Moved() && s.others(w.Lever) {
			continue // it is somebody else's all along: no write, and no news
		}
		s.history.add(Event{
			UID: a.uid, ByDaemon: a.byDaemon, Call: a.call,
			Lever: w.Lever, From: w.From, To: w.To, Unit: w.Unit, Note: short(w.Note),
		})
	}
}

func short(text string) string {
	if len(text) <= maxNote {
		return text
	}
	cut := []rune(text)
	return string(cut[:min(len(cut), maxNote)]) + "…"
}

// History returns the newest events, oldest first; limit 0 means all that are kept.
func (d *Daemon) History(ctx context.Context, limit int) ([]Event, error) {
	var events []Event
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		events = slices.Clone(s.history.events)
		return nil
	})
	if limit > 0 && len(events) > limit {
		events = events[len(events)-limit:]
	}
	return events, err
}

// Selftest moves each lever for a moment, reads it back and puts it back. It is refused while a sweep holds the levers.
func (d *Daemon) Selftest(ctx context.Context, c Caller, dryRun bool) ([]levers.Test, error) {
	var tests []levers.Test
	err := d.do(ctx, func(ctx context.Context, s *state) error {
		if !dryRun {
			d.makeWay(s, "selftest")
		}
		if s.sweep != nil {
			return ErrBusy
		}
		if err := d.observing(); err != nil && !dryRun {
			return err
		}
		var err error
		tests, err = s.bank.Selftest(ctx, s.point, dryRun)
		if dryRun {
			return err
		}
		a := c.author("selftest")
		for _, t := range tests {
			s.history.add(Event{
				UID: a.uid, Call: a.call, Lever: t.Lever, From: t.From, To: t.To, Unit: t.Unit,
				Note: string(t.Verdict), Error: short(t.Detail),
			})
		}
		s.remember(a, err)
		// The levers were elsewhere for a moment, and with them the idle floor.
		d.meter.SetCondition(ctx, "selftest")
		d.meter.SetCondition(ctx, s.point.Key())
		d.publish(s)
		return err
	})
	return tests, err
}

// Record books writes that a command has made with no daemon. The command holds the daemon's lock.
func Record(dir host.Dir, log *slog.Logger, uid uint32, call string, writes []levers.Write) error {
	if len(writes) == 0 {
		return nil
	}
	h, err := openHistory(dir, log)
	if err != nil {
		return err
	}
	s := &state{history: h}
	s.rememberWrites(author{call: call, uid: uid}, writes)
	return h.save()
}
