package packing

import "sort"

// guard keeps the rules while pods are put on machines that run. Pods that stay are not judged again (their rules count when they are
// scheduled, as in Kubernetes), but they count for the others.
type guard struct {
	r      *repacker
	z      *zoner
	in     map[int]bool // shapes that the zoner decides
	before int          // breaches before anything was moved
}

// newGuard is nil where no pod has rules across machines or by node.
func newGuard(r *repacker) *guard {
	x := newAcross(r.p.pods, r.p.given, r.p.opts, nil)
	if r.p.bonds == nil && !x.binds() {
		return nil
	}
	x.p, x.zones = r.p, zonesOf(r.p.given)
	g := &guard{r: r, z: newZoner(x), in: map[int]bool{}}
	for _, i := range g.z.bound {
		g.in[i] = true
	}
	g.z.reset()
	return g
}

// count adds a pod to the counts of a machine's zone, or takes it off.
func (g *guard) count(h *host, pod, n int) {
	zone := g.z.zoneAt[zoneOf(&g.r.p.given[h.off])]
	if k := g.r.p.kept[g.r.p.of[pod]]; g.in[k] {
		g.z.put(k, zone, n)
		return
	}
	g.z.count(g.r.p.pods[pod].Rules, zone, n)
}

// may tells whether a pod may join a machine. Gangs and workloads with a largest share per pool only go where all of them are looked at together.
func (g *guard) may(h *host, pod int) bool {
	p := g.r.p
	rules := p.pods[pod].Rules
	if rules != nil && (rules.Gang != "" || rules.MaxPoolMilli > 0) {
		return false
	}
	k := p.kept[p.of[pod]]
	if k < 0 {
		return rules == nil
	}
	if p.bonds != nil {
		items := []item{{k, 1}}
		for _, i := range h.pods {
			if o := p.kept[p.of[i]]; o >= 0 {
				items = append(items, item{o, 1})
			}
		}
		if !p.bonds.allow(p, merge(items), true) {
			return false
		}
	}
	if !g.in[k] {
		return true
	}
	zone := g.z.zoneAt[zoneOf(&p.given[h.off])]
	_, ok := g.z.may(k, zone)
	return ok && g.z.elig[k][zone]
}

// breaches counts the pods that break rules on the machines as they are now, those that stay too.
func (g *guard) breaches() int { return len(newCensus(g.r.p, g.r.nodes()).breaches()) }

// nodes are the running machines with what they hold now.
func (r *repacker) nodes() []Node {
	var out []Node
	for n := range r.hosts {
		if h := &r.hosts[n]; !h.gone && len(h.pods) > 0 {
			out = append(out, Node{Offering: h.off, Pods: h.pods})
		}
	}
	return out
}

// stays are the pods that are where they were, ascending.
func (r *repacker) stays() []int {
	var out []int
	for n := range r.hosts {
		for _, i := range r.hosts[n].pods {
			if r.home[i] == n {
				out = append(out, i)
			}
		}
	}
	sort.Ints(out)
	return out
}

// rest packs the pods without a place on new machines, under all rules and beside what runs.
func (g *guard) rest() *Answer {
	r := g.r
	if len(r.pending) == 0 {
		return &Answer{}
	}
	out := make([]bool, len(r.p.pods))
	for i := range out {
		out[i] = true
	}
	for _, i := range r.pending {
		out[i] = false
	}
	base := r.nodes()
	if base == nil {
		base = []Node{}
	}
	x := newAcross(r.p.pods, r.p.given, r.p.opts, out)
	x.opts.quick = true
	x.given, x.opts.Limits = x.lessOf(base, x.opts.Limits)
	x.base = base
	for n := range base {
		x.stays = append(x.stays, base[n].Pods...)
	}
	sort.Ints(x.stays)
	return x.solve()
}

// settle takes pods off a plan that break rules and do not stay where they were.
func (g *guard) settle(plan *Plan) {
	for {
		broken := without(newCensus(g.r.p, plan.Nodes).breaches(), plan.Standing)
		if len(broken) == 0 {
			return
		}
		plan.Bound = 0 // what the earlier proof says of more pods
		b := broken[len(broken)-1]
		for n := range plan.Nodes {
			kept := plan.Nodes[n].Pods[:0]
			for _, i := range plan.Nodes[n].Pods {
				if i != b.pod {
					kept = append(kept, i)
					continue
				}
				plan.Unplaced = append(plan.Unplaced, Unplaced{Pod: i, Reasons: append(g.r.p.reasons(&g.r.p.pods[i]), Reason{Constraint: b.why, Detail: b.detail})})
			}
			plan.Nodes[n].Pods = kept
		}
		g.drop(plan)
	}
}

// drop takes empty machines off a plan.
func (g *guard) drop(plan *Plan) {
	nodes, from := plan.Nodes[:0], plan.From[:0]
	plan.Cost, plan.Weighed = 0, 0
	for n := range plan.Nodes {
		if len(plan.Nodes[n].Pods) == 0 {
			continue
		}
		o := &g.r.p.given[plan.Nodes[n].Offering]
		plan.Cost, plan.Weighed = plan.Cost.Add(*o.Price), plan.Weighed.Add(o.weighed())
		nodes, from = append(nodes, plan.Nodes[n]), append(from, plan.From[n])
	}
	plan.Nodes, plan.From = nodes, from
}
