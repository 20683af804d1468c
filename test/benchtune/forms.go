package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errForm is the error of a file that has none of the known forms.
var errForm = errors.New("not of a known form")

// ReadDir reads all curves below a directory, and names what it left out and why.
func ReadDir(dir string) (curves []Curve, skipped []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() && d.Type()&fs.ModeSymlink == 0 || filepath.Base(path) == "README.md" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		found, err := parse(strings.TrimSuffix(name, ".csv"), f)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%s: %v", name, err))
		}
		for _, c := range found {
			if err := c.check(); err != nil {
				skipped = append(skipped, err.Error())
				continue
			}
			curves = append(curves, c)
		}
		return nil
	})
	if err == nil && len(curves) == 0 {
		err = fmt.Errorf("%s: no curve", dir)
	}
	return curves, skipped, err
}

// parse reads the curves of one file; which form it has, its first line says.
func parse(name string, r io.Reader) ([]Curve, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.TrimLeadingSpace = -1, true
	rows, err := in.ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errForm, err)
	case len(rows) < 2:
		return nil, fmt.Errorf("%w: %d lines", errForm, len(rows))
	}
	for i, cell := range rows[0] {
		rows[0][i] = strings.ToLower(strings.TrimSpace(cell))
	}
	switch head := rows[0]; {
	case slices.Contains(head, "power_limit"):
		return epochs(name, head, rows[1:])
	case slices.Contains(head, "window_name"):
		return windows(name, head, rows[1:])
	default:
		return headless(name, rows)
	}
}

// table reads columns by their names.
type table struct {
	head []string
	row  []string
	err  error // the first
}

// text is the row's cell in a column.
func (t *table) text(column string) string {
	i := slices.Index(t.head, column)
	if i < 0 || i >= len(t.row) {
		t.fail(fmt.Errorf("%w: no column %s", errForm, column))
		return ""
	}
	return t.row[i]
}

// number is the row's number in a column.
func (t *table) number(column string) float64 {
	text := t.text(column)
	v, err := number(text)
	t.fail(err)
	return v
}

func (t *table) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%w: %q is no number", errForm, text)
	}
	return v, nil
}

// epochs reads time and mean power of an epoch by power limit, a curve for each combination of what else the columns say.
func epochs(name string, head []string, rows [][]string) ([]Curve, error) {
	var order []*builder
	byKey := map[string]*builder{}
	t := table{head: head}
	for _, t.row = range rows {
		var key []string
		for i, column := range head {
			if i < len(t.row) && !slices.Contains([]string{"power_limit", "time_per_epoch", "average_power"}, column) {
				key = append(key, t.row[i])
			}
		}
		k := strings.Join(key, " ")
		if byKey[k] == nil {
			byKey[k] = newBuilder(name + " " + k)
			order = append(order, byKey[k])
		}
		byKey[k].add(t.number("power_limit"), t.number("time_per_epoch"), t.number("average_power"))
		if t.err != nil {
			return nil, t.err
		}
	}
	return curvesOf(order), nil
}

// windows reads time and energy of windows whose name ends with the power limit; the energy of several GPUs is added up.
func windows(name string, head []string, rows [][]string) ([]Curve, error) {
	b := newBuilder(name)
	t := table{head: head}
	for _, t.row = range rows {
		label := t.text("window_name")
		watts, err := number(strings.TrimSuffix(label[strings.LastIndex(label, "_")+1:], "W"))
		t.fail(err)
		seconds, joules := t.number("elapsed_time"), 0.0
		gpus := 0
		for _, column := range head {
			if strings.HasSuffix(column, "_energy") {
				joules += t.number(column)
				gpus++
			}
		}
		if gpus == 0 {
			t.fail(fmt.Errorf("%w: no column …_energy", errForm))
		}
		if t.err != nil {
			return nil, t.err
		}
		b.add(watts, seconds, joules/seconds)
	}
	return curvesOf([]*builder{b}), nil
}

// headless reads numbers alone: cap, one or more rates, power drawn, perhaps more, and rate ÷ power drawn last. The power
// is the column that makes the last one true; every column between the cap and it is a rate.
func headless(name string, rows [][]string) ([]Curve, error) {
	width := len(rows[0])
	if width < 4 {
		return nil, fmt.Errorf("%w: %d columns without a known head", errForm, width)
	}
	values := make([][]float64, len(rows))
	for i, row := range rows {
		if len(row) != width {
			return nil, fmt.Errorf("%w: %d columns, then %d", errForm, width, len(row))
		}
		for _, cell := range row {
			v, err := number(cell)
			if err != nil {
				return nil, err
			}
			values[i] = append(values[i], v)
		}
	}
	drawn := drawnColumn(values)
	if drawn == 0 {
		return nil, fmt.Errorf("%w: no column is the power that the last one says", errForm)
	}
	var all []*builder
	for rate := 1; rate < drawn; rate++ {
		b := newBuilder(fmt.Sprintf("%s rate %d", name, rate))
		for _, v := range values {
			b.add(v[0], 1/v[rate], v[drawn])
		}
		all = append(all, b)
	}
	return curvesOf(all), nil
}

// drawnColumn is the column whose quotient with the first or second rate is the last column, within what its digits hide;
// 0 if there is none.
func drawnColumn(values [][]float64) int {
	last := len(values[0]) - 1
	for drawn := 2; drawn < last; drawn++ {
		for rate := 1; rate < drawn; rate++ {
			fits := 0
			for _, v := range values {
				if math.Abs(v[rate]/v[drawn]-v[last]) <= 0.01*v[last]+0.001 {
					fits++
				}
			}
			if 10*fits >= 9*len(values) {
				return drawn
			}
		}
	}
	return 0
}

func curvesOf(all []*builder) []Curve {
	out := make([]Curve, 0, len(all))
	for _, b := range all {
		out = append(out, b.curve())
	}
	return out
}
