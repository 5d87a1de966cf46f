package replay

import (
	"fmt"
	"math"
	"sort"

	"plimsoll.dev/services/fleet"
)

// pod is one replica. Exported fields are saved.
type pod struct {
	Number     uint64
	UID, Name  string
	Key        string
	NodeNumber uint64 // 0: nowhere yet
	Phase      fleet.PodPhase
	Reason     string
	CreatedMS  int64
	StartedMS  int64
	ReadyMS    int64
	EndedMS    int64
	UntilMS    int64 // when the present phase ends by itself
	Told       bool  // failed_scheduling was said
	Served     bool  // was ready before it began to drain
	Rev        int64

	load *workloadState
	node *node
}

func (w *World) addPod(l *workloadState) {
	w.nextPod++
	k := w.nextPod
	p := &pod{Number: k, UID: uuid(w.ids, forPod, k), Key: l.cfg.Key, Phase: fleet.PodPending, Reason: "Unschedulable", CreatedMS: w.now, load: l}
	name := draw(w.cfg.Seed, forName, k, l.index)
	if l.cfg.Kind == "StatefulSet" {
		p.Name = fmt.Sprintf("%s-%d", l.cfg.Name, l.freeOrdinal())
	} else {
		p.Name = fmt.Sprintf("%s-%s-%s", l.cfg.Name, suffix(draw(w.cfg.Seed, forName, 0, l.index), 9), suffix(name, 5))
	}
	w.pods = append(w.pods, p)
	l.pods = append(l.pods, p)
	w.changed(&p.Rev)
}

// freeOrdinal is the lowest number that no living pod of a StatefulSet has.
func (l *workloadState) freeOrdinal() int {
	taken := map[string]bool{}
	for _, p := range l.pods {
		taken[p.Name] = true
	}
	for i := 0; ; i++ {
		if !taken[fmt.Sprintf("%s-%d", l.cfg.Name, i)] {
			return i
		}
	}
}

// reconcile is the replica controller: it makes living pods equal to what is asked for.
func (w *World) reconcile(l *workloadState) {
	have := 0
	for _, p := range l.pods {
		if p.Phase != fleet.PodTerminating {
			have++
		}
	}
	for ; have < l.Desired; have++ {
		w.addPod(l)
	}
	if have == l.Desired {
		return
	}
	for _, p := range l.dispensable()[:have-l.Desired] {
		w.terminate(p)
	}
	w.pods, l.pods = livingPods(w.pods), livingPods(l.pods)
}

// dispensable orders the pods by who may go first: not ready before ready, then those on the emptiest nodes (so that machines become
// free), then the newest.
func (l *workloadState) dispensable() []*pod {
	var list []*pod
	for _, p := range l.pods {
		if p.Phase != fleet.PodTerminating {
			list = append(list, p)
		}
	}
	rank := func(p *pod) int {
		switch p.Phase {
		case fleet.PodPending:
			return 0
		case fleet.PodReady:
			return 2
		}
		return 1
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if rank(a) != rank(b) {
			return rank(a) < rank(b)
		}
		if a.node != nil && b.node != nil && a.node.pods != b.node.pods {
			return a.node.pods < b.node.pods
		}
		return a.Number > b.Number
	})
	return list
}

// terminate drains a pod that runs, and ends at once one that does not.
func (w *World) terminate(p *pod) {
	if p.node == nil || p.Phase == fleet.PodPending {
		w.endPod(p, fleet.PodEnded, "")
		return
	}
	p.Served = p.Phase == fleet.PodReady
	drain := p.load.cfg.Startup.DrainSeconds
	if !p.Served {
		drain = math.Min(drain, 5)
	}
	p.Phase, p.Reason, p.UntilMS = fleet.PodTerminating, "", w.now+int64(1000*drain)
	if lost := p.node.LostMS; lost > 0 && p.UntilMS > lost {
		p.UntilMS = lost
	}
	w.changed(&p.Rev)
}

// endPod frees what the pod held. The caller removes it from w.pods; its own list is cleaned here.
func (w *World) endPod(p *pod, phase fleet.PodPhase, reason string) {
	if p.node != nil {
		p.node.FreeCPU += p.load.cfg.CPUMilli
		p.node.FreeMem += p.load.cfg.MemMiB
		for i, owner := range p.node.GPUs {
			if owner == p.Number {
				p.node.GPUs[i] = 0
			}
		}
		p.node.pods--
	}
	p.Phase, p.Reason, p.EndedMS = phase, reason, w.now
	w.changed(&p.Rev)
	p.load.pods = livingPods(p.load.pods)
	w.endedPods = append(w.endedPods, p)
}

func livingPods(pods []*pod) []*pod {
	n := 0
	for _, p := range pods {
		if p.EndedMS == 0 {
			n++
		}
	}
	if n == len(pods) {
		return pods
	}
	kept := make([]*pod, 0, n)
	for _, p := range pods {
		if p.EndedMS == 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// stepPods moves each pod through its phases.
func (w *World) stepPods() {
	ended := false
	for _, p := range w.pods {
		if p.EndedMS > 0 {
			ended = true
			continue
		}
		start := p.load.cfg.Startup
		switch p.Phase {
		case fleet.PodPending:
			if p.node == nil || p.node.Phase != fleet.NodeReady {
				continue
			}
			p.StartedMS = w.now
			if p.node.has(p.Key) {
				w.loadModel(p, start)
			} else {
				p.Phase, p.Reason, p.UntilMS = fleet.PodPulling, "ContainerCreating", w.now+fifth(start.PullSeconds, draw(w.cfg.Seed, forPull, p.Number, 0))
				w.changed(&p.Rev)
			}
		case fleet.PodPulling:
			if w.now >= p.UntilMS {
				p.node.hold(p.Key)
				w.loadModel(p, start)
			}
		case fleet.PodLoading:
			if w.now >= p.UntilMS {
				p.Phase, p.Reason, p.ReadyMS = fleet.PodReady, "", w.now
				w.changed(&p.Rev)
				p.load.Starts++
				p.load.StartMS += w.now - p.CreatedMS
			}
		case fleet.PodTerminating:
			if w.now >= p.UntilMS {
				w.endPod(p, fleet.PodEnded, "")
				ended = true
			}
		}
	}
	if ended {
		w.pods = livingPods(w.pods)
		for _, l := range w.loads {
			w.reconcile(l)
		}
	}
}

func (w *World) loadModel(p *pod, start Startup) {
	p.Phase, p.Reason, p.UntilMS = fleet.PodLoading, "ContainersNotReady", w.now+fifth(start.LoadSeconds, draw(w.cfg.Seed, forLoad, p.Number, 0))
	w.changed(&p.Rev)
}

// schedule places pending pods, oldest first, and asks for machines where none fits.
func (w *World) schedule() {
	for _, p := range w.pods {
		if p.Phase != fleet.PodPending || p.node != nil || p.EndedMS > 0 {
			continue
		}
		n := w.findNode(p)
		for i := 0; n == nil && i < len(p.load.pools); i++ {
			n = w.launch(p.load.pools[i], p.load)
		}
		if n != nil {
			w.place(p, n)
		} else if !p.Told && w.now-p.CreatedMS >= 30_000 {
			p.Told = true
			w.event("failed_scheduling", "Pod/"+p.load.cfg.Namespace+"/"+p.Name, p.Key, "FailedScheduling", "no node has room and no machine is to be had")
		}
	}
}

// findNode is best fit: the machine with the fewest free GPUs, then the least free CPU; ready before booting, and one that holds the
// image before one that does not.
func (w *World) findNode(p *pod) *node {
	var best *node
	var bestScore int64
	for _, pool := range p.load.pools {
		for _, n := range pool.nodes {
			if !n.fits(p) {
				continue
			}
			score := n.FreeCPU + int64(n.freeGPUs())*1_000_000
			if n.Phase == fleet.NodeBooting {
				score += 1_000_000_000
			}
			if !n.has(p.Key) {
				score += 100_000_000
			}
			if best == nil || score < bestScore {
				best, bestScore = n, score
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// place binds a pod; it starts when the node is ready.
func (w *World) place(p *pod, n *node) {
	p.node, p.NodeNumber = n, n.Number
	n.FreeCPU -= p.load.cfg.CPUMilli
	n.FreeMem -= p.load.cfg.MemMiB
	for i, need := 0, p.load.cfg.GPUMilli/1000; need > 0; i++ {
		if n.GPUs[i] == 0 {
			n.GPUs[i] = p.Number
			need--
		}
	}
	n.pods++
	n.EmptyMS = 0
	p.Reason = ""
	if n.Phase == fleet.NodeBooting {
		p.Reason = "WaitingForNode"
	}
	w.changed(&p.Rev)
}
