package meter

import (
	"context"
	"slices"
	"strings"
	"time"
)

// epoch is a stretch of a device's timeline under one condition, up to the next one's begin.
type epoch struct {
	begin     stamp // its at is zero of one that no window remembers the begin of
	condition string
}

// maxEpochs bounds what a long window remembers of changes; what is older than the memory has no floor.
const maxEpochs = 1024

// turn begins an epoch at the newest cut.
func (t *timeline) turn(condition string) {
	if n := len(t.epochs); n > 0 && t.epochs[n-1].condition == condition {
		return
	}
	if len(t.members) == 0 {
		t.epochs = append(t.epochs[:0], epoch{condition: condition})
		return
	}
	oldest := t.members[0].opened.at
	for _, m := range t.members {
		oldest = minTime(oldest, m.opened.at)
	}
	past := 0
	for past+1 < len(t.epochs) && !t.epochs[past+1].begin.at.After(oldest) {
		past++
	}
	past = max(past, len(t.epochs)+1-maxEpochs)
	t.epochs = append(slices.Delete(t.epochs, 0, past), epoch{t.stamp(), condition})
}

// turnTo begins an epoch on the device. Where a window is open, an edge cuts its timeline; a device that hangs turns when
// it is reached again.
func (d *device) turnTo(ctx context.Context, condition string, asked time.Time) {
	if d.enter(ctx) != nil {
		d.goneMu.Lock()
		d.turn = &condition
		d.goneMu.Unlock()
		return
	}
	defer d.gate.leave()
	if len(d.line.members) > 0 {
		d.edge(ctx, asked)
	}
	d.line.turn(condition)
	d.turned = asked
}

// rest adds up what the device draws at rest over the window's share of the time, up to a place and with what is expected
// beyond it: of each epoch by its own floor.
func (p *part) rest(until stamp, f forecast) ownFloor {
	var o ownFloor
	all := p.seconds(p.opened, until) + f.seconds
	epochs := p.device.line.epochs
	done := 0.0
	if first := epochs[0].begin; first.at.After(p.opened.at) {
		done = p.secondsUntil(first)
		o.add(nil, done)
	}
	for i, e := range epochs {
		end, last := all, true
		if i+1 < len(epochs) {
			next := epochs[i+1].begin
			if !next.at.After(p.opened.at) {
				continue
			}
			if last = !next.at.Before(until.at); !last {
				end = min(all, p.secondsUntil(next))
			}
		}
		f := p.floorAt(e.condition)
		o.add(f, end-done)
		if done = max(done, end); last {
			if o.from == "" && o.missing == 0 && f != nil { // no time at all, under a known floor
				o.from = f.ID
			}
			break
		}
	}
	return o
}

// secondsUntil is the time the window answers for up to a place within it.
func (p *part) secondsUntil(at stamp) float64 {
	return p.seconds(p.opened, at) + p.expect(at.at).seconds
}

// floorAt is the window's floor under a condition; nil where none is known.
func (p *part) floorAt(condition string) *Floor {
	if p.book == nil && p.books != nil {
		p.book = p.books.Load()
	}
	if p.book == nil || p.level == unseen {
		return nil
	}
	state := FloorBare
	if p.level == inContext {
		state = FloorContext
	}
	return p.book.floors[floorKey{p.device.name, condition, state}]
}

func containsID(ids, id string) bool {
	return slices.Contains(strings.Split(ids, "+"), id)
}

// levelAge is how old the knowledge may be whether a board has a compute context: the driver takes its time to answer, and
// windows open by the thousand.
const levelAge = time.Second
