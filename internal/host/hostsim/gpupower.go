package hostsim

import (
	"strconv"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// Power is what the board's sensor says.
func (b *board) Power() (unit.Power, error) {
	return ask(b, "power", func() unit.Power { return b.power(b.sim.now()) })
}

// PowerSamples is the sensor's one figure of now. A fault of "power" is one of these too.
func (b *board) PowerSamples() ([]host.PowerSample, error) {
	s := host.PowerSample{At: time.Now(), From: host.PowerInstant}
	if b.model.PowerMeanS > 0 {
		s.Averaging, s.From = b.powerMean(), host.PowerUsage
	}
	var err error
	if s.Power, err = b.Power(); err != nil {
		return nil, err
	}
	return []host.PowerSample{s}, nil
}

func (b *board) powerMean() time.Duration {
	return time.Duration(b.model.PowerMeanS * float64(time.Second))
}

// power is what the sensor says: what the board drew at its last step, in whole milliwatts, or the mean of the time before
// it; or what the sensor was told to say.
func (b *board) power(now time.Duration) unit.Power {
	if n := len(b.says); n > 0 {
		return b.says[n-1].power()
	}
	at, p := b.stepAt(now), b.sim.line.parts
	part := p.board(b.index)
	var w unit.Power
	if mean := min(b.powerMean(), now); mean > 0 {
		s := b.sim
		s.line.settle(now)
		w = (s.line.until(now)[part].uj - s.line.until(max(s.line.settled, now-mean))[part].uj).Per(mean)
	} else {
		w = p.noisy(part, int64(at/cell), b.sim.line.drawAt(at).watts[part])
	}
	return w / unit.Milliwatt * unit.Milliwatt
}

// untruth is what a sensor says instead of the truth, in its own unit: milliwatts, or an amdgpu's microwatts.
type untruth struct {
	text string
	unit unit.Power
}

// power is what the vendor's library would give: a text that is no number, as zero.
func (u *untruth) power() unit.Power {
	v, err := strconv.ParseInt(u.text, 10, 64)
	if err != nil || v > int64(1<<62/u.unit) {
		return 0
	}
	return unit.Power(v) * u.unit
}

// Misread lets the power sensor of a board ("gpu0", a UUID or a PCI address) say something else than the truth until
// healed: "4294967295" (milliwatts), or of an amdgpu the text of its file, "[N/A]" or a number of microwatts. It panics on a
// board the machine does not have.
func (s *Sim) Misread(board, text string) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.fix.device(board)
	if err != nil || n == 0 {
		panic("simulated host " + s.fix.Name() + ": no board " + board)
	}
	b := s.boards[n-1]
	u := &untruth{text, unit.Milliwatt}
	if !b.isNVIDIA() {
		u.unit = unit.Microwatt
	}
	b.says = append(b.says, u)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range b.says {
			if b.says[i] == u {
				b.says = append(b.says[:i], b.says[i+1:]...)
				return
			}
		}
	}
}

// powerText is the sensor's file of an amdgpu.
func (b *board) powerText(now time.Duration) string {
	if n := len(b.says); n > 0 {
		return b.says[n-1].text + "\n"
	}
	return strconv.FormatInt(int64(b.power(now)), 10) + "\n"
}
