package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/server"
)

// state is what the daemon's process holds.
type state struct {
	CPU        time.Duration `json:"cpu_ns"`
	Heap       int64         `json:"heap_bytes"`
	RSS        int64         `json:"rss_bytes"`
	Goroutines int           `json:"goroutines"`
	Files      int           `json:"files"`
	Open       int           `json:"open_windows"`
	Reads      int64         `json:"cpu_counter_reads"`
}

// bareService answers a call with nothing: what gRPC itself costs on a Unix socket.
type bareService struct {
	qunerv1.UnimplementedStatusServiceServer
}

func (bareService) Status(context.Context, *qunerv1.StatusRequest) (*qunerv1.StatusResponse, error) {
	return &qunerv1.StatusResponse{}, nil
}

// serve is the daemon as far as windows go: a meter on counters in plain files, on real sockets. Each line that comes in
// is answered by the state of the process; the end of them ends it.
func serve(ctx context.Context, dir string, counting bool, in io.Reader, out io.Writer) (err error) {
	debug.SetMemoryLimit(64 << 20) // as qunerd does, and this too
	runtime.GOMAXPROCS(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h, reads, err := machine(dir, counting)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	sockets, err := server.Listen(h.Run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sockets.Close()) }()
	m, err := meter.New(ctx, h, meter.Options{Journal: true}, log)
	if err != nil {
		return err
	}
	limits := server.Limits{Connections: 1024, AdminConnections: 512, ConnectionsPerUID: 512}
	served := make(chan error, 3)
	go func() { served <- server.New(nil, m, server.Options{Limits: limits}, log).Serve(ctx, sockets) }()
	go func() { served <- m.Run(ctx) }()
	bare, err := net.Listen("unix", filepath.Join(dir, "bare.sock"))
	if err != nil {
		return err
	}
	plain := grpc.NewServer()
	qunerv1.RegisterStatusServiceServer(plain, bareService{})
	go func() { served <- plain.Serve(bare) }()
	lines := bufio.NewScanner(in)
	for encode := json.NewEncoder(out); lines.Scan(); {
		if err := encode.Encode(stateOf(m, reads.Load())); err != nil {
			return err
		}
	}
	cancel()
	plain.Stop()
	for range 3 {
		err = errors.Join(err, <-served)
	}
	return err
}

// machine makes a package and its memory in plain files. Counting reads costs the open file that a real machine has.
func machine(dir string, counting bool) (*host.Host, *atomic.Int64, error) {
	for zone, name := range map[string]string{"intel-rapl:0": "package-0", "intel-rapl:0:0": "dram"} {
		at := filepath.Join(dir, "sys/class/powercap", zone)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, nil, err
		}
		for file, text := range map[string]string{"name": name, "energy_uj": "1000000", "max_energy_range_uj": "262143328850"} {
			if err := os.WriteFile(filepath.Join(at, file), []byte(text+"\n"), 0o600); err != nil {
				return nil, nil, err
			}
		}
	}
	boot := filepath.Join(dir, "proc/sys/kernel/random")
	if err := errors.Join(os.MkdirAll(boot, 0o700), os.WriteFile(filepath.Join(boot, "boot_id"), []byte("a-boot\n"), 0o600)); err != nil {
		return nil, nil, err
	}
	h, reads := host.Real(dir, nil), new(atomic.Int64)
	if counting {
		h.Sys = host.NewDir(dir, func(a host.Access) error {
			if a.Op == host.OpRead && strings.HasSuffix(a.Name, "energy_uj") {
				reads.Add(1)
			}
			return nil
		}).Sub("sys")
	}
	return h, reads, nil
}

func stateOf(m *meter.Meter, reads int64) state {
	s := state{Open: m.OpenCount(), Reads: reads, Goroutines: runtime.NumGoroutine()}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		s.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	runtime.GC()
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.Heap = int64(memory.HeapAlloc) //nolint:gosec // far below
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.Files = len(files)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var pages int64
		if _, err := fmt.Sscanf(string(text), "%d %d", new(int64), &pages); err == nil {
			s.RSS = pages * int64(os.Getpagesize())
		}
	}
	return s
}
