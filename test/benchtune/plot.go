package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// line is one course in the plot: share in band by windows.
type line struct {
	name   string
	colour string
	y      []float64 // after 1, 2, … windows
}

// dot is a search that takes as many windows as it takes.
type dot struct {
	name string
	x, y float64
}

// picture is in-band share against windows.
type picture struct {
	lines []line
	dots  []dot
}

// colours tells the lines apart, also for those who see no red.
func colours() []string { return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"} }

// picture is what the result has to show at the bars' σ.
func (r Result) picture(b Bench) picture {
	var p picture
	for i, rate := range b.Rates {
		name := fmt.Sprintf("%s, σ %d %%", nameCertified, barSigma)
		if rate > 0 {
			name += fmt.Sprintf(", %g σ on work/s", rate)
		}
		s := r.Scores[Cell{nameCertified, barSigma, rate}]
		p.lines = append(p.lines, line{name, colours()[i%len(colours())], s.ByBudget})
	}
	for _, name := range append([]string{nameCertified}, rivals()...) {
		if s, ok := r.Scores[Cell{name, barSigma, b.Rates[0]}]; ok {
			p.dots = append(p.dots, dot{name, s.MeanWindows, s.InBand})
		}
	}
	return p
}

// floor is the lowest share the picture has room for, a multiple of a tenth.
func (p picture) floor() float64 {
	least := 0.9
	for _, d := range p.dots {
		least = min(least, d.y)
	}
	return math.Floor(10*least) / 10
}

// Text draws the picture in characters: rows are shares, columns are windows.
func (p picture) Text(out io.Writer) {
	const rows = 16
	lo := p.floor()
	grid := make([][]rune, rows+1)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", budgets*2))
	}
	put := func(x, y float64, mark rune) {
		row, col := int(math.Round((1-y)/(1-lo)*rows)), int(math.Round(x*2))-2
		if row >= 0 && row <= rows && col >= 0 && col < budgets*2 {
			grid[row][col] = mark
		}
	}
	marks := []rune{'●', '○', '+', '×'}
	for i, l := range slices.Backward(p.lines) {
		for x, y := range l.y {
			put(float64(x+1), y, marks[i%len(marks)])
		}
	}
	for _, d := range p.dots[min(1, len(p.dots)):] {
		put(d.x, d.y, []rune(strings.ToUpper(d.name))[0])
	}
	fmt.Fprintf(out, "\nin band, if the sweep had to end after so many windows (σ = %d %%)\n", barSigma)
	for i, row := range grid {
		fmt.Fprintf(out, "%5.0f %% │%s\n", 100*(1-float64(i)/rows*(1-lo)), strings.TrimRight(string(row), " "))
	}
	fmt.Fprintf(out, "        └%s\n        ", strings.Repeat("─", budgets*2))
	for x := 5; x <= budgets; x += 5 {
		fmt.Fprintf(out, "%10d", x)
	}
	fmt.Fprintln(out, "  windows")
	for i, l := range p.lines {
		fmt.Fprintf(out, "  %c %s\n", marks[i%len(marks)], l.name)
	}
	for _, d := range p.dots[min(1, len(p.dots)):] {
		fmt.Fprintf(out, "  %c %s: %.1f %% at %.1f windows\n", []rune(strings.ToUpper(d.name))[0], d.name, 100*d.y, d.x)
	}
}

// SVG draws the picture for a browser.
func (p picture) SVG(out io.Writer) error {
	const (
		width, height            = 760.0, 440.0
		left, right, up, downEnd = 60.0, 20.0, 40.0, 50.0
	)
	lo := p.floor()
	at := func(x, y float64) (float64, float64) {
		return left + x/budgets*(width-left-right), up + (1-y)/(1-lo)*(height-up-downEnd)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%g" height="%g" fill="white"/><text x="%g" y="20" font-size="14">In band against windows, σ = %d %%</text>`+"\n",
		width, height, left, barSigma)
	for y := lo; y <= 1.0001; y += 0.05 {
		x0, py := at(0, y)
		fmt.Fprintf(&s, `<path d="M%g %.1fH%g" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%.0f %%</text>`+"\n",
			x0, py, width-right, x0-6, py+4, 100*y)
	}
	for x := 0; x <= budgets; x += 5 {
		px, py := at(float64(x), lo)
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`+"\n", px, py+18, x)
	}
	fmt.Fprintf(&s, `<text x="%g" y="%g" text-anchor="middle">windows</text>`+"\n", width/2, height-10)
	for i, l := range p.lines {
		var path strings.Builder
		for x, y := range l.y {
			if px, py := at(float64(x+1), y); y >= lo {
				fmt.Fprintf(&path, "%.1f,%.1f ", px, py)
			}
		}
		fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(path.String()), l.colour)
		_, py := at(0, lo)
		fmt.Fprintf(&s, `<text x="%g" y="%.1f" text-anchor="end" fill="%s">%s</text>`+"\n", width-right-6, py-12-16*float64(i), l.colour, l.name)
	}
	for _, d := range p.dots {
		px, py := at(d.x, d.y)
		fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="4" fill="#333"/><text x="%.1f" y="%.1f" fill="#333">%s</text>`+"\n", px, py, px+7, py+14, d.name)
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(out, s.String())
	return err
}
