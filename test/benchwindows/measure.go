package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// The bars.
const (
	leastRate  = 4000 // windows a second
	mostHeap   = 2048 // bytes of an open window, of a thousand
	mostGrowth = 4    // MiB of memory that dying clients may leave, which is results that are kept and the collector's slack
)

// throughput opens and closes windows as fast as it goes, and makes bare calls for as long, for few and many clients.
func throughput(ctx context.Context, d *daemon, o options) ([]figure, error) {
	var all []figure
	for _, n := range []int{1, 8, 64} {
		window, err := loop(ctx, d, n, o.each, func(ctx context.Context) (func() error, func() error, error) {
			conn, err := dial(d.admin(), nil)
			if err != nil {
				return nil, nil, err
			}
			s, err := openSession(ctx, conn)
			if err != nil {
				return nil, nil, err
			}
			return s.window, conn.Close, nil
		})
		if err != nil {
			return nil, err
		}
		bare, err := loop(ctx, d, n, o.each/2, func(ctx context.Context) (func() error, func() error, error) {
			conn, err := dial(d.bare(), nil)
			if err != nil {
				return nil, nil, err
			}
			c := qunerv1.NewStatusServiceClient(conn)
			return func() error { _, err := c.Status(ctx, &qunerv1.StatusRequest{}); return err }, conn.Close, nil
		})
		if err != nil {
			return nil, err
		}
		clients := fmt.Sprintf(", %d clients", n)
		key := fmt.Sprintf("%d_clients_", n)
		rate := plain(key+"windows_per_s", "windows a second"+clients, window.rate, "1/s")
		rate.least = leastRate
		all = append(all, rate,
			plain(key+"cpu_us", "daemon's CPU a window"+clients, window.cpu*1e6, "µs"),
			plain(key+"bare_per_s", "bare calls a second"+clients, bare.rate, "1/s"),
			plain(key+"bare_cpu_us", "CPU a bare call"+clients, bare.cpu*1e6, "µs"),
			plain(key+"time_ratio", "time of a window to a bare call"+clients, bare.rate/window.rate, ""),
			plain(key+"cpu_ratio", "CPU of a window to a bare call"+clients, window.cpu/bare.cpu, ""))
	}
	library, err := loop(ctx, d, 1, o.each, d.library)
	return append(all, plain("library_windows_per_s", "windows a second, one user of api/client", library.rate, "1/s")), err
}

// pace is how fast something went.
type pace struct {
	rate float64 // a second
	cpu  float64 // s of the daemon's each
}

// loop has clients do something again and again, each on a connection of its own.
func loop(ctx context.Context, d *daemon, clients int, lasts time.Duration, connect func(context.Context) (do, done func() error, err error)) (pace, error) {
	type client struct{ do, done func() error }
	var all []client
	for range clients {
		do, done, err := connect(ctx)
		if err != nil {
			return pace{}, err
		}
		defer func() { _ = done() }()
		for range 50 { // until buffers have their size
			if err := do(); err != nil {
				return pace{}, err
			}
		}
		all = append(all, client{do, done})
	}
	before, err := d.state()
	if err != nil {
		return pace{}, err
	}
	began := time.Now()
	counts := make([]int, clients)
	var group errgroup.Group
	for i, c := range all {
		group.Go(func() error {
			for time.Since(began) < lasts {
				if err := c.do(); err != nil {
					return err
				}
				counts[i]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return pace{}, err
	}
	took := time.Since(began)
	after, err := d.state()
	n := 0
	for _, c := range counts {
		n += c
	}
	return pace{rate: float64(n) / took.Seconds(), cpu: (after.CPU - before.CPU).Seconds() / float64(n)}, err
}

// memory has a thousand windows open.
func memory(ctx context.Context, d *daemon, _ options) ([]figure, error) {
	conn, err := dial(d.admin(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	s, err := openSession(ctx, conn)
	if err == nil {
		err = s.window()
	}
	if err != nil {
		return nil, err
	}
	before, err := d.state()
	if err != nil {
		return nil, err
	}
	if err := s.openMany(1000); err != nil {
		return nil, err
	}
	began, err := d.state()
	if err != nil {
		return nil, err
	}
	const watched = 5 * time.Second
	select {
	case <-time.After(watched):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := d.state()
	heap := plain("window_heap_bytes", "heap of an open window, of 1,000", float64(after.Heap-before.Heap)/1000, "B")
	heap.most = mostHeap
	beat := (after.CPU - began.CPU).Seconds() / watched.Seconds()
	return []figure{heap, plain("open_1000_cpu_ms_per_s", "CPU of 1,000 open windows", 1e3*beat, "ms/s")}, err
}

// dying opens windows on clients that die.
func dying(ctx context.Context, d *daemon, o options) ([]figure, error) {
	const each = 1000
	wave := func(clients int) error {
		for range clients {
			var raw net.Conn
			conn, err := dial(d.public(), &raw)
			if err != nil {
				return err
			}
			s, err := openSession(ctx, conn)
			if err == nil {
				err = s.openMany(each)
			}
			if err != nil {
				return err
			}
			_, _ = raw.Close(), conn.Close()
			if _, err := d.idle(1 << 20); err != nil {
				return err
			}
		}
		return nil
	}
	if err := wave(3); err != nil { // until as many results are kept as ever are
		return nil, err
	}
	before, err := d.idle(0)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := wave(o.dropped / each); err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := d.idle(before.Goroutines)
	bar := func(f figure, most float64) figure {
		f.most = most
		return f
	}
	return []figure{
		bar(plain("dropped_heap_mib", fmt.Sprintf("heap left by %d dropped windows", o.dropped), float64(after.Heap-before.Heap)/(1<<20), "MiB"), mostGrowth),
		bar(plain("dropped_rss_mib", "resident memory left by them", float64(after.RSS-before.RSS)/(1<<20), "MiB"), 4*mostGrowth),
		bar(plain("dropped_files", "descriptors left", float64(after.Files-before.Files), ""), 0),
		bar(plain("dropped_goroutines", "goroutines left", float64(after.Goroutines-before.Goroutines), ""), 0),
		plain("dropped_per_s", "windows opened and dropped a second", float64(o.dropped)/took.Seconds(), "1/s"),
	}, err
}

// strangers opens a thousand windows on the public socket, and ends them, between two heartbeats of the meter: those read
// on a grid that no window shifts. What is read beside that is caused by the stranger.
func strangers(ctx context.Context, d *daemon, _ options) ([]figure, error) {
	conn, err := dial(d.public(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	fewest := -1.0
	for range 10 {
		s, err := openSession(ctx, conn)
		if err != nil {
			return nil, err
		}
		before, err := d.state()
		if err != nil {
			return nil, err
		}
		if err := s.openMany(1000); err != nil {
			return nil, err
		}
		opened, err := d.state()
		if err != nil {
			return nil, err
		}
		if n := float64(opened.Reads - before.Reads); fewest < 0 || n < fewest {
			fewest = n
		}
		if err := s.CloseSend(); err != nil {
			return nil, err
		}
		if _, err := d.idle(1 << 20); err != nil {
			return nil, err
		}
	}
	f := plain("stranger_reads", "reads of CPU counters by 1,000 windows of a stranger", fewest, "")
	f.most = 0
	return []figure{f}, nil
}
