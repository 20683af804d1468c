//go:build crash

package crash

// every is the step between the boundaries that are tried: all of them.
const every = 1

// share is which part of the lives of real processes is lived: the whole.
const share = 1
