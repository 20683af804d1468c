package hostsim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/qunerd/quner/internal/unit"
)

// CurvePoint is one measured state of a board under a workload.
type CurvePoint struct {
	Cap   unit.Power // the power cap set
	Drawn unit.Power // the mean power then drawn, which may be more than the cap
	Rate  float64    // work a second, in the measurement's own unit
}

// Curve is what a workload draws and does at each power cap, by rising cap. It has at least two points.
type Curve []CurvePoint

// maxCurve bounds a curve's points: one a watt up to 4 kW.
const maxCurve = 4096

// parseCurve reads a CSV with the header cap_w,drawn_w,rate; lines that begin with # are remarks.
func parseCurve(r io.Reader) (Curve, error) {
	rows := csv.NewReader(r)
	rows.Comment = '#'
	rows.TrimLeadingSpace = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", orTruncated(err))
	}
	if want := []string{"cap_w", "drawn_w", "rate"}; !slices.Equal(header, want) {
		return nil, fmt.Errorf("header %q (allowed: cap_w,drawn_w,rate)", header)
	}
	var c Curve
	for {
		fields, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		p, err := parseCurvePoint(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if len(c) > 0 && p.Cap <= c[len(c)-1].Cap {
			return nil, fmt.Errorf("line %d: cap_w %q is not above the one before", line, fields[0])
		}
		if c = append(c, p); len(c) > maxCurve {
			return nil, fmt.Errorf("line %d: more than %d points", line, maxCurve)
		}
	}
	if len(c) < 2 {
		return nil, fmt.Errorf("%d points (allowed: 2 or more)", len(c))
	}
	return c, nil
}

func orTruncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func parseCurvePoint(fields []string) (CurvePoint, error) {
	var v [3]float64
	for i, name := range []string{"cap_w", "drawn_w", "rate"} {
		x, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(x) || x <= 0 || x > 1e5 {
			return CurvePoint{}, fmt.Errorf("%s %q (allowed: above 0, at most 100000)", name, fields[i])
		}
		v[i] = x
	}
	return CurvePoint{unit.FromWatts(v[0]), unit.FromWatts(v[1]), v[2]}, nil
}

// At returns what is drawn and done at a cap: between two measured points a straight line, beyond the ends the end.
func (c Curve) At(limit unit.Power) (drawn unit.Power, rate float64) {
	i, exact := slices.BinarySearchFunc(c, limit, func(p CurvePoint, l unit.Power) int {
		switch {
		case p.Cap < l:
			return -1
		case p.Cap > l:
			return 1
		}
		return 0
	})
	switch {
	case exact || i == 0:
		return c[i].Drawn, c[i].Rate
	case i == len(c):
		return c[i-1].Drawn, c[i-1].Rate
	}
	a, b := c[i-1], c[i]
	x := float64(limit-a.Cap) / float64(b.Cap-a.Cap)
	return a.Drawn + unit.Power(math.Round(x*float64(b.Drawn-a.Drawn))), a.Rate + x*(b.Rate-a.Rate)
}
