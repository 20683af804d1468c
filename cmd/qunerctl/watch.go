package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// watch shows each picture as it comes. Ctrl-C is how it is meant to end.
func (a *app) watch(ctx context.Context) error {
	c, err := a.reader(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	pictures, err := qunerv1.NewStatusServiceClient(cleanConn{c.Conn()}).WatchStatus(ctx, &qunerv1.WatchStatusRequest{})
	if err != nil {
		return err
	}
	next := func() (*qunerv1.Status, error) {
		picture, err := pictures.Recv()
		if errors.Is(err, io.EOF) {
			err = &failure{error: errors.New("qunerd has ended"), code: exitUnreachable, hint: a.startHint()}
		}
		return picture.GetStatus(), err
	}
	if file, ok := a.out.Writer.(*os.File); ok && a.out.tty && !a.json {
		err = watchPage(ctx, file, next, func(s *qunerv1.Status) {
			a.draw(file, "as of "+time.Unix(0, s.GetTimeUnixNs()).Format(time.TimeOnly)+", Ctrl-C to leave", func(on *app) { on.statusPage(s) })
		})
	} else {
		err = a.watchLines(next)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watchLines prints a line for each picture.
func (a *app) watchLines(next func() (*qunerv1.Status, error)) error {
	for {
		s, err := next()
		if err != nil {
			return err
		}
		if a.json {
			if err := writeJSONLine(a.out, s); err != nil {
				return err
			}
			continue
		}
		power, _ := now(s)
		a.out.printf("%s  %s  %s  %s  %s\n", time.Unix(0, s.GetTimeUnixNs()).Format(time.TimeOnly),
			profileWord(s.GetProfile()), s.GetPointSource(), leversNow(s.GetLevers()), power)
		if err := a.out.failed(); err != nil { // there is nobody to show it to
			return err
		}
	}
}

// What a terminal is told: to keep its text for later, hide the cursor and cut what is too wide; and the way back.
const (
	enterPage = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
	leavePage = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// fullPage is a terminal while a page fills it.
type fullPage struct {
	file  *os.File
	typed *unix.Termios // how typed keys are treated otherwise; nil where nobody types
}

func openPage(file *os.File) *fullPage {
	p := &fullPage{file: file}
	p.enter()
	return p
}

// enter takes the terminal. Keys that are typed are not to show on the page.
func (p *fullPage) enter() {
	if modes, err := unix.IoctlGetTermios(int(p.file.Fd()), unix.TCGETS); err == nil {
		p.typed = new(*modes)
		modes.Lflag &^= unix.ECHO
		_ = unix.IoctlSetTermios(int(p.file.Fd()), unix.TCSETS, modes)
	}
	_, _ = p.file.WriteString(enterPage)
}

// leave gives the terminal back as it was.
func (p *fullPage) leave() {
	_, _ = p.file.WriteString(leavePage)
	if p.typed != nil {
		_ = unix.IoctlSetTermios(int(p.file.Fd()), unix.TCSETS, p.typed)
	}
}

// stop is Ctrl-Z: the shell gets its terminal until this process is to go on. It is this thread that is stopped, and the
// others with it: one sent to the process might stop it only once the terminal is taken again.
func (p *fullPage) stop() {
	p.leave()
	runtime.LockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	runtime.UnlockOSThread()
	p.enter()
}

// watchPage fills the terminal with the newest picture, in the size that the window has then.
func watchPage[T any](ctx context.Context, file *os.File, next func() (*T, error), draw func(*T)) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pictures, ended := received(ctx, next)
	first, err := (*T)(nil), error(nil)
	select { // what fails at once leaves the screen alone
	case first = <-pictures:
	case err = <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	page := openPage(file)
	defer page.leave()
	tick := time.NewTicker(time.Second) // the age of a picture goes on
	defer tick.Stop()
	for s := first; ; {
		draw(s)
		select {
		case s = <-pictures:
		case <-tick.C:
		case sig := <-signals:
			if sig == syscall.SIGTSTP {
				page.stop()
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// received hands pictures on as they come, and at last why no more do.
func received[T any](ctx context.Context, next func() (*T, error)) (<-chan *T, <-chan error) {
	pictures, ended := make(chan *T), make(chan error, 1)
	go func() {
		for {
			s, err := next()
			if err != nil {
				ended <- err
				return
			}
			select {
			case pictures <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pictures, ended
}

// draw shows a picture in one write: a terminal that shows each as it comes has nothing half drawn to show.
func (a *app) draw(file *os.File, footer string, page func(on *app)) {
	wide, high, err := term.GetSize(int(file.Fd()))
	if err != nil || wide < 1 || high < 1 {
		wide, high = 80, 24
	}
	var b strings.Builder
	drawn := *a
	drawn.out = &screen{Writer: &b, tty: true, colour: a.out.colour, width: wide}
	page(&drawn)
	_, _ = file.WriteString(frame(b.String(), footer, wide, high, drawn.out.style))
}

// frame is a page cut to a window, each line written over what stood there, with a footer in its last line.
func frame(page, footer string, wide, high int, look func(style, string) string) string {
	lines := strings.Split(strings.TrimRight(page, "\n"), "\n")
	if room := high - 1; len(lines) > room {
		footer = fmt.Sprintf("%s, %s below", footer, plural(len(lines)-room, "line"))
		lines = lines[:room]
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(cut(line, wide) + "\x1b[K\r\n")
	}
	fmt.Fprintf(&b, "\x1b[J\x1b[%d;1H%s\x1b[K", high, look(dim, cut(footer, wide)))
	return b.String()
}

// cut is a line of at most so many columns; codes of style take none, and are closed.
func cut(line string, wide int) string {
	n, styled := 0, false
	for i := 0; i < len(line); {
		if strings.HasPrefix(line[i:], "\x1b[") {
			end := strings.IndexByte(line[i:], 'm')
			if end < 0 {
				return line[:i]
			}
			styled = line[i:i+end+1] != "\x1b[0m"
			i += end + 1
			continue
		}
		if n == wide {
			if styled {
				return line[:i] + "\x1b[0m"
			}
			return line[:i]
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
		n++
	}
	return line
}
