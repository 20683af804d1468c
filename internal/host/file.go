package host

import (
	"errors"
	"io"
	"os"
	"path"
)

// File is a file held open to be read again and again from its start: an energy counter. It is safe for use by one
// goroutine at a time.
type File struct {
	dir  Dir
	name string
	file *os.File // nil where a hook stands in: a simulation replaces files, so the name is read anew
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
	if d.hook == nil {
		return &File{dir: d, name: name, file: f}, nil
	}
	return &File{dir: d, name: name}, f.Close()
}

// ReadAt fills buf from the start of the file with one pread(2) and returns how much there was.
func (f *File) ReadAt(buf []byte) (int, error) {
	if f.file == nil {
		data, err := f.dir.Read(f.name)
		return copy(buf, data), err
	}
	n, err := f.file.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
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
