package packing

import (
	"strconv"
)

// wish is a pod that is packed anew: on one offering only, in one zone only, or anywhere (-1).
type wish struct{ pod, off, zone int }

// again takes machines apart and packs their pods and those of the wishes anew, under all rules. It takes what leaves fewer of the wishes
// out, or costs less, and returns the wishes without a place; nil and false if all stays as it was.
func (s *seating) again(which []int, extra []wish) ([]wish, bool) {
	sub := s.sub(which, extra)
	a := sub.solve()
	homeless := map[int]bool{}
	for _, u := range a.Unplaced {
		homeless[sub.of[u.Pod]] = true
	}
	var left []wish
	gangs := map[string]bool{}
	for _, w := range extra {
		if r := s.x.pods[w.pod].Rules; homeless[w.pod] && r != nil && r.Gang != "" {
			gangs[r.Gang] = true
		}
	}
	for _, w := range extra {
		r := s.x.pods[w.pod].Rules
		if homeless[w.pod] || (r != nil && gangs[r.Gang]) {
			homeless[w.pod] = true
			left = append(left, w)
		}
	}
	if len(homeless) > len(left) || (len(left) == len(extra) && len(extra) > 0) || (len(extra) == 0 && a.Weighed >= s.weigh(which)) {
		return nil, false
	}
	for n := range a.Nodes { // wishes of a gang that is left out go with it
		kept := a.Nodes[n].Pods[:0]
		for _, i := range a.Nodes[n].Pods {
			if !homeless[sub.of[i]] {
				kept = append(kept, sub.of[i])
			}
		}
		a.Nodes[n].Pods = kept
	}
	if !s.domains(which, a) {
		return nil, false
	}
	s.replace(which, a)
	return left, true
}

// replace puts machines in the place of others.
func (s *seating) replace(which []int, a *Answer) {
	for _, n := range which {
		for len(s.seats[n].pods) > 0 {
			s.up(s.seats[n].pods[len(s.seats[n].pods)-1])
		}
		s.seats[n].gone = true
	}
	for n := range a.Nodes {
		if len(a.Nodes[n].Pods) == 0 {
			continue
		}
		s.seats = append(s.seats, seat{off: a.Nodes[n].Offering})
		for _, i := range a.Nodes[n].Pods {
			s.sit(i, len(s.seats)-1)
		}
	}
}

// domains tells whether the gangs on new machines would still fit into one interconnect domain each.
func (s *seating) domains(which []int, a *Answer) bool {
	old := map[int]bool{}
	for _, n := range which {
		old[n] = true
	}
	now := map[string]map[int]bool{}
	for n := range a.Nodes {
		for _, i := range a.Nodes[n].Pods {
			if r := s.x.pods[i].Rules; r != nil && r.Gang != "" && s.x.given[a.Nodes[n].Offering].DomainNodes > 0 {
				if now[r.Gang] == nil {
					now[r.Gang] = map[int]bool{}
					for _, k := range s.gangs[r.Gang].pods {
						if at := s.at[k]; at >= 0 && !old[at] {
							now[r.Gang][at] = true
						}
					}
				}
				now[r.Gang][-1-n] = true
			}
		}
	}
	for name, on := range now {
		if int64(len(on)) > s.x.given[s.gangs[name].off].DomainNodes {
			return false
		}
	}
	return true
}

// sub is a packing problem of some pods: of is their place among all pods.
type sub struct {
	of    []int
	pods  []Pod
	pin   []int32
	pins  [][]bool
	given []Offering
	opts  Options
}

func (q *sub) solve() *Answer {
	s := newSolver(newPinned(q.pods, q.given, q.opts, q.pin, q.pins))
	s.solve()
	return s.answer()
}

// sub is the problem of packing the pods of machines and wishes anew beside all others: pods that zones bind stay in their zones, gangs
// on their offerings, and no pool gets more of a workload than it may.
func (s *seating) sub(which []int, extra []wish) *sub {
	q := &sub{pins: [][]bool{nil}, given: s.x.given, opts: s.x.opts}
	q.opts.quick, q.opts.hasty = true, true
	if s.scant {
		q.given, q.opts.Limits = s.x.lessOf(s.others(which), q.opts.Limits)
	}
	loads := map[int]int{} // pods of a load in the problem
	each := func(f func(pod, off, zone, from int)) {
		for _, n := range which {
			t := &s.seats[n]
			for _, i := range t.pods {
				off, zone := -1, -1
				if r := s.x.pods[i].Rules; r != nil && r.Gang != "" {
					off = t.off
				} else if s.zoned[s.shapeOf(i)] {
					zone = s.zone[t.off]
				}
				f(i, off, zone, s.pool[t.off])
			}
		}
		for _, w := range extra {
			f(w.pod, w.off, w.zone, -1)
		}
	}
	from := map[[2]int]int{} // of a load on a pool, in the machines that are taken apart
	each(func(pod, _, _, pool int) {
		if w := s.loadOf(pod); w >= 0 {
			loads[w]++
			from[[2]int{w, pool}]++
		}
	})
	units := s.units(extra)
	at := map[string]int32{}
	each(func(pod, off, zone, pool int) {
		w := s.loadOf(pod)
		key := strconv.Itoa(off) + " " + strconv.Itoa(zone)
		var pools func(k int) bool
		if w >= 0 {
			mine := units[pod]
			if key += " " + strconv.Itoa(w) + " " + strconv.Itoa(pool); mine != nil {
				key += " " + strconv.Itoa(pod)
			}
			pools = func(k int) bool {
				left := s.most[w] - s.held[[2]int{w, k}] + from[[2]int{w, k}] // beside the pods that are not in the problem
				return k == pool || mine[k] || left >= loads[w]
			}
		}
		id, ok := at[key]
		if !ok {
			set := make([]bool, len(s.x.given))
			for j := range set {
				set[j] = (off < 0 || j == off) && (zone < 0 || s.zone[j] == zone) && (pools == nil || pools(s.pool[j]))
			}
			id = int32(len(q.pins)) //nolint:gosec // bounded by maxPods
			q.pins, at[key] = append(q.pins, set), id
		}
		q.of = append(q.of, pod)
		q.pods = append(q.pods, s.x.pods[pod])
		q.pin = append(q.pin, id)
	})
	return q
}

// units shares what workloads may still have on each pool among their pods without a place: which pools each may use, whatever the others do.
func (s *seating) units(extra []wish) map[int]map[int]bool {
	byLoad := map[int][]wish{}
	for _, w := range extra {
		if l := s.loadOf(w.pod); l >= 0 {
			byLoad[l] = append(byLoad[l], w)
		}
	}
	if len(byLoad) == 0 {
		return nil
	}
	zone := map[int]int{} // of each pool
	for j := range s.x.given {
		zone[s.pool[j]] = s.zone[j]
	}
	out := map[int]map[int]bool{}
	for l, wishes := range byLoad {
		for _, w := range wishes {
			out[w.pod] = map[int]bool{}
		}
		for k := range len(zone) {
			for range s.most[l] - s.held[[2]int{l, k}] {
				least := -1
				for t, w := range wishes {
					if (w.zone >= 0 && w.zone != zone[k]) || out[w.pod][k] || !s.fits(s.kind[w.pod])[k] {
						continue
					}
					if least < 0 || len(out[w.pod]) < len(out[wishes[least].pod]) {
						least = t
					}
				}
				if least < 0 {
					break
				}
				out[wishes[least].pod][k] = true
			}
		}
	}
	return out
}

// others are all machines but some.
func (s *seating) others(which []int) []Node {
	out := map[int]bool{}
	for _, n := range which {
		out[n] = true
	}
	var nodes []Node
	for n := range s.seats {
		if t := &s.seats[n]; !t.gone && len(t.pods) > 0 && !out[n] {
			nodes = append(nodes, Node{Offering: t.off})
		}
	}
	return nodes
}
