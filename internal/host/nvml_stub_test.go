//go:build !cgo || !linux

package host_test

import (
	"errors"
	"testing"

	"github.com/qunerd/quner/internal/host"
)

func TestNVMLWithoutCgoIsAnAbsentDriver(t *testing.T) {
	gpus := host.NewGPUs(host.NVML(""))
	if err := gpus.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(gpus.Why(), host.ErrNoDriver) || len(gpus.All()) != 0 {
		t.Errorf("boards %v, because %v", gpus.All(), gpus.Why())
	}
}
