package levers

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// TestErrno is what the kernel's words mean, lever by lever.
func TestErrno(t *testing.T) {
	type outcome struct {
		reason host.Reason
		says   string // in the error, or in the remark where it is none
		remark bool   // it is no error
	}
	rigs := map[string]func(*testing.T) *rig{"governor": governorRig, "preference": eppRig, "limit": packageRig, "card": amdCapRig}
	for _, c := range []struct {
		rig   string
		errno unix.Errno
		want  outcome
	}{
		{"preference", unix.EBUSY, outcome{says: "implied", remark: true}},
		{"governor", unix.EBUSY, outcome{host.Unreadable, "all CPUs of the policy are offline", false}},
		{"governor", unix.EINVAL, outcome{host.NotSupported, "not supported", false}},
		{"preference", unix.EINVAL, outcome{host.NotSupported, "not supported", false}},
		{"limit", unix.EINVAL, outcome{host.NotSupported, "not supported", false}},
		{"card", unix.EINVAL, outcome{host.NotSupported, "not supported", false}},
		{"limit", unix.ENODATA, outcome{host.BIOSLocked, "BIOS", false}},
		{"governor", unix.EROFS, outcome{host.ReadOnlySysfs, "read-only here", false}},
		{"preference", unix.EROFS, outcome{host.ReadOnlySysfs, "read-only here", false}},
		{"limit", unix.EROFS, outcome{host.ReadOnlySysfs, "read-only here", false}},
		{"card", unix.EROFS, outcome{host.ReadOnlySysfs, "read-only here", false}},
		{"card", unix.EIO, outcome{says: "suspended", remark: true}},
		{"card", unix.EPERM, outcome{says: "suspended", remark: true}},
		{"governor", unix.EACCES, outcome{host.NoPermission, "only root may", false}},
		{"limit", unix.EACCES, outcome{host.NoPermission, "only root may", false}},
		{"card", unix.EACCES, outcome{host.NoPermission, "only root may", false}},
	} {
		t.Run(c.rig+" "+unix.ErrnoName(c.errno), func(t *testing.T) {
			r := rigs[c.rig](t)
			found, b := r.m.settings(), r.m.bank()
			r.refuse(c.errno)
			writes, err := b.Apply(t.Context(), NewPoint(Setting{r.name, r.chosen}))
			switch {
			case c.want.remark:
				if err != nil || len(writes) != 1 || !strings.Contains(writes[0].Note, c.want.says) {
					t.Errorf("%+v, %v", writes, err)
				}
			case host.ReasonOf(err) != c.want.reason || !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.want.says):
				t.Errorf("%v (%s), want %q (%s)", err, host.ReasonOf(err), c.want.says, c.want.reason)
			}
			if b.Held() != 0 || r.m.settings() != found {
				t.Errorf("%d held; host has %q", b.Held(), r.m.settings())
			}
		})
	}
}

// The same of NVIDIA's library, whose word for EINVAL is that the range does not hold the value.
func TestEdgeOfABoard(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.board.with(func(b *board) { b.lo += unit.Milliwatt }) // the board states 100 W and takes more
	writes := m.apply(b, Setting{boardCap, "100000"})
	if len(writes) != 1 || writes[0].To != "101000" || b.lever(boardCap).Span().Lo != 101000 {
		t.Errorf("%+v", writes)
	}
	m.board.with(func(b *board) { b.setErr = host.ErrOutOfRange })
	if _, err := b.Apply(t.Context(), NewPoint(Setting{boardCap, "200000"})); host.ReasonOf(err) != host.NotSupported {
		t.Errorf("inside the range: %v (%s)", err, host.ReasonOf(err))
	}
}

// What is gone at the restore is noted and keeps its entry; it is no error.
func TestGoneAtRestore(t *testing.T) {
	for name, newRig := range map[string]func(*testing.T) *rig{
		"governor": governorRig, "preference": eppRig, "limit": packageRig, "card": amdCapRig, "board": gpuCapRig,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			found, b := r.m.settings(), r.m.bank()
			r.m.apply(b, Setting{r.name, r.chosen})
			r.vanish(true)
			out, err := b.Restore(t.Context(), false)
			if err != nil || len(out.Left) != 1 || !out.Left[0].Kept || b.Held() != 1 {
				t.Errorf("%+v, %v; %d held", out, err, b.Held())
			}
			r.vanish(false)
			r.m.restore(r.m.bank())
			if r.m.settings() != found {
				t.Errorf("back again: %q, was %q", r.m.settings(), found)
			}
		})
	}
}

// A policy whose CPUs are offline keeps its directory; each file answers EBUSY.
func TestOfflineAtRestore(t *testing.T) {
	m := newMachine(t)
	found, b := m.settings(), m.bank()
	m.apply(b, Setting{policy0, "powersave"})
	m.breakFiles(func(a host.Access) error {
		if a.Name == governorFile(0) {
			return unix.EBUSY
		}
		return nil
	})
	for range 2 {
		r, err := b.Restore(t.Context(), false)
		if err != nil || len(r.Left) != 1 || !r.Left[0].Kept || !strings.Contains(r.Left[0].Why, "offline") || b.Held() != 1 {
			t.Errorf("%+v, %v; %d held", r, err, b.Held())
		}
		b = m.bank() // and to the next process the lever is not there
	}
	m.breakFiles(nil)
	m.restore(m.bank())
	if m.settings() != found {
		t.Errorf("online again: %q, was %q", m.settings(), found)
	}
}

// A condition is said when it begins and when it ends, not each time; a read-only /sys once for all levers.
func TestTroubleIsSaidOnce(t *testing.T) {
	m := newMachine(t)
	b := m.bank()
	m.breakFiles(func(a host.Access) error {
		if a.Op == host.OpWrite && strings.HasPrefix(a.Name, "sys/") {
			return unix.EROFS
		}
		return nil
	})
	p := NewPoint(Setting{policy0, "powersave"}, Setting{policy1, "powersave"})
	for range 3 {
		if _, err := b.Apply(t.Context(), p); !errors.Is(err, unix.EROFS) {
			t.Fatal(err)
		}
	}
	if n := strings.Count(m.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("said %d times:\n%s", n, m.log.String())
	}
	m.breakFiles(nil)
	m.apply(b, p...)
	m.apply(b, p...)
	if n := strings.Count(m.log.String(), "lever is moved again"); n != 1 {
		t.Errorf("its end is said %d times:\n%s", n, m.log.String())
	}
}
