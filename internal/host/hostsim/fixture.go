package hostsim

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

//go:embed hosts/*.txtar
var builtin embed.FS

// Fixture is a machine as written down: a txtar archive with a tree below sys, proc and etc, the power model host.toml,
// and a CSV curve for each board. A file named "a/b -> c" is a symbolic link.
type Fixture struct {
	source   []byte
	model    model
	files    map[string]string // slash-separated, below the machine's root
	links    map[string]string // name to target
	curves   []Curve           // one a board
	boards   []boardFiles      // one a board
	policies []string          // directories of cpufreq policies
	packages []string          // names of CPU packages
	zones    []zone
	counters []string // files that change by themselves
	cpus     int
}

// Name returns the machine's name.
func (f Fixture) Name() string { return f.model.Name }

// Names returns the built-in machines.
func Names() []string {
	entries, err := builtin.ReadDir("hosts")
	if err != nil {
		panic(err) // embedded: cannot be absent
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txtar"))
	}
	return names
}

// Load returns a built-in machine by name, or one from a file whose path ends in .txtar.
func Load(nameOrPath string) (Fixture, error) {
	if strings.HasSuffix(nameOrPath, ".txtar") {
		data, err := os.ReadFile(nameOrPath)
		if err != nil {
			return Fixture{}, err
		}
		return named(nameOrPath, data)
	}
	if !slices.Contains(Names(), nameOrPath) {
		return Fixture{}, fmt.Errorf("simulated host %q: unknown (allowed: %s, or a path that ends in .txtar)",
			nameOrPath, strings.Join(Names(), ", "))
	}
	data, err := builtin.ReadFile("hosts/" + nameOrPath + ".txtar")
	if err != nil {
		return Fixture{}, err
	}
	return named(nameOrPath+".txtar", data)
}

func named(file string, data []byte) (Fixture, error) {
	f, err := parseFixture(data)
	if err != nil {
		return Fixture{}, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// parseFixture reads an archive and checks that the model fits the tree.
func parseFixture(data []byte) (Fixture, error) {
	f := Fixture{source: data, files: map[string]string{}, links: map[string]string{}}
	parts := map[string]string{}
	for _, file := range txtar.Parse(data).Files {
		if err := f.place(file, parts); err != nil {
			return Fixture{}, err
		}
	}
	text, ok := parts["host.toml"]
	if !ok {
		return Fixture{}, errors.New("host.toml: absent")
	}
	m, err := parseModel([]byte(text))
	if err != nil {
		return Fixture{}, fmt.Errorf("host.toml: %w", err)
	}
	f.model = m
	for i, g := range m.GPUs {
		text, ok := parts[g.Curve]
		if !ok {
			bad := &valueError{"gpu", i, "curve", g.Curve, "a file of the archive"}
			return Fixture{}, fmt.Errorf("host.toml: line %d: %w", lineOf(parts["host.toml"], bad), bad)
		}
		c, err := parseCurve(bytes.NewReader([]byte(text)))
		if err != nil {
			return Fixture{}, fmt.Errorf("%s: %w", g.Curve, err)
		}
		f.curves = append(f.curves, c)
	}
	return f, f.survey()
}

// place files one entry of the archive: a link or file of the tree, or a part of the model.
func (f *Fixture) place(file txtar.File, parts map[string]string) error {
	name, target, link := strings.Cut(file.Name, " -> ")
	if !filepath.IsLocal(name) || path.Clean(name) != name {
		return fmt.Errorf("file %q: not a clean relative path", file.Name)
	}
	_, isFile := f.files[name]
	_, isLink := f.links[name]
	if _, isPart := parts[name]; isFile || isLink || isPart {
		return fmt.Errorf("file %q: twice", name)
	}
	top, _, below := strings.Cut(name, "/")
	inTree := below && (top == "sys" || top == "proc" || top == "etc")
	switch {
	case link && inTree:
		// A link that left the tree would have the simulation write where it has no business.
		if end := path.Join(path.Dir(name), target); path.IsAbs(target) || !strings.HasPrefix(end, top+"/") {
			return fmt.Errorf("link %q: target %q leaves %s", name, target, top)
		}
		f.links[name] = target
	case inTree:
		f.files[name] = string(file.Data)
		if path.Base(name) == "cmdline" && strings.Count(name, "/") == 2 {
			// One argument a line; the kernel ends each with a zero byte.
			f.files[name] = strings.ReplaceAll(f.files[name], "\n", "\x00")
		}
	case !link && (name == "host.toml" || strings.HasSuffix(name, ".csv")) && !below:
		parts[name] = string(file.Data)
	default:
		return fmt.Errorf("file %q: unknown (allowed: sys/…, proc/…, etc/…, host.toml, *.csv)", file.Name)
	}
	return nil
}

// survey finds what the power model needs to know of the tree.
func (f *Fixture) survey() error {
	names := slices.Sorted(maps.Keys(f.files))
	for _, name := range slices.Concat(names, slices.Sorted(maps.Keys(f.links))) {
		if err := f.checkAbove(name); err != nil {
			return err
		}
	}
	f.cpus = max(1, strings.Count("\n"+f.files["proc/cpuinfo"], "\nprocessor\t"))
	for _, name := range names {
		if isCounter(name) {
			f.counters = append(f.counters, name)
		}
		if path.Base(name) == "scaling_governor" && strings.HasPrefix(name, policyRoot) {
			f.policies = append(f.policies, path.Dir(name))
		}
	}
	for _, dir := range f.policies {
		for _, g := range strings.Fields(f.files[dir+"/scaling_available_governors"]) {
			if _, ok := f.model.CPU.Governors[g]; !ok {
				return fmt.Errorf("host.toml: table cpu.governors.%s: absent, but %s offers that governor", g, dir)
			}
		}
	}
	if err := f.findBoards(names); err != nil {
		return err
	}
	return f.findZones()
}

// checkAbove refuses an entry below a file or a link: unpacking it would write through the other.
func (f *Fixture) checkAbove(name string) error {
	for up := path.Dir(name); up != "."; up = path.Dir(up) {
		_, link := f.links[up]
		if _, file := f.files[up]; file || link {
			return fmt.Errorf("file %q: %q is no directory", name, up)
		}
	}
	return nil
}

const policyRoot = "sys/devices/system/cpu/cpufreq/policy"
