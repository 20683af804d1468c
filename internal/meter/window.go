package meter

import "context"

// Window is a measurement that is under way. Its methods are safe for concurrent use.
type Window struct{ id string }

// ID returns 128 random bits in hex.
func (w *Window) ID() string { return w.id }

// Devices returns what the window charges.
func (w *Window) Devices() []string { return nil }

// Mark ends the current stage under this name and begins the next.
func (w *Window) Mark(ctx context.Context, name string) (Stage, error) { return Stage{}, ErrNoWindow }

// Close ends the window and says what it cost. A window that has ended is ErrNoWindow.
func (w *Window) Close(ctx context.Context, r CloseRequest) (Result, error) {
	return Result{}, ErrNoWindow
}

// Abandon ends a window whose owner went away. It does nothing to one that has ended.
func (w *Window) Abandon() {}
