package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qunerd/quner/deploy/systemd"
)

// bundle is a bug report in the making: texts about this machine with nothing in them that names it or its people.
type bundle struct {
	files   []bundleFile
	missing []bundleGap
	hide    *hider
	config  string // the daemon's configuration
	passwd  string
}

// bundleFile is one text, with nothing private in it.
type bundleFile struct {
	Name    string `json:"name"`
	Bytes   int    `json:"bytes"`
	About   string `json:"about"`
	content string
}

// bundleGap is a text that could not be had.
type bundleGap struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// add takes a text over, or the reason why there is none.
func (b *bundle) add(name, about, content string, err error) {
	b.addBy(b.hide.text, name, about, content, err)
}

// addBy is add for a text that needs another hand: what it finds private is hidden by hide.
func (b *bundle) addBy(hide func(string) string, name, about, content string, err error) {
	if err != nil {
		b.missing = append(b.missing, bundleGap{name, b.hide.text(clean(err.Error()))})
		return
	}
	content = hide(strings.ToValidUTF8(content, "?"))
	b.files = append(b.files, bundleFile{name, len(content), about, content})
}

const bundleSuffix = ".tar.gz"

// doctorBundle writes a bug report into a file that was not there, and says first what is in it.
func (a *app) doctorBundle(ctx context.Context, file string, dryRun bool) error {
	if !strings.HasSuffix(file, bundleSuffix) {
		return usagef("qunerctl doctor --bundle quner"+bundleSuffix, "--bundle %s: allowed is a file whose name ends in %s", quote(file), bundleSuffix)
	}
	if _, err := os.Lstat(file); err == nil {
		return errExists(file)
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil { // before all the work
		return &failure{error: fmt.Errorf("--bundle %s: %w", quote(file), err), code: exitError, hint: "mkdir -p " + quote(filepath.Dir(file))}
	}
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return fmt.Errorf("salt: %w", err)
	}
	b := &bundle{hide: newHider(salt), config: systemd.Config, passwd: "/etc/passwd"}
	b.names()
	a.gather(ctx, b)
	if err := ctx.Err(); err != nil {
		return err
	}
	b.readme(time.Now())
	if a.json {
		if err := a.bundleJSON(b, file, !dryRun); err != nil {
			return err
		}
	} else {
		a.bundlePage(b, file)
	}
	if dryRun {
		if !a.json {
			a.out.printf("\nNothing was written.\n")
		}
		return nil
	}
	if err := b.write(file, time.Now()); err != nil {
		return err
	}
	if !a.json {
		a.out.printf("\n%s is written. Look through it before you pass it on: tar -xzf %s\n", quote(file), quote(file))
	}
	return nil
}

func errExists(file string) error {
	return &failure{error: fmt.Errorf("%s: is there already", quote(file)), code: exitError, hint: "name a file that is not there: nothing is overwritten"}
}

// names learns what this machine and its people are called.
func (b *bundle) names() {
	if name, err := os.Hostname(); err == nil {
		b.hide.host(name)
	}
	if data, err := os.ReadFile("/etc/hostname"); err == nil {
		b.hide.host(string(data))
	}
	if f, err := os.Open(b.passwd); err == nil {
		b.hide.people(f)
		_ = f.Close()
	}
	for _, key := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		b.hide.name(userName, os.Getenv(key))
	}
	if home := os.Getenv("HOME"); strings.Count(home, "/") > 1 && !strings.HasPrefix(home, "/home/") {
		b.hide.name(homePath, home)
	}
}

// readme puts a first file before the others that says what each is.
func (b *bundle) readme(now time.Time) {
	var s strings.Builder
	fmt.Fprintf(&s, "A bug report of quner, made by \"qunerctl doctor --bundle\" at %s.\n\n", now.UTC().Format(time.RFC3339))
	for _, f := range b.files {
		fmt.Fprintf(&s, "%-14s %s\n", f.Name, f.About)
	}
	for _, m := range b.missing {
		fmt.Fprintf(&s, "%-14s is not here: %s\n", m.Name, m.Reason)
	}
	fmt.Fprintf(&s, `
Hidden: %s.
In the place of each stands a hash, with a salt that was drawn for this bundle and is kept nowhere: the same one is the
same in all of these files, and nowhere else. User numbers, models, PCI addresses and versions are as they are.
`, b.hiddenWords())
	f := bundleFile{"README.txt", s.Len(), "what each file is", s.String()}
	b.files = append([]bundleFile{f}, b.files...)
}

// hiddenWords say how many of what are hidden.
func (b *bundle) hiddenWords() string {
	var words []string
	n := b.hide.count()
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		word := strconv.Itoa(n[kind]) + " " + kind
		switch {
		case n[kind] == 1:
		case kind == macKind:
			word += "es"
		default:
			word += "s"
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, ", "), "nothing, there was no name in it")
}

func (a *app) bundlePage(b *bundle, file string) {
	a.out.printf("In %s:\n", quote(file))
	var rows, gaps [][]cell
	for _, f := range b.files {
		rows = append(rows, []cell{text(f.Name), figure(strconv.Itoa(f.Bytes)), text(f.About)})
	}
	a.out.table([]string{"FILE", "BYTES", "WHAT"}, rows)
	for _, m := range b.missing {
		gaps = append(gaps, []cell{text(m.Name), {text: m.Reason, look: yellow}})
	}
	if len(gaps) > 0 {
		a.out.printf("\nNot in it:\n")
		a.out.table([]string{"FILE", "WHY"}, gaps)
	}
	a.out.printf("\n")
	a.out.para("Hidden by hashes: ", plain, b.hiddenWords()+".")
}

func (a *app) bundleJSON(b *bundle, file string, writes bool) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Bundle  string         `json:"bundle"`
		Writes  bool           `json:"writes"`
		Files   []bundleFile   `json:"files"`
		Missing []bundleGap    `json:"missing"`
		Hidden  map[string]int `json:"hidden"`
	}{file, writes, b.files, append([]bundleGap{}, b.missing...), b.hide.count()})
}

// archive packs the files into a directory of their own.
func (b *bundle) archive(now time.Time) ([]byte, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	pack := tar.NewWriter(zip)
	for _, f := range b.files {
		head := &tar.Header{Name: "quner-bundle/" + f.Name, Mode: 0o600, Size: int64(len(f.content)), ModTime: now.Truncate(time.Second)}
		if err := pack.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := pack.Write([]byte(f.content)); err != nil {
			return nil, err
		}
	}
	err := errors.Join(pack.Close(), zip.Close())
	return packed.Bytes(), err
}

// write makes the file, for whoever is behind sudo, or no file.
func (b *bundle) write(file string, now time.Time) error {
	data, err := b.archive(now)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600) //nolint:gosec // the file that was named
	if errors.Is(err, fs.ErrExist) {
		return errExists(file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if uid, bad := strconv.Atoi(os.Getenv("SUDO_UID")); bad == nil && os.Geteuid() == 0 && err == nil {
		if gid, bad := strconv.Atoi(os.Getenv("SUDO_GID")); bad == nil {
			err = f.Chown(uid, gid)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
