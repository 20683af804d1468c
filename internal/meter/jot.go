package meter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// JournalTrouble returns why the windows that are open, and the results that wait for their owners, would not survive the
// meter; nil where they would.
func (m *Meter) JournalTrouble() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.journal == nil {
		return nil
	}
	return errors.Join(m.journal.trouble, m.journal.untold)
}

// Suspend writes down what is open, read for the last time, and all results, for the meter that comes next. The meter is
// to be used no more.
func (m *Meter) Suspend(ctx context.Context) {
	if m.journal == nil {
		return
	}
	m.journal.mu.Lock()
	m.writeResults(true)
	stale := m.journal.written // it may name windows that have just ended
	m.journal.mu.Unlock()
	if m.OpenCount() > 0 || stale {
		m.beat(ctx)
		m.writeJournal(ctx)
	}
}

// touch tells that there is something to write down. It costs next to nothing.
func (m *Meter) touch() {
	if m.journal == nil {
		return
	}
	select {
	case m.jot <- struct{}{}:
	default:
	}
}

// How soon what is new is written down: within jotDelay where little is, and by the heartbeat alone in a flood, which
// writing would slow down. Writing takes a twentieth of the time at most.
const (
	jotDelay = 100 * time.Millisecond
	jotFlood = 64 // windows opened within jotDelay
	jotRest  = 20
)

// jots writes windows and results down that came since the last heartbeat, until ctx ends.
func (m *Meter) jots(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.jot:
		}
		before := m.opens()
		if !sleepUntil(ctx, time.Now().Add(jotDelay)) {
			return
		}
		if m.opens()-before > jotFlood {
			continue
		}
		began := time.Now()
		m.writeJournal(ctx)
		if !sleepUntil(ctx, time.Now().Add(jotRest*time.Since(began))) {
			return
		}
	}
}

// unwritten reports whether the results on disk are not those that their owners wait for.
func (m *Meter) unwritten() bool {
	j := m.journal
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.tells(m.kept.due())
}

// opens returns how many windows have been opened.
func (m *Meter) opens() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened
}

// writeJournal replaces the journal by what is open now. It is not synced: no boot outlives it. Results come first: a
// window that is in both has ended.
func (m *Meter) writeJournal(ctx context.Context) {
	j := m.journal
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	m.writeResults(false)
	data, sum, n, err := m.encode(ctx)
	switch {
	case n > 0 && j.written && sum == j.sum && sum != [sha256.Size]byte{}: // nothing of them changes but the time
	case n > 0:
		err = cmp.Or(j.replace(journalName, data), err)
		j.written, j.sum = true, sum
	case err == nil && j.written:
		err = j.file.Dir.Remove(journalName)
		j.written = err != nil
	}
	m.tellTrouble(&j.trouble, err, "open windows")
}

// tellTrouble notes why something is not on disk, and logs a change of that.
func (m *Meter) tellTrouble(trouble *error, err error, what string) {
	m.mu.Lock()
	was := *trouble
	*trouble = err
	m.mu.Unlock()
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		m.log.Warn(what+" are not all written down, and will not all survive a restart", "err", err)
	case err == nil && was != nil:
		m.log.Info(what + " are written down again")
	}
}

// replace puts new content in the place of a file's.
func (j *journal) replace(name string, data []byte) error {
	if !j.written && !j.kept {
		if err := j.file.Dir.Mkdir(".", 0o700); err != nil {
			return err
		}
	}
	return j.file.Dir.ReplaceVolatile(name, data, 0o600)
}
