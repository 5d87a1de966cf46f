package commitment

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// Known is a price with where it came from. A nil Hour is unknown.
type Known struct {
	Hour   *fleet.Money
	Source string
	AsOf   time.Time
	Stale  bool
}

// Candidate is an offering with what is known of its prices.
type Candidate struct {
	Offering   fleet.Offering
	Machine    fleet.InstanceType
	Weights    market.Weights
	List       Known // on demand
	Contracted Known // the tenant's own price for this purchase option
	Spot       Known // of the moment; only for Spot
}

// Contract is a price that a tenant set for itself.
type Contract struct {
	Cloud        fleet.Cloud
	Region       string // empty: all
	InstanceType string
	Purchase     fleet.Purchase
	ValidFrom    time.Time
	Hour         fleet.Money
}

// Prices looks offerings up: contracts first, then the catalogue. It remembers answers, so it is not safe for concurrent use.
type Prices struct {
	book      *market.PriceBook
	contracts map[fleet.Offering][]Contract // newest first; Zone empty
	changes   []time.Time                   // when contracts begin, ascending
	weights   map[fleet.Cloud]market.Weights
	known     map[knownKey]Candidate
}

type knownKey struct {
	offering fleet.Offering
	epoch    int // how many contracts have begun
}

// NewPrices over a catalogue and the tenant's contracts.
func NewPrices(book *market.PriceBook, contracts []Contract) *Prices {
	p := &Prices{book: book, contracts: map[fleet.Offering][]Contract{}, weights: map[fleet.Cloud]market.Weights{}, known: map[knownKey]Candidate{}}
	for _, c := range contracts {
		p.changes = append(p.changes, c.ValidFrom)
		k := fleet.Offering{Cloud: c.Cloud, Region: c.Region, InstanceType: c.InstanceType, Purchase: c.Purchase}
		p.contracts[k] = append(p.contracts[k], c)
	}
	for _, list := range p.contracts {
		slices.SortStableFunc(list, func(a, b Contract) int { return b.ValidFrom.Compare(a.ValidFrom) })
	}
	p.changes = append(p.changes, book.Changes()...)
	slices.SortFunc(p.changes, time.Time.Compare)
	return p
}

// Of gives what is known of an offering at a time. seen is what a cluster reported of the machine; the catalogue's figures win. Spot is the
// catalogue's until the caller knows better.
func (p *Prices) Of(o fleet.Offering, seen fleet.InstanceType, at time.Time) Candidate {
	if known, ok := p.book.InstanceType(o.Cloud, o.InstanceType); ok {
		seen = known
	}
	begun, _ := slices.BinarySearchFunc(p.changes, at.Add(1), time.Time.Compare)
	key := knownKey{o, begun}
	c, ok := p.known[key]
	if !ok {
		c = p.of(o, at)
		p.known[key] = c
	}
	c.Machine = seen
	return c
}

func (p *Prices) of(o fleet.Offering, at time.Time) Candidate {
	listed := p.book.At(at).Price(o)
	c := Candidate{Offering: o, Weights: p.Weights(o.Cloud), List: Known{Hour: listed.List, Source: listed.Source, AsOf: listed.Valid.From}}
	if o.Purchase == fleet.PurchaseSpot {
		c.Spot = Known{Hour: listed.Effective, Source: listed.Source, AsOf: listed.Valid.From}
	}
	key := o
	key.Zone = ""
	for _, region := range []string{o.Region, ""} {
		key.Region = region
		for _, t := range p.contracts[key] {
			if !t.ValidFrom.After(at) {
				c.Contracted = Known{Hour: &t.Hour, Source: "tenant " + t.ValidFrom.UTC().Format(time.DateOnly), AsOf: t.ValidFrom}
				return c
			}
		}
	}
	return c
}

// Weights that split a cloud's prices over the resources of its machines.
func (p *Prices) Weights(cloud fleet.Cloud) market.Weights {
	w, ok := p.weights[cloud]
	if !ok {
		w = p.book.Weights(cloud)
		p.weights[cloud] = w
	}
	return w
}

// List is the on-demand price of an offering, for Input.List.
func (p *Prices) List(o fleet.Offering) *fleet.Money { return p.book.Price(o).List }

// Uncovered is what an hour costs that no commitment covers, and what kind of price that is.
func (c Candidate) Uncovered() (Known, Basis) {
	switch {
	case c.Contracted.Hour != nil:
		return c.Contracted, BasisContracted
	case c.Offering.Purchase == fleet.PurchaseSpot:
		return c.Spot, BasisSpot
	case c.Offering.Purchase == fleet.PurchaseOnDemand:
		return c.List, BasisList
	}
	return Known{}, BasisUnknown // what a reserved machine costs, only its contract knows
}

// Usage makes a running machine of the candidate.
func (c Candidate) Usage(cluster fleet.ClusterID, node string, running fleet.Interval) Usage {
	k, _ := c.Uncovered()
	return Usage{Cluster: cluster, Node: node, Offering: c.Offering, Machine: c.Machine, Running: running, List: c.List.Hour, Price: k.Hour, Weights: c.Weights}
}

// Basis says what a part of a price rests on.
type Basis string

// Bases of a part.
const (
	BasisCommitment Basis = "commitment" // paid already
	BasisList       Basis = "list"
	BasisContracted Basis = "contracted"
	BasisSpot       Basis = "spot"
	BasisUnknown    Basis = "unknown"
)

// Part of a quote. The parts of a quote add up to PerHour.
type Part struct {
	Basis      Basis
	Commitment string // id, when Basis is commitment
	Resource   Resource
	SharePPM   int64        // of the machine, or of that resource of it, in millionths
	PerHour    *fleet.Money // what this part adds; 0 for what is paid already, nil: unknown
	LeftMilli  int64        // how many such machines the commitment could still cover before this one, in thousandths
	LeftSpend  fleet.Money  // of a spend plan before this machine, per hour
	Known
}

// Quote is what one more machine-hour costs.
type Quote struct {
	Offering fleet.Offering
	Quantity int
	PerHour  *fleet.Money // of the last of Quantity machines; nil: unknown
	Total    *fleet.Money // of all of them, per hour; nil: unknown
	Parts    []Part       // of the last machine
	Stale    bool
}

// State is what is left of a tenant's commitments at a moment, after all that runs then.
type State struct {
	at       time.Time
	accounts []*account // in the order in which they are applied
}

// Left says what remains at a moment when everything that runs then goes on. Ended machines and the Running of others do not matter.
func Left(at time.Time, running []Usage, commitments []Commitment, list func(fleet.Offering) *fleet.Money) State {
	hour := fleet.Interval{From: at, To: at.Add(time.Hour)}
	usage := slices.Clone(running)
	for i := range usage {
		usage[i].Running = hour
	}
	a := newAllocation(Input{Interval: hour, Usage: usage, Commitments: commitments, List: list})
	a.apply()
	s := State{at: at}
	for _, r := range kindRules {
		s.accounts = append(s.accounts, a.stage(r.kind)...)
	}
	for _, acc := range s.accounts {
		acc.rows = nil
	}
	return s
}

// MaxQuantity bounds how many machines a quote may speak of.
const MaxQuantity = 10_000

// Marginal says what the next quantity-th machine of a candidate costs per hour, given what is already paid for and already in use. It
// never falls as quantity grows, and is unknown once a part of it is.
func Marginal(c Candidate, quantity int, s State) Quote {
	quantity = min(max(quantity, 1), MaxQuantity)
	left := s.clone()
	sum := fleet.Money(0)
	q := Quote{Offering: c.Offering, Quantity: quantity, Total: &sum}
	for range quantity {
		q.Parts = left.next(c)
		one := fleet.Money(0)
		q.PerHour = &one
		for _, p := range q.Parts {
			q.Stale = q.Stale || p.Stale
			if p.PerHour == nil {
				q.PerHour, q.Total = nil, nil
				return q
			}
			one = one.Add(*p.PerHour)
		}
		sum = sum.Add(one)
	}
	return q
}

// Cheapest picks the candidate whose next quantity machines cost least together; a price that is unknown never wins. At equal cost what
// cannot be taken away comes first, then the name. ok is false when no price is known.
func Cheapest(quantity int, s State, candidates ...Candidate) (best Quote, ok bool) {
	rank := func(q Quote) int {
		return slices.Index([]fleet.Purchase{fleet.PurchaseReserved, fleet.PurchaseOnDemand, fleet.PurchaseSpot}, q.Offering.Purchase)
	}
	for _, c := range candidates {
		q := Marginal(c, quantity, s)
		if q.Total == nil {
			continue
		}
		less := func() int {
			a, b := q.Offering, best.Offering
			return cmp.Or(cmp.Compare(*q.Total, *best.Total), cmp.Compare(rank(q), rank(best)), cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region),
				cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone))
		}
		if !ok || less() < 0 {
			best, ok = q, true
		}
	}
	return best, ok
}

func (s State) clone() State {
	c := State{at: s.at, accounts: make([]*account, len(s.accounts))}
	for i, acc := range s.accounts {
		one := *acc
		c.accounts[i] = &one
	}
	return c
}

// next takes one machine out of what is left and returns its parts.
func (s State) next(c Candidate) []Part {
	u := c.Usage("", "", fleet.Interval{})
	uncovered, basis := c.Uncovered()
	if !Eligible(c.Offering) {
		return []Part{{Basis: basis, Resource: ResourceMachine, SharePPM: million, PerHour: uncovered.Hour, Known: uncovered}}
	}
	var parts []Part
	for _, l := range u.lanes(0, hourMillis, 1) {
		for _, acc := range s.ordered(l) {
			if l.left == 0 {
				break
			}
			p := Part{Basis: BasisCommitment, Commitment: acc.ID, Resource: l.resource, LeftMilli: acc.reach(l), LeftSpend: acc.money,
				Known: Known{Source: "commitment " + acc.Ref, AsOf: s.at}}
			before := l.left
			acc.serve(l)
			if l.left < before {
				nothing := fleet.Money(0)
				p.PerHour, p.SharePPM = &nothing, mulDivFloor(before-l.left, million, l.unit*hourMillis)
				parts = append(parts, p)
			}
		}
		if l.left > 0 {
			parts = append(parts, Part{Basis: basis, Resource: l.resource, SharePPM: mulDivFloor(l.left, million, l.unit*hourMillis), PerHour: l.cost(l.price, l.left), Known: uncovered})
		}
	}
	return parts
}

// ordered lists the accounts that may cover the lane, in the order in which they would.
func (s State) ordered(l *lane) []*account {
	type offer struct {
		acc   *account
		stage int
		rate  fleet.Money
	}
	var offers []offer
	for _, acc := range s.accounts {
		r, _ := acc.Kind.rule()
		o := offer{acc: acc, stage: r.stage}
		if !acc.covers(l) || acc.left == 0 && acc.money == 0 {
			continue
		}
		if r.spend {
			rate := acc.rate(l)
			if rate == nil || *rate <= 0 || l.list == nil || *rate > *l.list {
				continue
			}
			o.rate = *rate
		}
		offers = append(offers, o)
	}
	slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.rate, b.rate)) })
	out := make([]*account, len(offers))
	for i, o := range offers {
		out[i] = o.acc
	}
	return out
}

// serve covers as much of one machine's hour as is left. A place in a capacity reservation is paid for by whatever paid for it empty.
func (acc *account) serve(l *lane) {
	if acc.Kind.Spend() {
		if rate := acc.rate(l); rate != nil {
			acc.pay(l, *rate)
		}
		return
	}
	num, den := acc.per(l)
	units := min(l.left, mulDivFloor(acc.left, den, num))
	acc.left -= min(mulDivCeil(units, num, den), acc.left)
	l.left -= units
}

// reach is how many machines like the lane's the account could cover for an hour, in thousandths.
func (acc *account) reach(l *lane) int64 {
	if acc.Kind.Spend() {
		rate := acc.rate(l)
		if rate == nil || *rate <= 0 {
			return 0
		}
		return mulDivFloor(int64(acc.money), 1000, int64(*rate))
	}
	num, den := acc.per(l)
	return mulDivFloor(mulDivFloor(acc.left, den, num), 1000, l.unit*hourMillis)
}
