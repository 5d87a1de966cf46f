package packing

import (
	"math/big"

	"plimsoll.dev/services/fleet"
)

// why tells what keeps a pod from the machines.
func (s *seating) why(pod int) []Reason {
	k, r := s.shapeOf(pod), s.x.pods[pod].Rules
	out := s.x.p.leftOver(k)
	switch {
	case r == nil:
	case r.Gang != "":
		out = append(out, Reason{Constraint: ConstraintGang, Detail: r.Gang})
	case s.zoned[k]:
		seen := map[Reason]bool{}
		for zone, ok := range s.z.elig[k] {
			if why, may := s.z.may(k, zone); ok && !may && !seen[why] {
				seen[why] = true
				out = append(out, why)
			}
		}
	}
	if w := s.loadOf(pod); w >= 0 && r.Gang == "" {
		out = append(out, Reason{Constraint: ConstraintPoolMost, Detail: r.Workload})
	}
	return out
}

// boundOf bounds an answer that leaves pods out: what the rules fix of their workloads holds only where all pods are placed.
func (s *seating) boundOf(a *Answer) {
	x := s.x
	pin := x.bare()
	if pin == nil {
		pin = make([]int32, len(x.pods))
	}
	loose := map[int]bool{}
	for _, u := range a.Unplaced {
		pin[u.Pod] = -1
		if k := s.shapeOf(u.Pod); k >= 0 {
			loose[k] = true
		}
	}
	c := &crowd{kind: s.kind}
	for _, h := range s.heads {
		h.max = h.sum(loose)
		c.heads = append(c.heads, h)
	}
	if x.bound = s.boundFor(pin, c); x.bound.Float() > 0.97*a.Weighed.Float() || x.opts.quick || x.stop() {
		return
	}
	opts := x.opts
	opts.Effort, opts.program = 1, true
	p := newCrowded(s.plain, x.given, opts, pin, nil, c)
	b := newSolver(p)
	b.warm(s.proved)
	b.solve()
	if b.program != nil {
		b.prove(b.program.lp, b.program.r, b.duals)
	}
	n := make([]int64, len(p.shapes))
	for i := range n {
		n[i] = p.shapes[i].count
	}
	x.bound = b.proof.bound(n)
}

// boundFor is what the proof of all pods says of those that are left, with other heads.
func (s *seating) boundFor(pin []int32, c *crowd) fleet.Money {
	p := s.proved.p
	left := make([]int64, len(p.shapes))
	for i := range p.shapes {
		for _, pod := range p.shapes[i].pods {
			if pin[pod] >= 0 {
				left[i]++
			}
		}
	}
	pr := s.proved.proof
	pr.charge = s.proved.charge()
	for h, v := range pr.tolls {
		pr.charge.Add(pr.charge, new(big.Int).Mul(big.NewInt(v), big.NewInt(c.heads[h].max)))
	}
	return pr.bound(left)
}

// proof says of each shape under all its rules what the proof of the kinds says. A kind's value holds for at most so many pods on a
// machine as were in the first packing; its shapes share them.
func (s *seating) proof() *Proof {
	p, pr := s.proved.p, &s.proved.proof
	out := &Proof{values: make(map[string]worth, len(s.x.p.shapes)), charge: s.proved.charge(), offerings: p.fingerprint()}
	left := map[int]worth{}
	for i := range p.shapes {
		k, w := s.kind[p.shapes[i].pods[0]], worth{pr.count[i], pr.value[i]}
		for _, h := range p.shapes[i].heads { // what heads charge depends on the workloads: without them a pod is worth less
			w.value = max(0, w.value-pr.tolls[h])
		}
		if o, ok := left[k]; ok {
			w = worth{min(w.count, o.count), min(w.value, o.value)}
		}
		left[k] = w
	}
	for i := range s.x.p.shapes {
		t := &s.x.p.shapes[i]
		w := left[s.kind[t.pods[0]]]
		n := min(w.count, t.count)
		out.values[t.key] = worth{n, w.value}
		left[s.kind[t.pods[0]]] = worth{w.count - n, w.value}
	}
	return out
}

// charge is what a proof charges for limits and stock, the heads left out.
func (s *solver) charge() *big.Int {
	sum, t := new(big.Int).Set(s.proof.charge), new(big.Int)
	for h, v := range s.proof.tolls {
		sum.Sub(sum, t.Mul(big.NewInt(v), big.NewInt(s.p.heads[h].max)))
	}
	return sum
}

// weigh is what machines cost, as they are chosen.
func (s *seating) weigh(nodes []int) fleet.Money {
	sum := fleet.Money(0)
	for _, n := range nodes {
		sum = sum.Add(s.x.given[s.seats[n].off].weighed())
	}
	return sum
}
