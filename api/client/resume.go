package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	qunerv1 "github.com/qunerd/quner/api/quner/v1"
)

// resumeTime is for how long windows are tried to be taken up again: the daemon keeps them for 60 s after its start, and
// its service manager waits for some seconds before that.
const resumeTime = 90 * time.Second

// resumePause is between two tries.
const resumePause = 100 * time.Millisecond

// restartTime is how long a daemon may be gone altogether, with nobody at its socket, until it counts as gone: somebody may
// have started it anew.
const restartTime = time.Second

// ErrRestarted is wrapped by the cause of a result that is unknown since the daemon was started anew and does not know the
// window: it ended so soon after the open, or so badly, that it had not written the window down.
var ErrRestarted = errors.New("the daemon was restarted and does not know the window")

// track notes a window that is open on a session.
func (c *Client) track(w *Window, s *session) {
	c.windowsMu.Lock()
	defer c.windowsMu.Unlock()
	w.session = s
	c.windows[w] = true
}

func (c *Client) untrack(w *Window) {
	c.windowsMu.Lock()
	defer c.windowsMu.Unlock()
	delete(c.windows, w)
}

// stranded returns the windows that were open on a session that has ended.
func (c *Client) stranded(s *session) []*Window {
	c.windowsMu.Lock()
	defer c.windowsMu.Unlock()
	var all []*Window
	for w := range c.windows {
		if w.session == s {
			all = append(all, w)
		}
	}
	return all
}

// ended is called when a session's stream has ended. If that was not the client's doing its windows are taken up again, as
// soon as a daemon is there.
func (c *Client) ended(s *session) {
	c.windowsMu.Lock()
	defer c.windowsMu.Unlock()
	select {
	case <-c.closing:
		close(s.resumed)
		return
	default:
	}
	c.resuming.Go(func() {
		defer close(s.resumed)
		c.resume(s)
	})
}

// resume takes the windows of a session that has ended up again, until that has worked or the daemon has given them up.
func (c *Client) resume(s *session) {
	over := time.NewTimer(resumeTime)
	defer over.Stop()
	for told := false; len(c.stranded(s)) > 0 && !c.tryResume(s); {
		if !told && time.Since(s.ended) >= restartTime && c.dialer.refused() {
			close(s.refused)
			told = true
		}
		pause := time.NewTimer(resumePause)
		select {
		case <-pause.C:
			c.conn.ResetConnectBackoff()
		case <-over.C:
			pause.Stop()
			return
		case <-c.closing:
			pause.Stop()
			return
		}
	}
}

// tryResume reports whether each window has found its way: to the new session, or to its end.
func (c *Client) tryResume(s *session) bool {
	next, err := c.live()
	if err != nil {
		return false
	}
	for _, w := range c.stranded(s) {
		_, err := next.do(context.Background(), &qunerv1.SessionRequest{
			Command: &qunerv1.SessionRequest_Resume{Resume: &qunerv1.ResumeWindow{Id: w.id}},
		}, c.timeout)
		if err != nil && unanswered(err) {
			return false
		}
		c.windowsMu.Lock()
		w.session = next
		if err != nil {
			w.lost = err
			delete(c.windows, w)
		}
		c.windowsMu.Unlock()
	}
	return true
}

// place returns the session a window is on now, or why it is on none any longer.
func (w *Window) place() (*session, error) {
	w.client.windowsMu.Lock()
	defer w.client.windowsMu.Unlock()
	if w.lost != nil {
		return nil, errors.Join(ErrRestarted, w.lost)
	}
	return w.session, nil
}

// command sends one command on the session the window lives on. Where the session has ended, it waits for the window to be
// taken up on another one: for ctx, and for the client's timeout since that end, however many windows wait; where nobody is
// at the socket any more for restartTime.
func (w *Window) command(ctx context.Context, r *qunerv1.SessionRequest) (*qunerv1.SessionResponse, error) {
	bound := time.Now().Add(w.client.timeout)
	for {
		s, err := w.place()
		if err != nil {
			return nil, err
		}
		answer, err := s.do(ctx, r, max(time.Until(bound), time.Millisecond))
		if err == nil || !unanswered(err) || !s.over() {
			return answer, err
		}
		patience := time.NewTimer(time.Until(minTime(bound, s.ended.Add(w.client.timeout))))
		select {
		case <-s.resumed:
		case <-s.refused:
		case <-patience.C:
		case <-ctx.Done():
		}
		patience.Stop()
		if now, lost := w.place(); now == s && lost == nil {
			return nil, status.Error(codes.Unavailable, "the session has ended")
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// over reports whether the session has ended.
func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
