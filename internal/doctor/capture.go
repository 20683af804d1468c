package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/qunerd/quner/internal/host"
)

// maxFixture is the most a fixture may hold.
const maxFixture = 1 << 20

// fixtureHead says to whoever opens a fixture what is in it.
const fixtureHead = `A machine as "qunerd doctor --capture" saw it, for "qunerd run --simulate FILE". The tree is the machine's own: what the
kernel says of cpufreq, powercap, display devices, power supplies and load. Not its own are the power model and the
curves: they are assumed, so that figures of energy mean nothing here.
UUIDs, MAC addresses and serial numbers are hashed, with a salt that was drawn by chance and is kept nowhere: the same one
is the same everywhere in this file, and in a bug report with it, and nowhere else. Hostname, users and command lines are
not in it.
A file named "a -> b" is a symbolic link.

`

// Capture writes a host down as a fixture, an archive that a simulation runs, and so does its reader: what quner would see
// of this host, with nothing in it that names the machine or its owner. salt keeps the hashes of this fixture apart from
// those of others. It reads and changes nothing, and wakes no board that sleeps.
func Capture(ctx context.Context, of *host.Host, salt []byte) ([]byte, error) {
	seen := *of
	h := &seen
	h.Sys, h.Proc, h.Run = h.Sys.ReadOnly(), h.Proc.ReadOnly(), h.Run.ReadOnly()
	c := &capture{host: h, hash: hasher{salt}, files: map[string]string{}, links: map[string]string{}, plain: map[string]bool{}}
	c.processor()
	c.packages()
	c.displays()
	c.supplies()
	c.processes()
	c.kernel()
	a := txtar.Archive{Comment: []byte(fixtureHead), Files: c.model(ctx)}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		a.Files = append(a.Files, txtar.File{Name: c.hash.text(name), Data: c.content(name)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.links)) {
		a.Files = append(a.Files, txtar.File{Name: c.hash.text(name + " -> " + c.links[name])})
	}
	data := txtar.Format(&a)
	if len(data) > maxFixture {
		return nil, fmt.Errorf("fixture: %d bytes, more than %d", len(data), maxFixture)
	}
	return data, nil
}

// capture is a fixture in the making. Names are slash-separated and begin with sys or proc.
type capture struct {
	host    *host.Host
	hash    hasher
	files   map[string]string
	links   map[string]string
	plain   map[string]bool // names that are no links
	refused []refused
}

// refused is an access that this host's kernel does not let come about.
type refused struct {
	file, op, errno string
	assumed         bool
}

// content is a file's, hashed and such that it cannot be taken for the archive's own lines.
func (c *capture) content(name string) []byte {
	text := c.files[name]
	if path.Base(name) == "unique_id" || strings.HasPrefix(path.Base(name), "serial") {
		return []byte(c.hash.of(strings.TrimSpace(text))[:16] + "\n")
	}
	var b bytes.Buffer
	for line := range strings.Lines(c.hash.text(text)) {
		if strings.HasPrefix(line, "-- ") {
			line = " " + line
		}
		b.WriteString(strings.ToValidUTF8(line, "?"))
	}
	return b.Bytes()
}

// resolve follows the links of a name in sys and notes them. It fails on one that leaves sys.
func (c *capture) resolve(name string) (string, bool) {
	for range 40 { // as many as the kernel follows
		next := c.follow(name)
		if next == name {
			return name, !strings.ContainsAny(name, " \n") && path.Clean(name) == name
		}
		if next == "" {
			break
		}
		name = next
	}
	return "", false
}

// follow replaces the first link in a name by where it points; "" if that is out of sys.
func (c *capture) follow(name string) string {
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		part := name[:i]
		target, known := c.links["sys/"+part]
		if !known {
			if c.plain[part] {
				continue
			}
			var err error
			if target, err = c.host.Sys.Link(part); err != nil {
				c.plain[part] = true
				continue
			}
		}
		to := path.Join(path.Dir(part), target)
		if path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
			return ""
		}
		c.links["sys/"+part] = target
		return path.Join(to, name[i:])
	}
	return name
}

// sys takes files over, by patterns below a directory that may itself be one: "class/powercap/intel-rapl*". What is not
// there is left out. What cannot be read is a refusal of this host's.
func (c *capture) sys(dirs string, patterns ...string) {
	for _, dir := range c.glob(dirs) {
		at, ok := c.resolve(dir)
		if !ok {
			continue
		}
		names, err := c.host.Sys.List(at)
		if err != nil {
			continue
		}
		for _, n := range names {
			if slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, n); return ok }) {
				c.file(path.Join(at, n))
			}
		}
	}
}

// glob lists the directories that a pattern with stars in its last parts names.
func (c *capture) glob(pattern string) []string {
	dirs := []string{""}
	for part := range strings.SplitSeq(pattern, "/") {
		var next []string
		for _, dir := range dirs {
			if !strings.Contains(part, "*") {
				next = append(next, path.Join(dir, part))
				continue
			}
			names, err := c.host.Sys.List(dir)
			if err != nil {
				continue
			}
			for _, n := range names {
				if ok, _ := path.Match(part, n); ok {
					next = append(next, path.Join(dir, n))
				}
			}
		}
		dirs = next
	}
	return dirs
}

// file takes one file of sys over, whose name has no link in it but perhaps itself.
func (c *capture) file(name string) {
	info, err := c.host.Sys.Stat(name)
	if err != nil || !info.Mode().IsRegular() || strings.ContainsAny(name, " \n") {
		return
	}
	data, err := c.host.Sys.Read(name)
	if errno := refusalOf(err); errno != "" {
		c.refused = append(c.refused, refused{file: "sys/" + name, op: "read", errno: errno})
		data, err = []byte("0\n"), nil
	}
	if err == nil && len(data) < maxFixture/16 {
		c.files["sys/"+name] = string(data)
	}
}

// refusalOf names the errno of a kernel that does not let a file be read; "" for none and for a file that is not there.
func refusalOf(err error) string {
	for _, e := range []unix.Errno{unix.ENODATA, unix.EACCES, unix.EPERM, unix.EINVAL, unix.EIO, unix.EBUSY, unix.ENODEV, unix.EOPNOTSUPP} {
		if errors.Is(err, e) && !errors.Is(err, fs.ErrNotExist) {
			return unix.ErrnoName(e)
		}
	}
	return ""
}

// proc takes a file of proc over; edit may be nil.
func (c *capture) proc(name string, edit func(string) string) {
	data, err := c.host.Proc.Read(name)
	if err != nil || len(data) > maxFixture/4 && edit == nil {
		return
	}
	text := string(data)
	if edit != nil {
		text = edit(text)
	}
	c.files["proc/"+name] = text
}
