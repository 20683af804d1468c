package profiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// schema is the version of the state files of this package. A file of a newer one is set aside, not guessed at.
const schema = 1

// stateFile is a file of the state directory that is always either a whole valid one or not there: what cannot be
// trusted is set aside under another name, never deleted and never built upon.
type stateFile struct {
	dir  host.Dir
	name string
	log  *slog.Logger
}

// load gives decode the newest trustworthy content, if there is any: the file, else what a write that was cut short left
// beside it. Its error is a directory that cannot be read.
func (f stateFile) load(decode func([]byte) error) error {
	for _, name := range []string{f.name, host.Temp(f.name)} {
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
		aside := fmt.Sprintf("%s.corrupt-%d", f.name, time.Now().UnixNano())
		f.log.Warn("state file set aside", "file", f.dir.File(name), "as", aside, "why", err)
		if err := f.dir.Rename(name, aside); err != nil {
			return err
		}
	}
	return nil
}

// read returns a file that root, or this process's own user in a simulation, wrote and nobody else may.
func (f stateFile) read(name string) ([]byte, error) {
	info, err := f.dir.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return nil, f.untrusted(name, fmt.Errorf("mode %v: not a regular file that only its owner writes", info.Mode()))
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return nil, f.untrusted(name, fmt.Errorf("owned by uid %d", st.Uid))
	}
	if info.Size() > host.MaxFile {
		return nil, f.untrusted(name, fmt.Errorf("%d bytes, at most %d", info.Size(), host.MaxFile))
	}
	return f.dir.Read(name)
}

// decode reads JSON of this schema into v; then check may object to what it says.
func (f stateFile) decode(data []byte, v any, check func() error) error {
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return f.untrusted(f.name, err)
	}
	if version.Schema != schema {
		return f.untrusted(f.name, fmt.Errorf("schema %d, this version reads %d", version.Schema, schema))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return f.untrusted(f.name, err)
	}
	if err := check(); err != nil {
		return f.untrusted(f.name, err)
	}
	return nil
}

// save replaces the file.
func (f stateFile) save(v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return fmt.Errorf("%s: %w", f.dir.File(f.name), err)
	}
	if len(data) >= host.MaxFile {
		return fmt.Errorf("%s: %w: %d bytes, at most %d", f.dir.File(f.name), ErrFull, len(data), host.MaxFile)
	}
	if err := f.dir.Mkdir(".", 0o700); err != nil {
		return err
	}
	return f.dir.Replace(f.name, append(data, '\n'), 0o600)
}

// ErrFull means that a state file would become too long to be read back.
var ErrFull = errors.New("state file is full")

func (f stateFile) untrusted(name string, err error) error {
	return untrustedError{fmt.Errorf("%s: %w", f.dir.File(name), err)}
}

// untrustedError is a file whose content is not to be used, in contrast to one that could not be read now.
type untrustedError struct{ error }

func (e untrustedError) Unwrap() error { return e.error }
