package server

import (
	"fmt"
	"sync"
)

// quota counts the connections of one socket, in all and by user.
type quota struct {
	most, perUID int

	mu       sync.Mutex
	all      int
	byUID    map[uint32]int
	refusing int
}

// refusalPlaces is how many connections beyond the quota are kept for a moment to be told why they are refused; further
// ones are closed without a word.
const refusalPlaces = 32

func newQuota(most, perUID int) *quota {
	return &quota{most: max(most, 1), perUID: max(perUID, 1), byUID: map[uint32]int{}}
}

// admit counts a connection until release is called. A connection beyond the quota has over set: it may be told so, and
// nothing else. The error means that there is no place even for that.
func (q *quota) admit(uid uint32) (release func(), over, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.byUID[uid] >= q.perUID:
		over = fmt.Errorf("%w: uid %d has %d connections", errTooMany, uid, q.byUID[uid])
	case q.all >= q.most:
		over = fmt.Errorf("%w: %d connections in all", errTooMany, q.all)
	default:
		q.all++
		q.byUID[uid]++
		return func() { q.leave(uid) }, nil, nil
	}
	if q.refusing >= refusalPlaces {
		return nil, nil, over
	}
	q.refusing++
	return q.leaveRefusal, over, nil
}

func (q *quota) leave(uid uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all--
	if q.byUID[uid]--; q.byUID[uid] == 0 {
		delete(q.byUID, uid)
	}
}

func (q *quota) leaveRefusal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refusing--
}
