package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/host"
)

func TestABundleNamesNobody(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"quner.toml": "# for Anna Plant at PLANTED-HOST, kept in /data/people/annap/quner\n[limits] # Rosebud's\nwindows = 7 # \"rosebud\"\n\t# rosebud = 1\n",
		"journalctl": "#!/bin/sh\necho 'planted-host.example.org: annap on planted-host; annapolis, replanted-hosts stay'\n",
		"qunerd":     "#!/bin/sh\necho 'no such flag: /home/annap' >&2; exit 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	d := &daemon{dir: filepath.Join(dir, "run"), machine: "workstation"}
	stop, err := d.serve()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{hide: newHider([]byte("salt")), config: filepath.Join(dir, "quner.toml")}
	b.hide.host("planted-host.example.org\n")
	b.hide.people(strings.NewReader("daemon:x:1:1::/:/bin/sh\nannap:x:1000:1000:Anna Plant,,,:/data/people/annap:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"))
	quiet := &screen{Writer: io.Discard}
	(&app{out: quiet, err: quiet, dir: d.dir}).gather(t.Context(), b)
	if len(b.files) != 6 || len(b.missing) != 1 {
		t.Fatalf("%d files, missing: %v", len(b.files), b.missing)
	}
	all := b.missing[0].Reason
	for _, f := range b.files {
		all += "\n" + f.content
	}
	for _, secret := range []string{"planted-host", "annap", "anna plant", "example.org", "people", "cafe", "rosebud"} {
		text := strings.NewReplacer("annapolis", "", "replanted-hosts", "").Replace(strings.ToLower(all))
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s is in it: %s", secret, text[max(0, i-40):min(len(text), i+40)])
		}
	}
	for _, kept := range []string{"annapolis, replanted-hosts stay", "NVIDIA A40", `"daemon": "tuned"`, "no such flag", "profile training", "[limits]\nwindows = 7\n"} {
		if !strings.Contains(all, kept) {
			t.Errorf("%q is not in it", kept)
		}
	}
	boards := map[string]bool{}
	for _, m := range regexp.MustCompile(`GPU-[0-9a-f-]{36}`).FindAllString(all, -1) {
		boards[m] = true
	}
	if len(boards) != 1 {
		t.Errorf("one board is called %v", boards)
	}
}

func TestAHostIsHiddenWithItsDomain(t *testing.T) {
	h := newHider([]byte("salt"))
	h.host("planted-host\n")
	const text = "on planted-host.lab.example, planted-host.planted-host.exämple. Planted-host: replanted-host.x"
	want := "on host-X, host-X. host-X: replanted-host.x"
	if got := regexp.MustCompile(`host-[0-9a-f]{8}`).ReplaceAllString(h.text(text), "host-X"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAHashIsTheSameInOneBundleOnly(t *testing.T) {
	const text = "0f0e0d0c-1111-2222-3333-444455556666 AA:BB:CC:DD:EE:FF 0f0e0d0c111122223333444455556666 \"serial_number\": \"A1B2C3\" vm VM VMs x"
	hide := func(salt string) string {
		h := newHider([]byte(salt))
		h.name(hostName, "vm")
		return h.text(text)
	}
	got := hide("a")
	if got != hide("a") || got == hide("b") {
		t.Errorf("%q", got)
	}
	form := regexp.MustCompile(`^([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12} (02)(:[0-9a-f]{2}){5} ([0-9a-f]{8})[0-9a-f]{24} "serial_number": "serial-[0-9a-f]{8}" host-[0-9a-f]{8} VM VMs x$`)
	m := form.FindStringSubmatch(got)
	if m == nil || m[1] != m[5] {
		t.Errorf("%q: the forms are not kept, or one UUID has two hashes", got)
	}
}

// What the daemon's program hashes in a bundle is called the same as in the other files of it.
func TestACaptureHasTheHashesOfItsBundle(t *testing.T) {
	const uuid, mac = "0f0e0d0c-1111-2222-3333-444455556666", "aa:bb:cc:dd:ee:ff"
	root, salt := t.TempDir(), []byte("sixteen bytes...")
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online":                         "0\n",
		"sys/class/power_supply/hid-" + mac + "-battery/type":   "Battery\n",
		"proc/driver/nvidia/gpus/0000:41:00.0/information":      "Model: NVIDIA A40\nGPU UUID: GPU-" + uuid + "\n",
		"proc/driver/nvidia/gpus/0000:41:00.0/" + "power":       "Runtime D3 status: Enabled\n",
		"sys/bus/pci/devices/0000:41:00.0/vendor":               "0x10de\n",
		"sys/bus/pci/devices/0000:41:00.0/class":                "0x030000\n",
		"sys/bus/pci/devices/0000:41:00.0/power/runtime_status": "suspended\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := doctor.Capture(t.Context(), host.Real(root, nil), salt)
	if err != nil {
		t.Fatal(err)
	}
	h := newHider(salt)
	for _, id := range []string{uuid, mac} {
		if called := h.text(id); !strings.Contains(string(data), called) {
			t.Errorf("%s is called %s in other files, and here:\n%s", id, called, data)
		}
	}
	if got := h.named(string(data)); got != string(data) {
		t.Error("a hash was hashed again")
	}
}

func FuzzHidingLeavesNoName(f *testing.F) {
	f.Add("anna anna2 /home/anna/x ANNA", "anna")
	f.Add("box.example.org: box", "box.example.org")
	f.Add("J\xfcrgen", "J\xfcrgen")
	f.Fuzz(func(t *testing.T, text, name string) {
		if len(name) < 4 || ordinary(strings.ToLower(name)) || strings.ContainsAny(name, " -./") {
			return
		}
		h := newHider([]byte("salt"))
		h.name(userName, name)
		text = strings.ToValidUTF8(text, "?")
		for _, word := range strings.Fields(h.text(text)) {
			if word == name && !strings.HasPrefix(name, "user-") {
				t.Errorf("%q is left of %q", name, text)
			}
		}
	})
}

func TestDoctorSaysHowToStopForGood(t *testing.T) {
	t.Setenv("QUNER_SOCKET", "")
	dir := t.TempDir()
	page := func(socket string) string {
		var b strings.Builder
		out := &screen{Writer: &b}
		(&app{out: out, err: out, dir: socket, units: []string{dir}}).doctorPage(doctorOf("workstation"), nil)
		return b.String()
	}
	const command = "  sudo systemctl disable --now qunerd.socket qunerd-admin.socket qunerd.service\n"
	if strings.Contains(page(""), "disable --now qunerd") {
		t.Error("no unit is installed")
	}
	if err := os.WriteFile(filepath.Join(dir, "qunerd.service"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(page(""), command) {
		t.Errorf("%s", page(""))
	}
	if strings.Contains(page("/tmp/q"), command) {
		t.Error("a daemon of one's own is no service")
	}
}
