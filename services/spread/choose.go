package spread

import (
	"slices"

	"plimsoll.dev/services/fleet"
)

// Names of options, and reasons why they are not the plan.
const (
	OptionPlan       = "plan"
	OptionKeep       = "keep"        // the split as it is, at the same demand
	OptionBest       = "best"        // the cheapest
	OptionEven       = "even"        // the same everywhere, as far as the rules allow
	OptionNoHeadroom = "no_headroom" // what surviving the loss of a cluster costs shows in the difference
	OptionSingle     = "single"      // everything in one cluster

	StaysChurn = "churn" // moving costs more than it saves within the horizon
	StaysGain  = "gain"  // it saves less than a move must
	StaysDwell = "dwell" // replicas moved a moment ago
	StaysRest  = "rest"  // a move was given up: load did not follow

	RelaxedHeadroom = "headroom"
	RelaxedShares   = "shares"
)

// rests tells whether nothing is moved for price, since a move was given up.
func (s *splitter) rests() bool {
	u := s.in.Memory.RestUntil
	return u != nil && s.in.Now.Before(*u)
}

// choose finds the cheapest split, the one that moves nothing, and takes one of them.
func (s *splitter) choose() {
	p := s.plan
	if len(s.live) == 0 {
		p.Outcome, p.Target = OutcomeHeld, s.held
		p.Missing, p.Survives = max(p.Demand-s.held, 0), s.held-s.heldMost
		if p.Survives < s.headroomFor() {
			p.Relaxed = append(p.Relaxed, RelaxedHeadroom)
		}
		return
	}
	need, most := max(p.Demand-s.held, 0), 0
	for _, n := range s.mosts() {
		most += n
	}
	if need > most {
		p.Missing, need = need-most, most
	}
	b := s.relax(need)
	best := s.search(need, b)
	kept := b
	kept.keep = true
	keep := s.search(need, kept)
	at, forced := best, keep == nil
	if keep != nil && !slices.Equal(keep, best) {
		if p.Stays = s.stays(keep, best); p.Stays != "" {
			at = keep
		}
	}
	if keep != nil && p.Stays == "" && !slices.Equal(keep, best) {
		d := s.cost(keep) - s.cost(best)
		p.Saving = &d
	}
	moved := p.Stays == "" && (forced || !slices.Equal(keep, best)) && moves(s.base, at) > 0
	s.settleParts(at, b)
	s.keepTargets(at, moved)
	s.options(need, b, at, keep, best)
}

// relax gives up rules that no split can keep: shares first, then as much of the headroom as must be. Minima and maxima stay.
func (s *splitter) relax(need int) bounds {
	b := bounds{headroom: s.headroomFor(), shares: true, only: -1}
	for _, shares := range []bool{true, false} {
		if b.shares = shares; s.search(need, b) != nil {
			s.relaxed(b)
			return b
		}
	}
	for _, shares := range []bool{true, false} {
		b.shares = shares
		low, high := -1, s.headroomFor() // the most that can be survived lies in [low, high)
		for low+1 < high {
			b.headroom = (low + high) / 2
			if s.search(need, b) != nil {
				low = b.headroom
			} else {
				high = b.headroom
			}
		}
		if b.headroom = low; low >= 0 {
			s.relaxed(b)
			return b
		}
	}
	b.headroom = 0
	s.relaxed(b)
	return b
}

func (s *splitter) relaxed(b bounds) {
	if b.headroom < s.headroomFor() {
		s.plan.Relaxed = append(s.plan.Relaxed, RelaxedHeadroom)
	}
	if !b.shares {
		s.plan.Relaxed = append(s.plan.Relaxed, RelaxedShares)
	}
}

// moves is how many replicas one split begins elsewhere that another has.
func moves(from, to []int) int {
	up, down := 0, 0
	for k := range from {
		up += max(to[k]-from[k], 0)
		down += max(from[k]-to[k], 0)
	}
	return min(up, down)
}

// stays is the reason to keep a split although another is cheaper; empty: there is none.
func (s *splitter) stays(keep, best []int) string {
	saving := s.weighed(keep) - s.weighed(best)
	began := 0
	for k := range best {
		began += max(best[k]-keep[k], 0)
	}
	m := s.in.Memory
	switch {
	case saving <= 0 || saving.MulDiv(s.rules.HorizonHours, 1) <= s.rules.MoveCost.MulDiv(int64(began), 1):
		return StaysChurn
	case saving.MulDiv(1000, 1) < s.weighed(keep).MulDiv(s.rules.GainMilli, 1):
		return StaysGain
	case s.in.Mode != fleet.ModeEnforce:
		return ""
	case s.rests():
		return StaysRest
	case m.MovedAt != nil && s.in.Now.Sub(*m.MovedAt).Seconds() < float64(s.rules.DwellSec):
		return StaysDwell
	}
	return ""
}

// settleParts writes the split down.
func (s *splitter) settleParts(at []int, b bounds) {
	p, total := s.plan, 0
	from := make([]int, len(at))
	for k, i := range s.live {
		from[k] = p.Parts[i].From
		p.Parts[i].Target = at[k]
		total += at[k]
	}
	p.Target, p.Moves = total+s.held, moves(from, at)
	p.Before, p.After = s.cost(from), s.cost(at)
	low, high, _ := s.box(total, b)
	for k, i := range s.live {
		part := &p.Parts[i]
		if at[k] > 0 {
			part.Last = s.marginal(k, at[k]-1)
		}
		part.Next = s.marginal(k, at[k])
		part.Bound = s.boundBy(k, at, low, high, b)
	}
	most := s.heldMost
	for _, n := range at {
		most = max(most, n)
	}
	p.Survives = p.Target - most
	switch {
	case slices.Equal(from, at):
		p.Outcome = OutcomeKeep
	case p.Moves > 0:
		p.Outcome = OutcomeMove
	default:
		p.Outcome = OutcomeSize
	}
}

// keepTargets remembers the split, and what of a move is left.
func (s *splitter) keepTargets(at []int, moved bool) {
	m := &s.plan.Memory
	if s.in.Mode != fleet.ModeEnforce {
		*m = Memory{Demands: m.Demands}
		return
	}
	m.Targets, m.Shift = map[fleet.WorkloadID]int{}, map[fleet.WorkloadID]int{}
	if moved {
		now := s.in.Now
		m.MovedAt, m.WaitsSince = &now, nil
	}
	for k, i := range s.live {
		x := &s.in.Sites[i]
		m.Targets[x.Workload] = at[k]
		if s.rules.Traffic != TrafficLocal || x.Need == nil {
			continue
		}
		shift := s.outstanding(x)
		if moved {
			shift = at[k] - *x.Need
		}
		if shift != 0 {
			m.Shift[x.Workload] = shift
		}
	}
}

// seg is the segment of the n-th replica of a live site, from 0; nil: there is none.
func (s *splitter) seg(k, n int) *segment {
	for i := range s.lists[k] {
		if g := &s.lists[k][i]; g.from <= n && n < g.to {
			return g
		}
	}
	return nil
}

func (s *splitter) marginal(k, n int) *Marginal {
	g := s.seg(k, n)
	if most, _ := s.most(k); g == nil || n >= most && n >= s.in.Sites[s.live[k]].Replicas {
		return nil
	}
	x := &s.in.Sites[s.live[k]]
	step := x.Steps[g.step]
	return &Marginal{Price: step.Price, Weighed: step.Weighed, Extra: x.Rules.Extra(), Kind: step.Kind, Offering: step.Offering}
}

// boundBy is the rule that keeps a part from being larger or smaller though that would be cheaper; price: none.
func (s *splitter) boundBy(k int, at, low, high []int, b bounds) string {
	if low == nil {
		return "price"
	}
	next, last := s.seg(k, at[k]), s.seg(k, at[k]-1)
	var dearest, cheapest *segment // of what others could give up, and could have more
	for j := range at {
		if j == k {
			continue
		}
		if g := s.seg(j, at[j]-1); g != nil && at[j] > low[j] && (dearest == nil || g.goal > dearest.goal) {
			dearest = g
		}
		if g := s.seg(j, at[j]); g != nil && at[j] < high[j] && (cheapest == nil || g.goal < cheapest.goal) {
			cheapest = g
		}
	}
	if s.plan.Missing > 0 && at[k] >= high[k] || at[k] == high[k] && dearest != nil && (next == nil || next.goal < dearest.goal) {
		most, why := s.most(k)
		switch {
		case high[k] == most:
			return why
		case b.headroom > 0 && high[k] == s.plan.Target-b.headroom:
			return "headroom"
		}
		return "max_share"
	}
	if at[k] == low[k] && at[k] > 0 && last != nil && cheapest != nil && cheapest.goal < last.goal {
		if low[k] == s.least(k) {
			return "min"
		}
		return "min_share"
	}
	if s.plan.Stays != "" {
		return s.plan.Stays
	}
	return "price"
}

// options lists what was looked at.
func (s *splitter) options(need int, b bounds, at, keep, best []int) {
	cost := s.cost(at)
	add := func(name, site, why string, counts []int) {
		o := Option{Name: name, Site: site, WhyNot: why}
		if counts != nil {
			c, w := s.cost(counts), s.weighed(counts)
			d := c - cost
			o.Cost, o.Weighed, o.Delta = &c, &w, &d
			for i := range s.plan.Parts {
				n := s.plan.Parts[i].From
				if k := slices.Index(s.live, i); k >= 0 {
					n = counts[k]
				}
				o.Counts, o.Replicas = append(o.Counts, n), o.Replicas+n
			}
		}
		s.plan.Options = append(s.plan.Options, o)
	}
	add(OptionPlan, "", "", at)
	if keep != nil && !slices.Equal(keep, at) {
		add(OptionKeep, "", "dearer", keep)
	}
	if !slices.Equal(best, at) {
		add(OptionBest, "", s.plan.Stays, best)
	}
	if len(s.live) > 1 {
		if even := s.even(at, b); !slices.Equal(even, at) {
			add(OptionEven, "", "dearer", even)
		}
	}
	if b.headroom > 0 {
		free := b
		free.headroom = 0
		if n := s.search(need, free); n != nil && !slices.Equal(n, at) {
			add(OptionNoHeadroom, "", "headroom", n)
		}
	}
	for k, i := range s.live {
		if len(s.live) == 1 {
			break
		}
		one, why := b, "dearer"
		one.only = k
		counts := s.search(need, one)
		if counts == nil {
			one.headroom, one.shares = 0, false
			counts, why = s.search(need, one), "rules"
		}
		if counts == nil {
			_, why = s.most(k)
		}
		if counts == nil || !slices.Equal(counts, at) {
			add(OptionSingle, s.in.Sites[i].Name, why, counts)
		}
	}
}

// even gives out as many replicas as a split has, one by one to the site with the fewest.
func (s *splitter) even(at []int, b bounds) []int {
	total := 0
	for _, n := range at {
		total += n
	}
	low, high, ok := s.box(total, b)
	if !ok {
		return at
	}
	out, rest := slices.Clone(low), total
	for _, n := range out {
		rest -= n
	}
	for ; rest > 0; rest-- {
		fewest := -1
		for k, n := range out {
			if n < high[k] && (fewest < 0 || n < out[fewest]) {
				fewest = k
			}
		}
		if fewest < 0 {
			break
		}
		out[fewest]++
	}
	return out
}
