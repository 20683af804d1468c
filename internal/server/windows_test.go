package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/host/hostsim"
	"github.com/qunerd/quner/internal/meter"
)

func openDetached(t testing.TB, c qunerv1.MeterServiceClient, name string, devices ...string) string {
	t.Helper()
	r, err := c.Open(context.Background(), &qunerv1.OpenRequest{Window: &qunerv1.OpenWindow{Name: name, Devices: devices}})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetOpened().GetId()
}

func closeRequest(id string, work float64) *qunerv1.CloseRequest {
	return &qunerv1.CloseRequest{Close: &qunerv1.CloseWindow{Id: id, Work: work, Synced: true}}
}

func listed(t testing.TB, c qunerv1.MeterServiceClient) *qunerv1.ListResponse {
	t.Helper()
	r, err := c.List(context.Background(), &qunerv1.ListRequest{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDetachedWindow(t *testing.T) {
	st := start(t, nil)
	c := qunerv1.NewMeterServiceClient(dial(t, st.admin()))
	id := openDetached(t, c, "epoch")
	l := listed(t, c)
	if len(l.GetWindows()) != 1 || len(l.GetClosed()) != 0 || l.GetKeptNs() != int64(time.Hour) || l.GetKeptResults() != 1024 {
		t.Fatalf("%v", l)
	}
	w := l.GetWindows()[0]
	if left := time.Duration(w.GetLeftNs()); w.GetId() != id || w.GetName() != "epoch" ||
		w.GetLife() != qunerv1.WindowLife_WINDOW_LIFE_DETACHED || left > 24*time.Hour || left < 23*time.Hour || w.GetOpenedUnixNs() == 0 {
		t.Errorf("%v", w)
	}
	m, err := c.Mark(t.Context(), &qunerv1.MarkRequest{Mark: &qunerv1.MarkWindow{Id: id, Name: "load"}})
	if err != nil || m.GetStage().GetName() != "load" {
		t.Error(m, err)
	}
	r, err := c.Close(t.Context(), closeRequest(id, 2))
	if err != nil || r.GetResult().GetId() != id || r.GetResult().GetWork() != 2 || len(r.GetResult().GetStages()) != 2 {
		t.Error(r, err)
	}
	if _, err := c.Close(t.Context(), closeRequest(id, 2)); status.Code(err) != codes.NotFound {
		t.Errorf("closed twice: %v", err)
	}
	if l := listed(t, c); len(l.GetWindows()) != 0 || len(l.GetClosed()) != 1 || l.GetClosed()[0].GetResult().GetId() != id {
		t.Errorf("%v", l)
	}
	for name, o := range map[string]*qunerv1.OpenRequest{
		"nothing": {}, "too long": {Window: &qunerv1.OpenWindow{Name: "a"}, LimitNs: int64(25 * time.Hour)},
		"a past limit":  {Window: &qunerv1.OpenWindow{Name: "a"}, LimitNs: -1},
		"a short limit": {Window: &qunerv1.OpenWindow{Name: "a"}, LimitNs: int64(time.Millisecond)},
		"weight 0":      {Window: &qunerv1.OpenWindow{Name: "a", Weight: new(0.0)}},
		"weight below":  {Window: &qunerv1.OpenWindow{Name: "a", Weight: new(-1.0)}},
		"weight NaN":    {Window: &qunerv1.OpenWindow{Name: "a", Weight: new(math.NaN())}},
		"hint 0":        {Window: &qunerv1.OpenWindow{Name: "a", HintJoulesPerUnit: new(0.0)}},
		"hint below":    {Window: &qunerv1.OpenWindow{Name: "a", HintJoulesPerUnit: new(-1.0)}},
		"hint infinite": {Window: &qunerv1.OpenWindow{Name: "a", HintJoulesPerUnit: new(math.Inf(1))}},
	} {
		if _, err := c.Open(t.Context(), o); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := openSession(t, dial(t, st.admin()))
	if _, err := c.Close(t.Context(), closeRequest(open(t, s, 1), 0)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a session's window: %v", err)
	}
}

func TestNobodyReachesAnothersWindow(t *testing.T) {
	needRoot(t)
	st := start(t, nil)
	as := func(p person) qunerv1.MeterServiceClient {
		return qunerv1.NewMeterServiceClient(dialWith(t, func(context.Context) (net.Conn, error) { return connectAs(st.public(), p) }))
	}
	admin := qunerv1.NewMeterServiceClient(dial(t, st.admin()))
	owner := as(person{uid: 1000, gid: 1000})
	id, root := openDetached(t, owner, "mine"), openDetached(t, admin, "roots")
	if n := len(listed(t, as(person{uid: 1000, gid: 1000})).GetWindows()); n != 1 {
		t.Errorf("the owner sees %d windows by another connection", n)
	}
	for name, c := range map[string]qunerv1.MeterServiceClient{
		"somebody": as(person{uid: 1001, gid: 1000}), "a large uid": as(person{uid: 4_000_000_000, gid: 7}),
		"uid 0 on the public socket": as(person{}), "nobody": as(person{uid: 65534, gid: 65534}), "root": admin,
	} {
		l := listed(t, c)
		if n := len(l.GetWindows()) + len(l.GetClosed()); n != 0 && name != "root" || name == "root" && n != 1 {
			t.Errorf("%s sees %d windows", name, n)
		}
		for _, foreign := range []string{id, root} {
			if name == "root" && foreign == root {
				continue
			}
			_, err := c.Mark(t.Context(), &qunerv1.MarkRequest{Mark: &qunerv1.MarkWindow{Id: foreign, Name: "x"}})
			if status.Code(err) != codes.NotFound {
				t.Errorf("%s marks: %v", name, err)
			}
			if _, err := c.Close(t.Context(), closeRequest(foreign, 0)); status.Code(err) != codes.NotFound {
				t.Errorf("%s closes: %v", name, err)
			}
		}
	}
	if _, err := owner.Close(t.Context(), closeRequest(id, 0)); err != nil {
		t.Error(err)
	}
}

func TestWatchTellsOfOwnWindows(t *testing.T) {
	st := start(t, nil)
	c := qunerv1.NewMeterServiceClient(dial(t, st.admin()))
	openDetached(t, c, "w")
	began := time.Now()
	s, err := c.Watch(t.Context(), &qunerv1.WatchRequest{IntervalNs: int64(minInterval)})
	if err != nil {
		t.Fatal(err)
	}
	before := int64(-1)
	for range 4 {
		r, err := s.Recv()
		if err != nil || len(r.GetWindows()) != 1 || r.GetWindows()[0].GetDurationNs() <= before {
			t.Fatal(r, err)
		}
		before = r.GetWindows()[0].GetDurationNs()
	}
	if took := time.Since(began); took < 3*minInterval*9/10 {
		t.Errorf("four in %v", took)
	}
	if r, err := s.Recv(); err != nil || r.GetWindows()[0].GrossUj == nil {
		t.Errorf("no joules: %v, %v", r, err)
	}
	for _, interval := range []time.Duration{-1, minInterval - 1, 2 * time.Hour} {
		if _, err := watchOnce(t, c, interval); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", interval, err)
		}
	}
	for range maxWatchers - 1 {
		if _, err := watchOnce(t, c, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := watchOnce(t, c, 0); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one stream too many: %v", err)
	}
	st.stop()
	for {
		if _, err := s.Recv(); err != nil {
			if !errors.Is(err, io.EOF) && status.Code(err) != codes.Unavailable {
				t.Errorf("the end: %v", err)
			}
			break
		}
	}
}

func watchOnce(t testing.TB, c qunerv1.MeterServiceClient, interval time.Duration) (*qunerv1.WatchResponse, error) {
	t.Helper()
	s, err := c.Watch(t.Context(), &qunerv1.WatchRequest{IntervalNs: int64(interval)})
	if err != nil {
		t.Fatal(err)
	}
	return s.Recv()
}

// powercapReads is how often the CPU's counters have been read.
func powercapReads(sim *hostsim.Sim) int {
	class, _ := sim.Touches("sys/class/powercap")
	devices, _ := sim.Touches("sys/devices/virtual/powercap")
	return class + devices
}

// A stranger could else choose the moments at which others' energy is looked at.
func TestStrangersCauseNoReadOfTheCPU(t *testing.T) {
	var sim *hostsim.Sim
	st := startWith(t, nil, func(dir string) (m *meter.Meter) {
		m, sim = simulated(t, dir)
		return m
	})
	conn := dial(t, st.public())
	c, s := qunerv1.NewMeterServiceClient(conn), openSession(t, conn)
	before := powercapReads(sim)
	if before == 0 {
		t.Fatal("not even the meter's own start was counted")
	}
	var ids []string
	for i := range uint64(1000) {
		ids = append(ids, ask(t, s, openCommand(i, "w", "cpu")).GetOpened().GetId())
	}
	ask(t, s, markCommand(2000, ids[0], "x"))
	listed(t, c)
	if _, err := watchOnce(t, c, minInterval); err != nil {
		t.Fatal(err)
	}
	ask(t, s, closeCommand(2001, ids[0], false))
	detached := openDetached(t, c, "d", "cpu")
	if _, err := c.Close(t.Context(), closeRequest(detached, 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "orphaned", func() bool { return st.meter.OpenCount() == 0 })
	if n := powercapReads(sim) - before; n != 0 {
		t.Errorf("a stranger's thousand windows caused %d reads of CPU counters", n)
	}
}

// footprint is what a process holds.
type footprint struct {
	goroutines, files int
	heap              uint64
}

func measured() footprint {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd")
	return footprint{runtime.NumGoroutine(), len(files), m.HeapAlloc}
}

// Clients that die leave nothing behind but their results, of which a bounded number is kept.
func TestDyingClientsLeaveNothingBehind(t *testing.T) {
	st := start(t, nil)
	wave := func(clients, each int) {
		for range clients {
			var raw net.Conn
			conn, err := dialRaw(st.public(), &raw)
			if err != nil {
				t.Fatal(err)
			}
			s, err := qunerv1.NewMeterServiceClient(conn).Session(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(each) {
				open(t, s, i)
			}
			_ = raw.Close()
			_ = conn.Close()
		}
		eventually(t, "all windows have ended", func() bool { return st.meter.OpenCount() == 0 })
	}
	wave(10, 200) // until the results kept are as many as are kept at most
	before := measured()
	wave(50, 100)
	eventually(t, "goroutines and descriptors come back", func() bool {
		now := measured()
		return now.goroutines <= before.goroutines+2 && now.files <= before.files
	})
	if now := measured(); now.heap > before.heap+2<<20 {
		t.Errorf("%d KiB of heap, before %d KiB", now.heap>>10, before.heap>>10)
	}
	if n := len(listed(t, qunerv1.NewMeterServiceClient(dial(t, st.public()))).GetClosed()); n != 1024 {
		t.Errorf("%d results kept", n)
	}
}

// dialRaw connects, and hands out the connection below gRPC's.
func dialRaw(path string, raw *net.Conn) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///quner", insecureCreds(), grpc.WithContextDialer(func(ctx context.Context, _ string) (_ net.Conn, err error) {
		*raw, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return *raw, err
	}))
}

// The bar is 2 KiB for each window of a thousand.
func TestOpenWindowsAreSmall(t *testing.T) {
	m := aMeter(t, t.TempDir())
	before := measured()
	windows := make([]*meter.Window, 1000)
	for i := range windows {
		var err error
		windows[i], err = m.Open(t.Context(), meter.OpenRequest{Name: fmt.Sprint("w", i), Exact: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	if each := int64(measured().heap-before.heap) / 1000; each > 2048 || each < 100 {
		t.Errorf("an open window takes %d bytes", each)
	} else {
		t.Logf("an open window takes %d bytes", each)
	}
	runtime.KeepAlive(windows)
}
