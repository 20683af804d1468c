// Package hostsim is a machine that is not there: a file tree with a power model behind it, and boards behind a simulated
// GPU driver. Tests build one in a temporary directory; qunerd --simulate runs on one. It is a hook and a driver below an
// ordinary host.Host, so that all else in the program is the real code.
//
// Everything follows from the fixture, the seed and the time that has passed, whatever the pattern of reading: energies are
// sums of integers over pieces of constant power. Nothing here starts a goroutine or looks at real time but Run, which
// other processes need, and SimulateWork, which is one of them.
package hostsim
