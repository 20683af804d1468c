package meter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// ring is a driver that samples by itself, 25 ms late, and is asked for what it has.
type ring struct {
	kept []powerSample
	err  error
}

func (r *ring) samples(context.Context) ([]powerSample, time.Duration, error) {
	taken := r.kept
	r.kept = nil
	return taken, 0, r.err
}

func (r *ring) add(p unit.Power, ago time.Duration) {
	r.kept = append(r.kept, powerSample{power: p, at: time.Now().Add(-ago)})
}

// TestSamplerOfABuffer: a look is as old as the newest sample; an edge is of now, for which the newest sample stands.
func TestSamplerOfABuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &ring{}
		s := newSampler(from, 0, unit.Kilowatt)
		check := func(what string, get func(context.Context) (unit.Energy, time.Time, error), want unit.Energy, ago time.Duration, wantErr error) {
			t.Helper()
			e, at, err := get(t.Context())
			if e != want || time.Since(at) != ago || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, %v ago, %v; want %v, %v ago, %v", what, e, time.Since(at), err, want, ago, wantErr)
			}
		}
		const late = 25 * time.Millisecond
		check("nothing yet", s.look, 0, 0, host.ErrUnread)
		check("nothing yet, at an edge", s.energy, 0, 0, host.ErrUnread)
		from.add(100*unit.Watt, late)
		check("first", s.look, 0, late, nil)
		check("first, at an edge", s.energy, 2500*unit.Millijoule, 0, nil)
		time.Sleep(100 * time.Millisecond)
		from.add(100*unit.Watt, 75*time.Millisecond)
		from.add(200*unit.Watt, late)
		check("two more", s.look, 12500*unit.Millijoule, late, nil) // 5 J, and 50 ms from 100 to 200 W
		if p := s.newest(); p.power != 200*unit.Watt {
			t.Errorf("newest %v", p.power)
		}
		check("nothing new", s.look, 0, 0, host.ErrUnread)
		check("nothing new, at an edge", s.energy, 17500*unit.Millijoule, 0, nil)
		from.err = host.ErrHung
		check("a hung driver", s.energy, 0, 0, host.ErrHung)
		from.err = nil
		time.Sleep(time.Second)
		check("too long ago", s.energy, 0, 0, host.ErrUnread)
		from.add(200*unit.Watt, late)
		check("after a lapse", s.energy, 17500*unit.Millijoule, 0, errLapse)
	})
}
