package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// daemon is this program as the daemon, in a process of its own, so that its CPU time is nobody else's.
type daemon struct {
	dir  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	says *bufio.Scanner
}

func startDaemon(ctx context.Context, parent string, counting bool) (*daemon, error) {
	dir, err := os.MkdirTemp(parent, "d")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, cmd: exec.CommandContext(ctx, self, "-serve", dir, fmt.Sprintf("-counting=%t", counting))}
	d.cmd.Stderr = os.Stderr
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.says = bufio.NewScanner(out)
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := d.state(); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

// state asks the daemon's process what it holds.
func (d *daemon) state() (s state, err error) {
	if _, err := io.WriteString(d.in, "state\n"); err != nil {
		return s, err
	}
	if !d.says.Scan() {
		return s, errors.Join(errors.New("the daemon's process has ended"), d.says.Err())
	}
	return s, json.Unmarshal(d.says.Bytes(), &s)
}

// idle waits until no window is open and the process holds no more than it should, and returns what that is.
func (d *daemon) idle(goroutines int) (s state, err error) {
	for range 200 {
		if s, err = d.state(); err != nil || s.Open == 0 && s.Goroutines <= goroutines {
			return s, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return s, nil
}

func (d *daemon) stop() error { return errors.Join(d.in.Close(), d.cmd.Wait()) }

func (d *daemon) public() string { return filepath.Join(d.dir, "run/quner/quner.sock") }
func (d *daemon) admin() string  { return filepath.Join(d.dir, "run/quner-admin/admin.sock") }
func (d *daemon) bare() string   { return filepath.Join(d.dir, "bare.sock") }

// dial connects to a socket; raw, if not nil, gets the connection itself.
func dial(path string, raw *net.Conn) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///quner", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
			if raw != nil {
				*raw = conn
			}
			return conn, err
		}))
}

// library connects by the Go client, as a program that has itself measured does.
func (d *daemon) library(ctx context.Context) (do, done func() error, err error) {
	c, err := client.Dial(ctx, client.Options{Dir: filepath.Join(d.dir, "run"), Admin: true, Strict: true})
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		w, err := c.Open(ctx, client.OpenOptions{Name: "bench"})
		if err != nil {
			return err
		}
		_, err = w.Close(ctx, client.CloseOptions{Work: 1, Synced: true})
		return err
	}, c.Close, nil
}

// session is a stream of commands.
type session struct {
	grpc.BidiStreamingClient[qunerv1.SessionRequest, qunerv1.SessionResponse]
	seq uint64
}

func openSession(ctx context.Context, conn *grpc.ClientConn) (*session, error) {
	s, err := qunerv1.NewMeterServiceClient(conn).Session(ctx)
	return &session{BidiStreamingClient: s}, err
}

func (s *session) sendOpen() error {
	s.seq++
	return s.Send(&qunerv1.SessionRequest{Seq: s.seq, Command: &qunerv1.SessionRequest_Open{Open: &qunerv1.OpenWindow{Name: "bench"}}})
}

func (s *session) opened() (id string, err error) {
	answer, err := s.Recv()
	if err != nil {
		return "", err
	}
	if e := answer.GetError(); e != nil {
		return "", errors.New(e.GetMessage())
	}
	return answer.GetOpened().GetId(), nil
}

// openMany opens windows, all sent before the first answer is read.
func (s *session) openMany(n int) error {
	sent := make(chan error, 1)
	go func() {
		for range n {
			if err := s.sendOpen(); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for range n {
		if _, err := s.opened(); err != nil {
			return err
		}
	}
	return <-sent
}

// window opens and closes one.
func (s *session) window() error {
	if err := s.sendOpen(); err != nil {
		return err
	}
	id, err := s.opened()
	if err != nil {
		return err
	}
	s.seq++
	if err := s.Send(&qunerv1.SessionRequest{Seq: s.seq, Command: &qunerv1.SessionRequest_Close{
		Close: &qunerv1.CloseWindow{Id: id, Work: 1, Synced: true}}}); err != nil {
		return err
	}
	answer, err := s.Recv()
	if err == nil && answer.GetClosed() == nil {
		err = errors.New(answer.GetError().GetMessage())
	}
	return err
}
