package capacity

import (
	"cmp"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

const (
	maxAnew    = 4000 // pods: above, packing everything anew takes too long for what it tells
	maxWaiting = 2000 // pods listed
	maxBest    = 200  // machines for which the cheapest other offering is looked up
)

// compare computes what else could be done as a whole, for the people who read the plan.
func (d *planner) compare() error {
	var all []int
	for i := range d.in.Pods {
		if d.at[i] != nil && d.in.Pods[i].Phase != fleet.PodTerminating {
			all = append(all, i)
		}
	}
	moved := 0
	for _, n := range d.moved {
		moved += n
	}
	before, after := d.costs()
	left := len(d.pending)
	waiting := left
	for _, h := range d.hosts {
		if h.isNew() && !h.gone {
			for _, i := range h.pods {
				if !d.isMoved(i) {
					waiting++
				}
			}
		}
	}
	d.plan.Considered = append(d.plan.Considered, Option{Name: "as_is", Cost: &before, Left: waiting}, Option{Name: "plan", Cost: &after, Moved: moved, Left: left})
	if len(all) == 0 || len(all) > maxAnew || len(d.in.Candidates) == 0 || d.stopped {
		return nil
	}
	a, _, err := d.pack(all, false)
	if err != nil {
		return err
	}
	cost := a.Cost
	d.plan.Anew = &cost
	running := 0
	for _, i := range all {
		if d.in.Pods[i].Node != "" {
			running++
		}
	}
	d.plan.Considered = append(d.plan.Considered, Option{Name: "anew", Cost: &cost, Moved: running, Left: left + len(a.Unplaced)})
	if a.Bound > 0 {
		bound := a.Bound
		d.plan.Bound, d.plan.AnewGap = &bound, int64(max(a.Weighed-a.Bound, 0).MulDiv(10_000, int64(a.Bound)))
	}
	return nil
}

func (d *planner) isMoved(pod int) bool { return d.in.Pods[pod].Node != "" }

// costs are what the machines cost per hour before and after.
func (d *planner) costs() (before, after fleet.Money) {
	d.plan.Unpriced = 0
	for _, h := range d.hosts {
		if !h.isNew() {
			before = before.Add(h.price)
			if !h.known {
				d.plan.Unpriced++
			}
		}
		if !h.gone && h.fixed != "leaving" {
			after = after.Add(h.price)
		}
	}
	return before, after
}

// report writes the plan down.
func (d *planner) report() {
	d.weightOrder()
	p := d.plan
	p.Before, p.After = d.costs()
	frozen := slices.Contains(p.Held, HoldFrozen) || slices.Contains(p.Held, HoldWindow)
	nothing := slices.Contains(p.Held, HoldStale) || slices.Contains(p.Held, HoldEmpty)
	group := map[*host]int{}
	if !nothing {
		group = d.groups()
		d.drains()
	}
	d.notes()
	d.waits(group, frozen || nothing)
	d.gpus()
	if d.stopped {
		d.note(HoldTime)
		p.Steps = d.steps
	}
	switch {
	case frozen || nothing:
		p.Outcome = OutcomeHeld
	case p.Changes():
		p.Outcome = OutcomeChange
	default:
		p.Outcome = OutcomeNothing
	}
	p.Held = append(p.Held, d.held...)
}

// groups lists the machines to add by offering and reason.
func (d *planner) groups() map[*host]int {
	type key struct {
		c   int
		why Why
	}
	by, index := map[key]int{}, map[*host]int{}
	heirs := map[*host]string{}
	for _, h := range d.hosts {
		if h.heir != nil {
			heirs[h.heir] = d.in.Nodes[h.node].Name
		}
	}
	var fresh []*host
	for _, h := range d.hosts {
		if h.isNew() && !h.gone {
			fresh = append(fresh, h)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.why, b.why), cmp.Compare(a.cand, b.cand), cmp.Compare(len(b.pods), len(a.pods)))
	})
	for _, h := range fresh {
		k := key{h.cand, h.why}
		g, ok := by[k]
		if !ok {
			g = len(d.plan.Add)
			by[k] = g
			new := Group{Offering: h.offering, Candidate: h.cand, Price: h.price, Weighed: h.weighed, GPUModel: h.model, GPUCount: h.gpus, Why: h.why, Machines: []Machine{}}
			if new.Alternative = []Alternative{}; h.why != WhyWarm { // nothing runs on it: everything would hold that
				new.Alternative = d.alternatives(h.offering, h.pods, h.weighed)
			}
			new.Ladder = d.ladder(h.cand, h.pods)
			new.Expected = d.arrival(h.cand, new.Ladder)
			d.plan.Add = append(d.plan.Add, new)
		}
		m := Machine{Pods: d.names(h.pods), Replaces: heirs[h]}
		d.plan.Add[g].Machines = append(d.plan.Add[g].Machines, m)
		d.plan.Add[g].Count++
		index[h] = g
	}
	return index
}

func (d *planner) names(pods []int) []string {
	out := []string{}
	for _, i := range pods {
		out = append(out, d.in.Pods[i].Name)
	}
	slices.Sort(out)
	return out
}

func (d *planner) drains() {
	for _, h := range d.hosts {
		if !h.gone || h.isNew() {
			continue
		}
		n := &d.in.Nodes[h.node]
		dr := Drain{UID: n.UID, Name: n.Name, Why: h.why, Moves: []Move{}, Saving: h.saves, Churn: h.churn}
		if h.saves > 0 {
			dr.Pays = int64(h.churn.MulDiv(3600, int64(h.saves)))
		}
		for _, i := range h.moved {
			m := Move{Pod: d.in.Pods[i].Name}
			if to := d.at[i]; to != nil && !to.isNew() {
				m.To = d.in.Nodes[to.node].Name
			}
			dr.Moves = append(dr.Moves, m)
		}
		slices.SortFunc(dr.Moves, func(a, b Move) int { return strings.Compare(a.Pod, b.Pod) })
		d.plan.Drain = append(d.plan.Drain, dr)
	}
	slices.SortFunc(d.plan.Drain, func(a, b Drain) int { return strings.Compare(a.Name, b.Name) })
}

// notes tells of each machine what becomes of it.
func (d *planner) notes() {
	looked := 0
	for _, h := range d.hosts {
		if h.isNew() {
			continue
		}
		note := NodeNote{Name: d.in.Nodes[h.node].Name, State: NodeKeep}
		switch {
		case h.fixed == "leaving":
			note.State = NodeLeaving
		case h.gone:
			note.State, note.Reason = NodeDrained, string(h.why)
		case h.fixed != "":
			note.State, note.Reason, note.Detail = NodeStays, h.fixed, h.by
		default:
			note.Reason = "no_gain"
		}
		if looked < maxBest && h.known && len(h.pods) > 0 && !h.gone {
			looked++
			note.Best = d.cheapest(h)
		}
		d.plan.Nodes = append(d.plan.Nodes, note)
	}
	slices.SortFunc(d.plan.Nodes, func(a, b NodeNote) int { return strings.Compare(a.Name, b.Name) })
}

// cheapest is the best other offering for what a machine holds, and why it was not taken.
func (d *planner) cheapest(h *host) *Alternative {
	for _, c := range d.byWeight {
		k := &d.kinds[c]
		if !k.known || k.offering == h.offering || h.same(k) && k.weighed >= h.weighed || d.holdsAll(c, h.pods) != "" {
			continue
		}
		a := Alternative{Offering: k.offering, Price: &k.price, Weighed: &k.weighed, WhyNot: d.buyable(c)}
		switch {
		case a.WhyNot != "":
		case k.weighed >= h.weighed || k.price >= h.price:
			a.WhyNot = "dearer"
		case h.fixed != "":
			a.WhyNot = h.fixed
		case h.same(k):
			a.WhyNot = "same_type"
		case !d.affords(c):
			a.WhyNot = "cap"
		case !d.mayMove(h, h.pods):
			a.WhyNot = "moves"
		default:
			a.WhyNot = "churn"
		}
		return &a
	}
	return nil
}

// waits tells why each pod that is not ready is not.
func (d *planner) waits(group map[*host]int, held bool) {
	p := d.plan
	for i := range d.in.Pods {
		pod := &d.in.Pods[i]
		if pod.Daemon || pod.Phase == fleet.PodEnded || pod.Phase == fleet.PodFailed || pod.Phase == fleet.PodTerminating || pod.Phase == fleet.PodReady {
			continue
		}
		w := Waiting{Pod: pod.Name, Workload: pod.Workload, Planned: pod.Planned, Since: pod.Since, Words: pod.Reason, Node: pod.Node, CPUMilli: pod.CPUMilli, MemMiB: pod.MemMiB, GPUs: pod.GPUCount}
		d.cause(&w, i, group, held)
		age := d.in.Now.Sub(pod.Since)
		w.Long = !pod.Planned && pod.Node == "" && age.Seconds() > float64(d.in.Policy.WaitingSec)
		if w.Long {
			p.LongWaiting++
			p.OldestWait = max(p.OldestWait, int64(age.Seconds()))
		}
		p.Waiting = append(p.Waiting, w)
	}
	slices.SortStableFunc(p.Waiting, func(a, b Waiting) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Pod, b.Pod)) })
	p.Waiting = p.Waiting[:min(len(p.Waiting), maxWaiting)]
}

func (d *planner) cause(w *Waiting, i int, group map[*host]int, held bool) {
	pod, h := &d.in.Pods[i], d.at[i]
	if pod.Node != "" {
		w.Cause = started(pod.Reason)
		if h != nil && !h.isNew() && d.in.Nodes[h.node].Phase == fleet.NodeBooting {
			w.Cause = CauseStarting
			w.Seconds = d.untilStarted(h)
		}
		if w.Cause == CauseLoading && d.in.PodStart > 0 {
			w.Seconds = max(d.in.PodStart-int64(d.in.Now.Sub(pod.Since).Seconds()), 0)
		}
		return
	}
	switch {
	case h != nil && h.isNew() && !held:
		g := group[h]
		w.Cause, w.Group, w.Seconds = CauseNew, &g, d.plan.Add[g].Expected.Seconds
	case h != nil && h.isNew():
		w.Cause = CauseDeferred
	case h != nil && d.in.Nodes[h.node].Phase == fleet.NodeBooting:
		w.Cause, w.Node, w.Seconds = CauseStarting, d.in.Nodes[h.node].Name, d.untilStarted(h)
	case h != nil:
		w.Cause, w.Node, w.Seconds = CauseRoom, d.in.Nodes[h.node].Name, d.in.PodStart
	default:
		w.Cause = CauseDeferred
		if u, ok := d.unplace[i]; ok {
			w.Cause, w.Reasons, w.Blocked = CauseNothing, u.Reasons, u.Blocked
		}
	}
}

// untilStarted is how long a machine that starts still takes, with the pod's own start; 0: unknown.
func (d *planner) untilStarted(h *host) int64 {
	if d.in.NodeStart == 0 {
		return 0
	}
	return max(d.in.NodeStart-int64(d.in.Now.Sub(d.in.Nodes[h.node].StartedAt).Seconds()), 0) + d.in.PodStart
}

// started reads the cluster's words for a pod that has a machine.
func started(words string) Cause {
	switch {
	case strings.Contains(words, "Image"):
		return CauseImage
	case strings.Contains(words, "CrashLoop") || strings.Contains(words, "OOM") || words == "Error" || words == "RunContainerError":
		return CauseCrash
	case strings.Contains(words, "Config") || strings.Contains(words, "Mount") || strings.Contains(words, "Volume"):
		return CauseConfig
	}
	return CauseLoading
}

// gpus measures what is free, and how much of it the largest pod cannot use.
func (d *planner) gpus() {
	var most int64
	for i := range d.in.Pods {
		if d.at[i] != nil || d.in.Pods[i].Node == "" {
			most = max(most, d.in.Pods[i].GPUCount)
		}
	}
	var free, useless int64
	for _, h := range d.hosts {
		if !h.open && !h.gone || h.isNew() {
			continue
		}
		var n int64
		for _, g := range h.room.gpus {
			if g == 1000 {
				n++
			}
		}
		free += n
		if n < most {
			useless += n
		}
	}
	d.plan.SpareGPUs = free
	if free > 0 {
		d.plan.Fragmented = useless * 1000 / free
	}
}
