package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/qunerd/quner/api/client"
)

// screen is an output that knows whether a person looks at it, and whether it has taken all that was written.
type screen struct {
	io.Writer
	tty    bool
	colour bool
	width  int // columns that a line may take; 0: pageWidth

	mu   sync.Mutex
	lost error // of the first write that failed
}

// pageWidth is how wide a page is where no terminal says otherwise.
const pageWidth = 100

func newScreen(f *os.File) *screen {
	tty := term.IsTerminal(int(f.Fd()))
	_, noColour := os.LookupEnv("NO_COLOR")
	s := &screen{Writer: f, tty: tty, colour: tty && !noColour && os.Getenv("TERM") != "dumb"}
	if wide, _, err := term.GetSize(int(f.Fd())); tty && err == nil {
		s.width = wide
	}
	return s
}

// Write writes to the output, and remembers if that did not work.
func (s *screen) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	if err != nil {
		s.mu.Lock()
		if s.lost == nil {
			s.lost = err
		}
		s.mu.Unlock()
	}
	return n, err
}

// failed is why not all that was written has arrived; nil if it has.
func (s *screen) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// errLost is an output that has not taken all that was written to it.
type errLost struct{ error }

func (e errLost) Unwrap() error { return e.error }

// whole returns the exit status: an output that is not whole is an error, though all else went well.
func (a *app) whole(status int, err error) int {
	lost := a.out.failed()
	if lost == nil {
		return status
	}
	if told := new(errLost); !errors.As(err, told) && !errors.Is(err, lost) {
		a.err.printf("%s %s\n", a.err.style(red, "qunerctl:"), clean("standard output is not whole: "+rootCause(lost).Error()))
	}
	if status == exitOK {
		return exitError
	}
	return status
}

// outlet is where a result goes.
type outlet struct {
	*screen
	name string // of the file; empty: a stream
	file *os.File
}

// close reports whether all has arrived.
func (o *outlet) close() error {
	err := o.failed()
	if o.file != nil {
		err = errors.Join(err, o.file.Close())
		o.file = nil
	}
	if err == nil {
		return nil
	}
	where := ""
	if o.name != "" {
		where = quote(o.name) + ": "
	}
	return errLost{fmt.Errorf("%sthe result is not all written: %w", where, rootCause(firstOf(err)))}
}

// firstOf is the first of errors that were joined.
func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}

// resultOutlet is where the result goes.
func resultOutlet(ctx context.Context, path string, otherwise *screen) (*outlet, error) {
	if path == "" {
		return &outlet{screen: otherwise}, nil
	}
	type opened struct {
		file *os.File
		err  error
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC | unix.O_CLOEXEC
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		how = os.O_WRONLY | unix.O_CLOEXEC // whoever has given up a pipe must not find a file in its place later
	}
	done := make(chan opened, 1)
	go func() { // a named pipe is open when somebody reads it, as it is with a shell's >
		file, err := os.OpenFile(path, how, 0o666)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		return &outlet{screen: &screen{Writer: io.Writer(o.file)}, name: path, file: o.file}, nil
	case <-ctx.Done():
		return nil, &failure{error: fmt.Errorf("%s: interrupted while nobody read this pipe", quote(path)), code: exitInterrupted}
	}
}

// deliver prints what was measured, and closes where it goes to. What has no room there is printed on standard error: a
// result cannot be had again.
func (a *app) deliver(cmd *cobra.Command, to *outlet, measured client.Result, of metering) error {
	a.showResult(cmd, to.screen, measured, of)
	err := to.close()
	if err != nil && to.screen != a.err {
		a.showResult(cmd, a.err, measured, of)
	}
	return err
}

// dear prints what took long, on standard error too where standard output does not take it.
func (a *app) dear(show func(on *app) error) error {
	err := show(a)
	if a.out.failed() != nil {
		on := *a
		on.out = a.err
		_ = show(&on)
	}
	return err
}

// heedPipe makes a reader of ours that goes away an error of the write, where else it would end this process by a signal
// that looks like the command's own end. Commands that are started are not concerned.
func heedPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
