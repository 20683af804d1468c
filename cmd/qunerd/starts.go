package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// starts remembers the starts of daemons that did not come to an orderly end, so that one that crashes again and again
// leaves the machine alone. It counts where a service manager starts the daemon again by itself; who starts it by hand
// has seen it crash. The file lies in the runtime directory: a boot begins afresh.
type starts struct {
	run  host.Dir
	log  *slog.Logger
	open []time.Time // without an orderly end, within the time that counts, this one excepted
}

const (
	startsFile   = "quner-admin/starts"
	crashesMost  = 3
	crashesCount = 10 * time.Minute
	startsBytes  = 4096 // far more than is ever written
)

// openStarts reads what earlier lives have left and notes this one.
func openStarts(run host.Dir, log *slog.Logger) *starts {
	s := &starts{run: run, log: log}
	if !supervised() {
		return s
	}
	now := time.Now()
	if text, err := run.Read(startsFile); err == nil && len(text) <= startsBytes {
		s.open = parseStarts(string(text), now)
	}
	var b strings.Builder
	for _, t := range append(s.open[:len(s.open):len(s.open)], now) {
		fmt.Fprintln(&b, t.Unix())
	}
	if err := run.ReplaceVolatile(startsFile, []byte(b.String()), 0o600); err != nil {
		log.Warn("starts are not counted", "err", err)
	}
	return s
}

// parseStarts reads seconds since 1970, one a line, and keeps those that count.
func parseStarts(text string, now time.Time) []time.Time {
	var open []time.Time
	for line := range strings.Lines(text) {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			continue
		}
		if t := time.Unix(n, 0); t.After(now.Add(-crashesCount)) && !t.After(now) {
			open = append(open, t)
		}
	}
	return open
}

// observe is why this life moves no lever; empty if it does.
func (s *starts) observe(dryRun bool) string {
	switch {
	case dryRun:
		return "No lever is moved: the daemon was started with --dry-run."
	case len(s.open) >= crashesMost:
		return fmt.Sprintf("No lever is moved: the daemon has crashed %d times in %.0f minutes. To have it move them again: sudo systemctl restart qunerd",
			len(s.open), crashesCount.Minutes())
	}
	return ""
}

// ended notes an orderly end.
func (s *starts) ended() {
	if !supervised() {
		return
	}
	if err := s.run.Remove(startsFile); err != nil {
		s.log.Warn("the orderly end is not noted", "err", err)
	}
}
