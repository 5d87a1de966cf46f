package commitment

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Step is a stretch of a series of use and coverage. The first and the last one may be cut short by the span.
type Step struct {
	Interval fleet.Interval
	// Balance adds up commitments: Used + Unused = Bought. Of one commitment it has units, of several only money.
	Balance  Balance
	Coverage Coverage // of all scopes together
}

// Series cuts a span into steps that begin at full steps of UTC, and says what of the commitments was used in each and what they covered.
// only, if not empty, is the one commitment whose use is told; coverage is always that of all. check ends it early with an error.
func Series(in fleet.Interval, step time.Duration, nodes []Node, commitments []Commitment, prices *Prices, only string, check func() error) ([]Step, error) {
	var out []Step
	var tally Tally
	settle := func() {
		if len(out) == 0 {
			return
		}
		s := &out[len(out)-1]
		for _, b := range tally.Balances() {
			switch only {
			case b.Commitment:
				s.Balance = b
			case "":
				s.Balance.Bought, s.Balance.Used, s.Balance.Unused = s.Balance.Bought.Add(b.Bought), s.Balance.Used.Add(b.Used), s.Balance.Unused.Add(b.Unused)
			}
		}
		for _, c := range tally.Coverage() {
			all := &s.Coverage
			all.Eligible, all.Covered, all.Unlisted = all.Eligible+c.Eligible, all.Covered+c.Covered, all.Unlisted+c.Unlisted
			all.ListedEligible, all.ListedCovered = all.ListedEligible.Add(c.ListedEligible), all.ListedCovered.Add(c.ListedCovered)
		}
		tally = Tally{}
	}
	err := History(in, nodes, commitments, prices, func(s Statement) error {
		if at := s.Interval.From.UTC().Truncate(step); len(out) == 0 || !out[len(out)-1].Interval.From.UTC().Truncate(step).Equal(at) {
			settle()
			out = append(out, Step{Interval: s.Interval})
		}
		out[len(out)-1].Interval.To = s.Interval.To
		tally.Add(s)
		return check()
	})
	settle()
	return out, err
}
