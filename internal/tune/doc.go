// Package tune finds the state of a power lever that does most work per joule, and says how sure one may be: pure search
// and statistics for the daemon, which owns the levers and the meter and hands both in as a Trial.
package tune
