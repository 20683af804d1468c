package levers

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// attr is one file of sysfs that is a lever: what the kinds of such levers have in common.
type attr struct {
	sys   host.Dir
	file  string // in sys
	name  string // of the lever
	guard guard
}

func (a *attr) Name() string     { return a.name }
func (a *attr) address() address { return address{Path: a.sys.File(a.file)} }

// get reads the file. Its error is the host's own.
func (a *attr) get(ctx context.Context) (Value, error) { return guarded(ctx, &a.guard, a.read) }

func (a *attr) read() (Value, error) {
	s, err := a.sys.ReadString(a.file)
	if err != nil {
		return "", err
	}
	if !valid(s) {
		return "", fmt.Errorf("%s: holds %q: %w", a.sys.File(a.file), printable(s), host.ErrUnread)
	}
	return Value(s), nil
}

// put writes and reads back, in one guarded access. It writes a newline, as echo does and as the kernel shows the value.
// Its errors are the host's own.
func (a *attr) put(ctx context.Context, v Value) (Value, error) {
	return guarded(ctx, &a.guard, func() (Value, error) {
		if err := a.sys.Write(a.file, []byte(v+"\n")); err != nil {
			return "", err
		}
		return a.read()
	})
}

// beside reads a file of the same directory.
func (a *attr) beside(ctx context.Context, name string) (string, error) {
	return guarded(ctx, &a.guard, func() (string, error) { return a.sys.ReadString(path.Join(path.Dir(a.file), name)) })
}

// missing is the lever as one that is not there.
func (a *attr) missing(k Kind, r host.Reason, detail string) *Missing {
	return &Missing{a.name, k, r, detail}
}

// missingFor is the same, for a reason that is in an error.
func (a *attr) missingFor(k Kind, err error) *Missing {
	return a.missing(k, host.ReasonOf(err), err.Error())
}

// explain names the lever, and what the kernel means where its word for it alone does not help.
func (a *attr) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: /sys is read-only here, by a container or the service's own sandbox: %w", a.name, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: only root may: %w", a.name, err)
	}
	return fmt.Errorf("%s: %w", a.name, err)
}

// refused is explain for a write: EINVAL is a value that is not offered, whatever the host says it offers.
func (a *attr) refused(v Value, err error) error {
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s: %q: %w: %w", a.name, v, host.ErrNotSupported, err)
	}
	return a.explain(err)
}

func notTaken(name string, wrote, reads Value) error {
	return fmt.Errorf("%s: wrote %q, reads %q: %w", name, wrote, reads, ErrNotTaken)
}

// valid reports whether a text of the host can be a value: one line of printable ASCII, so that it survives the journal,
// a log and a shell as it is.
func valid(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
