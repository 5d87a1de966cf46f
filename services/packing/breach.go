package packing

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

// breach is a pod that stands where the rules across machines forbid it.
type breach struct {
	pod    int
	why    Constraint
	detail string
	excess int    // of the pods with the same why, detail and place, so many are too many
	place  string // zone, offering or gang
}

// census counts the pods of each label, as they are placed.
type census struct {
	p      *problem
	nodes  []Node
	zones  []string // of each node
	byZone map[string]map[string]int
	byNode []map[string]int
	total  map[string]int
	elig   map[string][]string
	terms  map[termAt]int // pods of the label that ask for the term themselves, per place
}

type termAt struct {
	term  Term
	place string
}

func zoneOf(o *Offering) string {
	if o.Zone == "" {
		return string(o.Cloud) + "/" + o.Region + "/*"
	}
	return string(o.Cloud) + "/" + o.Zone
}

// pool tells offerings apart that can run out or be reclaimed by themselves.
func poolOf(o *Offering) string {
	return strings.Join([]string{string(o.Cloud), o.InstanceType, o.Region, o.Zone, string(o.Purchase), o.ReservationID}, "/")
}

func (p *problem) ruled() bool {
	for i := range p.pods {
		if p.pods[i].Rules != nil {
			return true
		}
	}
	return false
}

func newCensus(p *problem, nodes []Node) *census {
	c := &census{p: p, nodes: nodes, byZone: map[string]map[string]int{}, byNode: make([]map[string]int, len(nodes)), total: map[string]int{},
		elig: map[string][]string{}, terms: map[termAt]int{}}
	for n := range nodes {
		z := zoneOf(&p.given[nodes[n].Offering])
		c.zones = append(c.zones, z)
		c.byNode[n] = map[string]int{}
		for _, i := range nodes[n].Pods {
			r := p.pods[i].Rules
			if r == nil {
				continue
			}
			for _, l := range r.Labels {
				if c.byZone[l] == nil {
					c.byZone[l] = map[string]int{}
				}
				c.byZone[l][z]++
				c.byNode[n][l]++
				c.total[l]++
			}
			for _, t := range r.Affinity {
				if r.has(t.Label) {
					c.terms[termAt{t, c.placeOf(t.Topology, n)}]++
				}
			}
		}
	}
	return c
}

func (c *census) placeOf(t Topology, n int) string {
	if t == TopologyZone {
		return c.zones[n]
	}
	return fmt.Sprintf("node %d", n)
}

func (c *census) count(label string, t Topology, n int) int {
	if t == TopologyZone {
		return c.byZone[label][c.zones[n]]
	}
	return c.byNode[n][label]
}

// breaches are all pods that stand wrongly, in the order of the nodes.
func (c *census) breaches() []breach {
	var out []breach
	for n := range c.nodes {
		for _, i := range c.nodes[n].Pods {
			if r := c.p.pods[i].Rules; r != nil {
				out = c.ofPod(out, n, i, r)
			}
		}
	}
	return c.pools(c.gangs(out))
}

func (c *census) ofPod(out []breach, n, i int, r *Rules) []breach {
	for _, t := range r.Affinity {
		here := c.count(t.Label, t.Topology, n)
		anchors := here - c.terms[termAt{t, c.placeOf(t.Topology, n)}]
		if anchors <= 0 && (!r.has(t.Label) || here != c.total[t.Label]) {
			out = append(out, breach{i, ConstraintAffinity, t.Label, here, c.placeOf(t.Topology, n)})
		}
	}
	for _, t := range r.AntiAffinity {
		others := c.count(t.Label, t.Topology, n)
		if r.has(t.Label) {
			others--
		}
		if others > 0 {
			out = append(out, breach{i, ConstraintAnti, t.Label, 1, c.placeOf(t.Topology, n)})
		}
	}
	for _, s := range r.Spread {
		least := 0
		if s.Topology == TopologyZone {
			if s.Soft && c.p.opts.relaxed {
				continue
			}
			least = c.least(i, s.Label)
		} else if s.Soft && c.p.opts.relaxed {
			continue
		}
		if over := c.count(s.Label, s.Topology, n) - least - int(s.MaxSkew); over > 0 {
			out = append(out, breach{i, ConstraintSpread, s.Label, over, c.placeOf(s.Topology, n)})
		}
	}
	return out
}

// least is the fewest pods of a label in any zone in which the pod could run.
func (c *census) least(i int, label string) int {
	zones := c.eligible(i)
	least := -1
	for _, z := range zones {
		if n := c.byZone[label][z]; least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

// eligible are the zones with an offering that holds the pod.
func (c *census) eligible(i int) []string {
	q := &c.p.pods[i]
	key := fmt.Sprintf("%d %d %d %d %v %v %v %p", q.CPUMilli, q.MemMiB, q.GPUCount, q.GPUMilli, q.GPUModels, q.Archs, q.SpotOK, q.Rules)
	if z, ok := c.elig[key]; ok {
		return z
	}
	z := c.p.zonesFor(i)
	c.elig[key] = z
	return z
}

// zonesFor are the zones with an offering that holds the pod alone, in the order of the offerings.
func (p *problem) zonesFor(i int) []string {
	var out []string
	seen := map[string]bool{}
	for j := range p.given {
		z := zoneOf(&p.given[j])
		if seen[z] {
			continue
		}
		ok := true
		for _, f := range p.fails(&p.pods[i], j) {
			ok = ok && !f
		}
		if ok {
			seen[z] = true
			out = append(out, z)
		}
	}
	return out
}

type gang struct {
	all, placed, nodes int
	off                int
	split              bool
	pods               []int
}

func (c *census) gangs(out []breach) []breach {
	byName := map[string]*gang{}
	var order []string
	for i := range c.p.pods {
		if r := c.p.pods[i].Rules; r != nil && r.Gang != "" {
			if byName[r.Gang] == nil {
				byName[r.Gang] = &gang{off: -1}
				order = append(order, r.Gang)
			}
			byName[r.Gang].all++
		}
	}
	for n := range c.nodes {
		var last *gang
		on := map[*gang]bool{}
		for _, i := range c.nodes[n].Pods {
			r := c.p.pods[i].Rules
			if r == nil || r.Gang == "" {
				continue
			}
			last = byName[r.Gang]
			last.placed++
			last.pods = append(last.pods, i)
			last.split = last.split || (last.off >= 0 && last.off != c.nodes[n].Offering)
			last.off = c.nodes[n].Offering
			if !on[last] {
				on[last] = true
				last.nodes++
			}
		}
	}
	for _, name := range order {
		g := byName[name]
		if g.placed == 0 {
			continue
		}
		most := c.p.given[g.off].DomainNodes
		if g.placed < g.all || g.split || (most > 0 && int64(g.nodes) > most) {
			for _, i := range g.pods {
				out = append(out, breach{i, ConstraintGang, name, g.placed, name})
			}
		}
	}
	return out
}

// poolMost is the most replicas of a workload on one offering.
func (p *problem) poolMost() map[string]int {
	total, most := map[string]int{}, map[string]int{}
	for i := range p.pods {
		if r := p.pods[i].Rules; r != nil && r.MaxPoolMilli > 0 {
			total[r.Workload]++
			if n := max(1, total[r.Workload]*int(r.MaxPoolMilli)/1000); n != most[r.Workload] {
				most[r.Workload] = n
			}
		}
	}
	return most
}

func (c *census) pools(out []breach) []breach {
	most := c.p.poolMost()
	if len(most) == 0 {
		return out
	}
	count := map[[2]string]int{}
	each := func(f func(i int, key [2]string)) {
		for n := range c.nodes {
			for _, i := range c.nodes[n].Pods {
				if r := c.p.pods[i].Rules; r != nil && r.MaxPoolMilli > 0 {
					f(i, [2]string{r.Workload, poolOf(&c.p.given[c.nodes[n].Offering])})
				}
			}
		}
	}
	each(func(_ int, k [2]string) { count[k]++ })
	each(func(i int, k [2]string) {
		if over := count[k] - most[k[0]]; over > 0 {
			out = append(out, breach{i, ConstraintPoolMost, k[0], over, k[1]})
		}
	})
	return out
}

// without leaves out the breaches of some pods.
func without(in []breach, pods []int) []breach {
	if len(pods) == 0 {
		return in
	}
	out := in[:0]
	for _, b := range in {
		if _, ok := slices.BinarySearch(pods, b.pod); !ok {
			out = append(out, b)
		}
	}
	return out
}

// checkRules tells the first rule across machines, limit or budget that an answer breaks.
func (p *problem) checkRules(a *Answer) error {
	for q := range p.opts.Limits {
		l := &p.opts.Limits[q]
		sum := int64(0)
		for n := range a.Nodes {
			sum += l.of(&p.given[a.Nodes[n].Offering])
		}
		if sum > l.Max {
			return fleet.Errorf(fleet.CodeInternal, "limit %q of %d %s is passed: %d", l.Name, l.Max, l.Resource, sum)
		}
	}
	if p.opts.Budget != nil && a.Cost-a.Over > *p.opts.Budget {
		return fleet.Errorf(fleet.CodeInternal, "cost %s is above the budget of %s", a.Cost, *p.opts.Budget)
	}
	if !p.ruled() {
		return nil
	}
	q := *p
	q.opts.relaxed = len(a.Relaxed) > 0
	q.caps()
	if b := without(newCensus(&q, a.Nodes).breaches(), a.Standing); len(b) > 0 {
		return fleet.Errorf(fleet.CodeInternal, "pod %q breaks %s %s at %s", p.pods[b[0].pod].Name, b[0].why, b[0].detail, b[0].place)
	}
	return nil
}
