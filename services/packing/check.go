package packing

import "plimsoll.dev/services/fleet"

// Check tells what is wrong with an answer, computed from the input alone: every pod once, within sizes, constraints and stock, and
// the cost the sum of the machines.
func Check(pods []Pod, offerings []Offering, opts Options, a *Answer) error {
	offerings = net(offerings, &opts)
	p := &problem{pods: pods, given: offerings, opts: opts}
	seen := make([]bool, len(pods))
	used := make([]int64, len(offerings))
	var cost, weighed fleet.Money
	once := func(i int) error {
		if i < 0 || i >= len(pods) || seen[i] {
			return fleet.Errorf(fleet.CodeInternal, "pod %d does not exist or is there twice", i)
		}
		seen[i] = true
		return nil
	}
	for n := range a.Nodes {
		node := &a.Nodes[n]
		if node.Offering < 0 || node.Offering >= len(offerings) || len(node.Pods) == 0 {
			return fleet.Errorf(fleet.CodeInternal, "node %d is of no offering or empty", n)
		}
		for _, i := range node.Pods {
			if err := once(i); err != nil {
				return err
			}
		}
		if err := p.checkNode(node); err != nil {
			return err
		}
		o := &offerings[node.Offering]
		used[node.Offering]++
		if o.Stock != nil && used[node.Offering] > *o.Stock {
			return fleet.Errorf(fleet.CodeInternal, "offering %q is used beyond its stock", o.InstanceType)
		}
		cost = cost.Add(*o.Price)
		weighed = weighed.Add(o.weighed())
	}
	for i := range a.Unplaced {
		if err := once(a.Unplaced[i].Pod); err != nil {
			return err
		}
	}
	for i, s := range seen {
		if !s {
			return fleet.Errorf(fleet.CodeInternal, "pod %d is nowhere", i)
		}
	}
	if cost != a.Cost || weighed != a.Weighed || a.Bound > a.Weighed {
		return fleet.Errorf(fleet.CodeInternal, "cost %s, weighed %s is given as %s and %s, bound %s", cost, weighed, a.Cost, a.Weighed, a.Bound)
	}
	return p.checkRules(a)
}

func (p *problem) checkNode(n *Node) error {
	o := &p.given[n.Offering]
	share := shareOf(o, &p.opts)
	var cpu, mem, gpus int64
	q := &problem{pods: p.pods, given: p.given}
	var items []item
	for _, i := range n.Pods {
		pod := &p.pods[i]
		if !priced(o) || !p.accepted(pod, o) {
			return fleet.Errorf(fleet.CodeInternal, "pod %q may not run on %q", pod.Name, o.InstanceType)
		}
		cpu, mem = cpu+pod.CPUMilli, mem+pod.MemMiB
		if share > 0 && pod.GPUCount > 0 {
			q.shapes = append(q.shapes, shapeOf(pod, pod.GPUMilli, 0))
			items = append(items, item{len(q.shapes) - 1, 1})
		} else {
			gpus += pod.GPUCount
		}
	}
	if cpu > o.CPUMilli || mem > o.MemMiB || gpus > o.GPUCount || int64(len(n.Pods)) > o.MaxPods {
		return fleet.Errorf(fleet.CodeInternal, "node of %q holds more than it has: %d of %d CPU, %d of %d MiB, %d of %d GPUs, %d of %d pods",
			o.InstanceType, cpu, o.CPUMilli, mem, o.MemMiB, gpus, o.GPUCount, len(n.Pods), o.MaxPods)
	}
	if share > 0 && q.gpusHold(&slots{deep: 200_000}, items, p.asOffer(n.Offering)) != gpusFit {
		return fleet.Errorf(fleet.CodeInternal, "the GPUs of a node of %q are promised beyond what they have", o.InstanceType)
	}
	return nil
}
