package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/unit"
)

// meterPage tells what a command cost.
func (a *app) meterPage(cmd *cobra.Command, s *screen, r client.Result, args []string) {
	w := r.Window
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = quote(arg)
	}
	took := span(time.Duration(w.GetDurationNs()))
	s.printf("\n")
	s.para("", bold, "Energy of "+clean(strings.Join(words, " ")))
	if r.Cause != nil {
		f := a.classify(cmd, r.Cause)
		s.printf("  not measured: %s\n", clean(f.Error()))
		if f.hint != "" {
			s.printf("%s %s\n", s.style(bold, "hint:"), f.hint)
		}
		return
	}
	rows := [][]cell{{heading("energy"), text(energyWords(r))}}
	if _, _, ok := r.Joules(); ok {
		if mean := unit.Energy(w.GetEnergyUj()).Per(time.Duration(w.GetDurationNs())); mean > 0 {
			rows = append(rows, []cell{heading("power"), text(watts(mean) + " on average over " + took)})
		}
	} else {
		rows = append(rows, []cell{heading("time"), text(took)})
	}
	if w.GetWork() > 0 {
		cost := "not known"
		if j, half, ok := r.JoulesPerUnit(); ok {
			cost = quantity(j, half, "J")
		}
		rows = append(rows, []cell{heading("per " + singular(w.GetUnit())),
			text(cost + "   (" + strconv.FormatFloat(w.GetWork(), 'f', -1, 64) + " " + orWord(w.GetUnit(), "units") + ")")})
	}
	if w.PlatformUj != nil {
		rows = append(rows, []cell{heading("platform"),
			text(joules(w.GetPlatformUj(), 0) + " by psys (mainboard and CPU; no discrete GPU), not in the sum")})
	}
	s.table(nil, rows)
	meterDevices(s, w.GetDevices())
	for _, n := range notes(w) {
		s.para("  note: ", plain, n)
	}
}

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

func meterDevices(s *screen, devices []*qunerv1.DeviceEnergy) {
	if len(devices) == 0 {
		return
	}
	rows := make([][]cell, 0, len(devices))
	for _, d := range devices {
		energy, gross := figure(joules(d.GetEnergyUj(), d.GetHalfWidthUj())), figure(joules(d.GetGrossUj(), 0))
		how := ""
		switch d.GetMethod() {
		case qunerv1.Method_METHOD_SAMPLED:
		case qunerv1.Method_METHOD_ESTIMATED:
			how = "estimated"
		default:
			energy, gross = cell{text: "unknown", right: true, look: yellow}, figure("")
		}
		floor := ""
		switch d.GetFloor() {
		case "none", "":
		case "caller":
			floor = joules(d.GetFloorUj(), 0) + " (yours)"
		default:
			floor = joules(d.GetFloorUj(), 0) + " (" + d.GetFloor() + ")"
		}
		rows = append(rows, []cell{
			text(short(d.GetDevice())), text(d.GetLabel()), energy, gross, figure(floor),
			text(d.GetBackend()), text(how),
		})
	}
	s.printf("\n")
	s.table([]string{"DEVICE", "", "ENERGY", "GROSS", "FLOOR", "SOURCE", ""}, rows)
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
