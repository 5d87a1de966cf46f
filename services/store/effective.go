package store

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// EffectivePrices is what machines cost one tenant at a moment: the one place where the planner, the costs and the pages look. The
// tenant's own price comes first, then for Spot the history of Spot prices, then the price book; commitments are taken off what they
// cover. It remembers answers, so it is not safe for concurrent use.
type EffectivePrices struct {
	At     time.Time
	Refs   map[string]string // of commitments, by id
	Live   int               // machines of all clusters whose use of commitments was taken off first
	book   *market.PriceBook
	prices *commitment.Prices
	spot   *SpotPrices
	bought []commitment.Commitment
	nodes  []commitment.Node
	left   *commitment.State
	next   map[fleet.Offering]commitment.Quote
	live   map[liveKey]*liveCost
	node   map[liveNode]*fleet.Money
}

type liveNode struct {
	cluster fleet.ClusterID
	uid     string
}

// liveKey names machines that cost alike but for their zone.
type liveKey struct {
	cluster  fleet.ClusterID
	offering fleet.Offering // Zone empty
}

// liveCost adds up machines that run.
type liveCost struct {
	sum   fleet.Money
	count int64 // of those with a price
}

// PricesAt reads what prices at a moment depend on. Of Spot prices it reads those of the given offerings; others have the price book's.
func PricesAt(ctx context.Context, tx *Tx, book *market.PriceBook, at time.Time, offerings ...fleet.Offering) (*EffectivePrices, error) {
	own, err := TenantPrices(ctx, tx)
	if err != nil {
		return nil, err
	}
	p := &EffectivePrices{At: at, Refs: map[string]string{}, book: book, prices: commitment.NewPrices(book, Contracts(own)), next: map[fleet.Offering]commitment.Quote{}}
	bought, err := Commitments(ctx, tx, at, at.Add(time.Second))
	if err != nil {
		return nil, err
	}
	for _, c := range bought {
		p.bought = append(p.bought, c.Commitment)
		p.Refs[c.ID] = c.Ref
	}
	if len(bought) > 0 {
		if p.nodes, err = NodeLives(ctx, tx, at, at.Add(time.Second)); err != nil {
			return nil, err
		}
		p.Live = len(p.nodes)
		for i := range p.nodes { // what runs goes on
			p.nodes[i].Life = fleet.Interval{From: at, To: at.Add(time.Hour)}
		}
	}
	p.spot, err = SpotPricesOver(ctx, tx, book, fleet.Interval{From: at, To: at}, offerings)
	return p, err
}

// Candidate is what is known of an offering's prices. seen is what a cluster reported of the machine; the book's figures win.
func (p *EffectivePrices) Candidate(o fleet.Offering, seen fleet.InstanceType) commitment.Candidate {
	return p.spot.Candidate(p.prices, o, seen, fleet.Interval{From: p.At, To: p.At})
}

// Spot is the Spot price of an offering's machine, whatever the purchase option.
func (p *EffectivePrices) Spot(o fleet.Offering) commitment.Known {
	return p.spot.Over(o, fleet.Interval{From: p.At, To: p.At})
}

// Marginal is what quantity more machines of an offering cost, on top of what commitments cover for those that run.
func (p *EffectivePrices) Marginal(o fleet.Offering, seen fleet.InstanceType, quantity int) commitment.Quote {
	return commitment.Marginal(p.Candidate(o, seen), quantity, p.State())
}

// State is what all clusters of the tenant leave of its commitments.
func (p *EffectivePrices) State() commitment.State {
	if p.left == nil {
		live := commitment.HourInput(fleet.Interval{From: p.At, To: p.At.Add(time.Hour)}, p.nodes, p.bought, p.prices)
		left := commitment.Left(p.At, live.Usage, p.bought, live.List)
		p.left = &left
	}
	return *p.left
}

// NextReplica is what one more replica costs per hour on one more machine like its host; nil: unknown.
func (p *EffectivePrices) NextReplica(h Host, cpuMilli, memMiB, gpuMilli int64) *fleet.Money {
	q, ok := p.next[h.Offering]
	if !ok {
		q = p.Marginal(h.Offering, h.Machine, 1)
		p.next[h.Offering] = q
	}
	c := p.Candidate(h.Offering, h.Machine)
	return market.ReplicaHour(q.PerHour, c.Machine, c.Weights, cpuMilli, memMiB, gpuMilli)
}

// LiveReplica is what a replica that runs costs per hour: its share of the mean of the cluster's machines like its host, with what
// commitments cover of them at its amortised price; nil: unknown.
func (p *EffectivePrices) LiveReplica(cluster fleet.ClusterID, h Host, cpuMilli, memMiB, gpuMilli int64) *fleet.Money {
	c := p.Candidate(h.Offering, h.Machine)
	known, _ := c.Uncovered()
	hour := known.Hour
	if l := p.alike(cluster, h.Offering); l != nil {
		mean := l.sum.MulDiv(1, l.count)
		hour = &mean
	}
	return market.ReplicaHour(hour, c.Machine, c.Weights, cpuMilli, memMiB, gpuMilli)
}

// Node is what a machine that runs costs per hour; nil: unknown.
func (p *EffectivePrices) Node(cluster fleet.ClusterID, uid string, o fleet.Offering) *fleet.Money {
	if commitment.Eligible(o) {
		p.allocate()
		if hour, ok := p.node[liveNode{cluster, uid}]; ok {
			return hour
		}
	}
	known, _ := p.Candidate(o, fleet.InstanceType{Cloud: o.Cloud, Name: o.InstanceType}).Uncovered()
	return known.Hour
}

// alike are the cluster's machines with a price that commitments may cover, in all zones; nil: there are none.
func (p *EffectivePrices) alike(cluster fleet.ClusterID, o fleet.Offering) *liveCost {
	if !commitment.Eligible(o) {
		return nil
	}
	p.allocate()
	o.Zone = ""
	return p.live[liveKey{cluster, o}]
}

// allocate shares the commitments out among the machines that run.
func (p *EffectivePrices) allocate() {
	if p.node != nil {
		return
	}
	p.node, p.live = map[liveNode]*fleet.Money{}, map[liveKey]*liveCost{}
	if len(p.bought) == 0 {
		return
	}
	in := commitment.HourInput(fleet.Interval{From: p.At, To: p.At.Add(time.Hour)}, p.nodes, p.bought, p.prices)
	s := commitment.Allocate(in)
	for _, r := range slices.Concat(s.Covered, s.Remainder) {
		if r.Held != "" {
			continue
		}
		key := liveNode{r.Cluster, r.Node}
		sum, seen := p.node[key]
		switch {
		case r.Amount == nil || seen && sum == nil:
			p.node[key] = nil
		case seen:
			more := sum.Add(*r.Amount)
			p.node[key] = &more
		default:
			p.node[key] = r.Amount
		}
	}
	for _, n := range p.nodes {
		hour := p.node[liveNode{n.Cluster, n.UID}]
		if hour == nil {
			continue
		}
		key := liveKey{n.Cluster, n.Offering}
		key.offering.Zone = ""
		l := p.live[key]
		if l == nil {
			l = &liveCost{}
			p.live[key] = l
		}
		l.sum, l.count = l.sum.Add(*hour), l.count+1
	}
}
