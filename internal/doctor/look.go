package doctor

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
)

// readOnly is a host through which nothing can be changed.
func readOnly(h *host.Host) *host.Host {
	seen := *h
	seen.Sys, seen.Proc, seen.Etc, seen.Run, seen.Var = h.Sys.ReadOnly(), h.Proc.ReadOnly(), h.Etc.ReadOnly(), h.Run.ReadOnly(), h.Var.ReadOnly()
	return &seen
}

// Probes are how long Look measures counters, at most.
const (
	zoneProbe  = 20 * time.Millisecond
	boardProbe = time.Second
)

// Look examines a host with no daemon; its levers have the range that the owner allows. Nothing can be changed by it: every
// directory it sees is read-only. It measures how the counters move, which takes up to a second where a board is awake;
// progress is told how much of that is done, from 0 to 1, and may be nil.
func Look(ctx context.Context, of *host.Host, allowed levers.Options, log *slog.Logger, progress func(float64)) (Report, error) {
	h := readOnly(of)
	// The bank sets aside a journal that it cannot trust. Here it cannot, says so, and that is in the report.
	bank, err := allowed.OpenBank(ctx, h, slog.New(slog.DiscardHandler))
	if bank == nil {
		return Report{}, err
	}
	m, broken := meter.New(ctx, h, meter.Options{}, log)
	if broken != nil {
		return Report{}, broken
	}
	m.Probe(ctx, meter.ProbeOptions{CPU: zoneProbe, GPU: boardProbe, Progress: progress})
	m.Tick(ctx)
	view := View{Levers: bank.Levers(), States: bank.States(ctx), Missing: bank.Missing(), Conflicts: Conflicts(h)}
	hidden := errors.Is(err, fs.ErrPermission)
	if !hidden {
		view.Frozen = err
	}
	r := Examine(ctx, h, view, m)
	others := h.Proc.Exists("self") && !h.Proc.Exists("1")
	if note := withRoot(r, hidden, others); note != "" {
		r.Notes = append(r.Notes, note)
	}
	return r, nil
}

// Record writes what a host's energy counters and power sensors say for a while, as a meter.Trace. Nothing can be changed
// by it, as by Look.
func Record(ctx context.Context, of *host.Host, w io.Writer, length time.Duration, log *slog.Logger, progress func(float64)) error {
	h := readOnly(of)
	m, err := meter.New(ctx, h, meter.Options{}, log)
	if err != nil {
		return err
	}
	return m.Record(ctx, w, meter.RecordOptions{For: length, Remark: hostLine(h), Progress: progress})
}
