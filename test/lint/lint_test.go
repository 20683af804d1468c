//go:build lintselftest

// Package lint proves that the rules of .golangci.yml are alive: a rule whose pattern has a slip in it reports nothing,
// and nothing is what a clean tree reports too.
package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const root = "../.."

// issue is one line of the linter's report, as far as it is looked at.
type issue struct {
	FromLinter string
	Text       string
	Pos        struct {
		Filename string
		Line     int
	}
}

func (i issue) place() string { return fmt.Sprintf("%s:%d", i.Pos.Filename, i.Pos.Line) }

func TestEveryRuleFires(t *testing.T) {
	module := t.TempDir()
	wants := writeModule(t, module)
	found := runLinter(t, module)

	for _, i := range found {
		want, ok := wants[i.place()]
		linter, pattern, _ := strings.Cut(want, " ")
		switch {
		case !ok:
			t.Errorf("%s: reported without cause: %s (%s)", i.place(), i.Text, i.FromLinter)
		case linter != i.FromLinter || !regexp.MustCompile(pattern).MatchString(i.Text):
			t.Errorf("%s: reported %q (%s), want %q", i.place(), i.Text, i.FromLinter, want)
		}
		delete(wants, i.place())
	}
	for _, place := range slices.Sorted(maps.Keys(wants)) {
		t.Errorf("%s: not reported: %s", place, wants[place])
	}
	everyRuleIsTried(t, found)
}

// writeModule lays the violations out as a module with this one's dependencies and configuration. It returns what must
// be reported, by place.
func writeModule(t *testing.T, dir string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile("violations.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
	}
	archive.Files = append(archive.Files, tooLong()...)
	wants := map[string]string{}
	for _, f := range archive.Files {
		for n, line := range strings.Split(string(f.Data), "\n") {
			if _, want, ok := strings.Cut(line, "// want "); ok {
				wants[fmt.Sprintf("%s:%d", f.Name, n+1)] = want
			}
		}
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return wants
}

// tooLong returns a function of 61 lines and a file of 401.
func tooLong() []txtar.File {
	function := "package stray\n\nfunc long(n int) int { // want funlen too long\n" +
		strings.Repeat("\tn++\n", 60) + "\treturn n\n}\n\nvar _ = long(0)\n"
	file := "package stray\n" + strings.Repeat("\n// A thing that has been said.\n", 199) + "\n\nvar _ = 0 // want revive file length\n"
	return []txtar.File{
		{Name: "internal/stray/function.go", Data: []byte(function)},
		{Name: "internal/stray/file.go", Data: []byte(file)},
	}
}

func runLinter(t *testing.T, dir string) []issue {
	t.Helper()
	tools, err := filepath.Abs(filepath.Join(root, "tools/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	lint := exec.Command("go", "tool", "-modfile="+tools, "golangci-lint", "run", "--allow-parallel-runners",
		"--issues-exit-code=0", "--output.json.path=stdout", "--show-stats=false", "./...")
	lint.Dir = dir
	var complaints strings.Builder
	lint.Stderr = &complaints
	out, err := lint.Output()
	if err != nil {
		t.Fatalf("golangci-lint: %v\n%s%s", err, out, &complaints)
	}
	var report struct{ Issues []issue }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("golangci-lint's report: %v\n%s", err, out)
	}
	return report.Issues
}

// everyRuleIsTried compares the configuration with the report, so that a new rule comes with a violation.
func everyRuleIsTried(t *testing.T, found []issue) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(config), "\n    depguard:\n")
	layers, rest, ok := strings.Cut(rest, "\n    forbidigo:\n")
	if !ok {
		t.Fatal(".golangci.yml: no section depguard followed by forbidigo")
	}
	for _, rule := range regexp.MustCompile(`(?m)^        ([a-z-]+):$`).FindAllStringSubmatch(layers, -1) {
		if !slices.ContainsFunc(found, func(i issue) bool { return strings.Contains(i.Text, "list '"+rule[1]+"'") }) {
			t.Errorf("layer rule %s: no violation of it was reported", rule[1])
		}
	}
	used := regexp.MustCompile("use of `([^`]+)`")
	for _, rule := range regexp.MustCompile(`(?m)^        - pattern: (.+)$`).FindAllStringSubmatch(rest, -1) {
		pattern := regexp.MustCompile(rule[1])
		if !slices.ContainsFunc(found, func(i issue) bool {
			call := used.FindStringSubmatch(i.Text)
			return call != nil && pattern.MatchString(call[1])
		}) {
			t.Errorf("forbidden %s: no violation of it was reported", rule[1])
		}
	}
}
