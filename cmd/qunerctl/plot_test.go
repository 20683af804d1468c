package main

import (
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestThePlotShowsEachStateAndWhatIsChosen(t *testing.T) {
	dir := t.TempDir()
	report := tuneReport("interior", true)
	report.Axes[0].Name = "gpu<&>"
	for _, s := range report.GetStates() {
		s.Axis = "gpu<&>"
	}
	name := filepath.Join(dir, "curve.svg")
	if err := plotOf(report).save(name, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	circles, words := 0, ""
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "circle" {
				circles++
			}
		case xml.CharData:
			words += strings.ReplaceAll(string(token), "\n", " ")
		}
	}
	measured := 0
	for _, s := range report.GetStates() {
		if s.JoulesPerWork != nil {
			measured++
		}
	}
	if circles != measured {
		t.Errorf("%d dots for %d states", circles, measured)
	}
	for _, want := range []string{"200 W", "chosen", "as found", "too slow", "gpu<&>", "\u221218.3 % ± 1.1 % joules per run at \u22126.0 % ± 0.4 % speed, certified; the sweep cost 42 kJ and pays back after 14 minutes of this work"} {
		if !strings.Contains(strings.Join(strings.Fields(words), " "), want) {
			t.Errorf("the plot lacks %q: %s", want, words)
		}
	}
}

func TestThePlotAsPixels(t *testing.T) {
	name := filepath.Join(t.TempDir(), "curve.PNG")
	if err := plotOf(tuneReport("interior", true)).save(name, false); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[color.RGBA]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[color.RGBA{byte(r >> 8), byte(g >> 8), byte(b >> 8), 255}]++
		}
	}
	for ink, least := range map[string]int{inkPaper: 100_000, inkText: 500, inkGrid: 500, inkCurve: 100, inkChosen: 40, inkSlow: 20, inkBand: 200} {
		if seen[colour(ink)] < least {
			t.Errorf("ink %s: %d pixels, want at least %d", ink, seen[colour(ink)], least)
		}
	}
}

func TestAPlotIsWrittenOverAPlotAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	p := plotOf(tuneReport("interior", true))
	for _, ext := range []string{".svg", ".png"} {
		name := filepath.Join(dir, "curve"+ext)
		for range 2 {
			if err := p.save(name, false); err != nil {
				t.Error(err)
			}
		}
		mine := filepath.Join(dir, "mine"+ext)
		for what, text := range map[string]string{"empty": "", "a letter": strings.Repeat("Dear reader\n", 500)} {
			if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.save(mine, false); err == nil {
				t.Errorf("%s: %s is overwritten", ext, what)
			}
			if got, _ := os.ReadFile(mine); string(got) != text {
				t.Errorf("%s: %s is changed", ext, what)
			}
		}
		if err := p.save(mine, true); err != nil {
			t.Errorf("forced: %v", err)
		}
	}
	if err := p.save(filepath.Join(dir, "no", "curve.svg"), false); err == nil {
		t.Error("written into a directory that is not there")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".quner-plot-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestAPlotOfNothing(t *testing.T) {
	for _, ext := range []string{".svg", ".png"} {
		if err := plotOf(&qunerv1.TuneReport{Verdict: "no_energy"}).save(filepath.Join(t.TempDir(), "curve"+ext), false); err != nil {
			t.Error(err)
		}
	}
	if got := ticks(0); got != nil {
		t.Errorf("ticks of nothing: %v", got)
	}
	if got := ticks(810); len(got) != 5 || got[4] != 800 {
		t.Errorf("ticks to 810: %v", got)
	}
}
