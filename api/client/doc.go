// Package client lets a service meter its own work in joules over the daemon's Unix socket: it opens energy windows,
// marks stages, and closes them with the amount of work done. A daemon that cannot be reached costs the measurement,
// never the request: the result is then unknown, with the reason daemon_unreachable, unless Options.Strict is set; Client
// says how long a request may be held up. Windows
// that are open when the daemon is restarted go on, and their results say daemon_restarted.
package client
