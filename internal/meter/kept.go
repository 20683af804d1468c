package meter

import (
	"slices"
	"sync"
	"time"
)

// KeepTime is how long the result of a window that has ended is kept for its owner.
const KeepTime = time.Hour

// What results may take in memory: of one uid, and in all.
const (
	shelfBytes   = 2 << 20
	shelvesBytes = 8 << 20
)

// shelved is the result of a window that has ended.
type shelved struct {
	Result
	Ended time.Time

	owner uint32
	exact bool
	hint  float64 // joules a unit of work
	due   bool    // its owner has not been told: it ended by itself
}

// bytes is about what the result takes.
func (s *shelved) bytes() int {
	n := 512 + 48*len(s.Stages)
	for i := range s.Devices {
		n += 256 + 16*len(s.Devices[i].Reasons)
	}
	return n
}

// shelf is the results of one uid, the oldest first.
type shelf struct {
	results []shelved
	bytes   int
}

// drop forgets the oldest n of a shelf.
func (k *shelves) drop(s *shelf, n int) {
	bytes := 0
	for i := range n {
		bytes += s.results[i].bytes()
		if s.results[i].due {
			k.version++
		}
	}
	clear(s.results[:n])
	s.results = s.results[n:]
	s.bytes -= bytes
	k.bytes -= bytes
}

// shelves keep the results of windows that have ended, for a time and in a bounded space. The zero value is ready.
type shelves struct {
	mu      sync.Mutex
	of      map[uint32]*shelf
	bytes   int
	version uint64 // counts changes of what is due
}

// put keeps a result, and at most so many of its owner.
func (k *shelves) put(s shelved, most int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[uint32]*shelf{}
	}
	own := k.of[s.owner]
	if own == nil {
		own = new(shelf)
		k.of[s.owner] = own
	}
	n := s.bytes()
	own.results = append(own.results, s)
	own.bytes, k.bytes = own.bytes+n, k.bytes+n
	if s.due {
		k.version++
	}
	for len(own.results) > most || own.bytes > shelfBytes {
		k.drop(own, 1)
	}
	for k.bytes > shelvesBytes {
		k.drop(k.fullest(), 1)
	}
}

// snapshot returns all results, and the version of what is due.
func (k *shelves) snapshot() (all []shelved, version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.of {
		all = append(all, s.results...)
	}
	return all, k.version
}

// due returns the version of what is due.
func (k *shelves) due() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

// has reports whether a result is kept.
func (k *shelves) has(owner uint32, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.of[owner]
	return own != nil && slices.ContainsFunc(own.results, func(s shelved) bool { return s.ID == id })
}

// fullest returns the shelf with the most on it: whoever takes the most room pays for the lack of it.
func (k *shelves) fullest() *shelf {
	var most *shelf
	for _, s := range k.of {
		if most == nil || s.bytes > most.bytes {
			most = s
		}
	}
	return most
}

// sweep forgets what is old.
func (k *shelves) sweep(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for owner, s := range k.of {
		n := 0
		for n < len(s.results) && now.Sub(s.results[n].Ended) > KeepTime {
			n++
		}
		k.drop(s, n)
		if len(s.results) == 0 {
			delete(k.of, owner)
		}
	}
}

// take returns the result of a window that ended by itself, with the work done, and does so once.
func (k *shelves) take(id string, v Viewer, work float64) (Result, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.of[v.UID]
	if own == nil {
		return Result{}, false
	}
	for i := range own.results {
		s := &own.results[i]
		if s.ID != id || !s.due || !v.sees(s.owner, s.exact) {
			continue
		}
		s.due = false
		k.version++
		s.count(work, s.hint)
		return s.Result, true
	}
	return Result{}, false
}

// list returns the results that somebody may see, the oldest first.
func (k *shelves) list(v Viewer) []Ended {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Ended
	if own := k.of[v.UID]; own != nil {
		for _, s := range own.results {
			if v.sees(s.owner, s.exact) && time.Since(s.Ended) <= KeepTime {
				all = append(all, Ended{s.Result, s.Ended})
			}
		}
	}
	return all
}

// Ended is the result of a window that has ended, and when.
type Ended struct {
	Result
	At time.Time
}

// Kept returns the results that are kept of the viewer's windows, the oldest first, and how many are kept at most, for
// KeepTime each.
func (m *Meter) Kept(v Viewer) (results []Ended, most int) {
	_, most = m.bounds()
	return m.kept.list(v), most
}
