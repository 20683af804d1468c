package hostsim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// scanPeriod is how soon a load of another process is noticed and told its rate.
	scanPeriod = 10 * time.Millisecond
	// showPeriod is how often counters are written for other processes to read.
	showPeriod = 50 * time.Millisecond
)

// loadFile is a load of another process, as last seen.
type loadFile struct {
	load *load
	info os.FileInfo
	from int64 // as the file says

	lineage []int // of its process
}

// Run lets other processes take part until the context ends: it takes up their loads, tells them their rates, writes
// counters for them to read, and lets them write settings. Its error is that of a directory that cannot be written.
func (s *Sim) Run(ctx context.Context) error {
	if err := s.forgetProcesses(); err != nil {
		return fmt.Errorf("simulated host %s: %w", s.fix.Name(), err)
	}
	ticker := time.NewTicker(scanPeriod)
	defer ticker.Stop()
	for n := 0; ; n++ {
		last := ctx.Err() != nil // the tree is to stand at what it came to
		if err := s.attend(n%int(showPeriod/scanPeriod) == 0, last); err != nil {
			return fmt.Errorf("simulated host %s: %w", s.fix.Name(), err)
		}
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// attend looks after other processes once; show is whether counters are due too, last whether it is the last time.
func (s *Sim) attend(show, last bool) error {
	show = show || last
	s.mu.Lock()
	defer s.mu.Unlock()
	news, err := s.scanLoads(show)
	if err != nil {
		return err
	}
	if news {
		s.stir()
	}
	if news || show {
		if err := s.showProcesses(last); err != nil {
			return err
		}
	}
	if show {
		if err := s.takeSettings(); err != nil {
			return err
		}
		if err := s.showCounters(); err != nil {
			return err
		}
	}
	if news || show {
		return s.showRates()
	}
	return nil
}

// scanLoads reads the loads of other processes; it reports whether there was any news.
func (s *Sim) scanLoads(checkPids bool) (news bool, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, loadDir))
	if err != nil {
		return false, err
	}
	now, there := s.now(), map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone since
		}
		there[name] = true
		known := s.files[name]
		if known == nil || !os.SameFile(known.info, info) || !known.info.ModTime().Equal(info.ModTime()) {
			news = s.readLoad(name, info) || news
		} else if checkPids && isDead(known.load.pid) {
			s.end(known.load, now)
			_ = os.Remove(filepath.Join(s.dir, loadDir, name)) // its owner cannot
		}
	}
	for name, f := range s.files {
		if !there[name] {
			s.end(f.load, now)
			delete(s.files, name)
			news = true
		}
	}
	return news, nil
}

// end ends a load, unless it has ended before.
func (s *Sim) end(l *load, at time.Duration) { l.to = min(l.to, at) }

// readLoad takes up one load file. One that cannot be read is not there: its owner gets no rate and says so.
func (s *Sim) readLoad(name string, info os.FileInfo) bool {
	data, err := os.ReadFile(filepath.Join(s.dir, loadDir, name))
	if err != nil {
		return false
	}
	r, err := parseLoad(name, string(data))
	if err != nil {
		return false
	}
	device, err := s.fix.device(r.device)
	if err != nil {
		return false
	}
	now, clock := s.now(), monotonic()
	since := func(stamp int64) time.Duration { return now - (clock - time.Duration(stamp)) }
	f := s.files[name]
	if f != nil && f.from != r.from { // the name of one that has ended, taken anew between two looks
		s.end(f.load, max(s.line.settled, since(r.from)))
		f = nil
	}
	if f == nil {
		f = &loadFile{from: r.from, lineage: lineage(r.pid), load: &load{name: name, device: device, share: r.share, from: since(r.from), to: never, pid: r.pid}}
		s.begin(f.load)
		s.files[name] = f
	}
	f.info = info
	if r.to != 0 {
		s.end(f.load, max(s.line.settled, since(r.to)))
	}
	return true
}

// loadRecord is the content of a load file, sim/load/PID.N: a line "DEVICE SHARE NS" when the load began and one
// with share 0 for its end, which may lie ahead. NS is on CLOCK_MONOTONIC.
type loadRecord struct {
	pid      int
	device   string
	share    float64
	from, to int64 // to is 0 while the load goes on
}

func (r loadRecord) text() string {
	text := fmt.Sprintf("%s %g %d\n", r.device, r.share, r.from)
	if r.to != 0 {
		text += fmt.Sprintf("%s 0 %d\n", r.device, r.to)
	}
	return text
}

func parseLoad(name, text string) (loadRecord, error) {
	var r loadRecord
	pid, _, _ := strings.Cut(name, ".")
	var err error
	if r.pid, err = strconv.Atoi(pid); err != nil || r.pid <= 0 {
		return r, fmt.Errorf("load %q: not the name of a process", name)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		f := strings.Fields(line)
		if len(f) != 3 || i > 1 || i == 1 && f[0] != r.device {
			return r, fmt.Errorf("load %q: line %q (allowed: DEVICE SHARE NS, twice at most)", name, line)
		}
		share, err := strconv.ParseFloat(f[1], 64)
		ns, err2 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return r, fmt.Errorf("load %q: %w", name, err)
		}
		switch {
		case ns <= 0, i == 0 && !(share > 0 && share <= 1), i == 1 && (share != 0 || ns < r.from):
			return r, fmt.Errorf("load %q: line %q: out of range", name, line)
		case i == 0:
			r.device, r.share, r.from = f[0], share, ns
		default:
			r.to = ns
		}
	}
	return r, nil
}

// showCounters writes all counters as they stand, and the boards' state.
func (s *Sim) showCounters() error {
	for _, name := range s.fix.counters {
		if err := s.refresh(name); err != nil {
			return err
		}
	}
	caps := s.line.knobsAt(s.now()).caps
	for i, b := range s.boards {
		if err := b.save(caps[i]); err != nil {
			return err
		}
	}
	return nil
}

// takeSettings makes what other processes wrote to the tree count, as the kernel would: what it would refuse is undone.
func (s *Sim) takeSettings() error {
	written := map[string][]byte{}
	for name, known := range s.settings {
		data, err := os.ReadFile(filepath.Join(s.dir, "host", name))
		if err != nil {
			return err
		}
		if string(data) != known && len(data) > 0 { // empty: a writer is between truncating and writing
			written[name] = data
		}
	}
	// Who wrote several meant an order, which is lost: a governor decides what its policy's energy preference may be.
	names := slices.SortedFunc(maps.Keys(written), func(a, b string) int {
		return cmp.Or(cmp.Compare(attributeOf(a), attributeOf(b)), strings.Compare(a, b))
	})
	for _, name := range names {
		if s.put(name, written[name]) == nil {
			continue
		}
		if err := replace(s.dir, filepath.Join("host", name), []byte(s.settings[name])); err != nil {
			return err
		}
	}
	return nil
}

// showRates publishes what each device does and each load of another process gets of it.
func (s *Sim) showRates() error {
	now := s.now()
	picture := s.line.drawAt(now)
	var out strings.Builder
	fmt.Fprintf(&out, "at %d\n", monotonic())
	for i, rate := range picture.rate {
		fmt.Fprintf(&out, "device %s %g\n", deviceName(i), rate)
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		l := s.files[name].load
		state := "on"
		if l.to != never {
			state = "ending"
		}
		fmt.Fprintf(&out, "load %s %s %s %g\n", name, deviceName(l.device), state, s.granted(l, now))
	}
	return replace(s.dir, rateFile, []byte(out.String()))
}

// monotonic is CLOCK_MONOTONIC, which all processes of a machine share; time.Now does not tell it.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// isDead reports whether a process has ended; one that nobody has waited for yet has.
func isDead(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	// The state follows the command's name, which stands in parentheses and may hold any.
	_, state, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	return strings.HasPrefix(state, "Z")
}
