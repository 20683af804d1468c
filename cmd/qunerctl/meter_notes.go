package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// notes are what is to be known about a window, a sentence each: of the whole, or of the devices that they are about.
func notes(w *qunerv1.WindowResult) []string {
	all := slices.Clone(w.GetReasons())
	for _, d := range w.GetDevices() {
		all = append(all, d.GetReasons()...)
	}
	var said []string
	for i, reason := range all {
		if slices.Contains(all[:i], reason) || reason == "floor_none" && w.GetMethod() == qunerv1.Method_METHOD_UNKNOWN {
			continue // said before; or of a figure that is not there
		}
		said = append(said, note(reason, w.GetDevices()))
	}
	for _, d := range w.GetDevices() {
		if d.GetFloor() == "caller" && d.EnergyUj != nil && d.GetGrossUj() > 0 && d.GetEnergyUj() <= 0 {
			said = append(said, fmt.Sprintf("the idle floor given is as much as %s drew in all, %s of %s: it was hardly at work, or --idle-watts is too high",
				short(d.GetDevice()), joules(d.GetFloorUj(), 0), joules(d.GetGrossUj(), 0)))
		}
	}
	for _, d := range w.GetDevices() {
		if f := d.GetFloor(); f != "" && f != "none" && f != "caller" {
			said = append(said, fmt.Sprintf("the idle floor of %s was measured on this machine: %s", short(d.GetDevice()), strings.ReplaceAll(f, "+", ", ")))
		}
	}
	// A floor that is not well known hides what is not far above it, however long one looks.
	for _, d := range w.GetDevices() {
		if t := d.GetTerms(); d.GetMethod() == qunerv1.Method_METHOD_UNKNOWN && d.GetEnergyUj() > 0 && t.GetFloorUj() > t.GetEdgesUj() {
			said = append(said, fmt.Sprintf("what %s drew above idle is less than the ± of its idle floor, %s: a longer run will not help, a closer floor will",
				short(d.GetDevice()), joules(t.GetFloorUj(), 0)))
		}
	}
	return said
}

// note is one reason, with the devices that have it where not all have.
func note(reason string, devices []*qunerv1.DeviceEnergy) string {
	var of []string
	for _, d := range devices {
		if slices.Contains(d.GetReasons(), reason) {
			of = append(of, short(d.GetDevice()))
		}
	}
	if len(of) == 0 || len(of) == len(devices) {
		return reasonWords(reason)
	}
	list := strings.Join(of, ", ")
	switch reason {
	case "floor_none":
		return "no idle floor for " + list + ": there the figures hold what the machine burns at rest too"
	case "floor_caller":
		return "the idle floor of " + list + " is yours (--idle-watts)"
	default:
		return list + ": " + reasonWords(reason)
	}
}

// metered are the devices that a window can charge.
func metered(s *qunerv1.Status) []string {
	names := make([]string, len(s.GetDevices()))
	for i, d := range s.GetDevices() {
		names[i] = d.GetDevice()
	}
	return names
}

// resolveDevices completes the beginnings of device names in the flags. A daemon that cannot be asked has no names: the
// command runs all the same.
func (a *app) resolveDevices(ctx context.Context, f *meterFlags) error {
	wanted := slices.Clone(f.open.Devices)
	for name := range f.open.IdleWatts {
		wanted = append(wanted, name)
	}
	if !slices.ContainsFunc(wanted, func(name string) bool { return name != "cpu" && name != "gpu" }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, meterTimeout)
	defer cancel()
	s, err := a.status(ctx)
	if err != nil {
		return nil //nolint:nilerr // no daemon costs the figure, never the command
	}
	there := metered(s)
	for i, name := range f.open.Devices {
		if f.open.Devices[i], err = device(there, name); err != nil {
			return fmt.Errorf("--devices: %w", err)
		}
	}
	for _, floors := range []map[string]float64{f.open.IdleWatts, f.open.IdleWattsPlus} {
		if err := wholeNames(there, floors); err != nil {
			return fmt.Errorf("--idle-watts: %w", err)
		}
	}
	return nil
}

// wholeNames completes the keys of floors.
func wholeNames(there []string, floors map[string]float64) error {
	for _, name := range keys(floors) {
		whole, err := device(there, name)
		if err != nil {
			return err
		}
		if _, twice := floors[whole]; twice && whole != name {
			return fmt.Errorf("%s is given twice", quote(whole))
		}
		watts := floors[name]
		delete(floors, name)
		floors[whole] = watts
	}
	return nil
}

func keys(m map[string]float64) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// device finds the one device whose name begins so, with or without its kind before it.
func device(there []string, typed string) (string, error) {
	if typed == "cpu" || typed == "gpu" || slices.Contains(there, typed) {
		return typed, nil
	}
	var found []string
	for _, name := range there {
		_, bare, _ := strings.Cut(name, "/")
		if typed != "" && (strings.HasPrefix(name, typed) || strings.HasPrefix(bare, typed)) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		list := "none"
		if len(there) > 0 {
			list = "cpu, gpu (all of a kind), " + strings.Join(there, ", ")
		}
		return "", fmt.Errorf("device %s: this host has %s", quote(typed), list)
	default:
		return "", fmt.Errorf("device %s: %d begin so: %s", quote(typed), len(found), strings.Join(found, ", "))
	}
}

// check refuses what makes no sense before the command starts.
func (f *meterFlags) check(flags *pflag.FlagSet) (err error) {
	counted := flags.Changed("work")
	if flags.Changed("output") && (f.output == "" || f.output == "-") {
		return wrongValue("qunerctl meter -o joules.txt", "-o", f.output, "the name of a file")
	}
	if f.open.IdleWatts, f.open.IdleWattsPlus, err = parseIdleWatts(f.idle); err != nil {
		return err
	}
	if f.span != "" {
		if f.lasts, err = parseDuration(f.span); err != nil || f.lasts < shortest || f.lasts > longest {
			return wrongValue("qunerctl meter --for "+likeSpan(f.span), "--for", f.span, forForms)
		}
	}
	switch {
	case counted && !(f.close.Work > 0) || !finite(f.close.Work):
		return fmt.Errorf("--work %g: allowed is a number above 0", f.close.Work)
	case f.open.Unit != "" && f.close.Work == 0:
		return errors.New("--unit says what --work counts: --work is missing")
	}
	return nil
}

// likeSpan is the duration that was meant, if --for takes it.
func likeSpan(typed string) string {
	meant := typed
	d, err := parseDuration(meant)
	if err != nil {
		meant = likeDuration(typed)
		d, err = parseDuration(meant)
	}
	switch {
	case err != nil:
		return "60s"
	case d < shortest:
		return "1s"
	case d > longest:
		return "24h"
	}
	return meant
}

// advice is what to type to get a figure, where what was metered was too short for one; else nothing.
func advice(w *qunerv1.WindowResult, of metering) string {
	took := time.Duration(w.GetDurationNs())
	said := slices.Clone(w.GetReasons())
	for _, d := range w.GetDevices() {
		said = append(said, d.GetReasons()...)
	}
	if !slices.Contains(said, "short_window") || w.GetMethod() == qunerv1.Method_METHOD_SAMPLED {
		return ""
	}
	enough := time.Second // ten steps of a board's counter
	if slices.Contains(said, "coarse") {
		enough = 5 * time.Second // the daemon's ticks are a second apart
	}
	if of.script {
		return "" // the script knows what can last longer
	}
	if len(of.args) == 0 {
		return "meter for longer: qunerctl meter --for " + shortDuration(max(10*time.Second, 2*of.asked))
	}
	n := atLeast(float64(enough) / float64(max(took, time.Millisecond)))
	loop := fmt.Sprintf("for i in $(seq %d); do %s; done", n, words(of.args))
	return fmt.Sprintf("do it %d times in one go: qunerctl meter --work %d --unit runs -- sh -c %s", n, n, quote(loop))
}

// atLeast rounds up to 2, 5, 10, 20, 50 and so on.
func atLeast(x float64) int {
	n := 2
	for _, f := range []int{5, 10, 20, 50, 100, 200, 500, 1000} {
		if float64(n) >= x {
			break
		}
		n = f
	}
	return n
}
