package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/qunerd/quner/api/client"
)

// callTimeout bounds a unary call: a write to a lever may take seconds, minutes never.
const callTimeout = 30 * time.Second

// reader connects to the admin socket if the caller may use it, else to the public one.
func (a *app) reader(ctx context.Context) (*client.Client, error) {
	c, err := a.admin(ctx)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return client.Dial(ctx, client.Options{Dir: a.dir, Strict: true})
	}
	return c, err
}

// admin connects to the admin socket.
func (a *app) admin(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, client.Options{Dir: a.dir, Admin: true, Strict: true})
}

// ask makes a unary call on the socket that dial connects to, with a sign of life if it takes long.
func ask[R any](
	ctx context.Context, a *app, dial func(context.Context) (*client.Client, error),
	call func(context.Context, grpc.ClientConnInterface) (R, error),
) (answer R, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer a.waiting("asking qunerd")()
	c, err := dial(ctx)
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return call(ctx, cleanConn{c.Conn()})
}

// cleanConn makes all text that comes from the daemon harmless to a terminal before anybody can print it.
type cleanConn struct{ grpc.ClientConnInterface }

func (c cleanConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if err == nil {
		cleanReply(reply)
	}
	return err
}

func (c cleanConn) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConnInterface.NewStream(ctx, d, method, opts...)
	if err != nil {
		return nil, err
	}
	return cleanStream{s}, nil
}

type cleanStream struct{ grpc.ClientStream }

func (s cleanStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		cleanReply(m)
	}
	return err
}

func cleanReply(reply any) {
	if m, ok := reply.(proto.Message); ok {
		cleanMessage(m.ProtoReflect())
	}
}
