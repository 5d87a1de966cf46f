package capacity

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// maxTries bounds how many machines one pass looks at.
const maxTries = 400

// improve lets machines go, and exchanges them, until nothing more is worth its churn.
func (d *planner) improve() {
	for range 64 {
		if d.stopped || !d.pass() {
			return
		}
	}
}

// pass tries every machine once: empty ones, then Spot, then on demand, each for room elsewhere; then each for a cheaper offering.
func (d *planner) pass() bool {
	changed := false
	order := d.movable()
	for _, h := range order {
		if d.enough() {
			return changed
		}
		if d.shrink(h) {
			changed = true
		}
	}
	for _, h := range order {
		if d.enough() {
			return changed
		}
		if !h.gone && d.exchange(h) {
			changed = true
		}
	}
	return changed
}

// movable are the machines that may go: those with nothing on them first, Spot before on demand, then by what they save.
func (d *planner) movable() []*host {
	var out []*host
	for _, h := range d.hosts {
		if !h.gone && h.fixed == "" {
			out = append(out, h)
		}
	}
	rank := func(h *host) int {
		switch {
		case len(h.pods) == 0:
			return 0
		case h.offering.Purchase == fleet.PurchaseSpot:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(a, b *host) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(b.weighed, a.weighed))
	})
	return out[:min(len(out), maxTries)]
}

// saving is what a machine's going saves per hour; of one that is only planned its price.
func (h *host) saving() fleet.Money {
	if h.isNew() {
		return h.price
	}
	return min(h.saves, h.price)
}

// churnOf is what moving pods costs once, with so many machine-hours running double.
func (d *planner) churnOf(h *host, pods []int, double fleet.Money) fleet.Money {
	if h.isNew() {
		return 0 // nothing runs there yet
	}
	moves := d.in.Policy.MoveCost.MulDiv(int64(len(pods)), 1)
	return moves.Add(double.MulDiv(d.startSeconds(), 3600)).Add(d.lostWork(h, pods))
}

// startSeconds is from a request until a pod on the new machine is ready, with a default where nobody saw one.
func (d *planner) startSeconds() int64 {
	n, p := d.in.NodeStart, d.in.PodStart
	if n == 0 {
		n = defaultNodeStart
	}
	if p == 0 {
		p = defaultPodStart
	}
	return n + p + d.in.Policy.RampSec
}

const (
	defaultNodeStart = 180
	defaultPodStart  = 120
)

// mayMove tells whether as many pods of their workloads may move in this plan.
func (d *planner) mayMove(h *host, pods []int) bool {
	if h.isNew() {
		return true
	}
	more, limits := map[string]int{}, map[int]int64{}
	for _, i := range pods {
		p := &d.in.Pods[i]
		if p.Protected != "" {
			return false
		}
		more[p.Workload]++
		if p.Limit > 0 {
			if limits[p.Limit]++; d.evicted[p.Limit]+limits[p.Limit] > d.in.Limits[p.Limit-1].Allowed {
				return false
			}
		}
		if d.moved[p.Workload]+more[p.Workload] > max(1, d.has[p.Workload]*int(d.in.Policy.MaxMovedMilli)/1000) {
			return false
		}
	}
	return true
}

// pays tells whether a saving per hour beats a churn within the horizon.
func (d *planner) pays(saving, churn fleet.Money) bool {
	return saving > 0 && saving.MulDiv(d.in.Policy.HorizonHours, 1) > churn
}

func (d *planner) let(h *host, why Why, saving, churn fleet.Money) {
	h.gone, h.why, h.moved = true, why, h.pods
	h.saves, h.churn = saving, churn
	for _, i := range h.pods {
		if !h.isNew() {
			d.moved[d.in.Pods[i].Workload]++
			d.evicted[d.in.Pods[i].Limit]++
		}
	}
	h.pods = nil
	if h.isNew() { // never bought
		d.bought[h.cand]--
		d.left.nodes++
		d.left.gpus += h.gpus
		if d.left.hour != nil {
			rest := d.left.hour.Add(h.price)
			d.left.hour = &rest
		}
		d.actions--
		return
	}
	d.actions++
}

// full tells whether the plan may do no more, and notes it.
func (d *planner) full(n int) bool {
	if d.actions+n <= d.in.Policy.MaxActions {
		return false
	}
	d.note(HoldActions)
	return true
}

// shrink does without a machine if its pods fit on others.
func (d *planner) shrink(h *host) bool {
	saving := h.saving()
	churn := d.churnOf(h, h.pods, 0)
	if !d.pays(saving, churn) || !d.mayMove(h, h.pods) {
		return false
	}
	h.open = false
	pods := slices.Clone(h.pods)
	d.largest(pods)
	var touched []*host
	for _, i := range pods {
		to := d.roomFor(i, h)
		if to != nil && len(to.pods) == 0 && !to.isNew() && to.fixed == "" {
			to = nil // one machine for another is an exchange
		}
		if to == nil {
			d.undo(h, pods, touched)
			return false
		}
		d.put(to, i)
		touched = append(touched, to)
	}
	if !h.isNew() && d.full(1) {
		d.undo(h, pods, touched)
		return false
	}
	for k, to := range touched {
		d.receives(to, pods[k])
	}
	why := WhyConsolidate
	if len(pods) == 0 {
		why = WhyEmpty
	}
	d.let(h, why, saving, churn)
	return true
}

// undo takes pods back to a machine that stays.
func (d *planner) undo(h *host, pods []int, touched []*host) {
	for k := len(touched) - 1; k >= 0; k-- {
		to := touched[k]
		to.pods = to.pods[:len(to.pods)-1]
		d.at[pods[k]] = h
		d.fill(to)
	}
	for _, i := range pods {
		d.at[i] = h
	}
	h.open = true
}

// exchange replaces a machine by a cheaper one for the same pods. Never the same type bought in the same way, and never on demand for Spot.
func (d *planner) exchange(h *host) bool {
	if len(h.pods) == 0 || h.bid || !d.mayMove(h, h.pods) {
		return false
	}
	best, zoned := -1, d.bound && d.zoned(h.pods)
	next, asked, has := -1, false, false
	for c := range d.kinds {
		k := &d.kinds[c]
		if !k.known || k.price >= h.saving() || k.weighed >= h.weighed || best >= 0 && k.weighed >= d.kinds[best].weighed || h.same(k) || d.buyable(c) != "" || !d.affords(c) || zoned && k.offering.Zone != h.offering.Zone {
			continue
		}
		saving := min(h.saving()-k.price, h.weighed-k.weighed)
		if !d.pays(saving, d.churnOf(h, h.pods, h.price)) || d.holdsAll(c, h.pods) != "" {
			continue
		}
		if d.in.Candidates[c].Belief != nil {
			if !asked {
				next, has = d.nextPool(h.pods)
				asked = true
			}
			if has && c != next {
				continue
			}
		}
		best = c
	}
	if best < 0 || !h.isNew() && d.full(2) {
		return false
	}
	k := &d.kinds[best]
	why := WhyReplace
	if h.offering.Purchase == fleet.PurchaseOnDemand && k.offering.Purchase == fleet.PurchaseSpot {
		why = WhyReturn
	}
	saving, churn := min(h.saving()-k.price, h.weighed-k.weighed), d.churnOf(h, h.pods, h.price)
	pods := slices.Clone(h.pods)
	d.let(h, why, saving, churn)
	if h.isNew() {
		why = h.origin()
	}
	to := d.add(best, why)
	for _, i := range pods {
		d.put(to, i)
	}
	if !h.isNew() {
		h.heir, to.fixed = to, "receives"
	}
	return true
}

// receives keeps a machine that a pod goes to out of what else the plan may do: nothing moves twice.
func (d *planner) receives(h *host, pod int) {
	if h.fixed == "" && (!h.isNew() || d.in.Pods[pod].Node != "") {
		h.fixed, h.by = "receives", d.in.Pods[pod].Name
	}
}

// same tells whether an offering is what the machine is already: a copy in another zone is no gain that lasts.
func (h *host) same(k *kind) bool {
	if h.isNew() {
		return h.offering == k.offering
	}
	if h.offering.Purchase == fleet.PurchaseSpot && k.offering.Purchase != fleet.PurchaseSpot {
		return true
	}
	return h.offering.InstanceType == k.offering.InstanceType && h.offering.Purchase == k.offering.Purchase
}

// origin is why a new machine was to be bought before it was exchanged on paper.
func (h *host) origin() Why {
	if h.why == WhyReplace || h.why == WhyReturn {
		return WhyPending
	}
	return h.why
}
