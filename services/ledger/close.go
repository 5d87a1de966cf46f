package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

const hourMillis = int64(time.Hour / time.Millisecond)

// maxMilli bounds any capacity, request or use, in thousandths (or MiB): 100,000 cores, 95 TiB. A use beyond it is taken as not
// known. It keeps every product here inside an int64; sums stop at maxUnits.
const (
	maxMilli = 100_000_000
	maxUnits = int64(1) << 60
	// maxOver bounds what one owner is charged of a resource, as a multiple of its price, when absurdly more was held than there is.
	maxOver = 100
)

// Close costs an hour.
func Close(h Hour) Statement {
	span := fleet.Interval{From: h.From, To: h.To}
	holdings := make([]*holding, 0, len(h.Nodes))
	for i := range h.Nodes {
		if held := newHolding(&h.Nodes[i], span); held != nil {
			holdings = append(holdings, held)
		}
	}
	slices.SortFunc(holdings, func(a, b *holding) int { return cmp.Compare(a.node.UID, b.node.UID) })
	var s Statement
	byName := named(holdings, &s)
	c := closing{span: span, placed: place(h, span, byName, &s)}
	c.hold(h.Usage, &s)
	for _, held := range holdings {
		c.add(&s, held)
	}
	slices.SortFunc(s.Causes, compareCause)
	return s
}

// closing is the costing of one hour under way.
type closing struct {
	span   fleet.Interval
	placed []placement
	split  splitter
	// warm says of a workload whether its GPUs have a model in memory.
	warm map[fleet.WorkloadID]bool
	// ready says of a workload that it only keeps room ready.
	ready map[fleet.WorkloadID]bool
}

// units of one pool in thousandths (MiB for memory, parts for GPUs) times milliseconds.
type units struct{ held, used, measured int64 }

// pool is a part of a node that is divided for itself: its CPU, its memory, each of its groups of GPUs.
type pool struct {
	resource Resource
	perUnit  int64 // units of one core, GiB or GPU
	layout
}

const (
	poolCPU = iota
	poolMemory
	poolGPU // the first group; others follow
)

// share is what an owner holds of a node.
type share struct {
	owner  Owner
	pools  []units
	broken []brokenUnits
}

type brokenUnits struct {
	reason string
	pools  []int64
}

// holding is a node with what every owner holds of it.
type holding struct {
	node   *Node
	life   fleet.Interval // billed, within the hour
	until  time.Time      // when another node took its name over; zero: never
	groups []GPUGroup
	parts  int64
	pools  []pool
	shares []share
	at     map[Owner]int
}

// newHolding is nil for a node that did not live in the hour.
func newHolding(n *Node, span fleet.Interval) *holding {
	life := overlap(n.Billed(), span)
	if millis(life) == 0 {
		return nil
	}
	h := &holding{node: n, life: life, groups: n.GPUs, at: map[Owner]int{}}
	if len(h.groups) == 0 {
		h.groups = []GPUGroup{{Mode: GPUWhole, Count: n.GPUCount}}
	}
	h.parts = partsOf(h.groups)
	cpu, mem := bounded(n.CPUMilli), bounded(n.MemMiB)
	h.pools = append(make([]pool, 0, poolGPU+len(h.groups)), pool{ResourceCPU, 1000, layout{bought: cpu, supply: cpu}}, pool{ResourceMemory, 1024, layout{bought: mem, supply: mem}})
	for _, g := range h.groups {
		h.pools = append(h.pools, pool{ResourceGPU, h.parts, layoutOf(n.GPUModel, g, h.parts)})
	}
	return h
}

// share of an owner, made when it is asked for the first time.
func (h *holding) share(o Owner) *share {
	i, ok := h.at[o]
	if !ok {
		i = len(h.shares)
		h.at[o] = i
		h.shares = append(h.shares, share{owner: o, pools: make([]units, len(h.pools))})
	}
	return &h.shares[i]
}

// named finds nodes by name. Of two that have one name at the same time, the younger has the pods: names are taken over, not shared.
func named(holdings []*holding, s *Statement) map[string][]*holding {
	byName := make(map[string][]*holding, len(holdings))
	for _, h := range holdings {
		byName[h.node.Name] = append(byName[h.node.Name], h)
	}
	for _, h := range holdings {
		list := byName[h.node.Name]
		if len(list) < 2 || list[0] != h {
			continue
		}
		slices.SortStableFunc(list, func(a, b *holding) int { return a.node.Life.From.Compare(b.node.Life.From) })
		for i, old := range list[:len(list)-1] {
			next := list[i+1].life.From
			if both := millis(overlap(old.life, list[i+1].life)); both > time.Minute.Milliseconds() {
				s.Conflicts = append(s.Conflicts, Conflict{Code: "same_node_name", Object: old.node.UID, Quantity: float64(both) / float64(hourMillis)})
			}
			old.until = next
		}
	}
	return byName
}

// placement is a pod's time on one node.
type placement struct {
	pod  *Pod
	on   *holding
	when fleet.Interval
	ms   int64
	gpu  []gpuUnits // what it holds, per millisecond
	sum  int64      // of gpu
}

type gpuUnits struct {
	pool int
	n    int64
}

// place finds the node of every pod by name and time; time outside any node's life is a conflict, and so is time on two nodes.
func place(h Hour, span fleet.Interval, byName map[string][]*holding, s *Statement) []placement {
	all := make([]placement, 0, len(h.Pods))
	byPod := make(map[string]int, len(h.Pods))
	order := make([]int, len(h.Pods))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &h.Pods[i], &h.Pods[j]
		return cmp.Or(cmp.Compare(a.UID, b.UID), a.Held.From.Compare(b.Held.From), cmp.Compare(a.Node, b.Node), a.Held.To.Compare(b.Held.To))
	})
	for _, i := range order {
		p := &h.Pods[i]
		held := overlap(p.Held, span)
		missing := millis(held)
		if missing == 0 {
			continue
		}
		if other, ok := byPod[p.UID]; ok {
			if both := millis(overlap(held, overlap(h.Pods[other].Held, span))); both > 0 && h.Pods[other].Node != p.Node {
				s.Conflicts = append(s.Conflicts, Conflict{Code: "two_nodes", Object: p.UID, Quantity: float64(both) / float64(hourMillis)})
			}
		}
		byPod[p.UID] = i
		for _, on := range byName[p.Node] {
			life := on.life
			if !on.until.IsZero() {
				life = overlap(life, fleet.Interval{From: life.From, To: maxTime(on.until, life.From)})
			}
			when := overlap(held, life)
			if ms := millis(when); ms > 0 {
				all = append(all, newPlacement(p, on, when, ms))
				missing -= ms
			}
		}
		// Clocks of the two objects differ by seconds: less than a minute is no contradiction.
		if missing > time.Minute.Milliseconds() && p.Node != "" {
			s.Conflicts = append(s.Conflicts, Conflict{Code: "no_such_node", Object: p.UID, Quantity: float64(missing) / float64(hourMillis)})
		}
	}
	slices.SortFunc(s.Conflicts, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Quantity, b.Quantity))
	})
	return all
}

func newPlacement(p *Pod, on *holding, when fleet.Interval, ms int64) placement {
	l := placement{pod: p, on: on, when: when, ms: ms}
	for _, s := range p.GPUs {
		g := groupFor(on.groups, s)
		n := s.units(on.node.GPUModel, on.groups[g], on.parts)
		l.gpu, l.sum = append(l.gpu, gpuUnits{poolGPU + g, n}), l.sum+n
	}
	if milli := bounded(p.GPUMilli); len(p.GPUs) == 0 && milli > 0 {
		g := groupFor(on.groups, GPUShare{})
		l.sum = min(milli, maxGPUs*1000) * on.parts / 1000 / on.groups[g].replicas()
		l.gpu = []gpuUnits{{poolGPU + g, l.sum}}
	}
	return l
}

// hold charges every placement max(request, usage) of each resource. A workload's usage is spread over its pods by time.
func (c *closing) hold(usage map[fleet.WorkloadID]Usage, s *Statement) {
	type load struct {
		ms   int64
		gpus float64 // GPU-milliseconds
	}
	loads := map[fleet.WorkloadID]load{}
	for i := range c.placed {
		p := &c.placed[i]
		if id := p.pod.Owner.Workload; id != "" {
			l := loads[id]
			l.ms, l.gpus = l.ms+p.ms, l.gpus+float64(p.sum)/float64(p.on.parts)*float64(p.ms)
			loads[id] = l
		}
	}
	span := float64(millis(c.span))
	c.warm, c.ready = map[fleet.WorkloadID]bool{}, map[fleet.WorkloadID]bool{}
	for i := range c.placed {
		if p := &c.placed[i]; p.pod.Ready && p.pod.Owner.Workload != "" {
			c.ready[p.pod.Owner.Workload] = true
		}
	}
	var bad []fleet.WorkloadID
	for id, l := range loads {
		u := usage[id]
		if u.GPUMiB != nil && l.gpus > 0 && *u.GPUMiB*span/l.gpus >= residentMiB {
			c.warm[id] = true
		}
		for _, v := range []*float64{u.CPUCores, u.MemMiB, u.GPUSM} {
			if v != nil && !(*v >= 0 && *v <= maxMilli) {
				bad = append(bad, id)
				break
			}
		}
	}
	slices.Sort(bad)
	for _, id := range bad {
		s.Conflicts = append(s.Conflicts, Conflict{Code: "bad_usage", Object: string(id)})
	}
	for i := range c.placed {
		p := &c.placed[i]
		var u Usage
		spread := 0.0
		if id := p.pod.Owner.Workload; id != "" {
			u, spread = usage[id], span/float64(loads[id].ms)
		}
		p.hold(u, spread)
	}
}

// hold adds what the pod holds to its owner's share of the node.
func (p *placement) hold(u Usage, spread float64) {
	o := p.on.share(p.pod.Owner)
	o.pools[poolCPU].add(bounded(p.pod.CPUMilli), u.CPUCores, 1000*spread, p.ms)
	o.pools[poolMemory].add(bounded(p.pod.MemMiB), u.MemMiB, spread, p.ms)
	for _, g := range p.gpu {
		o.pools[g.pool].add(g.n, u.GPUSM, float64(g.n), p.ms)
	}
	troubles(p.pod.Broken, p.when, func(reason string, ms int64) {
		b := o.brokenFor(reason)
		b[poolCPU] = sum(b[poolCPU], bounded(p.pod.CPUMilli)*ms)
		b[poolMemory] = sum(b[poolMemory], bounded(p.pod.MemMiB)*ms)
		for _, g := range p.gpu {
			b[g.pool] = sum(b[g.pool], g.n*ms)
		}
	})
}

func (s *share) brokenFor(reason string) []int64 {
	for i := range s.broken {
		if s.broken[i].reason == reason {
			return s.broken[i].pools
		}
	}
	s.broken = append(s.broken, brokenUnits{reason, make([]int64, len(s.pools))})
	return s.broken[len(s.broken)-1].pools
}

// add charges request, or use times scale where it is known and more.
func (u *units) add(request int64, use *float64, scale float64, ms int64) {
	held := request * ms
	if use != nil {
		if v := *use * scale; v >= 0 && v <= maxMilli { // false for NaN
			used := int64(math.Round(v * float64(ms)))
			held = max(held, used)
			u.used, u.measured = sum(u.used, used), sum(u.measured, held)
		}
	}
	u.held = sum(u.held, held)
}

func bounded(n int64) int64 { return min(max(n, 0), maxMilli) }

func sum(a, b int64) int64 { return min(a+b, maxUnits) }

// overlap cuts i to j; a zero To of i means that it has not ended.
func overlap(i, j fleet.Interval) fleet.Interval {
	if i.To.IsZero() || i.To.After(j.To) {
		i.To = j.To
	}
	i.From = maxTime(i.From, j.From)
	if i.To.Before(i.From) {
		i.To = i.From
	}
	return i
}

func millis(i fleet.Interval) int64 { return i.To.Sub(i.From).Milliseconds() }

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
