package optimizer

// bounds brings the count inside min and max. They apply last and at once, past all damping, also when there is no signal,
// with one exception: a count above max is not lowered while the signals are not fresh, since that would be a scale-down in
// the dark. The decision then says so.
func (g *deciding) bounds() {
	p := g.policy
	switch {
	case g.count > p.Max && p.Max < g.d.From && !g.mayGoDown():
		// Nobody may raise it further either.
		r := Reason{Code: ReasonMax, From: g.count, To: g.d.From, Numbers: map[string]float64{"max": float64(p.Max), "not_fresh": float64(g.notFresh)}}
		if g.count > g.d.From {
			g.settle(r)
			return
		}
		g.note(r)
		if b := g.d.Reasons[g.bound].Code; b != ReasonNoSignal && b != ReasonPartialSignal {
			g.hold(Reason{Code: ReasonPartialSignal, Signal: g.worst.name, Numbers: g.darkness()})
		}
	case g.count > p.Max && g.share != nil && p.Max < g.share.Max:
		g.settle(Reason{Code: ReasonServiceMax, From: g.count, To: p.Max, Numbers: map[string]float64{"max": float64(p.Max), "policy_max": float64(g.share.Max)}})
	case g.count > p.Max:
		g.settle(Reason{Code: ReasonMax, From: g.count, To: p.Max, Numbers: map[string]float64{"max": float64(p.Max)}})
	case g.count < p.Min && p.Min > g.ownMin():
		g.settle(Reason{Code: ReasonServiceMin, From: g.count, To: p.Min, Numbers: map[string]float64{"min": float64(p.Min), "policy_min": float64(g.ownMin())}})
	case g.count < p.Min:
		g.settle(Reason{Code: ReasonMin, From: g.count, To: p.Min, Numbers: map[string]float64{"min": float64(p.Min)}})
	}
}

// ownMin is the minimum of the policy itself, whatever a service makes of it.
func (g *deciding) ownMin() int {
	if g.share != nil {
		return g.share.Min
	}
	return g.policy.Min
}
