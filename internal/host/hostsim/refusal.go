package hostsim

import (
	"path"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// refusal is something this machine's kernel never does: a power limit that firmware has locked, a file that cannot be
// read.
type refusal struct {
	File  string `toml:"file"`  // in the tree, links followed; a pattern of path.Match
	Op    string `toml:"op"`    // "read" or "write"
	Errno string `toml:"errno"` // as in "ENODATA"
}

// errnos are what a refusal may answer.
func errnos() []syscall.Errno {
	return []syscall.Errno{unix.ENODATA, unix.EACCES, unix.EPERM, unix.EINVAL, unix.EIO, unix.EBUSY, unix.EROFS, unix.ENODEV, unix.EOPNOTSUPP}
}

func (r *refusal) errno() (syscall.Errno, bool) {
	for _, e := range errnos() {
		if unix.ErrnoName(e) == r.Errno {
			return e, true
		}
	}
	return 0, false
}

func (r *refusal) check(nth int) error {
	if _, err := path.Match(r.File, ""); err != nil || r.File == "" {
		return &valueError{"refuse", nth, "file", strconv.Quote(r.File), "a file of the tree, or a pattern"}
	}
	if r.Op != "read" && r.Op != "write" {
		return &valueError{"refuse", nth, "op", strconv.Quote(r.Op), "read or write"}
	}
	if _, ok := r.errno(); !ok {
		var names string
		for _, e := range errnos() {
			names += " " + unix.ErrnoName(e)
		}
		return &valueError{"refuse", nth, "errno", strconv.Quote(r.Errno), names[1:]}
	}
	return nil
}

// refused returns what the kernel answers to an access to a file of the tree that it never lets come about, or nil.
func (s *Sim) refused(op host.Op, name string) error {
	if op != host.OpRead && op != host.OpWrite {
		return nil
	}
	if s.offline[path.Dir(name)] {
		return unix.EBUSY
	}
	for i := range s.fix.model.Refusals {
		r := &s.fix.model.Refusals[i]
		if (r.Op == "write") != (op == host.OpWrite) {
			continue
		}
		if ok, err := path.Match(r.File, name); ok && err == nil {
			e, _ := r.errno()
			return e
		}
	}
	return nil
}
