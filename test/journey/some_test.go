//go:build !journey && !race

package journey

// seeds is how many lives of noise each sweep is held against. A sweep is called off at every so many changes that it makes
// and things that its caller hears or does, at every so many accesses of any kind, and in its last moments: few, for the
// everyday run. The build tag "journey" tries many.
const (
	seeds       = 1
	everyChange = 211
	everyAccess = 4999
	everyLast   = 47
)
