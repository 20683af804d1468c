package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/internal/host"
)

func TestTheFourthStartAfterThreeCrashesObserves(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	run, log := runtimeDir(t), slog.New(slog.DiscardHandler)
	for life := range 4 {
		why := openStarts(run, log).observe(false)
		if observes := why != ""; observes != (life == 3) {
			t.Errorf("life %d: %q", life+1, why)
		}
	}
	openStarts(run, log).ended()
	if why := openStarts(run, log).observe(false); why != "" {
		t.Errorf("after an orderly end: %q", why)
	}
}

func TestStartsByHandAreNotCounted(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	run, log := runtimeDir(t), slog.New(slog.DiscardHandler)
	for range 5 {
		if why := openStarts(run, log).observe(false); why != "" {
			t.Error(why)
		}
	}
	if names, err := os.ReadDir(run.File("quner-admin")); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestADryRunSaysWhy(t *testing.T) {
	if why := new(starts).observe(true); !strings.Contains(why, "--dry-run") {
		t.Errorf("%q", why)
	}
}

func runtimeDir(t *testing.T) host.Dir {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "quner-admin"), 0o700); err != nil {
		t.Fatal(err)
	}
	return host.NewDir(dir, nil)
}

func TestOnlyStartsOfTheLastTenMinutesCount(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	text := fmt.Sprintf("%d\n%d\n%d\nnonsense\n", now.Unix()-601, now.Unix()-599, now.Unix()+5)
	if open := parseStarts(text, now); len(open) != 1 || open[0].Unix() != now.Unix()-599 {
		t.Errorf("%v", open)
	}
}

func FuzzStarts(f *testing.F) {
	f.Add("1800000000\n1800000001\n")
	f.Add("\n-9223372036854775808\n99999999999999999999\n")
	now := time.Unix(1_800_000_002, 0)
	f.Fuzz(func(t *testing.T, text string) {
		for _, at := range parseStarts(text, now) {
			if at.After(now) || now.Sub(at) >= crashesCount {
				t.Errorf("%v counts at %v", at, now)
			}
		}
	})
}

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		granted string
		tick    time.Duration
		asked   string
	}{
		{"60000000", 10 * time.Second, ""}, {"60000000", time.Minute, "WATCHDOG_USEC=240000000"},
		{"3000000", time.Second, "WATCHDOG_USEC=4000000"}, {"", time.Minute, ""}, {"0", time.Minute, ""},
	} {
		t.Setenv("WATCHDOG_USEC", c.granted)
		var told string
		patience(c.tick, func(s string) { told = s })
		if told != c.asked {
			t.Errorf("%s a tick of %v: told %q, want %q", c.granted, c.tick, told, c.asked)
		}
	}
}
