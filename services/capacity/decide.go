package capacity

import (
	"slices"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// planner is one plan in the making.
type planner struct {
	in       *Input
	stop     func() bool
	steps    int
	stopped  bool
	kinds    []kind // of the candidates
	byWeight []int
	bought   []int64
	hosts    []*host
	at       []*host // of each pod; nil: nowhere
	pending  []int   // pods that need a place, as far as they have none
	leaving  map[int]bool
	moved    map[string]int // pods of each workload that move, so far
	evicted  map[int]int64  // pods under each disruption limit that move, so far
	bound    bool           // some pod has rules about others
	has      map[string]int // replicas of each workload
	left     caps
	actions  int
	held     []Hold
	unplace  map[int]packing.Unplaced
	plan     *Plan
}

// caps is what may still be added. Machines that go do not give room back: they go after their replacement came.
type caps struct {
	nodes, gpus int64        // noCap: none
	hour        *fleet.Money // nil: none
}

const noCap = int64(1) << 40

// Decide makes the plan. stop is asked now and then while it searches; true ends the search with what is there. With Input.Steps of an
// earlier plan the same comes out, whatever stop said then. Errors are of the input only.
func Decide(in Input, stop func() bool) (*Plan, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	in.Policy = in.Policy.WithDefaults()
	d := &planner{in: &in, stop: stop, leaving: map[int]bool{}, moved: map[string]int{}, evicted: map[int]int64{}, bound: in.bound(), has: map[string]int{}, unplace: map[int]packing.Unplaced{},
		plan: &Plan{At: in.Now, DataAt: in.DataAt, Mode: in.Mode, Add: []Group{}, Drain: []Drain{}, Nodes: []NodeNote{}, Waiting: []Waiting{}, Considered: []Option{}}}
	d.settle()
	d.hold()
	if len(d.plan.Held) > 0 && (d.plan.Held[0] == HoldStale || d.plan.Held[0] == HoldEmpty) {
		d.report()
		return d.plan, nil
	}
	d.limit()
	d.spare()
	if err := d.grow(); err != nil {
		return nil, err
	}
	d.insure()
	d.warm()
	d.improve()
	if err := d.compare(); err != nil {
		return nil, err
	}
	d.report()
	return d.plan, nil
}

// bound tells whether some pod has rules about other pods.
func (in *Input) bound() bool {
	return slices.ContainsFunc(in.Pods, func(p Pod) bool { return len(p.Affinity)+len(p.Anti)+len(p.Spread) > 0 })
}

func (in *Input) validate() error {
	if len(in.Nodes) > MaxNodes || len(in.Pods) > MaxPods || len(in.Candidates) > MaxCandidates {
		return fleet.Errorf(fleet.CodeTooLarge, "%d nodes, %d pods, %d offerings: at most %d, %d and %d", len(in.Nodes), len(in.Pods), len(in.Candidates), MaxNodes, MaxPods, MaxCandidates)
	}
	names := map[string]bool{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Name == "" || names[n.Name] {
			return fleet.Errorf(fleet.CodeInvalid, "node %q is there twice or has no name", n.Name)
		}
		names[n.Name] = true
		if n.GPUCount < 0 || n.GPUCount > maxNodeGPUs || n.Price != nil && *n.Price < 0 {
			return fleet.Errorf(fleet.CodeInvalid, "node %q has %d GPUs, or a price below zero", n.Name, n.GPUCount)
		}
	}
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.CPUMilli < 0 || p.MemMiB < 0 || p.GPUCount < 0 || p.GPUMilli < 0 || p.GPUMilli > 1000 {
			return fleet.Errorf(fleet.CodeInvalid, "pod %q asks for a size that is negative", p.Name)
		}
		if p.Rule < 0 || p.Rule > len(in.Rules) || p.Limit < 0 || p.Limit > len(in.Limits) {
			return fleet.Errorf(fleet.CodeInvalid, "pod %q names a rule that is not there", p.Name)
		}
	}
	for i := range in.Candidates {
		if c := &in.Candidates[i]; c.GPUCount < 0 || c.GPUCount > maxNodeGPUs || c.Price != nil && *c.Price < 0 {
			return fleet.Errorf(fleet.CodeInvalid, "offering %q has %d GPUs, or a price below zero", c.Offering.InstanceType, c.GPUCount)
		}
	}
	return in.Policy.Validate()
}

const maxNodeGPUs = 1024

// enough counts a step of the search and tells whether it must end.
func (d *planner) enough() bool {
	if d.stopped {
		return true
	}
	d.steps++
	if d.in.Steps > 0 {
		d.stopped = d.steps >= d.in.Steps
	} else if d.stop != nil {
		d.stopped = d.stop()
	}
	return d.stopped
}

// settle looks at machines and pods as they are.
func (d *planner) settle() {
	in := d.in
	for i := range in.Candidates {
		d.kinds = append(d.kinds, in.Candidates[i].kind())
	}
	d.bought, d.at = make([]int64, len(in.Candidates)), make([]*host, len(in.Pods))
	byName := map[string]*host{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Phase == fleet.NodeTerminated {
			continue
		}
		h := &host{kind: n.kind(), node: i, cand: -1, open: true, fixed: n.Fixed}
		switch {
		case n.Notice || n.Phase == fleet.NodeDraining:
			h.open, h.fixed = false, "leaving"
			d.leaving[i] = true
		case n.Phase == fleet.NodeBooting:
			h.fixed = "starting"
		case n.Phase != fleet.NodeReady:
			h.open, h.fixed = false, "not_ready"
		case h.fixed != "":
		case !h.known:
			h.fixed = "unpriced"
		case n.Offering.Purchase == fleet.PurchaseReserved:
			h.fixed = "reserved"
		case n.Saves == nil || *n.Saves <= 0:
			h.fixed = "committed"
		case in.Now.Sub(n.StartedAt).Seconds() < float64(in.Policy.MinAgeSec):
			h.fixed = "young"
		}
		if n.Saves != nil {
			h.saves = *n.Saves
		}
		d.hosts = append(d.hosts, h)
		byName[n.Name] = h
	}
	for i := range in.Pods {
		d.settlePod(i, byName)
	}
	for _, h := range d.hosts {
		d.fill(h)
	}
}

func (d *planner) settlePod(i int, byName map[string]*host) {
	p := &d.in.Pods[i]
	if p.Daemon || p.Phase == fleet.PodEnded || p.Phase == fleet.PodFailed {
		return
	}
	h := byName[p.Node]
	if p.Phase != fleet.PodTerminating {
		d.has[p.Workload]++
		if p.Node == "" || h != nil && h.fixed == "leaving" {
			d.pending = append(d.pending, i)
		}
	}
	if h == nil {
		return
	}
	h.pods = append(h.pods, i)
	if h.fixed != "leaving" {
		d.at[i] = h
	}
	if h.fixed != "" {
		return
	}
	switch {
	case p.Phase == fleet.PodTerminating:
		h.fixed, h.by = "pods", p.Name
	case p.Protected == "pdb", p.Protected == "rules": // a person looks there, not at labels
		h.fixed, h.by = p.Protected, p.Name
	case p.Protected != "":
		h.fixed, h.by = "protected", p.Name
	case p.Phase != fleet.PodReady || p.ReadyAt.IsZero() || d.in.Now.Sub(p.ReadyAt).Seconds() < float64(d.in.Policy.RampSec):
		h.fixed, h.by = "pods", p.Name
	}
}

// hold notes what forbids changes.
func (d *planner) hold() {
	in := d.in
	say := func(h Hold) { d.plan.Held = append(d.plan.Held, h) }
	if in.DataAt.IsZero() || len(in.Nodes) == 0 && len(in.Pods) == 0 {
		say(HoldEmpty)
		return
	}
	if age := in.Now.Sub(in.DataAt).Seconds(); age > float64(in.Policy.StaleSec) || age < -float64(in.Policy.StaleSec) {
		say(HoldStale)
		return
	}
	if in.Frozen {
		say(HoldFrozen)
	}
	for _, w := range in.Freezes {
		if !in.Now.Before(w.From) && in.Now.Before(w.To) {
			say(HoldWindow)
			break
		}
	}
}

// limit computes what may still be added. What an unpriced machine costs is unknown: under a cap on spending nothing is added then,
// since nobody can tell whether there is room.
func (d *planner) limit() {
	p := d.in.Policy
	d.left = caps{nodes: noCap, gpus: noCap}
	var nodes, gpus int64
	var hour fleet.Money
	unknown := false
	for _, h := range d.hosts {
		nodes, gpus = nodes+1, gpus+h.gpus
		hour = hour.Add(h.price)
		unknown = unknown || !h.known
	}
	if p.MaxNodes > 0 {
		d.left.nodes = max(p.MaxNodes-nodes, 0)
	}
	if p.MaxGPUs > 0 {
		d.left.gpus = max(p.MaxGPUs-gpus, 0)
	}
	most := p.HourlyMax
	if p.DailyMax != nil {
		rate := p.DailyMax.MulDiv(1, 24)
		if d.in.SpentToday != nil && d.in.DayLeft > 0 {
			rate = max(*p.DailyMax-*d.in.SpentToday, 0).MulDiv(1000, max(int64(d.in.DayLeft*1000), 250))
		}
		if most == nil || rate < *most {
			most = &rate
		}
	}
	if most != nil {
		room := max(*most-hour, 0)
		if unknown {
			room = 0
		}
		d.left.hour = &room
	}
}

// affords tells whether one more machine of a candidate stays within the caps, also by the number of actions.
func (d *planner) affords(c int) bool {
	k := &d.kinds[c]
	return d.left.nodes >= 1 && d.left.gpus >= k.gpus && (d.left.hour == nil || *d.left.hour >= k.price)
}

// add buys a machine.
func (d *planner) add(c int, why Why) *host {
	d.bought[c]++
	d.left.nodes--
	d.left.gpus -= d.kinds[c].gpus
	if d.left.hour != nil {
		rest := *d.left.hour - d.kinds[c].price
		d.left.hour = &rest
	}
	d.actions++
	h := &host{kind: d.kinds[c], node: -1, cand: c, open: true, why: why}
	h.room = d.whole(h)
	d.hosts = append(d.hosts, h)
	return h
}

// spare puts pods that need a place into room that is there, the fullest machine first.
func (d *planner) spare() {
	d.largest(d.pending)
	var rest []int
	for _, i := range d.pending {
		if h := d.roomFor(i, nil); h != nil {
			d.put(h, i)
			d.receives(h, i)
		} else {
			rest = append(rest, i)
		}
	}
	d.pending = rest
}

// roomFor is the open machine with the least room left that takes a pod, not except; nil: none.
func (d *planner) roomFor(pod int, except *host) *host {
	p := &d.in.Pods[pod]
	var best *host
	var least int64
	for _, h := range d.hosts {
		if h == except || h.gone || !h.open || h.fixed == string(WhyWarm) || !h.room.fits(p, h.shares) || d.refuses(p, &h.kind) != "" || !d.welcome(pod, h) {
			continue
		}
		left := h.room.cpu + h.room.mem/4
		for _, g := range h.room.gpus {
			left += g * 100
		}
		if len(h.pods) == 0 {
			left += 1 << 40 // an empty machine can go
		}
		if best == nil || left < least {
			best, least = h, left
		}
	}
	return best
}

// grow packs what has no room on new machines.
func (d *planner) grow() error {
	if len(d.pending) == 0 {
		return nil
	}
	slices.Sort(d.pending)
	answer, offerings, err := d.pack(d.pending, true)
	if err != nil {
		return err
	}
	for _, u := range answer.Unplaced {
		u.Pod = d.pending[u.Pod]
		d.unplace[u.Pod] = u
	}
	var list []purchase
	for _, n := range answer.Nodes {
		p := purchase{cand: offerings[n.Offering]}
		for _, i := range n.Pods {
			p.pods = append(p.pods, d.pending[i])
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b purchase) int { return len(b.pods) - len(a.pods) }) // those that help most first, should there be too many
	for _, n := range d.choose(list) {
		c := n.cand
		if d.actions >= d.in.Policy.MaxActions || !d.affords(c) {
			if d.actions >= d.in.Policy.MaxActions {
				d.note(HoldActions)
			}
			continue
		}
		why := WhyLeaving
		if slices.ContainsFunc(n.pods, func(i int) bool { return !d.leaves(i) }) {
			why = WhyPending
		}
		h := d.add(c, why)
		h.bid = n.bid
		for _, i := range n.pods {
			d.put(h, i)
		}
	}
	d.pending = slices.DeleteFunc(d.pending, func(i int) bool { return d.at[i] != nil })
	return nil
}

// leaves tells whether a pod runs on a machine that goes.
func (d *planner) leaves(pod int) bool { return d.in.Pods[pod].Node != "" }

func (d *planner) note(h Hold) {
	if !slices.Contains(d.held, h) {
		d.held = append(d.held, h)
	}
}

// pack packs pods on candidates; capped: within what may still be added, and only what may be bought now. It returns which candidate
// each offering is.
func (d *planner) pack(pods []int, capped bool) (*packing.Answer, []int, error) {
	var list []packing.Pod
	for _, i := range pods {
		p, err := d.in.Pods[i].packed(d.in.Policy.Equivalent)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, p)
	}
	var offers []packing.Offering
	var index []int
	for c := range d.in.Candidates {
		o := d.in.Candidates[c].packed(d.in)
		if why := d.buyable(c); capped && why != "" {
			if why == "spot" {
				continue
			}
			none := int64(0)
			o.Stock = &none
		} else if ask := d.in.Candidates[c].Ask; capped && ask != nil && (o.Stock == nil || *o.Stock > *ask-d.bought[c]) {
			left := *ask - d.bought[c]
			o.Stock = &left
		}
		offers, index = append(offers, o), append(index, c)
	}
	opts := packing.Options{NoCPUOnGPU: !d.in.Policy.CPUOnGPU, Stop: d.enough}
	for _, m := range d.in.Daemons {
		opts.Daemons = append(opts.Daemons, packing.Pod{Name: m.Name, CPUMilli: m.CPUMilli, MemMiB: m.MemMiB, Archs: []string{"*"}, SpotOK: true, Rules: &packing.Rules{Tolerates: []string{"*"}}})
	}
	if capped {
		if d.left.nodes < noCap {
			opts.Limits = append(opts.Limits, packing.Limit{Name: "max_nodes", Resource: packing.ResourceNodes, Max: d.left.nodes})
		}
		if d.left.gpus < noCap {
			opts.Limits = append(opts.Limits, packing.Limit{Name: "max_gpus", Resource: packing.ResourceGPU, Max: d.left.gpus})
		}
		if d.left.hour != nil {
			opts.Limits = append(opts.Limits, packing.Limit{Name: "spend", Resource: packing.ResourceCost, Max: int64(*d.left.hour)})
		}
	}
	a, err := packing.Pack(list, offers, opts)
	return a, index, err
}
