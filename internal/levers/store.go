package levers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/qunerd/quner/internal/host"
)

const (
	journalFile = "rollback.json"
	backupFile  = journalFile + ".bak" // a second copy, written after journalFile
	foreignFile = journalFile + ".python"
	corruptFile = journalFile + ".corrupt-" // time, boot
)

// stored is what the state directory says.
type stored struct {
	journal journal
	from    string // file the journal was read from; "" if there is none
	foreign bool   // journalFile is the predecessor's
	corrupt error  // why journalFile cannot be trusted, if it is there and cannot
}

// readStored finds the newest journal that can be trusted, and changes nothing. The error wraps ErrJournal: there was one
// and none can be trusted.
func readStored(h *host.Host) (stored, error) {
	j, err := readJournal(h.Var, journalFile)
	switch {
	case err == nil:
		return stored{journal: j, from: journalFile}, nil
	case errors.Is(err, errForeign):
		return stored{foreign: true}, nil
	}
	s := stored{corrupt: err}
	if errors.Is(err, fs.ErrNotExist) {
		s.corrupt = nil
	}
	for _, name := range []string{host.Temp(journalFile), backupFile, host.Temp(backupFile)} {
		other, err := readJournal(h.Var, name)
		if err == nil && (s.from == "" || other.generation > s.journal.generation) {
			s.journal, s.from = other, name
		}
	}
	switch {
	case s.from != "":
		return s, nil
	case s.corrupt != nil:
		lost := fmt.Errorf("%s: %w: %w", h.Var.File(journalFile), ErrJournal, s.corrupt)
		var access *fs.PathError
		if errors.As(s.corrupt, &access) {
			s.corrupt = nil // it may be sound and only out of reach for now: it stays where it is
		}
		return s, lost
	}
	return s, unresolved(h)
}

// readJournal reads one file. Nobody but root and quner's own user may have had a hand in it.
func readJournal(dir host.Dir, name string) (journal, error) {
	info, err := dir.Stat(name)
	if err != nil {
		return journal{}, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return journal{}, errors.New("not a regular file")
	case info.Size() > host.MaxFile:
		return journal{}, fmt.Errorf("longer than %d bytes", host.MaxFile)
	case info.Mode().Perm()&0o022 != 0:
		return journal{}, fmt.Errorf("mode %#o lets others write", info.Mode().Perm())
	case ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return journal{}, fmt.Errorf("belongs to uid %d", owner.Uid)
	}
	data, err := dir.Read(name)
	if err != nil {
		return journal{}, err
	}
	return parseJournal(bytes.NewReader(data))
}

// unresolved is the error of a journal set aside in this boot: the originals it held are unknown, so the host may be
// tuned and must not be taken for as found. Another boot's held nothing that still is.
func unresolved(h *host.Host) error {
	names, err := h.Var.List("")
	if err != nil {
		return nil //nolint:nilerr // no directory, no journal
	}
	for _, n := range names {
		if !strings.HasPrefix(n, corruptFile) {
			continue
		}
		if boot := bootTag(h); boot != "" && !strings.HasSuffix(n, "-"+boot) {
			continue
		}
		return fmt.Errorf("%s: %w: set aside in this boot; check the levers, then remove it", h.Var.File(n), ErrJournal)
	}
	return nil
}

func bootTag(h *host.Host) string {
	id, _, _ := strings.Cut(h.BootID(), "-")
	return id
}

// setAside moves a journalFile that is not to be used out of the way of the next one.
func setAside(h *host.Host, s stored, log *slog.Logger) error {
	var to string
	switch {
	case s.foreign:
		to = foreignFile
	case s.corrupt != nil:
		to = corruptFile + time.Now().UTC().Format("20060102T150405Z") + "-" + bootTag(h)
	default:
		return nil
	}
	if err := h.Var.Rename(journalFile, to); err != nil {
		return err
	}
	if s.foreign {
		log.Info("journal of quner's predecessor set aside", "file", h.Var.File(to))
		return nil
	}
	// One of this boot may hold the values that this host had: it is a person's to remove.
	host.PruneAside(h.Var, corruptFile, func(n string) bool { return bootTag(h) == "" || strings.HasSuffix(n, "-"+bootTag(h)) }, log)
	log.Error("journal set aside", "file", h.Var.File(to), "reason", s.corrupt, "instead", s.from)
	return nil
}

// writeJournal makes a journal's text durable.
func writeJournal(h *host.Host, data []byte) error {
	if len(data) > host.MaxFile {
		return fmt.Errorf("%s: longer than %d bytes", h.Var.File(journalFile), host.MaxFile)
	}
	if err := h.Var.Mkdir("", 0o700); err != nil {
		return err
	}
	return h.Var.Replace(journalFile, data, 0o600)
}
