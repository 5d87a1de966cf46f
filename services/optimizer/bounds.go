package optimizer

// bounds brings the count inside min and max. They apply last, also when there is no signal.
func (g *deciding) bounds() {
	p := g.policy
	switch {
	case g.count > p.Max:
		g.settle(Reason{Code: ReasonMax, From: g.count, To: p.Max, Numbers: map[string]float64{"max": float64(p.Max)}})
	case g.count < p.Min:
		g.settle(Reason{Code: ReasonMin, From: g.count, To: p.Min, Numbers: map[string]float64{"min": float64(p.Min)}})
	}
}
