package client

import (
	"errors"
	"testing"
)

func TestWhoIsBelieved(t *testing.T) {
	const overflow = 65534
	for _, c := range []struct {
		name     string
		peer     uint32
		rules    peerRules
		believed bool
	}{
		{"root's daemon", 0, peerRules{self: 1000}, true},
		{"one's own daemon", 1000, peerRules{self: 1000}, true},
		{"root does not believe a user's", 1000, peerRules{self: 0}, false},
		{"a stranger", 1001, peerRules{self: 1000}, false},
		{"a stranger with a large uid", 4_000_000_000, peerRules{self: 1000}, false},
		{"nobody, outside a user namespace", overflow, peerRules{self: 1000}, false},
		{"the host's root, seen from a container", overflow, peerRules{self: 0, inUserNS: true}, true},
		{"the same on the admin socket", overflow, peerRules{self: 0, inUserNS: true, admin: true}, false},
		{"a stranger in the same container", 1001, peerRules{self: 0, inUserNS: true}, false},
	} {
		c.rules.overflow = overflow
		err := trusted(c.peer, c.rules)
		if (err == nil) != c.believed || err != nil && !errors.Is(err, ErrPeer) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUserNamespaceIsToldByItsMap(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": false,
		"         0       1000          1\n": true,
		"0 0 4294967294\n":                   true,
		"0 100000 65536\n65536 0 1\n":        true,
		"":                                   false,
	} {
		if got := mapped(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
