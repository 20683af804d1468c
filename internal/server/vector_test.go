package server

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/host/hostsim"
)

// vector is a machine whose counters do something, a window on it, and what the window must say.
type vector struct {
	name, input string
	machine     machine
	sim         string // a simulated host instead of a machine
	open        client.OpenOptions
	close       client.CloseOptions
	beside      *client.OpenOptions // a second window over the same time
	stranger    bool                // the caller may not know exact CPU energy
	meanwhile   func(testing.TB, grpc.ClientConnInterface)
	lasts       time.Duration
	want        want
	live        bool // also in real time, on a real socket

	// later is why the meter does not get there yet. What then differs is printed, and fails nothing.
	later string
}

// want is what a result must be. What is left at its zero value is not looked at, but joules: a device that is not there
// is not in the result either.
type want struct {
	method   string    // of the whole
	joules   []float64 // gross, a device each in the order of the result; not known: nothing was measured
	within   float64   // J, beside what is exact to a step of the counter
	sum      float64
	platform float64
	covers   float64       // coverage, to a step of the counter
	gap      time.Duration // the longest, likewise
	reasons  string        // all of these, and no other than those of the floor
	atMost   float64       // the upper bound is there, and no more than this
	holds    []float64     // all within the interval, or at most the upper bound where nothing is known
	perUnit  float64
	err      codes.Code
}

// none is the energy of a device that nothing was measured of, and some that of one that is not looked at.
const (
	none = -1
	some = -2
)

// lead is how long before the window the daemon starts: its heartbeats are then half a second apart from the window's edges.
const (
	lead     = 3500 * time.Millisecond
	liveLead = 1500 * time.Millisecond
)

// TestVectors runs each vector through the whole daemon in faked time: host, meter, loop and server, and the API on a
// connection in memory. Those that take a few seconds run on real sockets too, through the client package.
func TestVectors(t *testing.T) {
	all := slices.Concat(counterVectors(), zoneVectors(), sensorVectors(), reasonVectors())
	table := &table{rows: map[string]string{}}
	var live sync.WaitGroup
	for _, v := range all {
		if v.live {
			live.Go(func() { t.Run("socket/"+v.name, func(t *testing.T) { onSocket(t, &v) }) })
		}
	}
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) { inBubble(t, &v, table) })
	}
	live.Wait()
	table.print(t, all)
}

// inBubble runs a vector in faked time.
func inBubble(t *testing.T, v *vector, results *table) {
	dir := shortDir(t)
	synctest.Test(t, func(t *testing.T) {
		zero := time.Now().Add(lead)
		call, conn, stop := inMemory(t, v.host(t, dir, zero), v.stranger)
		r := play(t, v, call, conn, zero)
		results.add(v, r)
		v.machine.free()
		stop()
		if r != nil {
			v.check(t, r, 1)
		}
	})
}

// onSocket runs one in real time.
func onSocket(t *testing.T, v *vector) {
	zero := time.Now().Add(liveLead)
	h := v.host(t, shortDir(t), zero)
	call, conn, stop := onSockets(t, h, h.Run.Path(), v.stranger)
	r := play(t, v, call, conn, zero)
	v.machine.free()
	stop()
	if r != nil {
		v.check(t, r, float64(r.GetDurationNs())/float64(v.lasts))
	}
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "qv-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (v *vector) host(t testing.TB, dir string, zero time.Time) *host.Host {
	t.Helper()
	if v.sim == "" {
		v.machine.zero = zero
		return v.machine.host(t, dir)
	}
	f, err := hostsim.Load(v.sim)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := hostsim.New(dir, f, hostsim.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return sim.Host()
}

// check compares a result with what it must be. stretch is how much longer than meant the window was open.
func (v *vector) check(t testing.TB, r *qunerv1.WindowResult, stretch float64) {
	t.Helper()
	if v.later != "" {
		t = lenient{t}
	}
	w := v.want
	if got := methodWord(r.GetMethod()); w.method != "" && got != w.method {
		t.Errorf("method %s, want %s", got, w.method)
	}
	loose := func(joules float64) float64 { return w.within + joules*0.02*math.Min(1, math.Abs(stretch-1)*1e6) }
	if len(r.GetDevices()) != len(w.joules) {
		t.Errorf("%d devices, want %d", len(r.GetDevices()), len(w.joules))
	}
	for i, d := range r.GetDevices() {
		if i < len(w.joules) {
			near(t, d.GetDevice(), d.GrossUj, w.joules[i], stretch, loose)
		}
	}
	if w.sum != 0 {
		near(t, "sum", r.GrossUj, w.sum, stretch, loose)
	}
	if w.platform != 0 {
		near(t, "platform", r.PlatformUj, w.platform, stretch, loose)
	}
	step := 10 * time.Millisecond
	if len(v.machine.cards) > 0 {
		step = 110 * time.Millisecond // what is lost of a board's counter is lost from its step on
	}
	if w.covers != 0 && math.Abs(r.GetCoverage()-math.Max(0, w.covers)) > 0.005+step.Seconds()/v.lasts.Seconds() {
		t.Errorf("coverage %.3f, want %.3f", r.GetCoverage(), math.Max(0, w.covers))
	}
	if got := time.Duration(r.GetMaxGapNs()); w.covers != 0 && (got-w.gap).Abs() > step+time.Duration(math.Abs(stretch-1)*float64(v.lasts)) {
		t.Errorf("longest gap %v, want %v", got, w.gap)
	}
	w.checkReasons(t, r)
	w.checkBounds(t, r, stretch)
}

// near compares an energy with what it must be.
func near(t testing.TB, what string, uj *int64, want, stretch float64, loose func(float64) float64) {
	t.Helper()
	switch {
	case want == none && uj != nil:
		t.Errorf("%s: %.6g J, want nothing measured", what, float64(*uj)/1e6)
	case want == none, want == some:
	case uj == nil:
		t.Errorf("%s: nothing measured, want %.6g J", what, want)
	case math.Abs(float64(*uj)/1e6-want*stretch) > loose(want):
		t.Errorf("%s: %.6f J, want %.6f ± %.2g", what, float64(*uj)/1e6, want*stretch, loose(want))
	}
}

func (w want) checkReasons(t testing.TB, r *qunerv1.WindowResult) {
	t.Helper()
	var got []string
	for _, list := range append([][]string{r.GetReasons()}, reasonsOf(r.GetDevices())...) {
		for _, reason := range list {
			if !slices.Contains(got, reason) && (!strings.HasPrefix(reason, "floor_") || strings.Contains(w.reasons, reason)) {
				got = append(got, reason)
			}
		}
	}
	wanted := strings.Fields(w.reasons)
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("reasons %v, want %v", got, wanted)
	}
}

func reasonsOf(devices []*qunerv1.DeviceEnergy) (all [][]string) {
	for _, d := range devices {
		all = append(all, d.GetReasons())
	}
	return all
}

// checkBounds looks at the interval and the upper bound.
func (w want) checkBounds(t testing.TB, r *qunerv1.WindowResult, stretch float64) {
	t.Helper()
	if r.GetMethod() != qunerv1.Method_METHOD_SAMPLED && len(r.GetDevices()) > 0 && r.UpperBoundUj == nil {
		t.Error("no figure, and no upper bound")
	}
	if w.atMost != 0 && (r.UpperBoundUj == nil || float64(r.GetUpperBoundUj())/1e6 > w.atMost*math.Max(1, stretch)*1.02) {
		t.Errorf("upper bound %g J, want at most %g J", float64(r.GetUpperBoundUj())/1e6, w.atMost)
	}
	for _, joules := range w.holds {
		e, half := float64(r.GetEnergyUj())/1e6, float64(r.GetHalfWidthUj())/1e6
		bound := math.Inf(1)
		if r.UpperBoundUj != nil {
			bound = float64(r.GetUpperBoundUj()) / 1e6
		}
		switch {
		case r.GetMethod() == qunerv1.Method_METHOD_SAMPLED && math.Abs(joules*stretch-e) > half+0.02*joules*math.Abs(stretch-1)*50:
			t.Errorf("%.4f ± %.4f J does not hold %.4f J", e, half, joules*stretch)
		case r.GetMethod() != qunerv1.Method_METHOD_SAMPLED && joules*stretch > bound:
			t.Errorf("at most %.4f J does not hold %.4f J", bound, joules*stretch)
		}
	}
	if w.perUnit != 0 && math.Abs(r.GetJoulesPerUnit()-w.perUnit) > 0.02*w.perUnit {
		t.Errorf("%g J a unit, want %g", r.GetJoulesPerUnit(), w.perUnit)
	}
}

// lenient tells what differs, and fails nothing.
type lenient struct{ testing.TB }

func (l lenient) Errorf(format string, args ...any) { l.Helper(); l.Logf("LATER: "+format, args...) }
func (l lenient) Error(args ...any)                 { l.Helper(); l.Log(append([]any{"LATER:"}, args...)...) }

func methodWord(m qunerv1.Method) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "METHOD_"))
}

// table collects what the vectors came to.
type table struct {
	mu   sync.Mutex
	rows map[string]string
}

func (tb *table) add(v *vector, r *qunerv1.WindowResult) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if r == nil {
		tb.rows[v.name] = v.want.err.String()
		return
	}
	tb.rows[v.name] = resultWords(r)
}

// print logs the table of case and result.
func (tb *table) print(t *testing.T, all []vector) {
	t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var out strings.Builder
	for i := range all {
		v := &all[i]
		mark := " "
		if v.live {
			mark = "*"
		}
		if v.later != "" {
			mark = "L"
		}
		row := tb.rows[v.name]
		if v.later != "" {
			row += " (later: " + v.later + ")"
		}
		fmt.Fprintf(&out, "%s %-42s | %-86s | %s\n", mark, v.name, v.input, row)
	}
	t.Logf("vectors through the whole daemon (*: over a real socket in real time, too; L: later)\n%s", out.String())
}

// resultWords is a result on one line.
func resultWords(r *qunerv1.WindowResult) string {
	var b strings.Builder
	b.WriteString(methodWord(r.GetMethod()))
	if r.EnergyUj != nil {
		fmt.Fprintf(&b, " %.4f ± %.4f J", float64(r.GetEnergyUj())/1e6, float64(r.GetHalfWidthUj())/1e6)
	}
	if r.UpperBoundUj != nil {
		fmt.Fprintf(&b, " ≤ %.4g J", float64(r.GetUpperBoundUj())/1e6)
	}
	if r.GetCoverage() < 1 {
		fmt.Fprintf(&b, ", %.0f %% covered, gap %v", 100*r.GetCoverage(), time.Duration(r.GetMaxGapNs()).Round(time.Millisecond))
	}
	for i, d := range r.GetDevices() {
		if len(r.GetDevices()) == 1 && r.GrossUj != nil && r.GetGrossUj() == r.GetEnergyUj() {
			break
		}
		sep := ", "
		if i == 0 {
			sep = "; "
		}
		name := d.GetDevice()[strings.LastIndex(d.GetDevice(), "/")+1:]
		if d.GrossUj == nil {
			fmt.Fprintf(&b, "%s%s ?", sep, name)
			continue
		}
		fmt.Fprintf(&b, "%s%s %.2f", sep, name, float64(d.GetGrossUj())/1e6)
	}
	if r.PlatformUj != nil {
		fmt.Fprintf(&b, "; platform %.2f", float64(r.GetPlatformUj())/1e6)
	}
	if len(r.GetReasons()) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(r.GetReasons(), " "))
	}
	return b.String()
}
