package journey

import (
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/tune"
)

// band is how much more than the best a state may cost and be as good as it.
const band = 1.0191

// truth is a second machine of the same make, which no daemon has ever seen: it is put into each state in turn, under the
// same load, and asked what it draws and does. What it says of its boards is first held against the measured curves.
type truth struct {
	t      *testing.T
	sim    *hostsim.Sim
	boards []string
	names  []string // of the machine's settings
}

func newTruth(t *testing.T, host string, boards []string) truth {
	t.Helper()
	sim := machine(t, host, 1)
	tr := truth{t, sim, boards, slices.Collect(maps.Keys(sim.Settings()))}
	for b := range boardCount(tr.sim) {
		tr.checkCurve(host, b)
	}
	for _, b := range boards {
		tr.sim.SetLoad(b, 1)
	}
	return tr
}

func boardCount(sim *hostsim.Sim) int {
	n := 0
	for name := range sim.Settings() {
		if strings.HasSuffix(name, "/limit_mw") {
			n++
		}
	}
	return n
}

// checkCurve holds what the machine draws and does with one board at work against the rows of the board's curve: all else
// is the same at each cap, so that watts differ by what is measured and speeds are in the ratio that is.
func (tr truth) checkCurve(host string, b int) {
	tr.t.Helper()
	rows := curveOf(tr.t, host, b)
	board := "gpu" + strconv.Itoa(b)
	found := tr.sim.Settings()[board+"/limit_mw"]
	tr.sim.SetLoad(board, 1)
	defer tr.sim.SetLoad(board, 0)
	var watts0, rate0 float64
	for i, row := range rows {
		tr.set(board+"/limit_mw", row[0]*1000)
		watts, rate := tr.sim.Power().Watts(), tr.sim.Rate(board)
		if i == 0 {
			watts0, rate0 = watts, rate
		}
		if math.Abs(watts-watts0-(row[1]-rows[0][1])) > 0.01 || math.Abs(rate/rate0/(row[2]/rows[0][2])-1) > 1e-6 {
			tr.t.Fatalf("%s of %s at %g W: %g W and %g a second more than at %g W; by the curve %g W, %g times as fast",
				board, host, row[0], watts-watts0, rate/rate0, rows[0][0], row[1]-rows[0][1], row[2]/rows[0][2])
		}
	}
	if err := tr.sim.Foreign(board+"/limit_mw", found); err != nil {
		tr.t.Fatal(err)
	}
}

// curveOf reads the rows of a board's curve, cap, watts and rate, from the machine's archive.
func curveOf(t *testing.T, host string, board int) [][3]float64 {
	t.Helper()
	archive, err := os.ReadFile(path.Join("../../internal/host/hostsim/hosts", host+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range txtar.Parse(archive).Files {
		files[f.Name] = string(f.Data)
	}
	name := ""
	for n, part := range strings.Split(files["host.toml"], "\n[[gpu]]")[1:] {
		for line := range strings.Lines(part) {
			if key, value, _ := strings.Cut(line, "="); n == board && strings.TrimSpace(key) == "curve" {
				name = strings.Split(value, `"`)[1]
			}
		}
	}
	in := csv.NewReader(strings.NewReader(files[name]))
	in.Comment = '#'
	records, err := in.ReadAll()
	if err != nil || len(records) < 3 {
		t.Fatalf("%s, board %d, curve %q: %d rows, %v", host, board, name, len(records), err)
	}
	rows := make([][3]float64, len(records)-1)
	for i, fields := range records[1:] {
		for k := range rows[i] {
			if rows[i][k], err = strconv.ParseFloat(fields[k], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rows
}

func (tr truth) set(name string, value float64) {
	tr.t.Helper()
	if err := tr.sim.Foreign(name, strconv.FormatFloat(math.Round(value), 'f', 0, 64)); err != nil {
		tr.t.Fatal(err)
	}
}

// put moves one axis to a state, by its label.
func (tr truth) put(axis, label string) {
	tr.t.Helper()
	watts, _ := strconv.ParseFloat(strings.TrimSuffix(label, " W"), 64)
	for _, name := range tr.names {
		base := path.Base(name)
		switch {
		case axis == "governor" && base == "scaling_governor":
			if err := tr.sim.Foreign(name, label); err != nil {
				tr.t.Fatal(err)
			}
		case axis == "package" && base == "constraint_0_power_limit_uw":
			tr.set(name, watts*1e6)
		case base == "limit_mw" && (axis == "gpu" || axis == path.Dir(name)):
			tr.set(name, watts*1000)
		}
	}
}

// is is what the machine draws, in watts, and does a second, as it stands.
func (tr truth) is() (watts, rate float64) {
	for _, b := range tr.boards {
		rate += tr.sim.Rate(b)
	}
	return tr.sim.Power().Watts(), rate
}

// terrain is the truth over all states that a sweep may choose.
type terrain struct {
	axes  []tune.Axis
	all   map[string]point
	found point
	best  point // the one that costs least of those allowed
}

// point is one combination of states.
type point struct {
	at          []int
	watts, rate float64
}

func (p point) cost() float64 { return p.watts / p.rate }

// survey looks at every combination of states at or below those found.
func (tr truth) survey(axes []tune.Axis, maxSlowdown float64) *terrain {
	tr.t.Helper()
	o := &terrain{axes: axes, all: map[string]point{}}
	at := make([]int, len(axes))
	var visit func(i int)
	visit = func(i int) {
		if i < 0 {
			watts, rate := tr.is()
			o.all[fmt.Sprint(at)] = point{slices.Clone(at), watts, rate}
			return
		}
		for at[i] = axes[i].Found; at[i] >= 0; at[i]-- {
			tr.put(axes[i].Name, axes[i].States[at[i]])
			visit(i - 1)
		}
	}
	visit(len(axes) - 1) // boards come first, so that theirs are the innermost
	for i, a := range axes {
		at[i] = a.Found
	}
	o.found = o.of(at)
	o.best = o.found
	for _, p := range o.all {
		if p.rate >= (1-maxSlowdown)*o.found.rate && p.cost() < o.best.cost() {
			o.best = p
		}
	}
	return o
}

func (o *terrain) of(at []int) point { return o.all[fmt.Sprint(at)] }
