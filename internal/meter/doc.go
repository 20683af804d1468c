// Package meter turns energy counters into the joules of a window, with an interval and reasons, for everybody who asks
// the daemon what something cost. The daemon owns the one Meter; each counter's timeline is owned by its device, windows
// by whoever opened them.
package meter
