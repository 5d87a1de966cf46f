package ledger

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// SpreadFixed divides a shared cost in parts that were agreed on.
const SpreadFixed Spread = "fixed"

// SharedRule picks workloads that serve all teams, and says how the others carry their cost.
type SharedRule struct {
	ID     string
	Pick   string // namespace or team
	Value  string
	Spread Spread
	Parts  map[string]int64 // of SpreadFixed, by team; one without a part, or without costs of its own, carries nothing
}

// Picks says whether the rule is about a row.
func (r SharedRule) Picks(o Owner) bool {
	return r.Pick == "namespace" && o.Namespace == r.Value || r.Pick == "team" && o.Team == r.Value
}

// Charge is what a team bears.
type Charge struct {
	Team   string
	Direct fleet.Money   // of its own workloads
	Idle   fleet.Money   // of idle and overhead that its workloads carry
	Shared []fleet.Money // by rule, in the order of the rules
	Total  fleet.Money
}

// Charges of a span: who bears what, and what nobody does. Charges and Rest add up to the rows, exactly.
type Charges struct {
	Teams []Charge // by team; the one without a name holds workloads without a team
	Rest  map[Kind]fleet.Money
	// Unshared is what a rule picked and nobody could carry, by rule; it is not in Teams.
	Unshared []fleet.Money
}

// ChargeTeams divides costs over teams. Each scope is a cluster or a machine, whose idle its own workloads carry when idle is not nil; then each
// rule's workloads are shared over the teams, in the order of the rules, the first rule that picks a row having it.
func ChargeTeams(scopes [][]Row, idle *Spread, rules []SharedRule) Charges {
	const marker = "\x00" // no team's name: the agent's protocol and Postgres refuse it
	out := Charges{Rest: map[Kind]fleet.Money{}, Unshared: make([]fleet.Money, len(rules))}
	var all, direct []Row
	for _, scope := range scopes {
		rows := make([]Row, len(scope))
		for i, r := range scope {
			rows[i] = Row{Kind: r.Kind, Resource: r.Resource, Amount: r.Amount, Owner: Owner{Team: r.Owner.Team}}
			if r.Kind != KindWorkload {
				continue
			}
			if at := slices.IndexFunc(rules, func(s SharedRule) bool { return s.Picks(r.Owner) }); at >= 0 {
				rows[i].Owner = Owner{Workload: fleet.WorkloadID(rules[at].ID), Team: marker}
			}
		}
		direct = append(direct, rows...)
		if idle != nil {
			rows = ShareIdleBy(rows, *idle)
		}
		all = append(all, rows...)
	}
	charges := map[string]*Charge{}
	charge := func(team string) *Charge {
		if charges[team] == nil {
			charges[team] = &Charge{Team: team, Shared: make([]fleet.Money, len(rules))}
		}
		return charges[team]
	}
	for _, r := range direct {
		if r.Kind == KindWorkload && r.Owner.Team != marker {
			charge(r.Owner.Team).Direct += r.Amount
		}
	}
	before := teamSums(all)
	for team, sum := range before {
		if team != marker {
			charge(team).Idle = sum - charge(team).Direct
		}
	}
	for i, rule := range rules {
		var metric map[Owner]int64
		if rule.Spread == SpreadFixed {
			metric = map[Owner]int64{}
			for team, parts := range rule.Parts {
				metric[Owner{Team: team}] = parts
			}
		}
		picked := func(r Row) bool { return r.Owner.Team == marker }
		var mine, others []Row
		for _, r := range all {
			switch {
			case r.Owner.Team == marker && string(r.Owner.Workload) != rule.ID:
				others = append(others, r)
			case r.Kind == KindWorkload:
				r.Resource = "" // a team carries in proportion to all that it pays
				mine = append(mine, r)
			default:
				others = append(others, r)
			}
		}
		mine = ShareWorkloads(mine, picked, rule.Spread, metric)
		all = slices.Concat(others, mine)
		after := teamSums(mine)
		for team, sum := range after {
			if team != marker {
				charge(team).Shared[i] = sum - before[team]
				before[team] = sum
			}
		}
		out.Unshared[i] = after[marker]
	}
	for _, r := range all {
		if r.Kind != KindWorkload {
			out.Rest[r.Kind] += r.Amount
		}
	}
	for _, c := range charges {
		c.Total = c.Direct + c.Idle
		for _, s := range c.Shared {
			c.Total += s
		}
		out.Teams = append(out.Teams, *c)
	}
	slices.SortFunc(out.Teams, func(a, b Charge) int { return cmp.Compare(a.Team, b.Team) })
	return out
}

func teamSums(rows []Row) map[string]fleet.Money {
	sums := map[string]fleet.Money{}
	for _, r := range rows {
		if r.Kind == KindWorkload {
			sums[r.Owner.Team] = sums[r.Owner.Team].Add(r.Amount)
		}
	}
	return sums
}
