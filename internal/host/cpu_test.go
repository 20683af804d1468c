package host

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseCPU(t *testing.T) {
	for text, want := range map[string]CPU{
		"": {},
		"processor : 0\nmodel name : A: B\n\nmodel name : C\n": {Model: "A: B"},
		"processor : 0\nCPU implementer : 0x41\nCPU variant : 0x3\nCPU part : 0xd0c\nCPU revision : 1\n\nmicrocode : y\n": {
			Model: "arm64 0x41 part 0xd0c variant 0x3 revision 1"},
	} {
		if got := parseCPU(strings.NewReader(text)); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParseCPU(f *testing.F) {
	f.Add("processor : 0\nmodel name : A: B\nmicrocode : 0x1\n\n")
	f.Add("CPU implementer : 0x41\n")
	f.Add(":\n:\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		cpu := parseCPU(strings.NewReader(text))
		if strings.Contains(cpu.Model+cpu.Microcode, "\n") {
			t.Errorf("a fact of several lines: %+q", cpu)
		}
	})
}

func TestWritable(t *testing.T) {
	dir := NewDir(t.TempDir(), nil)
	if err := os.WriteFile(dir.File("governor"), []byte("schedutil\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := dir.Writable("governor"); err != nil {
		t.Error(err)
	}
	if err := dir.Writable("absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	locked := NewDir(dir.Path(), func(a Access) error {
		if a.Op.Changes() {
			t.Errorf("%v %s: asking changed something", a.Op, a.Name)
		}
		return unix.EROFS
	})
	if err := locked.Writable("governor"); ReasonOf(err) != ReadOnlySysfs {
		t.Error(err)
	}
}
