package replay

import (
	"encoding/json"
	"time"

	"plimsoll.dev/services/fleet"
)

// saved is a World on paper. Signals are not in it: they fill up again within fifteen minutes of the World's time.
type saved struct {
	Version    int
	Seed       uint64
	IDs        uint64
	NowMS      int64
	Nodes      []*node
	Pods       []*pod
	EndedNodes []*node
	EndedPods  []*pod
	Revision   int64
	NextNode   uint64
	NextPod    uint64
	NextEvent  int64
	Events     []Event
	Spent      Spent
	Pools      []savedPool
	Loads      map[string]*workloadState
}

type savedPool struct {
	Name    string
	Backoff []int64
	Fails   []int
	Seconds float64
}

const savedVersion = 1

// Save writes the World down, so that Restore can go on with it exactly where it stood.
func (w *World) Save() ([]byte, error) {
	s := saved{
		Version: savedVersion, Seed: w.cfg.Seed, IDs: w.ids, NowMS: w.now, Nodes: w.nodes, Pods: w.pods, EndedNodes: w.endedNodes, EndedPods: w.endedPods,
		Revision: w.revision, NextNode: w.nextNode, NextPod: w.nextPod, NextEvent: w.nextEvent, Events: w.events, Spent: w.spent,
		Loads: map[string]*workloadState{},
	}
	for _, p := range w.pools {
		s.Pools = append(s.Pools, savedPool{p.cfg.Name, p.backoff, p.fails, p.Seconds})
	}
	for _, l := range w.loads {
		s.Loads[l.cfg.Key] = l
	}
	return json.Marshal(s)
}

// Restore reads a World that Save wrote, for the same seed, pools and workloads; anything else is a conflict. The traffic of cfg applies
// from now on. A document that does not fit together is invalid; it is checked before it is used, since it comes from a file.
func Restore(cfg Config, doc []byte) (*World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var s saved
	if err := json.Unmarshal(doc, &s); err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "saved world: %v", err)
	}
	w := emptyWorld(cfg.withDefaults())
	if s.Version != savedVersion || s.Seed != cfg.Seed || len(s.Pools) != len(w.pools) || len(s.Loads) != len(w.loads) {
		return nil, fleet.Errorf(fleet.CodeConflict, "the saved world is another one (version %d, seed %d)", s.Version, s.Seed)
	}
	if s.NowMS%StepMillis != 0 || s.NowMS < time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() {
		return nil, fleet.Errorf(fleet.CodeInvalid, "saved world: its time %d is not a step", s.NowMS)
	}
	w.ids = s.IDs
	w.now, w.revision, w.nextNode, w.nextPod = s.NowMS, s.Revision, s.NextNode, s.NextPod
	w.events, w.nextEvent, w.spent = s.Events, s.NextEvent, s.Spent
	w.nodes, w.pods, w.endedNodes, w.endedPods = s.Nodes, s.Pods, s.EndedNodes, s.EndedPods
	for i, p := range w.pools {
		if s.Pools[i].Name != p.cfg.Name || len(s.Pools[i].Backoff) != len(p.cfg.Zones) || len(s.Pools[i].Fails) != len(p.cfg.Zones) {
			return nil, fleet.Errorf(fleet.CodeConflict, "the saved world has other pools")
		}
		p.backoff, p.fails, p.Seconds = s.Pools[i].Backoff, s.Pools[i].Fails, s.Pools[i].Seconds
	}
	if err := w.adoptLoads(s.Loads); err != nil {
		return nil, err
	}
	nodes, err := w.adoptNodes()
	if err != nil {
		return nil, err
	}
	return w, w.adoptPods(nodes)
}

func (w *World) adoptLoads(loads map[string]*workloadState) error {
	for i, l := range w.loads {
		s := loads[l.cfg.Key]
		if s == nil {
			return fleet.Errorf(fleet.CodeConflict, "the saved world has other workloads")
		}
		waiting := int64(0)
		for _, c := range s.Queue {
			waiting += c.N
		}
		if c := s.Count; s.Desired < 0 || s.Desired > maxReplicas || waiting != c.Waiting || s.Running != c.InService ||
			c.Arrived != c.Served+c.Waiting+c.InService+c.TimedOut {
			return fleet.Errorf(fleet.CodeInvalid, "saved world: the books of %s do not add up", l.cfg.Key)
		}
		s.cfg, s.index, s.pools = l.cfg, l.index, l.pools
		w.loads[i], w.byKey[l.cfg.Key] = s, s
	}
	return nil
}

func (w *World) adoptNodes() (map[uint64]*node, error) {
	nodes := map[uint64]*node{}
	for i, list := range [][]*node{w.nodes, w.endedNodes} {
		for _, n := range list {
			for _, p := range w.pools {
				if n != nil && p.cfg.Name == n.PoolName {
					n.pool = p
				}
			}
			if n == nil || n.pool == nil || len(n.GPUs) != n.pool.cfg.Type.GPUCount || nodes[n.Number] != nil {
				return nil, fleet.Errorf(fleet.CodeInvalid, "saved world: a node does not fit its pool")
			}
			nodes[n.Number] = n
			if i == 0 {
				n.pool.nodes = append(n.pool.nodes, n)
			}
		}
	}
	return nodes, nil
}

func (w *World) adoptPods(nodes map[uint64]*node) error {
	for i, list := range [][]*pod{w.pods, w.endedPods} {
		for _, p := range list {
			if p == nil || w.byKey[p.Key] == nil || (p.NodeNumber > 0 && nodes[p.NodeNumber] == nil && i == 0) {
				return fleet.Errorf(fleet.CodeInvalid, "saved world: a pod belongs nowhere")
			}
			p.load, p.node = w.byKey[p.Key], nodes[p.NodeNumber]
			if i == 0 {
				p.load.pods = append(p.load.pods, p)
				if p.node != nil {
					p.node.pods++
				}
			}
		}
	}
	return nil
}
