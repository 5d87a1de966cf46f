package optimizer

// News says whether a decision tells anything that the one before it, as kept in prev, did not: another outcome, binding
// reason, target, start, mode or policy version; or an action that is still wanted although what was written of it has
// run out. A plan is written only when one of its decisions is news.
func News(prev Memory, d Decision) bool {
	if prev.LastAt == nil || prev.LastOutcome != d.Outcome || calm(prev.LastBinding) != calm(d.Binding) || prev.LastTarget != d.Target ||
		prev.LastFrom != d.From || prev.LastPolicy != d.Policy || prev.LastMode != d.Mode {
		return true
	}
	return d.Outcome != OutcomeHold && prev.LastExpires != nil && !d.At.Before(*prev.LastExpires)
}

// calm reads the two ways in which a need equals what is there as one: going back and forth between them is no news.
func calm(c ReasonCode) ReasonCode {
	if c == ReasonWithinTolerance {
		return ReasonSteady
	}
	return c
}

// remember notes a decision in memory.
func (m *Memory) remember(d *Decision) {
	if News(*m, *d) {
		expires := d.ExpiresAt
		m.LastExpires = &expires
	}
	at := d.At
	m.LastAt = &at
	m.LastOutcome, m.LastBinding, m.LastTarget, m.LastFrom = d.Outcome, d.Binding, d.Target, d.From
	m.LastPolicy, m.LastMode = d.Policy, d.Mode
}
