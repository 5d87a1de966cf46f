package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// maxReservedCandidates bounds the reservations that one plan looks at.
const maxReservedCandidates = 500

// reserved adds what the tenant's accounts have reserved to the candidates, where the cluster's plans are carried out through Karpenter and reservations are
// named to it by a label: a machine in a reservation that is paid for, used or not, costs nothing more. It is called after offerings.
func (c *capacityInput) reserved(ctx context.Context, tx *Tx) error {
	policy, err := KarpenterPolicyOf(ctx, tx, c.in.Cluster)
	if err != nil || !policy.Enabled || policy.ReservationKey == "" {
		return err
	}
	stocks, err := CapacityStocks(ctx, tx)
	if err != nil {
		return err
	}
	c.in.Candidates = withReserved(&c.in, stocks, func(o fleet.Offering) availability.Score { return c.model.Score(o, c.in.Now) })
	for i := range c.in.Nodes {
		if n := &c.in.Nodes[i]; n.Offering.Purchase == fleet.PurchaseReserved && n.Price == nil { // the reservation is paid for, and letting the machine go saves nothing
			n.Price, n.Saves = new(fleet.Money), new(fleet.Money)
		}
	}
	return nil
}

// inForce are the clouds' words for a reservation that holds machines now: EC2's, Azure's provisioning state, Compute Engine's.
var inForce = []string{"active", "succeeded", "ready"}

// withReserved are the candidates with a reserved one for each type and zone of which a reservation that is in force has machines left. It is made of the
// one on demand: a type or zone that may not be bought is not used because it is reserved.
func withReserved(in *capacity.Input, stocks []CapacityStock, score func(fleet.Offering) availability.Score) []capacity.Candidate {
	left, total, refs := map[fleet.Offering]int64{}, map[fleet.Offering]int64{}, map[fleet.Offering][]string{}
	for i := range stocks {
		s := &stocks[i]
		if !slices.Contains(inForce, strings.ToLower(s.State)) || s.From != nil && s.From.After(in.Now) || s.To != nil && !s.To.After(in.Now) {
			continue
		}
		free := s.Total
		if s.Available != nil {
			free = min(free, *s.Available)
		}
		o := fleet.Offering{Cloud: s.Cloud, Region: s.Region, Zone: s.Zone, InstanceType: s.InstanceType, Purchase: fleet.PurchaseReserved}
		if slices.Contains(refs[o], s.Ref) {
			continue
		}
		left[o] += max(free, 0)
		total[o] += s.Total
		refs[o] = append(refs[o], s.Ref)
	}
	runs := map[fleet.Offering]int64{}
	for i := range in.Nodes {
		runs[in.Nodes[i].Offering]++
	}
	out := slices.Clone(in.Candidates)
	for i := range in.Candidates {
		c := in.Candidates[i]
		if c.Offering.Purchase != fleet.PurchaseOnDemand || len(out)-len(in.Candidates) >= maxReservedCandidates || len(out) >= capacity.MaxCandidates {
			continue
		}
		if c.Offering.Purchase = fleet.PurchaseReserved; len(refs[c.Offering]) == 0 {
			continue
		}
		n, paid := max(min(left[c.Offering], total[c.Offering]-runs[c.Offering]), 0), fleet.Money(1) // the least price that is not unknown
		slices.Sort(refs[c.Offering])
		c.Price, c.Stock, c.Reservation, c.HazardMilli = &paid, &n, strings.Join(refs[c.Offering], ","), 0
		c.StockOutMilli, c.BackoffUntil = 0, time.Time{}
		if s := score(c.Offering); s.BackoffUntil.After(in.Now) {
			c.BackoffUntil = s.BackoffUntil.UTC()
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b capacity.Candidate) int { return compareOfferings(a.Offering, b.Offering) })
	return out
}
