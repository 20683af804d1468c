package levers

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/qunerd/quner/internal/host"
)

// guard makes file accesses that a stuck kernel may never return from. It spends one goroutine on them: while an access
// is out, the next one is refused.
type guard struct{ out atomic.Bool }

type result[T any] struct {
	value T
	err   error
}

// guarded runs f and waits for it no longer than the context allows, nor than host.CallTimeout. An access that outlives
// that runs on; what it came to is seen by the next one.
func guarded[T any](ctx context.Context, g *guard, f func() (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if !g.out.CompareAndSwap(false, true) {
		return none, fmt.Errorf("an earlier access is still out: %w", host.ErrHung)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, host.CallTimeout, host.ErrHung)
	defer cancel()
	done := make(chan result[T], 1)
	go func() {
		v, err := f()
		g.out.Store(false)
		done <- result[T]{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
