package capacity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/procure"
)

// SpotNews is what the cluster saw of the Spot machines of one offering at one moment.
type SpotNews struct {
	At     time.Time
	Got    int // machines that came
	Failed int // launches that were refused
	Warned int // machines that got a notice
	Lost   int // machines that the cloud took without one
	Held   int // machines of the offering that the cluster had then
}

// Bounds of what a plan tells of markets.
const (
	maxMarkets     = 20
	maxMarketPools = 40
)

// MarketPool is one place to buy in a market: a machine type in a zone.
type MarketPool struct {
	Offering     fleet.Offering `json:"offering"`
	Price        fleet.Money    `json:"price"` // per machine-hour
	ScoreMilli   int64          `json:"score,omitempty"`
	HazardMilli  int64          `json:"hazard,omitempty"` // learned from launches and losses
	Held         int            `json:"held"`             // ready or starting
	Target       int            `json:"target"`           // as room procure would have it
	Asked        *int           `json:"asked,omitempty"`  // it may be asked to hold so many at most now; nil: no limit
	BackoffUntil time.Time      `json:"backoff_until,omitzero"`
}

// Market is how the machines for some pods are bought: which pools hold how many, and how many stand on demand. Room procure decides, as in the lab.
type Market struct {
	Pods    []string     `json:"pods"`           // an example: those of the first machine
	Want    int          `json:"want"`           // machines in all
	Standby int          `json:"stand_in"`       // machines on demand that stand in for Spot
	Safe    int64        `json:"safe,omitempty"` // thousandths of what is in use that shall survive the loss of the largest pool
	Pools   []MarketPool `json:"pools"`
}

// slotOf is a moment in the time of room procure.
func slotOf(at time.Time) int { return int(at.Unix() / procure.SlotSeconds) }

func slotStart(slot int) time.Time {
	return time.Unix(int64(slot)*procure.SlotSeconds, 0).UTC()
}

// Recall tells candidates of Spot, and machines that run, what is known of their pools from the news about each, oldest first: how much they are to be
// feared, how long they are left alone, and how many may be asked for. From then on room procure decides where Spot is bought, and the back-off and
// stock-out chance of the availability model no longer keep anybody from asking.
func (in *Input) Recall(news map[fleet.Offering][]SpotNews) {
	held := map[fleet.Offering]int{}
	for i := range in.Nodes {
		if n := &in.Nodes[i]; n.counts() && n.Offering.Purchase == fleet.PurchaseSpot {
			held[n.Offering]++
		}
	}
	now, standIn := slotOf(in.Now), in.standIns()
	hazards := map[fleet.Offering]int64{}
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if c.Offering.Purchase != fleet.PurchaseSpot {
			continue
		}
		b := procure.Believe(procure.Default(), inSlots(news[c.Offering], now), now, held[c.Offering])
		c.Belief, c.BackoffUntil, c.Ask = &b, time.Time{}, nil
		p := procure.Recall(procure.Default(), now, []procure.Belief{b})
		if free := p.Free(0, standIn); free > now {
			c.BackoffUntil = slotStart(free)
		}
		if most := p.Most(0, held[c.Offering]); most < math.MaxInt {
			room := int64(max(most-held[c.Offering], 0))
			c.Ask = &room
		}
		c.HazardMilli = int64(math.Round(1000 * b.Hazard))
		hazards[c.Offering] = c.HazardMilli
	}
	for i := range in.Nodes {
		if h, ok := hazards[in.Nodes[i].Offering]; ok {
			in.Nodes[i].HazardMilli = h
		}
	}
}

// inSlots adds up news by slot, up to now.
func inSlots(news []SpotNews, now int) []procure.News {
	var out []procure.News
	for _, n := range news {
		slot := slotOf(n.At)
		if slot > now {
			break
		}
		if len(out) == 0 || out[len(out)-1].Slot < slot {
			out = append(out, procure.News{Slot: slot})
		}
		last := &out[len(out)-1]
		last.Got, last.Failed, last.Warned, last.Lost, last.Held = last.Got+n.Got, last.Failed+n.Failed, last.Warned+n.Warned, last.Lost+n.Lost, n.Held
	}
	return out
}

// counts tells whether a machine is there for the long run: ready or starting, and not leaving.
func (n *Node) counts() bool {
	return !n.Notice && (n.Phase == fleet.NodeReady || n.Phase == fleet.NodeBooting)
}

// standIns counts machines on demand all of whose pods could run on Spot.
func (in *Input) standIns() int {
	pods, firm := map[string]int{}, map[string]bool{}
	for i := range in.Pods {
		if p := &in.Pods[i]; p.Node != "" && !p.Daemon && p.Phase != fleet.PodEnded && p.Phase != fleet.PodFailed {
			pods[p.Node]++
			firm[p.Node] = firm[p.Node] || !p.SpotOK
		}
	}
	n := 0
	for i := range in.Nodes {
		if x := &in.Nodes[i]; x.counts() && x.Offering.Purchase == fleet.PurchaseOnDemand && pods[x.Name] > 0 && !firm[x.Name] {
			n++
		}
	}
	return n
}

// market is what room procure sees: pools of Spot, and one on demand at the end. cands are the candidates behind them; -1: nothing is to be had on demand.
type market struct {
	pools   []procure.Pool
	cands   []int
	beliefs []procure.Belief
	full    fleet.Money // price of a machine on demand
	busy    int
}

// marketOf lists where a machine for pods may be bought; nil: room procure has no say, since a pod may not run on Spot, nothing is known of any pool, or
// rules about other pods bind them to a zone.
func (d *planner) marketOf(pods []int) *market {
	if d.in.Policy.NoSpot || len(pods) == 0 || d.bound && d.zoned(pods) {
		return nil
	}
	for _, i := range pods {
		if !d.in.Pods[i].SpotOK {
			return nil
		}
	}
	m := &market{}
	od := -1
	for c := range d.kinds {
		k, cand := &d.kinds[c], &d.in.Candidates[c]
		switch {
		case !k.known:
		case k.offering.Purchase == fleet.PurchaseSpot && cand.Belief != nil && d.holdsAll(c, pods) == "":
			m.cands, m.beliefs = append(m.cands, c), append(m.beliefs, *cand.Belief)
		case k.offering.Purchase == fleet.PurchaseOnDemand && (od < 0 || k.weighed < d.kinds[od].weighed) && d.buyable(c) == "" && d.holdsAll(c, pods) == "":
			od = c
		}
	}
	if len(m.cands) == 0 {
		return nil
	}
	m.cands, m.beliefs = append(m.cands, od), append(m.beliefs, procure.Belief{})
	d.fillMarket(m, od)
	return m
}

// fillMarket counts what the pools have: machines that run, and those that the plan has bought so far.
func (d *planner) fillMarket(m *market, od int) {
	at := map[fleet.Offering]int{}
	for _, c := range m.cands[:len(m.cands)-1] {
		m.full = max(m.full, d.kinds[c].price)
	}
	if od >= 0 {
		m.full = d.kinds[od].price
	}
	m.pools = make([]procure.Pool, len(m.cands))
	last := len(m.pools) - 1
	for i, c := range m.cands[:last] {
		k := &d.kinds[c]
		at[k.offering] = i
		m.pools[i] = procure.Pool{Name: k.offering.InstanceType + "/" + k.offering.Zone, Region: k.offering.Region, Purchase: fleet.PurchaseSpot,
			Price: relative(k.price, m.full), Asking: int(d.bought[c])}
	}
	m.pools[last] = procure.Pool{Name: "on demand", Purchase: fleet.PurchaseOnDemand, Price: procure.FullPrice}
	for _, h := range d.hosts {
		if h.fixed == "leaving" || h.gone && !h.isNew() && h.offering.Purchase == fleet.PurchaseSpot { // what the plan lets go on demand stands until it is gone
			continue
		}
		i, ok := at[h.offering]
		switch {
		case h.offering.Purchase == fleet.PurchaseSpot && !ok, h.offering.Purchase == fleet.PurchaseReserved:
			continue
		case h.offering.Purchase == fleet.PurchaseOnDemand:
			if od < 0 || !d.standsIn(h, &d.kinds[od]) {
				continue
			}
			i = last
		}
		p := &m.pools[i]
		switch {
		case h.isNew(): // of Spot it is in Asking already; on demand stands in once it is there
		case d.in.Nodes[h.node].Phase == fleet.NodeReady:
			p.Ready++
			if len(h.pods) > 0 {
				m.busy++
			}
		case d.in.Nodes[h.node].Phase == fleet.NodeBooting:
			p.Starting++
		}
	}
}

// standsIn tells whether a machine on demand stands in for Spot: of the same sort as what would be bought, and all that it holds could run on Spot.
func (d *planner) standsIn(h *host, k *kind) bool {
	pods := h.pods
	if h.gone {
		pods = h.moved
	}
	if h.model != k.model || h.gpus != k.gpus || len(pods) == 0 && !h.insures() {
		return false
	}
	return !slices.ContainsFunc(pods, func(i int) bool { return !d.in.Pods[i].SpotOK })
}

func (h *host) insures() bool { return h.why == WhyInsurance || h.fixed == string(WhyInsurance) }

// relative is a price in millionths of another.
func relative(p, full fleet.Money) int32 {
	return int32(min(p.MulDiv(procure.FullPrice, int64(max(full, 1))), math.MaxInt32)) //nolint:gosec // bounded
}

// held is what the pools have, Spot and on demand.
func (m *market) held() (targets []int, all int) {
	targets = make([]int, len(m.pools))
	for i := range m.pools {
		targets[i] = m.pools[i].Held()
		all += targets[i]
	}
	return targets, all
}

func (d *planner) policy(m *market) *procure.Policy {
	cfg := procure.Default()
	cfg.Safe = float64(d.in.Policy.InsureMilli) / 1000
	return procure.Recall(cfg, slotOf(d.in.Now), m.beliefs)
}

// purchase is one new machine.
type purchase struct {
	cand int
	pods []int
	bid  bool // room procure chose
}

// choose decides anew where the machines of a packing are bought, as far as their pods may run on Spot: room procure says how many each pool holds.
func (d *planner) choose(list []purchase) []purchase {
	type lot struct {
		m    *market
		list []purchase
	}
	var lots []*lot
	var out []purchase
	for _, p := range list {
		var m *market
		if d.kinds[p.cand].offering.Purchase != fleet.PurchaseReserved { // what is paid for comes first
			m = d.marketOf(p.pods)
		}
		if m == nil {
			out = append(out, p)
			continue
		}
		i := slices.IndexFunc(lots, func(l *lot) bool { return slices.Equal(l.m.cands, m.cands) })
		if i < 0 {
			i, lots = len(lots), append(lots, &lot{m: m})
		}
		lots[i].list = append(lots[i].list, p)
	}
	asked := map[int]int{} // of pools that several lots share
	for _, l := range lots {
		for i, c := range l.m.cands[:len(l.m.cands)-1] {
			l.m.pools[i].Asking += asked[c]
		}
		before, all := l.m.held()
		targets := make([]int, len(before))
		want := all + len(l.list)
		policy := d.policy(l.m)
		policy.Choose(l.m.pools, want, float64(l.m.busy), targets)
		d.tell(l.m, policy, want, targets, l.list[0].pods)
		at := 0
		for i, c := range l.m.cands[:len(l.m.cands)-1] {
			for n := targets[i] - before[i]; n > 0 && at < len(l.list); n-- {
				out = append(out, purchase{c, l.list[at].pods, true})
				asked[c]++
				at++
			}
		}
		if od := l.m.cands[len(l.m.cands)-1]; od >= 0 {
			for ; at < len(l.list); at++ {
				out = append(out, purchase{od, l.list[at].pods, true})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b purchase) int { return cmp.Compare(len(b.pods), len(a.pods)) })
	return out
}

// tell writes a market into the plan.
func (d *planner) tell(m *market, policy *procure.Policy, want int, targets []int, pods []int) {
	if len(d.plan.Markets) >= maxMarkets {
		return
	}
	last := len(m.pools) - 1
	out := Market{Pods: d.names(pods), Want: want, Standby: m.pools[last].Held(), Safe: d.in.Policy.InsureMilli, Pools: []MarketPool{}}
	held, _ := m.held()
	for i, c := range m.cands {
		if c < 0 {
			continue
		}
		k := &d.kinds[c]
		p := MarketPool{Offering: k.offering, Price: k.price, Held: m.pools[i].Held(), Target: targets[i]}
		if i < last {
			p.ScoreMilli, p.HazardMilli = int64(math.Round(1000*policy.Score(m.pools, i, held))), int64(math.Round(1000*m.beliefs[i].Hazard))
			if most := policy.Most(i, m.pools[i].Ready+m.pools[i].Starting); most < math.MaxInt {
				p.Asked = &most
			}
			if free := policy.Free(i, out.Standby); free > slotOf(d.in.Now) {
				p.BackoffUntil = slotStart(free)
			}
		}
		out.Pools = append(out.Pools, p)
	}
	slices.SortStableFunc(out.Pools, func(a, b MarketPool) int {
		return cmp.Or(cmp.Compare(b.Target+b.Held, a.Target+a.Held), cmp.Compare(a.ScoreMilli, b.ScoreMilli))
	})
	out.Pools = out.Pools[:min(len(out.Pools), maxMarketPools)]
	d.plan.Markets = append(d.plan.Markets, out)
}

// insure keeps machines on demand beside Spot, so that what the policy says of the machines in use is left when the largest Spot pool goes. Those that stand
// there already, with pods that could run on Spot or with none, count and stay; what is missing is bought of the type that the largest pool has.
func (d *planner) insure() {
	if d.in.Policy.InsureMilli == 0 || d.in.Policy.NoSpot {
		return
	}
	type sort struct {
		model fleet.GPUModel
		gpus  int64
	}
	spot := map[sort][]*host{}
	var sorts []sort
	for _, h := range d.hosts {
		if k := (sort{h.model, h.gpus}); h.offering.Purchase == fleet.PurchaseSpot && !h.isNew() && !h.gone && h.fixed != "leaving" && h.fixed != "not_ready" {
			if spot[k] == nil {
				sorts = append(sorts, k)
			}
			spot[k] = append(spot[k], h)
		}
	}
	for _, k := range sorts {
		d.insureSort(spot[k])
	}
}

func (d *planner) insureSort(spot []*host) {
	pools := []procure.Pool{}
	at, largest, busy := map[fleet.Offering]int{}, 0, 0
	for _, h := range spot {
		i, ok := at[h.offering]
		if !ok {
			i = len(pools)
			at[h.offering] = i
			pools = append(pools, procure.Pool{Purchase: fleet.PurchaseSpot, Price: procure.FullPrice / 2})
		}
		if d.in.Nodes[h.node].Phase == fleet.NodeReady {
			pools[i].Ready++
			if len(h.pods) > 0 {
				busy++
			}
		} else {
			pools[i].Starting++
		}
		if pools[i].Held() > pools[at[spot[largest].offering]].Held() {
			largest = slices.Index(spot, h)
		}
	}
	od := d.onDemandOf(spot[largest])
	if od < 0 || !slices.ContainsFunc(spot, func(h *host) bool { return len(h.pods) > 0 }) {
		return
	}
	stand := procure.Pool{Purchase: fleet.PurchaseOnDemand, Price: procure.FullPrice}
	var idle []*host
	for _, h := range d.hosts {
		if h.gone || h.fixed == "leaving" || h.offering.Purchase != fleet.PurchaseOnDemand || h.model != d.kinds[od].model || h.gpus != d.kinds[od].gpus {
			continue
		}
		switch {
		case len(h.pods) == 0 && h.open && h.offering.InstanceType == d.kinds[od].offering.InstanceType:
			idle = append(idle, h)
		case d.standsIn(h, &d.kinds[od]):
			stand.Ready++
			if !h.isNew() && d.in.Nodes[h.node].Phase == fleet.NodeReady {
				busy++
			}
		}
	}
	pools = append(pools, stand)
	targets := make([]int, len(pools))
	all := stand.Ready
	for i := range pools[:len(pools)-1] {
		all += pools[i].Held()
	}
	cfg := procure.Default()
	cfg.Safe = float64(d.in.Policy.InsureMilli) / 1000
	procure.Recall(cfg, slotOf(d.in.Now), make([]procure.Belief, len(pools))).Choose(pools, all, float64(busy), targets)
	missing := targets[len(targets)-1] - stand.Ready
	for _, h := range idle {
		if missing <= 0 {
			return
		}
		missing--
		if h.open = false; h.fixed == "" { // pods that wait have had their chance
			h.fixed = string(WhyInsurance)
		}
	}
	for ; missing > 0; missing-- {
		if d.actions >= d.in.Policy.MaxActions {
			d.note(HoldActions)
			return
		}
		if !d.affords(od) {
			return
		}
		h := d.add(od, WhyInsurance)
		h.open, h.fixed = false, string(WhyInsurance)
	}
}

// onDemandOf is the cheapest candidate on demand of a machine's type; -1: none is to be had.
func (d *planner) onDemandOf(h *host) int {
	best := -1
	for c := range d.kinds {
		k := &d.kinds[c]
		if k.offering.InstanceType == h.offering.InstanceType && k.offering.Purchase == fleet.PurchaseOnDemand && d.buyable(c) == "" && (best < 0 || k.weighed < d.kinds[best].weighed) {
			best = c
		}
	}
	return best
}

// nextPool is the candidate of Spot that room procure would ask for one more machine for pods; -1: none now. ok: it has a say.
func (d *planner) nextPool(pods []int) (c int, ok bool) {
	m := d.marketOf(pods)
	if m == nil {
		return -1, false
	}
	targets, _ := m.held()
	next := d.policy(m).Next(m.pools, targets)
	if next < 0 {
		return -1, true
	}
	return m.cands[next], true
}
