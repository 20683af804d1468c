package levers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

const (
	adminDir   = "quner-admin"
	scriptFile = "restore.sh"
)

// Script returns the shell lines that restore the host with no daemon, from the journal alone. It changes nothing.
func Script(h *host.Host) (string, error) {
	s, err := readStored(h)
	if err != nil {
		return "", err
	}
	j := s.journal
	j.entries = slices.DeleteFunc(j.entries, func(e entry) bool { return e.void(h) != "" })
	return script(j), nil
}

// script writes the originals as plain lines, in the order of restoring.
func script(j journal) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# Puts back what quner has moved on this machine, with no daemon. Run as root, or paste.\n")
	if len(j.entries) == 0 {
		b.WriteString("# Nothing is moved.\n")
	}
	entries := slices.Clone(j.entries)
	slices.SortFunc(entries, func(a, b entry) int { return before(a.Kind, a.Lever, b.Kind, b.Lever) })
	// A preference goes before a governor that will not let it be written afterwards.
	implied := func(e entry) bool {
		governor := j.find(governorName(strings.TrimPrefix(e.Lever, eppPrefix)))
		return e.Kind == EnergyPreference && governor != nil && governor.Original == fastest
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return first(implied(a), implied(b)) })
	for _, e := range entries {
		for _, line := range linesOf(e) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func linesOf(e entry) []string {
	if c, ok := classOf(e.Kind); ok {
		return c.lines(e)
	}
	return echoLines(e)
}

// echoLines restore a lever that is one file.
func echoLines(e entry) []string {
	if e.Path == "" {
		return unknownLines(e)
	}
	return []string{"echo " + quoted(string(e.Original)) + " > " + plain(e.Path)}
}

// nvidiaLines restore a board's cap in watts, which is what nvidia-smi takes.
func nvidiaLines(e entry) []string {
	mw, err := strconv.ParseInt(string(e.Original), 10, 64)
	if err != nil || e.UUID == "" {
		return unknownLines(e)
	}
	watts := strconv.FormatInt(mw/1000, 10)
	if rest := mw % 1000; rest != 0 {
		watts += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return []string{"nvidia-smi -i " + plain(e.UUID) + " -pl " + watts}
}

func unknownLines(e entry) []string {
	return []string{fmt.Sprintf("# %s had %q: this version of quner knows no line for it", e.Lever, e.Original)}
}

// quoted makes any text one word of a POSIX shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// plain leaves a text that a shell takes as it is without quotes.
func plain(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._:-", r)
	}
	if s != "" && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	return quoted(s)
}

// writeScript refreshes restore.sh. It is a last resort: without it the levers can still be moved and put back.
func writeScript(h *host.Host, j journal) error {
	dir := h.Run.Sub(adminDir)
	if err := dir.Mkdir("", 0o700); err != nil {
		return err
	}
	return dir.ReplaceVolatile(scriptFile, []byte(script(j)), 0o600)
}
