package host

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is set aside again and again does not fill the disk: the first few are kept, and the newest.
func TestFewFilesSetAsideAreKept(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	f := StateFile{Dir: NewDir(dir, nil), Name: "windows.json", Schema: 1, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := os.WriteFile(filepath.Join(dir, "other.json.corrupt-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	aside := func() (contents []string) {
		names, err := f.Dir.List("")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "windows.json.corrupt-") }) {
			data, err := f.Dir.Read(n)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, string(data))
		}
		return contents
	}
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte{byte('0' + i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Load(func([]byte) error { return f.untrusted(f.Name, errors.New("odd")) }); err != nil {
			t.Fatal(err)
		}
		if n := len(aside()); n > oldestAside+newestAside {
			t.Fatalf("%d files set aside after %d", n, i+1)
		}
	}
	if got, want := aside(), []string{"0", "1", "2", string(rune('0' + 38)), string(rune('0' + 39))}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if !f.Dir.Exists("other.json.corrupt-1") {
		t.Error("another file's is gone")
	}
	if n := strings.Count(log.String(), "file set aside is removed"); n != 35 {
		t.Errorf("removed %d times by the log", n)
	}
}
