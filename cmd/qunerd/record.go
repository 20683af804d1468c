package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/meter"
)

// How long a recording may be.
const (
	minRecord = 100 * time.Millisecond
	maxRecord = 24 * time.Hour
)

// recordable refuses a file that is none, and a length that says nothing, or nothing of use.
func recordable(file string, length time.Duration, flags *pflag.FlagSet) error {
	switch {
	case flags.Changed("record") && (file == "" || file == "-"):
		return usageError{fmt.Errorf("--record %q: allowed is the name of a file that is not there", file), "qunerd doctor"}
	case flags.Changed("for") && file == "":
		return usageError{errors.New("--for goes with --record: it is how long to record"), "qunerd doctor"}
	case length < minRecord || length > maxRecord:
		return usageError{fmt.Errorf("--for %v: allowed is %v to %v", length, minRecord, maxRecord), "qunerd doctor"}
	}
	return nil
}

// recordTrace writes what a machine's counters say into a file that was not there. Ctrl-C ends it early, with what there is.
func recordTrace(ctx context.Context, out, log io.Writer, m *machine, file string, length time.Duration) error {
	closeGPUs, _ := openGPUs(ctx, m.Host)
	defer closeGPUs()
	began := time.Now()
	show, end := progress(log, "recording")
	err := newFile(file, func(w io.Writer) error {
		return doctor.Record(ctx, m.Host, w, length, newLog(log, slog.LevelWarn, true), show)
	})
	end()
	if errors.Is(err, meter.ErrNothingToRecord) {
		return hinted{err, "what is missing, and why: qunerd doctor"}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %.1f s of this machine's energy counters\n", file, time.Since(began).Seconds())
	return err
}
