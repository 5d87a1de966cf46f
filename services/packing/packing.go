// Package packing chooses which machines to rent for which pods at the least price per hour, and proves how far from the least
// its answer can be. Pods that ask for the same are one shape with a count, offerings that another beats in everything are left out,
// a linear program over whole-machine patterns (column generation) gives prices per shape, and those prices both guide the
// rounding and certify a lower bound. Rules across machines (zones, gangs, shares of pools) are choices per pod that the solver is run under.
//
// The doors: Pack places pods on new machines; Repack starts from machines that run and counts what moving costs; Check verifies an
// answer from the input alone. A Pod has sizes and Rules, an Offering is what can be rented, Options hold Limits, Daemons, Equivalent
// models and the Budget. An Answer has Nodes, Unplaced pods with reasons, Cost (paid), Weighed (with hazards: what is minimised) and Bound
// (of Weighed); its Proof bounds later Repacks. ReadPods, ReadOfferings and RuleText read files. PlanMIG plans the layouts of GPUs,
// Contradictions tells rules that nothing can meet. The room is pure: same input, same bytes. It never sums money in floats: the program runs in
// floats, but the bound and the cost are computed again in integers from what it found. See docs/packing.md and docs/adr/0018.
package packing

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// Pod is one replica and what it asks for.
type Pod struct {
	Name      string
	CPUMilli  int64
	MemMiB    int64
	GPUCount  int64            // GPUs it wants, each a different one
	GPUMilli  int64            // share of each of them, 1 to 1000; machines that do not share give whole ones
	GPUModels []fleet.GPUModel // acceptable models; empty: any
	Archs     []string         // acceptable architectures; empty: amd64; "*": any
	SpotOK    bool             // may run on Spot
	Rules     *Rules           // all else it asks; nil: nothing
}

// Offering is a machine that can be rented: what pods may use of it, what it costs, how many there are.
type Offering struct {
	fleet.Offering
	Price         *fleet.Money // per machine-hour; nil (unknown) and zero make the offering unusable, never free
	CPUMilli      int64        // allocatable
	MemMiB        int64        // allocatable
	GPUModel      fleet.GPUModel
	GPUCount      int64
	SharesGPUs    bool // pods may take fractions of its GPUs
	Arch          string
	MaxPods       int64
	Stock         *int64 // machines to be had; nil: no limit known
	ReservationID string
	Family        string
	Pool          string // node pool that would bring it
	VCPU          int64  // nominal, as quotas count; 0: unknown
	GPUMemMiB     int64  // of each GPU; 0: unknown
	MIG           bool   // its GPUs may be cut into MIG instances, as far as the model has them
	DomainNodes   int64  // machines in one interconnect domain; 0: no limit known
	HazardMilli   int64  // expected interruptions as the weight h of p (1 + 2 h), in thousandths
	Taints        []string
	Labels        []string // key=value
}

// Options change what is allowed and how long to look. The zero value is the default.
type Options struct {
	ShareGPUs  bool        // all machines share GPUs by fraction, whatever the offering says
	NoCPUOnGPU bool        // pods without GPUs may not use machines with GPUs
	Effort     int         // how long to improve, in units of about a tenth of the default; 0: the default (10)
	Stop       func() bool // asked between steps; true ends the search with the best so far. nil: never
	Daemons    []Pod       // run on every machine that accepts them; the offerings' sizes are given without
	Limits     []Limit     // caps and quotas
	Equivalent []Equivalence
	Budget     *fleet.Money // per hour; pods are left out by class until the plan costs no more. nil: none
	SoftMilli  int64        // a soft spread is kept if it costs at most so many thousandths more

	relaxed bool // soft spreads are given up
	quick   bool // no proof, no improvement
	program bool // only the linear program
	once    bool // no proof, no improvement, and no care for small packings
	rough   bool // no improvement
	hasty   bool // patterns are sought only as long as they help well
	seat    bool // rules across machines as for many pods, however few there are
}

// Node is one machine of an answer with the pods on it.
type Node struct {
	Offering int   // index into the offerings given
	Pods     []int // indices into the pods given, ascending
}

// Answer is a feasible packing and the proof of how good it is.
type Answer struct {
	Nodes    []Node
	Unplaced []Unplaced
	Cost     fleet.Money // per hour
	Weighed  fleet.Money // per hour: Cost with the hazard of interruptions, which is what was minimised
	Bound    fleet.Money // per hour: no packing of the placed pods has a lower Weighed
	Relaxed  []string    // labels whose soft spread was given up
	Standing []int       // pods that stay where they run, ascending: rules across machines and by node are not enforced on them again
	Over     fleet.Money // per hour: what gold pods alone cost beyond the budget; they are never left out for money
	Stats    Stats
	Proof    *Proof // of Bound; it also bounds later packings of other pods on the same offerings
}

// Stats tells the size of the problem and the work that was done.
type Stats struct {
	Shapes    int
	Offerings int  // usable, after dominance
	Columns   int  // patterns generated
	Rounds    int  // of column generation
	Moves     int  // of local search
	Stopped   bool // cut short by Stop
}

// Gap is the weighed cost over the bound minus one; zero if there is nothing to pay.
func (a *Answer) Gap() float64 {
	if a.Bound <= 0 {
		return 0
	}
	return a.Weighed.Float()/a.Bound.Float() - 1
}

// Pack places pods on offerings. The answer is always feasible; pods that cannot be placed are listed with the reason. Errors are
// of the input only: negative or excessive sizes.
func Pack(pods []Pod, offerings []Offering, opts Options) (*Answer, error) {
	if err := validate(pods, offerings, &opts); err != nil {
		return nil, err
	}
	return packAll(pods, net(offerings, &opts), opts), nil
}

// limits of the input: sizes are summed in 32 bits inside patterns.
const (
	maxSize      = 1 << 28
	maxPods      = 1_000_000
	maxOfferings = 100_000
	maxGPUs      = 1024
	maxPrice     = 1_000_000 * fleet.NanosPerUnit
)

func validate(pods []Pod, offerings []Offering, opts *Options) error {
	if len(pods) > maxPods || len(offerings) > maxOfferings {
		return fleet.Errorf(fleet.CodeTooLarge, "%d pods on %d offerings: at most %d and %d", len(pods), len(offerings), maxPods, maxOfferings)
	}
	for i := range pods {
		q := &pods[i]
		switch {
		case q.CPUMilli < 0 || q.MemMiB < 0 || q.GPUCount < 0 || q.CPUMilli > maxSize || q.MemMiB > maxSize || q.GPUCount > maxGPUs:
			return fleet.Errorf(fleet.CodeInvalid, "pod %q asks for a size that is negative or beyond any machine", q.Name)
		case q.GPUCount > 0 && (q.GPUMilli < 1 || q.GPUMilli > 1000):
			return fleet.Errorf(fleet.CodeInvalid, "pod %q wants %d thousandths of a GPU: 1 to 1000", q.Name, q.GPUMilli)
		}
	}
	if err := opts.validate(pods); err != nil {
		return err
	}
	for i := range offerings {
		o := &offerings[i]
		switch {
		case o.VCPU < 0 || o.VCPU > maxSize || o.GPUMemMiB < 0 || o.DomainNodes < 0 || o.HazardMilli < 0 || o.HazardMilli > 100_000:
			return fleet.Errorf(fleet.CodeInvalid, "offering %q: vCPUs, GPU memory, domain and hazard are zero or more, the hazard at most 100", o.InstanceType)
		case o.CPUMilli < 0 || o.MemMiB < 0 || o.GPUCount < 0 || o.MaxPods < 0 || o.CPUMilli > maxSize || o.MemMiB > maxSize || o.GPUCount > maxGPUs || o.MaxPods > maxSize:
			return fleet.Errorf(fleet.CodeInvalid, "offering %q has a size that is negative or beyond any machine", o.InstanceType)
		case o.Price != nil && (*o.Price < 0 || *o.Price > maxPrice):
			return fleet.Errorf(fleet.CodeInvalid, "offering %q costs %s: want 0 to 1,000,000 per hour", o.InstanceType, *o.Price)
		case o.Stock != nil && *o.Stock < 0:
			return fleet.Errorf(fleet.CodeInvalid, "offering %q has a stock below zero", o.InstanceType)
		}
	}
	return nil
}

// answer turns the best packing of shapes into one of pods, in the order of the input.
func (s *solver) answer() *Answer {
	p := s.p
	next := make([]int, len(p.shapes))
	a := &Answer{}
	best := append([]bin(nil), s.best...)
	sort.SliceStable(best, func(x, y int) bool { return p.offs[best[x].off].index < p.offs[best[y].off].index })
	for _, b := range best {
		n := Node{Offering: p.offs[b.off].index}
		for _, c := range b.items {
			sh := &p.shapes[c.shape]
			for range c.n {
				n.Pods = append(n.Pods, sh.pods[next[c.shape]])
				next[c.shape]++
			}
		}
		sort.Ints(n.Pods)
		a.Nodes = append(a.Nodes, n)
		a.Cost = a.Cost.Add(*p.given[n.Offering].Price)
		a.Weighed = a.Weighed.Add(p.offs[b.off].price)
	}
	sort.SliceStable(a.Nodes, func(x, y int) bool {
		if a.Nodes[x].Offering != a.Nodes[y].Offering {
			return a.Nodes[x].Offering < a.Nodes[y].Offering
		}
		return a.Nodes[x].Pods[0] < a.Nodes[y].Pods[0]
	})
	placed := make([]int64, len(p.shapes))
	for i := range next {
		placed[i] = int64(next[i])
		var reasons []Reason
		if next[i] < len(p.shapes[i].pods) {
			reasons = p.leftOver(i)
		}
		for _, pod := range p.shapes[i].pods[next[i]:] {
			a.Unplaced = append(a.Unplaced, Unplaced{Pod: pod, Reasons: reasons})
		}
	}
	a.Unplaced = append(a.Unplaced, p.unfit...)
	sort.Slice(a.Unplaced, func(x, y int) bool { return a.Unplaced[x].Pod < a.Unplaced[y].Pod })
	a.Bound = max(s.proof.bound(placed), s.proven)
	a.Proof = s.proof.export(p)
	a.Stats = s.stats
	a.Stats.Shapes, a.Stats.Offerings = len(p.shapes), len(p.offs)
	return a
}
