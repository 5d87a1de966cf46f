package spread

import (
	"fmt"
	"slices"

	"plimsoll.dev/services/fleet"
)

// Check tells what is wrong with a plan, from the input alone: held sites, bounds, sums, what must survive, and that nothing is taken away before what
// stands in for it is ready. A plan with a finding is a defect and must not be shown or carried out.
func Check(in Input, p *Plan) []string {
	in.Rules = in.Rules.WithDefaults()
	c := &checker{in: &in, p: p}
	if len(p.Parts) != len(in.Sites) {
		c.say("%d parts of %d sites", len(p.Parts), len(in.Sites))
		return c.bad
	}
	for i := range p.Parts {
		c.part(&in.Sites[i], &p.Parts[i])
	}
	c.sums()
	c.carried()
	return c.bad
}

type checker struct {
	in  *Input
	p   *Plan
	bad []string
}

func (c *checker) say(format string, args ...any) {
	c.bad = append(c.bad, fmt.Sprintf(format, args...))
}

func unknown(h Held) bool { return h == HeldSilent || h == HeldGone }

// part checks one site's: a held one keeps what it has, any other is within its bounds.
func (c *checker) part(s *Site, p *Part) {
	if p.Workload != s.Workload || p.Cluster != s.Cluster || p.From != s.Replicas || p.Ready != s.Ready {
		c.say("part %s is not of its site", s.Name)
		return
	}
	if s.Held != "" && p.Held == "" && (s.Held != HeldMode || c.in.Mode == fleet.ModeEnforce) {
		c.say("%s is held (%s) and planned", s.Name, s.Held)
	}
	if p.Held != "" {
		if p.Target != s.Replicas || p.Floor != nil || p.Cap != nil {
			c.say("%s is held (%s) and changed", s.Name, p.Held)
		}
		return
	}
	allowed := (len(c.in.Rules.Clouds) == 0 || slices.Contains(c.in.Rules.Clouds, s.Cloud)) && (len(c.in.Rules.Regions) == 0 || slices.Contains(c.in.Rules.Regions, s.Region))
	most := s.Max
	if s.Rules.Max > 0 {
		most = min(most, s.Rules.Max)
	}
	if s.Reach != nil {
		most = min(most, *s.Reach)
	}
	least := min(max(s.Min, s.Rules.Min), max(s.Max, s.Min))
	if !allowed {
		most, least = 0, s.Min
	}
	if p.Target > max(most, least) || p.Target < s.Min {
		c.say("%s gets %d: from %d to %d", s.Name, p.Target, s.Min, max(most, least))
	}
	if p.Cap != nil && *p.Cap < p.Target || p.Floor != nil && (*p.Floor < p.Target || *p.Floor > max(p.Target, p.From)) || p.Floor != nil && p.Cap != nil && *p.Floor > *p.Cap || (p.Cap != nil || p.Floor != nil) && c.in.Mode != fleet.ModeEnforce {
		c.say("%s: bounds are not about its target", s.Name)
	}
}

// sums checks what all parts together must be.
func (c *checker) sums() {
	sum, most, live := 0, 0, 0
	for i := range c.p.Parts {
		q := &c.p.Parts[i]
		if q.Held == "" {
			live++
		}
		if !unknown(q.Held) {
			sum, most = sum+q.Target, max(most, q.Target)
		}
	}
	if sum != c.p.Target {
		c.say("parts add up to %d, not %d", sum, c.p.Target)
	}
	if c.p.Demand < c.p.Asked || sum+c.p.Missing < c.p.Demand {
		c.say("%d replicas and %d missing for a demand of %d, asked %d", sum, c.p.Missing, c.p.Demand, c.p.Asked)
	}
	need := (c.p.Demand*int(c.in.Rules.HeadroomMilli) + 999) / 1000
	if c.p.Survives != sum-most || sum-most < need && !slices.Contains(c.p.Relaxed, RelaxedHeadroom) {
		c.say("%d are left when the largest cluster is lost, %d told, %d must be", sum-most, c.p.Survives, need)
	}
	if live == 0 || slices.Contains(c.p.Relaxed, RelaxedShares) {
		return
	}
	for i := range c.p.Parts {
		r := &c.in.Sites[i].Rules
		if q := &c.p.Parts[i]; q.Held == "" && r.MaxShareMilli > 0 && q.Target > max((sum*int(r.MaxShareMilli)+999)/1000, c.in.Sites[i].Min, r.Min) {
			c.say("%s gets %d of %d: more than its share", c.in.Sites[i].Name, q.Target, sum)
		}
	}
}

// carried checks that what is taken away now is ready elsewhere, and is taken in steps.
func (c *checker) carried() {
	ready, taken := 0, 0
	for i := range c.p.Parts {
		q := &c.p.Parts[i]
		switch {
		case q.Held == "":
			ready += min(q.Ready, q.From)
		case !unknown(q.Held):
			ready += q.From
		}
		if q.Cap == nil {
			continue
		}
		n := max(q.From-*q.Cap, 0)
		if n > max(1, q.From*int(c.in.Rules.StepMilli)/1000) {
			c.say("%s loses %d of %d at once", c.in.Sites[i].Name, n, q.From)
		}
		taken += n
	}
	if taken > 0 && ready-taken < c.p.Target {
		c.say("%d are taken away while %d of %d are ready", taken, ready, c.p.Target)
	}
}
