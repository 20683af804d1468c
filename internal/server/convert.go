package server

import (
	"math"
	"strings"
	"time"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/doctor"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

func profileOut(p profiles.Profile) qunerv1.Profile {
	switch p {
	case profiles.Idle:
		return qunerv1.Profile_PROFILE_IDLE
	case profiles.Training:
		return qunerv1.Profile_PROFILE_TRAINING
	}
	return qunerv1.Profile_PROFILE_UNSPECIFIED
}

func profileIn(p qunerv1.Profile) (profiles.Profile, error) {
	switch p {
	case qunerv1.Profile_PROFILE_UNSPECIFIED:
		return profiles.Unknown, nil
	case qunerv1.Profile_PROFILE_IDLE:
		return profiles.Idle, nil
	case qunerv1.Profile_PROFILE_TRAINING:
		return profiles.Training, nil
	}
	return "", badRequest("profile %d: not known to this daemon", p)
}

func modeOut(m profiles.Mode) qunerv1.Mode {
	switch m {
	case profiles.ModeAuto:
		return qunerv1.Mode_MODE_AUTO
	case profiles.ModeIdle:
		return qunerv1.Mode_MODE_IDLE
	case profiles.ModeTraining:
		return qunerv1.Mode_MODE_TRAINING
	case profiles.ModeOff:
		return qunerv1.Mode_MODE_OFF
	}
	return qunerv1.Mode_MODE_UNSPECIFIED
}

func modeIn(m qunerv1.Mode) (profiles.Mode, error) {
	switch m {
	case qunerv1.Mode_MODE_AUTO:
		return profiles.ModeAuto, nil
	case qunerv1.Mode_MODE_IDLE:
		return profiles.ModeIdle, nil
	case qunerv1.Mode_MODE_TRAINING:
		return profiles.ModeTraining, nil
	case qunerv1.Mode_MODE_OFF:
		return profiles.ModeOff, nil
	}
	return "", badRequest("mode %d: allowed are auto, idle, training and off", m)
}

func modeStateOut(m profiles.ModeState) *qunerv1.ModeState {
	return &qunerv1.ModeState{
		Mode: modeOut(m.Mode), SetByUid: m.UID, SetAtUnixNs: unixNano(m.Set), UntilUnixNs: unixNano(m.Until),
	}
}

// unixNano is a time on the wire: 0 where there is none.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// count is a whole number on the wire.
func count(n int) uint32 {
	return uint32(min(max(n, 0), math.MaxUint32)) //nolint:gosec // bounded
}

// known is a figure on the wire: absent where it is not one.
func known[T any](v T, is bool) *T {
	if !is {
		return nil
	}
	return &v
}

// finite is a measured figure on the wire: absent where it is infinite or not a number.
func finite(v float64) *float64 { return known(v, !math.IsNaN(v) && !math.IsInf(v, 0)) }

// each converts a list.
func each[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

// printable keeps a text from elsewhere fit for one line of a log or a terminal.
func printable(s string) string {
	return truncated(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0xfffd || 0x7f <= c && c < 0xa0 {
			return '?'
		}
		return c
	}, s))
}

func writesOut(all []levers.Write) []*qunerv1.Write {
	return each(all, func(w levers.Write) *qunerv1.Write {
		return &qunerv1.Write{Lever: w.Lever, From: string(w.From), To: string(w.To), Unit: w.Unit, Note: w.Note}
	})
}

func missingOut(m levers.Missing) *qunerv1.Missing {
	return &qunerv1.Missing{Name: m.Name, Reason: string(m.Reason), Detail: m.Detail}
}

func statusOut(s *daemon.Status) *qunerv1.Status {
	return &qunerv1.Status{
		Version: s.Version, TimeUnixNs: unixNano(s.Time), StartedUnixNs: unixNano(s.Started),
		Simulated: s.Host != "", Host: s.Host,
		Profile: profileOut(s.Profile), Mode: modeStateOut(s.Mode), NeedsTune: s.NeedsTune, Revalidate: s.Revalidate, PointSource: string(s.PointSource),
		Levers: each(s.Levers, leverOut), Missing: each(s.Missing, missingOut), Devices: each(s.Devices, powerOut),
		Signal: &qunerv1.Signal{
			GpuUtilisation: known(s.Signal.Sample.GPUUtilisation, s.Signal.Sample.GPUs > 0), Load1: s.Signal.Sample.Load1, Cpus: count(s.Signal.Sample.CPUs),
			Proposes: profileOut(s.Signal.Proposes), Agreeing: count(s.Signal.Agreeing), Needed: count(s.Signal.Needed),
		},
		Tune: &qunerv1.TuneState{
			Running: s.Tune.Running, Workload: s.Tune.Workload, Window: count(s.Tune.Window),
			LastUnixNs: unixNano(s.Tune.Last), LastVerdict: s.Tune.LastVerdict,
		},
		Savings: savedOut(s.Savings),
		Retune: &qunerv1.RetuneState{
			AtUnixNs: unixNano(s.Retune.At), Skipped: s.Retune.Skipped, LastUnixNs: unixNano(s.Retune.Last), Verdict: s.Retune.Verdict,
		},
		Degraded: s.Degraded, OpenWindows: count(s.OpenWindows),
	}
}

func leverOut(l levers.State) *qunerv1.LeverState {
	return &qunerv1.LeverState{
		Name: l.Name, Kind: string(l.Kind), Value: string(l.Value), Unit: l.Unit, Found: string(l.Found),
		Wanted: string(l.Wanted), State: l.State, Note: l.Note,
	}
}

func powerOut(d meter.DevicePower) *qunerv1.DevicePower {
	return &qunerv1.DevicePower{
		Device: d.Device, Label: d.Label, Backend: string(d.Backend), PowerUw: known(int64(d.Power), d.Known), Known: d.Known, Reason: d.Reason,
	}
}

func doctorOut(r doctor.Report, s *daemon.Status, fingerprint string) *qunerv1.DoctorResponse {
	return &qunerv1.DoctorResponse{
		Version: s.Version, Host: r.Host, Simulated: s.Host != "", Fingerprint: fingerprint,
		Levers: each(r.Levers, func(l doctor.Lever) *qunerv1.LeverReport {
			return &qunerv1.LeverReport{
				Name: l.Name, Kind: string(l.Kind), Present: l.Present, Readable: l.Readable, Writable: l.Writable,
				Value: l.Value, Range: l.Range, Reason: string(l.Reason), Detail: l.Detail, Remedy: l.Remedy,
				Effective: l.Effective, Owner: l.Owner, State: l.State, Found: l.Found, Why: l.Why,
			}
		}),
		Counters: each(r.Counters, func(c doctor.Counter) *qunerv1.CounterReport {
			return &qunerv1.CounterReport{
				Name: c.Name, Label: c.Label, Backend: string(c.Backend), Counted: c.Counted,
				Reason: c.Reason, Detail: c.Detail, Remedy: c.Remedy, Why: c.Why, Passport: passportOut(c.Passport),
			}
		}),
		Conflicts: each(r.Conflicts, func(c doctor.Conflict) *qunerv1.ConflictReport {
			return &qunerv1.ConflictReport{
				Daemon: c.Daemon, Unit: c.Unit, Pid: int32(c.PID), //nolint:gosec // a process number fits
				Contests: each(c.Contests, func(k levers.Kind) string { return string(k) }), Remedy: c.Remedy, Detail: c.Detail,
			}
		}),
		Notes: r.Notes,
	}
}

func settingsOut(p levers.Point, units map[string]string) []*qunerv1.Setting {
	return each(p, func(s levers.Setting) *qunerv1.Setting {
		return &qunerv1.Setting{Lever: s.Lever, Value: string(s.Value), Unit: units[s.Lever]}
	})
}
