package spread

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Reasons why more is not taken away from a site yet.
const (
	WaitReady = "ready" // what stands in for it is not ready
	WaitLoad  = "load"  // its own signals still ask for what it has
	WaitStep  = "step"  // it is taken away in steps
)

// carry says how far each site may go now: it grows to its target at once, and gives up only what is ready elsewhere. Where load stays where it is, only
// sites that replicas move to are bounded: the others go down by their own policies once their load has gone.
func (s *splitter) carry() {
	s.weights()
	if s.in.Mode != fleet.ModeEnforce {
		return
	}
	p := s.plan
	ready, target := s.held, p.Target
	var sources []int
	for k, i := range s.live {
		part := &p.Parts[i]
		ready += min(part.Ready, part.From)
		if floor := part.Target; s.rules.Traffic == TrafficLocal && p.Memory.Shift[part.Workload] > 0 {
			part.Floor = &floor
		}
		if part.From > part.Target {
			sources = append(sources, k)
		}
	}
	slices.SortStableFunc(sources, func(a, b int) int { // the dearest gives up first
		return cmp.Compare(s.lastGoal(b), s.lastGoal(a))
	})
	spare, waits := max(ready-target, 0), false
	give := map[int]int{}
	for _, k := range sources {
		part := &p.Parts[s.live[k]]
		give[k], part.Wait = s.gives(part, spare)
		spare -= give[k]
		waits = waits || part.Wait == WaitLoad && p.Memory.Shift[part.Workload] < 0
	}
	for k, i := range s.live {
		part := &p.Parts[i]
		if s.rules.Traffic != TrafficLocal { // what is not given up yet is kept, also from its own policy: it stands in for what is not ready elsewhere
			keeps := max(part.Target, part.From-give[k])
			least := keeps
			part.Floor, part.Cap = &least, &keeps
		}
	}
	s.patience(waits)
}

func (s *splitter) lastGoal(k int) fleet.Money {
	if g := s.seg(k, s.plan.Parts[s.live[k]].From-1); g != nil {
		return g.goal
	}
	return 0
}

// gives is how many replicas a site gives up now of those beyond its target, and what keeps it from giving up more.
func (s *splitter) gives(part *Part, spare int) (n int, wait string) {
	n = part.From - part.Target
	for _, l := range []struct {
		most int
		why  string
	}{{max(1, part.From*int(s.rules.StepMilli)/1000), WaitStep}, {spare, WaitReady}} {
		if l.most < n {
			n, wait = l.most, l.why
		}
	}
	if s.rules.Traffic == TrafficLocal {
		own := 0
		if part.Need != nil {
			own = max(part.From-*part.Need, 0)
		}
		if own < n {
			n, wait = own, WaitLoad
		}
	}
	return n, wait
}

// patience gives a move up when load does not follow it.
func (s *splitter) patience(waits bool) {
	m, now := &s.plan.Memory, s.in.Now
	if m.RestUntil != nil && !s.rests() {
		m.RestUntil = nil
	}
	switch {
	case !waits:
		m.WaitsSince = nil
	case m.WaitsSince == nil:
		m.WaitsSince = &now
	case now.Sub(*m.WaitsSince).Seconds() >= float64(s.rules.PatienceSec):
		until := now.Add(restSeconds * time.Second)
		m.WaitsSince, m.RestUntil, m.Shift = nil, &until, nil
	}
}

// weights are for balancers: load goes where replicas are ready. A cluster that says nothing has none that anybody knows of.
func (s *splitter) weights() {
	total, largest, given := 0, -1, int64(0)
	for i := range s.plan.Parts {
		if p := &s.plan.Parts[i]; p.Held != HeldSilent && p.Held != HeldGone {
			total += p.Ready
		}
	}
	if total == 0 {
		return
	}
	for i := range s.plan.Parts {
		p := &s.plan.Parts[i]
		if p.Held == HeldSilent || p.Held == HeldGone {
			continue
		}
		p.Weight = int64(p.Ready) * 1000 / int64(total)
		given += p.Weight
		if largest < 0 || p.Ready > s.plan.Parts[largest].Ready {
			largest = i
		}
	}
	s.plan.Parts[largest].Weight += 1000 - given
}

// Bound is what a plan leaves one workload's policy.
type Bound struct {
	Floor *int `json:"floor,omitempty"`
	Cap   *int `json:"cap,omitempty"`
	Need  int  `json:"need"`          // that the plan saw
	Max   int  `json:"max,omitempty"` // of the service's rules for the site; 0: none
}

// Lift bounds a policy's minimum and maximum. need is what the workload's signals ask for now: what it asks beyond what the plan saw is not held back,
// since a surge must not wait for the next plan. The policy's own bounds and the service's maximum always hold.
func (b Bound) Lift(policyMin, policyMax, need int) (low, high int) {
	low, high = policyMin, policyMax
	if b.Floor != nil {
		low = min(max(low, *b.Floor), policyMax)
	}
	if b.Cap == nil {
		return low, high
	}
	most := *b.Cap + max(need-b.Need, 0)
	if b.Max > 0 {
		most = min(most, max(b.Max, *b.Cap))
	}
	return low, max(min(most, policyMax), low)
}

// Bound is what the plan leaves the policy of a site's workload; nil: nothing.
func (p *Part) bound(site *Site) *Bound {
	if p.Floor == nil && p.Cap == nil {
		return nil
	}
	b := &Bound{Floor: p.Floor, Cap: p.Cap, Max: site.Rules.Max}
	if p.Need != nil {
		b.Need = *p.Need
	}
	return b
}

// Bounds are what the plan leaves each workload's policy; workloads that it does not bound are left out.
func (p *Plan) Bounds(in *Input) map[fleet.WorkloadID]Bound {
	out := map[fleet.WorkloadID]Bound{}
	for i := range p.Parts {
		if b := p.Parts[i].bound(&in.Sites[i]); b != nil {
			out[p.Parts[i].Workload] = *b
		}
	}
	return out
}
