package profiles

import (
	"testing"
)

var (
	busyGPU = Sample{GPUUtilisation: 0.31, CPUs: 8}
	busyCPU = Sample{Load1: 4.81, CPUs: 8}
	quiet   = Sample{GPUUtilisation: 0.30, Load1: 4.8, CPUs: 8} // both exactly at their thresholds
	blind   = Sample{Load1: 0.1, CPUs: 8, Unread: []string{"gpu/GPU-1: utilisation: a driver call has not come back"}}
	blindUp = Sample{Load1: 7, CPUs: 8, Unread: blind.Unread}
)

func TestDetector(t *testing.T) {
	type step struct {
		sample  Sample
		profile Profile
		changed bool
	}
	for name, steps := range map[string][]step{
		"the first sample decides alone": {
			{busyGPU, Training, true},
		},
		"three agreeing ticks switch, both ways": {
			{quiet, Idle, true},
			{busyCPU, Idle, false}, {busyGPU, Idle, false}, {busyCPU, Training, true},
			{quiet, Training, false}, {quiet, Training, false}, {quiet, Idle, true}, {quiet, Idle, false},
		},
		"a dissenting tick starts the count over": {
			{busyGPU, Training, true},
			{quiet, Training, false}, {quiet, Training, false}, {busyGPU, Training, false},
			{quiet, Training, false}, {quiet, Training, false}, {quiet, Idle, true},
		},
		"a blind sample abstains, unless the rest shows training": {
			{blind, Unknown, false},
			{quiet, Idle, true},
			{busyGPU, Idle, false}, {busyGPU, Idle, false}, {blind, Idle, false}, {blindUp, Training, true},
			{blind, Training, false}, {blind, Training, false}, {blind, Training, false}, {blind, Training, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDetector(Thresholds{})
			for i, s := range steps {
				profile, changed := d.Add(s.sample)
				if profile != s.profile || changed != s.changed {
					t.Fatalf("tick %d: %q changed %v, want %q %v", i, profile, changed, s.profile, s.changed)
				}
				if d.Profile() != profile {
					t.Fatalf("tick %d: Profile() is %q", i, d.Profile())
				}
			}
		})
	}
}

func TestDetectorShowsItsCount(t *testing.T) {
	d := NewDetector(Thresholds{Ticks: 4})
	d.Add(quiet)
	d.Add(busyGPU)
	d.Add(busyGPU)
	if d.Proposes() != Training || d.Agreeing() != 2 || d.Needed() != 4 {
		t.Fatalf("proposes %q, %d of %d", d.Proposes(), d.Agreeing(), d.Needed())
	}
	d.Reset()
	if d.Profile() != Idle || d.Proposes() != Unknown || d.Agreeing() != 0 {
		t.Fatalf("after Reset: %q, proposes %q, %d agreeing", d.Profile(), d.Proposes(), d.Agreeing())
	}
	for range 3 {
		if _, changed := d.Add(busyGPU); changed {
			t.Fatal("samples from before the reset were counted")
		}
	}
	if p, changed := d.Add(busyGPU); !changed || p != Training {
		t.Fatalf("fourth agreeing tick: %q, %v", p, changed)
	}
	for range 9 {
		d.Add(busyGPU)
	}
	if d.Agreeing() != d.Needed() {
		t.Fatalf("counts to %d, beyond %d", d.Agreeing(), d.Needed())
	}
}

func TestDetectorThresholdsAreConfigurable(t *testing.T) {
	d := NewDetector(Thresholds{GPU: 0.9, Load: 2, Ticks: 1})
	if p, _ := d.Add(Sample{GPUUtilisation: 0.9, Load1: 8, CPUs: 4}); p != Idle {
		t.Fatalf("at the thresholds: %q", p)
	}
	if p, _ := d.Add(Sample{Load1: 8.1, CPUs: 4}); p != Training {
		t.Fatalf("above one: %q", p)
	}
}

func TestDetectorTakesAProfileKnownFromElsewhere(t *testing.T) {
	d := NewDetector(Thresholds{})
	d.Add(quiet)
	if d.Judge(busyGPU) != Training || d.Judge(blind) != Unknown || d.Agreeing() != 1 {
		t.Fatal("judging a sample counted it, or misjudged it")
	}
	d.Assume(Training)
	for i, want := range []Profile{Training, Training, Idle} {
		if p, _ := d.Add(quiet); p != want {
			t.Fatalf("tick %d after: %q", i, p)
		}
	}
}
