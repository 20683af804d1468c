package main

import (
	"fmt"
	"strconv"
	"strings"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// grouped puts things of one kind that say the same on one row: eight policies with one governor are one line. Keys
// keep the order in which they first come.
func grouped[T any](things []T, key func(T) string) [][]T {
	at := make(map[string]int)
	var groups [][]T
	for _, t := range things {
		k := key(t)
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// family names a group: "cpufreq/policy0-7" if the numbers run on, else the first and how many more.
func family(names []string) string {
	if len(names) == 1 {
		return short(names[0])
	}
	prefix, first, ok := numbered(names[0])
	for i, name := range names {
		p, n, numeric := numbered(name)
		ok = ok && numeric && p == prefix && n == first+i
	}
	if ok {
		return fmt.Sprintf("%s%d-%d", prefix, first, first+len(names)-1)
	}
	return fmt.Sprintf("%s and %d more", short(names[0]), len(names)-1)
}

// numbered splits "cpufreq/policy12" into its stem and number. A UUID that ends in digits is none.
func numbered(name string) (stem string, n int, ok bool) {
	stem = strings.TrimRight(name, "0123456789")
	if strings.Contains(name, "GPU-") || len(name)-len(stem) > 6 {
		return name, 0, false
	}
	n, err := strconv.Atoi(name[len(stem):])
	return stem, n, err == nil
}

func names[T interface{ GetName() string }](things []T) []string {
	list := make([]string, len(things))
	for i, t := range things {
		list[i] = t.GetName()
	}
	return list
}

// writes prints changes, made or planned, a row for each kind of change.
func (a *app) writes(list []*qunerv1.Write) {
	rows := make([][]cell, 0, len(list))
	for _, g := range grouped(list, func(w *qunerv1.Write) string {
		stem, _, _ := numbered(w.GetLever())
		return strings.Join([]string{stem, w.GetFrom(), w.GetTo(), w.GetUnit(), w.GetNote()}, "\x00")
	}) {
		levers := make([]string, len(g))
		for i, w := range g {
			levers[i] = w.GetLever()
		}
		w := g[0]
		rows = append(rows, []cell{
			text(family(levers)), text(value(w.GetFrom(), w.GetUnit())), text("→"), text(value(w.GetTo(), w.GetUnit())),
			{text: w.GetNote(), look: dim},
		})
	}
	a.out.table(nil, rows)
}
