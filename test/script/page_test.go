package script

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// volatile are the figures of a page that no two runs share. Power caps are whole watts, figures measured are not.
var volatile = []struct {
	figure *regexp.Regexp
	shown  string
}{
	{regexp.MustCompile(`[0-9]+(\.[0-9]+)? (± [0-9.]+ )?m?J\b`), "# J"},
	{regexp.MustCompile(`[0-9]+\.[0-9]+ W`), "# W"},
	{regexp.MustCompile(`(?m)^  COUNTER +STEP EVERY .*$`), "  COUNTER  STEP EVERY …"},
	{regexp.MustCompile(`(?m)^(  [a-z]+/\S+) +(under )?[0-9.]+ [mµ]?s.* good\b.*$`), "$1  …"},
	{regexp.MustCompile(`up [0-9.]+ m?s`), "up # s"},
	{regexp.MustCompile(`[0-9]+\.[0-9]+ s\b`), "# s"},
	{regexp.MustCompile(`This is the picture as of # s ago\.\n\n`), ""}, // what a busy machine adds
	{regexp.MustCompile(`load [0-9.]+ on`), "load # on"},
	{regexp.MustCompile(` +(# [JW])`), "  $1"}, // columns follow the figures' width
	{regexp.MustCompile(`(POWER|ENERGY|GROSS) *`), "$1  "},
	{regexp.MustCompile(` +\n`), "\n"},
}

// page FILE
func page(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 1, "page FILE"))
	shown := strings.ReplaceAll(ts.ReadFile("stdout"), stageOf(ts).dir, "WORK")
	for _, v := range volatile {
		shown = v.figure.ReplaceAllString(shown, v.shown)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(shown), 0o644))
}

// json FILE
func validJSON(ts *testscript.TestScript, args []string) {
	ts.Check(want(args, 1, "json FILE"))
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &v); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

// mode OCTAL FILE…
func mode(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: mode OCTAL FILE…")
	}
	perm, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, name := range args[1:] {
		info, err := os.Lstat(ts.MkAbs(name))
		ts.Check(err)
		if got := info.Mode().Perm(); got != os.FileMode(perm) {
			ts.Fatalf("%s: mode %04o, want %04o", name, got, perm)
		}
	}
}

func compile(ts *testscript.TestScript, pattern string) *regexp.Regexp {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return re
}

// become UID CMD… is CMD as another user.
func become() {
	err := func() error {
		if len(os.Args) < 3 {
			return fmt.Errorf("usage: become UID CMD…")
		}
		id, err := strconv.Atoi(os.Args[1])
		if err != nil {
			return err
		}
		path, err := exec.LookPath(os.Args[2])
		if err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return syscall.Setgroups(nil) },
			func() error { return syscall.Setgid(id) },
			func() error { return syscall.Setuid(id) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return syscall.Exec(path, os.Args[2:], os.Environ())
	}()
	fmt.Fprintln(os.Stderr, strings.Join(os.Args, " ")+":", err)
	os.Exit(99)
}
