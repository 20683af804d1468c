package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Parse reads a configuration. The name of the file is for messages: "<name>:<line>: <key> = <value>: <what is allowed>".
// All that is wrong is reported at once.
func Parse(text []byte, name string) (Config, error) {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return Config{}, syntaxError(name, err)
	}
	c := Default()
	d := document{name: name, lines: linesOf(text), settings: settings(&c)}
	d.take("", tree)
	if c.Serving.AdminConnections >= c.Serving.Connections {
		d.refuse("limits.admin_connections", c.Serving.AdminConnections, "less than limits.connections")
	}
	if len(d.errs) > 0 {
		return Config{}, errors.Join(d.errs...)
	}
	return c, nil
}

// Keys returns every key of the file, sorted: "detector.ticks", "tick".
func Keys() []string {
	var c Config
	return slices.Sorted(maps.Keys(settings(&c)))
}

// document is one file while it is turned into a Config.
type document struct {
	name     string
	lines    map[string]int
	settings map[string]setting
	errs     []error
}

// take sets what a table says.
func (d *document) take(prefix string, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		key := prefix + name
		s, known := d.settings[key]
		sub, isTable := table[name].(map[string]any)
		switch {
		case known:
			if allowed := s(table[name]); allowed != "" {
				d.refuse(key, table[name], allowed)
			}
		case isTable && prefix == "" && d.hasTable(name):
			d.take(key+".", sub)
		default:
			d.errs = append(d.errs, fmt.Errorf("%s: unknown key %q: %s", d.at(key), key, d.knownBeside(prefix, name)))
		}
	}
}

// knownBeside says what an unknown key may have been meant for: a key of the whole file that has slipped into a table at its
// end, or one of those that its table has.
func (d *document) knownBeside(table, name string) string {
	if _, known := d.settings[name]; known {
		return fmt.Sprintf("%s stands before the first [table], and this is within [%s]", name, strings.TrimSuffix(table, "."))
	}
	beside := slices.DeleteFunc(Keys(), func(key string) bool { return !strings.HasPrefix(key, table) })
	return "known are " + strings.Join(beside, ", ")
}

func (d *document) hasTable(name string) bool {
	for key := range d.settings {
		if strings.HasPrefix(key, name+".") {
			return true
		}
	}
	return false
}

func (d *document) refuse(key string, value any, allowed string) {
	shown := fmt.Sprintf("%v", value)
	if s, ok := value.(string); ok {
		shown = fmt.Sprintf("%q", s)
	}
	if len(shown) > 60 {
		shown = shown[:60] + "…"
	}
	d.errs = append(d.errs, fmt.Errorf("%s: %s = %s: allowed: %s", d.at(key), key, shown, allowed))
}

// at is the place of a key: of the key itself or of the table that holds it.
func (d *document) at(key string) string {
	for {
		if line, ok := d.lines[key]; ok {
			return fmt.Sprintf("%s:%d", d.name, line)
		}
		dot := strings.LastIndexByte(key, '.')
		if dot < 0 {
			return d.name
		}
		key = key[:dot]
	}
}

// linesOf finds the line of each key and table: a decoder that knows no key complains about every one, with its place.
func linesOf(text []byte) map[string]int {
	var nothing struct{}
	var tables struct {
		Detector struct{} `toml:"detector"`
		Limits   struct{} `toml:"limits"`
	}
	lines := map[string]int{}
	for _, target := range []any{&nothing, &tables} {
		var missing *toml.StrictMissingError
		err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(target)
		if !errors.As(err, &missing) {
			continue
		}
		for _, e := range missing.Errors {
			line, _ := e.Position()
			lines[strings.Join(e.Key(), ".")] = line
		}
	}
	return lines
}

func syntaxError(name string, err error) error {
	var at *toml.DecodeError
	if !errors.As(err, &at) {
		return fmt.Errorf("%s: %w", name, err)
	}
	line, column := at.Position()
	if key := strings.Join(at.Key(), "."); key != "" {
		return fmt.Errorf("%s:%d:%d: %s: %w", name, line, column, key, err)
	}
	return fmt.Errorf("%s:%d:%d: %w", name, line, column, err)
}
