package server

import (
	qunerv1 "github.com/qunerd/quner/api/quner/v1"
	"github.com/qunerd/quner/internal/doctor"
)

func passportOut(p doctor.Passport) *qunerv1.CounterPassport {
	out := &qunerv1.CounterPassport{
		ResolutionUj: int64(p.Resolution), SpanUj: int64(p.Span), LimitUw: int64(p.Limit), Scope: p.Scope,
	}
	m := p.Moves
	if m == nil {
		return out
	}
	v := m.Verdicts
	out.Read, out.PeriodNs, out.PeriodFrom, out.JitterNs = true, m.Period.Nanoseconds(), m.PeriodFrom, m.Jitter.Nanoseconds()
	out.SmallestUj, out.ReadCostNs, out.Coverage, out.MaxGapNs = int64(m.Smallest), m.ReadCost.Nanoseconds(), m.Coverage, m.MaxGap.Nanoseconds()
	out.Verdicts = &qunerv1.Verdicts{
		Ok: v.OK, Ambiguous: v.Ambiguous, Wrap: v.Wrap, Reset_: v.Reset, Jump: v.Jump, Backward: v.Backward,
		Recovered: v.Recovered, Unread: v.Unread,
	}
	return out
}
