package levers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// gpuCapStep is what NVIDIA's tools and boards resolve: the interface takes milliwatts, boards round to watts.
const gpuCapStep = int64(unit.Watt / unit.Milliwatt)

// gpuCap is the power cap of one NVIDIA board, in whole milliwatts as NVML has them.
type gpuCap struct {
	ranged
	gpu  *host.GPU
	name string
}

func gpuCapClass() class {
	return class{kind: GPUCap, rank: 10, discover: discoverGPUCaps, load: nvidiaLoad, lines: nvidiaLines}
}

func discoverGPUCaps(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	if err := h.GPUs.Open(ctx); err != nil {
		return nil, []Missing{{"nvml", GPUCap, host.ReasonOf(err), err.Error()}}
	}
	if waiting := h.GPUs.Waiting(); len(waiting) > 0 {
		return nil, sleeping(waiting)
	}
	boards := h.GPUs.All()
	if len(boards) == 0 {
		return nil, []Missing{noBoard(h.GPUs.Why())}
	}
	var found []Lever
	var missing []Missing
	for _, gpu := range boards {
		l, m := openGPUCap(ctx, gpu)
		if m != nil {
			missing = append(missing, *m)
			continue
		}
		found = append(found, l)
	}
	return found, missing
}

// sleeping are the boards that the library stays shut for, by the only name that is known without it.
func sleeping(boards []host.PCIBoard) []Missing {
	var all []Missing
	for _, b := range boards {
		detail := "the board sleeps and is not to be woken"
		if !b.Asleep {
			detail = "the driver's library would wake another board, which sleeps"
		}
		all = append(all, Missing{boardPrefix + b.PCI, GPUCap, host.Suspended, detail})
	}
	return all
}

// boardPrefix begins the name of a board's lever.
const boardPrefix = "nvml/"

// noBoard explains why there is no board. A library that loads and counts none is a host without NVIDIA hardware.
func noBoard(why error) Missing {
	switch reason := host.ReasonOf(why); {
	case why == nil:
		return Missing{"nvml", GPUCap, host.Absent, "no NVIDIA GPU"}
	case reason == host.NotSupported:
		return Missing{"nvml", GPUCap, host.Absent, why.Error()}
	default:
		return Missing{"nvml", GPUCap, reason, why.Error()}
	}
}

// openGPUCap looks at one board. A board that refuses to tell its range, as those of laptops do, is the embedded
// controller's.
func openGPUCap(ctx context.Context, gpu *host.GPU) (*gpuCap, *Missing) {
	c := &gpuCap{gpu: gpu, name: boardPrefix + gpu.Info().UUID}
	missing := func(r host.Reason, detail string) (*gpuCap, *Missing) {
		return nil, &Missing{c.name, GPUCap, r, detail}
	}
	if strings.HasPrefix(gpu.Info().UUID, "MIG-") {
		return missing(host.MIG, "a slice has no cap of its own")
	}
	lo, hi, err := gpu.LimitRange()
	if err == nil {
		c.ranged = ranged{lo: int64(lo / unit.Milliwatt), max: int64(hi / unit.Milliwatt), step: gpuCapStep, unit: "mW"}
		var now Value
		if now, err = c.Get(ctx); err == nil {
			c.rebase(now)
		}
	}
	switch {
	case errors.Is(err, host.ErrNotSupported):
		return missing(host.ECManaged, "the board takes no cap; the embedded controller decides: "+err.Error())
	case err != nil:
		return missing(host.ReasonOf(err), err.Error())
	case lo >= hi:
		return missing(host.ZeroRange, fmt.Sprintf("the board takes %v to %v", lo, hi))
	}
	return c, nil
}

func (c *gpuCap) Name() string     { return c.name }
func (c *gpuCap) Kind() Kind       { return GPUCap }
func (c *gpuCap) address() address { return address{UUID: c.gpu.Info().UUID} }

func (c *gpuCap) Get(ctx context.Context) (Value, error) {
	p, err := c.gpu.Limit(ctx)
	if err != nil {
		return "", c.explain(err)
	}
	if p <= 0 {
		return "", fmt.Errorf("%s: cap of %v: %w", c.name, p, host.ErrUnread)
	}
	return milliwatts(p), nil
}

func (c *gpuCap) Set(ctx context.Context, v Value) error {
	if err := c.Span().Allows(v); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return c.edge(v, host.ErrOutOfRange, func(v Value) error { return c.write(ctx, v) })
}

func (c *gpuCap) Restore(ctx context.Context, v Value) error { return c.write(ctx, v) }

func (c *gpuCap) write(ctx context.Context, v Value) error {
	mw, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || mw <= 0 || mw > int64(1000*unit.Kilowatt/unit.Milliwatt) {
		return fmt.Errorf("%s: %q is no power in mW: %w", c.name, v, ErrOutOfSpan)
	}
	p, err := c.gpu.SetLimit(ctx, unit.Power(mw)*unit.Milliwatt)
	if err != nil {
		return c.explain(err)
	}
	if now := milliwatts(p); !c.Same(now, v) {
		return notTaken(c.name, v, now)
	}
	return nil
}

// explain names the lever once, whether or not the host did.
func (c *gpuCap) explain(err error) error {
	if strings.HasPrefix(err.Error(), c.gpu.Info().UUID) {
		return fmt.Errorf(boardPrefix+"%w", err)
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

func milliwatts(p unit.Power) Value { return Value(strconv.FormatInt(int64(p/unit.Milliwatt), 10)) }

// nvidiaLoad tells one load of the NVIDIA driver from the next, for caps end with it: by its module, else by the driver's
// version.
func nvidiaLoad(h *host.Host) string {
	if load := moduleLoad(h, "nvidia"); load != "" {
		return load
	}
	if v := h.GPUs.Version(); v != "" {
		return "version " + v
	}
	return ""
}

// moduleLoad names one load of a kernel module: the inode of its directory, which sysfs gives out anew at each load.
func moduleLoad(h *host.Host, module string) string {
	info, err := h.Sys.Stat("module/" + module)
	if err != nil {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("module %d", st.Ino)
	}
	return ""
}
