package optimizer

import "time"

// changesKept is for how long changes are remembered, and at most how many.
const (
	changesKept        = time.Hour
	maxChangesKept     = 240
	maxRecommendations = 1024
)

// appliedSoon is how long after a decision a count that equals its target counts as having changed at the decision.
const appliedSoon = time.Minute

// longSilence without a decision is not the rhythm of any agent: the least silence after which a decision counts as a first one.
const longSilence = 5 * time.Minute

// at returns the memory with nothing in it later than now: a clock that jumped back must not hold a workload for as long
// as it jumped.
func (m Memory) at(now time.Time) Memory {
	for _, t := range [...]**time.Time{&m.LastUp, &m.LastDown, &m.QuietSince, &m.FlapAt} {
		if *t != nil && (*t).After(now) {
			v := now
			*t = &v
		}
	}
	if n := len(m.Changes); n > 0 && m.Changes[n-1].At.After(now) {
		m.Changes = append([]Change(nil), m.Changes...)
		for i := range m.Changes {
			if m.Changes[i].At.After(now) {
				m.Changes[i].At = now
			}
		}
	}
	if n := len(m.Recommendations); n > 0 && m.Recommendations[n-1].At.After(now) {
		m.Recommendations = append([]Recommendation(nil), m.Recommendations...)
		for i := range m.Recommendations {
			if m.Recommendations[i].At.After(now) {
				m.Recommendations[i].At = now
			}
		}
	}
	return m
}

// seeChange notes that the replica count is another than at the last decision.
func (g *deciding) seeChange() {
	m, now := &g.memory, g.snap.Now
	first := 0
	for first < len(m.Changes) && (now.Sub(m.Changes[first].At) >= changesKept || len(m.Changes)-first >= maxChangesKept) {
		first++
	}
	m.Changes = m.Changes[first:]
	m.calmed(g.policy.Flap, now)
	if m.LastAt == nil || m.LastFrom == g.d.From {
		return
	}
	at := now
	if since := now.Sub(*m.LastAt); m.LastTarget == g.d.From && since >= 0 && since <= appliedSoon {
		at = *m.LastAt
	}
	before := m.cycles()
	m.Changes = append(m.Changes[:len(m.Changes):len(m.Changes)], Change{At: at, From: m.LastFrom, To: g.d.From})
	m.flapped(g.policy.Flap, before, now)
	if g.d.From > m.LastFrom {
		m.LastUp = &at
	} else {
		m.LastDown = &at
	}
}

// recommend notes what this decision's signals ask for. Where they may not lower the count, what is there is noted, so that
// a workload whose signals come back is not shrunk at once. The first decision, ever or after a silence longer than the windows,
// also notes what is there: what was asked for before says nothing any more.
func (g *deciding) recommend() {
	m, now, p := &g.memory, g.snap.Now, g.policy
	needed := g.d.Needed
	if !g.mayGoDown() {
		needed = max(needed, g.d.From)
	}
	horizon := max(p.Up.StabilisationSeconds, p.Down.StabilisationSeconds, 0)
	if p.Flap.CyclesPerHour > 0 {
		horizon = maxStabilisation
	}
	old := m.Recommendations
	out := make([]Recommendation, 0, len(old)+2)
	for _, r := range old {
		if now.Sub(r.At) < seconds(horizon) {
			out = append(out, r)
		}
	}
	silence := max(seconds(max(p.Up.StabilisationSeconds, p.Down.StabilisationSeconds)), longSilence)
	if first := m.LastAt == nil && len(old) == 0; horizon > 0 && (first || (m.LastAt != nil && now.Sub(*m.LastAt) > silence)) {
		out = append(out, Recommendation{At: now, Needed: g.d.From})
	}
	m.Recommendations = matter(append(out, Recommendation{At: now, Needed: needed}), p.Up.StabilisationSeconds > 0)
}

// matter drops the recommendations that no window can ever choose: those with a later one at least as high, unless lows
// matter too and no later one is at least as low. Windows give the same answer as over all of them.
func matter(recs []Recommendation, lows bool) []Recommendation {
	keep := len(recs)
	highest, lowest := -1, maxReplicas+1
	for i := len(recs) - 1; i >= 0; i-- {
		n := recs[i].Needed
		if n > highest || (lows && n < lowest) {
			keep--
			recs[keep] = recs[i]
		}
		highest, lowest = max(highest, n), min(lowest, n)
	}
	return recs[max(keep, len(recs)-maxRecommendations):]
}
