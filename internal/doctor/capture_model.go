package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// hasher hides what names a machine. With the same salt qunerctl's bug reports have the same hashes, so that a board that
// is in several files is one board.
type hasher struct{ salt []byte }

func (h hasher) of(s string) string {
	sum := sha256.Sum256(append(slices.Clone(h.salt), strings.ToLower(s)...))
	return hex.EncodeToString(sum[:])
}

// text hashes the UUIDs and MAC addresses in a text; what it makes has the same form.
func (h hasher) text(s string) string {
	uuid := regexp.MustCompile(`(?i)\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})\b`)
	mac := regexp.MustCompile(`(?i)\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b`)
	s = uuid.ReplaceAllStringFunc(s, func(m string) string {
		x := h.of(strings.ReplaceAll(m, "-", ""))
		if !strings.Contains(m, "-") {
			return x[:32]
		}
		return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:32]
	})
	return mac.ReplaceAllStringFunc(s, func(m string) string {
		x := h.of(m)
		return "02:" + x[:2] + ":" + x[2:4] + ":" + x[4:6] + ":" + x[6:8] + ":" + x[8:10] // a locally administered one
	})
}

// assumedCurve is what a board is assumed to do at each part of its highest cap: more power does less and less.
func assumedCurve(lo, hi float64) string {
	var b strings.Builder
	b.WriteString("# Assumed, not measured: a capture knows no workload.\ncap_w,drawn_w,rate\n")
	const points = 8
	if hi-lo < 1 {
		hi = lo + 1
	}
	for i := range points + 1 {
		w := lo + (hi-lo)*float64(i)/points
		rate := (1 - math.Exp(-3*w/hi)) / (1 - math.Exp(-3))
		fmt.Fprintf(&b, "%.3f,%.3f,%.4f\n", w, 0.95*w, rate)
	}
	return b.String()
}

// model writes host.toml, and a curve for each board.
func (c *capture) model(ctx context.Context) []txtar.File {
	var b strings.Builder
	b.WriteString("# Every figure here is assumed but those of the boards' caps.\nname = \"captured\"\nsigma = 0.01\n\n" +
		"[cpu]\nidle_w = 10.0\nbusy_w = 65.0\ncore_share = 0.8\nrate = 100.0\n")
	for _, g := range c.offered("scaling_available_governors") {
		speed, power := 0.98, 0.95
		switch {
		case g == "performance":
			speed, power = 1, 1
		case g == "powersave" && !c.activeMode():
			speed, power = 0.25, 0.12
		}
		fmt.Fprintf(&b, "\n[cpu.governors.%s]\nspeed = %g\npower = %g\nrest_w = 0.0\n", g, speed, power)
	}
	for i, p := range []string{"performance", "balance_performance", "default", "balance_power", "power"} {
		if slices.Contains(c.offered("energy_performance_available_preferences"), p) {
			fmt.Fprintf(&b, "\n[cpu.preferences.%s]\nspeed = %g\npower = %g\nrest_w = 0.0\n", p, 1-0.04*float64(i), 1-0.08*float64(i))
		}
	}
	b.WriteString("\n[dram]\nidle_w = 2.0\nbusy_w = 5.0\n\n[platform]\nw = 15.0\n")
	for _, r := range c.refused {
		if r.assumed {
			b.WriteString("\n# Assumed: nothing was written to find out.")
		}
		fmt.Fprintf(&b, "\n[[refuse]]\nfile = %q\nop = %q\nerrno = %q\n", c.hash.text(escaped(r.file)), r.op, r.errno)
	}
	var curves []txtar.File
	for i, g := range c.boards(ctx) {
		name := fmt.Sprintf("gpu%d.csv", i)
		b.WriteString(g.toml(name))
		curves = append(curves, txtar.File{Name: name, Data: []byte(assumedCurve(g.lo, g.hi))})
	}
	return append([]txtar.File{{Name: "host.toml", Data: []byte(c.hash.text(b.String()))}}, curves...)
}

// escaped makes a name a pattern that matches nothing else.
func escaped(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// offered lists the words that some policy's file holds.
func (c *capture) offered(file string) []string {
	words := map[string]bool{}
	for name, text := range c.files {
		if path.Base(name) == file && strings.HasPrefix(name, "sys/"+cpufreqDir) {
			for w := range strings.FieldsSeq(text) {
				words[w] = true
			}
		}
	}
	known := []string{"performance", "powersave", "userspace", "ondemand", "conservative", "schedutil"}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(words)), func(w string) bool {
		return file == "scaling_available_governors" && !slices.Contains(known, w)
	})
}

func (c *capture) activeMode() bool {
	for name, text := range c.files {
		if path.Base(name) == "scaling_driver" && (strings.TrimSpace(text) == "intel_pstate" || strings.TrimSpace(text) == "amd-pstate-epp") {
			return true
		}
	}
	return false
}

// simBoard is a board of a fixture.
type simBoard struct {
	kind, uuid, pci, name, vbios, driver string
	lo, hi, found                        float64 // caps, W
	energy                               int64   // mJ
	refuses, sleeps, noCounter           bool
}

func (g simBoard) toml(curve string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n[[gpu]]\nkind = %q\npci = %q\nname = %q\ncurve = %q\n", g.kind, g.pci, g.name, curve)
	if g.kind == "nvidia" {
		fmt.Fprintf(&b, "uuid = %q\nvbios = %q\ndriver = %q\nmin_w = %.3f\nmax_w = %.3f\ndefault_w = %.3f\nfound_w = %.3f\nenergy_mj = %d\nno_counter = %t\nrefuses_cap = %t\n",
			g.uuid, g.vbios, g.driver, g.lo, g.hi, g.hi, g.found, g.energy, g.noCounter, g.refuses)
	}
	sleep := 0.0
	if g.sleeps {
		sleep = 5
	}
	fmt.Fprintf(&b, "# Assumed:\nidle_w = %.1f\nrate_scale = 1.0\ncpu_share = 0.2\nhost_bound = 0.1\nsleep_after_s = %.1f\nasleep_w = 0.0\n", g.hi/10, sleep)
	return b.String()
}

// boards are those that the vendor's library has, those that sleep, and AMD's.
func (c *capture) boards(ctx context.Context) []simBoard {
	var all []simBoard
	for _, gpu := range c.host.GPUs.All() {
		all = append(all, c.nvidia(ctx, gpu))
	}
	for _, asleep := range c.host.GPUs.Waiting() {
		all = append(all, c.sleeping(asleep.PCI))
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		dir, ok := strings.CutSuffix(name, "/power1_cap")
		if !ok || strings.TrimSpace(c.files[dir+"/name"]) != "amdgpu" {
			continue
		}
		pci := path.Base(path.Dir(path.Dir(dir)))
		g := simBoard{kind: "amdgpu", pci: pci, name: "AMD GPU " + strings.TrimSpace(c.files[path.Dir(path.Dir(dir))+"/device"]), sleeps: c.sleeps(pci)}
		complete := true
		for file, to := range map[string]*float64{"power1_cap_min": &g.lo, "power1_cap_max": &g.hi, "power1_cap": &g.found, "power1_cap_default": new(float64)} {
			n, err := strconv.ParseUint(strings.TrimSpace(c.files[dir+"/"+file]), 10, 32)
			*to, complete = float64(n)/1e6, complete && err == nil
		}
		if complete && c.canRun(g) {
			all = append(all, g)
		}
	}
	return all
}

// canRun reports whether a power model can be made for a board's caps.
func (c *capture) canRun(g simBoard) bool { return g.hi >= 1 && g.hi <= 10_000 && g.lo < 10_000 }

func (c *capture) nvidia(ctx context.Context, gpu *host.GPU) simBoard {
	info := gpu.Info()
	g := simBoard{kind: "nvidia", uuid: info.UUID, pci: info.PCI, name: info.Name, vbios: info.VBIOS, driver: c.host.GPUs.Version(), sleeps: c.sleeps(info.PCI)}
	lo, hi, err := gpu.LimitRange()
	g.lo, g.hi, g.refuses = lo.Watts(), hi.Watts(), errors.Is(err, host.ErrNotSupported)
	if err != nil || !c.canRun(g) || g.lo < 1 {
		g.lo, g.hi = 50, 150 // assumed
	}
	g.found = g.hi
	if r, err := gpu.Read(ctx, 0); err == nil {
		if r.LimitErr == nil && r.Limit > 0 {
			g.found = min(max(r.Limit.Watts(), g.lo), g.hi)
		}
		if r.EnergyErr == nil {
			g.energy = int64(r.Energy / unit.Millijoule)
		}
		g.noCounter = errors.Is(r.EnergyErr, host.ErrNotSupported)
	}
	return g
}

// sleeping is a board known without the library: by what the driver says in proc.
func (c *capture) sleeping(pci string) simBoard {
	g := simBoard{kind: "nvidia", uuid: "GPU-" + c.hash.text("00000000-0000-0000-0000-"+c.hash.of(pci)[:12]), pci: pci,
		name: "NVIDIA GPU", vbios: "unknown", driver: "unknown", lo: 50, hi: 150, found: 150, sleeps: true}
	for line := range strings.Lines(c.files["proc/driver/nvidia/gpus/"+pci+"/information"]) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.Contains(value, "?") || strings.ContainsAny(value, "/\n"):
		case key == "Model":
			g.name = value
		case key == "GPU UUID" && value != "":
			g.uuid = value
		case key == "Video BIOS":
			g.vbios = value
		}
	}
	return g
}

// sleeps reports whether the kernel may suspend a board at run time.
func (c *capture) sleeps(pci string) bool {
	for name, text := range c.files {
		if strings.HasSuffix(name, "/"+pci+"/power/control") && strings.TrimSpace(text) == "auto" {
			driver := c.files["proc/driver/nvidia/gpus/"+pci+"/power"]
			return c.files[path.Dir(name)+"/runtime_status"] != "" && !strings.Contains(driver, "Disabled") && !strings.Contains(driver, "Not supported")
		}
	}
	return false
}
