package meter

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/qunerd/quner/internal/host"
)

// sysFile is a file of /sys that is held open to be read again and again. It belongs to one device, which makes one call
// at a time.
type sysFile struct {
	sys  host.Dir
	name string
	file *host.File
	buf  [32]byte
}

// read returns the file's text, which is good until the next call, and when it was asked for.
func (f *sysFile) read() ([]byte, time.Time, error) {
	at := time.Now()
	if f.file == nil {
		file, err := f.sys.Open(f.name)
		if err != nil {
			return nil, at, err
		}
		f.file, at = file, time.Now()
	}
	n, err := f.file.ReadAt(f.buf[:])
	if err != nil {
		if errors.Is(err, fs.ErrClosed) || host.ReasonOf(err) == host.Lost {
			f.close() // the device went away; one that comes back is another file
		}
		return nil, at, err
	}
	return f.buf[:n], at, nil
}

// called puts the file's name before an error about what it says.
func (f *sysFile) called(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", f.sys.File(f.name), err)
}

func (f *sysFile) close() {
	if f.file != nil {
		_ = f.file.Close() // opened for reading
		f.file = nil
	}
}
