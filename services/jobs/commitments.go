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
	changed     map[string]time.Time                    // when each commitment was last changed, by our clock
	purchased   map[time.Time]map[string]store.Purchase // of hours that closed
	released    map[time.Time][]store.Release
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
	if err != nil {
		return nil, err
	}
	if len(some) == 0 { // what is deleted was paid for all the same
		if paid, err := store.Purchases(ctx, tx, from, to); err != nil || len(paid) == 0 {
			return nil, err
		}
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
	if p.released, err = store.Releases(ctx, tx, from, to); err != nil {
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
// some of it or a late end gives some back: a commitment that is bought, changed or deleted later does not reach back.
func (p *paid) save(ctx context.Context, tx *store.Tx, due []dueHour, mine []store.CostedHour) error {
	byHour := make(map[time.Time]*store.CostedHour, len(mine))
	for i := range mine {
		byHour[mine[i].Hour] = &mine[i]
	}
	var costed []store.CostedHour
	for _, d := range due {
		h := p.hours[d.from]
		if !d.final || h == nil {
			continue
		}
		if err := store.SaveClaims(ctx, tx, d.from, h.claims); err != nil {
			return err
		}
		before, after := p.released[d.from], p.releases(d.from, byHour[d.from])
		given := !slices.Equal(before, after)
		if given {
			if err := store.SaveReleases(ctx, tx, p.cluster, d.from, slices.DeleteFunc(slices.Clone(after), func(r store.Release) bool { return r.Cluster != p.cluster })); err != nil {
				return err
			}
		}
		if slices.Contains(p.settled[d.from].Closed, p.cluster) && len(h.claims) == 0 && !given {
			continue
		}
		if err := store.SavePurchases(ctx, tx, d.from, h.purchases(d)); err != nil {
			return err
		}
		c := store.CostedHour{Hour: d.from, Statement: p.unusedStatement(d.from, h, after)}
		c.ContentHash = contentHash(c.Statement)
		was, ok := p.unused[d.from]
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

// releases are what claims of the hour say beyond what their machines cost now, of all clusters; c is the hour as this cluster has costed it,
// nil: as before. At a bill's prices a machine keeps what it gave back or did not.
func (p *paid) releases(hour time.Time, c *store.CostedHour) []store.Release {
	before := p.released[hour]
	if c == nil {
		return before
	}
	cost, billed := map[string]fleet.Money{}, map[string]bool{}
	for _, l := range c.Statement.Lines {
		cost[l.Node] = cost[l.Node].Add(l.Amount)
	}
	for _, n := range c.Prices {
		billed[n.Node] = n.Source == "bill"
	}
	var out []store.Release
	for _, r := range before {
		if r.Cluster != p.cluster || billed[r.Node] {
			out = append(out, r)
		}
	}
	byNode := map[string][]commitment.Claim{}
	for _, claim := range p.settled[hour].Claims {
		if claim.Cluster == p.cluster && !billed[claim.Node] {
			byNode[claim.Node] = append(byNode[claim.Node], claim)
		}
	}
	for node, claims := range byNode {
		weights := make([]int64, len(claims))
		var claimed fleet.Money
		for i, claim := range claims {
			weights[i], claimed = int64(claim.Amount), claimed.Add(claim.Amount)
		}
		parts, _ := max(claimed.Add(-cost[node]), 0).Split(weights)
		for i, claim := range claims {
			if parts[i] > 0 {
				out = append(out, store.Release{Cluster: p.cluster, Node: node, Commitment: claim.Commitment, Resource: claim.Resource, Amount: parts[i]})
			}
		}
	}
	slices.SortFunc(out, func(a, b store.Release) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Commitment, b.Commitment), cmp.Compare(a.Resource, b.Resource))
	})
	return out
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

// unusedStatement charges what nobody used to the team that owns it. Of commitments that the allocation did not look at it is what was bought less what
// was claimed, or, of hours that closed before purchases were kept, what it was.
func (p *paid) unusedStatement(hour time.Time, h *paidHour, released []store.Release) (s ledger.Statement) {
	given, claimed := map[string]fleet.Money{}, map[string]fleet.Money{}
	for _, r := range released {
		given[r.Commitment] = given[r.Commitment].Add(r.Amount)
	}
	for _, c := range p.settled[hour].Claims {
		claimed[c.Commitment] = claimed[c.Commitment].Add(c.Amount)
	}
	add := func(id, team string, amount fleet.Money, hours float64) {
		if amount > 0 {
			s.Lines = append(s.Lines, ledger.CostLine{Node: id, Row: ledger.Row{Kind: ledger.KindUnused, Resource: ledger.ResourceCommitment,
				Purchase: fleet.PurchaseReserved, Owner: ledger.Owner{Team: team}, Amount: amount, Quantity: hours}, Views: ledger.Views{List: amount, Contracted: amount}})
		}
	}
	part := func(amount, bought fleet.Money, ms int64) float64 {
		return float64(ms) / float64(time.Hour.Milliseconds()) * amount.Float() / bought.Float()
	}
	looked := map[string]bool{}
	for _, b := range h.rest {
		looked[b.Commitment] = true
		amount := b.Unused.Add(given[b.Commitment])
		if amount <= 0 {
			continue
		}
		hours := float64(b.Millis) / float64(time.Hour.Milliseconds())
		if b.BoughtUnits > 0 && amount == b.Unused {
			hours *= float64(b.BoughtUnits-b.UsedUnits) / float64(b.BoughtUnits)
		} else if b.Bought > 0 {
			hours = part(amount, b.Bought, b.Millis)
		}
		add(b.Commitment, b.Owner, amount, hours)
	}
	for id, then := range p.purchased[hour] {
		if !looked[id] && then.Bought > 0 {
			looked[id] = true
			amount := then.Bought.Add(-claimed[id]).Add(given[id])
			add(id, then.Team, amount, part(amount, then.Bought, then.Millis))
		}
	}
	for id, l := range p.left[hour] {
		if !looked[id] {
			add(id, l.Owner.Team, l.Amount, l.Quantity)
		}
	}
	slices.SortFunc(s.Lines, func(a, b ledger.CostLine) int { return cmp.Compare(a.Node, b.Node) })
	for _, l := range s.Lines {
		s.NodeCost = s.NodeCost.Add(l.Amount)
	}
	return s
}
