package packing

import "math"

// bond is what the rules by node mean for one shape.
type bond struct {
	most    int32   // pods of it on one machine
	clashes []int   // shapes that may not share a machine with it
	needs   []group // affinity: one of these on the same machine
	spreads []int   // node spreads that it takes part in, as a member or as a holder
	wanted  bool    // others need it
}

// group is the pods of a label that a shape needs beside it.
type group struct {
	label   string
	anchors []int // shapes of the label that do not ask for the label themselves
	all     []int // if the shape is of the label: the shapes of the label
	total   int64 // pods of all
}

// bonds are the rules by node of a problem.
type bonds struct {
	spreads []nodeSpread
}

type nodeSpread struct {
	members []bool // by shape
	holders []bool
	most    int32
}

// bind works out which shapes may share machines. It stays nil where no pod has rules by node.
func (p *problem) bind() {
	any := false
	for i := range p.shapes {
		any = any || p.byNode(p.shapes[i].rules)
	}
	if !any {
		return
	}
	p.bonds = &bonds{}
	at := make([]bond, len(p.shapes))
	for i := range at {
		at[i].most = math.MaxInt32
	}
	for i := range p.shapes {
		r := p.shapes[i].rules
		if r == nil {
			continue
		}
		for _, t := range r.AntiAffinity {
			if t.Topology == TopologyNode {
				p.clash(at, i, t.Label)
			}
		}
		for _, t := range r.Affinity {
			if t.Topology == TopologyNode {
				at[i].needs = append(at[i].needs, p.beside(at, i, t))
			}
		}
		for _, s := range r.Spread {
			if s.Topology == TopologyNode && (!s.Soft || !p.opts.relaxed) {
				p.spreadByNode(at, i, s)
			}
		}
	}
	for i := range at {
		b := &at[i]
		if b.most < math.MaxInt32 || len(b.clashes)+len(b.needs)+len(b.spreads) > 0 || b.wanted {
			p.shapes[i].bond = b
		}
	}
}

func (p *problem) byNode(r *Rules) bool {
	if r == nil {
		return false
	}
	for _, terms := range [][]Term{r.Affinity, r.AntiAffinity} {
		for _, t := range terms {
			if t.Topology == TopologyNode {
				return true
			}
		}
	}
	for _, s := range r.Spread {
		if s.Topology == TopologyNode && (!s.Soft || !p.opts.relaxed) {
			return true
		}
	}
	return false
}

func (p *problem) clash(at []bond, i int, label string) {
	for k := range p.shapes {
		switch {
		case !p.shapes[k].rules.has(label):
		case k == i:
			at[i].most = 1
		default:
			at[i].clashes = append(at[i].clashes, k)
			at[k].clashes = append(at[k].clashes, i)
		}
	}
}

func (p *problem) beside(at []bond, i int, t Term) group {
	g := group{label: t.Label}
	self := p.shapes[i].rules.has(t.Label)
	for k := range p.every {
		if p.every[k].rules.has(t.Label) {
			g.total += p.every[k].count
		}
	}
	for k := range p.shapes {
		r := p.shapes[k].rules
		if !r.has(t.Label) {
			continue
		}
		at[k].wanted = true
		if !r.asks(t) {
			g.anchors = append(g.anchors, k)
		}
		if self {
			g.all = append(g.all, k)
		}
	}
	return g
}

// asks tells whether the rules have the affinity term themselves.
func (r *Rules) asks(t Term) bool {
	if r == nil {
		return false
	}
	for _, a := range r.Affinity {
		if a == t {
			return true
		}
	}
	return false
}

func (p *problem) spreadByNode(at []bond, i int, s Spread) {
	n := nodeSpread{members: make([]bool, len(p.shapes)), holders: make([]bool, len(p.shapes)), most: int32(s.MaxSkew)} //nolint:gosec // bounded by validate
	n.holders[i] = true
	q := len(p.bonds.spreads)
	at[i].spreads = append(at[i].spreads, q)
	for k := range p.shapes {
		if p.shapes[k].rules.has(s.Label) {
			n.members[k] = true
			if k != i {
				at[k].spreads = append(at[k].spreads, q)
			}
		}
	}
	if n.members[i] {
		at[i].most = min(at[i].most, n.most)
	}
	p.bonds.spreads = append(p.bonds.spreads, n)
}

// allow tells whether items may share a machine; whole: they are all that it will hold, so what they need must be there.
func (b *bonds) allow(p *problem, items []item, whole bool) bool {
	for x, it := range items {
		d := p.shapes[it.shape].bond
		if d == nil {
			continue
		}
		if it.n > d.most {
			return false
		}
		for _, c := range d.clashes {
			for _, o := range items[x+1:] {
				if o.shape == c {
					return false
				}
			}
			for _, o := range items[:x] {
				if o.shape == c {
					return false
				}
			}
		}
		for _, q := range d.spreads {
			if !b.spreads[q].allow(items) {
				return false
			}
		}
		if whole {
			for k := range d.needs {
				if !d.needs[k].met(items) {
					return false
				}
			}
		}
	}
	return true
}

func (n *nodeSpread) allow(items []item) bool {
	held, sum := false, int64(0)
	for _, it := range items {
		held = held || n.holders[it.shape]
		if n.members[it.shape] {
			sum += int64(it.n)
		}
	}
	return !held || sum <= int64(n.most)
}

func (g *group) met(items []item) bool {
	sum := int64(0)
	for _, it := range items {
		for _, k := range g.anchors {
			if it.shape == k {
				return true
			}
		}
		for _, k := range g.all {
			if it.shape == k {
				sum += int64(it.n)
			}
		}
	}
	return g.all != nil && sum == g.total
}

// isWanted tells whether other shapes need this one beside them: then it counts even if it is worth nothing by itself.
func (s *shape) isWanted() bool { return s.bond != nil && s.bond.wanted }

// sparing packs greedily with anchors worth next to nothing and those who need them worth much, so that no machine uses up more anchors than it must.
func (s *solver) sparing() {
	if s.p.bonds == nil || s.short == 0 {
		return
	}
	for _, turn := range [2][2]float64{{1e-3, 1e3}, {1e-6, 1}} {
		values := append([]float64(nil), s.duals...)
		for i := range values {
			values[i] = max(values[i], 1e-6)
			switch b := s.p.shapes[i].bond; {
			case b == nil:
			case len(b.needs) > 0:
				values[i] *= turn[1]
			case b.wanted:
				values[i] *= turn[0]
			}
		}
		bins, short := s.greedy(values, s.demand(), 400)
		s.offer(bins, short)
	}
}

// mayReplace tells whether a pod of shape a may always stand where one of b stood.
func mayReplace(a, b *shape) bool {
	return a.bond == nil && len(a.heads) == 0 && (b.bond == nil || !b.bond.wanted)
}

// cut tells whether the exact place on the GPUs matters for a shape.
func (s *shape) cut(share int) bool {
	return s.gpus > 0 && ((share == 1 && s.milli < 1000) || (share == 2 && s.profile() != ""))
}

func (s *shape) profile() string {
	if s.rules == nil {
		return ""
	}
	return s.rules.MIG
}

// gpusHold tells whether the GPUs of an offering can be given to items.
func (p *problem) gpusHold(s *slots, items []item, o *offer) int {
	if o.share == 2 {
		return p.migHold(items, o)
	}
	return s.fit(p, items, o.gpus)
}

func (p *problem) migHold(items []item, o *offer) int {
	g := geometries[p.given[o.index].GPUModel]
	gpus := o.gpus
	var asks []migAsk
	for _, it := range items {
		s := &p.shapes[it.shape]
		name := s.profile()
		switch {
		case s.gpus == 0 || it.n == 0:
		case name == "":
			gpus -= s.gpus * it.n
		default:
			q := g.profile(name)
			if q == nil {
				return gpusDoNot
			}
			asks = append(asks, migAsk{q, s.gpus * it.n})
		}
	}
	if gpus < 0 {
		return gpusDoNot
	}
	for i := 1; i < len(asks); i++ { // one ask per profile
		for k := range asks[:i] {
			if asks[k].profile == asks[i].profile {
				asks[k].n += asks[i].n
				asks = append(asks[:i], asks[i+1:]...)
				i--
				break
			}
		}
	}
	_, v := g.onGPUs(asks, gpus, 2000)
	return v
}

// asOffer is a given offering as gpusHold wants it.
func (p *problem) asOffer(i int) *offer {
	o := &p.given[i]
	return &offer{index: i, gpus: int32(o.GPUCount), share: shareOf(o, &p.opts)} //nolint:gosec // bounded by validate
}
