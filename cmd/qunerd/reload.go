package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/daemon"
)

// reloads reads the configuration again at each SIGHUP, where a service manager is there to send it, until ctx ends.
//
// It does not tell systemd RELOADING=1 before and READY=1 after. Up to systemd 248 a service that dies between the two is
// taken to reload on until TimeoutStartSec is over: neither started again nor followed by ExecStopPost, so that nobody puts
// the host back. What it would give is little: ExecReload=kill can return before the first of the two is sent, so systemctl
// reload would wait only by luck.
func reloads(ctx context.Context, m *machine, d *daemon.Daemon, notify func(string), log *slog.Logger) error {
	if !supervised() {
		return nil
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-asked:
		}
		err := d.Reload(ctx, func() (config.Config, error) {
			next, err := config.Load(m.Etc)
			if err == nil {
				patience(next.Tick, notify)
			}
			return next, err
		})
		if err != nil {
			log.Error("configuration stays as it was", "err", err)
		}
	}
}

// supervised reports whether a service manager listens to what this process says of itself.
func supervised() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// patience asks the watchdog for more of it where ticks, each of which is a sign of life, are too far apart for what the
// unit grants. Three may be missed.
func patience(tick time.Duration, notify func(string)) {
	granted, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if needed := (4 * tick).Microseconds(); err == nil && granted > 0 && granted < needed {
		notify(fmt.Sprintf("WATCHDOG_USEC=%d", needed))
	}
}
