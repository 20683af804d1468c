package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// StateFile is a file of the state directory that is always either a whole valid one or not there: what cannot be
// trusted is set aside under another name and never built upon; of those a few are kept, see PruneAside.
type StateFile struct {
	Dir    Dir
	Name   string
	Schema int // version of the layout; a file of another one is set aside, not guessed at
	Log    *slog.Logger
}

// Load gives decode the newest trustworthy content, if there is any: the file, else what a write that was cut short left
// beside it. Its error is a directory that cannot be read.
func (f StateFile) Load(decode func([]byte) error) error {
	for _, name := range []string{f.Name, Temp(f.Name)} {
		data, err := f.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = decode(data)
		}
		if err == nil {
			return nil
		}
		var untrusted untrustedError
		if !errors.As(err, &untrusted) {
			return err
		}
		aside := fmt.Sprintf("%s.corrupt-%d", f.Name, time.Now().UnixNano())
		f.Log.Warn("state file set aside", "file", f.Dir.File(name), "as", aside, "why", err)
		if err := f.Dir.Rename(name, aside); err != nil {
			return err
		}
		PruneAside(f.Dir, f.Name+".corrupt-", nil, f.Log)
	}
	return nil
}

// How many files of one name are kept that were set aside: those that came first tell most of what went wrong, and the
// newest what does now.
const (
	oldestAside = 3
	newestAside = 2
)

// PruneAside removes files that were set aside, but for the oldest three, the newest two and those that keep, which may be
// nil, wants. Names begin with prefix and go on with when that was, so that they sort by age. What cannot be removed is
// logged.
func PruneAside(dir Dir, prefix string, keep func(name string) bool, log *slog.Logger) {
	names, err := dir.List("")
	if err != nil {
		log.Warn("files set aside cannot be counted", "directory", dir.Path(), "err", err)
		return
	}
	aside := slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	for i, name := range aside {
		if i < oldestAside || i >= len(aside)-newestAside || keep != nil && keep(name) {
			continue
		}
		if err := dir.Remove(name); err != nil {
			log.Warn("file set aside is not removed", "file", dir.File(name), "err", err)
			continue
		}
		log.Info("file set aside is removed: there are enough", "file", dir.File(name), "oldest", oldestAside, "newest", newestAside)
	}
}

// read returns a file that root, or this process's own user in a simulation, wrote and nobody else may.
func (f StateFile) read(name string) ([]byte, error) {
	info, err := f.Dir.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return nil, f.untrusted(name, fmt.Errorf("mode %v: not a regular file that only its owner writes", info.Mode()))
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return nil, f.untrusted(name, fmt.Errorf("owned by uid %d", st.Uid))
	}
	if info.Size() > MaxFile {
		return nil, f.untrusted(name, fmt.Errorf("%d bytes, at most %d", info.Size(), MaxFile))
	}
	return f.Dir.Read(name)
}

// Decode reads JSON of this schema into v; then check may object to what it says.
func (f StateFile) Decode(data []byte, v any, check func() error) error {
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return f.untrusted(f.Name, err)
	}
	if version.Schema != f.Schema {
		return f.untrusted(f.Name, fmt.Errorf("schema %d, this version reads %d", version.Schema, f.Schema))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return f.untrusted(f.Name, err)
	}
	if err := check(); err != nil {
		return f.untrusted(f.Name, err)
	}
	return nil
}

// Save replaces the file.
func (f StateFile) Save(v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return fmt.Errorf("%s: %w", f.Dir.File(f.Name), err)
	}
	if len(data) >= MaxFile {
		return fmt.Errorf("%s: %w: %d bytes, at most %d", f.Dir.File(f.Name), ErrFull, len(data), MaxFile)
	}
	if err := f.Dir.Mkdir(".", 0o700); err != nil {
		return err
	}
	return f.Dir.Replace(f.Name, append(data, '\n'), 0o600)
}

// ErrFull means that a state file would become too long to be read back.
var ErrFull = errors.New("state file is full")

func (f StateFile) untrusted(name string, err error) error {
	return untrustedError{fmt.Errorf("%s: %w", f.Dir.File(name), err)}
}

// untrustedError is a file whose content is not to be used, in contrast to one that could not be read now.
type untrustedError struct{ error }

func (e untrustedError) Unwrap() error { return e.error }
