package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What is hidden in a bundle.
const (
	hostName = "host name"
	userName = "user name"
	homePath = "home path"
	uuidKind = "UUID"
	macKind  = "MAC address"
	serialNo = "serial number"
	machine  = "machine's fingerprint"
)

// hider puts hashes in the place of what names a machine or its people. The same name becomes the same hash throughout
// one bundle; its salt is kept nowhere, so that no two bundles can be told to be of one machine.
type hider struct {
	salt  []byte
	names []hidden // longest first
	seen  map[string]map[string]bool

	uuid, mac, serial, home, domain *regexp.Regexp
}

// hidden is a name that is known beforehand, and what stands in its place.
type hidden struct {
	kind, name, lead string
	at               *regexp.Regexp
}

func newHider(salt []byte) *hider {
	return &hider{
		salt: salt, seen: map[string]map[string]bool{},
		uuid:   regexp.MustCompile(`(?i)\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})\b`),
		mac:    regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){5})\b`),
		serial: regexp.MustCompile(`(?i)(serial(?:[ _-]?(?:number|no))?\.?"?\s*[:=]\s*"?)([a-z0-9][a-z0-9._/-]{3,})`),
		domain: regexp.MustCompile(`^(?:\.[\pL\pN](?:[\pL\pN-]*[\pL\pN])?)+`),
		home:   regexp.MustCompile(`(/home/)([^/\s"':,;)\\]+)`),
	}
}

// ordinary are names that tell nothing.
func ordinary(name string) bool {
	return slices.Contains([]string{"", "root", "nobody", "localhost", "localhost.localdomain", "quner", "qunerd", "qunerctl", "(none)"}, name)
}

// name makes a name one that is hidden wherever it stands as a word of its own.
func (h *hider) name(kind, name string) {
	name = strings.ToValidUTF8(name, "?") // as in the texts
	known := func(o hidden) bool { return strings.EqualFold(o.name, name) }
	if ordinary(strings.ToLower(name)) || slices.ContainsFunc(h.names, known) {
		return
	}
	lead := map[string]string{hostName: "host-", userName: "user-", homePath: "/home/user-", machine: "machine-"}[kind]
	fold := ""
	if utf8.RuneCountInString(name) > 3 { // "vm" is a host, "VM" a reason
		fold = "(?i)"
	}
	h.names = append(h.names, hidden{kind, name, lead, regexp.MustCompile(fold + regexp.QuoteMeta(name))})
	slices.SortStableFunc(h.names, func(a, b hidden) int { return cmp.Compare(len(b.name), len(a.name)) })
}

// host hides a host's name, with and without its domain.
func (h *hider) host(name string) {
	name = strings.TrimSpace(name)
	h.name(hostName, name)
	if label, _, dotted := strings.Cut(name, "."); dotted {
		h.name(hostName, label)
	}
}

// people hides the names and homes of those in a passwd file who are no service: their numbers begin at 1000.
func (h *hider) people(passwd io.Reader) {
	const first, nobody = 1000, 65534
	for lines := bufio.NewScanner(passwd); lines.Scan(); {
		f := strings.Split(lines.Text(), ":")
		if len(f) < 6 {
			continue
		}
		if uid, err := strconv.Atoi(f[2]); err != nil || uid < first || uid == nobody {
			continue
		}
		h.name(userName, f[0])
		full, _, _ := strings.Cut(f[4], ",")
		if strings.Contains(full, " ") {
			h.name(userName, full)
		}
		if strings.Count(f[5], "/") > 1 && !strings.HasPrefix(f[5], "/home/") {
			h.name(homePath, f[5])
		}
	}
}

func (h *hider) hash(kind, s string) string {
	s = strings.ToLower(s)
	if h.seen[kind] == nil {
		h.seen[kind] = map[string]bool{}
	}
	h.seen[kind][s] = true
	sum := sha256.Sum256(append(slices.Clone(h.salt), s...))
	return hex.EncodeToString(sum[:])
}

// text is a text with nothing private in it. What stands in the place of a UUID or a MAC address has the same form.
func (h *hider) text(s string) string {
	s = h.words(s)
	s = h.uuid.ReplaceAllStringFunc(s, func(m string) string {
		x := h.hash(uuidKind, strings.ReplaceAll(m, "-", ""))
		if !strings.Contains(m, "-") {
			return x[:32]
		}
		return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:32]
	})
	s = h.mac.ReplaceAllStringFunc(s, func(m string) string {
		x := h.hash(macKind, strings.ReplaceAll(m, "-", ":"))
		return "02:" + x[:2] + ":" + x[2:4] + ":" + x[4:6] + ":" + x[6:8] + ":" + x[8:10] // a locally administered one
	})
	s = h.serial.ReplaceAllStringFunc(s, func(m string) string {
		part := h.serial.FindStringSubmatch(m)
		return part[1] + "serial-" + h.hash(serialNo, part[2])[:8]
	})
	return h.homes(s)
}

// named is a text without the names of hosts and people; UUIDs, MAC addresses and serial numbers stay, as they are hashes
// already.
func (h *hider) named(s string) string { return h.homes(h.words(s)) }

func (h *hider) words(s string) string {
	for _, n := range h.names {
		s = h.word(s, n)
	}
	return s
}

func (h *hider) homes(s string) string {
	return h.home.ReplaceAllStringFunc(s, func(m string) string {
		part := h.home.FindStringSubmatch(m)
		if strings.HasPrefix(part[2], "user-") || strings.HasPrefix(part[2], "host-") {
			return m
		}
		return part[1] + "user-" + h.hash(userName, part[2])[:8]
	})
}

// word hides a name where no letter or digit goes on with it; of a host with the domain that follows.
func (h *hider) word(s string, n hidden) string {
	var b strings.Builder
	done := 0
	for _, at := range n.at.FindAllStringIndex(s, -1) {
		before, _ := utf8.DecodeLastRuneInString(s[:at[0]])
		after, _ := utf8.DecodeRuneInString(s[at[1]:])
		if at[0] < done || goesOn(before) || goesOn(after) {
			continue
		}
		b.WriteString(s[done:at[0]] + n.lead + h.hash(n.kind, n.name)[:8])
		done = at[1]
		if n.kind == hostName {
			done += len(h.domain.FindString(s[done:]))
		}
	}
	return b.String() + s[done:]
}

func goesOn(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// count says how many different ones of each kind were hidden.
func (h *hider) count() map[string]int {
	n := map[string]int{}
	for kind, all := range h.seen {
		n[kind] = len(all)
	}
	return n
}
