package capacity

import (
	"fmt"

	"plimsoll.dev/services/fleet"
)

// Check tells what is wrong with a plan, from the input alone: caps, protected pods and machines, room, what a change must save. A plan
// with a finding is a defect and must not be shown or carried out.
func Check(in Input, p *Plan) []string {
	in.Policy = in.Policy.WithDefaults()
	c := &checker{limits: map[int]int64{}, in: &in, p: p, node: map[string]*Node{}, pod: map[string][]int{}}
	for i := range in.Nodes {
		c.node[in.Nodes[i].Name] = &in.Nodes[i]
	}
	for i := range in.Pods {
		c.pod[in.Pods[i].Name] = append(c.pod[in.Pods[i].Name], i)
	}
	c.stale()
	c.caps()
	c.drains()
	c.machines()
	c.checkWarm()
	return c.bad
}

type checker struct {
	in     *Input
	p      *Plan
	node   map[string]*Node
	pod    map[string][]int
	bad    []string
	limits map[int]int64 // pods under each disruption limit that are moved
}

func (c *checker) say(format string, args ...any) {
	c.bad = append(c.bad, fmt.Sprintf(format, args...))
}

func (c *checker) stale() {
	age := c.in.Now.Sub(c.in.DataAt).Seconds()
	if (c.in.DataAt.IsZero() || age > float64(c.in.Policy.StaleSec)) && c.p.Changes() {
		c.say("changes on an inventory of %s at %s", c.in.DataAt, c.in.Now)
	}
}

func (c *checker) caps() {
	var nodes, gpus, newNodes, newGPUs int64
	var cost, newCost fleet.Money
	for i := range c.in.Nodes {
		n := &c.in.Nodes[i]
		if n.Phase == fleet.NodeTerminated {
			continue
		}
		nodes, gpus = nodes+1, gpus+n.GPUCount
		if n.Price != nil {
			cost = cost.Add(*n.Price)
		}
	}
	stock := map[int]int64{}
	for _, g := range c.p.Add {
		if g.Candidate < 0 || g.Candidate >= len(c.in.Candidates) || c.in.Candidates[g.Candidate].Offering != g.Offering || g.Count != len(g.Machines) {
			c.say("a group of an offering that was not offered")
			continue
		}
		cand := &c.in.Candidates[g.Candidate]
		newNodes, newGPUs = newNodes+int64(g.Count), newGPUs+int64(g.Count)*cand.GPUCount
		stock[g.Candidate] += int64(g.Count)
		if cand.Price == nil || *cand.Price <= 0 || *cand.Price != g.Price {
			c.say("%s is bought at a price that is not known", g.Offering.InstanceType)
			continue
		}
		newCost = newCost.Add(cand.Price.MulDiv(int64(g.Count), 1))
		if cand.BackoffUntil.After(c.in.Now) || cand.Stock != nil && *cand.Stock < stock[g.Candidate] || cand.Ask != nil && *cand.Ask < stock[g.Candidate] || c.in.Policy.NoSpot && g.Offering.Purchase == fleet.PurchaseSpot {
			c.say("%s is bought though it cannot or may not be", g.Offering.InstanceType)
		}
	}
	pol := &c.in.Policy
	if newNodes > 0 && pol.MaxNodes > 0 && nodes+newNodes > pol.MaxNodes {
		c.say("%d machines: at most %d", nodes+newNodes, pol.MaxNodes)
	}
	if newGPUs > 0 && pol.MaxGPUs > 0 && gpus+newGPUs > pol.MaxGPUs {
		c.say("%d GPUs: at most %d", gpus+newGPUs, pol.MaxGPUs)
	}
	if newCost > 0 && pol.HourlyMax != nil && cost.Add(newCost) > *pol.HourlyMax {
		c.say("%s per hour: at most %s", cost.Add(newCost), *pol.HourlyMax)
	}
	if newCost > 0 && pol.DailyMax != nil && c.in.SpentToday != nil && c.in.DayLeft >= 1 &&
		cost.Add(newCost).MulDiv(int64(c.in.DayLeft*1000)-1, 1000) > *pol.DailyMax-*c.in.SpentToday {
		c.say("%s per hour for what is left of the day: %s of %s are spent", cost.Add(newCost), *c.in.SpentToday, *pol.DailyMax)
	}
	if int(newNodes)+len(c.p.Drain) > pol.MaxActions {
		c.say("%d actions: at most %d", int(newNodes)+len(c.p.Drain), pol.MaxActions)
	}
}

func (c *checker) drains() {
	replaced := map[string]fleet.Offering{}
	for _, g := range c.p.Add {
		for _, m := range g.Machines {
			if m.Replaces != "" {
				replaced[m.Replaces] = g.Offering
			}
		}
	}
	moved, has := map[string]int{}, map[string]int{}
	for i := range c.in.Pods {
		if p := &c.in.Pods[i]; !p.Daemon && p.Phase != fleet.PodEnded && p.Phase != fleet.PodFailed && p.Phase != fleet.PodTerminating {
			has[p.Workload]++
		}
	}
	for _, d := range c.p.Drain {
		n := c.node[d.Name]
		if n == nil || n.UID != d.UID {
			c.say("drains %q, which is not there", d.Name)
			continue
		}
		if n.Fixed != "" || n.Phase != fleet.NodeReady || n.Notice || n.Price == nil || n.Offering.Purchase == fleet.PurchaseReserved || n.Saves == nil || *n.Saves <= 0 {
			c.say("drains %s, which stays whatever it costs", d.Name)
		}
		if c.in.Now.Sub(n.StartedAt).Seconds() < float64(c.in.Policy.MinAgeSec) {
			c.say("drains %s, which is young", d.Name)
		}
		if d.Saving <= 0 || d.Saving.MulDiv(c.in.Policy.HorizonHours, 1) <= d.Churn {
			c.say("draining %s saves %s per hour and costs %s", d.Name, d.Saving, d.Churn)
		}
		if o, ok := replaced[d.Name]; ok && o.InstanceType == n.Offering.InstanceType && o.Purchase == n.Offering.Purchase {
			c.say("%s is replaced by the same", d.Name)
		}
		c.pods(d, n, moved)
	}
	for w, n := range moved {
		if n > max(1, has[w]*int(c.in.Policy.MaxMovedMilli)/1000) {
			c.say("%d of %d replicas of %s move", n, has[w], w)
		}
	}
}

func (c *checker) pods(d Drain, n *Node, moved map[string]int) {
	moves := map[string]bool{}
	for _, m := range d.Moves {
		moves[m.Pod] = true
	}
	for i := range c.in.Pods {
		p := &c.in.Pods[i]
		if p.Node != n.Name || p.Daemon || p.Phase == fleet.PodEnded || p.Phase == fleet.PodFailed {
			continue
		}
		moved[p.Workload]++
		if p.Limit > 0 {
			if c.limits[p.Limit]++; c.limits[p.Limit] > c.in.Limits[p.Limit-1].Allowed {
				c.say("draining %s evicts more than %s allows", d.Name, c.in.Limits[p.Limit-1].Name)
			}
		}
		switch {
		case p.Protected != "" || p.Phase != fleet.PodReady || c.in.Now.Sub(p.ReadyAt).Seconds() < float64(c.in.Policy.RampSec):
			c.say("drains %s with %s, which may not be moved", d.Name, p.Name)
		case !moves[p.Name]:
			c.say("drains %s and forgets %s", d.Name, p.Name)
		}
	}
}

// machines adds up what every machine would hold.
func (c *checker) machines() {
	gone := map[string]bool{}
	for _, d := range c.p.Drain {
		gone[d.Name] = true
	}
	d := &planner{in: c.in, bound: c.in.bound()}
	load := map[string][]int{}
	for i := range c.in.Pods {
		p := &c.in.Pods[i]
		if n := c.node[p.Node]; n != nil && !p.Daemon && p.Phase != fleet.PodEnded && p.Phase != fleet.PodFailed && !gone[p.Node] {
			load[p.Node] = append(load[p.Node], i)
		}
	}
	placed := map[string]bool{}
	for _, dr := range c.p.Drain {
		for _, m := range dr.Moves {
			if m.To == "" {
				continue
			}
			placed[m.Pod] = true
			n := c.node[m.To]
			if n == nil || gone[m.To] || n.Notice || n.Phase != fleet.NodeReady && n.Phase != fleet.NodeBooting {
				c.say("%s moves to %s, which does not take pods", m.Pod, m.To)
				continue
			}
			k := n.kind()
			r := d.roomOf(n.CPUMilli, n.MemMiB, n.MaxPods, n.GPUCount)
			d.largest(load[m.To])
			for _, i := range load[m.To] {
				r.take(&c.in.Pods[i], k.shares)
			}
			i := c.pod[m.Pod][0]
			if !r.fits(&c.in.Pods[i], k.shares) || d.refuses(&c.in.Pods[i], &k) != "" {
				c.say("%s does not fit on %s", m.Pod, m.To)
			}
			load[m.To] = append(load[m.To], i)
		}
	}
	d.kinds = make([]kind, len(c.in.Candidates))
	for i := range c.in.Candidates {
		d.kinds[i] = c.in.Candidates[i].kind()
	}
	for _, g := range c.p.Add {
		for _, m := range g.Machines {
			var pods []int
			for _, name := range m.Pods {
				if placed[name] {
					c.say("%s gets two machines", name)
				}
				placed[name] = true
				pods = append(pods, c.pod[name]...)
			}
			if len(m.Pods) == 0 && (g.Why != WhyInsurance || c.in.Policy.InsureMilli == 0) && (g.Why != WhyWarm || len(c.in.Policy.Warm) == 0) {
				c.say("a new %s for nothing", g.Offering.InstanceType)
			}
			if why := d.newHolds(g.Candidate, pods); why != "" {
				c.say("a new %s does not hold its pods: %s", g.Offering.InstanceType, why)
			}
		}
	}
}

// newHolds is holdsAll, except that MIG instances are left to the packing's own check.
func (d *planner) newHolds(c int, pods []int) string {
	for _, i := range pods {
		if d.in.Pods[i].MIG != "" {
			return ""
		}
	}
	return d.holdsAll(c, pods)
}
