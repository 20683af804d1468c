package host

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// Process is what the kernel says of a process.
type Process struct {
	PID     int
	Parent  int
	Name    string // of its program, cut to 15 bytes; anything that does not print is a "?"
	Started uint64 // clock ticks after boot: with PID the identity of a process
	Ended   bool   // nobody has waited for it yet
	UID     uint32 // who runs it
}

// Process reads /proc/PID. The error wraps fs.ErrNotExist where there is no such process, or none that this one can see.
func (h *Host) Process(pid int) (Process, error) {
	dir := strconv.Itoa(pid)
	stat, err := h.Proc.Read(path.Join(dir, "stat"))
	if err != nil {
		return Process{}, err
	}
	p, err := parseProcess(strings.NewReader(string(stat)))
	if err != nil {
		return Process{}, fmt.Errorf("%s: %w", h.Proc.File(path.Join(dir, "stat")), err)
	}
	status, err := h.Proc.Read(path.Join(dir, "status"))
	if err != nil {
		return Process{}, err
	}
	if p.UID, err = parseProcessUID(strings.NewReader(string(status))); err != nil {
		return Process{}, fmt.Errorf("%s: %w", h.Proc.File(path.Join(dir, "status")), err)
	}
	return p, nil
}

// longestProcess is more than /proc/PID/stat and the head of /proc/PID/status take.
const longestProcess = 4096

var (
	errNoProcess    = errors.New("not the line of a process")
	errNoProcessUID = errors.New("no line Uid")
)

// Fields of /proc/PID/stat after the program's name, counted from 0.
const (
	statState = iota
	statParent
	statStarted = 19
)

// parseProcess reads "PID (NAME) STATE PPID …". The name may hold anything, parentheses too.
func parseProcess(r io.Reader) (Process, error) {
	data, err := io.ReadAll(io.LimitReader(r, longestProcess))
	if err != nil {
		return Process{}, err
	}
	text := string(data)
	begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return Process{}, errNoProcess
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) <= statStarted {
		return Process{}, errNoProcess
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text[:begin]))
	parent, err2 := strconv.Atoi(fields[statParent])
	started, err3 := strconv.ParseUint(fields[statStarted], 10, 64)
	if errors.Join(err, err2, err3) != nil || pid <= 0 || parent < 0 {
		return Process{}, errNoProcess
	}
	state := fields[statState]
	return Process{
		PID: pid, Parent: parent, Name: printing(text[begin+1 : end]), Started: started, Ended: state == "Z" || state == "X",
	}, nil
}

// printing makes a name fit for one line of a terminal.
func printing(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}

// parseProcessUID reads the real uid of /proc/PID/status. No line before it can look like it: the kernel escapes the name's.
func parseProcessUID(r io.Reader) (uint32, error) {
	text, err := io.ReadAll(io.LimitReader(r, longestProcess))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			uid, err := strconv.ParseUint(f[1], 10, 32)
			if err != nil {
				return 0, errNoProcessUID
			}
			return uint32(uid), nil
		}
	}
	return 0, errNoProcessUID
}
