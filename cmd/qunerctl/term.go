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

// columns is how wide a line may be. One narrower than that of the smallest terminal would be no page any more.
func (s *screen) columns() int {
	if s.width == 0 {
		return pageWidth
	}
	return max(60, s.width)
}

// para prints words as a paragraph: the first line after lead, the others below the beginning of its text.
func (s *screen) para(lead string, look style, words string) {
	indent := utf8.RuneCountInString(lead)
	for i, line := range wrap(words, s.columns()-indent) {
		if i > 0 {
			lead = strings.Repeat(" ", indent)
		}
		s.printf("%s%s\n", lead, s.style(look, line))
	}
}

// wrap breaks a text into lines of at most width columns; a word that is longer stays whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

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
// are left out; the heading of a column of figures stands over them. A last text that does not fit goes on below itself.
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
	at, last := 0, lastText(line)
	for i, c := range line {
		if !used[i] {
			continue
		}
		if i == last && !c.right {
			s.lastCell(b.String(), pad+2, at+2, c)
			return
		}
		at += 2 + width[i]
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

// lastText is the index of the last cell that holds a text, or -1.
func lastText(line []cell) int {
	for i := len(line) - 1; i >= 0; i-- {
		if line[i].text != "" {
			return i
		}
	}
	return -1
}

// leastColumn is the width below which a column is too narrow to read: its text then begins a line of its own.
const leastColumn = 24

// tallest is into how many lines a text may be broken in its column.
const tallest = 3

// fewWords is the length up to which a text stays in its row although that is too wide by it.
const fewWords = 32

func longestWord(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		n = max(n, utf8.RuneCountInString(word))
	}
	return n
}

// lastCell ends a row with a text that stands at a column, over several lines where it has to.
func (s *screen) lastCell(row string, pad, at int, c cell) {
	room := s.columns() - at
	switch {
	case utf8.RuneCountInString(c.text) <= room, room < leastColumn && utf8.RuneCountInString(c.text) <= fewWords:
		s.printf("%s%s%s\n", row, strings.Repeat(" ", pad), s.style(c.look, c.text))
		return
	case room < max(leastColumn, longestWord(c.text)) || len(wrap(c.text, room)) > tallest:
		s.printf("%s\n", row)
		at, pad, row = 6, 6, ""
		room = s.columns() - at
	}
	for i, line := range wrap(c.text, room) {
		if i > 0 {
			row, pad = "", at
		}
		s.printf("%s%s%s\n", row, strings.Repeat(" ", pad), s.style(c.look, line))
	}
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
