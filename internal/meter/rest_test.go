package meter_test

import (
	"context"
	"testing"
	"time"
)

// A card whose power is sampled is known at rest too, however long no window is open.
func TestACardAtRestIsNotFrozen(t *testing.T) {
	on(t, "amd", func(r *rig) {
		for range 6 {
			time.Sleep(10 * time.Second)
			r.Tick(context.Background())
		}
		for _, p := range r.Power() {
			if !p.Known {
				t.Errorf("at rest: %+v", p)
			}
		}
		for _, s := range r.Sensors() {
			if s.Reason == "frozen" {
				t.Errorf("%+v", s)
			}
		}
	})
}
