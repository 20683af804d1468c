package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progressEvery is how often a line of progress changes.
const progressEvery = 100 * time.Millisecond

// progress shows a person how much of something is done, on a line that end wipes away. Into a file or a pipe it writes
// nothing.
func progress(w io.Writer, what string) (show func(done float64), end func()) {
	f, is := w.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return func(float64) {}, func() {}
	}
	var last time.Time
	show = func(done float64) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			fmt.Fprintf(f, "\r%s: %.0f %%", what, 100*done)
		}
	}
	return show, func() {
		if !last.IsZero() {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}
