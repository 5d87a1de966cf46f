package karpenter

import (
	"slices"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Exchange marks machines to end whose pods a cheaper machine would hold, where it saves more per hour than moving costs per pod: back to
// Spot after a stock-out, back from what the pool for the rest had bought. The cheaper machines are added to New, the pools of the others
// opened for as many at a time. It returns how many.
func (in *Input) Exchange(moving fleet.Money, s Settings) int {
	st := newStage(in, s, nil)
	bought := map[int]int64{}
	n := 0
	for k := range in.Running {
		m := &in.Running[k]
		if m.Ends || len(m.Pods) == 0 {
			continue
		}
		best := -1
		for j := range in.Offerings {
			o := &in.Offerings[j]
			if !in.usable(j) || o.Purchase == fleet.PurchaseReserved || o.Stock != nil && *o.Stock-in.runs(j) <= bought[j] {
				continue
			}
			if (best < 0 || in.price(j) < in.price(best)) && st.holds(m.Pods, o, j) {
				best = j
			}
		}
		cost := moving.MulDiv(int64(len(m.Pods)), 1)
		if best < 0 || in.price(best).Add(cost) >= in.price(m.Offering) {
			continue
		}
		bought[best]++
		m.Ends = true
		in.New = append(in.New, packing.Node{Offering: best, Pods: m.Pods})
		in.OpenFor(m.Pool)
		n++
	}
	return n
}

// OpenFor lets Karpenter consolidate one machine more of a pool at a time.
func (in *Input) OpenFor(pool string) {
	if at := slices.Index(in.Open, pool); at >= 0 {
		in.Shares[at]++
		return
	}
	in.Open, in.Shares = append(in.Open, pool), append(in.Shares, 1)
}

// holds says whether an empty machine of an offering would hold all of the pods.
func (st *stage) holds(pods []int, o *packing.Offering, j int) bool {
	r := empty(o, j)
	for _, i := range pods {
		q := &st.in.Pods[i]
		if !st.allows(q, o) || !r.has(q) {
			return false
		}
		r.take(q)
	}
	return true
}
