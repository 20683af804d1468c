package script

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/qunerd/quner/api/client"
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// hangUp is the program "hang-up close|end": it begins a sweep and, once it is asked for a run, closes its connection, or
// ends its side of the stream and waits for the answer.
func hangUp() {
	if err := hangingUp(os.Args[1], os.Getenv("QUNER_SOCKET")); err != nil {
		fmt.Fprintln(os.Stderr, "hang-up:", err)
		os.Exit(1)
	}
}

func hangingUp(how, dir string) error {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{Dir: dir, Admin: true, Strict: true})
	if err != nil {
		return err
	}
	stream, err := qunerv1.NewAdminServiceClient(c.Conn()).Tune(ctx)
	if err != nil {
		return err
	}
	start := &qunerv1.TuneStart{Profile: qunerv1.Profile_PROFILE_TRAINING, Apply: true, NoCpu: true, Force: true}
	if err := stream.Send(&qunerv1.TuneRequest{Message: &qunerv1.TuneRequest_Start{Start: start}}); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetRun() == nil {
			continue
		}
		fmt.Println("asked for", strings.Join(m.GetRun().GetState(), ", "))
		if how == "close" {
			return c.Close()
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		_, err = stream.Recv()
		fmt.Println("answer:", err)
		return c.Close()
	}
}

// counted CMD…: of the states that CMD, a sweep of the program serve, has measured, its report tells the work that the
// simulated board has done, to two hundredths in all. Where the simulation itself was kept from running it is tried again. It does that of its curve, for as much of the time as it was at work,
// and how much that was is told by what it has drawn: requests may be late on a machine that is busy.
func counted(ts *testscript.TestScript, args []string) {
	off := 0.0
	for range 3 {
		exits(ts, append([]string{"0"}, args...))
		if off = offBy(ts, ts.ReadFile("stdout")); math.Abs(off) <= 0.02 {
			return
		}
	}
	ts.Fatalf("three times in a row work is told %+.2f %% off at last", 100*off)
}

// offBy is by what share of it the work that a report tells is more than what was done.
func offBy(ts *testscript.TestScript, text string) float64 {
	var report struct {
		States []struct {
			State         []string `json:"state"`
			Windows       int      `json:"windows"`
			WorkPerSecond float64  `json:"work_per_second"`
			Watts         float64  `json:"achieved_watts"`
		} `json:"states"`
	}
	ts.Check(json.Unmarshal([]byte(text), &report))
	idle, curve := boardOf(ts)
	states, told, done := 0, 0.0, 0.0
	for _, s := range report.States {
		if s.Windows == 0 {
			continue
		}
		full, known := curve[strings.Join(s.State, ", ")]
		busy := (s.Watts - idle) / (full.watts - idle)
		ts.Logf("%v: %d windows, at work for %.1f %% of the time: %.2f tokens a second told, %.2f done", s.State, s.Windows, 100*busy, s.WorkPerSecond, busy*full.rate)
		if !known || busy < 0.1 || busy > 1.02 {
			ts.Fatalf("%v: %.2f W drawn; at work it is %.2f W", s.State, s.Watts, full.watts)
		}
		states, told, done = states+1, told+float64(s.Windows)*s.WorkPerSecond, done+float64(s.Windows)*busy*full.rate
	}
	if states < 4 || !(done > 0) {
		ts.Fatalf("%d states were measured, with %.2f tokens a second done", states, done)
	}
	return told/done - 1
}

// atWork is what a board at work draws and does at one cap, the latter in tokens a second.
type atWork struct{ watts, rate float64 }

// boardOf reads what the script's one board draws at rest, and what it draws and does at each measured cap.
func boardOf(ts *testscript.TestScript) (idle float64, curve map[string]atWork) {
	archive := ts.ReadFile(filepath.Join(stageOf(ts).machine(), "sim/host.txtar"))
	_, board, _ := strings.Cut(archive, "[[gpu]]")
	_, text, _ := strings.Cut(board, "\nidle_w = ")
	_, err := fmt.Sscanf(text, "%g", &idle)
	ts.Check(err)
	curve = map[string]atWork{}
	_, rows, _ := strings.Cut(board, "cap_w,drawn_w,rate\n")
	for _, s := range look(ts).States(0) {
		var limit, watts, rate float64
		row, rest, _ := strings.Cut(rows, "\n")
		_, err := fmt.Sscanf(strings.ReplaceAll(row, ",", " "), "%g %g %g", &limit, &watts, &rate)
		ts.Check(err)
		if limit != s.Cap.Watts() {
			ts.Fatalf("row %q of the curve is not of %g W", row, s.Cap.Watts())
		}
		curve[fmt.Sprintf("%g W", limit)] = atWork{watts, tokensPerUnit * s.Rate}
		rows = rest
	}
	return idle, curve
}
