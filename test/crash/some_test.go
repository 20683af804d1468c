//go:build !crash && !race

package crash

// every is the step between the boundaries that are tried: a sample, coprime to the steps of one lever's write, for the
// everyday run. The build tag "crash" tries them all.
const every = 41

// share is which part of the lives of real processes is lived: a third, and each signal ends one at least.
const share = 3
