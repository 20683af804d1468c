package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

func (a *app) floorMeasureCmd() *cobra.Command {
	r := &qunerv1.MeasureFloorRequest{}
	lasting := durationValue(shortestFloor)
	cmd := &cobra.Command{
		Use:   "measure",
		Short: "Measure what the devices draw at rest, and charge work above it from then on",
		Long: `Measure what each device draws at rest, for 30 s or longer once its power has settled. The
machine must be at rest: a device that somebody works on gets no floor, and the reason is told;
a window that somebody has open is none. Metering goes on meanwhile.

Without --all-points the floors are those of the operating point in force, and no lever moves.
With it, each point that qunerd may bring into force is measured: those of the profiles, the
cached ones, the host as found. Each takes the time of one measurement; Ctrl-C puts the host
back at once and keeps the points that are done.

The exit status is 0 if every device has its floor, 5 if one was refused.`,
		Example: "  sudo qunerctl floor measure\n  sudo qunerctl floor measure --devices gpu --for 2m\n  sudo qunerctl floor measure --all-points --dry-run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d := time.Duration(lasting); d < shortestFloor || d > longestFloor {
				return wrongValue("qunerctl floor measure --for 30s", "--for", lasting.String(), "a duration from 30s to 1h")
			}
			r.DurationNs = int64(lasting)
			return a.measureFloors(cmd, r)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&r.Devices, "devices", nil, "measure these only: names, or cpu, gpu; default: all that are awake")
	flags.Var(&lasting, "for", "how long, once power has settled: 30s to 1h")
	flags.BoolVar(&r.AllPoints, "all-points", false, "at each point that qunerd may bring into force; moves levers")
	flags.BoolVar(&r.Force, "force", false, "move levers also while others train, or on battery")
	dryRunFlag(cmd, &r.DryRun)
	_ = cmd.RegisterFlagCompletionFunc("devices", a.deviceNames) // the flag is there
	return cmd
}

// measureFloors has qunerd measure and shows how far it is.
func (a *app) measureFloors(cmd *cobra.Command, r *qunerv1.MeasureFloorRequest) error {
	ctx := cmd.Context()
	if err := a.wholeDevices(ctx, r.Devices); err != nil {
		return err
	}
	c, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stream, err := qunerv1.NewAdminServiceClient(cleanConn{c.Conn()}).MeasureFloor(ctx, r)
	if err != nil {
		return err
	}
	m := &floorMeasurement{app: a, line: &progress{s: a.err}, now: map[string]*qunerv1.FloorProgress{}}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			m.line.clear()
			return m.ended(ctx, r, err)
		}
		m.tell(answer, r.GetDryRun())
	}
	m.line.clear()
	return m.done(r)
}

// wholeDevices completes the beginnings of device names.
func (a *app) wholeDevices(ctx context.Context, typed []string) error {
	if len(typed) == 0 {
		return nil
	}
	s, err := a.status(ctx)
	if err != nil {
		return err
	}
	for i, name := range typed {
		if typed[i], err = device(metered(s), name); err != nil {
			return &failure{error: fmt.Errorf("--devices: %w", err), code: exitUsage, hint: "qunerctl status shows the devices"}
		}
	}
	return nil
}

// floorMeasurement is one conversation with the daemon.
type floorMeasurement struct {
	app    *app
	line   *progress
	plan   *qunerv1.FloorPlan
	report *qunerv1.FloorReport
	point  uint32                            // being measured; from 1
	now    map[string]*qunerv1.FloorProgress // how far each device is
}

// ended is how a measurement ends that did not come to its report.
func (m *floorMeasurement) ended(ctx context.Context, r *qunerv1.MeasureFloorRequest, err error) error {
	if ctx.Err() == nil {
		return err
	}
	what := "interrupted: nothing is kept of the point that was being measured"
	if r.GetAllPoints() {
		what = "interrupted: qunerd puts the host back; the points that were done are kept"
	}
	return &failure{error: errors.New(what), code: exitInterrupted, hint: "qunerctl floor list"}
}

func (m *floorMeasurement) tell(answer *qunerv1.MeasureFloorResponse, dryRun bool) {
	switch answer := answer.GetMessage().(type) {
	case *qunerv1.MeasureFloorResponse_Plan:
		m.plan = answer.Plan
		if !dryRun {
			m.head()
		}
	case *qunerv1.MeasureFloorResponse_Progress:
		m.progress(answer.Progress)
	case *qunerv1.MeasureFloorResponse_Report:
		m.report = answer.Report
	}
}

// head says what is going to happen, and for how long.
func (m *floorMeasurement) head() {
	each := time.Duration(m.plan.GetDurationNs()) + settling
	m.app.err.printf("Measuring %s at rest at %s, about %s. Leave the machine alone.\n",
		plural(len(m.plan.GetDevices()), "device"), pointCount(m.plan.GetPoints()), span(time.Duration(len(m.plan.GetPoints()))*each))
}

// settling is about how long power takes to settle on a machine at rest.
const settling = 12 * time.Second

func pointCount(points []*qunerv1.FloorPoint) string {
	if len(points) == 1 {
		return points[0].GetName()
	}
	return plural(len(points), "operating point")
}

func (m *floorMeasurement) progress(p *qunerv1.FloorProgress) {
	if p.GetPoint() != m.point {
		m.point, m.now = p.GetPoint(), map[string]*qunerv1.FloorProgress{}
		if p.GetPoints() > 1 && int(p.GetPoint()) <= len(m.plan.GetPoints()) {
			m.line.step("point %d of %d: %s", p.GetPoint(), p.GetPoints(), m.plan.GetPoints()[p.GetPoint()-1].GetName())
		}
	}
	switch {
	case p.GetFloor() != nil:
		m.line.step("  %s  %s", short(p.GetDevice()), floorWatts(p.GetFloor()))
	case p.GetRefused() != "":
		m.line.clear()
		m.app.err.para("  ", yellow, "no floor: "+p.GetRefused())
	}
	m.now[p.GetDevice()] = p
	m.show()
}

// show is one line for all devices.
func (m *floorMeasurement) show() {
	var settle, running []string
	var far *qunerv1.FloorProgress
	for _, name := range m.plan.GetDevices() {
		p := m.now[name]
		if p == nil || p.GetFloor() != nil || p.GetRefused() != "" {
			continue
		}
		words := short(name)
		if p.PowerUw != nil {
			words += " " + quantity(micro(p.GetPowerUw()), 0, "W")
		}
		if !p.GetMeasuring() {
			settle = append(settle, words)
			continue
		}
		running = append(running, words)
		if far == nil || p.GetElapsedNs() < far.GetElapsedNs() {
			far = p
		}
	}
	var parts []string
	if far != nil {
		parts = append(parts, fmt.Sprintf("measuring, %.0f of %s: %s", float64(far.GetElapsedNs())/1e9, span(time.Duration(far.GetOfNs())), strings.Join(running, ", ")))
	}
	if len(settle) > 0 {
		parts = append(parts, "waiting for power to settle: "+strings.Join(settle, ", "))
	}
	line := []rune(strings.Join(parts, "; "))
	if most := m.app.err.columns() - 1; len(line) > most {
		line = append(line[:most-1], '…')
	}
	m.line.show("%s", string(line))
}

// done prints what a measurement, or its plan, has come to.
func (m *floorMeasurement) done(r *qunerv1.MeasureFloorRequest) error {
	a := m.app
	switch {
	case r.GetDryRun() && m.plan != nil && a.json:
		return writeJSON(a.out, m.plan)
	case r.GetDryRun() && m.plan != nil:
		a.floorPlan(m.plan)
		return nil
	case m.report == nil:
		return errors.New("qunerd ended the measurement without a report")
	case a.json:
		if err := a.dear(func(on *app) error { return writeJSON(on.out, m.report) }); err != nil {
			return err
		}
	default:
		_ = a.dear(func(on *app) error { on.floorPage(m.report); return nil })
	}
	refused := slices.DeleteFunc(slices.Clone(m.report.GetOutcomes()), func(o *qunerv1.FloorOutcome) bool { return o.GetFloor() != nil })
	if len(refused) == 0 {
		return nil
	}
	return &failure{error: fmt.Errorf("%d of %d have no floor: %s", len(refused), len(m.report.GetOutcomes()), refused[0].GetRefused()), code: exitRefused,
		hint: "measure again when they are at rest, or leave them out: --devices names those to measure"}
}

func (a *app) floorPage(r *qunerv1.FloorReport) {
	var floors []*qunerv1.Floor
	for _, o := range r.GetOutcomes() {
		if o.GetFloor() != nil {
			floors = append(floors, o.GetFloor())
		}
	}
	a.err.printf("\n")
	a.floorTable(floors)
	if len(floors) > 0 {
		a.out.printf("Windows opened from now on are charged above these.\n")
	}
}

// floorPlan is what a dry run shows.
func (a *app) floorPlan(p *qunerv1.FloorPlan) {
	names := make([]string, len(p.GetDevices()))
	for i, d := range p.GetDevices() {
		names[i] = short(d)
	}
	a.out.para("", plain, fmt.Sprintf("Would measure %s, for %s at each point once power has settled:",
		strings.Join(names, ", "), span(time.Duration(p.GetDurationNs()))))
	for _, point := range p.GetPoints() {
		what := settingWords(point.GetSettings())
		if what == "" {
			what = "every lever as found"
		}
		a.out.printf("  %s: %s\n", point.GetName(), what)
		if len(point.GetWrites()) > 0 {
			a.writes(point.GetWrites())
		}
	}
	a.out.printf("Dry run: nothing was measured or written.\n")
}
