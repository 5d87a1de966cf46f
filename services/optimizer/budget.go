package optimizer

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Reason codes of money.
const (
	ReasonBudget        ReasonCode = "budget"         // the raise would cost more per hour than the rest of the budget allows
	ReasonBudgetOver    ReasonCode = "budget_over"    // the budget is spent: fewer replicas, batch before economy before standard
	ReasonBudgetGrace   ReasonCode = "budget_grace"   // past the budget all the same: gold, or the policy's own floor
	ReasonSpendBreaker  ReasonCode = "spend_breaker"  // the spend rate is a multiple of the usual one: nothing is raised
	ReasonBudgetUnknown ReasonCode = "budget_unknown" // nothing is left to give, and what a replica costs is not known
)

// ClassBatch is work that may wait; it gives way to a budget before all others.
const ClassBatch = "batch"

// Budget is a limit on what some workloads cost, as it stands when a decision is made. It is part of the input: a decision that a budget
// changed computes again from what was stored.
type Budget struct {
	ID fleet.BudgetID `json:"id"`
	// Workloads of this cluster that it counts.
	Workloads []fleet.WorkloadID `json:"workloads"`
	// Enforced: AllowedHour binds. Otherwise only the breaker does.
	Enforced  bool        `json:"enforced,omitempty"`
	Remaining fleet.Money `json:"remaining_nano"` // of the period; zero or less: spent
	EndsAt    time.Time   `json:"ends_at"`        // of the period
	// AllowedHour is what everything it counts may cost per hour from now on so that Remaining lasts to EndsAt.
	AllowedHour fleet.Money `json:"allowed_hour_nano"`
	// ElsewhereHour is what it counts per hour beside Workloads: other clusters, idle machines, workloads without a policy.
	ElsewhereHour fleet.Money `json:"elsewhere_hour_nano"`
	// UsualHour is what everything it counts costs in an hour like this one.
	UsualHour fleet.Money `json:"usual_hour_nano,omitempty"`
	// BreakerHour is the rate from which on nothing is raised; nil: there is no breaker.
	BreakerHour *fleet.Money `json:"breaker_hour_nano,omitempty"`
	// TrippedAt is when the breaker tripped, nil: it has not. It stays so until Until, or until somebody resets it when there is none.
	TrippedAt *time.Time `json:"tripped_at,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
}

// tripped says whether the breaker holds at a time.
func (b *Budget) tripped(now time.Time) bool {
	return b.TrippedAt != nil && (b.Until == nil || now.Before(*b.Until))
}

// Trip is a breaker that tripped in a plan. Whoever keeps the plan keeps it too, and gives it back in the next input.
type Trip struct {
	Budget    fleet.BudgetID `json:"budget"`
	At        time.Time      `json:"at"`
	RateHour  fleet.Money    `json:"rate_hour_nano"` // that the plan would have led to
	LimitHour fleet.Money    `json:"limit_hour_nano"`
	UsualHour fleet.Money    `json:"usual_hour_nano"`
}

// spendLimit is what the budgets leave one workload.
type spendLimit struct {
	most   int
	reason Reason // without From and To
}

// rank orders classes by how late they give way to a budget. What is not known is standard.
func rank(class string) int {
	switch class {
	case ClassBatch:
		return 0
	case ClassEconomy:
		return 1
	case ClassGold:
		return 3
	}
	return 2
}

// member is a workload that a budget counts, with what was decided before money was looked at.
type member struct {
	d     *Decision
	price *fleet.Money
	rank  int
	acts  bool // carried out without a person: counts at its target, all others at what is there
}

// counted is how many replicas of it cost money once the plan is carried out.
func (m *member) counted() int {
	if m.acts {
		return m.d.Target
	}
	return m.d.From
}

// limitSpend says what the budgets of an input leave of decisions that were made without looking at money, and which breakers trip.
func limitSpend(in *Input, states map[fleet.WorkloadID]*fleet.WorkloadState, decisions []Decision) (map[fleet.WorkloadID]spendLimit, []Trip) {
	limits := map[fleet.WorkloadID]spendLimit{}
	var trips []Trip
	byID := make(map[fleet.WorkloadID]*Decision, len(decisions))
	for i := range decisions {
		byID[decisions[i].Workload] = &decisions[i]
	}
	budgets := slices.Clone(in.Budgets)
	slices.SortFunc(budgets, func(a, b Budget) int { return cmp.Compare(a.ID, b.ID) })
	for i := range budgets {
		b := &budgets[i]
		members := b.members(byID, states)
		if trip := b.breaker(in.Snapshot.Now, members, limits); trip != nil {
			trips = append(trips, *trip)
		}
		if b.Enforced {
			b.ration(members, limits)
		}
	}
	return limits, trips
}

// members of a budget, the last to give way first; within a class those that are carried out, then by key.
func (b *Budget) members(byID map[fleet.WorkloadID]*Decision, states map[fleet.WorkloadID]*fleet.WorkloadState) []member {
	out := make([]member, 0, len(b.Workloads))
	seen := map[fleet.WorkloadID]bool{}
	for _, id := range b.Workloads {
		d, w := byID[id], states[id]
		if d == nil || w == nil || seen[id] {
			continue
		}
		seen[id] = true
		m := member{d: d, rank: rank(w.Workload.Class), acts: d.Mode == fleet.ModeEnforce}
		if w.ReplicaHour != nil && *w.ReplicaHour >= 0 {
			m.price = w.ReplicaHour
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(x, y member) int {
		switch {
		case x.rank != y.rank:
			return cmp.Compare(y.rank, x.rank)
		case x.acts != y.acts && x.acts:
			return -1
		case x.acts != y.acts:
			return 1
		}
		return cmp.Or(cmp.Compare(x.d.Key, y.d.Key), cmp.Compare(x.d.Workload, y.d.Workload))
	})
	return out
}

// breaker holds every raise of a budget whose breaker is open, or trips now because of what the plan would cost. Gold is held too: a bill
// attack comes through the front door.
func (b *Budget) breaker(now time.Time, members []member, limits map[fleet.WorkloadID]spendLimit) (trip *Trip) {
	if b.BreakerHour == nil {
		return nil
	}
	rate := b.ElsewhereHour
	for i := range members {
		rate = plus(rate, cost(members[i].price, members[i].counted()))
	}
	if !b.tripped(now) {
		if rate < *b.BreakerHour {
			return nil
		}
		trip = &Trip{Budget: b.ID, At: now, RateHour: rate, LimitHour: *b.BreakerHour, UsualHour: b.UsualHour}
	}
	numbers := map[string]float64{"rate_hour": rate.Float(), "limit_hour": b.BreakerHour.Float(), "usual_hour": b.UsualHour.Float()}
	for i := range members {
		if d := members[i].d; d.Target > d.From {
			lower(limits, d.Workload, spendLimit{d.From, Reason{Code: ReasonSpendBreaker, Budget: b.ID, Numbers: numbers, Until: b.Until}})
		}
	}
	return trip
}

// ration gives what the budget leaves per hour to the raises, gold first, and takes from the least class up when the budget is spent.
func (b *Budget) ration(members []member, limits map[fleet.WorkloadID]spendLimit) {
	rate := b.ElsewhereHour // once everything that goes down has gone down
	for i := range members {
		m := &members[i]
		rate = plus(rate, cost(m.price, min(m.counted(), m.d.From)))
	}
	allowed := max(b.AllowedHour, 0)
	if b.Remaining <= 0 {
		allowed = 0
	}
	left := plus(allowed, -rate)
	numbers := func(left fleet.Money) map[string]float64 {
		return map[string]float64{"allowed_hour": allowed.Float(), "rate_hour": plus(allowed, -left).Float(), "left_hour": left.Float(), "remaining": b.Remaining.Float()}
	}
	ends := b.EndsAt
	for i := range members {
		m := &members[i]
		add := m.d.Target - m.d.From
		if add <= 0 {
			continue
		}
		given, reason := m.share(left, add), Reason{Code: ReasonBudget, Budget: b.ID, Numbers: numbers(left), Until: &ends}
		switch {
		case m.rank == rank(ClassGold):
			reason.Code, given = ReasonBudgetGrace, min(given, add)
		case given < add && m.price == nil:
			reason.Code = ReasonBudgetUnknown
		}
		if given < add {
			reason.Numbers["wanted"] = float64(m.d.Target)
			most := m.d.From + given
			if reason.Code == ReasonBudgetGrace {
				given, most = add, m.d.Target
			} else if floor := min(m.d.Min, m.d.Target); floor > most {
				given, most, reason.Code = floor-m.d.From, floor, ReasonBudgetGrace
			}
			lower(limits, m.d.Workload, spendLimit{most, reason})
		}
		if m.acts {
			left = plus(left, -cost(m.price, given))
		}
	}
	if b.Remaining > 0 {
		return
	}
	for i := len(members) - 1; i >= 0 && left < 0; i-- {
		m := &members[i]
		count := min(m.counted(), m.d.From)
		spare := count - m.d.Min
		if !m.acts || m.price == nil || *m.price <= 0 || spare <= 0 || m.rank == rank(ClassGold) {
			continue
		}
		fewer := min(spare, int(min((-left-1)/(*m.price)+1, fleet.Money(maxReplicas))))
		reason := Reason{Code: ReasonBudgetOver, Budget: b.ID, Numbers: numbers(left), Until: &ends}
		lower(limits, m.d.Workload, spendLimit{count - fewer, reason})
		left = plus(left, cost(m.price, fewer))
	}
}

// share is how many of add replicas the money left pays for. Of a price that nobody knows it pays for all while anything is left.
func (m *member) share(left fleet.Money, add int) int {
	switch {
	case m.price == nil && left > 0:
		return add
	case m.price == nil || left < 0:
		return 0
	case *m.price == 0:
		return add
	}
	return int(min(left/(*m.price), fleet.Money(add)))
}

// lower keeps the strictest limit of a workload; of equal ones the first.
func lower(limits map[fleet.WorkloadID]spendLimit, id fleet.WorkloadID, l spendLimit) {
	if was, ok := limits[id]; !ok || l.most < was.most {
		limits[id] = l
	}
}

// spend brings the count within what the budgets leave. It lowers what is there only while every signal is fresh, by no more than the
// policy's steps, and never under the floor.
func (g *deciding) spend() {
	l := g.limited
	if l == nil {
		return
	}
	r, to := l.reason, l.most
	r.From = g.count
	if to < g.d.From {
		switch {
		case !g.mayGoDown():
			to = g.d.From
		default:
			to = max(to, min(g.limit(g.policy.Down, false), g.d.From))
		}
	}
	if r.To = min(to, g.count); r.Code == ReasonBudgetGrace || g.count <= to {
		r.To = g.count
		g.note(r)
		return
	}
	g.settle(r)
}

// cost of n replicas; zero where the price is unknown, the largest amount where it is out of range.
func cost(price *fleet.Money, n int) fleet.Money {
	if price == nil {
		return 0
	}
	m := times(price, n)
	if m == nil {
		return math.MaxInt64
	}
	return *m
}

// plus adds without wrapping around.
func plus(a, b fleet.Money) fleet.Money {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64 + 1
	}
	return s
}

// Needs lists what has to be kept of the input so that the given decisions compute again: their own workloads, and where a budget spoke
// all that it and the budgets it shares workloads with count. budgets are those to keep.
func (in *Input) Needs(decisions []Decision) (workloads map[fleet.WorkloadID]bool, budgets []Budget) {
	workloads = make(map[fleet.WorkloadID]bool, len(decisions))
	spoke := map[fleet.BudgetID]bool{}
	for i := range decisions {
		workloads[decisions[i].Workload] = true
		for j := range decisions[i].Reasons {
			if id := decisions[i].Reasons[j].Budget; id != "" {
				spoke[id] = true
			}
		}
	}
	if len(spoke) == 0 {
		return workloads, nil
	}
	counted := map[fleet.WorkloadID]bool{}
	for again := true; again; {
		again = false
		for i := range in.Budgets {
			b := &in.Budgets[i]
			shares := slices.ContainsFunc(b.Workloads, func(id fleet.WorkloadID) bool { return counted[id] })
			if !spoke[b.ID] && !shares {
				continue
			}
			spoke[b.ID] = true
			for _, id := range b.Workloads {
				if !counted[id] {
					counted[id], workloads[id], again = true, true, true
				}
			}
		}
	}
	for _, b := range in.Budgets {
		if spoke[b.ID] {
			budgets = append(budgets, b)
		}
	}
	return workloads, budgets
}

// checkBudgets works out again, from the finished plan alone, that no raise went past a budget and none through an open breaker.
func (c *checker) checkBudgets(p Plan, in *Input, states map[fleet.WorkloadID]*fleet.WorkloadState) {
	byID := make(map[fleet.WorkloadID]*Decision, len(p.Decisions))
	for i := range p.Decisions {
		byID[p.Decisions[i].Workload] = &p.Decisions[i]
	}
	trips := map[fleet.BudgetID]bool{}
	for _, t := range p.Trips {
		trips[t.Budget] = true
	}
	for i := range in.Budgets {
		b := &in.Budgets[i]
		members := b.members(byID, states)
		held := b.BreakerHour != nil && (b.tripped(p.At) || trips[b.ID])
		before, after := b.ElsewhereHour, b.ElsewhereHour
		for j := range members {
			m := &members[j]
			free := m.rank == rank(ClassGold)
			c.id = m.d.Workload
			if held && m.d.Target > m.d.From {
				c.say("breaker", "raised to %d while the breaker of budget %s is open", m.d.Target, b.ID)
			}
			count := m.counted()
			if free || m.d.Target <= m.d.Min { // grace
				count = min(count, m.d.From)
			}
			after = plus(after, cost(m.price, count))
			before = plus(before, cost(m.price, min(count, m.d.From)))
		}
		c.id = ""
		if b.Enforced && after > before && (after > b.AllowedHour || b.Remaining <= 0) {
			c.say("budget", "raises cost %s an hour, budget %s allows %s", after, b.ID, b.AllowedHour)
		}
	}
	c.id = ""
}
