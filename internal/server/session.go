package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/meter"
)

// meterService measures joules for anyone. Windows are the meter's alone: the daemon's loop has no part in them.
type meterService struct {
	qunerv1.UnimplementedMeterServiceServer
	server *Server
}

// Session answers commands in their order until the caller ends the stream or goes away; then the windows still open are
// orphaned. When the server stops they stay open, for the daemon that comes next. A command that is refused is answered by
// an error, and the session goes on.
func (m *meterService) Session(stream grpc.BidiStreamingServer[qunerv1.SessionRequest, qunerv1.SessionResponse]) error {
	s := newSession(m.server.meter, callerOf(stream.Context()))
	defer func() {
		if !m.server.isStopping() {
			s.end()
		}
	}()
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(s.answer(stream.Context(), request)); err != nil {
			return err
		}
	}
}

// session is one caller's stream and the windows on it. They can be reached from this stream alone.
type session struct {
	meter   *meter.Meter
	caller  caller
	windows map[string]*meter.Window
}

func newSession(m *meter.Meter, c caller) *session {
	return &session{meter: m, caller: c, windows: map[string]*meter.Window{}}
}

// end orphans what is open.
func (s *session) end() {
	s.meter.Orphan(slices.Collect(maps.Values(s.windows))...)
}

func (s *session) answer(ctx context.Context, request *qunerv1.SessionRequest) *qunerv1.SessionResponse {
	answer := &qunerv1.SessionResponse{Seq: request.GetSeq()}
	err := s.do(ctx, request, answer)
	if err != nil {
		answer.Event = &qunerv1.SessionResponse_Error{Error: &qunerv1.CommandError{Code: uint32(codeOf(err)), Message: err.Error()}}
	}
	return answer
}

func (s *session) do(ctx context.Context, request *qunerv1.SessionRequest, answer *qunerv1.SessionResponse) error {
	switch c := request.GetCommand().(type) {
	case *qunerv1.SessionRequest_Open:
		o, err := openIn(c.Open, s.caller)
		if err != nil {
			return err
		}
		w, err := s.meter.Open(ctx, o)
		if err != nil {
			return err
		}
		s.windows[w.ID()] = w
		answer.Event = &qunerv1.SessionResponse_Opened{Opened: &qunerv1.WindowOpened{Id: w.ID(), Devices: w.Devices()}}
	case *qunerv1.SessionRequest_Mark:
		w, err := s.window(c.Mark.GetId())
		if err != nil {
			return err
		}
		stage, err := w.Mark(ctx, c.Mark.GetName())
		if err != nil {
			return err
		}
		answer.Event = &qunerv1.SessionResponse_Marked{Marked: &qunerv1.WindowMarked{Stage: stageOut(stage)}}
	case *qunerv1.SessionRequest_Close:
		w, err := s.window(c.Close.GetId())
		if err != nil {
			return err
		}
		result, err := w.Close(ctx, closeIn(c.Close))
		if err == nil || errors.Is(err, meter.ErrNotSampled) || errors.Is(err, meter.ErrNoWindow) {
			delete(s.windows, w.ID())
		}
		if err != nil {
			return err
		}
		answer.Event = &qunerv1.SessionResponse_Closed{Closed: resultOut(result)}
	case *qunerv1.SessionRequest_Resume:
		w, err := s.meter.Resume(c.Resume.GetId(), s.caller.viewer())
		if err != nil {
			return err
		}
		s.windows[w.ID()] = w
		answer.Event = &qunerv1.SessionResponse_Resumed{Resumed: &qunerv1.WindowResumed{Id: w.ID(), Devices: w.Devices()}}
	default:
		return badRequest("request %d holds no command: allowed are open, mark, close, resume", request.GetSeq())
	}
	return nil
}

// window finds one of this session's. Another session's is not there, whoever owns it.
func (s *session) window(id string) (*meter.Window, error) {
	if w, ok := s.windows[id]; ok {
		return w, nil
	}
	return nil, meter.ErrNoWindow
}
