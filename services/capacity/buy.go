package capacity

import (
	"slices"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Purchase is a plan in the values of the packing: what an actuator that makes pools needs to know.
type Purchase struct {
	Pods      []packing.Pod
	Offerings []packing.Offering // the candidates, then the offerings of running machines that none of them is. Stock counts what runs, and no more where none may be bought now
	New       []packing.Node     // machines to be bought, with the pods they are for
	Running   []Running          // all machines that run, with the pods that they will hold
}

// Running is a machine that runs, also one that the plan lets go: it runs until its pods have gone, and limits must count it till then.
type Running struct {
	Name     string
	Pool     string
	Offering int   // index into Offerings
	Pods     []int // indices into Pods, ascending; of one that ends those that the plan does not move
	Ends     bool  // the plan lets it go
}

// Buy turns a plan into a Purchase. Errors are those of the input's selectors and MIG profiles.
func Buy(in *Input, p *Plan) (*Purchase, error) {
	out := &Purchase{}
	byName, home := map[string]int{}, map[string]string{}
	for i := range in.Pods {
		q := &in.Pods[i]
		if q.Daemon {
			continue
		}
		pod, err := q.packed(in.Policy.Equivalent)
		if err != nil {
			return nil, err
		}
		byName[q.Name] = len(out.Pods)
		out.Pods = append(out.Pods, pod)
		home[q.Name] = q.Node
	}
	runs := map[fleet.Offering]int64{}
	for i := range in.Nodes {
		runs[in.Nodes[i].Offering]++
	}
	most := in.Policy.WithDefaults().MaxStockOut
	for i := range in.Candidates {
		c := &in.Candidates[i]
		o := c.packed(in)
		n := runs[c.Offering]
		switch {
		case c.BackoffUntil.After(in.Now), c.Belief == nil && c.StockOutMilli > most, in.Policy.NoSpot && c.Offering.Purchase == fleet.PurchaseSpot:
			o.Stock = &n
		case c.Stock != nil:
			n += max(*c.Stock, 0)
			o.Stock = &n
		}
		if most := runs[c.Offering]; c.Ask != nil && (o.Stock == nil || *o.Stock > most+*c.Ask) {
			most += *c.Ask
			o.Stock = &most
		}
		out.Offerings = append(out.Offerings, o)
	}
	gone := map[string]bool{}
	for _, d := range p.Drain {
		gone[d.Name] = true
		for _, m := range d.Moves {
			home[m.Pod] = m.To
		}
	}
	for _, w := range p.Waiting {
		if w.Cause == CauseRoom || w.Cause == CauseStarting {
			home[w.Pod] = w.Node
		}
	}
	for _, g := range p.Add {
		for _, m := range g.Machines {
			n := packing.Node{Offering: g.Candidate}
			for _, name := range m.Pods {
				home[name] = ""
				if i, ok := byName[name]; ok {
					n.Pods = append(n.Pods, i)
				}
			}
			if g.Why == WhyWarm {
				n.Pods = append(n.Pods, len(out.Pods))
				out.Pods = append(out.Pods, placeholder(&in.Candidates[g.Candidate], len(out.Pods)))
			}
			slices.Sort(n.Pods)
			out.New = append(out.New, n)
		}
	}
	out.run(in, home, gone)
	return out, nil
}

// run lists the machines.
func (out *Purchase) run(in *Input, home map[string]string, gone map[string]bool) {
	on := map[string][]int{}
	for i := range out.Pods {
		if node := home[out.Pods[i].Name]; node != "" {
			on[node] = append(on[node], i)
		}
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		at := slices.IndexFunc(out.Offerings, func(o packing.Offering) bool { return o.Offering == n.Offering })
		if at < 0 {
			at = len(out.Offerings)
			none := int64(0)
			k := n.kind()
			out.Offerings = append(out.Offerings, packing.Offering{Offering: n.Offering, Price: n.Price, CPUMilli: max(n.CPUMilli, 0), MemMiB: max(n.MemMiB, 0), GPUModel: n.GPUModel,
				GPUCount: n.GPUCount, SharesGPUs: n.SharesGPUs, Arch: n.Arch, MaxPods: n.MaxPods, Stock: &none, GPUMemMiB: n.GPUMemMiB, Pool: n.Pool, Taints: n.Taints, Labels: in.ruleLabels(&k)})
		}
		out.Running = append(out.Running, Running{Name: n.Name, Pool: n.Pool, Offering: at, Pods: on[n.Name], Ends: gone[n.Name]})
	}
}
