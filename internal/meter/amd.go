package meter

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// ReasonWithCPU is of a sensor: its power has the CPU's in it, so that it is shown apart and never added.
const ReasonWithCPU = "with_cpu"

// amdUpdate is how often amdgpu's firmware is taken to renew its power; the driver does not say.
const amdUpdate = 100 * time.Millisecond

// amdCard is what one card of the amdgpu driver tells of its energy. A card that sleeps is never read: a look would wake
// it. It belongs to one device, which makes one call at a time.
type amdCard struct {
	host.Card
	sys     host.Dir
	label   string // for people
	apu     bool
	sensors string // directory in /sys
	counter *sysFile
	power   *sysFile
	mean    *sysFile // what power is the mean over, in ms, where the driver says

	most unit.Power    // more than the card can draw; 0: not known yet
	over time.Duration // what power is the mean over, once asked
}

// findAMDCards returns the cards that tell energy or power, and why each of the others does not. Nothing is woken.
func findAMDCards(h *host.Host) (cards []*amdCard, why error) {
	all, why := h.Cards()
	for _, c := range all {
		card, err := newAMDCard(h.Sys, c)
		if card != nil {
			cards = append(cards, card)
		}
		why = errors.Join(why, err)
	}
	return cards, why
}

// newAMDCard looks at one card; it returns nil where that is another driver's, or tells neither energy nor power.
func newAMDCard(sys host.Dir, c host.Card) (*amdCard, error) {
	dir, err := c.Sensors(sys, "amdgpu")
	if err != nil || dir == "" {
		return nil, err
	}
	card := &amdCard{Card: c, sys: sys, sensors: dir, label: "AMD GPU " + c.PCI}
	if name, err := sys.ReadString(path.Join(c.Dir, "product_name")); err == nil && name != "" && len(name) <= 64 {
		card.label = name
	}
	if card.apu, err = c.IsAPU(sys, dir); err != nil {
		return nil, err
	}
	files, err := sys.List(dir)
	if err != nil {
		return nil, err
	}
	file := func(name string) *sysFile {
		if !slices.Contains(files, name) {
			return nil
		}
		return &sysFile{sys: sys, name: path.Join(dir, name)}
	}
	card.counter = file("energy1_input")
	if card.power = file("power1_average"); card.power != nil { // nothing between two looks is missed by a mean
		card.mean = file("power1_average_interval")
	} else {
		card.power = file("power1_input")
	}
	if card.counter == nil && card.power == nil {
		return nil, nil
	}
	return card, nil
}

// device is the name windows charge the card by.
func (c *amdCard) device() string { return "gpu/" + c.PCI }

// passport is the card's entry among the sensors.
func (c *amdCard) passport() Sensor {
	s := Sensor{Name: c.device(), Label: c.label, Backend: c.backend(), Counted: !c.apu, Detail: c.sys.File(c.sensors)}
	if c.apu {
		s.Reason = ReasonWithCPU
	}
	return s
}

func (c *amdCard) backend() Backend {
	if c.counter != nil {
		return HwmonCounter
	}
	return PowerSampler
}

// awake returns host.ErrSuspended for a card that sleeps, or why that is not known.
func (c *amdCard) awake() error {
	asleep, err := c.Asleep(c.sys)
	if err == nil && asleep {
		err = host.ErrSuspended
	}
	return err
}

// look reads a file of the card's, unless it sleeps. What a card that fell asleep meanwhile answers is told as that.
func (c *amdCard) look(f *sysFile) ([]byte, time.Time, error) {
	if err := c.awake(); err != nil {
		return nil, time.Now(), err
	}
	text, at, err := f.read()
	if err != nil && c.awake() != nil {
		err = host.ErrSuspended
	}
	return text, at, err
}

// energy reads the card's counter: host.ErrNotSupported where it has none.
func (c *amdCard) energy(context.Context) (unit.Energy, time.Time, error) {
	if c.counter == nil {
		return 0, time.Now(), host.ErrNotSupported
	}
	text, at, err := c.look(c.counter)
	if err != nil {
		return 0, at, err
	}
	e, err := parseMicrojoules(text)
	return e, at, c.counter.called(err)
}

// samples reads the card's power.
func (c *amdCard) samples(context.Context) ([]powerSample, time.Duration, error) {
	if c.power == nil {
		return nil, 0, host.ErrNotSupported
	}
	text, at, err := c.look(c.power)
	if err != nil {
		return nil, 0, err
	}
	s := powerSample{at: at}
	s.power, err = parseMicrowatts(text)
	if err == nil && s.power > c.limit() {
		err = errNoNumber
	}
	if err != nil {
		return nil, 0, c.power.called(err)
	}
	return []powerSample{s}, c.averaging(), nil
}

// averaging is what the card's power is the mean over, where the driver says.
func (c *amdCard) averaging() time.Duration {
	if c.mean == nil {
		return c.over
	}
	text, _, err := c.look(c.mean)
	if err != nil {
		return 0
	}
	ms, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16) // a minute is more than any sensor's
	if err == nil {
		c.over, c.mean = time.Duration(ms)*time.Millisecond, nil
	}
	return c.over
}

// limit is more than the card can draw: 1.5 times its highest cap. A card that sleeps, or has no cap, may be any.
func (c *amdCard) limit() unit.Power {
	if c.most > 0 {
		return c.most
	}
	if c.awake() != nil {
		return boardLimit
	}
	text, err := c.sys.ReadString(path.Join(c.sensors, "power1_cap_max"))
	if err != nil {
		return boardLimit
	}
	if p, err := parseMicrowatts([]byte(text)); err == nil && p > 0 && p <= maxSensible && !isSentinel(p) {
		c.most = p + p/2
		return c.most
	}
	return boardLimit
}

var errNotPower = errors.New("not a number of microwatts")

// parseMicrowatts reads the text of a powerN_average or powerN_input file: digits, or it is no power. "[N/A]" and a sign are
// none.
func parseMicrowatts(text []byte) (unit.Power, error) {
	e, err := parseMicrojoules(text)
	if err != nil {
		return 0, errNotPower
	}
	return unit.Power(e), nil
}
