package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestABundleNamesNobody(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"quner.toml": "# for Anna Plant at PLANTED-HOST, kept in /data/people/annap/quner\ntick = \"5s\"\n",
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
	for _, secret := range []string{"planted-host", "annap", "anna plant", "example.org", "people", "cafe"} {
		text := strings.NewReplacer("annapolis", "", "replanted-hosts", "").Replace(strings.ToLower(all))
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s is in it: %s", secret, text[max(0, i-40):min(len(text), i+40)])
		}
	}
	for _, kept := range []string{"annapolis, replanted-hosts stay", "NVIDIA A40", `"daemon": "tuned"`, "no such flag", "profile training"} {
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
		(&app{out: out, err: out, dir: socket, units: []string{dir}}).doctorPage(doctorOf("workstation"))
		return b.String()
	}
	const command = "  sudo systemctl disable --now qunerd.service qunerd.socket qunerd-admin.socket\n"
	if strings.Contains(page(""), "disable --now qunerd.service") {
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
