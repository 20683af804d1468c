package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qunerd/quner/api/client"
)

// wrongValue is the one form in which a value is refused: what was given, and what is allowed.
func wrongValue(hint, what, value, allowed string) error {
	return usagef(hint, "%s %s: allowed is %s", what, quote(value), allowed)
}

// flagError says in the person's words what is wrong with a flag.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	var (
		invalid *pflag.InvalidValueError
		unknown *pflag.NotExistError
		bare    *pflag.ValueRequiredError
		odd     *pflag.InvalidSyntaxError
	)
	help := cmd.CommandPath() + " --help"
	switch {
	case errors.As(err, &invalid):
		return wrongValue(help, "--"+invalid.GetFlag().Name, invalid.GetValue(), allowedOf(invalid.GetFlag()))
	case errors.As(err, &bare):
		return usagef(help, "--%s: the value is missing (%s)", bare.GetFlag().Name, allowedOf(bare.GetFlag()))
	case errors.As(err, &odd):
		return usagef(help, "%s: no flag is written so", quote(odd.GetSpecifiedFlag()))
	case errors.As(err, &unknown):
		return a.noSuchFlag(cmd, unknown)
	default:
		return usage(err)
	}
}

func (a *app) noSuchFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	for _, word := range a.args { // pause -5m: a duration, not a flag
		if cmd.Name() == "pause" && len(word) > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9' {
			return wrongValue("qunerctl pause "+strings.TrimLeft(word, "-"), "pause", word, durationForms)
		}
	}
	name := unknown.GetSpecifiedName()
	if shorthand := unknown.GetSpecifiedShortnames(); shorthand != "" {
		return usagef(cmd.CommandPath()+" --help", "-%s: %s has no such flag", shorthand, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	hint := cmd.CommandPath() + " --help"
	if near, ok := nearest(name, names); ok {
		hint = cmd.CommandPath() + " --" + near
	}
	return usagef(hint, "--%s: %s has no such flag", name, cmd.CommandPath())
}

// allowedOf says what a flag takes.
func allowedOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "float64":
		return "a number such as 0.10"
	case "int", "uint32":
		return "a whole number, 0 or more"
	case "duration":
		return durationForms
	default:
		_, usage := pflag.UnquoteUsage(f)
		return usage
	}
}

// durationForms are the forms in which a duration is read.
const durationForms = "a duration such as 90s, 30m, 2h or 1d, more than 0"

// parseDuration reads a positive duration as Go does, and days.
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	var sum time.Duration
	if n, err := strconv.ParseUint(days, 10, 16); ok && err == nil {
		sum = time.Duration(n) * 24 * time.Hour
	} else {
		rest = s
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%s: no duration", quote(s))
		}
		sum += d
	}
	if sum <= 0 {
		return 0, fmt.Errorf("%s: no duration", quote(s))
	}
	return sum, nil
}

// likeDuration guesses what somebody meant who wrote "2hours": "2h". What is less than a second is one; what nobody can
// guess is half an hour.
func likeDuration(s string) string {
	digits := strings.TrimLeft(s, "+-")
	n := strings.IndexFunc(digits, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if n < 0 {
		n = len(digits)
	}
	amount, err := strconv.ParseFloat(digits[:n], 64)
	if err != nil || !(amount > 0 && amount < 10_000) {
		return "30m"
	}
	u, each := likeUnit(strings.ToLower(strings.TrimSpace(digits[n:])))
	d := time.Duration(amount * float64(each))
	switch {
	case d < time.Second:
		return "1s"
	case amount == math.Trunc(amount) && u != "":
		return strconv.FormatFloat(amount, 'f', -1, 64) + u
	}
	return shortDuration(d.Round(time.Second))
}

// likeUnit is the unit of time that a word begins like, minutes if it begins like none; u is its letter, if it has one.
func likeUnit(word string) (u string, each time.Duration) {
	for _, of := range []struct {
		begin, u string
		each     time.Duration
	}{
		{"ms", "", time.Millisecond}, {"mil", "", time.Millisecond}, {"us", "", time.Microsecond}, {"µ", "", time.Microsecond},
		{"mic", "", time.Microsecond}, {"n", "", time.Nanosecond}, {"mo", "m", time.Minute},
		{"d", "d", 24 * time.Hour}, {"h", "h", time.Hour}, {"s", "s", time.Second},
	} {
		if strings.HasPrefix(word, of.begin) {
			return of.u, of.each
		}
	}
	return "m", time.Minute
}

// durationValue is a flag for a positive duration.
type durationValue time.Duration

func (d *durationValue) Set(s string) error {
	v, err := parseDuration(s)
	*d = durationValue(v)
	return err
}

// String is empty for a flag that has no default.
func (d *durationValue) String() string {
	if *d == 0 {
		return ""
	}
	return shortDuration(time.Duration(*d))
}

func (d *durationValue) Type() string { return "duration" }

// shortDuration is "1h", where Go has "1h0m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// checkSocket refuses the path of a socket where its directory's directory is wanted.
func (a *app) checkSocket() error {
	for what, dir := range map[string]string{"--socket": a.dir, client.EnvSocket: os.Getenv(client.EnvSocket)} {
		if !strings.HasSuffix(dir, ".sock") || what == client.EnvSocket && a.dir != "" {
			continue
		}
		base := filepath.Dir(filepath.Dir(dir))
		hint := what + " " + quote(base)
		if what == client.EnvSocket {
			hint = "export " + what + "=" + quote(base)
		}
		return wrongValue(hint, what, dir, "the directory in the place of /run, not the socket in it")
	}
	return nil
}

// nearest finds the one word that is at most two slips of the finger away from what was typed.
func nearest(typed string, words []string) (string, bool) {
	best, least := "", 3
	for _, w := range words {
		if d := slips(strings.ToLower(typed), w); d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best, best != ""
}

// slips is how many letters were added, left out, changed or swapped with their neighbour.
func slips(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
