// Package server is the daemon's two sockets: it converts between the API and the daemon, decides from what the kernel
// says of a caller whether a call may pass, gives errors their codes, and bounds what callers can take.
package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

// Daemon is what the server asks of the service loop; *daemon.Daemon is one.
type Daemon interface {
	Status() *daemon.Status
	// Changed returns the newest picture and a channel that is closed when there is a newer one.
	Changed() (now *daemon.Status, next <-chan struct{})
	Doctor(ctx context.Context) (doctor.Report, error)
	Points(ctx context.Context) ([]profiles.TunedPoint, profiles.Fingerprint, error)
	SetMode(ctx context.Context, c daemon.Caller, change daemon.ModeChange) (daemon.Applied, error)
	Apply(ctx context.Context, c daemon.Caller, dryRun bool) (daemon.Applied, error)
	Restore(ctx context.Context, c daemon.Caller, force, dryRun bool) (levers.Restored, profiles.ModeState, error)
	Tune(ctx context.Context, spec daemon.TuneSpec, w daemon.TuneWorkload) (daemon.TuneReport, error)
	Savings(ctx context.Context) (daemon.Savings, error)
	Retune(ctx context.Context, spec daemon.RetuneSpec, see daemon.Resting) (daemon.RetuneReport, error)
	Forget(ctx context.Context, c daemon.Caller, ids []string, all, dryRun bool) ([]profiles.TunedPoint, error)
	Rollback(ctx context.Context) (string, error)
	History(ctx context.Context, limit int) ([]daemon.Event, error)
	SetLeverOwner(ctx context.Context, c daemon.Caller, name string, o profiles.Owner, dryRun bool) ([]string, []levers.Write, error)
	Selftest(ctx context.Context, c daemon.Caller, dryRun bool) ([]levers.Test, error)
	Floors(ctx context.Context) ([]daemon.FloorEntry, error)
	MeasureFloor(ctx context.Context, spec daemon.FloorSpec, w daemon.FloorWatcher) ([]daemon.FloorOutcome, error)
	ForgetFloors(ctx context.Context, c daemon.Caller, ids []string, all, dryRun bool) ([]daemon.FloorEntry, error)
}

// Limits bound what callers may take; a zero field means the default named beside it.
type Limits struct {
	ConnectionsPerUID int           // 128: of one user on the public socket
	Connections       int           // 512: on both sockets
	AdminConnections  int           // 16: of those, the admin socket's own
	StreamsPerConn    int           // 128: calls at once on one connection
	MessageBytes      int           // 256 KiB: one request
	Handshake         time.Duration // 5 s: for a new connection to show that it speaks the protocol
	Call              time.Duration // 30 s: a call that is no stream
	IdleConnection    time.Duration // 10 min: a connection with no call on it is closed after this
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	setTime := func(v *time.Duration, to time.Duration) {
		if *v == 0 {
			*v = to
		}
	}
	set(&l.ConnectionsPerUID, 128)
	set(&l.Connections, 512)
	set(&l.AdminConnections, 16)
	set(&l.StreamsPerConn, 128)
	set(&l.MessageBytes, 256<<10)
	setTime(&l.Handshake, 5*time.Second)
	setTime(&l.Call, 30*time.Second)
	setTime(&l.IdleConnection, 10*time.Minute)
	return l
}

// maxHeaderBytes bounds the headers of one call: the API has none of its own.
const maxHeaderBytes = 16 << 10

// Options are what the process decides about its sockets.
type Options struct {
	Limits Limits
	// ExactGroup is the group whose members may see exact CPU energy: a side channel, so nobody else may on the public
	// socket. nil: no group.
	ExactGroup *uint32
}

// Server serves one daemon on two sockets. Make one with New.
type Server struct {
	daemon Daemon
	meter  *meter.Meter
	opts   Options
	limits Limits
	log    *slog.Logger
	roles  map[string]role
	access access
	doctor sharedDoctor
	watch  watchers

	stopping chan struct{} // closed when no new call is taken and streams are to end
}

// New returns a server for a daemon and its meter.
func New(d Daemon, m *meter.Meter, o Options, log *slog.Logger) *Server {
	return &Server{
		daemon: d, meter: m, opts: o, limits: o.Limits.withDefaults(), log: log,
		roles: roles(), access: access{self: uint32(os.Geteuid())}, //nolint:gosec // a uid
		doctor:   sharedDoctor{daemon: d},
		stopping: make(chan struct{}),
	}
}

// isStopping reports whether streams are to end.
func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// drain is how long calls that are under way may take to end once the server stops.
const drain = 500 * time.Millisecond

// Serve takes calls on both sockets until ctx ends, then lets those under way finish for half a second, ends the streams
// and returns nil. It may be called once.
func (s *Server) Serve(ctx context.Context, sockets *Sockets) error {
	s.access.adminGroup = sockets.AdminGroup
	public := s.grpcServer(onPublic, s.limits.Connections-s.limits.AdminConnections, s.limits.ConnectionsPerUID)
	admin := s.grpcServer(onAdmin, s.limits.AdminConnections, s.limits.AdminConnections)
	s.register(public, admin)
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range []struct {
		server   *grpc.Server
		listener net.Listener
	}{{public, sockets.Public}, {admin, sockets.Admin}} {
		group.Go(func() error {
			if err := l.server.Serve(l.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return err
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			s.stop(l.server)
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		close(s.stopping)
		return nil
	})
	return group.Wait()
}

// stop ends a server: at once for new calls, after a while for old ones.
func (s *Server) stop(server *grpc.Server) {
	cut := time.AfterFunc(drain, server.Stop)
	defer cut.Stop()
	server.GracefulStop()
}

// register puts the services on their servers: the admin service is on the admin socket alone.
func (s *Server) register(public, admin grpc.ServiceRegistrar) {
	for _, r := range []grpc.ServiceRegistrar{public, admin} {
		qunerv1.RegisterStatusServiceServer(r, &statusService{server: s})
		qunerv1.RegisterMeterServiceServer(r, &meterService{server: s})
	}
	qunerv1.RegisterAdminServiceServer(admin, &adminService{server: s})
}

func (s *Server) grpcServer(on socket, connections, perUID int) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(&peerCredentials{quota: newQuota(connections, perUID)}),
		grpc.UnaryInterceptor(s.unary(on)),
		grpc.StreamInterceptor(s.stream(on)),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return errUnlisted }),
		grpc.MaxRecvMsgSize(s.limits.MessageBytes),
		grpc.MaxConcurrentStreams(uint32(min(s.limits.StreamsPerConn, math.MaxUint32))), //nolint:gosec // bounded
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(s.limits.Handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.limits.IdleConnection}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		// What is read and written is small, and a connection at rest is to cost little memory.
		grpc.ReadBufferSize(8<<10), grpc.WriteBufferSize(8<<10),
		grpc.WaitForHandlers(true),
	)
}
