package systemd_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/qunerd/quner/deploy/systemd"
)

func files(t *testing.T, l systemd.Layout) map[string]string {
	t.Helper()
	all, err := l.Files()
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, f := range all {
		text[f.Path] = string(f.Content)
		if f.Mode != 0o644 || f.Config != (f.Path == systemd.Config) {
			t.Errorf("%s: mode %v, configuration %v", f.Path, f.Mode, f.Config)
		}
	}
	return text
}

// A package ships the files as they lie here; its layout must be theirs.
func TestPackagedLayoutIsTheFilesAsTheyLie(t *testing.T) {
	text := files(t, systemd.Layout{Bin: "/usr/bin"})
	for path, name := range map[string]string{
		"/etc/systemd/system/qunerd.service": "qunerd.service", "/etc/systemd/system/qunerd.socket": "qunerd.socket",
		"/etc/systemd/system/quner-retune.service": "quner-retune.service", "/etc/systemd/system/quner-retune.timer": "quner-retune.timer",
		"/etc/systemd/system/qunerd-admin.socket": "qunerd-admin.socket", "/etc/sysusers.d/quner.conf": "quner.sysusers",
		"/etc/tmpfiles.d/quner.conf": "quner.tmpfiles", "/etc/quner/quner.toml": "quner.toml",
	} {
		want, err := os.ReadFile(name)
		if err != nil || text[path] != string(want) {
			t.Errorf("%s is not %s as it lies here (%v)", path, name, err)
		}
	}
	if len(text) != 8 {
		t.Errorf("%d files", len(text))
	}
}

func TestOwnDirectoryAndGroup(t *testing.T) {
	plain, own := files(t, systemd.Layout{Bin: "/usr/bin"}), files(t, systemd.Layout{Bin: "/usr/local/bin", AdminGroup: "power"})
	service := own["/etc/systemd/system/qunerd.service"]
	if strings.Contains(service, "=/usr/bin/qunerd") || strings.Count(service, "=/usr/local/bin/qunerd ") != 2 {
		t.Error("the unit does not start and restore with the installed program")
	}
	if !strings.Contains(own["/etc/systemd/system/quner-retune.service"], "\nExecStart=/usr/local/bin/qunerctl retune\n") {
		t.Error("the timer's service does not call the installed program")
	}
	for path, want := range map[string][]string{
		"/etc/systemd/system/quner-retune.timer":  {"OnBootSec=5min", "OnUnitActiveSec=30min"},
		"/etc/systemd/system/qunerd-admin.socket": {"SocketGroup=power", "SocketMode=0660", "SocketUser=root"},
		"/etc/tmpfiles.d/quner.conf":              {"d /run/quner-admin 0750 root power -", "d /run/quner 0755 root root -"},
	} {
		for _, line := range want {
			if !strings.Contains(own[path], "\n"+line+"\n") {
				t.Errorf("%s lacks %q", path, line)
			}
		}
	}
	if strings.Contains(plain["/etc/tmpfiles.d/quner.conf"], "0750") || !strings.Contains(plain["/etc/systemd/system/qunerd-admin.socket"], "\nSocketMode=0600\n") {
		t.Error("without a group others than root are let in")
	}
}

func TestTheTimersInterval(t *testing.T) {
	timer := files(t, systemd.Layout{Bin: "/usr/bin", Retune: 2 * time.Hour})["/etc/systemd/system/quner-retune.timer"]
	if !strings.Contains(timer, "\nOnUnitActiveSec=7200s\n") || strings.Contains(timer, "OnUnitActiveSec=30min") {
		t.Errorf("every two hours:\n%s", timer)
	}
}

func TestNamesThatAUnitWouldMisread(t *testing.T) {
	for _, l := range []systemd.Layout{
		{Bin: ""}, {Bin: "usr/bin"}, {Bin: "/usr/my bin"}, {Bin: "/usr/%h"}, {Bin: "/usr/bin\n"},
		{Bin: "/usr/bin", AdminGroup: "a b"}, {Bin: "/usr/bin", AdminGroup: "x\nSocketMode=0666"}, {Bin: "/usr/bin", AdminGroup: "-x"},
	} {
		if _, err := l.Files(); !errors.As(err, new(systemd.ErrName)) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// analyze runs systemd-analyze on the units, with the programs' path such that it finds one.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "qunerd"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range files(t, systemd.Layout{Bin: "/usr/bin"}) {
		if filepath.Dir(path) == systemd.UnitDir {
			text = strings.ReplaceAll(text, "/usr/bin/qunerd", dir+"/qunerd")
			text = strings.ReplaceAll(text, "/usr/bin/qunerctl", dir+"/qunerd")
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestUnitsVerify(t *testing.T) {
	out, err := analyze(t, "verify", "--man=no", "./qunerd.service", "./qunerd.socket", "./qunerd-admin.socket",
		"./quner-retune.service", "./quner-retune.timer")
	if err != nil || out != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestExposure(t *testing.T) {
	const bar = 2.0
	for _, unit := range []string{systemd.Service, systemd.RetuneService} {
		t.Run(unit, func(t *testing.T) { exposure(t, unit, bar) })
	}
}

func exposure(t *testing.T, unit string, bar float64) {
	out, err := analyze(t, "security", "--offline=true", "--no-pager", "./"+unit)
	found := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
	if found == nil {
		if strings.Contains(out, "offline") {
			t.Skipf("needs a systemd-analyze that looks offline: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	if level, err := strconv.ParseFloat(found[1], 64); err != nil || level > bar {
		t.Errorf("exposure %s, at most %.1f is allowed\n%s", found[1], bar, out)
	}
}
