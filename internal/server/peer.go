package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Peer is who is at the other end of a connection, as the kernel saw it connect.
type Peer struct {
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary
	PID    int32    // never for what is allowed: the process may be long gone
}

// In reports whether the peer is a member of a group.
func (p Peer) In(gid uint32) bool { return p.GID == gid || slices.Contains(p.Groups, gid) }

// peerCredentials names callers by what the kernel knows of their socket, and counts their connections.
type peerCredentials struct{ quota *quota }

// refusalTime is how long a connection beyond the quota may stay to be told so.
const refusalTime = time.Second

// ServerHandshake asks the kernel who connected. The connection must be the one accepted, not something wrapped around it:
// a wrapper's idea of a file descriptor is not to be trusted with identity.
func (c *peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, fmt.Errorf("connection of type %T: not a Unix socket", conn)
	}
	p, err := peerOf(socket)
	if err != nil {
		return nil, nil, err
	}
	release, over, err := c.quota.admit(p.UID)
	if err != nil {
		return nil, nil, err
	}
	counted := &countedConn{UnixConn: socket, release: release}
	if over != nil {
		counted.cut = time.AfterFunc(refusalTime, func() { _ = socket.Close() })
	}
	return counted, identity{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, Peer: p, over: over,
	}, nil
}

// ClientHandshake is not for servers.
func (c *peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("credentials of a server cannot connect")
}

// Info says what kind of credentials these are.
func (c *peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: identity{}.AuthType()}
}

// Clone returns credentials with the same quota.
func (c *peerCredentials) Clone() credentials.TransportCredentials { return &peerCredentials{c.quota} }

// OverrideServerName does nothing: a Unix socket has no server name.
func (c *peerCredentials) OverrideServerName(string) error { return nil }

// identity is a connection's peer, and why it has one connection too many if it has.
type identity struct {
	credentials.CommonAuthInfo
	Peer
	over error
}

// AuthType names the kind of identity.
func (identity) AuthType() string { return "unix-peer" }

// identityOf returns who makes a call. A call on a connection that did not pass ServerHandshake has no identity.
func identityOf(ctx context.Context) (identity, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if id, ok := p.AuthInfo.(identity); ok {
			return id, nil
		}
	}
	return identity{}, fmt.Errorf("%w: the kernel did not say who calls", errDenied)
}

// countedConn gives its place in the quota back when it is closed.
type countedConn struct {
	*net.UnixConn
	cut     *time.Timer
	once    sync.Once
	release func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		if c.cut != nil {
			c.cut.Stop()
		}
		c.release()
	})
	return c.UnixConn.Close()
}

// peerOf reads SO_PEERCRED and SO_PEERGROUPS.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	var p Peer
	var inner error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner != nil {
			return
		}
		p = Peer{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid}
		p.Groups, inner = peerGroups(fd)
	})
	if err := errors.Join(err, inner); err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	return p, nil
}

// maxGroups is the kernel's own limit, NGROUPS_MAX.
const maxGroups = 65536

// peerGroups reads SO_PEERGROUPS, which package unix offers only as a text: gids are 32-bit numbers with zero bytes in
// them. The kernel says ERANGE, and how much it wants, when the buffer is too small.
func peerGroups(fd uintptr) ([]uint32, error) {
	for n := 32; n <= maxGroups; {
		groups := make([]uint32, n)
		size := uint32(n * 4) //nolint:gosec // at most 256 KiB
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			return groups[:min(int(size/4), n)], nil
		case unix.ERANGE:
			n = max(2*n, int(size/4))
		default:
			return nil, fmt.Errorf("groups: %w", errno)
		}
	}
	return nil, fmt.Errorf("groups: more than %d", maxGroups)
}
