package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// session is one stream that carries any number of windows. Each command waits for the answer with its seq.
type session struct {
	stream grpc.BidiStreamingClient[qunerv1.SessionRequest, qunerv1.SessionResponse]
	cancel context.CancelFunc
	done   chan struct{} // closed when no more answers come

	ended   time.Time     // before that
	refused chan struct{} // closed after that, when the daemon has been found not to be there any more
	resumed chan struct{} // closed after that, when its windows have been taken up elsewhere, or cannot be

	sendMu sync.Mutex // one sender at a time on a stream

	mu      sync.Mutex
	seq     uint64
	waiting map[uint64]chan *qunerv1.SessionResponse
	silent  bool                      // an answer has not come in time, and none since
	owed    []*qunerv1.SessionRequest // closes that are to be sent when one does
}

// errSilent is a daemon that does not answer.
func errSilent() error { return status.Error(codes.Unavailable, "no answer in time") }

// live returns the session, a new one if there is none or it has ended. A daemon that was waited for in vain is waited for
// by the connection, in the background, until it is there.
func (c *Client) live() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		select {
		case <-c.session.done:
			c.session.end()
		default:
			return c.session, nil
		}
	}
	if c.mute && c.conn.GetState() != connectivity.Ready {
		c.conn.Connect()
		return nil, errSilent()
	}
	ctx, cancel := context.WithCancel(context.Background())
	bound := time.AfterFunc(c.timeout, cancel)
	stream, err := qunerv1.NewMeterServiceClient(c.conn).Session(ctx)
	if c.mute = !bound.Stop(); c.mute {
		err = errSilent()
	}
	if err != nil {
		cancel()
		c.session = nil
		return nil, err
	}
	c.session = &session{
		stream: stream, cancel: cancel, done: make(chan struct{}), refused: make(chan struct{}), resumed: make(chan struct{}),
		waiting: make(map[uint64]chan *qunerv1.SessionResponse),
	}
	go func(s *session) {
		defer c.ended(s)
		s.receive()
	}(c.session)
	return c.session, nil
}

// end cancels the stream and waits for the receiver.
func (s *session) end() {
	s.cancel()
	<-s.done
}

// receive hands each answer to whoever waits for it, until the stream ends.
func (s *session) receive() {
	defer close(s.done)
	defer s.cancel()
	for {
		answer, err := s.stream.Recv()
		if err != nil {
			s.ended = time.Now()
			return
		}
		s.mu.Lock()
		waiter := s.waiting[answer.GetSeq()]
		delete(s.waiting, answer.GetSeq())
		owed := s.owed
		s.silent, s.owed = false, nil
		s.mu.Unlock()
		for _, r := range owed {
			_, _, _ = s.send(r, time.Second)
		}
		switch {
		case waiter != nil:
			waiter <- answer
		case answer.GetOpened() != nil:
			// Whoever asked has given up: nobody will ever close this window.
			_, _, _ = s.send(closeCommand(answer.GetOpened().GetId(), CloseOptions{}), time.Second)
		}
	}
}

// send sends a command and returns the channel of its answer. A stream that does not take it within the bound is ended.
func (s *session) send(r *qunerv1.SessionRequest, bound time.Duration) (uint64, <-chan *qunerv1.SessionResponse, error) {
	answer := make(chan *qunerv1.SessionResponse, 1)
	s.mu.Lock()
	s.seq++
	r.Seq = s.seq
	s.waiting[r.Seq] = answer
	s.mu.Unlock()

	stuck := time.AfterFunc(bound, s.cancel)
	defer stuck.Stop()
	s.sendMu.Lock()
	err := s.stream.Send(r)
	s.sendMu.Unlock()
	if err != nil {
		s.forget(r.Seq)
	}
	return r.Seq, answer, err
}

// owes reports whether nobody answers just now, and then keeps a close for when somebody does.
func (s *session) owes(r *qunerv1.SessionRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent && r.GetClose() != nil && !s.over() {
		s.owed = append(s.owed, r)
	}
	return s.silent && !s.over()
}

func (s *session) forget(seq uint64) {
	s.mu.Lock()
	delete(s.waiting, seq)
	s.mu.Unlock()
}

// do sends a command and waits for its answer, at most for the bound and for ctx. The command is sent even if ctx is
// done: a window must be closed although its request was cancelled. Once a daemon was waited for in vain it is not again,
// until it has answered that; then closes are made up for.
func (s *session) do(ctx context.Context, r *qunerv1.SessionRequest, bound time.Duration) (*qunerv1.SessionResponse, error) {
	if s.owes(r) {
		return nil, errSilent()
	}
	seq, answers, err := s.send(r, bound)
	timer := time.NewTimer(bound)
	defer timer.Stop()
	if err != nil {
		select { // the stream has ended, which the receiver is about to see: only then the window can go on elsewhere
		case <-s.done:
		case <-timer.C:
		}
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	select {
	case answer := <-answers:
		return checked(answer)
	case <-s.done:
		select {
		case answer := <-answers: // it came just before the end
			return checked(answer)
		default:
			return nil, status.Error(codes.Unavailable, "the session has ended")
		}
	case <-timer.C:
		s.forget(seq)
		s.mu.Lock()
		s.silent = true
		s.mu.Unlock()
		return nil, errSilent()
	case <-ctx.Done():
		s.forget(seq)
		return nil, context.Cause(ctx)
	}
}

func checked(answer *qunerv1.SessionResponse) (*qunerv1.SessionResponse, error) {
	if e := answer.GetError(); e != nil {
		return nil, status.Error(codes.Code(e.GetCode()), e.GetMessage())
	}
	return answer, nil
}

// unanswered tells whether err means that the daemon could not be asked, as against one that asked back for better.
func unanswered(err error) bool {
	if errors.Is(err, ErrUnreachable) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	default:
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
}
