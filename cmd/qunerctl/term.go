package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// style is an SGR code.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// style colours s if a person looks at the screen and has not asked for none.
func (s *screen) style(code style, text string) string {
	if !s.colour || code == plain || text == "" {
		return text
	}
	return "\x1b[" + string(code) + "m" + text + "\x1b[0m"
}

// printf prints to the screen. A screen that has gone away (a closed pipe) is nobody to tell of it.
func (s *screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s, format, args...) }

// cell is a text in a table with its look.
type cell struct {
	text  string
	look  style
	right bool // aligned to the right, for figures
}

func text(s string) cell    { return cell{text: s} }
func figure(s string) cell  { return cell{text: s, right: true} }
func heading(s string) cell { return cell{text: s, look: bold} }

// table prints rows in columns, two spaces apart and indented by two. Columns that are empty throughout, heading aside,
// are left out; the heading of a column of figures stands over them.
func (s *screen) table(head []string, rows [][]cell) {
	var lines [][]cell
	if head != nil {
		line := make([]cell, len(head))
		for i, h := range head {
			line[i] = heading(h)
			line[i].right = len(rows) > 0 && i < len(rows[0]) && rows[0][i].right
		}
		lines = append(lines, line)
	}
	lines = append(lines, rows...)
	var width []int
	used := make(map[int]bool)
	for n, line := range lines {
		for i, c := range line {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
			used[i] = used[i] || c.text != "" && (n > 0 || head == nil)
		}
	}
	for _, line := range lines {
		s.row(line, width, used)
	}
}

func (s *screen) row(line []cell, width []int, used map[int]bool) {
	var b strings.Builder
	pad := 0 // owed before the next text: none is left at the end of a line
	for i, c := range line {
		if !used[i] {
			continue
		}
		room := width[i] - utf8.RuneCountInString(c.text)
		pad += 2
		if c.right {
			pad += room
			room = 0
		}
		if c.text != "" {
			b.WriteString(strings.Repeat(" ", pad))
			b.WriteString(s.style(c.look, c.text))
			pad = 0
			pad += room
			continue
		}
		pad += room
	}
	s.printf("%s\n", b.String())
}

// progress is one line that is rewritten on a terminal; elsewhere only steps are printed, a line each.
type progress struct {
	s    *screen
	mu   sync.Mutex
	last string
}

// show rewrites the line; nothing elsewhere than on a terminal.
func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line := fmt.Sprintf(format, args...); p.s.tty && line != p.last {
		p.s.printf("\r%s\x1b[K", line)
		p.last = line
	}
}

// step prints a line that stays.
func (p *progress) step(format string, args ...any) {
	p.clear()
	p.s.printf(format+"\n", args...)
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != "" {
		p.s.printf("\r\x1b[K")
		p.last = ""
	}
}

// waiting shows a sign of life once what takes more than a second, until the returned function is called.
func (a *app) waiting(what string) (stop func()) {
	p := &progress{s: a.err}
	quit := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-quit:
				p.clear()
				return
			case <-tick.C:
				p.show("%s … %d s", what, n)
				if n == 1 && !p.s.tty {
					p.step("%s …", what)
				}
			}
		}
	})
	return func() { close(quit); over.Wait() }
}
