// Package script holds the golden scripts: what a person or a shell script sees of the real qunerd and qunerctl, true
// processes on a simulated machine. Each script starts its own daemon, and no process outlives it.
package script
