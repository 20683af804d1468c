package server

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
)

// bare answers a call with nothing: what gRPC itself costs on a Unix socket.
type bare struct {
	qunerv1.UnimplementedStatusServiceServer
}

func (bare) Status(context.Context, *qunerv1.StatusRequest) (*qunerv1.StatusResponse, error) {
	return &qunerv1.StatusResponse{}, nil
}

// rapl is a meter of a machine with a package and a dram counter, in plain files that are held open: the read costs what
// a file costs, not what a simulation does.
func rapl(b *testing.B) *meter.Meter {
	root := b.TempDir()
	for zone, name := range map[string]string{"intel-rapl:0": "package-0", "intel-rapl:0:0": "dram"} {
		dir := filepath.Join(root, "sys/class/powercap", zone)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for file, text := range map[string]string{"name": name, "energy_uj": "1000000", "max_energy_range_uj": "262143328850"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	m, err := meter.New(b.Context(), host.Real(root, nil), meter.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	if n := len(m.Devices()); n != 2 {
		b.Fatalf("%d devices: %v", n, m.Devices())
	}
	return m
}

// BenchmarkSession measures open + close on a session stream against two bare unary calls in the same run, turn by turn,
// so that whatever else the machine does hits both. The bar is a ratio of at most 1.0.
func BenchmarkSession(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bare")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	plain := grpc.NewServer()
	qunerv1.RegisterStatusServiceServer(plain, bare{})
	ended := make(chan error, 1)
	go func() { ended <- plain.Serve(l) }()
	defer func() {
		plain.Stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	peer := qunerv1.NewStatusServiceClient(dial(b, path))
	stand := startWith(b, nil, func(string) *meter.Meter { return rapl(b) })
	s := openSession(b, dial(b, stand.admin()))

	var ours, theirs time.Duration
	turn := func(seq uint64) {
		began := time.Now()
		for range 2 {
			if _, err := peer.Status(b.Context(), &qunerv1.StatusRequest{}); err != nil {
				b.Fatal(err)
			}
		}
		half := time.Now()
		id := ask(b, s, openCommand(seq, "bench")).GetOpened().GetId()
		if ask(b, s, closeCommand(seq+1, id, false)).GetClosed() == nil {
			b.Fatal("not closed")
		}
		theirs, ours = theirs+half.Sub(began), ours+time.Since(half)
	}
	for i := range uint64(200) { // until buffers and windows have their size
		turn(2 * i)
	}
	ours, theirs = 0, 0
	b.ResetTimer()
	for i := range b.N {
		turn(uint64(2*i) + 1000)
	}
	b.ReportMetric(0, "ns/op") // the sum of both says nothing
	b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ns/session-window")
	b.ReportMetric(float64(theirs.Nanoseconds())/float64(b.N), "ns/two-bare-calls")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}
