package main

import (
	"testing"

	"github.com/coreos/go-systemd/v22/dbus"
)

func TestOnlyPoweroffAndRebootGoDown(t *testing.T) {
	for _, c := range []struct {
		unit, job string
		down      bool
	}{
		{"poweroff.target", "start", true},
		{"reboot.target", "start", true},
		{"halt.target", "start", true},
		{"kexec.target", "start", false},
		{"soft-reboot.target", "start", false},
		{"reboot.target", "stop", false},
		{"qunerd.service", "stop", false},
		{"rescue.target", "start", false},
	} {
		jobs := []dbus.JobStatus{{Unit: "qunerd.service", JobType: "stop"}, {Unit: c.unit, JobType: c.job}}
		if got := downBy(jobs); got != c.down {
			t.Errorf("%s of %s: going down %v, want %v", c.job, c.unit, got, c.down)
		}
	}
	if downBy(nil) {
		t.Error("no job, and yet going down")
	}
}
