package daemon

import (
	"context"

	"github.com/qunerd/quner/internal/profiles"
)

// noticeWoken lets boards in that slept when the driver's library was last left shut, and reports whether a device has
// woken that the point in force has a value waiting for. It wakes nothing.
func (d *Daemon) noticeWoken(ctx context.Context, s *state) (due bool) {
	_, err := d.host.GPUs.Retry(ctx)
	all := len(d.host.GPUs.All())
	opened := all != s.boards // by this, or by a window that may wake them
	s.boards = all
	switch {
	case err != nil:
		s.degraded["gpu"] = err.Error()
		d.log.Warn("GPU driver does not answer; its levers and counters are left out", "err", err)
	case opened:
		d.log.Info("no board sleeps any longer: their driver's library is open")
		if err := d.meter.Adopt(ctx); err != nil {
			d.log.Warn("a board that has woken is not metered", "err", err)
		}
		s.bank.Refresh(ctx)
		s.print = profiles.FingerprintOf(d.host)
		s.software = softwareOf(d.host)
		d.tellFloors(s)
	}
	return s.bank.Due(ctx)
}
