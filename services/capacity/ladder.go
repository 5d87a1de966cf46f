package capacity

import (
	"cmp"
	"math"
	"slices"

	"plimsoll.dev/services/fleet"
)

const (
	maxAlternatives = 6
	maxRungs        = 8
	retrySeconds    = 120 // until a ladder is tried again from its first rung
)

// alternatives are the other offerings that were looked at for pods, cheapest first: of those that hold them, and of the cheaper ones
// the reason why they do not.
func (d *planner) alternatives(own fleet.Offering, pods []int, price fleet.Money) []Alternative {
	type option struct {
		c   int
		why string
	}
	type sort struct { // one zone of each is enough to compare
		name     string
		purchase fleet.Purchase
	}
	var fits, not []option
	seen := map[sort]bool{}
	for _, c := range d.byWeight {
		k := &d.kinds[c]
		s := sort{k.offering.InstanceType, k.offering.Purchase}
		if s.name == own.InstanceType && s.purchase == own.Purchase || seen[s] || len(fits) >= maxAlternatives || d.in.Policy.NoSpot && k.offering.Purchase == fleet.PurchaseSpot {
			continue
		}
		why := d.holdsAll(c, pods)
		switch {
		case why == "" && d.buyable(c) == "":
			fits, seen[s] = append(fits, option{c, "dearer"}), true
		case why == "" && len(not) < maxAlternatives/2:
			not, seen[s] = append(not, option{c, d.buyable(c)}), true
		case why == "spot" && k.weighed < price && len(not) < maxAlternatives/2 && d.holdsButSpot(c, pods):
			not, seen[s] = append(not, option{c, why}), true
		}
	}
	all := slices.Concat(not[:min(len(not), maxAlternatives/2)], fits)
	out := []Alternative{}
	for _, o := range all[:min(len(all), maxAlternatives)] {
		k := &d.kinds[o.c]
		a := Alternative{Offering: k.offering, WhyNot: o.why}
		if k.known {
			a.Price, a.Weighed = &k.price, &k.weighed
			if o.why == "dearer" && k.weighed < price {
				a.WhyNot = "cap"
			}
		}
		out = append(out, a)
	}
	return out
}

// holdsButSpot tells whether only Spot keeps pods from an offering.
func (d *planner) holdsButSpot(c int, pods []int) bool {
	own := d.kinds[c]
	d.kinds[c].offering.Purchase = fleet.PurchaseOnDemand
	ok := d.holdsAll(c, pods) == ""
	d.kinds[c] = own
	return ok
}

// ladder is what to ask for, in order, when an offering cannot be had: another zone, a type with the same GPUs, on demand here, on
// demand elsewhere, a smaller type.
func (d *planner) ladder(c int, pods []int) []Rung {
	own := d.kinds[c]
	by := map[Step][]int{}
	for _, o := range d.byWeight {
		k := &d.kinds[o]
		if o == c || !k.known || d.in.Policy.NoSpot && k.offering.Purchase == fleet.PurchaseSpot {
			continue
		}
		step := stepOf(&own, k)
		if step == "" || len(by[step]) >= 3 {
			continue
		}
		why := d.holdsAll(o, pods)
		if why == "size" && len(pods) > 1 && k.gpus <= own.gpus && d.holdsAll(o, pods[:1]) == "" {
			step, why = StepSmaller, ""
			if len(by[step]) >= 3 {
				continue
			}
		}
		if why == "" {
			by[step] = append(by[step], o)
		}
	}
	out := []Rung{}
	for _, step := range []Step{StepZone, StepEquivalent, StepOnDemand, StepElsewhere, StepSmaller} {
		for _, o := range by[step][:min(len(by[step]), 2)] {
			cand := &d.in.Candidates[o]
			out = append(out, Rung{Step: step, Offering: cand.Offering, Price: *cand.Price, StockOutMilli: cand.StockOutMilli, BackoffUntil: cand.BackoffUntil})
		}
	}
	return out[:min(len(out), maxRungs)]
}

func stepOf(own, k *kind) Step {
	same := own.offering.InstanceType == k.offering.InstanceType
	way := own.offering.Purchase == k.offering.Purchase
	onDemand := k.offering.Purchase == fleet.PurchaseOnDemand
	switch {
	case same && way:
		return StepZone
	case way && k.model == own.model:
		return StepEquivalent
	case onDemand && own.offering.Zone == k.offering.Zone && k.model == own.model:
		return StepOnDemand
	case onDemand && k.model == own.model:
		return StepElsewhere
	}
	return ""
}

// arrival estimates when pods on a new machine are ready: the mean over what may happen on the ladder, the start of the machine and of the pod.
func (d *planner) arrival(c int, ladder []Rung) ExpectedArrival {
	first := 1 - float64(d.in.Candidates[c].StockOutMilli)/1000
	none, wait := 1-first, 0.0
	for _, r := range ladder {
		if r.BackoffUntil.After(d.in.Now) {
			continue
		}
		wait += none * askSeconds // each failed request takes a while to be told
		none *= float64(r.StockOutMilli) / 1000
	}
	if none > 0 && none < 1 {
		wait += none / (1 - none) * retrySeconds
	}
	out := ExpectedArrival{FirstMilli: int64(math.Round(first * 1000)), LadderMill: int64(math.Round((1 - none) * 1000))}
	if none < 1 && d.in.NodeStart+d.in.PodStart > 0 {
		out.Seconds = min(int64(wait)+d.startSeconds()-d.in.Policy.RampSec, 86_400)
	}
	return out
}

const askSeconds = 20

// weightOrder sorts candidates by weighed price, unknown ones last.
func (d *planner) weightOrder() {
	d.byWeight = make([]int, len(d.kinds))
	for c := range d.kinds {
		d.byWeight[c] = c
	}
	slices.SortStableFunc(d.byWeight, func(a, b int) int {
		x, y := &d.kinds[a], &d.kinds[b]
		if x.known != y.known {
			if x.known {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.weighed, y.weighed)
	})
}
