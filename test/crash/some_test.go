//go:build !crash

package crash

// every is the step between the boundaries that are tried: a sample, coprime to the steps of one lever's write, for the
// everyday run. The build tag "crash" tries them all.
const every = 41
