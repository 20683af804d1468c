package levers

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/qunerd/quner/internal/host"
)

// class is all that the Bank knows of a kind of lever. A new kind is a file with its levers and their class, and a line
// in classes.
type class struct {
	kind Kind
	rank int // of writing and restoring; a governor decides which energy preferences are taken, so it comes first
	// discover reads; it never writes.
	discover func(context.Context, *host.Host) ([]Lever, []Missing)
	// load names the present life of the driver that keeps the values, "" if that cannot be told; nil where values last
	// as long as the boot does. Two loads can be compared if they have the same first word.
	load func(*host.Host) string
	// lines are the shell lines that put an original back with no daemon.
	lines func(entry) []string
}

func classes() []class {
	return []class{governorClass(), eppClass(), packageClass(), gpuCapClass(), amdCapClass()}
}

func classOf(k Kind) (class, bool) {
	all := classes()
	i := slices.IndexFunc(all, func(c class) bool { return c.kind == k })
	if i < 0 {
		return class{}, false
	}
	return all[i], true
}

// Discover finds the host's levers, in the order they are written in, and says which controls are not there and why. It
// never writes. The GPU library is opened if it was not.
func Discover(ctx context.Context, h *host.Host) ([]Lever, []Missing) {
	var found []Lever
	var missing []Missing
	for _, c := range classes() {
		l, m := c.discover(ctx, h)
		found, missing = append(found, l...), append(missing, m...)
	}
	slices.SortStableFunc(found, inOrder)
	return found, missing
}

func inOrder(a, b Lever) int { return before(a.Kind(), a.Name(), b.Kind(), b.Name()) }

// before orders by rank, then by name with numbers in it by size: policy2 before policy10.
func before(kindA Kind, a string, kindB Kind, b string) int {
	return cmp.Or(cmp.Compare(rank(kindA), rank(kindB)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// rank puts kinds that this version does not know last.
func rank(k Kind) int {
	if c, ok := classOf(k); ok {
		return c.rank
	}
	return 1000
}

// absentHere is the reason why a control that every real machine of its kind has is not there.
func absentHere(h *host.Host) (host.Reason, string) {
	if sign := virtual(h); sign != "" {
		return host.VM, "this is a virtual machine (" + sign + ")"
	}
	return host.Absent, "the kernel offers no such control"
}

// virtual returns the sign that this is a virtual machine, or "". The hypervisor flag of x86 is set by every hypervisor
// that does not hide; Xen has its own directory; elsewhere firmware names the product.
func virtual(h *host.Host) string {
	cpuinfo, err := h.Proc.Read("cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(cpuinfo)) {
			key, flags, _ := strings.Cut(line, ":")
			if strings.TrimSpace(key) == "flags" {
				if slices.Contains(strings.Fields(flags), "hypervisor") {
					return "CPU flag hypervisor"
				}
				break
			}
		}
	}
	if kind, err := h.Sys.ReadString("hypervisor/type"); err == nil && kind != "" {
		return "/sys/hypervisor/type: " + printable(kind)
	}
	for _, file := range []string{"class/dmi/id/product_name", "class/dmi/id/sys_vendor"} {
		text, err := h.Sys.ReadString(file)
		if err != nil {
			continue
		}
		for _, name := range []string{"QEMU", "KVM", "VMware", "VirtualBox", "Virtual Machine", "Bochs", "Google Compute Engine", "HVM domU"} {
			if strings.Contains(text, name) {
				return printable(text)
			}
		}
	}
	return ""
}

// printable keeps a text of the host fit for one line of a log, a table or a shell comment.
func printable(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
