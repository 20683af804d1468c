package daemon_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/profiles"
)

// Whoever changes the mode, the log says in one line what was, what is, and who it was.
func TestAChangeOfModeIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, told, stop := observer(t, machine(t, "workstation"), daemon.Options{})
		caller := daemon.Caller{UID: 1000}
		set := func(c daemon.ModeChange) error {
			_, err := d.SetMode(t.Context(), caller, c)
			return err
		}
		time.Sleep(time.Minute) // idle by now
		for _, step := range []struct {
			do   func() error
			want []string
		}{
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeTraining}) },
				[]string{`mode from=auto to=training profile=training profile_from=idle call="profile training" uid=1000`}},
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeTraining}) },
				[]string{`mode from=training to=training profile=training call="profile training" uid=1000`}},
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeAuto, DryRun: true}) }, nil},
			{func() error { _, err := d.Apply(t.Context(), caller, false); return err },
				[]string{`"point applied" mode=training profile=training source=default writes=0 call=apply uid=1000`}},
			{func() error { _, err := d.Apply(t.Context(), caller, true); return err }, nil},
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeOff, Pause: time.Minute}) },
				[]string{`mode from=training to=off profile=idle profile_from=training until=X call="pause 1m" uid=1000`}},
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeOff, Pause: 24 * time.Hour}) },
				[]string{`mode from=off to=off profile=idle until=X call="pause 24h" uid=1000`}},
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeOff, Pause: time.Minute}) },
				[]string{`mode from=off to=off profile=idle until=X call="pause 1m" uid=1000`}},
			{func() error { time.Sleep(2 * time.Minute); return nil },
				[]string{`mode from=off to=training profile=training profile_from=idle why="the pause is over"`}},
			{func() error { return set(daemon.ModeChange{Mode: profiles.ModeAuto}) },
				[]string{`mode from=training to=auto profile=idle profile_from=training call="profile auto" uid=1000`}},
			{func() error { _, _, err := d.Restore(t.Context(), caller, false, false); return err },
				[]string{`mode from=auto to=off profile=idle call="apply --restore" uid=1000`}},
			{func() error { return set(daemon.ModeChange{Resume: true}) },
				[]string{`mode from=off to=auto profile=idle call=resume uid=1000`}},
		} {
			synctest.Wait()
			told.Reset()
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := modeLines(told.String()); !slices.Equal(got, step.want) {
				t.Errorf("logged %q, want %q", got, step.want)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// modeLines are the lines of a log that are not about single levers, without their time.
func modeLines(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " level=INFO msg=")
		if line != "" && !strings.HasPrefix(line, `"lever`) {
			lines = append(lines, regexp.MustCompile(`until=\S+`).ReplaceAllString(line, "until=X"))
		}
	}
	return lines
}
