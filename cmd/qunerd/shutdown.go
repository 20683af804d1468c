package main

import (
	"context"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// systemdTimeout bounds the question whether the machine goes down; the answer comes in milliseconds or not at all.
const systemdTimeout = 2 * time.Second

// goingDown reports whether systemd is about to power this machine off or to reboot it. The levers are then left as they
// are: they come up as firmware sets them, and a burst of writes on the way down has cost others outages. A kexec or a
// soft reboot keeps the values, so those do not count; and without systemd to ask the answer is no.
func goingDown(ctx context.Context) bool {
	if os.Getenv("QUNER_SOCKET") != "" {
		return false // a simulated machine does not go down with this one
	}
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	manager, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		return false
	}
	defer manager.Close()
	jobs, err := manager.ListJobsContext(ctx)
	return err == nil && downBy(jobs)
}

// downBy reports whether systemd's job queue leads to a state that firmware starts from.
func downBy(jobs []dbus.JobStatus) bool {
	for _, j := range jobs {
		if j.JobType != "start" {
			continue
		}
		switch j.Unit {
		case "poweroff.target", "reboot.target", "halt.target":
			return true
		}
	}
	return false
}
