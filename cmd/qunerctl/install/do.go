package install

import (
	"context"
	"errors"
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
			return fmt.Errorf("%s %s: %w", s.Line().Do, s.Line().What, errors.Join(err, p[:i+1].undo(ctx, m)))
		}
		if l := s.Line(); l.Do != "" {
			told(l)
		}
		if r, ok := s.(*run); ok && r.told != nil {
			told(Line{"note", r.argv[0], r.told.Error()})
		}
	}
	return nil
}

// undoTimeout bounds the way back, which must be gone also when the way there was interrupted.
const undoTimeout = 2 * time.Minute

func (p Plan) undo(ctx context.Context, m *Machine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var errs []error
	for _, s := range slices.Backward(p) {
		if err := s.undo(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("taking it back: %w", err))
		}
	}
	return errors.Join(errs...)
}
