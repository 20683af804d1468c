package meter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// RecordOptions say what a recording is like.
type RecordOptions struct {
	For      time.Duration
	Remark   string             // a line for people, or empty
	Progress func(done float64) // 0…1; may be nil
}

// ErrNothingToRecord is that the host has no energy counter.
var ErrNothingToRecord = errors.New("this machine shows no energy counter")

const (
	zoneBurst  = 20 * time.Millisecond  // at the beginning zones are polled so fast that their steps show
	recordZone = 100 * time.Millisecond // and then every so often
	// keepEvery is how often a sensor that says the same is in the trace all the same.
	keepEvery   = 100 * time.Millisecond
	recordPower = 20 * time.Millisecond
)

// Record reads the host's counters and its boards' power for a while and writes a Trace. It changes nothing, and reads a
// board that sleeps no more than windows do. It ends early, without an error, with the context.
func (m *Meter) Record(ctx context.Context, to io.Writer, o RecordOptions) error {
	r := &recorder{w: bufio.NewWriter(to), began: time.Now(), asleep: m.host.Asleep()}
	fmt.Fprintln(r.w, traceHeader)
	if o.Remark != "" {
		fmt.Fprintf(r.w, "# %s\n", strings.Map(func(c rune) rune {
			if c < ' ' {
				return ' '
			}
			return c
		}, o.Remark))
	}
	for _, d := range m.all() {
		if err := d.gate.pass(ctx); err != nil {
			return err
		}
		r.addSensor(d)
		d.gate.leave()
	}
	if len(r.tracks) == 0 {
		return ErrNothingToRecord
	}
	for {
		since := time.Since(r.began)
		if since >= o.For || ctx.Err() != nil {
			break
		}
		r.round(ctx, since)
		if slept := m.host.Asleep() - r.asleep; slept-r.slept > sleepTolerance {
			r.slept = slept
			writeReading(r.w, TraceReading{At: time.Since(r.began), Sensor: -1, Value: slept.Nanoseconds()})
		}
		if o.Progress != nil {
			o.Progress(min(1, float64(since)/float64(o.For)))
		}
		rest(ctx, min(r.pause(), o.For-time.Since(r.began)))
	}
	for _, t := range r.tracks {
		t.finish(r.w)
	}
	return r.w.Flush()
}

// recorder writes down what its tracks say.
type recorder struct {
	w      *bufio.Writer
	began  time.Time
	asleep time.Duration // when it began
	slept  time.Duration // since, as last written
	tracks []*track

	sensors, boards int // named so far
}

// track is one sensor of a recording.
type track struct {
	device *device
	number int
	cost   int // the number of the sensor for what a reading costs; 0: none
	power  bool
	due    time.Duration

	newest  TraceReading // not written yet, if held
	held    bool
	started bool
	written time.Duration // the newest line's time
	costed  time.Duration
}

// addSensor names a device's sensors in the trace: a board by its place, since a UUID tells whose machine it is.
func (r *recorder) addSensor(d *device) {
	name := d.name
	if d.board != nil {
		name = "gpu/" + strconv.Itoa(r.boards)
		r.boards++
	}
	add := func(s TraceSensor) int {
		s.Name, s.Backend = name, d.backend
		writeSensor(r.w, r.sensors, s)
		r.sensors++
		return r.sensors - 1
	}
	if d.backend != PowerSampler { // which has no counter: its power alone is recorded
		t := &track{device: d}
		t.number = add(TraceSensor{Kind: TraceEnergy, Span: d.line.counter.span, Limit: d.limit, Unit: d.grain, Period: d.period})
		t.cost = add(TraceSensor{Kind: TraceCost})
		r.tracks = append(r.tracks, t)
	}
	if d.board != nil {
		r.tracks = append(r.tracks, &track{device: d, power: true, number: add(TraceSensor{Kind: TracePower, Limit: d.limit})})
	}
}

// round reads what is due.
func (r *recorder) round(ctx context.Context, since time.Duration) {
	for _, t := range r.tracks {
		if t.due > since {
			continue
		}
		began := time.Now()
		if t.power {
			r.readPower(ctx, t)
		} else {
			r.readEnergy(ctx, t)
		}
		took := time.Since(began)
		t.due = since + max(t.every(since), min(3*took, slowPoll))
		if at := began.Sub(r.began); t.cost > 0 && (t.costed == 0 || at-t.costed >= keepEvery) {
			t.costed = max(at, 1)
			writeReading(r.w, TraceReading{At: at, Sensor: t.cost, Value: took.Nanoseconds()})
		}
	}
}

// every is how often a sensor is read.
func (t *track) every(since time.Duration) time.Duration {
	switch {
	case t.power:
		return recordPower
	case t.device.board != nil:
		return boardPoll
	case since < zoneBurst:
		return zonePoll
	}
	return recordZone
}

// pause is the time until something is due.
func (r *recorder) pause() time.Duration {
	since := time.Since(r.began)
	next := recordZone
	for _, t := range r.tracks {
		next = min(next, t.due-since)
	}
	return max(0, next)
}

func (r *recorder) readEnergy(ctx context.Context, t *track) {
	if t.device.gate.pass(ctx) != nil {
		return
	}
	e, at, err := t.device.source.energy(ctx)
	t.device.gate.leave()
	if at.IsZero() {
		at = time.Now() // the board was never reached
	}
	if ctx.Err() == nil {
		t.add(r.w, TraceReading{At: max(0, at.Sub(r.began)), Sensor: t.number, Value: int64(e), Err: errName(err)})
	}
}

func (r *recorder) readPower(ctx context.Context, t *track) {
	now := time.Since(r.began)
	if t.device.board.sleeps() {
		t.add(r.w, TraceReading{At: now, Sensor: t.number, Err: errName(host.ErrSuspended)})
		return
	}
	samples, err := t.device.board.gpu.PowerSamples(ctx)
	if err != nil && ctx.Err() == nil {
		t.add(r.w, TraceReading{At: now, Sensor: t.number, Err: errName(err)})
	}
	for _, s := range samples {
		if at := s.At.Sub(r.began); at >= 0 && s.Power >= 0 {
			t.add(r.w, TraceReading{At: at, Sensor: t.number, Value: int64(s.Power)})
		}
	}
}

// add takes a reading. One that says what the one before said is written only if nothing has been for a while; so that a
// step's place is known, the last one before a change is written too.
func (t *track) add(w *bufio.Writer, r TraceReading) {
	if t.started && r.At < max(t.written, t.newest.At) {
		return // a sample from before: the driver's clock is not ours
	}
	same := t.started && r.Value == t.newest.Value && r.Err == t.newest.Err
	if t.held && !same {
		writeReading(w, t.newest)
	}
	t.held = same && r.At-t.written < keepEvery
	t.newest, t.started = r, true
	if !t.held {
		writeReading(w, r)
		t.written = r.At
	}
}

// finish writes what is held.
func (t *track) finish(w *bufio.Writer) {
	if t.held {
		writeReading(w, t.newest)
		t.held = false
	}
}

// errName names an error in a word: the errno, or else the host's reason.
func errName(err error) string {
	if err == nil {
		return ""
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	if name := string(host.ReasonOf(err)); isLabel(name) {
		return name
	}
	return "UNREADABLE"
}
