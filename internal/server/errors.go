package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/qunerd/quner/internal/daemon"
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/levers"
	"github.com/qunerd/quner/internal/meter"
	"github.com/qunerd/quner/internal/profiles"
)

// Errors of the server itself.
var (
	errBadRequest = errors.New("bad request")
	errPanic      = errors.New("internal error; the daemon's log has the details")
	errWorkload   = errors.New("the workload failed")
)

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBadRequest, fmt.Sprintf(format, args...))
}

// codeOf is the one table from errors to codes; the first row that fits decides. What is not in it is Internal: a lack of
// the daemon's rights, EACCES from /sys or the driver's refusal, is not the caller's.
func codeOf(err error) codes.Code {
	for _, row := range []struct {
		is   error
		code codes.Code
	}{
		{errPanic, codes.Internal},
		{daemon.ErrNotBack, codes.Internal}, // whatever else has happened
		{errDenied, codes.PermissionDenied}, // its only source
		{errUnlisted, codes.Unimplemented},
		{errTooMany, codes.ResourceExhausted},
		{errTooManyWatch, codes.ResourceExhausted},
		{errBadRequest, codes.InvalidArgument},

		{daemon.ErrStopped, codes.Unavailable},
		{daemon.ErrBusy, codes.Aborted},
		{daemon.ErrVoided, codes.Aborted},
		{daemon.ErrRefused, codes.FailedPrecondition},
		{errWorkload, codes.Aborted},
		{errGone, codes.Canceled},

		{meter.ErrNoWindow, codes.NotFound},
		{meter.ErrTooMany, codes.ResourceExhausted},
		{meter.ErrBadRequest, codes.InvalidArgument},
		{meter.ErrUnknownDevice, codes.FailedPrecondition},
		{meter.ErrNotSampled, codes.FailedPrecondition},
		{meter.ErrOnSession, codes.FailedPrecondition},

		{profiles.ErrNoPoint, codes.NotFound},
		{host.ErrFull, codes.ResourceExhausted},
		{daemon.ErrNoLever, codes.NotFound},
		{daemon.ErrNoFloor, codes.NotFound},

		{levers.ErrFrozen, codes.FailedPrecondition},
		{levers.ErrJournal, codes.FailedPrecondition},
		{levers.ErrOutOfSpan, codes.OutOfRange},
		{levers.ErrUnknown, codes.FailedPrecondition},
		{levers.ErrNotTaken, codes.Aborted},

		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled},
	} {
		if errors.Is(err, row.is) {
			return row.code
		}
	}
	return codes.Internal
}

// coded gives an error its code; one that has a code keeps it, and nil stays nil.
func coded(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codeOf(err), err.Error())
}
