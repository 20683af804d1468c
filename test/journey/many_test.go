//go:build journey

package journey

const (
	seeds       = 25
	everyChange = 1
	everyAccess = 61
	everyLast   = 1
)
