package replay

import (
	"sort"
	"time"

	"plimsoll.dev/services/fleet"
)

// Changes is the inventory that changed after a revision, ended things included. Revision is for the next call.
type Changes struct {
	Revision int64
	Nodes    []fleet.Node // by name
	Pods     []fleet.Pod  // by namespace and name
}

// Changes lists the nodes and pods that changed after a revision (0: all). What ended more than an hour ago is forgotten.
func (w *World) Changes(after int64) Changes {
	c := Changes{Revision: w.revision}
	for _, list := range [][]*node{w.nodes, w.endedNodes} {
		for _, n := range list {
			if n.Rev > after {
				c.Nodes = append(c.Nodes, n.fleet())
			}
		}
	}
	for _, list := range [][]*pod{w.pods, w.endedPods} {
		for _, p := range list {
			if p.Rev > after {
				c.Pods = append(c.Pods, p.fleet())
			}
		}
	}
	sort.Slice(c.Nodes, func(i, j int) bool { return c.Nodes[i].UID < c.Nodes[j].UID })
	sort.Slice(c.Pods, func(i, j int) bool { return c.Pods[i].UID < c.Pods[j].UID })
	return c
}

// Workloads lists the workloads with the replicas asked for, sorted by key.
func (w *World) Workloads() (list []fleet.Workload, replicas []int) {
	for _, key := range w.Keys() {
		l := w.byKey[key]
		list = append(list, l.cfg.Workload)
		replicas = append(replicas, l.Desired)
	}
	return list, replicas
}

func (n *node) fleet() fleet.Node {
	p := n.pool.cfg
	out := fleet.Node{
		UID: n.UID, Name: n.Name, Pool: p.Name, Phase: n.Phase,
		Offering: fleet.Offering{Cloud: p.Cloud, Region: p.Region, Zone: n.Zone, InstanceType: p.Type.Name, Purchase: p.Purchase},
		CPUMilli: p.Type.CPUMilli, MemMiB: p.Type.MemMiB, GPUModel: p.Type.GPUModel, GPUCount: p.Type.GPUCount, GPUMemoryMiB: p.Type.GPUMemoryMiB,
		StartedAt: at(n.StartedMS), EndedAt: at(n.EndedMS), Labels: map[string]string{},
	}
	if n.Phase != fleet.NodeBooting {
		out.ReadyAt = at(n.ReadyMS)
	}
	for k, v := range p.Labels {
		out.Labels[k] = v
	}
	return out
}

func (p *pod) fleet() fleet.Pod {
	c := p.load.cfg
	out := fleet.Pod{
		UID: p.UID, Name: p.Name, Namespace: c.Namespace, Workload: c.Key, Phase: p.Phase, Reason: p.Reason,
		CPUMilli: c.CPUMilli, MemMiB: c.MemMiB, GPUMilli: c.GPUMilli,
		CreatedAt: at(p.CreatedMS), StartedAt: at(p.StartedMS), ReadyAt: at(p.ReadyMS), EndedAt: at(p.EndedMS), Labels: c.Labels,
	}
	if p.node != nil && p.StartedMS > 0 {
		out.Node = p.node.Name
	}
	return out
}

// at turns milliseconds into a time; zero stays the zero time.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Series is one instant value for the telemetry frames.
type Series struct {
	Kind   string  `json:"kind"`   // workload, gpu or node
	Entity string  `json:"entity"` // workload key, GPU UUID, node name
	Field  string  `json:"field"`
	Value  float64 `json:"value"`
}

// Series gives the newest value of every series: each workload's signals and replica counts, each GPU and each node. The order is
// workloads by key, then nodes by number with their GPUs; fields in a fixed order.
func (w *World) Series() []Series {
	var out []Series
	for _, st := range w.States(SampleMillis * time.Millisecond) {
		key := st.Workload.Key
		out = append(out, Series{"workload", key, "replicas", float64(st.Replicas)}, Series{"workload", key, "ready", float64(st.Ready)},
			Series{"workload", key, "starting", float64(st.Starting)})
		for _, s := range st.Signals {
			if last, ok := s.Last(); ok {
				out = append(out, Series{"workload", key, string(s.Name), last.Value})
			}
		}
	}
	perNode := map[uint64][]*pod{}
	byNumber := map[uint64]*pod{}
	for _, p := range w.pods {
		byNumber[p.Number] = p
		if p.node != nil {
			perNode[p.NodeNumber] = append(perNode[p.NodeNumber], p)
		}
	}
	for _, n := range w.nodes {
		if n.Phase == fleet.NodeBooting {
			continue
		}
		cores, memory := 0.15, 700.0
		for _, p := range perNode[n.Number] {
			if p.Phase == fleet.PodReady || p.Phase == fleet.PodTerminating {
				cores += p.load.cores()
				memory += p.load.cfg.Service.MemoryMiB
			}
		}
		out = append(out, Series{"node", n.Name, string(fleet.SignalCPU), tidy(cores)}, Series{"node", n.Name, string(fleet.SignalMemory), tidy(memory)})
		for i, owner := range n.GPUs {
			out = append(out, w.gpuSeries(n, i, byNumber[owner])...)
		}
	}
	return out
}

// gpuSeries are the readings of one GPU: those of its pod with a little spread, or those of an idle one.
func (w *World) gpuSeries(n *node, i int, p *pod) []Series {
	sm, util, memory := 0.0, 0.0, 4.0
	switch {
	case p == nil:
	case p.Phase == fleet.PodLoading:
		memory = p.load.cfg.Service.GPUBaseMiB / 2
	case p.Phase == fleet.PodReady || p.Phase == fleet.PodTerminating && p.Served:
		spread := 1 + 0.06*normal(draw(w.cfg.Seed, forGPU, n.Number<<6|uint64(i), uint64(w.now/SampleMillis)))
		sm = min(1, max(0, p.load.smActive()*spread))
		util = min(1, max(0, p.load.gpuUtil()*spread))
		memory = p.load.gpuMemory()
	}
	id := w.gpuUUID(n, i)
	watts := 18 + 210*sm
	return []Series{{"gpu", id, string(fleet.SignalGPUSM), tidy(sm)}, {"gpu", id, string(fleet.SignalGPUUtil), tidy(util)},
		{"gpu", id, string(fleet.SignalGPUMemory), tidy(memory)}, {"gpu", id, "dcgm_fi_dev_power_usage", tidy(watts)}}
}

func (w *World) gpuUUID(n *node, i int) string {
	return "GPU-" + uuid(w.ids, forGPU, n.Number<<6|uint64(i))
}
