package packing

import (
	"sort"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// packAll packs pods under everything they and the options ask.
func packAll(pods []Pod, offerings []Offering, opts Options) *Answer {
	if opts.Budget != nil {
		return withinBudget(pods, offerings, opts)
	}
	return packSome(pods, offerings, opts, nil)
}

// packSome packs pods but those left out, whatever the budget. Soft spreads are kept if that costs little.
func packSome(pods []Pod, offerings []Offering, opts Options, out []bool) *Answer {
	opts.Budget = nil
	a := newAcross(pods, offerings, opts, out).solve()
	soft := softSpreads(pods)
	if len(soft) == 0 {
		return a
	}
	opts.relaxed = true
	b := newAcross(pods, offerings, opts, out).solve()
	if len(a.Unplaced) <= len(b.Unplaced) && a.Weighed <= b.Weighed.MulDiv(1000+opts.SoftMilli, 1000) {
		return a
	}
	b.Relaxed = soft
	return b
}

func softSpreads(pods []Pod) []string {
	seen := map[string]bool{}
	checked := map[*Rules]bool{}
	var out []string
	for i := range pods {
		r := pods[i].Rules
		if r == nil || checked[r] {
			continue
		}
		checked[r] = true
		for _, s := range r.Spread {
			if s.Soft && !seen[s.Label] {
				seen[s.Label] = true
				out = append(out, s.Label)
			}
		}
	}
	sort.Strings(out)
	return out
}

// across packs under rules that bind pods on different machines: which gang on which offering, which pod in which zone, how many
// replicas on which pool. A choice is a pin per pod; what it leaves open the solver decides. Pins that every packing of all pods can be
// sorted into (see even) keep the bound; all others only look for packings.
type across struct {
	pods  []Pod
	given []Offering
	opts  Options
	out   []bool // pods to leave out
	base  []Node // machines that run, with pods that stay
	stays []int  // those pods, ascending
	p     *problem

	pins  [][]bool
	pinAt map[string]int32
	zones []string
	best  *Answer
	bound fleet.Money
	proof *Proof
	z     *zoner
	gangs []*gangChoice
	most  map[string]int      // replicas of a workload on one pool
	heavy map[string][]string // pools of a workload that would hold too many
	pools map[[2]int]map[string]bool
}

func newAcross(pods []Pod, given []Offering, opts Options, out []bool) *across {
	x := &across{pods: pods, given: given, opts: opts, out: out, pins: [][]bool{nil}, pinAt: map[string]int32{}}
	return x
}

func (x *across) bare() []int32 {
	if x.out == nil {
		return nil
	}
	pin := make([]int32, len(x.pods))
	for i := range pin {
		if x.out[i] {
			pin[i] = -1
		}
	}
	return pin
}

// binds tells whether any pod has rules across machines.
func (x *across) binds() bool {
	checked := map[*Rules]bool{nil: true}
	for i := range x.pods {
		r := x.pods[i].Rules
		if r == nil || checked[r] {
			continue
		}
		checked[r] = true
		if r.across() {
			return true
		}
	}
	return false
}

// many tells whether there are too many pods to evaluate whole packings for every choice.
func (x *across) many() bool {
	n := 0
	for i := range x.pods {
		if x.out == nil || !x.out[i] {
			n++
		}
	}
	return n > fewPods || x.opts.seat
}

func (x *across) solve() *Answer {
	if !x.binds() {
		return x.run(x.bare(), nil, x.opts).answer()
	}
	x.p = newPinned(x.pods, x.given, x.opts, x.bare(), nil)
	x.zones = zonesOf(x.given)
	if x.many() {
		return x.seated()
	}
	var even []int32
	if even = x.bare(); x.base == nil {
		even = x.even()
	}
	first := x.opts
	first.rough = true
	s := x.run(even, x.pins, first)
	a := s.answer()
	x.bound, x.proof = a.Bound, a.Proof
	whole := len(a.Unplaced) == len(x.p.unfit)
	if whole && len(x.breaches(a.Nodes)) == 0 {
		s.polish() // the rules cost nothing so far; they must cost nothing after
		if b := s.answer(); len(x.breaches(b.Nodes)) == 0 {
			return b
		}
		return a
	}
	x.assign(a)
	if x.base != nil {
		return x.best
	}
	if x.best == nil {
		x.offer(x.trim(a))
	}
	x.settleBound()
	return x.best
}

// settleBound gives the best answer its bound. Even shares hold only where all pods are placed; otherwise the bound is that of the placed
// pods without any rule across machines.
func (x *across) settleBound() {
	a := x.best
	if len(a.Unplaced) > len(x.p.unfit) {
		pin := x.bare()
		if pin == nil {
			pin = make([]int32, len(x.pods))
		}
		for _, u := range a.Unplaced {
			pin[u.Pod] = -1
		}
		loose := x.opts
		loose.Effort = 1
		b := x.run(pin, nil, loose).answer()
		if x.bound, x.proof = b.Bound, b.Proof; len(b.Unplaced) > 0 {
			x.bound = 0
		}
	}
	a.Bound, a.Proof = min(x.bound, a.Weighed), x.proof
}

func (x *across) run(pin []int32, pins [][]bool, opts Options) *solver {
	s := newSolver(newPinned(x.pods, x.given, opts, pin, pins))
	s.solve()
	return s
}

func (x *across) breaches(nodes []Node) []breach {
	if x.base != nil {
		nodes = append(append([]Node(nil), x.base...), nodes...)
	}
	return without(newCensus(x.p, nodes).breaches(), x.stays)
}

// offer takes an answer if it leaves fewer pods out, or as many for less.
func (x *across) offer(a *Answer) {
	if x.best != nil && (len(a.Unplaced) > len(x.best.Unplaced) || (len(a.Unplaced) == len(x.best.Unplaced) && a.Weighed >= x.best.Weighed)) {
		return
	}
	x.best = a
}

func (x *across) stop() bool { return x.opts.Stop != nil && x.opts.Stop() }

func zonesOf(given []Offering) []string {
	var out []string
	seen := map[string]bool{}
	for i := range given {
		if z := zoneOf(&given[i]); !seen[z] {
			seen[z] = true
			out = append(out, z)
		}
	}
	return out
}

// pin is the number of a set of offerings.
func (x *across) pin(key string, allows func(i int) bool) int32 {
	if at, ok := x.pinAt[key]; ok {
		return at
	}
	set := make([]bool, len(x.given))
	for i := range set {
		set[i] = allows(i)
	}
	at := int32(len(x.pins)) //nolint:gosec // bounded by maxPods
	x.pins = append(x.pins, set)
	x.pinAt[key] = at
	return at
}

func (x *across) zonePin(zone string) int32 {
	return x.pin("zone "+zone, func(i int) bool { return zoneOf(&x.given[i]) == zone })
}

// even pins what the skew itself fixes: of d pods over n zones with skew k every zone holds at least (d - k (n-1)) / n, rounded up. Which
// of equal pods those are does not matter, so the bound of the pinned problem is one of all packings that place all pods.
func (x *across) even() []int32 {
	pin := x.bare()
	members := x.members()
	for i := range x.p.shapes {
		s := &x.p.shapes[i]
		w := x.skewOf(s, members)
		if w == nil || w.least == 0 {
			continue
		}
		if pin == nil {
			pin = make([]int32, len(x.pods))
		}
		at := 0
		for _, z := range w.zones {
			for range w.least {
				pin[s.pods[at]] = x.zonePin(z)
				at++
			}
		}
	}
	return pin
}

// trim takes pods that break rules off an answer until none does.
func (x *across) trim(a *Answer) *Answer {
	out := *a
	out.Nodes = make([]Node, len(a.Nodes))
	for n := range a.Nodes {
		out.Nodes[n] = Node{Offering: a.Nodes[n].Offering, Pods: append([]int(nil), a.Nodes[n].Pods...)}
	}
	out.Unplaced = append([]Unplaced(nil), a.Unplaced...)
	for turn := 0; ; turn++ {
		broken := x.breaches(out.Nodes)
		if len(broken) == 0 {
			break
		}
		off := x.tooMany(broken, turn)
		before := len(out.Unplaced)
		for n := range out.Nodes {
			kept := out.Nodes[n].Pods[:0]
			for _, i := range out.Nodes[n].Pods {
				if b, ok := off[i]; ok {
					r := append(x.p.reasons(&x.pods[i]), Reason{Constraint: b.why, Detail: b.detail})
					out.Unplaced = append(out.Unplaced, Unplaced{Pod: i, Reasons: r})
					continue
				}
				kept = append(kept, i)
			}
			out.Nodes[n].Pods = kept
		}
		if len(out.Unplaced) == before { // what breaks them is not of this packing
			break
		}
	}
	x.recount(&out)
	return &out
}

// tooMany chooses the pods of a turn to take off: of those with the same fault in the same place as many as are too many.
func (x *across) tooMany(broken []breach, turn int) map[int]breach {
	groups := map[string][]breach{}
	var order []string
	for _, b := range broken {
		key := string(b.why) + " " + strconv.Quote(b.detail) + " " + b.place
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], b)
	}
	off := map[int]breach{}
	for _, key := range order {
		g := groups[key]
		n := len(g)
		if turn < 200 && g[0].why != ConstraintGang {
			n = min(n, max(1, g[0].excess))
		}
		for _, b := range g[len(g)-n:] {
			off[b.pod] = b
		}
		if g[0].why == ConstraintAnti && turn < 200 { // the other side breaks it too: one at a time
			break
		}
	}
	return off
}

// recount drops empty machines and adds up what is left.
func (x *across) recount(a *Answer) {
	kept := a.Nodes[:0]
	a.Cost, a.Weighed = 0, 0
	for _, n := range a.Nodes {
		if len(n.Pods) == 0 {
			continue
		}
		kept = append(kept, n)
		o := &x.given[n.Offering]
		a.Cost, a.Weighed = a.Cost.Add(*o.Price), a.Weighed.Add(o.weighed())
	}
	a.Nodes = kept
	sort.SliceStable(a.Nodes, func(i, k int) bool {
		if a.Nodes[i].Offering != a.Nodes[k].Offering {
			return a.Nodes[i].Offering < a.Nodes[k].Offering
		}
		return a.Nodes[i].Pods[0] < a.Nodes[k].Pods[0]
	})
	sort.SliceStable(a.Unplaced, func(i, k int) bool { return a.Unplaced[i].Pod < a.Unplaced[k].Pod })
	a.Bound = 0
}

func joined(parts ...string) string { return strings.Join(parts, "\x00") }
