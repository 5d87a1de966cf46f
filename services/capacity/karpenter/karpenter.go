// Package karpenter turns a packing into what Karpenter must be told so that it buys those machines: NodePools of one offering each with
// weights and node limits, a pool for what does not fit the plan, and NodeOverlays with effective prices.
//
// Karpenter decides pod by pod: the pod that asks for the most CPU first, onto a machine that runs, else onto the claim with the fewest
// pods, else into the first NodePool by weight that has room. Compose plays the same steps on the pods and searches for the order and the
// limits of the pools under which they cost the least; what it returns is never dearer, by its own play, than the packing's order taken
// as it comes. It never names a pool for removal that has machines, and never narrows the pool of a running machine to nothing: limits
// count what runs. The room is pure: same input, same output.
package karpenter

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Labels that requirements speak of.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelArch         = "kubernetes.io/arch"
	LabelCapacityType = "karpenter.sh/capacity-type"
	TaintGPU          = "nvidia.com/gpu" // NoSchedule; the admission of extended resources lets pods with GPUs pass
)

// Prefix of the names of all pools and overlays that are made here.
const Prefix = "plimsoll-"

// Bounds of what is composed. NodePool weights are 1 to 100.
const (
	maxPools             = 80
	alternativesPerShape = 2
	maxOverlays          = 400
	maxValues            = 400 // instance types of one requirement
	spotSpread           = 125 // per cent of the price of a zone of Spot that another may cost and be the same pool
	firstWeight          = 99
	spareWeight          = 18            // of pools that only keep what runs; those for the rest have less
	ownedWeight          = 1             // of pools that others made and that we were told to own: what nothing of ours takes
	maxTiers             = 8             // numbers of GPUs that have pools of their own for what does not fit the plan
	coolness             = 200           // the first step may cost one in two hundred more
	maxSteps             = 4_000_000_000 // of play, all rounds together
)

// Settings of a cluster.
type Settings struct {
	Class          Class
	ReservationKey string // node label of the reservation; empty: reserved offerings are left to Karpenter
	SpotByZone     bool   // each zone of Spot is a pool, as the packing has it: where shares of pools are limited
	TaintGPUs      bool   // pods without GPUs stay off machines with GPUs
	Capped         bool   // caps hold for the cluster: no pool is opened beyond the machines of New, and pools for the rest keep what they have
	MaxNodes       int64  // of the pool for what does not fit the plan; 0: no limit
	Rounds         int    // of search; 0: 4000. Bounded by the size of the problem too
	EmptyAfterSec  int64  // how long a machine is empty before it goes; 0: 30
	Template       Template
}

// Template is what all pools that are made here have in common beside what the plan says. Labels and taints are of pools for the rest: those of others are their
// offerings'.
type Template struct {
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []string          `json:"taints,omitempty"`         // key=value:effect
	StartupTaints []string          `json:"startup_taints,omitempty"` // key=value:effect
	ExpireSec     int64             `json:"expire_sec,omitempty"`     // 0: never
	GraceSec      int64             `json:"grace_sec,omitempty"`      // of a machine that goes; 0: none
	DriftBudget   string            `json:"drift_budget,omitempty"`   // empty: 0
	EmptyBudget   string            `json:"empty_budget,omitempty"`   // empty: 100%
}

// Class names the node class, the cloud's part of a pool.
type Class struct {
	Group string
	Kind  string
	Name  string
}

// Machine runs, or is being started, in a pool.
type Machine struct {
	Name     string
	Pool     string // NodePool
	Offering int    // index into the offerings
	Pods     []int  // indices into the pods
	Ends     bool   // the plan ends it: its pods need room elsewhere
}

// Input is what Compose works on. Pods on no machine are pending.
type Input struct {
	Pods      []packing.Pod
	Offerings []packing.Offering // at effective prices
	New       []packing.Node     // machines to be bought
	Running   []Machine
	Labels    []map[string]string // by offering: what its new machines shall have besides what its type says; nil slice or entry: nothing. Taints are the offering's own
	Pools     []string            // NodePools of ours that exist, and those of others that were told to be ours
	Owned     []string            // NodePools that others made and that shall be ours
	Listed    []*fleet.Money      // what Karpenter takes each offering to cost; nil slice or entry: unknown, it is told
	Open      []string            // pools in which Karpenter may consolidate: where the plan found that the saving beats the churn
	Shares    []int64             // consolidation at a time, for each of Open; absent: 1
}

// Requirement is one of a NodePool or a NodeOverlay; Operator is In.
type Requirement struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// NodePool as it shall be.
type NodePool struct {
	Name          string            `json:"name"`
	Weight        int32             `json:"weight"`
	Requirements  []Requirement     `json:"requirements"`
	Nodes         *int64            `json:"nodes,omitempty"`     // limit, what runs included; nil: none
	CPUMilli      int64             `json:"cpu_milli,omitempty"` // limit with room for half a machine: Karpenter counts nodes only between its rounds, CPU within one too
	Class         Class             `json:"class"`
	TaintGPUs     bool              `json:"taint_gpus,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []string          `json:"taints,omitempty"` // key=value:effect, sorted
	Consolidate   int64             `json:"consolidate"`      // machines at a time that Karpenter may replace or end for money; 0: empty ones only
	EmptyAfterSec int64             `json:"empty_after_sec"`
	Template      Template          `json:"template,omitzero"` // of its machines; of pools that others made: nothing
	Why           string            `json:"why"`               // plan, running, reserved, rest or owned
}

// NodeOverlay as it shall be.
type NodeOverlay struct {
	Name         string        `json:"name"`
	Weight       int32         `json:"weight"`
	Requirements []Requirement `json:"requirements"`
	Price        fleet.Money   `json:"-"` // per hour
}

// Plan is what Karpenter shall be told.
type Plan struct {
	Pools    []NodePool
	Overlays []NodeOverlay
	Retire   []string    // pools of ours without machines that the plan does not need
	Bought   fleet.Money // per hour: what the play buys
	Packed   fleet.Money // per hour: what the packing's new machines cost
	Plain    fleet.Money // per hour: what the play would buy without the search
	Rest     int         // pods that the play leaves to the pool for what does not fit
	Rounds   int
}

// Compose makes the plan. Errors are of the input only.
func Compose(in Input, s Settings) (*Plan, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	if s.EmptyAfterSec == 0 {
		s.EmptyAfterSec = 30
	}
	if s.Rounds == 0 {
		s.Rounds = 4000
	}
	pools := in.group(s)
	best, plain, rounds := search(&in, s, pools)
	p := &Plan{Bought: best.cost, Plain: plain.cost, Rest: best.rest, Rounds: rounds}
	for _, n := range in.New {
		p.Packed = p.Packed.Add(*in.Offerings[n.Offering].Price)
	}
	in.emit(p, s, pools, best)
	p.Overlays = in.overlays()
	return p, nil
}

func (in *Input) validate() error {
	n := len(in.Offerings)
	if in.Listed != nil && len(in.Listed) != n {
		return fleet.Errorf(fleet.CodeInvalid, "%d listed prices for %d offerings", len(in.Listed), n)
	}
	if in.Labels != nil && len(in.Labels) != n {
		return fleet.Errorf(fleet.CodeInvalid, "labels of %d offerings, there are %d", len(in.Labels), n)
	}
	if k := slices.IndexFunc(in.Owned, func(name string) bool { return strings.HasPrefix(name, Prefix) }); k >= 0 {
		return fleet.Errorf(fleet.CodeInvalid, "the pool %q is of our making and cannot be taken over", in.Owned[k])
	}
	on := make([]bool, len(in.Pods))
	check := func(offering int, pods []int, priced bool) error {
		if offering < 0 || offering >= n || priced && in.Offerings[offering].Price == nil {
			return fleet.Errorf(fleet.CodeInvalid, "a machine of offering %d of %d, or of one without a price", offering, n)
		}
		for _, i := range pods {
			if i < 0 || i >= len(in.Pods) || on[i] {
				return fleet.Errorf(fleet.CodeInvalid, "pod %d of %d is on two machines or unknown", i, len(in.Pods))
			}
			on[i] = true
		}
		return nil
	}
	for _, m := range in.Running {
		if err := check(m.Offering, m.Pods, false); err != nil {
			return err
		}
		if m.Pool == "" {
			return fleet.Errorf(fleet.CodeInvalid, "machine %q is in no pool", m.Name)
		}
	}
	for _, m := range in.New {
		if err := check(m.Offering, nil, true); err != nil {
			return err
		}
	}
	return nil
}

// group is a NodePool in the making: offerings that are one to the plan.
type group struct {
	name  string
	offs  []int // the first one stands for all; those after it of other types are for pods and days that it is not for
	count int   // new machines that the packing wants
	runs  int64 // machines that run
}

// group makes a pool for each offering that is bought or runs. Zones of one price on demand, and zones of Spot that cost at most a quarter
// more, are one pool: where one of them has run out Karpenter's claim takes another, without waiting for the next plan. A reservation is
// a pool of its own, and so is a zone of Spot with SpotByZone.
func (in *Input) group(s Settings) []*group {
	by := map[string]*group{}
	get := func(j int) *group {
		name := poolName(&in.Offerings[j], s)
		if by[name] == nil {
			by[name] = &group{name: name, offs: in.same(j, s)}
		}
		return by[name]
	}
	for _, n := range in.New {
		if o := &in.Offerings[n.Offering]; o.Purchase == fleet.PurchaseReserved && s.ReservationKey == "" {
			continue
		}
		get(n.Offering).count++
	}
	for _, m := range in.Running {
		if m.Pool == poolName(&in.Offerings[m.Offering], s) {
			get(m.Offering)
		}
	}
	for _, j := range in.alternatives(s) {
		get(j)
	}
	for j := range in.Offerings { // what is reserved and not used
		if o := &in.Offerings[j]; o.Purchase == fleet.PurchaseReserved && s.ReservationKey != "" && o.Stock != nil && in.usable(j) {
			get(j)
		}
	}
	for _, m := range in.Running { // once all pools are there: a pool also holds the dearer types that its claims became
		if g := by[m.Pool]; g != nil {
			g.runs++
		}
	}
	out := make([]*group, 0, len(by))
	for _, g := range by {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(cmp.Compare(in.rank(a), in.rank(b)), cmp.Compare(in.price(a.offs[0]), in.price(b.offs[0])), cmp.Compare(a.name, b.name))
	})
	if len(out) > maxPools { // the pools with the least to buy are left to the rest
		small := slices.Clone(out)
		slices.SortStableFunc(small, func(a, b *group) int { return cmp.Compare(int64(b.count)+b.runs, int64(a.count)+a.runs) })
		for _, g := range small[maxPools:] {
			if g.runs == 0 {
				out = slices.DeleteFunc(out, func(x *group) bool { return x == g })
			}
		}
	}
	return out
}

// alternatives are offerings that the packing did not choose and the play may do better with: for each shape of pods that wait, the
// machines that it alone would be cheapest on per pod.
func (in *Input) alternatives(s Settings) []int {
	st := newStage(in, s, nil)
	best := map[int]bool{}
	for k := range st.shapes {
		q := &st.shapes[k]
		var top [alternativesPerShape]int
		n := 0
		for j := range in.Offerings {
			if !in.usable(j) || !st.fits[k][j] || in.Offerings[j].Purchase == fleet.PurchaseReserved {
				continue
			}
			e := empty(&in.Offerings[j], j)
			if !e.has(q) {
				continue
			}
			at := n
			for at > 0 && in.price(j) < in.price(top[at-1]) {
				at--
			}
			if at < len(top) {
				n = min(n+1, len(top))
				copy(top[at+1:n], top[at:n-1])
				top[at] = j
			}
		}
		for _, j := range top[:n] {
			best[j] = true
		}
	}
	return slices.Sorted(maps.Keys(best))
}

// rank says which pools come first unless the search finds better: without GPUs before with, paid already before Spot before on demand.
func (in *Input) rank(g *group) int {
	o, r := &in.Offerings[g.offs[0]], 0
	if o.GPUCount > 0 {
		r += 10
	}
	switch o.Purchase {
	case fleet.PurchaseReserved:
	case fleet.PurchaseSpot:
		r++
	default:
		r += 2
	}
	return r
}

func (in *Input) price(j int) fleet.Money {
	if p := in.Offerings[j].Price; p != nil {
		return *p
	}
	return 0
}

// usable says whether an offering can be bought. Stock counts the machines that run.
func (in *Input) usable(j int) bool {
	o := &in.Offerings[j]
	if o.Price == nil || *o.Price <= 0 {
		return false
	}
	if o.Stock == nil {
		return true
	}
	return *o.Stock > in.runs(j)
}

// runs counts the machines of an offering, whatever pool they are in.
func (in *Input) runs(j int) int64 {
	n := int64(0)
	for _, m := range in.Running {
		if m.Offering == j {
			n++
		}
	}
	return n
}

// same are the offerings that are one pool with j, j included, those to be had first, then by price. Of Spot these are its zones, and types of the same
// size that cost more, but less than j on demand: where j has run out a claim becomes one of those at once, and does not fail and wait for a plan.
func (in *Input) same(j int, s Settings) []int {
	o := &in.Offerings[j]
	out := []int{j}
	if o.Purchase == fleet.PurchaseReserved || o.Purchase == fleet.PurchaseSpot && s.SpotByZone {
		return out
	}
	most := in.onDemand(o)
	for k := range in.Offerings {
		p := &in.Offerings[k]
		if k == j || p.Cloud != o.Cloud || p.Region != o.Region || p.Purchase != o.Purchase || !in.usable(k) {
			continue
		}
		switch {
		case p.InstanceType == o.InstanceType:
			if o.Purchase == fleet.PurchaseSpot && in.price(k) <= in.price(j).MulDiv(spotSpread, 100) || in.price(k) == in.price(j) {
				out = append(out, k)
			}
		case o.Purchase == fleet.PurchaseSpot && sameSize(o, p) && in.price(k) >= in.price(j) && in.price(k) < most:
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		ua, ub := 1, 1
		if in.usable(a) {
			ua = 0
		}
		if in.usable(b) {
			ub = 0
		}
		return cmp.Or(cmp.Compare(ua, ub), cmp.Compare(in.price(a), in.price(b)), cmp.Compare(a, b))
	})
	return out
}

// onDemand is the least that a type costs on demand where an offering of it is; 0: nobody knows.
func (in *Input) onDemand(o *packing.Offering) fleet.Money {
	var least fleet.Money
	for k := range in.Offerings {
		p := &in.Offerings[k]
		if p.Purchase == fleet.PurchaseOnDemand && p.InstanceType == o.InstanceType && p.Cloud == o.Cloud && p.Region == o.Region && in.price(k) > 0 && (least == 0 || in.price(k) < least) {
			least = in.price(k)
		}
	}
	return least
}

// sameSize says whether machines of two types take as many pods: what is larger would be filled with more. Models may differ only where pods do not share
// the machine's GPUs: one that is particular about its model would turn a machine with four into one of that model for all on it.
func sameSize(a, b *packing.Offering) bool {
	near := func(x, y int64) bool { return x <= y+y/50 && y <= x+x/50 }
	return a.GPUCount == b.GPUCount && (a.GPUModel == b.GPUModel || a.GPUCount == 1) && a.SharesGPUs == b.SharesGPUs && a.Arch == b.Arch && near(a.CPUMilli, b.CPUMilli) && near(a.MemMiB, b.MemMiB)
}

// poolName is the same for the same offering for ever: pools own machines.
func poolName(o *packing.Offering, s Settings) string {
	how, which := "od", ""
	switch o.Purchase {
	case fleet.PurchaseSpot:
		if how = "spot"; s.SpotByZone {
			which = o.Zone
		}
	case fleet.PurchaseReserved:
		how, which = "rsv", o.Zone+"/"+o.ReservationID
	default:
	}
	name := Prefix + slug(o.InstanceType) + "-" + how
	if which != "" {
		name += "-" + hash(which)
	}
	return name
}

// slug fits a DNS label beside prefix and suffix.
func slug(s string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	if out = strings.Trim(out, "-"); len(out) > 36 {
		out = strings.TrimRight(out[:28], "-") + "-" + hash(s)[:7]
	}
	return out
}

func hash(s string) string {
	h := fnv.New32a()
	h.Write([]byte(s))
	return fmt.Sprintf("%08x", h.Sum32())
}
