//go:build !journey && race

package journey

// The race detector makes a sweep ten times as long, and each moment of one takes the same ways through the code: it sees
// the fewest.
const (
	seeds       = 1
	everyChange = 997
	everyAccess = 24989
	everyLast   = 71
)
