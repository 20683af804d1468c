package host_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
)

// tree makes a directory with files for a test.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestEveryAccessGoesThroughTheHook(t *testing.T) {
	root := tree(t, map[string]string{"a/b": "1\n", "a/c": "2"})
	var seen []string
	dir := host.NewDir(root, func(a host.Access) error {
		seen = append(seen, a.Op.String()+" "+a.Name)
		return nil
	}).Sub("a")
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := dir.Read("b")
	check("read", err)
	_, err = dir.List("")
	check("list", err)
	_, err = dir.Stat("b")
	check("stat", err)
	check("write", dir.Write("b", []byte("3")))
	check("mkdir", dir.Mkdir("d", 0o700))
	check("replace", dir.Replace("d/e", []byte("x"), 0o600))
	check("rename", dir.Rename("d/e", "d/f"))
	check("remove", dir.Remove("d/f"))
	held, err := dir.Open("c")
	check("open", err)
	_, err = held.ReadAt(make([]byte, 8))
	check("pread", err)
	check("close", held.Close())
	release, err := dir.Lock("l")
	check("lock", err)
	release()
	want := []string{
		"read a/b", "list a", "stat a/b", "write a/b", "stat a/d", "mkdir a/d",
		"remove a/d/e.tmp", "create a/d/e.tmp", "sync a/d/e.tmp", "rename a/d/e.tmp", "sync a/d",
		"rename a/d/e", "remove a/d/f", "open a/c", "read a/c", "lock a/l",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the hook saw\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestAHookThatRefusesStopsTheAccess(t *testing.T) {
	root := tree(t, map[string]string{"gov": "schedutil"})
	dir := host.NewDir(root, func(a host.Access) error {
		if a.Op == host.OpWrite {
			return unix.EBUSY
		}
		return nil
	})
	err := dir.Write("gov", []byte("performance"))
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "gov") {
		t.Errorf("write: %v, want EBUSY with the file's name", err)
	}
	if got, _ := dir.ReadString("gov"); got != "schedutil" {
		t.Errorf("the file reads %q after a refused write", got)
	}
}

func TestAHookMayDoTheAccessItself(t *testing.T) {
	root := tree(t, map[string]string{"limit": "30000000"})
	dir := host.NewDir(root, func(a host.Access) error {
		if a.Op != host.OpWrite {
			return nil
		}
		if err := os.WriteFile(filepath.Join(root, a.Name), []byte("rounded"), 0o644); err != nil {
			return err
		}
		return host.Handled
	})
	if err := dir.Write("limit", []byte("30000001")); err != nil {
		t.Fatal(err)
	}
	if got, _ := dir.ReadString("limit"); got != "rounded" {
		t.Errorf("the file reads %q, not what the hook wrote", got)
	}
}

// A power loss between any two steps of Replace leaves the old content or the new under the name.
func TestReplaceIsOldOrNewAtEveryBoundary(t *testing.T) {
	for k := range 8 {
		root := tree(t, map[string]string{"state.json": "old"})
		n := 0
		dir := host.NewDir(root, func(a host.Access) error {
			if !a.Op.Changes() {
				return nil
			}
			if n++; n > k {
				return errors.New("power lost")
			}
			return nil
		})
		err := dir.Replace("state.json", []byte("new"), 0o600)
		got, readErr := os.ReadFile(filepath.Join(root, "state.json"))
		if readErr != nil || (string(got) != "old" && string(got) != "new") {
			t.Errorf("after %d steps the file reads %q (%v)", k, got, readErr)
		}
		if err == nil && string(got) != "new" {
			t.Errorf("after %d steps Replace says it is done, the file reads %q", k, got)
		}
	}
}

func TestReplaceKeepsTheModeAndFollowsNoLink(t *testing.T) {
	root := tree(t, map[string]string{"elsewhere": "theirs"})
	dir := host.NewDir(root, nil)
	if err := os.Symlink("elsewhere", filepath.Join(root, host.Temp("j"))); err != nil {
		t.Fatal(err)
	}
	if err := dir.Replace("j", []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := dir.Stat("j")
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want a regular file of 0600", info.Mode(), err)
	}
	if got, _ := dir.ReadString("elsewhere"); got != "theirs" {
		t.Errorf("the file a planted link pointed to reads %q", got)
	}
}

func TestReadRefusesWhatIsTooLongAndWriteCreatesNothing(t *testing.T) {
	root := tree(t, map[string]string{"long": strings.Repeat("x", host.MaxFile+1), "n": "-3", "word": "many"})
	dir := host.NewDir(root, nil)
	if _, err := dir.Read("long"); err == nil {
		t.Error("a file of more than 1 MiB was read")
	}
	if err := dir.Write("new", []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a write to a file that is not there: %v", err)
	}
	for _, name := range []string{"n", "word"} {
		if v, err := dir.ReadUint(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("ReadUint(%s) = %d, %v; want an error that names the file", name, v, err)
		}
	}
}

func TestTheLockIsHeldByOne(t *testing.T) {
	dir := host.NewDir(t.TempDir(), nil)
	release, err := dir.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Lock("lock"); !errors.Is(err, host.ErrLocked) {
		t.Errorf("a second lock: %v, want ErrLocked", err)
	}
	release()
	again, err := dir.Lock("lock")
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again()
}

func TestAHeldFileReadsAnewEachTime(t *testing.T) {
	root := tree(t, map[string]string{"energy_uj": "1"})
	for name, hook := range map[string]host.Hook{"real": nil, "hooked": func(host.Access) error { return nil }} {
		f, err := host.NewDir(root, hook).Open("energy_uj")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"7", "12345"} {
			if err := os.WriteFile(filepath.Join(root, "energy_uj"), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 32)
			n, err := f.ReadAt(buf)
			if err != nil || string(buf[:n]) != want {
				t.Errorf("%s: reads %q, %v; want %q", name, buf[:n], err, want)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// reads is how many times this process has asked the kernel to read; the test is skipped where it does not count.
func reads(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("needs /proc/self/io, a kernel that counts reads: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "syscr: %d", &n); err == nil {
			return n
		}
	}
	t.Skip("needs syscr in /proc/self/io, a kernel that counts reads")
	return 0
}

func TestAHeldFileIsReadByOneCall(t *testing.T) {
	f, err := host.NewDir(tree(t, map[string]string{"energy_uj": "1"}), nil).Open("energy_uj")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 32)
	before := reads(t)
	if allocs := testing.AllocsPerRun(1000, func() {
		if _, err := f.ReadAt(buf); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("a read allocates %v times", allocs)
	}
	if n := reads(t) - before; n >= 1500 {
		t.Errorf("1001 reads took %d calls of the kernel", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(buf); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("once closed: %v", err)
	}
}

func TestReasonOfKernelErrors(t *testing.T) {
	for err, want := range map[error]host.Reason{
		nil: "", unix.EACCES: host.NoPermission, unix.EROFS: host.ReadOnlySysfs, unix.ENODATA: host.BIOSLocked,
		unix.ENOENT: host.Absent, host.ErrHung: host.Hung, errors.New("odd"): host.Unreadable,
	} {
		if got := host.ReasonOf(err); got != want {
			t.Errorf("ReasonOf(%v) = %q, want %q", err, got, want)
		}
	}
}
