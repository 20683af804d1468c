package install

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Do does a plan step by step, and tells each one after it is done; what a lenient one had against it is told as a note.
// A step that fails ends it: what was done is taken back in reverse, so that the machine is as before, and the error
// says so. Of an uninstallation nothing is taken back; it can be run again.
func (p Plan) Do(ctx context.Context, m *Machine, told func(Line)) error {
	for i, s := range p {
		err := ctx.Err()
		if err == nil {
			err = s.do(ctx, m)
		}
		if err != nil {
			return p[:i+1].failed(ctx, m, err)
		}
		if l := s.Line(); l.Do != "" {
			told(l)
		}
		if n, ok := s.(interface{ notes() []Line }); ok {
			for _, l := range n.notes() {
				told(l)
			}
		}
	}
	return nil
}

// failed takes back what was done of a plan whose last step has failed with err.
func (p Plan) failed(ctx context.Context, m *Machine, err error) error {
	l := p[len(p)-1].Line()
	err = fmt.Errorf("%s %s: %w", l.Do, l.What, err)
	switch back := p.undo(ctx, m); {
	case back != nil:
		return fmt.Errorf("%w; not all that had been done could be taken back: %w", err, back)
	case slices.ContainsFunc(p[:len(p)-1], Step.undoes):
		return fmt.Errorf("%w; what had been done was taken back", err)
	}
	return err
}

// undoTimeout bounds the way back, which must be gone also when the way there was interrupted.
const undoTimeout = 2 * time.Minute

func (p Plan) undo(ctx context.Context, m *Machine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var all error
	for _, s := range slices.Backward(p) {
		switch err := s.undo(ctx, m); {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err) // in one line
		}
	}
	return all
}
