package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// named finds the levers of a name.
func (s *state) named(name string) ([]string, error) {
	var found, all, kinds []string
	for _, l := range s.bank.Levers() {
		all = append(all, l.Name())
		kind := string(l.Kind())
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if l.Name() == name || kind == name {
			found = append(found, l.Name())
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%q: %w: there is none at all", name, ErrNoLever)
	}
	if len(found) == 0 {
		found = rangeOf(all, name)
	}
	if len(found) > 0 {
		return found, nil
	}
	switch found = beginning(all, name); len(found) {
	case 1:
		return found, nil
	case 0:
		return nil, fmt.Errorf("%q: %w: allowed are the kinds %s, and the levers %s", name, ErrNoLever,
			strings.Join(kinds, ", "), strings.Join(all, ", "))
	default:
		return nil, fmt.Errorf("%q: %w: %d levers begin so: %s", name, ErrNoLever, len(found), strings.Join(found, ", "))
	}
}

// rangeOf are the levers of a range as qunerctl prints one, "cpufreq/policy0-7"; none unless all of them are there.
func rangeOf(all []string, name string) []string {
	from, last, ok := strings.Cut(name, "-")
	stem := strings.TrimRight(from, "0123456789")
	first, bad := strconv.Atoi(from[len(stem):])
	end, badEnd := strconv.Atoi(last)
	if !ok || bad != nil || badEnd != nil || end < first || end-first >= len(all) {
		return nil
	}
	var found []string
	for n := first; n <= end; n++ {
		one := stem + strconv.Itoa(n)
		if !slices.Contains(all, one) {
			return nil
		}
		found = append(found, one)
	}
	return found
}

// beginning are the levers whose name begins so, if it reaches beyond the word that many share: qunerctl shows a board's
// by the beginning of its UUID.
func beginning(all []string, name string) []string {
	if _, rest, _ := strings.Cut(name, "/"); rest == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(l string) bool { return !strings.HasPrefix(l, name) })
}
