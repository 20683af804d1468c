package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

type sessionClient = grpc.BidiStreamingClient[qunerv1.SessionRequest, qunerv1.SessionResponse]

func openCommand(seq uint64, name string, devices ...string) *qunerv1.SessionRequest {
	return &qunerv1.SessionRequest{Seq: seq, Command: &qunerv1.SessionRequest_Open{Open: &qunerv1.OpenWindow{Name: name, Devices: devices}}}
}

func closeCommand(seq uint64, id string, sampled bool) *qunerv1.SessionRequest {
	return &qunerv1.SessionRequest{Seq: seq, Command: &qunerv1.SessionRequest_Close{
		Close: &qunerv1.CloseWindow{Id: id, Synced: true, Work: 2, RequireSampled: sampled}}}
}

func markCommand(seq uint64, id, name string) *qunerv1.SessionRequest {
	return &qunerv1.SessionRequest{Seq: seq, Command: &qunerv1.SessionRequest_Mark{Mark: &qunerv1.MarkWindow{Id: id, Name: name}}}
}

// ask sends a command and waits for its answer.
func ask(t testing.TB, s sessionClient, request *qunerv1.SessionRequest) *qunerv1.SessionResponse {
	t.Helper()
	if err := s.Send(request); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetSeq() != request.GetSeq() {
		t.Fatalf("answer %d to command %d", answer.GetSeq(), request.GetSeq())
	}
	return answer
}

func open(t testing.TB, s sessionClient, seq uint64) string {
	t.Helper()
	id := ask(t, s, openCommand(seq, "test")).GetOpened().GetId()
	if len(id) != 32 {
		t.Fatalf("id %q", id)
	}
	return id
}

func openSession(t testing.TB, conn *grpc.ClientConn) sessionClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s, err := qunerv1.NewMeterServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSession(t *testing.T) {
	st := start(t, nil)
	s := openSession(t, dial(t, st.admin()))
	a, b := open(t, s, 10), open(t, s, 11)
	if n := st.meter.OpenCount(); n != 2 {
		t.Fatalf("%d windows", n)
	}
	if stage := ask(t, s, markCommand(12, a, "prefill")).GetMarked().GetStage(); stage.GetName() != "prefill" {
		t.Errorf("%v", stage)
	}
	for seq, id := range map[uint64]string{13: b, 14: a} {
		r := ask(t, s, closeCommand(seq, id, false)).GetClosed()
		if r.GetId() != id || r.GetName() != "test" || r.GetWork() != 2 || len(r.GetDevices()) == 0 || r.GetDurationNs() <= 0 {
			t.Errorf("%v", r)
		}
		if r.GetMethod() == qunerv1.Method_METHOD_UNSPECIFIED || r.GetBackend() == "" {
			t.Errorf("a figure without method or backend: %v", r)
		}
	}
	if n := st.meter.OpenCount(); n != 0 {
		t.Errorf("%d windows left", n)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// A weight or a hint that was given as 0 is no default.
func TestSessionRefusesZeroes(t *testing.T) {
	st := start(t, nil)
	s := openSession(t, dial(t, st.admin()))
	for name, set := range map[string]func(*qunerv1.OpenWindow){
		"weight": func(o *qunerv1.OpenWindow) { o.Weight = new(0.0) },
		"hint":   func(o *qunerv1.OpenWindow) { o.HintJoulesPerUnit = new(0.0) },
	} {
		request := openCommand(1, "w")
		set(request.GetOpen())
		if e := ask(t, s, request).GetError(); codes.Code(e.GetCode()) != codes.InvalidArgument || !strings.Contains(e.GetMessage(), "allowed is") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestSessionLivesOnAfterAnError(t *testing.T) {
	st := start(t, nil)
	s, other := openSession(t, dial(t, st.public())), openSession(t, dial(t, st.public()))
	id, foreign := open(t, s, 1), open(t, other, 1)
	for name, c := range map[string]struct {
		request *qunerv1.SessionRequest
		want    codes.Code
	}{
		"no command":               {&qunerv1.SessionRequest{Seq: 2}, codes.InvalidArgument},
		"bad name":                 {openCommand(3, "a b"), codes.InvalidArgument},
		"no such device":           {openCommand(4, "x", "gpu/GPU-none"), codes.FailedPrecondition},
		"no such window":           {closeCommand(5, "00112233445566778899aabbccddeeff", false), codes.NotFound},
		"another session's window": {closeCommand(6, foreign, false), codes.NotFound},
		"its mark":                 {markCommand(7, foreign, "x"), codes.NotFound},
		"bad mark":                 {markCommand(8, id, "\x1b"), codes.InvalidArgument},
		"too short to be measured": {closeCommand(9, open(t, s, 100), true), codes.FailedPrecondition},
	} {
		answer := ask(t, s, c.request)
		if got := codes.Code(answer.GetError().GetCode()); got != c.want || answer.GetError().GetMessage() == "" {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, answer)
		}
	}
	if r := ask(t, s, closeCommand(200, id, false)).GetClosed(); r.GetId() != id {
		t.Errorf("%v", r)
	}
	if again := ask(t, s, closeCommand(201, id, false)); codes.Code(again.GetError().GetCode()) != codes.NotFound {
		t.Errorf("closed twice: %v", again)
	}
}

func TestSessionAnswersInOrder(t *testing.T) {
	st := start(t, nil)
	s := openSession(t, dial(t, st.public()))
	const n = 200
	sent := make(chan error, 1)
	go func() {
		for i := range uint64(n) {
			if err := s.Send(openCommand(i, fmt.Sprint("w", i))); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	for i := range uint64(n) {
		answer, err := s.Recv()
		if err != nil || answer.GetSeq() != i || answer.GetOpened() == nil {
			t.Fatal(i, answer, err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	eventually(t, "the end of the stream abandons its windows", func() bool { return st.meter.OpenCount() == 0 })
}

func TestManySessionsAtOnce(t *testing.T) {
	st := start(t, nil)
	var all sync.WaitGroup
	for range 64 {
		s := openSession(t, dial(t, st.public()))
		all.Go(func() {
			for i := range uint64(20) {
				for _, request := range []*qunerv1.SessionRequest{openCommand(2*i, "w"), nil} {
					if request == nil {
						answer, err := s.Recv()
						if err != nil {
							t.Error(err)
							return
						}
						request = closeCommand(2*i+1, answer.GetOpened().GetId(), false)
					}
					if err := s.Send(request); err != nil {
						t.Error(err)
						return
					}
				}
				if answer, err := s.Recv(); err != nil || answer.GetClosed() == nil || answer.GetSeq() != 2*i+1 {
					t.Error(answer, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := st.meter.OpenCount(); n != 0 {
		t.Errorf("%d windows left", n)
	}
}

func TestWindowsOfAClientThatDiesAreAbandoned(t *testing.T) {
	st := start(t, nil)
	var raw net.Conn
	conn := dialWith(t, func(ctx context.Context) (_ net.Conn, err error) {
		var d net.Dialer
		raw, err = d.DialContext(ctx, "unix", st.public())
		return raw, err
	})
	s := openSession(t, conn)
	for i := range uint64(5) {
		open(t, s, i)
	}
	if n := st.meter.OpenCount(); n != 5 {
		t.Fatalf("%d windows", n)
	}
	if err := raw.Close(); err != nil { // no goodbye
		t.Fatal(err)
	}
	eventually(t, "a dead client's windows are abandoned", func() bool { return st.meter.OpenCount() == 0 })
}

func TestCPUFiguresAreCoarseOnThePublicSocket(t *testing.T) {
	st := start(t, nil)
	for path, exact := range map[string]bool{st.public(): false, st.admin(): true} {
		s := openSession(t, dial(t, path))
		id := ask(t, s, openCommand(1, "w", "cpu/package-0")).GetOpened().GetId()
		r := ask(t, s, closeCommand(2, id, false)).GetClosed()
		coarse := false
		for _, reason := range r.GetDevices()[0].GetReasons() {
			coarse = coarse || reason == "coarse"
		}
		if coarse == exact {
			t.Errorf("%s: reasons %v", path, r.GetDevices()[0].GetReasons())
		}
	}
}

// FuzzSession gives a session anything a caller may send.
func FuzzSession(f *testing.F) {
	full := openCommand(5, "w", "cpu")
	full.GetOpen().WaitEdge, full.GetOpen().Weight, full.GetOpen().HintJoulesPerUnit, full.GetOpen().Unit = true, new(0.5), new(2.0), "token"
	full.GetOpen().IdleWatts, full.GetOpen().IdleWattsUncertainty = map[string]float64{"cpu": 9}, map[string]float64{"cpu": 1}
	for _, m := range []*qunerv1.SessionRequest{openCommand(1, "w"), openCommand(2, "", "gpu"), markCommand(3, "x", "y"), closeCommand(4, "x", true), full, {}, {Seq: 6, Command: &qunerv1.SessionRequest_Resume{Resume: &qunerv1.ResumeWindow{Id: "x"}}}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	m := aMeter(f, f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		request := new(qunerv1.SessionRequest)
		if proto.Unmarshal(data, request) != nil {
			return
		}
		s := newSession(m, caller{})
		defer s.end()
		answer := s.answer(t.Context(), request)
		if answer.GetSeq() != request.GetSeq() || answer.GetEvent() == nil {
			t.Errorf("%v to %v", answer, request)
		}
		if id := answer.GetOpened().GetId(); id != "" {
			end := closeCommand(9, id, false)
			end.GetClose().WaitEdge = request.GetOpen().GetWaitEdge()
			closed := s.answer(t.Context(), end)
			if closed.GetClosed() == nil {
				t.Errorf("opened by %v, closed: %v", request, closed)
			}
			if _, err := proto.Marshal(closed); err != nil {
				t.Errorf("result of %v: %v", request, err)
			}
		}
		if code := answer.GetError().GetCode(); code == uint32(codes.Internal) {
			t.Errorf("%v to %v", answer, request)
		}
	})
}
