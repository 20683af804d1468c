package hostsim

import (
	"math"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// parts is the power model bound to a machine: what each part draws and does, given settings and loads. The parts with a
// sum of their own are, in this order, busy time, the packages, their memory, the platform's rest and the boards.
type parts struct {
	model    model
	curves   []Curve
	packages int
	seed     uint64
}

func (p *parts) count() int           { return 2 + 2*p.packages + len(p.curves) }
func (p *parts) pkg(i int) int        { return 1 + i }
func (p *parts) dram(i int) int       { return 1 + p.packages + i }
func (p *parts) platform() int        { return 1 + 2*p.packages }
func (p *parts) board(i int) int      { return 2 + 2*p.packages + i }
func (p *parts) isNoisy(i int) bool   { return i != 0 && i != p.platform() }
func (p *parts) cpuUse(b int) float64 { return p.model.GPUs[b].CPUShare }

// picture is the machine at one instant.
type picture struct {
	watts []float64 // a part; for part 0 the CPU's use, 0…1
	use   []float64 // a device, 0…1: cpu, boards
	asked []float64 // a device: sum of the loads' shares, which may be more than 1
	rate  []float64 // a device: units of work a second, all loads together
}

// picture computes what settings and loads come to.
func (p *parts) picture(k knobs, loads []*load, at time.Duration) picture {
	devices := 1 + len(p.curves)
	v := picture{
		watts: make([]float64, p.count()), use: make([]float64, devices),
		asked: make([]float64, devices), rate: make([]float64, devices),
	}
	for _, l := range loads {
		if l.from <= at && at < l.to {
			v.asked[l.device] += l.share
		}
	}
	fed := v.asked[0]
	for b := range p.curves {
		v.use[1+b] = min(1, v.asked[1+b])
		fed += v.use[1+b] * p.cpuUse(b)
	}
	v.use[0] = min(1, fed)
	v.watts[0] = v.use[0]
	speed := p.packagePower(&v, k)
	v.rate[0] = min(1, v.asked[0]) * p.model.CPU.Rate * speed
	for b, c := range p.curves {
		g := &p.model.GPUs[b]
		drawn, rate := c.At(k.caps[b])
		rest := g.IdleW
		if v.asked[1+b] > 0 {
			rest += g.ContextW
		}
		slow := k.speed(1 + b)
		v.watts[p.board(b)] = rest + slow*v.use[1+b]*(max(drawn.Watts(), rest)-rest)
		if !p.awake(b, loads, at) {
			v.watts[p.board(b)] = g.AsleepW
		}
		v.rate[1+b] = slow * v.use[1+b] * rate * g.RateScale * (1 - g.HostBound*(1-speed))
	}
	return v
}

// packagePower fills in packages, memory and platform, and returns the CPU's speed, 0…1.
func (p *parts) packagePower(v *picture, k knobs) float64 {
	speed, power, rest := 1.0, 1.0, 0.0
	if n := float64(len(k.governors)); n > 0 {
		speed, power = 0, 0
		for i, name := range k.governors {
			g := chosen(p.model.CPU.Governors, name)
			if i < len(k.preferences) {
				e := chosen(p.model.CPU.Preferences, k.preferences[i])
				g = governorModel{g.Speed * e.Speed, g.Power * e.Power, g.RestW + e.RestW}
			}
			speed, power, rest = speed+g.Speed/n, power+g.Power/n, rest+g.RestW/n
		}
	}
	speed, power = speed*k.speed(0), power*k.speed(0)
	v.watts[p.platform()] = p.model.Platform.W
	if p.packages == 0 {
		return speed
	}
	n := float64(p.packages)
	idle := (p.model.CPU.IdleW + rest) / n
	busy := v.use[0] * p.model.CPU.BusyW * power / n
	total := 0.0
	for i := range p.packages {
		held, s := underLimit(idle, busy, k.limits[i].Watts())
		v.watts[p.pkg(i)] = held
		v.watts[p.dram(i)] = (p.model.DRAM.IdleW + v.use[0]*p.model.DRAM.BusyW) / n
		total += s / n
	}
	return speed * total
}

// chosen is what a governor or an energy preference makes of the CPU: nothing, where the model does not say.
func chosen(models map[string]governorModel, name string) governorModel {
	if g, ok := models[name]; ok {
		return g
	}
	return governorModel{Speed: 1, Power: 1}
}

// underLimit returns what a package draws under PL1 and how fast it then is: power above idle goes with the cube of the
// frequency. A limit of 0 is none.
func underLimit(idle, busy, limit float64) (drawn, speed float64) {
	if limit == 0 || busy == 0 || idle+busy <= limit {
		return idle + busy, 1
	}
	// The lowest frequency still draws something: a limit below that is not kept.
	share := max(0.02, (limit-idle)/busy)
	return idle + share*busy, math.Cbrt(share)
}

// noisy returns what a part draws in one cell of time.
func (p *parts) noisy(part int, n int64, w float64) unit.Power {
	if p.model.Sigma > 0 && p.isNoisy(part) {
		w *= 1 + p.model.Sigma*gauss(p.seed, uint64(part), uint64(n))
	}
	return watts(w)
}

// gauss returns a nearly normal number of variance 1, at most 3.47 from 0, that follows from its arguments alone.
func gauss(seed, part, n uint64) float64 {
	h := mix(seed ^ mix(part<<48^n))
	s := 0.0
	for range 4 {
		s += float64(h & 0xffff)
		h >>= 16
	}
	return (s/65535 - 2) * math.Sqrt(3)
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
