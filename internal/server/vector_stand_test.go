package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
)

// whole is all of the daemon over one machine: host, meter, loop and server, as qunerd wires them.
type whole struct {
	d      *daemon.Daemon
	server *Server
	stop   func()
}

// wholeDaemon starts all but the sockets; serve is told the context that ends it, and returns when it is through.
func wholeDaemon(t testing.TB, h *host.Host, serve func(context.Context, *Server) error) *whole {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	cfg := config.Default()
	cfg.UntunedTraining = "performance" // so that a change of profile moves something
	d, err := daemon.New(ctx, h, cfg, daemon.Options{Version: "v-test"}, log)
	if err != nil {
		t.Fatal(err)
	}
	w := &whole{d: d, server: New(d, d.Meter(), Options{}, log)}
	var running sync.WaitGroup
	for what, run := range map[string]func(context.Context) error{
		"loop": d.Run, "meter": d.Meter().Run, "server": func(ctx context.Context) error { return serve(ctx, w.server) },
	} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	w.stop = func() {
		cancel()
		running.Wait()
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	<-d.Ready()
	return w
}

// metering is a caller: it opens a window, and gets what closes it.
type metering func(context.Context, client.OpenOptions) (finish, error)

// finish closes a window.
type finish func(context.Context, client.CloseOptions) (*qunerv1.WindowResult, error)

// onSockets serves on real Unix sockets below dir and calls through the client package.
func onSockets(t testing.TB, h *host.Host, dir string, stranger bool) (metering, grpc.ClientConnInterface, func()) {
	t.Helper()
	sockets, err := Listen(host.NewDir(dir, nil))
	if err != nil {
		t.Fatal(err)
	}
	w := wholeDaemon(t, h, func(ctx context.Context, s *Server) error { return s.Serve(ctx, sockets) })
	c, err := client.Dial(t.Context(), client.Options{Dir: dir, Admin: !stranger, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, o client.OpenOptions) (finish, error) {
		window, err := c.Open(ctx, o)
		return func(ctx context.Context, o client.CloseOptions) (*qunerv1.WindowResult, error) {
			r, err := window.Close(ctx, o)
			return r.Window, err
		}, err
	}
	return call, c.Conn(), func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		w.stop()
		if err := sockets.Close(); err != nil {
			t.Error(err)
		}
	}
}

// told are credentials for a connection in memory, where there is no kernel to say who calls.
type told struct {
	credentials.TransportCredentials
	peer Peer
}

func (c told) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, identity{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, Peer: c.peer,
	}, nil
}
func (c told) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "told"}
}
func (c told) Clone() credentials.TransportCredentials { return c }

// inMemory serves on connections in memory, which faked time can pass by, and calls as the API has it.
func inMemory(t testing.TB, h *host.Host, stranger bool) (metering, grpc.ClientConnInterface, func()) {
	t.Helper()
	on := onAdmin
	if stranger {
		on = onPublic
	}
	listener := bufconn.Listen(1 << 16)
	w := wholeDaemon(t, h, func(ctx context.Context, s *Server) error {
		creds := grpc.Creds(told{peer: Peer{UID: uint32(os.Geteuid())}}) //nolint:gosec // a uid
		public := grpc.NewServer(creds, grpc.UnaryInterceptor(s.unary(onPublic)), grpc.StreamInterceptor(s.stream(onPublic)))
		admin := grpc.NewServer(creds, grpc.UnaryInterceptor(s.unary(onAdmin)), grpc.StreamInterceptor(s.stream(onAdmin)))
		s.register(public, admin)
		reached := admin
		if on == onPublic {
			reached = public
		}
		stopped := context.AfterFunc(ctx, func() { close(s.stopping); reached.Stop() })
		defer stopped()
		return reached.Serve(listener)
	})
	conn := dialWith(t, listener.DialContext)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := qunerv1.NewMeterServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &rawSession{stream: stream}
	return s.open, conn, func() {
		cancel()
		_ = conn.Close() // a second time when the test ends
		w.stop()
	}
}

// rawSession speaks the API with no client package in between.
type rawSession struct {
	stream sessionClient
	seq    uint64
}

func (s *rawSession) do(r *qunerv1.SessionRequest) (*qunerv1.SessionResponse, error) {
	s.seq++
	r.Seq = s.seq
	if err := s.stream.Send(r); err != nil {
		return nil, err
	}
	answer, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	if answer.GetSeq() != s.seq {
		return nil, fmt.Errorf("answer %d to command %d", answer.GetSeq(), s.seq)
	}
	if e := answer.GetError(); e != nil {
		return nil, status.Error(codes.Code(e.GetCode()), e.GetMessage())
	}
	return answer, nil
}

// given is a number as it is on the wire, where 0 is one that is not there.
func given(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

func (s *rawSession) open(_ context.Context, o client.OpenOptions) (finish, error) {
	answer, err := s.do(&qunerv1.SessionRequest{Command: &qunerv1.SessionRequest_Open{Open: &qunerv1.OpenWindow{
		Name: o.Name, Devices: o.Devices, IdleWatts: o.IdleWatts, IdleWattsUncertainty: o.IdleWattsPlus,
		Unit: o.Unit, HintJoulesPerUnit: given(o.HintJoulesPerUnit), WaitEdge: o.WaitEdge,
	}}})
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, c client.CloseOptions) (*qunerv1.WindowResult, error) {
		answer, err := s.do(&qunerv1.SessionRequest{Command: &qunerv1.SessionRequest_Close{Close: &qunerv1.CloseWindow{
			Id: answer.GetOpened().GetId(), Work: c.Work, Synced: c.Synced, RequireSampled: c.RequireSampled, WaitEdge: c.WaitEdge,
		}}})
		return answer.GetClosed(), err
	}, nil
}

// play measures a vector with one caller.
func play(t testing.TB, v *vector, call metering, conn grpc.ClientConnInterface, zero time.Time) *qunerv1.WindowResult {
	t.Helper()
	ctx := t.Context()
	time.Sleep(time.Until(zero))
	o := v.open
	o.Name = "vector"
	if o.Devices == nil && len(v.machine.zones) == 0 && len(v.machine.cards) > 0 {
		o.Devices = []string{"gpu"}
	}
	done, err := call(ctx, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	var second finish
	if v.beside != nil {
		b := *v.beside
		b.Name = "beside"
		if second, err = call(ctx, b); err != nil {
			t.Fatalf("open: %v", err)
		}
	}
	if v.meanwhile != nil {
		time.Sleep(v.lasts / 2)
		v.meanwhile(t, conn)
	}
	time.Sleep(time.Until(zero.Add(v.lasts)))
	r, err := done(ctx, v.close)
	if second != nil {
		if _, err := second(ctx, v.close); err != nil {
			t.Errorf("beside: %v", err)
		}
	}
	if want := v.want.err; want != codes.OK {
		if status.Code(err) != want {
			t.Errorf("error %v, want %v", err, want)
		}
		return nil
	}
	if err != nil {
		t.Fatalf("close: %v", err)
	}
	if r == nil {
		t.Fatal(errors.New("no result"))
	}
	return r
}
