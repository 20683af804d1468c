package server

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// bare answers a call with nothing: what gRPC itself costs on a Unix socket.
type bare struct {
	qunerv1.UnimplementedStatusServiceServer
}

func (bare) Status(context.Context, *qunerv1.StatusRequest) (*qunerv1.StatusResponse, error) {
	return &qunerv1.StatusResponse{}, nil
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
	defer func() { plain.Stop(); <-ended }()
	peer := qunerv1.NewStatusServiceClient(dial(b, path))
	s := openSession(b, dial(b, start(b, nil).admin()))

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
