package client

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrPeer is wrapped by the error that says that a socket is held by somebody who is neither root nor the caller: what
// it tells is not to be believed.
var ErrPeer = errors.New("socket is held by a stranger")

// checkPeer asks the kernel who listens at the other end of conn and refuses a stranger.
func checkPeer(conn *net.UnixConn, admin bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	return trusted(cred.Uid, peerRules{
		self:     uint32(os.Geteuid()),
		overflow: overflowUID(),
		admin:    admin,
		inUserNS: inUserNamespace(),
	})
}

// peerRules is what decides whether a peer is believed.
type peerRules struct {
	self     uint32 // the caller's own uid: a daemon of one's own
	overflow uint32 // stands for every uid that the user namespace does not map, the host's root among them
	admin    bool
	inUserNS bool
}

func trusted(peer uint32, r peerRules) error {
	switch {
	case peer == 0, peer == r.self:
		return nil
	case r.inUserNS && peer == r.overflow && !r.admin:
		return nil
	}
	if r.self == 0 {
		return fmt.Errorf("%w: uid %d (allowed to root: root's own)", ErrPeer, peer)
	}
	return fmt.Errorf("%w: uid %d (allowed: root and uid %d)", ErrPeer, peer, r.self)
}

// overflowUID is the uid the kernel shows for those it cannot map; 65534 unless somebody changed it.
func overflowUID() uint32 {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err == nil {
		if uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil {
			return uint32(uid)
		}
	}
	return 65534
}

// inUserNamespace tells whether uids are mapped here: outside, the map is the identity over all of them.
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false // no /proc: trust no more than is usual
	}
	return mapped(string(text))
}

// mapped reads the text of a uid_map.
func mapped(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) > 0 && strings.Join(f, " ") != "0 0 4294967295"
}
