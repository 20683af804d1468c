package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/meter"
)

// caller is who makes a call, and where it came in.
type caller struct {
	Peer
	on    socket
	exact bool // may see exact CPU energy
}

// callerKey is where a call's context holds its caller.
type callerKey struct{}

// callerOf returns who makes a call that passed the interceptors.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// viewer is the caller as the meter knows one.
func (c caller) viewer() meter.Viewer { return meter.Viewer{UID: c.UID, Exact: c.exact} }

// forDaemon is the caller as the daemon knows one.
func (c caller) forDaemon() daemon.Caller { return daemon.Caller{UID: c.UID, PID: c.PID} }

// enter checks one call and returns its context.
func (s *Server) enter(ctx context.Context, method string, on socket) (context.Context, error) {
	id, err := identityOf(ctx)
	if err != nil {
		return ctx, err
	}
	if id.over != nil {
		return ctx, id.over
	}
	if err := s.access.authorise(s.roles, method, on, id.Peer); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, callerKey{}, caller{Peer: id.Peer, on: on, exact: s.exact(on, id.Peer)}), nil
}

// unary guards the calls that are no streams.
func (s *Server) unary(on socket) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		end := s.begin(ctx, info.FullMethod, req)
		defer func() {
			if err = end(recover(), err); err != nil {
				resp = nil
			}
		}()
		ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
		defer cancel()
		if ctx, err = s.enter(ctx, info.FullMethod, on); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
}

// stream guards the calls that are streams, and those of methods the server does not know.
func (s *Server) stream(on socket) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		end := s.begin(ss.Context(), info.FullMethod, nil)
		defer func() { err = end(recover(), err) }()
		ctx, err := s.enter(ss.Context(), info.FullMethod, on)
		if err != nil {
			return err
		}
		return handler(srv, knownStream{ss, ctx})
	}
}

// knownStream is a stream whose context holds its caller.
type knownStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // that is how a grpc.ServerStream hands it out
}

// Context returns the call's context.
func (s knownStream) Context() context.Context { return s.ctx }

// begin notes a call's beginning and returns what ends it: it gives an error its code, makes one of a panic, and writes
// the line that each admin call gets: at level INFO, unless it has only read. What went wrong inside the daemon is logged here, where it stops. req is nil of a
// stream.
func (s *Server) begin(ctx context.Context, method string, req any) func(panicked any, err error) error {
	began := time.Now()
	return func(panicked any, err error) error {
		if panicked != nil {
			s.log.Error("panic in a call", "method", method, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
			err = errPanic
		}
		coded := coded(err)
		who, _ := identityOf(ctx)
		level := slog.LevelDebug
		switch {
		case status.Code(coded) == codes.Internal && !errors.Is(err, errPanic):
			level = slog.LevelError
		case s.roles[method] == operator && (err != nil || !tellsItself(req) && !reads(method)):
			level = slog.LevelInfo
		}
		if !s.log.Enabled(ctx, level) {
			return coded
		}
		attrs := []any{"method", truncated(method), "uid", who.UID, "pid", who.PID, "outcome", status.Code(coded).String(),
			"took", time.Since(began).Round(time.Microsecond)}
		if err != nil {
			attrs = append(attrs, "err", err)
		}
		s.log.Log(ctx, level, "call", attrs...)
		return coded
	}
}

// reads reports whether a method of the admin service does nothing but tell: bug reports and scripts ask again and again,
// and nothing has come of it.
func reads(method string) bool {
	return method == qunerv1.AdminService_History_FullMethodName || method == qunerv1.AdminService_Rollback_FullMethodName
}

// tellsItself reports whether the daemon logs a call that has succeeded by a line of its own, which knows what was before.
func tellsItself(req any) bool {
	switch r := req.(type) {
	case *qunerv1.SetModeRequest:
		return !r.GetDryRun()
	case *qunerv1.ApplyRequest:
		return !r.GetDryRun()
	case *qunerv1.RestoreRequest:
		return !r.GetDryRun()
	}
	return false
}
