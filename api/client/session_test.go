package client

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// endedStream has ended, which its sender hears before its receiver.
type endedStream struct {
	grpc.BidiStreamingClient[qunerv1.SessionRequest, qunerv1.SessionResponse]
}

func (endedStream) Send(*qunerv1.SessionRequest) error { return io.EOF }

func (endedStream) Recv() (*qunerv1.SessionResponse, error) {
	time.Sleep(time.Second)
	return nil, io.EOF
}

// Whoever hears first that a session has ended, the sender or the receiver: a command that finds it so knows it, and waits
// for its window to be taken up elsewhere.
func TestAStreamThatTakesNothingHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{
			stream: endedStream{}, cancel: func() {}, done: make(chan struct{}),
			waiting: make(map[uint64]chan *qunerv1.SessionResponse),
		}
		go s.receive()
		_, err := s.do(context.Background(), closeCommand("w", CloseOptions{}), time.Minute)
		if !unanswered(err) || !s.over() || len(s.waiting) != 0 {
			t.Errorf("%v, ended %t, %d commands wait", err, s.over(), len(s.waiting))
		}
		<-s.done
	})
}
