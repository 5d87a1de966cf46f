package commitment

import (
	"cmp"
	"math/bits"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Row is usage of one machine, covered by a commitment or not.
type Row struct {
	Commitment string          // id; empty: nothing covers it
	Cluster    fleet.ClusterID // empty with Held
	Node       string          // uid
	Held       string          // id of the capacity reservation whose empty place this is
	Offering   fleet.Offering
	Resource   Resource
	Units      int64 // unit-milliseconds of the machine; Of of them are one machine-hour
	Of         int64
	Taken      int64        // unit-milliseconds of the commitment; of a spend plan nothing
	Amount     *fleet.Money // amortised cost of what is covered, else the price; nil: unknown
	List       *fleet.Money // what it would have cost on demand; nil: unknown
}

// Balance is what became of a commitment. Used + Unused = Bought.
type Balance struct {
	Commitment             string
	Owner                  string
	Bought, Used, Unused   fleet.Money
	BoughtUnits, UsedUnits int64 // unit-milliseconds; zero for spend plans
	Millis                 int64 // of the interval in which it ran
	// Listed is what its covered usage would have cost on demand; nil when some of it has no list price.
	Listed *fleet.Money
}

// Statement is what an interval's usage took of which commitment.
type Statement struct {
	Interval  fleet.Interval
	Covered   []Row     // in order of application
	Remainder []Row     // by cluster and node; an empty place of a capacity reservation has Held
	Places    []Row     // which machines stood in capacity reservations; these rows say nothing of cost
	Balances  []Balance // by id, of those that ran
}

// Input of Allocate. The interval is a clock hour, or the part of one that has passed.
type Input struct {
	Interval    fleet.Interval
	Usage       []Usage
	Commitments []Commitment
	// Claims are what machines that Usage leaves out took already, for good.
	Claims []Claim
	// List gives the on-demand price of a machine, for empty places of capacity reservations; may be nil.
	List func(fleet.Offering) *fleet.Money
}

// Claim is what one machine's hour took of a commitment.
type Claim struct {
	Cluster    fleet.ClusterID
	Node       string
	Commitment string
	Resource   Resource
	Units      int64
	Taken      int64
	Amount     fleet.Money
}

// Allocate applies the commitments of a tenant to all that ran in the interval, over all its clusters in one pass.
func Allocate(in Input) Statement {
	a := newAllocation(in)
	a.apply()
	return a.statement()
}

func (a *allocation) apply() {
	for _, r := range kindRules {
		stage := a.stage(r.kind)
		switch {
		case len(stage) == 0:
		case r.spend:
			a.spend(stage)
		default:
			a.machines(r, stage)
		}
	}
}

type allocation struct {
	in       Input
	lanes    []*lane
	accounts []*account // by id
}

// account is a commitment with what is left of it in the interval.
type account struct {
	*Commitment
	from, to int64 // when it runs, in milliseconds of the interval
	bought   fleet.Money
	capacity int64       // unit-milliseconds
	left     int64       // of capacity
	money    fleet.Money // left, of a spend plan
	claimed  fleet.Money // of bought, by claims
	rows     []Row
}

func newAllocation(in Input) *allocation {
	a := &allocation{in: in, lanes: lanes(in.Interval, in.Usage)}
	for i := range in.Commitments {
		c := &in.Commitments[i]
		active := c.active(in.Interval)
		acc := &account{Commitment: c, from: offset(in.Interval, active.From), to: offset(in.Interval, active.To), bought: c.Bought(in.Interval)}
		if acc.from >= acc.to {
			continue
		}
		if c.Kind.Spend() {
			acc.money = acc.bought
		} else {
			acc.capacity = c.units() * (acc.to - acc.from)
			acc.left = acc.capacity
		}
		a.accounts = append(a.accounts, acc)
	}
	slices.SortFunc(a.accounts, func(x, y *account) int { return cmp.Compare(x.ID, y.ID) })
	for _, c := range in.Claims {
		if i, ok := slices.BinarySearchFunc(a.accounts, c.Commitment, func(acc *account, id string) int { return cmp.Compare(acc.ID, id) }); ok {
			a.accounts[i].claim(c)
		}
	}
	return a
}

// claim takes off what is gone; a commitment that became smaller since is used up by it.
func (acc *account) claim(c Claim) {
	acc.left -= min(acc.left, max(c.Taken, 0))
	amount := min(acc.bought-acc.claimed, max(c.Amount, 0))
	acc.claimed += amount
	if acc.Kind.Spend() {
		acc.money -= amount
	}
}

// stage lists the accounts of a kind, the cheapest per unit first.
func (a *allocation) stage(k Kind) []*account {
	var out []*account
	for _, acc := range a.accounts {
		if acc.Kind == k {
			out = append(out, acc)
		}
	}
	slices.SortStableFunc(out, func(x, y *account) int {
		return compareProducts(int64(x.bought), y.capacity, int64(y.bought), x.capacity)
	})
	return out
}

// machines applies reservations, one after the other.
func (a *allocation) machines(r kindRule, stage []*account) {
	for _, acc := range stage {
		var fit []*lane
		for _, l := range a.lanes {
			if l.left > 0 && acc.covers(l) {
				fit = append(fit, l)
			}
		}
		slices.SortStableFunc(fit, acc.first)
		if r.instant {
			acc.moments(fit)
		} else {
			acc.hours(fit)
		}
		if acc.Kind == KindCapacity {
			a.places(acc)
		}
	}
}

// first orders the lanes that an account may cover: machines that were started into a reservation, then small before large.
func (acc *account) first(x, y *lane) int {
	asked := func(l *lane) int {
		switch {
		case acc.Kind == KindAzureReservation && l.offering.InstanceType != acc.InstanceType:
			return 2
		case l.held != "":
			return 1
		}
		return 0
	}
	bySize := 0
	if acc.Kind == KindRegionalRI {
		bySize = cmp.Compare(x.unit, y.unit)
	}
	reserved := func(l *lane) int {
		if l.offering.Purchase == fleet.PurchaseReserved {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(asked(x), asked(y)), bySize, cmp.Compare(reserved(x), reserved(y)))
}

// hours covers what ran within the clock hour, whenever it ran in it.
func (acc *account) hours(fit []*lane) {
	for _, l := range fit {
		if acc.left == 0 {
			return
		}
		num, den := acc.per(l)
		units := min(l.left, l.within(acc.from, acc.to), mulDivFloor(acc.left, den, num))
		acc.take(l, units, min(mulDivCeil(units, num, den), acc.left))
	}
}

// moments covers what runs at each moment: nothing saved in one minute helps in the next.
func (acc *account) moments(fit []*lane) {
	var cuts []int64
	for _, l := range fit {
		for _, s := range l.free {
			cuts = append(cuts, max(s.from, acc.from), min(s.to, acc.to))
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if len(cuts) < 2 {
		return
	}
	room := make([]int64, len(cuts)-1) // units left in each stretch between two cuts
	for i := range room {
		room[i] = acc.units()
	}
	for _, l := range fit {
		var free []span
		var taken int64
		for _, s := range l.free {
			at := s.from
			i, _ := slices.BinarySearch(cuts, max(s.from, acc.from))
			for ; i < len(room) && cuts[i+1] <= s.to && cuts[i] >= acc.from && cuts[i+1] <= acc.to; i++ {
				units := min(room[i], s.units, (acc.left-taken)/(cuts[i+1]-cuts[i]))
				if units == 0 {
					continue
				}
				room[i] -= units
				taken += units * (cuts[i+1] - cuts[i])
				free = appendSpan(free, span{at, cuts[i], s.units})
				free = appendSpan(free, span{cuts[i], cuts[i+1], s.units - units})
				at = cuts[i+1]
			}
			free = appendSpan(free, span{at, s.to, s.units})
		}
		if taken > 0 {
			acc.take(l, taken, taken)
			l.free = free
		}
	}
}

// appendSpan adds a span that is not empty, joined with the last where they meet.
func appendSpan(all []span, s span) []span {
	if s.from >= s.to || s.units == 0 {
		return all
	}
	if n := len(all); n > 0 && all[n-1].to == s.from && all[n-1].units == s.units {
		all[n-1].to = s.to
		return all
	}
	return append(all, s)
}

// take moves units from the lane into the account's rows.
func (acc *account) take(l *lane, units, taken int64) {
	if units <= 0 {
		return
	}
	l.left -= units
	if acc.Kind.Spend() {
		taken = 0
	} else {
		acc.left -= taken
	}
	// A capacity reservation is a claim, not a price: its machines cost what they cost without it.
	if acc.Kind == KindCapacity {
		l.left += units
	}
	acc.rows = append(acc.rows, l.row(acc.ID, units, taken))
}

func (l *lane) row(commitment string, units, taken int64) Row {
	return Row{Commitment: commitment, Cluster: l.cluster, Node: l.node, Held: l.held, Offering: l.offering, Resource: l.resource, Units: units,
		Of: l.unit * hourMillis, Taken: taken, List: l.cost(l.list, units)}
}

// places makes the empty places of a capacity reservation usage of their own: they are billed like machines, and discounts apply to them.
func (a *allocation) places(acc *account) {
	if acc.left == 0 {
		return
	}
	o := fleet.Offering{Cloud: fleet.CloudAWS, Region: acc.Region, Zone: acc.Zone, InstanceType: acc.InstanceType, Purchase: fleet.PurchaseOnDemand}
	l := &lane{held: acc.ID, offering: o, family: Family(o.Cloud, o.InstanceType), resource: ResourceMachine, unit: 1000, left: acc.left}
	if n := NormalisationMilli(o.InstanceType); n > 0 {
		l.unit = n
	}
	if a.in.List != nil {
		l.list = a.in.List(o)
		l.price = l.list
	}
	// When they stood empty does not matter any more: only those that count hours come after.
	l.live = []span{{acc.from, acc.to, (acc.left + acc.to - acc.from - 1) / (acc.to - acc.from)}}
	a.lanes = append(a.lanes, l)
}

// spend applies plans of a stage together: the highest saving of any plan on any usage first, then the lowest rate.
func (a *allocation) spend(stage []*account) {
	type offer struct {
		acc        *account
		lanes      []*lane
		rate, list fleet.Money
	}
	groups := map[laneGroup][]*lane{}
	var keys []laneGroup
	for _, l := range a.lanes {
		if l.left == 0 {
			continue
		}
		k := laneGroup{l.offering.Region, l.offering.InstanceType, l.resource, moneyKey(l.list)}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], l)
	}
	slices.SortFunc(keys, laneGroup.compare)
	var offers []offer
	for _, acc := range stage {
		for _, k := range keys {
			l := groups[k][0]
			if !acc.covers(l) || l.list == nil || *l.list <= 0 {
				continue
			}
			if rate := acc.rate(l); rate != nil && *rate > 0 && *rate <= *l.list {
				offers = append(offers, offer{acc, groups[k], *rate, *l.list})
			}
		}
	}
	slices.SortStableFunc(offers, func(x, y offer) int {
		return cmp.Or(compareProducts(int64(x.rate), int64(y.list), int64(y.rate), int64(x.list)), cmp.Compare(x.rate, y.rate))
	})
	for _, o := range offers {
		for _, l := range o.lanes {
			if o.acc.money == 0 {
				break
			}
			o.acc.pay(l, o.rate)
		}
	}
}

type laneGroup struct {
	region, instanceType string
	resource             Resource
	list                 int64
}

func (k laneGroup) compare(o laneGroup) int {
	return cmp.Or(cmp.Compare(k.region, o.region), cmp.Compare(k.instanceType, o.instanceType), cmp.Compare(k.resource, o.resource), cmp.Compare(k.list, o.list))
}

func moneyKey(m *fleet.Money) int64 {
	if m == nil {
		return -1
	}
	return int64(*m)
}

// pay covers as much of the lane as the plan's money reaches for.
func (acc *account) pay(l *lane, rate fleet.Money) {
	units := min(l.left, l.within(acc.from, acc.to))
	if units == 0 {
		return
	}
	need := rate.MulDiv(units, l.unit*hourMillis)
	if need > acc.money {
		units, need = mulDivFloor(units, int64(acc.money), int64(need)), acc.money
	}
	if units == 0 {
		return
	}
	acc.take(l, units, 0)
	acc.money -= need
	acc.rows[len(acc.rows)-1].Amount = &need
}

// statement settles the accounts: what a reservation cost is divided over what used it and what did not, by units.
func (a *allocation) statement() Statement {
	s := Statement{Interval: a.in.Interval}
	for _, r := range kindRules {
		for _, acc := range a.accounts {
			if acc.Kind == r.kind {
				acc.settle()
				if acc.Kind == KindCapacity {
					s.Places = append(s.Places, acc.rows...)
				} else {
					s.Covered = append(s.Covered, acc.rows...)
				}
			}
		}
	}
	for _, acc := range a.accounts {
		s.Balances = append(s.Balances, acc.balance())
	}
	for _, l := range a.lanes {
		if l.left > 0 {
			row := l.row("", l.left, 0)
			row.Amount = l.cost(l.price, l.left)
			s.Remainder = append(s.Remainder, row)
		}
	}
	return s
}

func (acc *account) settle() {
	if acc.Kind.Spend() {
		return
	}
	weights := make([]int64, 0, len(acc.rows)+1)
	for _, r := range acc.rows {
		weights = append(weights, r.Taken)
	}
	parts, _ := (acc.bought - acc.claimed).Split(append(weights, acc.left))
	for i := range acc.rows {
		acc.rows[i].Amount = &parts[i]
	}
}

func (acc *account) balance() Balance {
	b := Balance{Commitment: acc.ID, Owner: acc.Owner, Bought: acc.bought, Used: acc.claimed, BoughtUnits: acc.capacity, UsedUnits: acc.capacity - acc.left, Millis: acc.to - acc.from}
	listed := fleet.Money(0)
	b.Listed = &listed
	for _, r := range acc.rows {
		b.Used = b.Used.Add(*r.Amount)
		if r.List == nil || acc.Kind == KindCapacity {
			b.Listed = nil
		} else if b.Listed != nil {
			listed = listed.Add(*r.List)
		}
	}
	b.Unused = b.Bought.Add(-b.Used)
	return b
}

// compareProducts compares a*b with c*d, all not negative, exactly.
func compareProducts(a, b, c, d int64) int {
	h1, l1 := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // not negative
	h2, l2 := bits.Mul64(uint64(c), uint64(d)) //nolint:gosec // not negative
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}

// mulDivFloor gives v*num/den rounded down; v and num not negative, den above zero, the result inside an int64.
func mulDivFloor(v, num, den int64) int64 {
	hi, lo := bits.Mul64(uint64(v), uint64(num)) //nolint:gosec // not negative
	if hi >= uint64(den) {                       //nolint:gosec // above zero
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(den)) //nolint:gosec // above zero
	return int64(min(q, 1<<63-1))
}

func mulDivCeil(v, num, den int64) int64 {
	q := mulDivFloor(v, num, den)
	if compareProducts(q, den, v, num) < 0 {
		q++
	}
	return q
}
