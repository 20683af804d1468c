// Package meter turns energy counters and power sensors into the joules of a window, with an interval and reasons, for all who ask
// the daemon what something cost. The daemon owns the one Meter; each counter's timeline is owned by its device, windows
// by whoever opened them.
package meter
