package main

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// svg writes the plot as a picture of lines and text.
func (p plot) svg(w io.Writer) error {
	s := new(svgCanvas)
	fmt.Fprintf(&s.out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" font-family=\"sans-serif\" font-size=\"12\">\n<!-- %[3]s -->\n<title>%[4]s</title>\n",
		plotWide, p.high(), plotMark, html.EscapeString(p.title))
	p.draw(s)
	s.out.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.out.String())
	return err
}

type svgCanvas struct{ out strings.Builder }

func (s *svgCanvas) line(x0, y0, x1, y1 float64, ink string) {
	fmt.Fprintf(&s.out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", x0, y0, x1, y1, ink)
}

func (s *svgCanvas) box(x, y, wide, high float64, ink string) {
	fmt.Fprintf(&s.out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, wide, high, ink)
}

func (s *svgCanvas) dot(x, y, r float64, ink string) {
	fmt.Fprintf(&s.out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, r, ink)
}

func (s *svgCanvas) text(x, y float64, at, ink, text string) {
	if text != "" {
		fmt.Fprintf(&s.out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, at, ink, html.EscapeString(text))
	}
}
