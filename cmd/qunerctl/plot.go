package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// plotMark is in every plot, so that one may be written over another and over nothing else.
const plotMark = "quner tune plot"

// plotPoint is one state of an axis.
type plotPoint struct {
	label         string
	joules, half  float64 // of the joules per work; half is 0 while there is none
	chosen, found bool
	allowed       bool
}

// plotCurve is an axis: its states, from the lowest power to the highest.
type plotCurve struct {
	name   string
	points []plotPoint
}

// plot is what a sweep has measured, to look at.
type plot struct {
	title, verdict, unit string
	curves               []plotCurve
}

// plotOf is the picture of a sweep; without curves there is nothing to draw.
func plotOf(r *qunerv1.TuneReport) plot {
	p := plot{title: "Joules per " + unitOf(r) + ", by state", verdict: quoteLine(r), unit: unitOf(r)}
	for _, axis := range r.GetAxes() {
		c := plotCurve{name: axis.GetName()}
		for _, s := range r.GetStates() {
			if s.GetAxis() == axis.GetName() && s.JoulesPerWork != nil {
				c.points = append(c.points, plotPoint{strings.Join(s.GetState(), ", "), s.GetJoulesPerWork(), s.GetJoulesPerWorkHalfWidth(),
					chosen(r, s), s.GetFound(), s.GetAllowed()})
			}
		}
		if len(c.points) > 1 {
			p.curves = append(p.curves, c)
		}
	}
	return p
}

// checkPlot refuses beforehand what could not be written in the end: a sweep takes minutes.
func checkPlot(name string, force bool) error {
	if name == "" {
		return nil
	}
	if ext := strings.ToLower(filepath.Ext(name)); ext != ".svg" && ext != ".png" {
		return wrongValue("--plot tune.svg", "--plot", name, "a file that ends in .svg or .png")
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		return usagef("mkdir -p "+quote(filepath.Dir(name)), "--plot %s: there is no such directory", quote(name))
	}
	return mayReplace(name, force)
}

// mayReplace refuses to write over what is no plot of a sweep.
func mayReplace(name string, force bool) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || force {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 1024)
	n, err := io.ReadFull(f, head)
	if info, statErr := f.Stat(); statErr != nil || !info.Mode().IsRegular() || !bytes.Contains(head[:n], []byte(plotMark)) {
		return &failure{error: fmt.Errorf("--plot %s: is there already, and is no plot of a sweep", quote(name)), code: exitUsage,
			hint: "give another name, or write over it: --force"}
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// save writes the plot, whole or not at all.
func (p plot) save(name string, force bool) error {
	if err := mayReplace(name, force); err != nil { // there may be one by now
		return err
	}
	var picture bytes.Buffer
	var err error
	if strings.EqualFold(filepath.Ext(name), ".png") {
		err = p.png(&picture)
	} else {
		err = p.svg(&picture)
	}
	if err != nil {
		return fmt.Errorf("--plot %s: %w", quote(name), err)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".quner-plot-*")
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	_, err = temp.Write(picture.Bytes())
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--plot: %w", err), os.Remove(temp.Name()))
	}
	return nil
}

// Sizes of a plot, in pixels.
const (
	plotWide  = 720
	curveHigh = 300
	plotTop   = 64
	// plotColumns is how many letters a line has room for.
	plotColumns = 110
	plotLeft    = 84
	plotRight   = 24
	curveAbove  = 28
	curveBelow  = 44
	bandShare   = 0.0191 // of EXP-132: what is as good as the best
)

func (p plot) high() int { return plotTop + curveHigh*max(1, len(p.curves)) }

// canvas is what a plot is drawn on. Coordinates are pixels from the upper left corner.
type canvas interface {
	line(x0, y0, x1, y1 float64, ink string)
	box(x, y, wide, high float64, ink string)
	dot(x, y, r float64, ink string)
	// text stands with its baseline at y; at is where x is of it: "start", "middle" or "end".
	text(x, y float64, at, ink, s string)
}

// Inks of a plot.
const (
	inkPaper  = "#ffffff"
	inkText   = "#222222"
	inkGrid   = "#dddddd"
	inkCurve  = "#3366aa"
	inkSlow   = "#aaaaaa"
	inkChosen = "#118833"
	inkBand   = "#e4f3e8"
)

// draw draws the plot.
func (p plot) draw(c canvas) {
	c.box(0, 0, plotWide, float64(p.high()), inkPaper)
	c.text(plotWide/2, 20, "middle", inkText, p.title)
	for i, line := range wrap(p.verdict, plotColumns) {
		c.text(plotWide/2, 38+14*float64(i), "middle", inkText, line)
	}
	for i, curve := range p.curves {
		curve.draw(c, float64(plotTop+i*curveHigh), p.unit)
	}
	if len(p.curves) == 0 {
		c.text(plotWide/2, plotTop+curveHigh/2, "middle", inkText, "no axis had two states to compare")
	}
}

// draw draws a curve below y. Joules begin at zero: a scale that began elsewhere would exaggerate.
func (c plotCurve) draw(to canvas, y float64, unit string) {
	most, best := 0.0, math.Inf(1)
	for _, pt := range c.points {
		most = max(most, pt.joules+pt.half)
		if pt.chosen {
			best = pt.joules
		}
	}
	top, bottom := y+curveAbove, y+curveHigh-curveBelow
	at := func(joules float64) float64 { return bottom - (bottom-top)*joules/most }
	step := (plotWide - plotLeft - plotRight) / float64(len(c.points))
	across := func(i int) float64 { return plotLeft + step*(float64(i)+0.5) }
	if !math.IsInf(best, 1) {
		to.box(plotLeft, at(best*(1+bandShare)), plotWide-plotLeft-plotRight, at(best)-at(best*(1+bandShare)), inkBand)
	}
	for _, tick := range ticks(most) {
		to.line(plotLeft, at(tick), plotWide-plotRight, at(tick), inkGrid)
		to.text(plotLeft-8, at(tick)+4, "end", inkText, tickWords(tick))
	}
	for i := 1; i < len(c.points); i++ {
		to.line(across(i-1), at(c.points[i-1].joules), across(i), at(c.points[i].joules), inkCurve)
	}
	for i, pt := range c.points {
		ink, note := inkCurve, ""
		switch {
		case pt.chosen:
			ink, note = inkChosen, "chosen"
		case pt.found:
			note = "as found"
		case !pt.allowed:
			ink, note = inkSlow, "too slow"
		}
		to.line(across(i), at(pt.joules-pt.half), across(i), at(pt.joules+pt.half), ink)
		to.dot(across(i), at(pt.joules), 4, ink)
		to.text(across(i), bottom+16, "middle", inkText, pt.label)
		to.text(across(i), bottom+32, "middle", ink, note)
	}
	to.line(plotLeft, bottom, plotWide-plotRight, bottom, inkText)
	to.line(plotLeft, top, plotLeft, bottom, inkText)
	to.text(plotLeft, y+16, "middle", inkText, "J per "+unit)
	to.text(plotWide-plotRight, y+16, "end", inkText, c.name)
}

// ticks are round values from 0 up to most, about five of them.
func ticks(most float64) []float64 {
	if !(most > 0) || math.IsInf(most, 1) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if most/(step*m) <= 5.5 {
			step *= m
			break
		}
	}
	var all []float64
	for n := 0; float64(n)*step <= most*1.0001; n++ {
		all = append(all, float64(n)*step)
	}
	return all
}

func tickWords(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.4gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.4gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
