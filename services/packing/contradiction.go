package packing

import (
	"sort"
	"strconv"
)

// contradiction is the smallest set of constraints, of at most three, that no offering meets together, although every one of them alone (every
// smaller set) is met by some offering; nil if there is none.
func (p *problem) contradiction(q *Pod) []Constraint {
	masks := map[uint32]bool{}
	for i := range p.given {
		m := uint32(0)
		for c, f := range p.fails(q, i) {
			if f {
				m |= 1 << c
			}
		}
		if m == 0 {
			return nil
		}
		masks[m] = true
	}
	if len(masks) == 0 {
		return nil
	}
	list := make([]uint32, 0, len(masks))
	for m := range masks {
		list = append(list, m)
	}
	sort.Slice(list, func(a, b int) bool { return list[a] < list[b] })
	hits := func(set uint32) bool {
		for _, m := range list {
			if m&set == 0 {
				return false
			}
		}
		return true
	}
	for a := range unary {
		if hits(1 << a) {
			return []Constraint{constraints[a]}
		}
	}
	for a := range unary {
		for b := a + 1; b < unary; b++ {
			if hits(1<<a | 1<<b) {
				return []Constraint{constraints[a], constraints[b]}
			}
		}
	}
	for a := range unary {
		for b := a + 1; b < unary; b++ {
			for c := b + 1; c < unary; c++ {
				if hits(1<<a | 1<<b | 1<<c) {
					return []Constraint{constraints[a], constraints[b], constraints[c]}
				}
			}
		}
	}
	return nil
}

// Contradictions are rules that no catalogue can satisfy, in words: terms that exclude each other, or that name pods which do not exist.
func Contradictions(pods []Pod) []string {
	labels, checked := map[string]int{}, map[*Rules]bool{nil: true}
	for i := range pods {
		if r := pods[i].Rules; r != nil {
			for _, l := range r.Labels {
				labels[l]++
			}
		}
	}
	var out []string
	for i := range pods {
		r := pods[i].Rules
		if checked[r] {
			continue
		}
		checked[r] = true
		name := r.Workload
		if name == "" {
			name = pods[i].Name
		}
		for _, s := range r.contradictions(labels) {
			out = append(out, name+": "+s)
		}
	}
	return out
}

func (r *Rules) contradictions(labels map[string]int) []string {
	var out []string
	for _, t := range r.Affinity {
		if labels[t.Label] == 0 {
			out = append(out, "affinity to "+t.Label+", but no pod has this label")
		}
		for _, a := range r.AntiAffinity {
			if a.Label == t.Label && (a == t || a.Topology == TopologyZone) && (!r.has(t.Label) || labels[t.Label] > 1) {
				out = append(out, "affinity and anti-affinity to "+t.Label+" exclude each other")
			}
		}
		for _, s := range r.Spread {
			if s.Label == t.Label && r.has(t.Label) && !s.Soft && s.Topology == t.Topology && int64(labels[t.Label]) > s.MaxSkew {
				out = append(out, "affinity wants all of "+t.Label+" in one "+string(t.Topology)+", the spread allows "+strconv.FormatInt(s.MaxSkew, 10)+" more there than elsewhere")
			}
		}
	}
	if r.Gang == "" {
		return out
	}
	if r.MaxPoolMilli > 0 {
		out = append(out, "a gang lies on one offering, at most "+strconv.FormatInt(r.MaxPoolMilli, 10)+" thousandths of the workload may")
	}
	for _, a := range r.AntiAffinity {
		if a.Topology == TopologyZone && r.has(a.Label) && labels[a.Label] > 1 {
			out = append(out, "a gang lies in one zone, the anti-affinity to "+a.Label+" keeps its pods in different ones")
		}
	}
	for _, s := range r.Spread {
		if s.Topology == TopologyZone && r.has(s.Label) && !s.Soft && int64(labels[s.Label]) > s.MaxSkew {
			out = append(out, "a gang lies in one zone, the spread of "+s.Label+" wants it in several where there are several")
		}
	}
	return out
}
