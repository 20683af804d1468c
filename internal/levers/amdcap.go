package levers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// amdCapStep is what amdgpu resolves, in µW: it hands whole watts to the firmware.
const amdCapStep = int64(unit.Watt / unit.Microwatt)

// amdCap is the power cap of one AMD card, in µW. A card that is suspended at run time is not touched, but for a
// journalled original: then it is woken, and that is counted.
type amdCap struct {
	attr
	ranged
	card host.Card
	woke func() // counts a wake
}

func amdCapClass() class {
	return class{kind: AMDCap, rank: 11, discover: discoverAMDCaps, load: amdLoad, lines: echoLines}
}

// amdLoad tells one load of the driver from the next: caps end with it.
func amdLoad(h *host.Host) string { return moduleLoad(h, "amdgpu") }

func discoverAMDCaps(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	cards, err := h.Cards()
	if err != nil {
		return nil, []Missing{{"amdgpu", AMDCap, host.ReasonOf(err), err.Error()}}
	}
	var found []Lever
	var missing []Missing
	for _, card := range cards {
		c, m := findAMDCap(ctx, h, card)
		if c != nil {
			m = c.open(ctx)
		}
		switch {
		case m != nil:
			missing = append(missing, *m)
		case c != nil:
			found = append(found, c)
		}
	}
	if len(found)+len(missing) == 0 {
		missing = []Missing{{"amdgpu", AMDCap, host.Absent, "no AMD GPU"}}
	}
	return found, missing
}

// findAMDCap looks at one card, as far as that wakes nothing. One of another driver is neither a lever nor missing.
func findAMDCap(ctx context.Context, h *host.Host, card host.Card) (*amdCap, *Missing) {
	c := &amdCap{card: card, woke: h.GPUs.CountWake, attr: attr{sys: h.Sys}}
	c.name = cardPrefix + printable(card.PCI)
	sensors, err := guarded(ctx, &c.guard, func() (string, error) { return card.Sensors(h.Sys, "amdgpu") })
	switch {
	case err != nil:
		return nil, c.missingFor(AMDCap, c.explain(err))
	case sensors == "":
		return nil, nil
	}
	c.file = path.Join(sensors, "power1_cap")
	return c, nil
}

// cardPrefix begins the name of a card's lever; its PCI address ends it.
const cardPrefix = "amdgpu/"

// open reads the cap and its range, unless the card sleeps.
func (c *amdCap) open(ctx context.Context) *Missing {
	now, err := c.Get(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.missing(AMDCap, host.NotSupported, "the card has no power cap")
	case err != nil:
		return c.missingFor(AMDCap, err)
	}
	c.ranged = ranged{step: amdCapStep, unit: "µW"}
	c.rebase(now)
	if c.max, err = c.bound(ctx, "power1_cap_max"); err != nil {
		return c.missingFor(AMDCap, c.explain(err))
	}
	// Before Linux 6.7 there is no minimum, or one of 0, and too low a cap is taken.
	if c.lo, err = c.bound(ctx, "power1_cap_min"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.missingFor(AMDCap, c.explain(err))
	}
	if c.lo <= 0 {
		c.lo = roundUp(c.max/leastPart, c.step)
	}
	if c.lo >= c.max {
		return c.missing(AMDCap, host.ZeroRange, fmt.Sprintf("the card takes %d to %d µW", c.lo, c.max))
	}
	return nil
}

func (c *amdCap) bound(ctx context.Context, file string) (int64, error) {
	text, err := c.beside(ctx, file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q is no power: %w", file, printable(text), host.ErrUnread)
	}
	return n, nil
}

func (c *amdCap) Kind() Kind { return AMDCap }

// asleep returns an error that wraps host.ErrSuspended while the card sleeps.
func (c *amdCap) asleep(ctx context.Context) error {
	asleep, err := guarded(ctx, &c.guard, func() (bool, error) { return c.card.Asleep(c.sys) })
	switch {
	case err != nil:
		return c.explain(err)
	case asleep:
		return fmt.Errorf("%s: %w", c.name, host.ErrSuspended)
	}
	return nil
}

func (c *amdCap) Get(ctx context.Context) (Value, error) {
	if err := c.asleep(ctx); err != nil {
		return "", err
	}
	return c.look(ctx)
}

// look reads the cap, asleep or not.
func (c *amdCap) look(ctx context.Context) (Value, error) {
	v, err := c.get(ctx)
	if err != nil {
		return "", c.suspended(err, c.explain)
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err != nil || n <= 0 {
		return "", fmt.Errorf("%s: cap of %q µW: %w", c.name, v, host.ErrUnread)
	}
	return v, nil
}

// wake reads the cap of a card that may sleep. It is for putting an original back, and for nothing else.
func (c *amdCap) wake(ctx context.Context) (Value, error) {
	if err := c.asleep(ctx); errors.Is(err, host.ErrSuspended) {
		c.woke()
	}
	return c.look(ctx)
}

func (c *amdCap) Set(ctx context.Context, v Value) error {
	if err := c.Span().Allows(v); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if err := c.asleep(ctx); err != nil {
		return err
	}
	return c.edge(v, unix.EINVAL, func(v Value) error { return c.Restore(ctx, v) })
}

func (c *amdCap) Restore(ctx context.Context, v Value) error {
	now, err := c.put(ctx, v)
	if err != nil {
		return c.suspended(err, func(err error) error { return c.refused(v, err) })
	}
	if !c.Same(now, v) {
		return notTaken(c.name, v, now)
	}
	return nil
}

// suspended is an error of the card, explained: EIO and EPERM are what one that sleeps, or is being reset, answers.
func (c *amdCap) suspended(err error, explain func(error) error) error {
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: %w: %w", c.name, host.ErrSuspended, err)
	}
	return explain(err)
}

// wakeAMDCard wakes the card of a lever that is not there since it sleeps; reading its cap does that.
func wakeAMDCard(ctx context.Context, h *host.Host, lever string) error {
	cards, err := h.Cards()
	if err != nil {
		return err
	}
	for _, card := range cards {
		c, _ := findAMDCap(ctx, h, card)
		if c != nil && c.name == lever {
			_, err = c.wake(ctx)
			return err
		}
	}
	return fmt.Errorf("%s: %w", lever, fs.ErrNotExist)
}

// cardAsleep reports whether the card of a lever sleeps, as the bus knows it.
func cardAsleep(h *host.Host, lever string) bool {
	status, err := h.Sys.ReadString(path.Join("bus/pci/devices", path.Base(lever), "power/runtime_status"))
	return err == nil && (status == "suspended" || status == "suspending")
}
