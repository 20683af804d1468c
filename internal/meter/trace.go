package meter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// Trace is a recording of energy counters and power sensors. As text it is a line for each sensor and each reading:
//
//	quner-trace 1
//	# a remark
//	sensor 0 energy cpu/package-0 backend=rapl span=262143328911 limit=1000000000 unit=61 period=1000000
//	sensor 1 power gpu/0 backend=nvml_counter
//	0 0 84114271093
//	1048211 0 84114286352
//	2096412 0 !EIO
//	3100000 1 72113000
//	4000000 slept 3600000000000
//
// The first figure of a reading is the time since the recording began, in ns of a clock that stands while the machine
// sleeps; the second is the sensor; then comes what it said, or ! and why it could not be read. An energy is in µJ, a power
// in µW, a period in ns, a cost (the time that a reading of the sensor of the same name took) in ns. A line "slept" tells how long the
// machine has slept since the recording began, in ns. Where a counter is polled fast, only the readings before and after
// each of its steps are there. A trace names no board by its UUID.
type Trace struct {
	Sensors  []TraceSensor
	Readings []TraceReading // those of one sensor in the order of their times
}

// TraceKind is what a sensor of a trace tells.
type TraceKind string

// The kinds of sensors.
const (
	TraceEnergy TraceKind = "energy" // µJ
	TracePower  TraceKind = "power"  // µW
	TraceCost   TraceKind = "cost"   // ns
)

// TraceSensor is one source of readings.
type TraceSensor struct {
	Name    string // "cpu/package-0", "gpu/0"
	Kind    TraceKind
	Backend Backend
	Span    unit.Energy   // where the counter wraps; 0: never
	Limit   unit.Power    // more than the device can draw
	Unit    unit.Energy   // the counter's resolution
	Period  time.Duration // between the counter's steps, at most
}

// TraceReading is one line of a trace.
type TraceReading struct {
	At     time.Duration // since the beginning
	Sensor int           // of Trace.Sensors; -1: the line tells how long the machine has slept
	Value  int64         // in the sensor's unit, or ns slept
	Err    string        // why there is no value: "EIO", "HUNG"; empty: there is one
}

const (
	traceHeader  = "quner-trace 1"
	maxTraceLine = 1 << 10
	maxSensors   = 256
	slept        = -1
)

var errTrace = errors.New("not a trace")

// ParseTrace reads a trace. An error names the line.
func ParseTrace(r io.Reader) (Trace, error) {
	var t Trace
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, maxTraceLine), maxTraceLine)
	newest := map[int]time.Duration{}
	n := 0
	for lines.Scan() {
		n++
		line := lines.Text()
		var err error
		switch {
		case n == 1 && line != traceHeader:
			err = fmt.Errorf("%q, not %q: %w", line, traceHeader, errTrace)
		case n == 1 || line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "sensor "):
			err = t.addSensor(strings.Fields(line)[1:])
		default:
			err = t.addReading(strings.Fields(line), newest)
		}
		if err != nil {
			return Trace{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Trace{}, fmt.Errorf("line %d: %w", n+1, err)
	}
	if n == 0 {
		return Trace{}, fmt.Errorf("nothing: %w", errTrace)
	}
	return t, nil
}

// addSensor takes the words of "sensor NUMBER KIND NAME KEY=VALUE…".
func (t *Trace) addSensor(words []string) error {
	if len(words) < 3 || words[0] != strconv.Itoa(len(t.Sensors)) || len(t.Sensors) == maxSensors {
		return fmt.Errorf("sensor %q: the next one is number %d of at most %d: %w", words, len(t.Sensors), maxSensors, errTrace)
	}
	s := TraceSensor{Kind: TraceKind(words[1]), Name: words[2]}
	if s.Kind != TraceEnergy && s.Kind != TracePower && s.Kind != TraceCost {
		return fmt.Errorf("sensor of kind %q: %w", s.Kind, errTrace)
	}
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		if key == "backend" && isLabel(value) {
			s.Backend = Backend(value)
			continue
		}
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("%q: %w", word, errTrace)
		}
		switch key {
		case "span":
			s.Span = unit.Energy(v)
		case "limit":
			s.Limit = unit.Power(v)
		case "unit":
			s.Unit = unit.Energy(v)
		case "period":
			s.Period = time.Duration(v)
		default:
			return fmt.Errorf("key %q: %w", key, errTrace)
		}
	}
	t.Sensors = append(t.Sensors, s)
	return nil
}

// addReading takes the words of "TIME SENSOR VALUE" or "TIME SENSOR !WHY" or "TIME slept DURATION".
func (t *Trace) addReading(words []string, newest map[int]time.Duration) error {
	if len(words) != 3 {
		return fmt.Errorf("%d words, not 3: %w", len(words), errTrace)
	}
	at, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || at < 0 {
		return fmt.Errorf("time %q: %w", words[0], errTrace)
	}
	r := TraceReading{At: time.Duration(at), Sensor: slept}
	if words[1] != "slept" {
		if r.Sensor, err = strconv.Atoi(words[1]); err != nil || r.Sensor < 0 || r.Sensor >= len(t.Sensors) {
			return fmt.Errorf("sensor %q: %w", words[1], errTrace)
		}
	}
	if why, bad := strings.CutPrefix(words[2], "!"); bad {
		if !isLabel(why) || r.Sensor == slept {
			return fmt.Errorf("reason %q: %w", why, errTrace)
		}
		r.Err = why
	} else if r.Value, err = strconv.ParseInt(words[2], 10, 64); err != nil || r.Value < 0 {
		return fmt.Errorf("value %q: %w", words[2], errTrace)
	}
	if r.At < newest[r.Sensor] {
		return fmt.Errorf("time %q is before that of the sensor's reading before: %w", words[0], errTrace)
	}
	newest[r.Sensor] = r.At
	t.Readings = append(t.Readings, r)
	return nil
}

// writeSensor appends a sensor's line.
func writeSensor(w *bufio.Writer, number int, s TraceSensor) {
	fmt.Fprintf(w, "sensor %d %s %s", number, s.Kind, s.Name)
	if s.Backend != "" {
		fmt.Fprintf(w, " backend=%s", s.Backend)
	}
	for _, f := range []struct {
		key   string
		value int64
	}{{"span", int64(s.Span)}, {"limit", int64(s.Limit)}, {"unit", int64(s.Unit)}, {"period", s.Period.Nanoseconds()}} {
		if f.value != 0 {
			fmt.Fprintf(w, " %s=%d", f.key, f.value)
		}
	}
	_ = w.WriteByte('\n') // the writer keeps its error until it is flushed
}

// writeReading appends a reading's line.
func writeReading(w *bufio.Writer, r TraceReading) {
	sensor, value := strconv.Itoa(r.Sensor), strconv.FormatInt(r.Value, 10)
	if r.Sensor == slept {
		sensor = "slept"
	}
	if r.Err != "" {
		value = "!" + r.Err
	}
	fmt.Fprintf(w, "%d %s %s\n", r.At.Nanoseconds(), sensor, value)
}

// WriteTo writes the trace as text.
func (t Trace) WriteTo(w io.Writer) (int64, error) {
	count := &counted{w: w}
	b := bufio.NewWriter(count)
	fmt.Fprintln(b, traceHeader)
	for i, s := range t.Sensors {
		writeSensor(b, i, s)
	}
	for _, r := range t.Readings {
		writeReading(b, r)
	}
	err := b.Flush()
	return count.n, err
}

type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
