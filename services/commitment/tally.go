package commitment

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Tally adds statements up. The zero Tally is ready.
type Tally struct {
	balances map[string]*Balance
	covered  map[Scope]*Coverage
}

// Scope of a coverage figure.
type Scope struct {
	Cloud  fleet.Cloud
	Region string
	Family string
}

// Coverage is how much of the usage that commitments could cover they did cover, in machine-milliseconds; on Google a machine counts once per
// resource that it has. Money is at on-demand prices, and leaves out what has none.
type Coverage struct {
	Scope
	Eligible, Covered             int64
	ListedEligible, ListedCovered fleet.Money
	Unlisted                      int64 // part of Eligible without an on-demand price
}

// Add counts a statement in. Empty places of capacity reservations are no usage.
func (t *Tally) Add(s Statement) {
	if t.balances == nil {
		t.balances, t.covered = map[string]*Balance{}, map[Scope]*Coverage{}
	}
	for _, b := range s.Balances {
		sum, ok := t.balances[b.Commitment]
		if !ok {
			nothing := fleet.Money(0)
			sum = &Balance{Commitment: b.Commitment, Owner: b.Owner, Listed: &nothing}
			t.balances[b.Commitment] = sum
		}
		sum.add(b)
	}
	for _, r := range s.Covered {
		t.count(r, true)
	}
	for _, r := range s.Remainder {
		t.count(r, false)
	}
}

func (b *Balance) add(o Balance) {
	b.Bought, b.Used, b.Unused = b.Bought.Add(o.Bought), b.Used.Add(o.Used), b.Unused.Add(o.Unused)
	b.BoughtUnits, b.UsedUnits, b.Millis = b.BoughtUnits+o.BoughtUnits, b.UsedUnits+o.UsedUnits, b.Millis+o.Millis
	if b.Listed != nil && o.Listed != nil {
		sum := b.Listed.Add(*o.Listed)
		b.Listed = &sum
	} else {
		b.Listed = nil
	}
}

func (t *Tally) count(r Row, covered bool) {
	if r.Held != "" {
		return
	}
	k := Scope{r.Offering.Cloud, r.Offering.Region, Family(r.Offering.Cloud, r.Offering.InstanceType)}
	c := t.covered[k]
	if c == nil {
		c = &Coverage{Scope: k}
		t.covered[k] = c
	}
	ms := mulDivFloor(r.Units, hourMillis, r.Of)
	c.Eligible += ms
	if covered {
		c.Covered += ms
	}
	if r.List == nil {
		c.Unlisted += ms
		return
	}
	c.ListedEligible = c.ListedEligible.Add(*r.List)
	if covered {
		c.ListedCovered = c.ListedCovered.Add(*r.List)
	}
}

// Balances by commitment.
func (t *Tally) Balances() []Balance {
	out := make([]Balance, 0, len(t.balances))
	for _, b := range t.balances {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Balance) int { return cmp.Compare(a.Commitment, b.Commitment) })
	return out
}

// Coverage by cloud, region and family.
func (t *Tally) Coverage() []Coverage {
	out := make([]Coverage, 0, len(t.covered))
	for _, c := range t.covered {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Coverage) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Family, b.Family))
	})
	return out
}

// Ratio of used to bought: of money where it cost any, else of units; nil when nothing was bought.
func (b Balance) Ratio() *float64 {
	var r float64
	switch {
	case b.BoughtUnits > 0:
		r = float64(b.UsedUnits) / float64(b.BoughtUnits)
	case b.Bought > 0:
		r = b.Used.Float() / b.Bought.Float()
	default:
		return nil
	}
	return &r
}

// Ratio of covered to eligible: at on-demand prices where all usage has one, else of time; nil without usage.
func (c Coverage) Ratio() *float64 {
	var r float64
	switch {
	case c.Unlisted == 0 && c.ListedEligible > 0:
		r = c.ListedCovered.Float() / c.ListedEligible.Float()
	case c.Eligible > 0:
		r = float64(c.Covered) / float64(c.Eligible)
	default:
		return nil
	}
	return &r
}
