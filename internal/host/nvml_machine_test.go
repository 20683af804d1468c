//go:build cgo && linux

package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/qunerd/quner/internal/host"
)

func buildFakeNVML(t *testing.T, options ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc, to build the fake libnvidia-ml.so.1")
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-o", lib}, options...)
	out, err := exec.Command(gcc, append(args, "../../test/fakenvml/fakenvml.c")...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return lib
}

// machine is a folder that the fake library takes for a machine; a board is a folder below.
type machine struct {
	t   *testing.T
	dir string
}

func newMachine(t *testing.T, boards int) machine {
	m := machine{t, t.TempDir()}
	t.Setenv("FAKENVML", m.dir)
	for i := range boards {
		for name, value := range map[string]string{
			"uuid": fmt.Sprintf("GPU-aaaaaaaa-0000-0000-0000-00000000000%d", i), "name": "NVIDIA A40",
			"vbios": "94.02.5C.00.03", "pci": fmt.Sprintf("0:%x:0", 0x3b+i), "power_mw": "280000", "instant_mw": "291500",
			"util_pct": "97", "limit_mw": "300000", "min_mw": "100000", "max_mw": "300000", "default_mw": "300000",
		} {
			m.put(i, name, value)
		}
	}
	m.put(-1, "driver", "550.54.15")
	return m
}

func (m machine) path(board int, name string) string {
	if board < 0 {
		return filepath.Join(m.dir, name)
	}
	return filepath.Join(m.dir, fmt.Sprint(board), name)
}

func (m machine) put(board int, name, value string) {
	m.t.Helper()
	path := m.path(board, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path+".put", []byte(value+"\n"), 0o644); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(path+".put", path); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) remove(board int, name string) {
	m.t.Helper()
	if err := os.Remove(m.path(board, name)); err != nil {
		m.t.Fatal(err)
	}
}

// open finds the machine's boards and closes the library when the test ends.
func (m machine) open(lib string) *host.GPUs {
	m.t.Helper()
	gpus := host.NewGPUs(host.NVML(lib))
	if err := gpus.Open(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := gpus.Close(); err != nil {
			m.t.Errorf("close: %v", err)
		}
	})
	return gpus
}

func (m machine) board(lib string) *host.GPU {
	m.t.Helper()
	gpus := m.open(lib)
	if len(gpus.All()) == 0 {
		m.t.Fatalf("no board found: %v", gpus.Why())
	}
	return gpus.All()[0]
}

func read(t *testing.T, g *host.GPU) host.Reading {
	t.Helper()
	r, err := g.Read(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
