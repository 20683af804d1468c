package levers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

const powercapDir = "class/powercap"

// Bounds of a package power limit that can be meant, in µW. Firmware states maxima of 0 and of 3.4 GW.
const (
	leastLimit = int64(unit.Watt / unit.Microwatt)
	mostLimit  = int64(2 * unit.Kilowatt / unit.Microwatt)
)

// limitStep is the unit of the limit's register, in µW: the kernel takes any number and rounds.
const limitStep = int64(unit.Watt / 8 / unit.Microwatt)

// packageLimit is the long-term power limit, PL1, of one CPU package or die, through one of the two interfaces to it:
// model-specific registers or MMIO. The lower of both is in force. Values are in µW.
type packageLimit struct {
	attr
	ranged
	stated int64 // the maximum that firmware states; 0 if it does not or is absurd
	least  int64 // the minimum likewise
}

func packageClass() class {
	return class{kind: PackageLimit, rank: 5, discover: discoverPackages, lines: echoLines}
}

func discoverPackages(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	zones, err := h.Sys.List(powercapDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []Missing{{"rapl", PackageLimit, host.ReasonOf(err), err.Error()}}
	}
	// A zone's number says nothing: intel-rapl:1 may be the whole platform. Its name does.
	top := regexp.MustCompile(`^(intel-rapl|intel-rapl-mmio):[0-9]{1,4}$`)
	var found []Lever
	var missing []Missing
	seen := map[string]bool{}
	for _, zone := range zones {
		m := top.FindStringSubmatch(zone)
		if m == nil {
			continue
		}
		p := &packageLimit{attr: attr{sys: h.Sys, name: strings.TrimPrefix(m[1], "intel-") + "/" + zone, file: path.Join(powercapDir, zone, "name")}}
		absent := p.open(ctx, path.Join(powercapDir, zone))
		switch {
		case absent == nil && p.name == "":
		case absent == nil && seen[p.name]:
			missing = append(missing, *p.missing(PackageLimit, host.NotSupported, zone+" is a second zone of the same name"))
		case absent == nil:
			found = append(found, p)
		default:
			missing = append(missing, *absent)
		}
		seen[p.name] = true
	}
	if len(found)+len(missing) == 0 {
		reason, detail := absentHere(h)
		missing = []Missing{{"rapl", PackageLimit, reason, detail}}
	}
	return found, missing
}

// open looks at one zone, whose name file the attr stands at. A zone that is no package, such as psys, loses its name.
func (p *packageLimit) open(ctx context.Context, dir string) *Missing {
	name, err := p.get(ctx)
	if err != nil {
		return p.missingFor(PackageLimit, p.explain(err))
	}
	if !regexp.MustCompile(`^package-[0-9]+(-die-[0-9]+)?$`).MatchString(string(name)) {
		p.name = ""
		return nil
	}
	p.name = path.Dir(p.name) + "/" + string(name)
	constraint, err := p.longTerm(ctx, dir)
	switch {
	case err != nil:
		return p.missingFor(PackageLimit, p.explain(err))
	case constraint == "":
		return p.missing(PackageLimit, host.NotSupported, "the zone has no long-term limit")
	}
	if on, err := p.beside(ctx, "enabled"); err == nil && on == "0" {
		return p.missing(PackageLimit, host.NotSupported, "the zone is off, and quner does not turn it on")
	}
	p.file = path.Join(dir, constraint+"power_limit_uw")
	return p.openLimit(ctx, constraint)
}

// longTerm finds the constraint by its name: "constraint_0_". A zone without one returns "".
func (p *packageLimit) longTerm(ctx context.Context, dir string) (string, error) {
	files, err := guarded(ctx, &p.guard, func() ([]string, error) { return p.sys.List(dir) })
	if err != nil {
		return "", err
	}
	for _, file := range files {
		prefix, ok := strings.CutSuffix(file, "name")
		if !ok || !strings.HasPrefix(file, "constraint_") {
			continue
		}
		if kind, err := p.beside(ctx, file); err == nil && kind == "long_term" {
			return prefix, nil
		}
	}
	return "", nil
}

// openLimit reads the limit and what firmware says of its bounds.
func (p *packageLimit) openLimit(ctx context.Context, constraint string) *Missing {
	now, err := p.Get(ctx)
	if err != nil {
		return p.missingFor(PackageLimit, err)
	}
	p.ranged = ranged{step: limitStep, unit: "µW"}
	p.rebase(now)
	if p.stated, err = p.bound(ctx, constraint+"max_power_uw"); errors.Is(err, unix.ENODATA) {
		return p.missing(PackageLimit, host.BIOSLocked, "the BIOS has locked the limit: "+err.Error())
	}
	if p.least, err = p.bound(ctx, constraint+"min_power_uw"); err != nil {
		p.least = 0
	}
	switch {
	case p.found == 0:
		return p.missing(PackageLimit, host.NotSupported, "no limit is set")
	case p.found < leastLimit, p.found > mostLimit && p.stated == 0:
		return p.missing(PackageLimit, host.NotSupported, fmt.Sprintf("a limit of %s µW, and no usable maximum to choose below", now))
	}
	return nil
}

// bound reads a bound that firmware states. One that is absent or absurd is 0.
func (p *packageLimit) bound(ctx context.Context, file string) (int64, error) {
	text, err := p.beside(ctx, file)
	if errors.Is(err, unix.ENODATA) {
		return 0, err
	}
	n, bad := strconv.ParseInt(text, 10, 64)
	if err != nil || bad != nil || n < leastLimit || n > mostLimit {
		return 0, nil //nolint:nilerr // what cannot be read bounds nothing
	}
	return n, nil
}

func (p *packageLimit) Kind() Kind { return PackageLimit }

// Span ends at the value found, even where firmware states a lower maximum: the host runs above it, and the kernel does
// not hold anybody to it.
func (p *packageLimit) Span() Span {
	hi := p.found
	switch {
	case p.found > mostLimit:
		hi = max(p.stated, leastLimit)
	case p.raise:
		hi = max(p.found, p.stated)
	}
	lo := max(leastLimit, roundUp(min(p.found, hi)/leastPart, p.step))
	if p.least <= hi {
		lo = max(lo, p.least)
	}
	return Span{Lo: min(lo, hi), Hi: hi, Step: p.step, Unit: p.unit}
}

// Get reads the limit. Whatever errno a driver's failure becomes on its way through powercap, the limit is not read.
func (p *packageLimit) Get(ctx context.Context) (Value, error) {
	v, err := p.get(ctx)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EINVAL):
		return "", fmt.Errorf("%s: %v: %w", p.name, err, host.ErrUnread) //nolint:errorlint // ENODATA means a lock to whoever sees it
	case err != nil:
		return "", p.explain(err)
	}
	if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
		return "", fmt.Errorf("%s: %q is no limit: %w", p.name, v, host.ErrUnread)
	}
	return v, nil
}

func (p *packageLimit) Set(ctx context.Context, v Value) error {
	if err := p.Span().Allows(v); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return p.Restore(ctx, v)
}

func (p *packageLimit) Restore(ctx context.Context, v Value) error {
	now, err := p.put(ctx, v)
	switch {
	case errors.Is(err, unix.ENODATA):
		return fmt.Errorf("%s: %w: %w", p.name, errLocked, err)
	case err != nil:
		return p.refused(v, err)
	case !p.Same(now, v):
		return notTaken(p.name, v, now)
	}
	return nil
}

// errLocked is a limit that takes no write before the next boot.
var errLocked = errors.New("the BIOS has locked the limit until the next boot, or the zone is off")

// inForce tells each limit which of those to its package binds: the lowest of all interfaces does. 0 is none.
func inForce(states []State) {
	lowest := map[string]int64{}
	for _, s := range states {
		n, err := strconv.ParseInt(string(s.Value), 10, 64)
		if s.Kind != PackageLimit || s.Err != nil || err != nil || n <= 0 {
			continue
		}
		zone := path.Base(s.Name)
		if low, ok := lowest[zone]; !ok || n < low {
			lowest[zone] = n
		}
	}
	for i, s := range states {
		if low, ok := lowest[path.Base(s.Name)]; ok && s.Kind == PackageLimit {
			states[i].Effective = Value(strconv.FormatInt(low, 10))
		}
	}
}

// rebase keeps the upper end where what is found is no limit to go by: 0 is how the interface says that none is set.
func (p *packageLimit) rebase(found Value) {
	if n, err := strconv.ParseInt(string(found), 10, 64); err != nil || n < leastLimit && p.found >= leastLimit {
		return
	}
	p.ranged.rebase(found)
}
