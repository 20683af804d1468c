package host

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// File is a file held open to be read again and again from its start: an energy counter. It is safe for use by one
// goroutine at a time.
type File struct {
	dir  Dir
	name string
	file *os.File // nil where a hook stands in: a simulation replaces files, so the name is read anew
	look *pread
}

// pread is one pread(2) from the start of a file. os.File.ReadAt makes a second one, to hear of the end.
type pread struct {
	conn syscall.RawConn
	buf  []byte
	n    int
	err  error
	once func(fd uintptr) bool // do, made once, so that a read allocates nothing
}

func (p *pread) do(fd uintptr) bool {
	for {
		p.n, p.err = unix.Pread(int(fd), p.buf, 0)
		if !errors.Is(p.err, unix.EINTR) {
			return true
		}
	}
}

// Open holds a file open for reading.
func (d Dir) Open(name string) (*File, error) {
	if err := d.ask(OpOpen, name, nil); err != nil {
		return nil, err
	}
	f, err := os.Open(d.File(name))
	if err != nil {
		return nil, err
	}
	if d.hook != nil {
		return &File{dir: d, name: name}, f.Close()
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	look := &pread{conn: conn}
	look.once = look.do
	return &File{dir: d, name: name, file: f, look: look}, nil
}

// ReadAt fills buf from the start of the file with one pread(2) and returns how much there was.
func (f *File) ReadAt(buf []byte) (int, error) {
	if f.file == nil {
		data, err := f.dir.Read(f.name)
		return copy(buf, data), err
	}
	p := f.look
	p.buf, p.n, p.err = buf, 0, nil
	if p.conn.Read(p.once) != nil {
		p.err = fs.ErrClosed
	}
	p.buf = nil
	if p.err != nil {
		return 0, &fs.PathError{Op: "read", Path: f.file.Name(), Err: p.err}
	}
	return p.n, nil
}

// Close lets the file go.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Temp returns the name Replace uses for the new content until it is in place. Recovery looks there too.
func Temp(name string) string { return name + ".tmp" }

// Replace gives a file new content such that a reader, and a machine that loses power, sees the old content or the new:
// temporary file, fsync, rename, fsync of the directory. The mode holds from the first instant.
func (d Dir) Replace(name string, data []byte, perm os.FileMode) error {
	tmp := Temp(name)
	if err := d.Remove(tmp); err != nil {
		return err
	}
	if err := d.create(tmp, data, perm, true); err != nil {
		return err
	}
	if err := d.Rename(tmp, name); err != nil {
		return err
	}
	return d.syncDir(path.Dir(name))
}

// ReplaceVolatile is Replace without the two fsyncs: for files in a runtime directory, which no power loss outlives.
func (d Dir) ReplaceVolatile(name string, data []byte, perm os.FileMode) error {
	tmp := Temp(name)
	if err := d.Remove(tmp); err != nil {
		return err
	}
	if err := d.create(tmp, data, perm, false); err != nil {
		return err
	}
	return d.Rename(tmp, name)
}

func (d Dir) create(name string, data []byte, perm os.FileMode, sync bool) error {
	if err := d.ask(OpCreate, name, data); err != nil {
		return done(err)
	}
	f, err := os.OpenFile(d.File(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// The umask may have taken bits away that a public file needs.
	err = errors.Join(err, f.Chmod(perm))
	if sync && err == nil {
		if err = d.ask(OpSync, name, nil); err == nil {
			err = f.Sync()
		}
		err = done(err)
	}
	return errors.Join(err, f.Close())
}

func (d Dir) syncDir(name string) error {
	if err := d.ask(OpSync, name, nil); err != nil {
		return done(err)
	}
	f, err := os.Open(d.File(name))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
