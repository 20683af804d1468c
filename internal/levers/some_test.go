//go:build race

package levers_test

// every is the step between the boundaries that are tried: the race detector, under which a life takes six times as long,
// sees in a few of them all the code there is, and whether the host is put back from each is shown without it.
const every = 11
