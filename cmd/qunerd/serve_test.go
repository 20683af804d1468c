package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestLimitProcess(t *testing.T) {
	procs, memory := runtime.GOMAXPROCS(2), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(procs)
		debug.SetMemoryLimit(memory)
	})
	t.Setenv("GOMAXPROCS", "2")
	t.Setenv("GOMEMLIMIT", "1GiB")
	limitProcess()
	if p, m := runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1); p != 2 || m != math.MaxInt64 {
		t.Errorf("with a person's own limits: %d processors, %d bytes; want them left alone", p, m)
	}
	t.Setenv("GOMAXPROCS", "")
	t.Setenv("GOMEMLIMIT", "")
	limitProcess()
	if p, m := runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1); p != processors || m != memoryLimit {
		t.Errorf("%d processors, %d bytes; want %d, %d", p, m, processors, memoryLimit)
	}
}
