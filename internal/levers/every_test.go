//go:build !race

package levers_test

// every is the step between the boundaries that are tried: all of them.
const every = 1
