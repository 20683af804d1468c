package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// sweep is one conversation with the daemon: it sets states and measures, this side runs the workload, unless that is a
// service which goes on by itself.
type sweep struct {
	app    *app
	stream tuneStream
	work   *workload
	line   *progress
	began  time.Time
	dryRun bool
	unit   string // what the work is counted in
	serves string // the service that is measured while it goes on; empty where this side runs a command

	best   string // label of the best state so far
	last   uint32 // window that has ended
	plan   *qunerv1.TunePlan
	report *qunerv1.TuneReport
	failed *failure // of the workload
}

// heard is one message, or the end of them.
type heard struct {
	message *qunerv1.TuneResponse
	err     error
}

// run holds the conversation until the report, an error or the end of ctx. No run of the workload outlives it.
func (s *sweep) run(ctx context.Context, start *qunerv1.TuneStart) error {
	if err := s.send(&qunerv1.TuneRequest{Message: &qunerv1.TuneRequest_Start{Start: start}}); err != nil {
		return err
	}
	messages := make(chan heard)
	over := make(chan struct{})
	defer close(over)
	go s.listen(messages, over)

	var running *runningWork
	defer func() { running.stop() }()
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for {
		select {
		case h := <-messages:
			switch {
			case h.err != nil && s.failed != nil:
				return s.failed
			case errors.Is(h.err, io.EOF) && (s.report != nil || s.dryRun && s.plan != nil):
				return nil
			case errors.Is(h.err, io.EOF):
				return errors.New("qunerd ended the sweep without a report")
			case h.err != nil:
				return h.err
			case s.failed != nil:
				continue // its last words, until it has put the host back
			}
			r := h.message.GetRun()
			if r != nil && s.serves != "" {
				return errors.New("qunerd asks for a command: it is of a version that cannot tune a service (--attach)")
			}
			if r != nil {
				running.stop() // the daemon asks for one at a time; a new one takes its place
				running = s.work.begin(ctx, r)
			}
			s.tell(h.message)
		case done := <-running.ended():
			running = nil
			if err := s.finished(done); err != nil {
				return err
			}
		case <-beat.C:
			s.beat(running)
		case <-ctx.Done():
			ending := running
			running = nil
			return s.callOff(messages, ending)
		}
	}
}

// answerWithin is in which time the daemon has put the host back, or something is wrong with it.
const answerWithin = 20 * time.Second

// callOff ends the sweep for a person who has pressed Ctrl-C, and waits until the daemon has put the host back, so that it
// is the truth that is told. A sweep that was over by then is no error: its report holds.
func (s *sweep) callOff(messages <-chan heard, running *runningWork) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, heeded(syscall.SIGINT, syscall.SIGTERM)...)
	defer signal.Stop(again)
	_ = s.stream.CloseSend() // a stream that is gone says so below
	s.line.show("interrupted: qunerd puts the host back …")
	running.stop()
	late := time.After(answerWithin)
	for {
		select {
		case h := <-messages:
			switch {
			case h.err == nil:
				if r := h.message.GetReport(); r != nil {
					s.report = r
				}
			case errors.Is(h.err, io.EOF) && s.report != nil:
				return nil
			case errors.Is(h.err, io.EOF) || status.Code(h.err) == codes.Canceled:
				return interrupted("interrupted: the host is back as it was before the sweep")
			default:
				return h.err
			}
		case <-again:
			return interrupted("interrupted: qunerd puts the host back as it was before the sweep, which was not waited for")
		case <-late:
			return interrupted("interrupted: qunerd is to put the host back as it was before the sweep, but has not answered yet")
		}
	}
}

func interrupted(words string) error {
	return &failure{error: errors.New(words), code: exitInterrupted, hint: "qunerctl status shows it"}
}

func (s *sweep) listen(to chan<- heard, over <-chan struct{}) {
	for {
		m, err := s.stream.Recv()
		select {
		case to <- heard{m, err}:
		case <-over:
			return
		}
		if err != nil {
			return
		}
	}
}

// send sends a message; what is wrong with a stream that does not take it is told by its receiving side.
func (s *sweep) send(m *qunerv1.TuneRequest) error {
	err := s.stream.Send(m)
	if errors.Is(err, io.EOF) {
		_, err = s.stream.Recv()
	}
	return err
}

// finished answers for a run. A failed one ends the sweep: the daemon then ends the stream once the host is put back.
func (s *sweep) finished(done runDone) error {
	answer := &qunerv1.RunFinished{Window: done.window, Work: done.work, StalledS: done.stall.Seconds()}
	if done.err != nil {
		answer.Failure = clean(done.err.Error())
	}
	err := s.send(&qunerv1.TuneRequest{Message: &qunerv1.TuneRequest_Finished{Finished: answer}})
	if done.err == nil {
		return err
	}
	s.line.clear()
	if done.tail != "" {
		s.app.err.printf("%s\n", s.app.err.style(dim, "the last of its output:"))
		for line := range strings.Lines(done.tail) {
			s.app.err.printf("  | %s\n", cleanBut(strings.TrimRight(line, "\n"), "\t"))
		}
	}
	s.failed = &failure{error: fmt.Errorf("the workload failed, qunerd puts the host back: %w", done.err), code: exitError,
		hint: "run it by itself until it succeeds, then tune again"}
	return err
}

// tell shows a message to the person.
func (s *sweep) tell(m *qunerv1.TuneResponse) {
	switch m := m.GetMessage().(type) {
	case *qunerv1.TuneResponse_Plan:
		s.plan = m.Plan
		if !s.dryRun {
			s.app.err.planPage(m.Plan)
		}
	case *qunerv1.TuneResponse_Run:
		s.line.show("%s", s.head(m.Run.GetWindow(), m.Run.GetMaxWindows(), m.Run.GetState())+"  running …")
	case *qunerv1.TuneResponse_Progress:
		s.window(m.Progress)
	case *qunerv1.TuneResponse_Report:
		s.report = m.Report
	}
}

func (s *sweep) head(window, of uint32, state []string) string {
	return fmt.Sprintf("window %2d of at most %d  %-9s", window, of, strings.Join(state, ", "))
}

// outlook is what is known while a window goes on: the best state so far, and the most time that the sweep still takes.
func (s *sweep) outlook() string {
	words := ""
	if s.best != "" {
		words += "  best so far " + s.best
	}
	if left, ok := s.left(); ok {
		words += "  at most " + longSpan(left) + " left"
	}
	return words
}

// left is the most time that the sweep still takes: by the windows' length so far, and by the budget of time.
func (s *sweep) left() (time.Duration, bool) {
	spent := time.Since(s.began)
	most, known := time.Duration(math.MaxInt64), false
	if s.last > 0 && s.plan.GetMaxWindows() >= s.last {
		most, known = spent/time.Duration(s.last)*time.Duration(s.plan.GetMaxWindows()-s.last), true
	}
	if b := time.Duration(s.plan.GetBudgetNs()); b > 0 {
		most, known = min(most, max(0, b-spent)), true
	}
	return most, known
}

// window tells how one window came out: it stays on the screen, as a record of the sweep.
func (s *sweep) window(p *qunerv1.TuneProgress) {
	s.last, s.best = p.GetWindow(), p.GetBest()
	s.unit = orWord(p.GetWorkUnit(), s.unit)
	head := s.head(p.GetWindow(), p.GetMaxWindows(), p.GetState())
	if p.GetVoided() != "" {
		s.line.step("%s  does not count: %s", head, p.GetVoided())
		return
	}
	line := head
	if p.Watts != nil && p.JoulesPerWork != nil {
		line += fmt.Sprintf("  %7.1f W  %9s per %s", p.GetWatts(), perRun(p.GetJoulesPerWork()), s.unit)
	}
	line += "  " + rate(p.GetWorkPerSecond(), 0) + " " + many(s.unit) + "/s"
	if p.GetBest() != "" {
		line += "  best " + p.GetBest()
	}
	s.line.step("%s", line)
}

// beat keeps the line alive while the workload runs.
func (s *sweep) beat(r *runningWork) {
	if r == nil && s.serves != "" {
		s.line.show("%s serves, and is measured … %s%s", s.serves, span(time.Since(s.began).Round(time.Second)), s.outlook())
		return
	}
	if r == nil {
		s.line.show("settling … %s%s", span(time.Since(s.began).Round(time.Second)), s.outlook())
		return
	}
	s.line.show("%s  running for %.0f s%s", s.head(r.asked.GetWindow(), r.asked.GetMaxWindows(), r.asked.GetState()),
		time.Since(r.began).Seconds(), s.outlook())
}
