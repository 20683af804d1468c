package hostsim

import (
	"fmt"
	"math"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// refresh brings a file that changes by itself up to this instant, before it is read.
func (s *Sim) refresh(name string) error {
	if !s.fix.moves(name) {
		return nil
	}
	text, ok := s.counterText(name, s.now())
	if !ok || s.shown[name] == text {
		return nil
	}
	if err := replace(s.dir, filepath.Join("host", name), []byte(text)); err != nil {
		return err
	}
	s.shown[name] = text
	return nil
}

// counterText computes what a counter file says now.
func (s *Sim) counterText(name string, now time.Duration) (string, bool) {
	s.line.settle(now)
	if _, ok := s.fix.files[name]; !ok {
		return "", false
	}
	if text, ok := s.boardText(name, now); ok {
		return text, true
	}
	if isHeatCounter(name) {
		return s.heatText(name, now), true
	}
	switch path.Base(name) {
	case "energy_uj":
		for i := range s.fix.zones {
			if z := &s.fix.zones[i]; z.file == name {
				sums := s.line.until(max(s.line.settled, now-now%step))
				e := s.rising(name, s.zoneEnergy(z, sums))
				return strconv.FormatUint(z.counter(e), 10) + "\n", true
			}
		}
		return "", false
	case "scaling_cur_freq":
		return strconv.FormatUint(s.frequency(path.Dir(name), now), 10) + "\n", true
	case "loadavg":
		return s.loadAverage(now), true
	case "uptime":
		up := s.uptime(now)
		idle := float64(s.fix.cpus)*up - s.line.until(now)[0].uj.Joules()*float64(s.fix.cpus)
		return fmt.Sprintf("%.2f %.2f\n", up, max(0, idle)), true
	case "stat":
		return s.procStat(now), true
	}
	return "", false
}

// rising keeps a counter from going back when a load turns out to have ended earlier than it was known to.
func (s *Sim) rising(name string, e unit.Energy) unit.Energy {
	e = max(e, s.highest[name])
	s.highest[name] = e
	return e
}

// frequency is what a policy runs at, kHz: the governor's choice for the load there is.
func (s *Sim) frequency(dir string, now time.Duration) uint64 {
	lo := firstNumber(strings.Fields(s.content(dir + "/scaling_min_freq")))
	hi := firstNumber(strings.Fields(s.content(dir + "/scaling_max_freq")))
	switch strings.TrimSpace(s.settings[dir+"/scaling_governor"]) {
	case "performance", "userspace":
		return hi
	case "powersave":
		if !s.activeMode(dir) {
			return lo
		}
	}
	if hi < lo {
		return lo
	}
	const grain = 100_000
	use := s.line.drawAt(now).use[0]
	return min(hi, lo+uint64(math.Ceil(use*float64(hi-lo)/grain))*grain)
}

// loadAverage follows the load without the kernel's delay, so that it changes with the load and at no other time.
func (s *Sim) loadAverage(now time.Duration) string {
	n := s.line.drawAt(now).use[0] * float64(s.fix.cpus)
	return fmt.Sprintf("%.2f %.2f %.2f %d/512 4242\n", n, n, n, 1+int(math.Round(n)))
}

// refreshLoad rewrites /proc/loadavg, which libraries open past the hook, if it has changed. A tree without one, or a
// directory that has gone, is left alone: the load itself is what counts.
func (s *Sim) refreshLoad() { _ = s.refresh("proc/loadavg") }

func (s *Sim) uptime(now time.Duration) float64 {
	first, _, _ := strings.Cut(s.began["proc/uptime"], " ")
	up, err := strconv.ParseFloat(first, 64)
	if err != nil {
		up = 0
	}
	return up + now.Seconds() + s.asleep.Seconds()
}

// procStat gives every CPU the same share of the work, in ticks of 10 ms, after what the cpu lines said at the beginning.
func (s *Sim) procStat(now time.Duration) string {
	busy := int64(s.line.until(now)[0].uj.Joules() * 100)
	total := int64(now.Seconds() * 100)
	var out strings.Builder
	for line := range strings.Lines(s.began["proc/stat"]) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[0], "cpu") {
			out.WriteString(line)
			continue
		}
		n := int64(1)
		if f[0] == "cpu" {
			n = int64(s.fix.cpus)
		}
		f[1] = ticks(f[1], n*busy)
		f[4] = ticks(f[4], n*(total-busy))
		out.WriteString(strings.Join(f, " ") + "\n")
	}
	return out.String()
}

func ticks(found string, more int64) string {
	v, err := strconv.ParseInt(found, 10, 62)
	if err != nil {
		return found
	}
	return strconv.FormatInt(v+more, 10)
}
