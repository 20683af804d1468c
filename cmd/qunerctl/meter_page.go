package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// meterPage tells what a command, or the machine for a while, cost.
func (a *app) meterPage(cmd *cobra.Command, s *screen, r client.Result, of metering) {
	w := r.Window
	lasted := time.Duration(w.GetDurationNs())
	s.printf("\n")
	s.para("", bold, "Energy of "+clean(of.words))
	if r.Cause != nil {
		f := a.classify(cmd, r.Cause)
		s.printf("  not measured: %s\n", clean(f.Error()))
		a.hintOn(s, f.hint)
		return
	}
	took := brief(lasted)
	if of.asked > 0 && lasted < of.asked-time.Second/2 {
		took += ", ended early (--for " + shortDuration(of.asked) + ")"
	}
	sure := yellow
	if r.Measured() {
		sure = green
	}
	rows := [][]cell{{heading("energy"), {text: energyWords(r), look: sure}}}
	if _, _, ok := r.Joules(); ok && lasted > 0 {
		mean := quantity(micro(w.GetEnergyUj())/lasted.Seconds(), micro(w.GetHalfWidthUj())/lasted.Seconds(), "W")
		rows = append(rows, []cell{heading("power"), text(mean + " on average over " + took)})
	} else {
		rows = append(rows, []cell{heading("time"), text(took)})
	}
	if all, ok := drawnByAll(w); ok {
		rows = append(rows, []cell{heading("in all"), text(joules(all, 0) + ", " + quantity(micro(all)/lasted.Seconds(), 0, "W") + ", drawn by whoever it was")})
	}
	if w.GetWork() > 0 {
		cost := "not known"
		if j, half, ok := r.JoulesPerUnit(); ok {
			cost = quantity(j, half, "J")
		}
		rows = append(rows, []cell{heading("per " + singular(w.GetUnit())),
			text(cost + "   (" + amount(w.GetWork()) + " " + orWord(w.GetUnit(), "units") + ")")})
	}
	if w.PlatformUj != nil {
		rows = append(rows, []cell{heading("platform"), text(joules(w.GetPlatformUj(), 0) + " by psys (mainboard, CPU), not in the sum")})
	}
	s.table(nil, rows)
	meterDevices(s, w)
	for _, n := range notes(w) {
		s.para("  note: ", plain, n)
	}
	a.hintOn(s, advice(w, of))
}

// hintOn prints what to type next, on one line of its own that can be pasted.
func (a *app) hintOn(s *screen, hint string) {
	if hint != "" {
		s.printf("%s %s\n", s.style(bold, "hint:"), clean(a.asCalled(hint)))
	}
}

func micro(uj int64) float64 { return float64(uj) / 1e6 }

// energyWords are the figure and how it came to be.
func energyWords(r client.Result) string {
	w := r.Window
	above := ""
	if w.GetAboveIdle() {
		above = " above idle"
	}
	if _, _, ok := r.Joules(); !ok {
		if bound, ok := r.UpperBound(); ok {
			return "unknown, at most " + quantity(bound, 0, "J") + above
		}
		return "unknown"
	}
	how := "measured"
	if !r.Measured() {
		how = "ESTIMATED from your hint, not measured"
	}
	if w.GetShare() == "shared" {
		how += ", shared with others"
	}
	if c := w.GetCoverage(); c < 0.995 && r.Measured() {
		how += ", " + percent(c) + " of the time covered"
	}
	return joules(w.GetEnergyUj(), w.GetHalfWidthUj()) + above + "   (" + how + ")"
}

// drawnByAll is what the devices of a window drew meanwhile, of which the window was charged a share; not ok where it was charged
// all, or that of a device is not known.
func drawnByAll(w *qunerv1.WindowResult) (uj int64, ok bool) {
	if w.GetShare() != "shared" || w.GetDurationNs() <= 0 {
		return 0, false
	}
	for _, d := range w.GetDevices() {
		if d.DeviceTotalUj == nil || d.GetCoverage() < 0.995 {
			return 0, false
		}
		uj += d.GetDeviceTotalUj()
	}
	return uj, len(w.GetDevices()) > 0
}

// meterDevices is a row a device. Energy and power are above the floor where there is one.
func meterDevices(s *screen, w *qunerv1.WindowResult) {
	if len(w.GetDevices()) == 0 {
		return
	}
	rows := make([][]cell, 0, len(w.GetDevices()))
	for _, d := range w.GetDevices() {
		energy, mean := figure(joules(d.GetEnergyUj(), d.GetHalfWidthUj())), figure("")
		if lasted := micro(orDuration(d.GetDurationNs(), w.GetDurationNs()) / 1e3); lasted > 0 {
			watts, _, _ := strings.Cut(quantity(micro(d.GetEnergyUj())/lasted, micro(d.GetHalfWidthUj())/lasted, "W"), " ±")
			mean = figure(watts)
		}
		how := ""
		switch d.GetMethod() {
		case qunerv1.Method_METHOD_SAMPLED:
		case qunerv1.Method_METHOD_ESTIMATED:
			how = ", estimated"
		default:
			energy, mean = cell{text: "unknown", right: true, look: yellow}, figure("")
		}
		floor := ""
		if d.GetFloor() != "none" && d.GetFloor() != "" && d.FloorUj != nil {
			floor = joules(d.GetFloorUj(), 0)
		}
		source := backendWords(d.GetBackend()) + how
		if strings.HasPrefix(d.GetDevice(), "gpu/") && d.GetLabel() != "" { // the others' names say what they are
			source = strings.TrimPrefix(d.GetLabel(), "NVIDIA ") + ", " + source
		}
		rows = append(rows, []cell{text(short(d.GetDevice())), energy, mean, figure(floor), text(source)})
	}
	s.printf("\n")
	s.table([]string{"DEVICE", "ENERGY", "POWER", "FLOOR", "SOURCE"}, rows)
}

func orDuration(d, otherwise int64) int64 {
	if d == 0 {
		return otherwise
	}
	return d
}

// backendWords says what stands behind a figure.
func backendWords(backend string) string {
	switch backend {
	case "nvml_counter":
		return "NVML"
	case "hwmon_counter":
		return "hwmon"
	case "power_sampler":
		return "power sensor"
	case "rapl":
		return "RAPL"
	case "none":
		return "nothing"
	}
	return strings.ReplaceAll(backend, "_", " ")
}

// brief is a duration, one below a second in milliseconds.
func brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(1e3*d.Seconds(), 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.FormatFloat(1e3*d.Seconds(), 'f', 0, 64) + " ms"
	}
	return span(d)
}

// singular is a unit's name for one of it.
func singular(unitName string) string {
	if unitName == "" {
		return "unit"
	}
	if len(unitName) > 3 && strings.HasSuffix(unitName, "s") && !strings.HasSuffix(unitName, "ss") {
		return unitName[:len(unitName)-1]
	}
	return unitName
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
