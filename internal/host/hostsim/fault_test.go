package hostsim

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

func TestFail(t *testing.T) {
	s := newSim(t, fixture(t, "workstation"))
	sys := s.Host().Sys
	for _, name := range []string{
		"sys/" + packageCounter,
		"sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj",
		"sys/class/powercap/intel-rapl:?/energy_uj",
	} {
		heal := s.Fail(host.OpRead, name, unix.EINVAL)
		if _, err := sys.ReadUint(packageCounter); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := sys.ReadUint("class/powercap/intel-rapl:0:1/energy_uj"); err != nil {
			t.Errorf("%s broke another counter: %v", name, err)
		}
		heal()
		heal()
		if _, err := sys.ReadUint(packageCounter); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
	held, err := sys.Open(packageCounter)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Fail(host.OpRead, "sys/"+packageCounter, unix.EIO)()
	if _, err := held.ReadAt(make([]byte, 32)); !errors.Is(err, unix.EIO) {
		t.Errorf("a file held open: %v", err)
	}
	defer s.Fail(host.OpRename, "var/points.json", unix.ENOSPC)()
	if err := s.Host().Var.Replace("points.json", []byte("{}"), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a rename to the name: %v", err)
	}
	// A refused write changes nothing.
	before := s.Digest()
	defer s.Fail(host.OpWrite, "sys/"+governor0, unix.EROFS)()
	if err := sys.Write(governor0, []byte("powersave")); !errors.Is(err, unix.EROFS) {
		t.Errorf("a write: %v", err)
	}
	if s.Digest() != before {
		t.Error("the refused write has changed the machine")
	}
}

func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation"))
		release := s.Hang(host.OpRead, "sys/"+packageCounter)
		done := make(chan error, 1)
		go func() {
			_, err := s.Host().Sys.ReadUint(packageCounter)
			done <- err
		}()
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("a hanging read came back: %v", err)
		default:
		}
		if _, err := s.Host().Sys.ReadUint("class/powercap/intel-rapl:0:0/energy_uj"); err != nil {
			t.Errorf("another file: %v", err)
		}
		release()
		if err := <-done; err != nil {
			t.Errorf("released: %v", err)
		}
	})
}

func TestBoardFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation"))
		gpu := openGPU(t, s)
		heal := s.FailGPU(a40, "energy", host.ErrNotSupported)
		if r, err := gpu.Read(t.Context(), 0); err != nil || !errors.Is(r.EnergyErr, host.ErrNotSupported) || r.PowerErr != nil {
			t.Errorf("reading %+v, %v", r, err)
		}
		heal()
		release := s.HangGPU(a40, "set_limit")
		if _, err := gpu.SetLimit(t.Context(), 200*unit.Watt); !errors.Is(err, host.ErrHung) || !gpu.Hung() {
			t.Errorf("a hanging write: %v", err)
		}
		release()
		synctest.Wait()
		if p, err := gpu.Limit(t.Context()); p != 200*unit.Watt || err != nil {
			t.Errorf("the late write left %v, %v", p, err)
		}
		defer s.FailGPU("", "init", host.ErrNoPermission)()
		other := host.NewGPUs(s.driver())
		if err := other.Open(t.Context()); err != nil || !errors.Is(other.Why(), host.ErrNoPermission) {
			t.Errorf("a library that cannot be opened: %v, %v", err, other.Why())
		}
	})
}

func TestTouches(t *testing.T) {
	s := newSim(t, fixture(t, "workstation"))
	openGPU(t, s)
	gate, _ := s.Touches("sys/") // it looks whether a board sleeps
	sys := s.Host().Sys
	_, _ = sys.Read(packageCounter)
	_, _ = sys.Read("devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj")
	_, _ = sys.List("class/powercap")
	_ = sys.Write(packageLimit, []byte("60000000"))
	_ = s.Host().Run.ReplaceVolatile("status.json", nil, 0o644)
	_, _ = s.boards[0].Power()
	for prefix, want := range map[string][2]int{
		"sys/class/powercap":                       {2, 1},
		"sys/devices/virtual/powercap/intel-rapl/": {2, 1},
		"sys/":                  {gate + 3, 1},
		"run/":                  {0, 3}, // remove, create, rename
		"gpu/" + a40 + "/power": {1, 0},
		"gpu//init":             {1, 0},
		"etc/":                  {0, 0},
	} {
		if r, w := s.Touches(prefix); [2]int{r, w} != want {
			t.Errorf("%s: %d reads, %d writes, want %v", prefix, r, w, want)
		}
	}
}

// life is a process that changes files and settings: nine boundaries.
func life(s *Sim) error {
	h := s.Host()
	return errors.Join(
		h.Var.Replace("rollback.json", []byte("0123456789"), 0o600), // remove, create, sync, rename, sync
		h.Sys.Write(governor0, []byte("powersave")),
		s.boards[0].SetLimit(200*unit.Watt),
		h.Sys.Write(governor0, []byte("schedutil")),
		s.boards[0].SetLimit(300*unit.Watt),
	)
}

// TestCut crashes a life at each boundary and looks at what is left.
func TestCut(t *testing.T) {
	const boundaries = 9
	type picture struct{ journal, governor, limit string }
	look := func(s *Sim) picture {
		s.Heal()
		journal, err := os.ReadFile(s.Host().Var.File("rollback.json"))
		if errors.Is(err, fs.ErrNotExist) {
			journal = []byte("none")
		}
		set := s.Settings()
		return picture{string(journal), set["sys/"+governor0], set["gpu0/limit_mw"]}
	}
	const is, was = "powersave\n", "schedutil\n"
	after := []picture{ // of 0, 1, 2 … boundaries
		{"none", was, "300000"}, {"none", was, "300000"}, {"none", was, "300000"}, {"none", was, "300000"},
		{"0123456789", was, "300000"}, {"0123456789", was, "300000"},
		{"0123456789", is, "300000"}, {"0123456789", is, "200000"}, {"0123456789", was, "200000"}, {"0123456789", was, "300000"},
	}
	for k := 1; k <= boundaries+1; k++ {
		for _, torn := range []bool{false, true} {
			s := newSim(t, fixture(t, "workstation"))
			s.CutAt(k, torn)
			err := life(s)
			if (k <= boundaries) != errors.Is(err, ErrCut) {
				t.Errorf("cut at %d: %v", k, err)
			}
			if _, err := s.Host().Sys.Read(governor0); k <= boundaries && !errors.Is(err, ErrCut) {
				t.Errorf("cut at %d: the dead read on: %v", k, err)
			}
			want := after[k-1]
			if torn && k > 5 && k <= boundaries { // a setting is one system call
				want = after[k]
			}
			if got := look(s); got != want {
				t.Errorf("cut at %d, torn %v: %q, want %q", k, torn, got, want)
			}
			if k == 2 && torn {
				half, err := os.ReadFile(s.Host().Var.File(host.Temp("rollback.json")))
				if string(half) != "01234" {
					t.Errorf("the torn file holds %q, %v", half, err)
				}
			}
			if n := s.Boundaries(); n != min(k, boundaries) {
				t.Errorf("cut at %d: %d boundaries", k, n)
			}
		}
	}
}

// TestDigest checks that it sees a setting and a cap, and nothing that runs by itself.
func TestDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, fixture(t, "workstation"))
		h := s.Host()
		began := s.Digest()
		s.SetLoad("gpu0", 1)
		time.Sleep(time.Minute)
		for _, name := range []string{packageCounter, "devices/system/cpu/cpufreq/policy3/scaling_cur_freq"} {
			if _, err := h.Sys.ReadUint(name); err != nil {
				t.Error(err)
			}
		}
		if s.Digest() != began {
			t.Error("reading counters has changed the machine")
		}
		if err := s.boards[0].SetLimit(250 * unit.Watt); err != nil || s.Digest() == began {
			t.Errorf("a cap is not seen (%v)", err)
		}
		mustForeign(t, s, "gpu0/limit_mw", "300000")
		if err := h.Sys.Write(packageLimit, []byte("50000000")); err != nil || s.Digest() == began {
			t.Errorf("a limit is not seen (%v)", err)
		}
		if err := h.Sys.Write(packageLimit, []byte("65000000")); err != nil || s.Digest() != began {
			t.Errorf("restored, the machine is another (%v)", err)
		}
		if err := h.Etc.Replace("quner.toml", nil, 0o644); err != nil || s.Digest() == began {
			t.Errorf("a file in /etc is not seen (%v)", err)
		}
	})
}
