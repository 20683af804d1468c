package daemon

import (
	"context"
	"errors"

	"github.com/qunerd/quner/internal/config"
	"github.com/qunerd/quner/internal/profiles"
)

// Reload takes over what load returns: the tick, the detector's thresholds, what an untuned training gets, the base power
// and the limits of windows hold from now on; allow_raise and the limits of the sockets from the next start on. If load
// fails, everything stays as it was; the status says why, and the caller logs it. What is in force is brought in line, unless a
// sweep holds the levers: then at its end.
func (d *Daemon) Reload(ctx context.Context, load func() (config.Config, error)) error {
	next, bad := load()
	return errors.Join(bad, d.do(ctx, func(ctx context.Context, s *state) error {
		s.note("configuration", bad)
		if bad == nil {
			d.take(ctx, s, next)
		}
		d.publish(s)
		return nil
	}))
}

func (d *Daemon) take(ctx context.Context, s *state, next config.Config) {
	restart := next.Serving != d.cfg.Serving || next.AllowRaise != d.cfg.AllowRaise
	// Field by field: the others are read by other goroutines.
	d.cfg.Tick, d.cfg.UntunedTraining, d.cfg.Base = next.Tick, next.UntunedTraining, next.Base
	d.cfg.Detector, d.cfg.Limits = next.Detector, next.Limits
	s.ticker.Reset(next.Tick)
	s.detector.Adjust(profiles.Thresholds(next.Detector))
	d.meter.Limit(MeterOptions(next))
	d.log.Info("configuration reloaded", "rest_after_restart", restart)
	if s.sweep == nil && s.profile != profiles.Unknown {
		_, _ = d.apply(ctx, s, byDaemon("reload")) // what it came to is in the status and the log
	}
}
