//go:build race && !crash

package crash

// every is the step between the boundaries that are tried: a few for the race detector, under which a life takes four
// times as long. Whether the host is put back is shown without it.
const every = 199

// share is which part of the lives of real processes is lived: none. They are processes of their own, without the
// detector, whichever way this test is built.
const share = 0
