package levers

import (
	"context"
	"fmt"

	"github.com/qunerd/quner/internal/host"
)

// What quner has to do with a lever.
const (
	Free    = ""        // nothing
	Held    = "held"    // it has a value of quner's
	Yielded = "yielded" // someone else has moved it, and it is left to them
	Lost    = "lost"    // it is held and not there
)

// State is one lever as it is.
type State struct {
	Name      string      `json:"name"`
	Kind      Kind        `json:"kind"`
	Value     Value       `json:"value"`               // read from the hardware; empty with Err
	Effective Value       `json:"effective,omitempty"` // what binds, where that may be another control's: of a package's two interfaces the lower
	Unit      string      `json:"unit,omitempty"`
	Found     Value       `json:"found,omitempty"`  // the journalled original; empty while the lever is not held
	Wanted    Value       `json:"wanted,omitempty"` // what quner gave it last; empty while it is not held
	Span      Span        `json:"span"`
	State     string      `json:"state"`            // Free, Held, Yielded or Lost
	Reason    host.Reason `json:"reason,omitempty"` // why Value is not known, or says nothing at present
	Note      string      `json:"note,omitempty"`
	Err       error       `json:"-"` // why Value is not known; its text is in Note
}

// States reads every lever. Those that are held and not there come last.
func (b *Bank) States(ctx context.Context) []State {
	states := make([]State, 0, len(b.levers))
	for _, l := range b.levers {
		states = append(states, b.state(ctx, l))
	}
	for _, e := range b.journal.entries {
		if b.lever(e.Lever) == nil {
			err := b.unknown(e.Lever)
			states = append(states, State{Name: e.Lever, Kind: e.Kind, Unit: e.Unit, Found: e.Original, Wanted: e.wanted(),
				State: Lost, Reason: host.ReasonOf(err), Note: err.Error(), Err: err})
		}
	}
	inForce(states)
	return states
}

func (b *Bank) state(ctx context.Context, l Lever) State {
	s := State{Name: l.Name(), Kind: l.Kind()}
	s.Value, s.Err = l.Get(ctx)
	e := b.journal.find(s.Name)
	switch {
	case e != nil:
		s.State, s.Found, s.Wanted = Held, e.Original, e.wanted()
	case s.Err == nil:
		rebase(l, s.Value)
	}
	s.Span = l.Span()
	s.Unit = s.Span.Unit
	s.Reason = host.ReasonOf(s.Err)
	if by := implied(ctx, l); s.Err == nil && by != "" {
		s.Reason, s.Note = host.ImpliedByOther, fmt.Sprintf("implied by the governor %q", by)
		return s
	}
	switch why := b.stands(l, s.Value); {
	case s.Err != nil:
		s.Note = s.Err.Error()
		if e != nil && gone(s.Err) {
			s.State = Lost
		}
	case e != nil && !b.stillOurs(l, *e, s.Value):
		s.State, s.Note = Yielded, fmt.Sprintf("someone else has set %q", s.Value)
	case why != "":
		s.State, s.Note = Yielded, why
	case b.others[s.Name] != "":
		s.State, s.Note = Yielded, b.others[s.Name]
	}
	return s
}

func (e entry) wanted() Value {
	if len(e.Ours) == 0 {
		return ""
	}
	return e.Ours[len(e.Ours)-1]
}
