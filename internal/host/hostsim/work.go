package hostsim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrGone means that nobody runs the simulated host any more.
var ErrGone = errors.New("the simulator does not answer")

const (
	staleAfter = 2 * time.Second       // a rate older than that is nobody's
	lookAgain  = 20 * time.Millisecond // how often a worker looks whether its rate has changed
	announce   = 30 * time.Millisecond // how long before its end a load says when that will be
	askAgain   = time.Millisecond      // how often a worker looks while it waits for an answer
)

// SimulateWork does units of work on a device of the simulation in dir, run by another process: it puts a full load on
// the device, works at the rate it is granted, and ends exactly when the work is done. progress, which may be nil, is told
// the units done so far. The error wraps ErrNoSimulation or ErrGone, or is the context's cause.
func SimulateWork(ctx context.Context, dir, device string, units float64, progress func(done float64)) error {
	if math.IsNaN(units) || units < 0 || math.IsInf(units, 0) {
		return fmt.Errorf("units of work: value %v (allowed: 0 or more)", units)
	}
	if _, err := os.Stat(filepath.Join(dir, fixtureCopy)); err != nil {
		return fmt.Errorf("%s: %w", dir, ErrNoSimulation)
	}
	rates, err := readRates(dir)
	if err != nil {
		return err
	}
	if _, ok := rates.devices[device]; !ok {
		return fmt.Errorf("device %q: unknown to the simulated host in %s (allowed: %s)", device, dir, rates.names())
	}
	w := worker{dir: dir, units: units, tell: progress, record: loadRecord{pid: os.Getpid(), device: device, share: 1}}
	if w.tell == nil {
		w.tell = func(float64) {}
	}
	if err := w.register(); err != nil {
		return err
	}
	return errors.Join(w.work(ctx), w.leave())
}

// worker is a load of this process on a simulation that another one runs.
type worker struct {
	dir    string
	name   string // of its load file
	record loadRecord
	units  float64
	tell   func(float64)
}

// register puts the load file in place under a name of its own, for ever: the process may have several loads, and what was
// said of one that has ended must not be taken for the next one's.
func (w *worker) register() error {
	pid := strconv.Itoa(w.record.pid)
	w.record.from = int64(monotonic())
	for range 1000 {
		w.name = pid + "." + strconv.FormatInt(w.record.from, 10)
		// A link fails where the name is taken, and appears with its content.
		tmp := w.file(".new-" + w.name)
		if err := os.WriteFile(tmp, []byte(w.record.text()), 0o644); err != nil {
			return err
		}
		err := os.Link(tmp, w.file(w.name))
		_ = os.Remove(tmp)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		w.record.from++ // another of this process began in the same nanosecond
	}
	return fmt.Errorf("%s: too many loads of process %s at once", filepath.Join(w.dir, loadDir), pid)
}

func (w *worker) file(name string) string { return filepath.Join(w.dir, loadDir, name) }

// end tells the simulator when the load ends: now, or a moment ahead.
func (w *worker) end(at time.Duration) error {
	w.record.to = int64(at)
	tmp := w.file(".new-" + w.name)
	if err := os.WriteFile(tmp, []byte(w.record.text()), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, w.file(w.name))
}

func (w *worker) leave() error {
	if err := os.Remove(w.file(w.name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// work paces itself from the load's own beginning on, so that the time until the simulator noticed it counts as well.
func (w *worker) work(ctx context.Context) error {
	rate, err := w.answer(ctx, func(g grant) bool { return g.rate > 0 })
	if err != nil {
		return w.breakOff(err)
	}
	done, last := 0.0, time.Duration(w.record.from)
	for {
		now := monotonic()
		done += rate * (now - last).Seconds()
		last = now
		w.tell(min(done, w.units))
		left := time.Duration((w.units - done) / rate * 1e9)
		if left <= announce {
			return w.finish(ctx, now+left)
		}
		select {
		case <-ctx.Done():
			return w.breakOff(context.Cause(ctx))
		case <-time.After(min(lookAgain, left-announce/2)):
		}
		rates, err := readRates(w.dir)
		if err != nil {
			return w.breakOff(err)
		}
		if g, ok := rates.loads[w.name]; ok && g.rate > 0 {
			rate = g.rate
		}
	}
}

// finish announces the end, so that the simulator stops the load in time whenever it looks, and waits for it.
func (w *worker) finish(ctx context.Context, at time.Duration) error {
	if err := w.end(at); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return w.breakOff(context.Cause(ctx))
	case <-time.After(at - monotonic()):
	}
	w.tell(w.units)
	_, err := w.answer(ctx, func(g grant) bool { return g.ending })
	return err
}

// breakOff ends the load now, for a cause.
func (w *worker) breakOff(cause error) error { return errors.Join(cause, w.end(monotonic())) }

// answer waits until the simulator has said of this load what is asked for.
func (w *worker) answer(ctx context.Context, is func(grant) bool) (rate float64, err error) {
	for asked := monotonic(); ; {
		rates, err := readRates(w.dir)
		if err != nil {
			return 0, err
		}
		if g, ok := rates.loads[w.name]; ok && is(g) {
			return g.rate, nil
		}
		if monotonic()-asked > staleAfter {
			return 0, fmt.Errorf("%s: load %s: %w", w.dir, w.name, ErrGone)
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(askAgain):
		}
	}
}

// rates is what sim/rate says.
type rates struct {
	at      time.Duration // CLOCK_MONOTONIC
	devices map[string]float64
	loads   map[string]grant
	order   []string
}

// grant is what a load gets.
type grant struct {
	rate   float64
	ending bool // the simulator knows when the load ends
}

func (r rates) names() string { return strings.Join(r.order, ", ") }

// readRates reads sim/rate and refuses one that nobody keeps up to date.
func readRates(dir string) (rates, error) {
	file := filepath.Join(dir, rateFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return rates{}, fmt.Errorf("%s: %w", dir, ErrGone)
	}
	if err != nil {
		return rates{}, err
	}
	r, err := parseRates(string(data))
	if err != nil {
		return rates{}, fmt.Errorf("%s: %w", file, err)
	}
	if age := monotonic() - r.at; age > staleAfter || age < 0 {
		return rates{}, fmt.Errorf("%s: rates are %v old: %w", dir, age.Round(time.Second), ErrGone)
	}
	return r, nil
}

func parseRates(text string) (rates, error) {
	r := rates{devices: map[string]float64{}, loads: map[string]grant{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		var err error
		switch {
		case len(f) == 2 && f[0] == "at":
			var ns int64
			ns, err = strconv.ParseInt(f[1], 10, 64)
			r.at = time.Duration(ns)
		case len(f) == 3 && f[0] == "device":
			r.devices[f[1]], err = parseRate(f[2])
			r.order = append(r.order, f[1])
		case len(f) == 5 && f[0] == "load" && (f[3] == "on" || f[3] == "ending"):
			var rate float64
			rate, err = parseRate(f[4])
			r.loads[f[1]] = grant{rate, f[3] == "ending"}
		default:
			err = errors.New("unknown line")
		}
		if err != nil {
			return rates{}, fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
		}
	}
	return r, nil
}

func parseRate(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(v) || v < 0 || math.IsInf(v, 0)) {
		err = errors.New("not a rate")
	}
	return v, err
}
