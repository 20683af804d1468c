package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/deploy/systemd"
)

// journalLines is how much of the daemon's journal is of use.
const journalLines = "200"

// gather collects whatever can be had. Nothing that fails keeps the rest from coming.
func (a *app) gather(ctx context.Context, b *bundle) {
	report, err := ask(ctx, a, a.reader, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.DoctorResponse, error) {
		return qunerv1.NewStatusServiceClient(conn).Doctor(ctx, &qunerv1.DoctorRequest{})
	})
	if len(report.GetFingerprint()) >= 8 {
		b.hide.name(machine, report.GetFingerprint())
	}
	b.answer(a, "doctor.json", "qunerctl doctor --json: each lever and counter, with reasons", report, err)
	s, err := a.status(ctx)
	b.answer(a, "status.json", "qunerctl status --json: profile, point, power", s, err)
	past, err := ask(ctx, a, a.admin, func(ctx context.Context, conn grpc.ClientConnInterface) (*qunerv1.HistoryResponse, error) {
		return qunerv1.NewAdminServiceClient(conn).History(ctx, &qunerv1.HistoryRequest{})
	})
	b.answer(a, "history.json", "qunerctl history --json: the last admin calls and lever writes", past, err)

	of := ""
	if _, other := a.otherDaemon(); other {
		of = " (of this machine's service; the daemon that was asked is another)"
	}
	data, err := os.ReadFile(b.config)
	b.add("quner.toml", "the configuration, without its comments"+of, settings(string(data)), err)
	b.add("versions.txt", "quner's, the kernel's and the system's version", versions(report, a.superuser), nil)
	journal, err := output(ctx, nil, "journalctl", "--unit", systemd.Service, "--lines", journalLines, "--no-pager", "--no-hostname", "--output", "short-iso")
	b.add("journal.txt", "the last "+journalLines+" journal lines of "+systemd.Service+of, journal, err)
	fixture, err := captured(ctx, b.hide.salt)
	b.addBy(b.hide.named, "machine.txtar", "this machine, for: qunerd run --simulate machine.txtar", fixture, err)
}

// settings are the lines of a configuration that set something. Its comments are for whoever wrote them.
func settings(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		quoted := false
		end := strings.IndexFunc(line, func(r rune) bool {
			if r == '"' || r == '\'' {
				quoted = !quoted
			}
			return r == '#' && !quoted
		})
		if end >= 0 {
			line = line[:end]
		}
		if line = strings.TrimSpace(line); strings.Contains(line, "=") || strings.HasPrefix(line, "[") {
			fmt.Fprintln(&kept, line)
		}
	}
	return kept.String()
}

// answer takes a message of the daemon's over as JSON.
func (b *bundle) answer(a *app, name, about string, m proto.Message, err error) {
	var text bytes.Buffer
	if err != nil {
		err = errors.New(a.classify(new(cobra.Command), err).Error())
	} else {
		err = writeJSON(&text, m)
	}
	b.add(name, about, text.String(), err)
}

// versions are facts as uname prints them, without the host's name.
func versions(r *qunerv1.DoctorResponse, superuser bool) string {
	var s strings.Builder
	fmt.Fprintf(&s, "qunerctl  %s (%s, %s)\n", version, runtime.Version(), runtime.GOARCH)
	if r.GetVersion() != "" {
		fmt.Fprintf(&s, "qunerd    %s\n", clean(r.GetVersion()))
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		fmt.Fprintf(&s, "kernel    %s %s %s %s\n", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]),
			unix.ByteSliceToString(u.Version[:]), unix.ByteSliceToString(u.Machine[:]))
	}
	if data, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(data)) {
			if pretty, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				fmt.Fprintf(&s, "system    %s\n", clean(strings.Trim(strings.TrimSpace(pretty), `"'`)))
			}
		}
	}
	fmt.Fprintf(&s, "made by   %s\n", map[bool]string{true: "root", false: "somebody who is not root"}[superuser])
	return s.String()
}

// programTimeout is how long another program may take: on a machine with a driver that hangs, too.
const programTimeout = 30 * time.Second

// output runs a program, with in on its standard input, for what it prints; nobody is to wait for what it may have left behind.
func output(ctx context.Context, in []byte, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // journalctl and qunerd
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(in), &out, &said, time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed", name)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("%s did not end within %s", filepath.Base(name), span(programTimeout))
	case err != nil && said.Len() > 0:
		first, _, _ := strings.Cut(said.String(), "\n")
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, first)
	case err != nil:
		return "", fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return out.String(), nil
}

// maxCaptured is more than a capture may hold.
const maxCaptured = 2 << 20

// captured has the daemon's program, the one beside this or else root's, write this machine down. What it hashes it hashes
// as hider does, with this salt.
func captured(ctx context.Context, salt []byte) (text string, err error) {
	daemon := "qunerd"
	if here, err := programsHere(); err == nil {
		if _, err := os.Stat(here[daemon]); err == nil {
			daemon = here[daemon]
		}
	}
	dir, err := os.MkdirTemp("", "quner-bundle-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "machine.txtar")
	if _, err := output(ctx, salt, daemon, "doctor", "--salted", "--capture", file); err != nil {
		return "", err
	}
	f, err := os.Open(file) //nolint:gosec // in a directory that is ours
	if err != nil {
		return "", fmt.Errorf("%s: %w", daemon, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxCaptured))
	return string(data), err
}
