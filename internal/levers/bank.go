package levers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// Bank holds a host's levers and the journal of what they were. It is used by one goroutine, the daemon's loop; no other
// code writes a lever.
type Bank struct {
	host    *host.Host
	log     *slog.Logger
	levers  []Lever // in the order of writing
	missing []Missing

	journal journal
	dirty   bool  // the journal on disk says something else
	frozen  error // why nothing may be moved

	others  map[string]string      // levers that are not quner's to move until they are taken, and why
	yielded map[string]yield       // levers left to someone else who has moved them
	taken   map[string]bool        // held ones that the next Apply moves whoever has moved them
	settled map[string]bool        // levers that this process has seen to have taken a value of ours
	failing map[string]error       // second copies that cannot be written, by path
	retired map[string]Missing     // levers that take nothing before the next boot
	waiting map[string]bool        // levers whose value waits for a device to wake by itself
	trouble map[string]host.Reason // what was said of levers that are not moved as wanted
	void    []Left                 // what the journal held that is no host's any more
	opts    Options
}

// Options are the owner's choices.
type Options struct {
	AllowRaise bool // a limit may go above the value found, as far as the hardware takes it
}

// Write is a change of one lever, made or, from a plan, to be made. One that was looked at and left has From equal to To
// and a Note that says why.
type Write struct {
	Lever string `json:"lever"`
	From  Value  `json:"from"`
	To    Value  `json:"to"` // as read back; from a plan, as wanted
	Unit  string `json:"unit,omitempty"`
	Note  string `json:"note,omitempty"` // why it was clamped, left or is not what was asked for
}

// Moved reports whether the lever has another value afterwards.
func (w Write) Moved() bool { return w.From != w.To }

// OpenBank is Options{}.OpenBank: no limit goes above the value found.
func OpenBank(ctx context.Context, h *host.Host, log *slog.Logger) (*Bank, error) {
	return Options{}.OpenBank(ctx, h, log)
}

// OpenBank discovers the levers and loads the journal, rollback.json in h.Var. It moves no lever. A journal that cannot
// be trusted is set aside and its error wraps ErrJournal: the Bank that comes with it can be looked at but moves nothing.
// Any other error comes with no Bank.
func (o Options) OpenBank(ctx context.Context, h *host.Host, log *slog.Logger) (*Bank, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Bank{
		host: h, log: log, opts: o, others: map[string]string{}, yielded: map[string]yield{}, taken: map[string]bool{},
		settled: map[string]bool{}, failing: map[string]error{}, retired: map[string]Missing{}, waiting: map[string]bool{}, trouble: map[string]host.Reason{},
	}
	b.discover(ctx)
	s, err := readStored(h)
	if err != nil {
		b.frozen = fmt.Errorf("%w: %w", err, ErrFrozen)
	}
	if aside := setAside(h, s, log); aside != nil {
		if b.frozen == nil {
			b.frozen = fmt.Errorf("%w: %w: %w", ErrJournal, ErrFrozen, aside)
		}
		log.Error("journal not set aside", "err", aside)
	}
	b.load(s)
	return b, b.frozen
}

// load takes the entries over that still mean something.
func (b *Bank) load(s stored) {
	b.journal = s.journal
	b.dirty = s.from != "" && s.from != journalFile
	kept := b.journal.entries[:0:0]
	originals := map[string][]string{} // of entries that are void, by the reason
	for _, e := range b.journal.entries {
		if why := e.void(b.host); why != "" {
			b.void = append(b.void, Left{Lever: e.Lever, Why: why})
			originals[why] = append(originals[why], e.Lever+"="+string(e.Original))
			b.dirty = true
			continue
		}
		kept = append(kept, e)
	}
	b.journal.entries = kept
	for why, list := range originals {
		b.log.Info("journal entries are void", "count", len(list), "reason", why, "originals", strings.Join(list, " "))
	}
	for _, l := range b.levers {
		b.rebase(l)
	}
}

// rebase tells a lever whose span ends at the value found what that is. After a crash it is not what the host has.
func rebase(l Lever, found Value) {
	if r, ok := l.(interface{ rebase(found Value) }); ok {
		r.rebase(found)
	}
}

// rebase tells a held lever its original.
func (b *Bank) rebase(l Lever) {
	if e := b.journal.find(l.Name()); e != nil {
		rebase(l, e.Original)
	}
}

// Levers returns the host's levers in the order they are written in.
func (b *Bank) Levers() []Lever { return slices.Clone(b.levers) }

// Missing returns the controls the host does not offer, with reasons.
func (b *Bank) Missing() []Missing { return slices.Clone(b.missing) }

// Frozen returns why nothing is moved, an error that wraps ErrJournal and ErrFrozen, or nil.
func (b *Bank) Frozen() error { return b.frozen }

// Void returns the levers of which the journal had originals that are on the other side of nothing any more, with the
// reason: of another boot, or of a driver that was loaded anew since.
func (b *Bank) Void() []Left { return slices.Clone(b.void) }

// Held returns how many levers are away from what was found, as far as the journal knows.
func (b *Bank) Held() int { return len(b.journal.entries) }

// Script returns the shell lines that restore the host with no daemon.
func (b *Bank) Script() string { return script(b.journal) }

// Take ends the yielding of a lever to someone else: the next Apply moves it again, from what is found then, also where
// nobody here has noticed yet that it was moved.
func (b *Bank) Take(lever string) error {
	if b.lever(lever) == nil {
		return b.unknown(lever)
	}
	delete(b.yielded, lever)
	delete(b.others, lever)
	if b.journal.find(lever) != nil {
		b.taken[lever] = true
	}
	return nil
}

// Leave ends the moving of a lever, for the reason given: the next Apply puts it back to its original if it is held, and
// from then on it is somebody else's until it is taken.
func (b *Bank) Leave(lever, why string) error {
	if b.lever(lever) == nil {
		return b.unknown(lever)
	}
	b.others[lever] = why
	delete(b.taken, lever)
	return nil
}

// Owners notes whose each lever is and returns what brings that back, after a trial of Take and Leave.
func (b *Bank) Owners() (bringBack func()) {
	others, yielded, taken := maps.Clone(b.others), maps.Clone(b.yielded), maps.Clone(b.taken)
	return func() { b.others, b.yielded, b.taken = others, yielded, taken }
}

// Plan returns what Apply would write, and writes nothing.
func (b *Bank) Plan(ctx context.Context, p Point) ([]Write, error) {
	if b.frozen != nil {
		return nil, b.frozen
	}
	var writes []Write
	var errs []error
	steps, late := b.plan(ctx, p, intent{})
	for _, s := range slices.Concat(steps, late) {
		errs = append(errs, s.err)
		if s.err == nil && s.told() {
			writes = append(writes, s.write())
		}
	}
	return writes, errors.Join(errs...)
}

// Apply moves the levers in the point to its values and those that quner holds beside them back to their originals; the
// empty point is the host as found. Numbers outside today's span are clamped, with a note. A lever that someone else has
// moved meanwhile is left to them until it is taken or has its original again. One that another lever decides at present is left, and one of a device that sleeps
// waits, each with a note; see Due. It is best effort over levers: the writes made come with the errors of the others
// joined, which wrap ErrUnknown, ErrOutOfSpan, ErrNotTaken, ErrJournal or the host's error.
func (b *Bank) Apply(ctx context.Context, p Point) ([]Write, error) {
	if b.frozen != nil {
		return nil, b.frozen
	}
	clear(b.waiting)
	steps, late := b.plan(ctx, p, intent{})
	writes, err := b.make(ctx, steps)
	if len(late) > 0 {
		more, lateErr := b.make(ctx, b.replan(ctx, p, late, intent{}))
		writes, err = append(writes, more...), errors.Join(err, lateErr)
	}
	clear(b.taken)
	return writes, errors.Join(err, b.save(false))
}

// make announces steps and then makes them.
func (b *Bank) make(ctx context.Context, steps []step) ([]Write, error) {
	errs := []error{b.announce(steps)}
	var writes []Write
	for i := range steps {
		s := &steps[i]
		if errs[0] != nil && s.move == toChosen {
			continue // an original that is not on disk must not be lost
		}
		b.run(ctx, s)
		errs = append(errs, s.err)
		if s.told() {
			writes = append(writes, s.write())
		}
	}
	return writes, errors.Join(errs...)
}

// announce puts on disk, before the first write, each original that is not there yet and each value that is to be ours.
func (b *Bank) announce(steps []step) error {
	was, dirty := b.journal.clone(), b.dirty
	settled, yielded := maps.Clone(b.settled), maps.Clone(b.yielded)
	for i := range steps {
		b.record(&steps[i])
	}
	if err := b.save(true); err != nil {
		b.journal, b.dirty, b.settled, b.yielded = was, dirty, settled, yielded
		return err
	}
	return nil
}

// save makes the journal durable if it has changed.
func (b *Bank) save(backup bool) error {
	if !b.dirty {
		return nil
	}
	next := b.journal
	next.generation++
	data, err := next.marshal()
	if err == nil {
		err = writeJournal(b.host, data)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	b.journal.generation, b.dirty = next.generation, false
	if backup {
		// So that no single bad file loses an original.
		b.note(b.host.Var.File(backupFile), b.host.Var.Replace(backupFile, data, 0o600))
	}
	b.note(b.host.Run.Sub(adminDir).File(scriptFile), writeScript(b.host, b.journal))
	return nil
}

// note says once that a file one can do without is not written, and once that it is again.
func (b *Bank) note(file string, err error) {
	before := b.failing[file]
	switch {
	case err != nil && before == nil:
		b.log.Warn("file not written", "file", file, "err", err)
	case err == nil && before != nil:
		b.log.Info("file is written again", "file", file)
	}
	if err == nil {
		delete(b.failing, file)
	} else {
		b.failing[file] = err
	}
}

// Degraded returns what is wrong with the keeping of originals, a sentence each; nil if nothing is.
func (b *Bank) Degraded() []string {
	var all []string
	if b.frozen != nil {
		all = append(all, "No lever is moved: "+b.frozen.Error()+".")
	}
	if b.dirty && b.Held() > 0 {
		all = append(all, "The journal on disk is behind: "+b.host.Var.File(journalFile)+".")
	}
	for _, file := range slices.Sorted(maps.Keys(b.failing)) {
		all = append(all, fmt.Sprintf("%s is not written: %v.", file, b.failing[file]))
	}
	return all
}
