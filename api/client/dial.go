package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// EnvSocket is the environment variable whose directory takes the place of /run: it addresses another daemon, a
// simulated one.
const EnvSocket = "QUNER_SOCKET"

// DefaultTimeout bounds each command to the daemon when Options.Timeout is 0.
const DefaultTimeout = 3 * time.Second

// ErrUnreachable is wrapped by each error that says that no daemon answered. The cause is wrapped too: fs.ErrNotExist
// (no socket), fs.ErrPermission (not for this caller), ECONNREFUSED (nobody listens), ErrPeer.
var ErrUnreachable = errors.New("daemon not reached")

// Options say which daemon to talk to and how. The zero value is the system's daemon on its public socket.
type Options struct {
	Dir     string        // in the place of /run; empty: $QUNER_SOCKET, else /run
	Admin   bool          // the admin socket instead of the public one
	Strict  bool          // an unreachable daemon is an error instead of an unknown result
	Timeout time.Duration // bound on each command to the daemon, also while it restarts; 0: DefaultTimeout
}

// SocketPath returns the path of the socket that o addresses.
func (o Options) SocketPath() string {
	dir := cmp.Or(o.Dir, os.Getenv(EnvSocket), "/run")
	if o.Admin {
		return filepath.Join(dir, "quner-admin", "admin.sock")
	}
	return filepath.Join(dir, "quner", "quner.sock")
}

// Client is a connection to one daemon, with at most one metering session on it. It is safe for concurrent use and
// connects anew by itself after the daemon was away.
//
// How long it may hold a request up is bounded. Where nobody is at the socket (no daemon) nothing waits: an Open and a Close
// cost microseconds. A daemon that hangs is waited for once, for Options.Timeout (for a window that may wake a board 15 s);
// from then on Open, Mark and Close come back at once, with an unknown result, until it answers: that is found out in the
// background. Windows that were open when the daemon went away wait, all of them together, for Options.Timeout after that,
// and for a second if nobody is at the socket any more; after that closing one does not wait.
//
// Windows that were open when the daemon went away it takes up again at
// the one that comes next, within a minute of its start: their results have the reason daemon_restarted.
type Client struct {
	conn    *grpc.ClientConn
	dialer  *dialer
	strict  bool
	timeout time.Duration

	mu      sync.Mutex // guards session and mute
	session *session
	mute    bool // the daemon was waited for in vain when a session was to begin

	windowsMu sync.Mutex // guards windows, and the session of each
	windows   map[*Window]bool
	closing   chan struct{} // closed by Close
	resuming  sync.WaitGroup
}

// Dial connects to the daemon. If none can be reached it returns an error that wraps ErrUnreachable when o.Strict is
// set; else it returns a client that measures as soon as a daemon is there.
func Dial(ctx context.Context, o Options) (*Client, error) {
	c := &Client{
		dialer:  &dialer{path: o.SocketPath(), admin: o.Admin},
		strict:  o.Strict,
		timeout: cmp.Or(o.Timeout, DefaultTimeout),
		windows: map[*Window]bool{},
		closing: make(chan struct{}),
	}
	conn, err := grpc.NewClient("passthrough:///qunerd",
		grpc.WithContextDialer(c.dialer.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the kernel names both ends of a Unix socket
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 10 * time.Second},
			MinConnectTimeout: c.timeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.dialer.path, err)
	}
	c.conn = conn
	if err := c.connect(ctx); err != nil && c.strict {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// connect waits until the connection stands or has failed once.
func (c *Client) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.conn.Connect()
	for {
		state := c.conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return c.dialer.unreachable(errors.New("it does not speak the protocol"))
		case connectivity.Idle, connectivity.Connecting:
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			c.mu.Lock()
			c.mute = true
			c.mu.Unlock()
			return c.dialer.unreachable(context.Cause(ctx))
		}
	}
}

// Conn returns the connection for the services that this package does not wrap. It belongs to the client.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Close ends the session, which orphans the windows still open on it, and the connection.
func (c *Client) Close() error {
	c.windowsMu.Lock()
	select {
	case <-c.closing:
	default:
		close(c.closing)
	}
	c.windowsMu.Unlock()
	err := c.conn.Close() // first: who waits for it holds the mutex
	c.mu.Lock()
	s := c.session
	c.session = nil
	c.mu.Unlock()
	if s != nil {
		s.end()
	}
	c.resuming.Wait()
	return err
}

// dialer connects to one socket and remembers why it last could not: gRPC keeps only the text of that.
type dialer struct {
	path  string
	admin bool

	mu   sync.Mutex
	last error
}

func (d *dialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := d.connect(ctx)
	d.mu.Lock()
	d.last = err
	d.mu.Unlock()
	return conn, err
}

func (d *dialer) connect(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.path)
	if err != nil {
		// The wrapper repeats the path; the errno below it is the fact.
		if sys := new(os.SyscallError); errors.As(err, &sys) {
			err = sys.Err
		}
		return nil, err
	}
	if err := checkPeer(conn.(*net.UnixConn), d.admin); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// refused reports whether nobody was at the socket when it was last tried.
func (d *dialer) refused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Is(d.last, fs.ErrNotExist) || errors.Is(d.last, syscall.ECONNREFUSED) || errors.Is(d.last, fs.ErrPermission)
}

// unreachable explains a failed call by the last failed connect, or by cause if connecting worked.
func (d *dialer) unreachable(cause error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Errorf("%s: %w: %w", d.path, ErrUnreachable, cmp.Or(d.last, cause))
}
