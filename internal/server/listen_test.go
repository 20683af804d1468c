package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/qunerd/quner/internal/host"
)

func listen2(t *testing.T, dir host.Dir) *Sockets {
	t.Helper()
	s, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestListenGivesEachSocketItsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // as the daemon has it
	// A directory made for a daemon of a private umask must be opened to others all the same.
	for name, prepare := range map[string]func(run string) error{
		"nothing there":         func(string) error { return nil },
		"a directory too tight": func(run string) error { return os.Mkdir(filepath.Join(run, "quner"), 0o700) },
		"systemd's directories": func(run string) error {
			return errors.Join(os.Mkdir(filepath.Join(run, "quner"), 0o755), os.Chmod(filepath.Join(run, "quner"), 0o755),
				os.Mkdir(filepath.Join(run, "quner-admin"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := host.NewDir(openDir(t), nil)
			if err := prepare(run.Path()); err != nil {
				t.Fatal(err)
			}
			s := listen2(t, run)
			for file, want := range map[string]fs.FileMode{
				"quner": fs.ModeDir | 0o755, "quner/quner.sock": fs.ModeSocket | 0o666,
				"quner-admin": fs.ModeDir | 0o700, "quner-admin/admin.sock": fs.ModeSocket | 0o600,
			} {
				if got := modeOf(t, run.File(file)); got != want {
					t.Errorf("%s: %v, want %v", file, got, want)
				}
			}
			if umask := syscall.Umask(0o077); umask != 0o077 {
				t.Errorf("umask left at %04o", umask)
			}
			if s.AdminGroup != nil {
				t.Errorf("admin group %d", *s.AdminGroup)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"quner/quner.sock", "quner-admin/admin.sock"} {
				if _, err := os.Lstat(run.File(file)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was left: %v", file, err)
				}
			}
		})
	}
}

func TestListenRefusesWhereAnotherLives(t *testing.T) {
	run := host.NewDir(openDir(t), nil)
	listen2(t, run)
	if _, err := Listen(run); !errors.Is(err, ErrLive) {
		t.Fatalf("%v", err)
	}
	conn, err := net.Dial("unix", run.File("quner/quner.sock"))
	if err != nil {
		t.Fatalf("the first no longer listens: %v", err)
	}
	_ = conn.Close()
}

func TestListenReplacesADeadSocketAndNothingElse(t *testing.T) {
	run := host.NewDir(openDir(t), nil)
	path := run.File("quner/quner.sock")
	if err := os.Mkdir(run.File("quner"), 0o755); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	if s, err := Listen(run); err != nil {
		t.Errorf("a dead socket: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
	for name, put := range map[string]func() error{
		"a file":      func() error { return os.WriteFile(path, []byte("precious"), 0o600) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
		"a link":      func() error { return os.Symlink("elsewhere", path) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(run); err == nil || !strings.Contains(err.Error(), "in the socket's place") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListenRefusesADirectoryOthersReach(t *testing.T) {
	for name, mode := range map[string]fs.FileMode{"quner": 0o777, "quner-admin": 0o755} {
		run := host.NewDir(openDir(t), nil)
		if err := errors.Join(os.Mkdir(run.File(name), 0o700), os.Chmod(run.File(name), mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(run); !errors.Is(err, errForeign) {
			t.Errorf("%s of mode %04o: %v", name, mode, err)
		}
	}
	run := host.NewDir(openDir(t), nil)
	if err := os.Symlink(openDir(t), run.File("quner")); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(run); err == nil {
		t.Error("followed a link")
	}
}

func TestListenSaysThatAPathIsTooLong(t *testing.T) {
	run := host.NewDir(filepath.Join(openDir(t), strings.Repeat("d", 110)), nil)
	if _, err := Listen(run); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%v", err)
	}
}

func TestListenTakesSystemdsSockets(t *testing.T) {
	dir := openDir(t)
	run := host.NewDir(filepath.Join(dir, "run"), nil)
	public, err := net.Listen("unix", filepath.Join(dir, "held"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := listenOn(run, map[string][]net.Listener{"quner": {public}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if net.Listener(s.Public) != public {
		t.Error("made a socket of its own")
	}
	if _, err := os.Lstat(run.File("quner-admin/admin.sock")); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if _, err := os.Lstat(run.File("quner")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made the directory of a socket it was given: %v", err)
	}
}

func TestListenRefusesWhatSystemdShouldNotGive(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string]map[string][]net.Listener{
		"a TCP socket":    {"quner": {tcp}},
		"an unknown name": {"other": {tcp}},
	} {
		if _, err := listenOn(host.NewDir(openDir(t), nil), given); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := tcp.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("left open: %v", err)
	}
}

func TestAdminGroupIsTheDirectorys(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(openDir(t), "quner-admin")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 0, 700)); err != nil {
		t.Fatal(err)
	}
	if gid, err := groupOf(dir); err != nil || gid != nil {
		t.Errorf("a closed directory: %v %v", gid, err)
	}
	if err := os.Chmod(dir, 0o710); err != nil {
		t.Fatal(err)
	}
	if gid, err := groupOf(dir); err != nil || gid == nil || *gid != 700 {
		t.Errorf("%v %v", gid, err)
	}
}
