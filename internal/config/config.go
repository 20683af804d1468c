// Package config turns quner.toml, which a machine's owner writes, into values for the daemon. It is strict: a key it does
// not know, or a value that makes no sense, is an error that says where it stands and what is allowed.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/qunerd/quner/internal/unit"
)

// FileName is the configuration's name in its directory.
const FileName = "quner.toml"

// Config is what the owner decides. Its defaults are those of Default.
type Config struct {
	Tick            time.Duration // time between two looks at the machine
	UntunedTraining string        // "found" or "performance": the governor while training that was never tuned
	AllowRaise      bool          // a power limit may go above the value found, up to what the hardware states
	Base            unit.Power    // what the rest of the machine draws beside the metered devices; moves the optimum
	PaybackHorizon  time.Duration // a sweep that cannot pay back within this time of work is not gone on with; 0: no bound
	Detector        Detector
	Limits          Limits
	Serving         Serving
}

// Detector says when the machine counts as training.
type Detector struct {
	GPU   float64 // utilisation of any board above this
	Load  float64 // 1-minute load above this × online CPUs
	Ticks int     // consecutive agreeing ticks before a switch
}

// Limits bound the energy windows.
type Limits struct {
	WindowsPerUID int           // open at once of one user
	Windows       int           // open at once
	WindowLife    time.Duration // of a detached window, the most that may be asked for
	ResultsPerUID int           // of windows that have ended, kept of one user
}

// Serving bounds what callers may take of the sockets.
type Serving struct {
	ConnectionsPerUID int // of one user on the public socket
	Connections       int // on both sockets
	AdminConnections  int // of those, the admin socket's own
	StreamsPerConn    int
	MessageBytes      int           // of one request
	Handshake         time.Duration // for a new connection to show that it speaks the protocol
	Call              time.Duration // for a call that is no stream
	IdleConnection    time.Duration // a connection with no call on it is closed after this
}

// Default returns the configuration of a machine without a file.
func Default() Config {
	return Config{
		Tick:            10 * time.Second,
		UntunedTraining: "found",
		PaybackHorizon:  30 * 24 * time.Hour,
		Detector:        Detector{GPU: 0.30, Load: 0.60, Ticks: 3},
		Limits:          Limits{WindowsPerUID: 1024, Windows: 4096, WindowLife: 24 * time.Hour, ResultsPerUID: 1024},
		Serving: Serving{
			ConnectionsPerUID: 128, Connections: 512, AdminConnections: 16,
			StreamsPerConn: 128, MessageBytes: 256 << 10,
			Handshake: 5 * time.Second, Call: 30 * time.Second, IdleConnection: 10 * time.Minute,
		},
	}
}

// Directory is where the file is: a host.Dir.
type Directory interface {
	Stat(name string) (fs.FileInfo, error) // without following a final link
	Read(name string) ([]byte, error)
	File(name string) string // path, for messages
}

// Load reads quner.toml. Without one it returns the defaults. One that others than root, or this process's own user, may
// write is refused, since who writes it decides what a root daemon does.
func Load(dir Directory) (Config, error) {
	path := dir.File(FileName)
	info, err := dir.Stat(FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, err
	}
	if !info.Mode().IsRegular() {
		return Config{}, fmt.Errorf("%s: %v: not a regular file", path, info.Mode())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return Config{}, fmt.Errorf("%s: mode %04o: its group or others may write it: %w", path, info.Mode().Perm(), ErrUntrusted)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return Config{}, fmt.Errorf("%s: owned by uid %d, not by root: %w", path, st.Uid, ErrUntrusted)
	}
	text, err := dir.Read(FileName)
	if err != nil {
		return Config{}, err
	}
	return Parse(text, path)
}

// ErrUntrusted means that the file may have been written by someone else than the machine's owner.
var ErrUntrusted = errors.New("configuration is not trusted")
