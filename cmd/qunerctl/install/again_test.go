package install

import (
	"context"
	"errors"
	"testing"
)

// A stop that systemd cancels for a start of its own is asked for once more; one that fails twice has failed.
func TestAStopIsTriedTwice(t *testing.T) {
	for failures, want := range []bool{true, true, false} {
		asked := 0
		m := &Machine{run: func(context.Context, ...string) (string, error) {
			if asked++; asked <= failures {
				return "", errors.New("Job for qunerd.socket canceled")
			}
			return "", nil
		}}
		err := (&run{argv: []string{"systemctl", "disable", "--now", "qunerd.socket"}, again: true}).do(t.Context(), m)
		if (err == nil) != want {
			t.Errorf("%d failures: %v", failures, err)
		}
	}
}
