package optimizer

import "time"

// calmNews is how long a hold keeps its written reason while only the way of holding changes.
const calmNews = 10 * time.Minute

// News says whether a decision tells anything that the one before it, as kept in prev, did not: another outcome, target, start,
// mode or policy version; a hold for another reason; or an action that is still wanted although what was written of it has run
// out. A plan is written only when one of its decisions is news. Need and stabilisation often take turns as the reason of the very
// same target: for an action that is no news, for a hold at most every ten minutes.
func News(prev Memory, d Decision) bool {
	switch {
	case prev.LastAt == nil || prev.LastOutcome != d.Outcome || prev.LastTarget != d.Target || prev.LastFrom != d.From ||
		prev.LastPolicy != d.Policy || prev.LastMode != d.Mode:
		return true
	case d.Outcome != OutcomeHold:
		return prev.LastExpires != nil && !d.At.Before(*prev.LastExpires)
	case steady(prev.LastBinding) == steady(d.Binding):
		return false
	case calm(prev.LastBinding) && calm(d.Binding):
		return prev.LastNews == nil || d.At.Sub(*prev.LastNews) >= calmNews
	}
	return true
}

// steady reads the two ways in which a need equals what is there as one: going back and forth between them is no news.
func steady(c ReasonCode) ReasonCode {
	if c == ReasonWithinTolerance {
		return ReasonSteady
	}
	return c
}

// calm says whether a hold for this reason needs nobody's attention.
func calm(c ReasonCode) bool {
	switch c {
	case ReasonSteady, ReasonWithinTolerance, ReasonStabilisation, ReasonCooldownDown, ReasonCooldownUp:
		return true
	}
	return false
}

// remember notes a decision in memory.
func (m *Memory) remember(d *Decision) {
	if News(*m, *d) {
		expires, at := d.ExpiresAt, d.At
		m.LastExpires, m.LastNews = &expires, &at
	}
	at := d.At
	m.LastAt = &at
	m.LastOutcome, m.LastBinding, m.LastTarget, m.LastFrom = d.Outcome, d.Binding, d.Target, d.From
	m.LastPolicy, m.LastMode = d.Policy, d.Mode
}
