package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func TestQuota(t *testing.T) {
	q := newQuota(3, 2)
	leave := map[string]func(){}
	admit := func(name string, uid uint32, want error) {
		t.Helper()
		release, over, err := q.admit(uid)
		if err != nil || !errors.Is(over, want) {
			t.Fatalf("%s: over %v, error %v", name, over, err)
		}
		leave[name] = release
	}
	admit("a1", 1, nil)
	admit("a2", 1, nil)
	admit("a3", 1, errTooMany)
	admit("b1", 2, nil)
	admit("c1", 3, errTooMany)
	leave["a1"]()
	admit("c2", 3, nil)
	for name := range leave {
		if name != "a1" {
			leave[name]()
		}
	}
	if q.all != 0 || q.refusing != 0 || len(q.byUID) != 0 {
		t.Errorf("left over: %+v", q)
	}
}

func TestQuotaTellsOnlySoManyThatTheyAreRefused(t *testing.T) {
	q := newQuota(1, 1)
	for i := range refusalPlaces + 2 {
		release, over, err := q.admit(1)
		switch {
		case i == 0 && (over != nil || err != nil),
			i > 0 && i <= refusalPlaces && (over == nil || err != nil),
			i > refusalPlaces && (!errors.Is(err, errTooMany) || release != nil):
			t.Fatalf("connection %d: over %v, error %v", i, over, err)
		}
	}
}

func TestOneConnectionTooManyIsToldSo(t *testing.T) {
	s := start(t, func(o *Options) { o.Limits.ConnectionsPerUID = 2 })
	ask := func() error {
		_, err := qunerv1.NewStatusServiceClient(dial(t, s.public())).Status(t.Context(), &qunerv1.StatusRequest{})
		return err
	}
	for i := range 2 {
		if err := ask(); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := ask(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "2 connections") {
		t.Errorf("the third: %v", err)
	}
	// The admin socket has places of its own.
	if _, err := qunerv1.NewStatusServiceClient(dial(t, s.admin())).Status(t.Context(), &qunerv1.StatusRequest{}); err != nil {
		t.Errorf("the admin socket: %v", err)
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	s := start(t, func(o *Options) {
		o.Limits.ConnectionsPerUID = 1
		o.Limits.Handshake = 100 * time.Millisecond
	})
	for _, greeting := range []string{"", "GET / HTTP/1.1\r\n\r\n", http2.ClientPreface, http2.ClientPreface + "\x00\x00"} {
		conn, err := net.Dial("unix", s.public())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, greeting); err != nil {
			t.Fatal(err)
		}
		// A slow-loris holds its place for no longer than a handshake may take.
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %q: %v", greeting, err)
		}
		_ = conn.Close()
		eventually(t, "the place is free again", func() bool {
			c := dial(t, s.public())
			defer c.Close()
			_, err := qunerv1.NewStatusServiceClient(c).Status(t.Context(), &qunerv1.StatusRequest{})
			return err == nil
		})
	}
}

func TestMessagesAndHeadersAreBounded(t *testing.T) {
	s := start(t, func(o *Options) { o.Limits.MessageBytes = 8 << 10 })
	sess := openSession(t, dial(t, s.public()))
	id := open(t, sess, 1)
	if err := sess.Send(openCommand(2, "w", strings.Repeat("x", 9<<10))); err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message too long: %v", err)
	}
	eventually(t, "its windows are abandoned, "+id+" too", func() bool { return s.meter.OpenCount() == 0 })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-long", strings.Repeat("x", maxHeaderBytes))
	if _, err := qunerv1.NewStatusServiceClient(dial(t, s.public())).Status(ctx, &qunerv1.StatusRequest{}); err == nil {
		t.Error("a header too long was taken")
	}
}

func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	s := start(t, func(o *Options) { o.Limits.StreamsPerConn = 2 })
	conn := dial(t, s.public())
	first, second := openSession(t, conn), openSession(t, conn)
	open(t, first, 1)
	open(t, second, 1)
	// A client that heeds the limit waits for its turn.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := qunerv1.NewStatusServiceClient(conn).Status(ctx, &qunerv1.StatusRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a third stream: %v", err)
	}
}

func TestIdleConnectionsAreClosedAndHeldStreamsAreNot(t *testing.T) {
	s := start(t, func(o *Options) { o.Limits.IdleConnection = 100 * time.Millisecond })
	holding := openSession(t, dial(t, s.public()))
	id := open(t, holding, 1)
	idle, err := net.Dial("unix", s.public())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	if err := http2.NewFramer(&hello, nil).WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Write(hello.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := idle.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(io.Discard, idle)
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatalf("no goodbye to an idle connection: %v", err)
		}
		if _, ok := frame.(*http2.GoAwayFrame); ok {
			break
		}
	}
	if r := ask(t, holding, closeCommand(2, id, false)).GetClosed(); r.GetId() != id {
		t.Errorf("%v", r)
	}
}

// request sends one call with a raw path and returns the code it is answered with, or -1 where the server only reset
// the stream or the connection.
func request(t *testing.T, path, target string) int {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var headers bytes.Buffer
	enc := hpack.NewEncoder(&headers)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", target}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(conn, conn)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := errors.Join(frames.WriteSettings(),
		frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}),
		frames.WriteData(1, true, make([]byte, 5))); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			return -1
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == "grpc-status" {
					code := 0
					for _, d := range h.Value {
						code = 10*code + int(d-'0')
					}
					return code
				}
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return -1
		}
	}
}

func TestOddPathsAreClosed(t *testing.T) {
	s := start(t, nil)
	const admin = "quner.v1.AdminService/Apply"
	for target, want := range map[string]codes.Code{
		"/quner.v1.StatusService/Status": codes.OK,
		"/" + admin:                      codes.PermissionDenied,
	} {
		if got := request(t, s.public(), target); got != int(want) {
			t.Errorf("%s: %d, want %v", target, got, want)
		}
	}
	for _, target := range []string{
		admin, "//" + admin, "/./" + admin, "/" + admin + "/", "/" + admin + "?x", "/" + strings.ToUpper(admin),
		"/quner.v1.AdminService%2FApply", "/quner.v1.StatusService/../AdminService/Apply", "/quner.v1.AdminService//Apply",
		"/quner.v1.StatusService/Apply", "/", "", "*", "/quner.v1.AdminService/", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/" + strings.Repeat("a", 4000) + "/b", "/\x1b[31m/x",
	} {
		for _, path := range []string{s.public(), s.admin()} {
			if got := request(t, path, target); got == int(codes.OK) || got == int(codes.Internal) {
				t.Errorf("%q: %d", target, got)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 0 {
		t.Errorf("the daemon was reached: %v", s.calls)
	}
}

func TestRapidResetLeavesRootServed(t *testing.T) {
	s := start(t, nil)
	conn, err := net.Dial("unix", s.public())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	var headers bytes.Buffer
	enc := hpack.NewEncoder(&headers)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", qunerv1.StatusService_WatchStatus_FullMethodName},
		{":authority", "x"}, {"content-type", "application/grpc"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(conn, nil)
	err = frames.WriteSettings()
	for id := uint32(1); id < 20_000 && err == nil; id += 2 {
		err = errors.Join(frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers.Bytes(), EndHeaders: true}),
			frames.WriteRSTStream(id, http2.ErrCodeCancel))
	}
	// The server may well have hung up on this one; all others go on.
	for _, path := range []string{s.admin(), s.public()} {
		if _, err := qunerv1.NewStatusServiceClient(dial(t, path)).Status(t.Context(), &qunerv1.StatusRequest{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
