package daemon

import (
	"github.com/qunerd/quner/internal/host"
	"github.com/qunerd/quner/internal/unit"
)

// FrozenBoard is a driver with one board whose energy counter stands still.
func FrozenBoard() host.Driver { return &restingBoard{limit: 300 * unit.Watt} }
