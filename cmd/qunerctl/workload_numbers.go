package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// What a run may write as its work: lines of a number each. More than that is no count of work but a flood.
const (
	longestNumber = 64
	mostNumbers   = 1_000_000
)

// afterExit is how long numbers are still read once the command has ended: what it wrote lies in the pipe, and only a
// child that it has left behind can keep that open.
const afterExit = 50 * time.Millisecond

// numberedWork reads a run's work from a descriptor that the command writes it to, while it runs.
type numberedWork struct {
	fd     int
	theirs *os.File // the command's end
	ours   *os.File
	failed func(error) // told at once what is wrong, so that the run can be ended
	done   chan struct{}
	sum    float64
	err    error
}

// listenOn gives cmd a pipe as its descriptor fd, 1 or from 3 on. Call started once it has its copy, and then end.
func listenOn(cmd *exec.Cmd, fd int, failed func(error)) (*numberedWork, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe for --work-fd: %w", err)
	}
	n := &numberedWork{fd: fd, ours: ours, theirs: theirs, failed: failed, done: make(chan struct{})}
	if fd == 1 {
		cmd.Stdout = theirs
	} else {
		cmd.ExtraFiles = make([]*os.File, fd-2) // those before it are closed in the command
		cmd.ExtraFiles[fd-3] = theirs
	}
	go func() {
		defer close(n.done)
		if n.sum, n.err = sumNumbers(ours, fd); n.err != nil {
			n.failed(n.err)
			_, _ = io.Copy(io.Discard, ours) // so that it is not SIGPIPE that is told of
		}
	}()
	return n, nil
}

// started gives up this process's copy of the command's end.
func (n *numberedWork) started() {
	if n != nil {
		_ = n.theirs.Close()
	}
}

// end returns the amount of work that the command has written, which must be some. Where the work is the run it is 1.
func (n *numberedWork) end() (float64, error) {
	if n == nil {
		return 1, nil
	}
	_ = n.ours.SetReadDeadline(time.Now().Add(afterExit))
	<-n.done
	_ = n.ours.Close()
	if n.err == nil && !(n.sum > 0) {
		return 0, fmt.Errorf("descriptor %d (--work-fd): a run ended and had written no work above 0", n.fd)
	}
	return n.sum, n.err
}

// sumNumbers adds up the numbers that r has, one a line. The last line may lack its end. What is no number, or too much,
// is an error that names its line; the time after which nobody waits is the end.
func sumNumbers(r io.Reader, fd int) (float64, error) {
	var (
		sum  float64
		line []byte
		at   = 1
		buf  [4096]byte
	)
	for {
		k, err := r.Read(buf[:])
		for rest := buf[:k]; len(rest) > 0; {
			head, tail, whole := bytes.Cut(rest, []byte{'\n'})
			line, rest = append(line, head[:min(len(head), longestNumber+1)]...), tail
			switch {
			case len(line) > longestNumber:
				return sum, fmt.Errorf("descriptor %d (--work-fd), line %d: %s…: a line is longer than %d bytes", fd, at, quote(string(line[:20])), longestNumber)
			case !whole:
				continue
			case at > mostNumbers:
				return sum, fmt.Errorf("descriptor %d (--work-fd), line %d: at most %d lines in a run", fd, at, mostNumbers)
			}
			v, err := parseWork(line)
			if err != nil {
				return sum, fmt.Errorf("descriptor %d (--work-fd), line %d: %w", fd, at, err)
			}
			sum, line, at = sum+v, line[:0], at+1
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return sum, checkSum(sum, fd)
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				v, err := parseWork(line)
				if err != nil {
					return sum, fmt.Errorf("descriptor %d (--work-fd), line %d: %w", fd, at, err)
				}
				sum += v
			}
			return sum, checkSum(sum, fd)
		default:
			return sum, fmt.Errorf("descriptor %d (--work-fd): %w", fd, err)
		}
	}
}

// checkSum refuses a sum that is beyond all numbers.
func checkSum(sum float64, fd int) error {
	if math.IsInf(sum, 0) {
		return fmt.Errorf("descriptor %d (--work-fd): the numbers add up to more than a number can be", fd)
	}
	return nil
}

// parseWork reads one amount of work: a finite decimal number, 0 or more.
func parseWork(line []byte) (float64, error) {
	text := string(bytes.TrimSpace(line))
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%s: want a number, 0 or more", quote(text))
	}
	return v, nil
}
