package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// paid is what commitments have to do with the hours that a cluster costs: one allocation per hour over all clusters of the tenant. What
// closed hours took is claimed for good, so the cluster that closes an hour later finds only what is left.
type paid struct {
	cluster     fleet.ClusterID
	prices      *commitment.Prices
	commitments []commitment.Commitment
	refs        map[string]string
	nodes       []commitment.Node
	settled     map[time.Time]store.HourClaims
	changed     map[string]time.Time                     // when each commitment was last changed, by our clock
	purchased   map[time.Time]map[string]store.Purchase  // of hours that closed
	left        map[time.Time]map[string]ledger.CostLine // what closed hours have as unused, by commitment
	unused      map[time.Time]store.HourState            // of the rows that belong to no cluster
	hours       map[time.Time]*paidHour
}

// paidHour is what was found for an hour.
type paidHour struct {
	price  map[string]nodeHour     // by node uid, of those that commitments cover in part or whole
	looked []commitment.Commitment // that the allocation looked at
	claims []commitment.Claim
	rest   []commitment.Balance
}

// nodeHour is the price of a node's hour under commitments.
type nodeHour struct {
	list, effective *fleet.Money
	source          string
}

// loadPaid returns nil when the tenant has no commitments in these hours. Otherwise the transaction holds the tenant's commitments until it
// ends, so that two clusters cannot claim the same hour.
func (w *CloseHour) loadPaid(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID, prices *commitment.Prices, from, to time.Time) (*paid, error) {
	some, err := store.Commitments(ctx, tx, from, to)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	if err := store.LockCommitments(ctx, tx); err != nil {
		return nil, err
	}
	all, err := store.Commitments(ctx, tx, from, to)
	if err != nil {
		return nil, err
	}
	p := &paid{cluster: cluster, prices: prices, refs: map[string]string{}, changed: map[string]time.Time{}, hours: map[time.Time]*paidHour{}}
	for _, c := range all {
		p.commitments = append(p.commitments, c.Commitment)
		p.refs[c.ID] = c.Ref
		p.changed[c.ID] = c.ChangedAt
	}
	if p.nodes, err = store.NodeLives(ctx, tx, from, to); err != nil {
		return nil, err
	}
	if p.settled, err = store.Claims(ctx, tx, from, to); err != nil {
		return nil, err
	}
	if p.purchased, err = store.Purchases(ctx, tx, from, to); err != nil {
		return nil, err
	}
	if p.left, err = store.UnusedLines(ctx, tx, from, to); err != nil {
		return nil, err
	}
	p.unused, err = store.HourStates(ctx, tx, store.NoCluster, from, to)
	return p, err
}

// counting are the commitments that an hour may still use. What was changed since a cluster closed the hour does not count, and of an hour that this
// cluster has closed itself neither does what was written down since: what was used and unused of it then stays what was paid then.
func (p *paid) counting(hour time.Time) []commitment.Commitment {
	settled, purchased := p.settled[hour], p.purchased[hour]
	mine := slices.Contains(settled.Closed, p.cluster)
	if _, left := p.unused[hour]; mine && len(purchased) == 0 && (left || len(settled.Claims) > 0) {
		mine = false // it closed before payments were kept
	}
	var out []commitment.Commitment
	for _, c := range p.commitments {
		then, ok := purchased[c.ID]
		if ok && p.changed[c.ID].After(then.AsOf) || !ok && mine {
			continue
		}
		out = append(out, c)
	}
	return out
}

// allocate looks at one hour. frozen says which of the cluster's own nodes have their price for good.
func (p *paid) allocate(d dueHour, frozen func(node string) bool) *paidHour {
	settled := p.settled[d.from]
	var running []commitment.Node
	for _, n := range p.nodes {
		switch {
		case !within(n.Life, d):
		case n.Cluster == p.cluster && frozen(n.UID), n.Cluster != p.cluster && slices.Contains(settled.Closed, n.Cluster):
		default:
			running = append(running, n)
		}
	}
	counting := p.counting(d.from)
	in := commitment.HourInput(fleet.Interval{From: d.from, To: d.to}, running, counting, p.prices)
	in.Claims = settled.Claims
	s := commitment.Allocate(in)
	h := &paidHour{price: map[string]nodeHour{}, looked: counting, rest: s.Balances}
	costs := map[string]*nodeCost{}
	for _, r := range slices.Concat(s.Covered, s.Remainder) {
		if r.Cluster == p.cluster && r.Held == "" {
			c := costs[r.Node]
			if c == nil {
				c = &nodeCost{known: true}
				costs[r.Node] = c
			}
			c.add(r, p.refs)
		}
	}
	unpriced := map[string]fleet.Money{} // used by machines whose hour has no price all the same
	for _, u := range in.Usage {
		c := costs[u.Node]
		if u.Cluster != p.cluster || c == nil || len(c.claims) == 0 {
			continue
		}
		if !c.known {
			for _, claim := range c.claims {
				unpriced[claim.Commitment] = unpriced[claim.Commitment].Add(claim.Amount)
			}
			continue
		}
		// A price per hour that, over the time it ran, gives back the amount to the nano-unit.
		ms := fleet.Interval{From: u.Running.From, To: ended(u.Running, d)}.Overlap(fleet.Interval{From: d.from, To: d.to}).Milliseconds()
		if ms == 0 {
			continue
		}
		rate := c.amount.MulDiv(time.Hour.Milliseconds(), ms)
		h.price[u.Node] = nodeHour{list: u.List, effective: &rate, source: c.source()}
		h.claims = append(h.claims, c.claims...)
	}
	for i := range h.rest {
		h.rest[i].Unused = h.rest[i].Unused.Add(unpriced[h.rest[i].Commitment])
	}
	slices.SortFunc(h.claims, func(a, b commitment.Claim) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Commitment, b.Commitment), cmp.Compare(a.Resource, b.Resource))
	})
	p.hours[d.from] = h
	return h
}

func ended(life fleet.Interval, d dueHour) time.Time {
	if life.To.IsZero() {
		return d.to
	}
	return life.To
}

// nodeCost adds up one node's rows.
type nodeCost struct {
	amount fleet.Money
	known  bool
	claims []commitment.Claim
	names  []string
}

func (c *nodeCost) add(r commitment.Row, refs map[string]string) {
	if r.Amount == nil {
		c.known = false
		return
	}
	c.amount = c.amount.Add(*r.Amount)
	if r.Commitment == "" {
		c.names = append(c.names, "list")
		return
	}
	c.claims = append(c.claims, commitment.Claim{Cluster: r.Cluster, Node: r.Node, Commitment: r.Commitment, Resource: r.Resource, Units: r.Units, Taken: r.Taken, Amount: *r.Amount})
	c.names = append(c.names, refs[r.Commitment])
}

// maxSource bounds how many names the source of a price holds.
const maxSource = 4

func (c *nodeCost) source() string {
	slices.Sort(c.names)
	names := slices.Compact(c.names)
	more := ""
	if len(names) > maxSource {
		names, more = names[:maxSource], " ..."
	}
	return "commitment " + strings.Join(names, ", ") + more
}

// save keeps what closed hours took and left. What an hour left is written when a cluster closes it, and again when a late machine takes
// some of it: a commitment that is bought, changed or deleted later does not reach back.
func (p *paid) save(ctx context.Context, tx *store.Tx, due []dueHour) error {
	var costed []store.CostedHour
	for _, d := range due {
		h := p.hours[d.from]
		if !d.final || h == nil {
			continue
		}
		if err := store.SaveClaims(ctx, tx, d.from, h.claims); err != nil {
			return err
		}
		was, ok := p.unused[d.from]
		if slices.Contains(p.settled[d.from].Closed, p.cluster) && (!ok || len(h.claims) == 0) {
			continue
		}
		if err := store.SavePurchases(ctx, tx, d.from, h.purchases(d)); err != nil {
			return err
		}
		c := store.CostedHour{Hour: d.from, Statement: unusedStatement(h.rest, p.left[d.from])}
		c.ContentHash = contentHash(c.Statement)
		if !ok && len(c.Statement.Lines) == 0 || ok && slices.Equal(was.ContentHash, c.ContentHash) {
			continue
		}
		c.Version = was.Version + 1
		costed = append(costed, c)
	}
	if err := store.SaveCosting(ctx, tx, store.NoCluster, costed); err != nil {
		return fmt.Errorf("unused commitments: %w", err)
	}
	return nil
}

// purchases are what was paid in the hour for the commitments that it looked at.
func (h *paidHour) purchases(d dueHour) (all []store.Purchase) {
	span := fleet.Interval{From: d.from, To: d.from.Add(time.Hour)}
	for i := range h.looked {
		c := &h.looked[i]
		ms := int64(c.Active(span) / time.Millisecond)
		if ms <= 0 {
			continue
		}
		p := store.Purchase{Commitment: c.ID, Bought: c.Bought(span), Millis: ms, Quantity: c.Quantity, Team: c.Owner}
		p.Upfront, p.Recurring = c.Paid(span)
		all = append(all, p)
	}
	return all
}

// unusedStatement charges what nobody used to the team that owns it. before is what an earlier version of the hour had, by commitment: of those that
// the allocation did not look at it stays.
func unusedStatement(rest []commitment.Balance, before map[string]ledger.CostLine) (s ledger.Statement) {
	looked := map[string]bool{}
	for _, b := range rest {
		looked[b.Commitment] = true
		if b.Unused <= 0 {
			continue
		}
		hours := float64(b.Millis) / float64(time.Hour.Milliseconds())
		if b.BoughtUnits > 0 {
			hours *= float64(b.BoughtUnits-b.UsedUnits) / float64(b.BoughtUnits)
		} else if b.Bought > 0 {
			hours *= b.Unused.Float() / b.Bought.Float()
		}
		s.Lines = append(s.Lines, ledger.CostLine{Node: b.Commitment, Row: ledger.Row{Kind: ledger.KindUnused, Resource: ledger.ResourceCommitment,
			Purchase: fleet.PurchaseReserved, Owner: ledger.Owner{Team: b.Owner}, Amount: b.Unused, Quantity: hours}})
	}
	for id, l := range before {
		if !looked[id] {
			s.Lines = append(s.Lines, l)
		}
	}
	slices.SortFunc(s.Lines, func(a, b ledger.CostLine) int { return cmp.Compare(a.Node, b.Node) })
	for _, l := range s.Lines {
		s.NodeCost = s.NodeCost.Add(l.Amount)
	}
	return s
}
