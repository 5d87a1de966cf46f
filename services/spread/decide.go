package spread

import (
	"cmp"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

// splitter is one plan in the making.
type splitter struct {
	in       *Input
	rules    Rules
	live     []int // indices of the sites that may be changed
	held     int   // replicas of those that may not, where they are known
	heldMost int   // of the largest of them
	base     []int // replicas of each live site before anything moves
	segs     []segment
	lists    [][]segment // of each live site, cheapest first
	plan     *Plan
}

// segment is a run of replicas at one live site that cost the same: those from its first to its last.
type segment struct {
	site     int // index into live
	from, to int
	step     int         // index into the site's steps
	price    fleet.Money // with what leaves the place and the penalty
	weighed  fleet.Money
	goal     fleet.Money // weighed, with what moving there costs per hour
}

// Decide makes the plan. The error is a *fleet.Error of the input.
func Decide(in Input) (*Plan, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	in.Rules = in.Rules.WithDefaults()
	s := &splitter{in: &in, rules: in.Rules, plan: &Plan{At: in.Now, Mode: in.Mode, Relaxed: []string{}, Parts: []Part{}, Options: []Option{}}}
	s.settle()
	s.demand()
	s.segments()
	s.choose()
	s.carry()
	return s.plan, nil
}

func (in *Input) validate() error {
	if in.Now.IsZero() || in.Mode != fleet.ModeRecommend && in.Mode != fleet.ModeEnforce {
		return fleet.Errorf(fleet.CodeInvalid, "a service is split at a time, in recommend or enforce")
	}
	if len(in.Sites) > MaxSites {
		return fleet.Errorf(fleet.CodeTooLarge, "a service in %d clusters: at most %d", len(in.Sites), MaxSites)
	}
	if err := in.Rules.Validate(); err != nil {
		return err
	}
	seen := map[fleet.ClusterID]bool{}
	for i := range in.Sites {
		s := &in.Sites[i]
		if i > 0 && compareSites(in.Sites[i-1], *s) > 0 {
			return fleet.Errorf(fleet.CodeInvalid, "sites are not sorted")
		}
		if s.Workload == "" || seen[s.Cluster] {
			return fleet.Errorf(fleet.CodeInvalid, "a service has one workload per cluster, each with an id")
		}
		seen[s.Cluster] = true
		if err := s.validate(); err != nil {
			return err
		}
	}
	return nil
}

func compareSites(a, b Site) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Workload, b.Workload))
}

// SortSites puts sites in the order that Decide takes them in.
func SortSites(sites []Site) { slices.SortFunc(sites, compareSites) }

func (s *Site) validate() error {
	if err := s.Rules.Validate(); err != nil {
		return err
	}
	for _, n := range []int{s.Replicas, s.Ready, s.Min, s.Max} {
		if n < 0 || n > 100_000 {
			return fleet.Errorf(fleet.CodeInvalid, "site %s has a count of %d", s.Name, n)
		}
	}
	if s.Need != nil && (*s.Need < 0 || *s.Need > 100_000) || s.Reach != nil && *s.Reach < 0 || len(s.Steps) > maxSteps {
		return fleet.Errorf(fleet.CodeInvalid, "site %s needs, reaches or offers what cannot be", s.Name)
	}
	for i, x := range s.Steps {
		if x.Price < 0 || x.Weighed < 0 || x.Price > maxPrice || x.Weighed > 1000*maxPrice || x.Count < 0 || x.Count > 1_000_000 || x.Count == 0 && i < len(s.Steps)-1 {
			return fleet.Errorf(fleet.CodeInvalid, "step %d of site %s has no price or count that can be", i, s.Name)
		}
		if i > 0 && x.Weighed < s.Steps[i-1].Weighed {
			return fleet.Errorf(fleet.CodeInvalid, "steps of site %s are not sorted", s.Name)
		}
	}
	return nil
}

// heldBy is why a site keeps what it has; empty: it may be changed.
func (s *Site) heldBy(mode fleet.Mode) Held {
	switch {
	case s.Held == HeldMode && mode == fleet.ModeRecommend: // advice needs nobody's permission
	case s.Held != "":
		return s.Held
	}
	offered := 0
	for _, x := range s.Steps {
		if x.Count == 0 {
			offered = max(offered, s.Replicas)
		}
		offered += x.Count
	}
	if len(s.Steps) == 0 || offered < s.Replicas {
		return HeldPrice
	}
	return ""
}

// settle tells the sites that may be changed from those that may not.
func (s *splitter) settle() {
	for i := range s.in.Sites {
		x := &s.in.Sites[i]
		p := Part{Workload: x.Workload, Cluster: x.Cluster, From: x.Replicas, Ready: x.Ready, Need: x.Need, Target: x.Replicas, Held: x.heldBy(s.in.Mode)}
		switch p.Held {
		case "":
			s.live = append(s.live, i)
		case HeldSilent, HeldGone:
		default:
			s.held += x.Replicas
			s.heldMost = max(s.heldMost, x.Replicas)
		}
		s.plan.Parts = append(s.plan.Parts, p)
	}
	for _, i := range s.live {
		s.base = append(s.base, s.baseOf(&s.in.Sites[i]))
	}
}

// baseOf is how many replicas a site has when nothing moves. Advice starts from what is there. Where load stays where it is, a site has what it needs and
// what is about to move; elsewhere it has its part of the plan before, since that is on its way.
func (s *splitter) baseOf(x *Site) int {
	m := &s.in.Memory
	if s.in.Mode != fleet.ModeEnforce {
		return x.Replicas
	}
	target, planned := m.Targets[x.Workload]
	switch {
	case s.rules.Traffic == TrafficLocal && x.Need != nil:
		return max(*x.Need+s.outstanding(x), 0)
	case s.rules.Traffic == TrafficLocal || !planned:
		return x.Replicas
	}
	for _, i := range s.live {
		if _, ok := m.Targets[s.in.Sites[i].Workload]; !ok { // a site that was not counted before: begin anew
			return x.Replicas
		}
	}
	return target
}

// outstanding is what is left of a move, above zero where replicas wait for load and below where load is to go away. Load that went that way by itself
// is taken off.
func (s *splitter) outstanding(x *Site) int {
	m := &s.in.Memory
	shift, target := m.Shift[x.Workload], m.Targets[x.Workload]
	if shift == 0 || x.Need == nil || s.rests() {
		return 0
	}
	left := target - *x.Need
	if shift > 0 {
		return min(max(left, 0), shift)
	}
	return max(min(left, 0), shift)
}

// demand takes what the signals ask for, of now and of the window.
func (s *splitter) demand() {
	asked := 0
	for i := range s.in.Sites {
		x := &s.in.Sites[i]
		if h := s.plan.Parts[i].Held; h == HeldSilent || h == HeldGone {
			continue // it serves its own load, as far as anybody knows
		}
		need := x.Replicas
		if x.Need != nil {
			need = *x.Need
		}
		if s.rules.Traffic == TrafficShared {
			asked = max(asked, need)
		} else {
			asked += need
		}
	}
	asked = min(asked, MaxDemand)
	m := s.in.Memory
	m.Demands = remember(m.Demands, Demand{At: s.in.Now, Count: asked}, s.rules.WindowSec)
	s.plan.Asked, s.plan.Demand = asked, m.Demands[0].Count
	if s.rules.Traffic == TrafficLocal { // each policy damps its own
		m.Demands, s.plan.Demand = nil, asked
	}
	s.plan.Memory = m
}

// remember keeps those of the window that can still be its highest: each is higher than all after it.
func remember(old []Demand, now Demand, windowSec int64) []Demand {
	var out []Demand
	for _, d := range old {
		if age := now.At.Sub(d.At).Seconds(); age >= 0 && age < float64(windowSec) && d.Count > now.Count {
			out = append(out, d)
		}
	}
	return append(out, now)
}

// segments lists what replicas cost at each live site, up to its most.
func (s *splitter) segments() {
	move := s.rules.MoveCost.MulDiv(1, s.rules.HorizonHours)
	for k, i := range s.live {
		x := &s.in.Sites[i]
		extra, at, list := x.Rules.Extra(), 0, []segment{}
		for n, step := range x.Steps {
			to := at + step.Count
			if step.Count == 0 {
				to = 2 * MaxDemand
			}
			seg := segment{site: k, from: at, to: to, step: n, price: step.Price.Add(extra), weighed: step.Weighed.Add(extra)}
			seg.goal = seg.weighed
			if at < s.base[k] && to > s.base[k] {
				low := seg
				low.to, seg.from = s.base[k], s.base[k]
				list = append(list, low)
			}
			if seg.from >= s.base[k] {
				seg.goal = seg.goal.Add(move)
			}
			list = append(list, seg)
			at = to
		}
		s.lists = append(s.lists, list)
		s.segs = append(s.segs, list...)
	}
	slices.SortStableFunc(s.segs, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.goal, b.goal), cmp.Compare(a.site, b.site), cmp.Compare(a.from, b.from))
	})
}

// most is how many replicas a live site may have by itself, and what says so.
func (s *splitter) most(k int) (n int, why string) {
	x := &s.in.Sites[s.live[k]]
	n, why = x.Max, "max"
	if r := x.Rules.Max; r > 0 && r < n {
		n = r
	}
	if !s.allowed(x) {
		n, why = 0, "not_allowed"
	}
	if x.Reach != nil && *x.Reach < n {
		n, why = *x.Reach, "reach"
	}
	offered := s.lists[k][len(s.lists[k])-1].to
	if offered < n {
		n, why = offered, "reach"
	}
	if low := s.least(k); n < low { // a policy's own floor holds whatever else is said
		return low, "min"
	}
	return n, why
}

func (s *splitter) least(k int) int {
	x := &s.in.Sites[s.live[k]]
	low := x.Min
	if s.allowed(x) {
		low = min(max(low, x.Rules.Min), max(x.Max, x.Min))
	}
	return low
}

func (s *splitter) allowed(x *Site) bool {
	return (len(s.rules.Clouds) == 0 || slices.Contains(s.rules.Clouds, x.Cloud)) && (len(s.rules.Regions) == 0 || slices.Contains(s.rules.Regions, x.Region))
}

// bounds of one search.
type bounds struct {
	headroom int // replicas that must be left when any one cluster is lost
	shares   bool
	keep     bool // nothing moves
	only     int  // the one live site that grows beyond its least; -1: all may
}

// box is what each live site may have when all live ones have total together. ok is false where no split is within it.
func (s *splitter) box(total int, b bounds) (low, high []int, ok bool) {
	all := total + s.held
	if b.headroom > 0 && all-s.heldMost < b.headroom {
		return nil, nil, false
	}
	for k := range s.live {
		r := &s.in.Sites[s.live[k]].Rules
		lo := s.least(k)
		hi, _ := s.most(k)
		if b.shares {
			if r.MaxShareMilli > 0 { // rounded so that a share never forbids what one replica more or less would allow
				hi = min(hi, max((all*int(r.MaxShareMilli)+999)/1000, lo))
			}
			if s.allowed(&s.in.Sites[s.live[k]]) {
				lo = min(max(lo, all*int(r.MinShareMilli)/1000), hi)
			}
		}
		if b.headroom > 0 {
			hi = min(hi, all-b.headroom)
		}
		if b.only >= 0 && b.only != k {
			hi = min(hi, lo)
		}
		if lo > hi {
			return nil, nil, false
		}
		low, high = append(low, lo), append(high, hi)
	}
	if b.keep {
		s.pin(total, low, high)
	}
	sumLow, sumHigh := 0, 0
	for k := range low {
		sumLow, sumHigh = sumLow+low[k], sumHigh+high[k]
	}
	return low, high, sumLow <= total && total <= sumHigh
}

// pin narrows boxes so that nothing moves: with more replicas than before none has fewer, with fewer none has more.
func (s *splitter) pin(total int, low, high []int) {
	base, sum := make([]int, len(low)), 0
	for k := range low {
		base[k] = min(max(s.base[k], low[k]), high[k])
		sum += base[k]
	}
	for k := range low {
		if total >= sum {
			low[k] = base[k]
		}
		if total <= sum {
			high[k] = base[k]
		}
	}
}

// fill gives out total at the least price: prices only rise with the count at each site, so that the cheapest next replica is always right.
func (s *splitter) fill(total int, low, high []int) []int {
	at, rest := slices.Clone(low), total
	for _, n := range at {
		rest -= n
	}
	for i := 0; i < len(s.segs) && rest > 0; i++ {
		g := &s.segs[i]
		if n := min(g.to, high[g.site]) - at[g.site]; n > 0 && g.from <= at[g.site] {
			n = min(n, rest)
			at[g.site], rest = at[g.site]+n, rest-n
		}
	}
	return at
}

// search finds the cheapest split of at least need replicas; nil: there is none.
func (s *splitter) search(need int, b bounds) []int {
	most, slack := 0, s.headroomFor()+s.heldMost
	for k := range s.live {
		n, _ := s.most(k)
		most += n
		slack += s.least(k)
	}
	var best []int
	var least fleet.Money
	for total := need; total <= min(most, need+slack+len(s.live)); total++ {
		if best != nil && s.goal(s.fill(total, make([]int, len(s.live)), s.mosts())) >= least {
			break // no split of so many, whatever the rules, is cheaper
		}
		low, high, ok := s.box(total, b)
		if !ok {
			continue
		}
		at := s.fill(total, low, high)
		if g := s.goal(at); best == nil || g < least {
			best, least = at, g
		}
	}
	return best
}

func (s *splitter) mosts() []int {
	out := make([]int, len(s.live))
	for k := range s.live {
		out[k], _ = s.most(k)
	}
	return out
}

// goal is what the search makes small: weighed prices, and what moving costs per hour of the horizon.
func (s *splitter) goal(at []int) (sum fleet.Money) {
	return s.sum(at, func(g *segment) fleet.Money { return g.goal })
}

func (s *splitter) cost(at []int) fleet.Money {
	return s.sum(at, func(g *segment) fleet.Money { return g.price })
}

func (s *splitter) weighed(at []int) fleet.Money {
	return s.sum(at, func(g *segment) fleet.Money { return g.weighed })
}

func (s *splitter) sum(at []int, of func(*segment) fleet.Money) (sum fleet.Money) {
	for k, n := range at {
		for i := range s.lists[k] {
			g := &s.lists[k][i]
			if g.from >= n {
				break
			}
			sum = sum.Add(of(g).MulDiv(int64(min(g.to, n)-g.from), 1))
		}
	}
	return sum
}

// headroomFor is how many replicas must be left when a cluster is lost.
func (s *splitter) headroomFor() int {
	return (s.plan.Demand*int(s.rules.HeadroomMilli) + 999) / 1000
}
