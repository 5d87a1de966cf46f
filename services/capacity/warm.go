package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// LabelWarm is on placeholder pods: they stand for room that is kept ready and give way to every other pod. A plan looks through them.
const LabelWarm = "plimsoll.dev/warm"

// WhyWarm is a machine that is added to be ready before pods need it.
const WhyWarm Why = "warm"

// How many machines a WarmRule keeps ready.
const (
	WarmFixed  = "fixed"  // Count
	WarmGrowth = "growth" // what the demand grows by while a machine starts, at a quantile of what it did lately
)

// Bounds of a policy's rules.
const (
	maxWarmRules  = 50
	maxWarmCount  = 1000
	maxWarmTypes  = 100
	defaultGrowth = 950 // thousandths
)

// WarmRule keeps machines of one shape ready: booted, empty and not let go.
type WarmRule struct {
	Name          string         `json:"name"`
	GPUModel      fleet.GPUModel `json:"gpu_model,omitempty"` // empty: by instance types only
	GPUs          int64          `json:"gpus,omitempty"`      // of one machine; 0: any number
	InstanceTypes []string       `json:"instance_types,omitempty"`
	How           string         `json:"how"`                  // fixed, growth
	Count         int64          `json:"count,omitempty"`      // fixed: machines; growth: at most so many
	Least         int64          `json:"least,omitempty"`      // growth: at least so many
	QuantMilli    int64          `json:"quantile,omitempty"`   // growth: thousandths; default 950
	Spot          bool           `json:"spot,omitempty"`       // may be Spot
	HourlyMax     *fleet.Money   `json:"hourly_max,omitempty"` // that the rule's machines may cost together; nil: no cap of its own
}

// Growth is what the demand for a rule's GPUs grew by within the time that a machine takes to start.
type Growth struct {
	Rule    string `json:"rule"`
	GPUs    int64  `json:"gpus"`    // at the rule's quantile
	Samples int    `json:"samples"` // moments that were looked at; 0: nothing is known
	Seconds int64  `json:"seconds"` // within which
}

// WarmNote is what a plan makes of a rule.
type WarmNote struct {
	Rule     string      `json:"rule"`
	How      string      `json:"how"`
	Want     int64       `json:"want"`     // machines
	Ready    int64       `json:"ready"`    // empty and ready
	Starting int64       `json:"starting"` // booting
	Add      int64       `json:"add"`
	Short    int64       `json:"short"`           // that are missing and not added
	Why      string      `json:"why,omitempty"`   // of Short: cap, action_rate, no_offering, hourly_max
	Hour     fleet.Money `json:"hour"`            // of those that are there and those added
	Unpriced int64       `json:"unpriced"`        // of them, whose price nobody knows; not in Hour
	SavesSec int64       `json:"saves_s"`         // that a pod on one of them waits less: the start of a machine; 0: unknown
	Grows    *Growth     `json:"grows,omitempty"` // of how growth
	Types    []string    `json:"types"`           // of those that are there or added, else of the offering that would be
	CPUMilli int64       `json:"cpu"`             // of a placeholder: half of the smallest of these machines
	MemMiB   int64       `json:"mem"`
	GPUs     int64       `json:"gpus"`
	Spot     bool        `json:"spot,omitempty"` // may be Spot

	Placeholders bool `json:"placeholders,omitempty"` // the agent keeps it by placeholder pods
}

func (p *Policy) validateWarm(bad func(field, text string) error) error {
	if len(p.Warm) > maxWarmRules {
		return bad("warm", "a list of the policy is too long")
	}
	names := map[string]bool{}
	for _, r := range p.Warm {
		switch {
		case r.Name == "" || len(r.Name) > 40 || strings.Trim(r.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.HasPrefix(r.Name, "-") || strings.HasSuffix(r.Name, "-") || names[r.Name]:
			return bad("warm", "each warm pool has a name of its own, of lower case letters, digits and dashes, at most 40")
		case r.GPUModel == "" && len(r.InstanceTypes) == 0:
			return bad("warm", "a warm pool names a GPU model or instance types")
		case len(r.InstanceTypes) > maxWarmTypes:
			return bad("warm", "a warm pool names too many instance types")
		case r.How != WarmFixed && r.How != WarmGrowth:
			return bad("warm", "a warm pool is sized fixed or by growth")
		case r.How == WarmGrowth && r.GPUModel == "":
			return bad("warm", "growth is measured in GPUs of a model: name one")
		case r.Count < 0 || r.Count > maxWarmCount || r.Least < 0 || r.Least > r.Count && r.How == WarmGrowth || r.GPUs < 0 || r.GPUs > maxNodeGPUs || r.QuantMilli < 0 || r.QuantMilli > 999:
			return bad("warm", "counts of a warm pool are 0 to 1000, the least not above the most, the quantile below 1000 thousandths")
		case r.HourlyMax != nil && *r.HourlyMax < 0:
			return bad("warm", "hourly_max of a warm pool must not be below zero")
		}
		names[r.Name] = true
	}
	return nil
}

// takes tells whether a machine is of a rule's shape.
func (r *WarmRule) takes(k *kind) bool {
	return (r.GPUModel == "" || k.model == r.GPUModel && k.gpus > 0) && (r.GPUs == 0 || k.gpus == r.GPUs) && (r.GPUModel != "" || r.GPUs > 0 || k.gpus == 0 || len(r.InstanceTypes) > 0) &&
		(len(r.InstanceTypes) == 0 || slices.Contains(r.InstanceTypes, k.offering.InstanceType)) && (r.Spot || k.offering.Purchase != fleet.PurchaseSpot)
}

// warm keeps machines ready: empty ones that are there are not let go, and what is missing is added within the caps. Pods that wait have taken
// their room before.
func (d *planner) warm() {
	taken := map[*host]bool{}
	for i := range d.in.Policy.Warm {
		d.plan.Warm = append(d.plan.Warm, d.warmRule(&d.in.Policy.Warm[i], taken))
	}
}

func (d *planner) warmRule(r *WarmRule, taken map[*host]bool) WarmNote {
	n := WarmNote{Rule: r.Name, How: r.How, Types: []string{}, SavesSec: d.in.NodeStart, Spot: r.Spot, Placeholders: d.in.KeepsRoom}
	var idle []*host
	for _, h := range d.hosts {
		if !h.gone && !taken[h] && h.open && len(h.pods) == 0 && h.fixed != "leaving" && h.fixed != "not_ready" && h.fixed != "mig" && !h.isNew() && r.takes(&h.kind) {
			idle = append(idle, h)
		}
	}
	starting := func(h *host) bool { return d.in.Nodes[h.node].Phase == fleet.NodeBooting }
	slices.SortStableFunc(idle, func(a, b *host) int { // ready ones first, then the cheapest
		if x, y := starting(a), starting(b); x != y {
			if x {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.weighed, b.weighed)
	})
	c := d.cheapestWarm(r)
	per := r.GPUs
	if per == 0 && len(idle) > 0 {
		per = idle[0].gpus
	} else if per == 0 && c >= 0 {
		per = d.kinds[c].gpus
	}
	n.Want, n.Grows = d.in.warmWant(r, max(per, 1))
	use := func(h *host) {
		taken[h] = true
		n.Hour = n.Hour.Add(h.price)
		if !h.known {
			n.Unpriced++
		}
		n.size(h.offering.InstanceType, d.whole(h), h.gpus)
		if h.fixed == "" || h.fixed == "young" || h.fixed == "committed" || h.fixed == "reserved" || h.fixed == "unpriced" {
			h.fixed, h.by = string(WhyWarm), r.Name
		}
	}
	for _, h := range idle[:min(int64(len(idle)), n.Want)] {
		if use(h); starting(h) {
			n.Starting++
		} else {
			n.Ready++
		}
	}
	for n.Ready+n.Starting+n.Add < n.Want {
		if n.Why = d.warmStop(r, c, n.Hour); n.Why != "" {
			n.Short = n.Want - n.Ready - n.Starting - n.Add
			break
		}
		h := d.add(c, WhyWarm)
		use(h)
		h.fixed, h.by = string(WhyWarm), r.Name
		n.Add++
		c = d.cheapestWarm(r)
	}
	if len(n.Types) == 0 && c >= 0 {
		k := &d.in.Candidates[c]
		n.size(k.Offering.InstanceType, d.roomOf(k.CPUMilli, k.MemMiB, k.MaxPods, k.GPUCount), k.GPUCount)
	}
	slices.Sort(n.Types)
	n.Types = slices.Compact(n.Types)
	return n
}

// size makes a placeholder small enough for a machine, and large enough that no two share one.
func (n *WarmNote) size(name string, whole room, gpus int64) {
	first := len(n.Types) == 0
	n.Types = append(n.Types, name)
	half := func(old, room int64) int64 {
		if v := max(room, 0) * 6 / 10; first || v < old {
			return v
		}
		return old
	}
	n.CPUMilli, n.MemMiB = half(n.CPUMilli, whole.cpu), half(n.MemMiB, whole.mem)
	if first || gpus < n.GPUs {
		n.GPUs = gpus
	}
}

// warmStop is why one more machine is not added for a rule; empty: it may be.
func (d *planner) warmStop(r *WarmRule, c int, hour fleet.Money) string {
	switch {
	case c < 0:
		return "no_offering"
	case d.actions >= d.in.Policy.MaxActions:
		d.note(HoldActions)
		return string(HoldActions)
	case !d.affords(c):
		return "cap"
	case r.HourlyMax != nil && hour.Add(d.kinds[c].price) > *r.HourlyMax:
		return "hourly_max"
	}
	return ""
}

// cheapestWarm is the offering that a rule's next machine is bought from; -1: none can be.
func (d *planner) cheapestWarm(r *WarmRule) int {
	best := -1
	for c := range d.kinds {
		if k := &d.kinds[c]; k.known && r.takes(k) && (best < 0 || k.weighed < d.kinds[best].weighed) && d.buyable(c) == "" {
			best = c
		}
	}
	return best
}

// warmWant is how many machines a rule keeps ready. Where the growth is not known, the least holds.
func (in *Input) warmWant(r *WarmRule, gpus int64) (int64, *Growth) {
	if r.How == WarmFixed {
		return r.Count, nil
	}
	for i := range in.Growths {
		if g := in.Growths[i]; g.Rule == r.Name {
			if g.Samples == 0 {
				return r.Least, &g
			}
			return min(max((g.GPUs+gpus-1)/gpus, r.Least), r.Count), &g
		}
	}
	return r.Least, nil
}

// MachineStart is how long a machine takes to start, the slow tenth, with a default where nobody saw one.
func (in *Input) MachineStart() time.Duration {
	if in.NodeStart > 0 {
		return time.Duration(in.NodeStart) * time.Second
	}
	return defaultNodeStart * time.Second
}

// Span is a time in which a pod held GPUs, or waited for them. To zero: still.
type Span struct {
	From, To time.Time
	GPUs     int64
}

// Growing measures by how much the demand rises within a time, at a quantile over all moments of a period: looked at every half of that time, how
// far the highest demand until its end lies above the demand at its beginning. This is the warm pool of the lab's two-quantile policy seen from
// what runs: what pooled demand may ask for before a machine that is requested now is ready.
func Growing(rule string, spans []Span, from, to time.Time, within time.Duration, milli int64) Growth {
	g := Growth{Rule: rule, Seconds: int64(within.Seconds())}
	if milli == 0 {
		milli = defaultGrowth
	}
	if within <= 0 || !to.After(from.Add(within)) {
		return g
	}
	step := max(within/2, to.Sub(from)/maxGrowthSteps)
	type change struct {
		at   time.Time
		gpus int64
	}
	var changes []change
	for _, s := range spans {
		if s.GPUs <= 0 || !s.To.IsZero() && !s.To.After(s.From) {
			continue
		}
		changes = append(changes, change{s.From, s.GPUs})
		if !s.To.IsZero() {
			changes = append(changes, change{s.To, -s.GPUs})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.gpus, b.gpus)) })
	// The demand at the moment of each step, and the highest within a step from then on.
	n := int(to.Sub(from)/step) + 1
	at, peak := make([]int64, n), make([]int64, n)
	now, k := int64(0), 0
	for i := range n {
		t := from.Add(time.Duration(i) * step)
		for ; k < len(changes) && !changes[k].at.After(t); k++ {
			now += changes[k].gpus
		}
		at[i], peak[i] = now, now
		sum, next := now, t.Add(step)
		for j := k; j < len(changes) && !changes[j].at.After(next); j++ {
			sum += changes[j].gpus
			peak[i] = max(peak[i], sum)
		}
	}
	reach := max(int((within+step-1)/step), 1)
	var rises []int64
	for i := 0; i+reach <= n; i++ {
		rises = append(rises, slices.Max(peak[i:i+reach])-at[i])
	}
	if len(rises) == 0 {
		return g
	}
	slices.Sort(rises)
	g.Samples = len(rises)
	g.GPUs = rises[min(int(math.Ceil(float64(len(rises))*float64(milli)/1000)), len(rises))-1]
	return g
}

const maxGrowthSteps = 20_000

// checkWarm tells what is wrong with machines that are added to be ready.
func (c *checker) checkWarm() {
	add := map[string]int64{}
	for _, n := range c.p.Warm {
		add[n.Rule] = n.Add
		if n.Ready+n.Starting+n.Add > n.Want {
			c.say("warm pool %s has %d machines and wants %d", n.Rule, n.Ready+n.Starting+n.Add, n.Want)
		}
	}
	var planned, told int64
	for _, n := range add {
		told += n
	}
	for _, g := range c.p.Add {
		if g.Why != WhyWarm || g.Candidate < 0 || g.Candidate >= len(c.in.Candidates) {
			continue
		}
		planned += int64(g.Count)
		k := c.in.Candidates[g.Candidate].kind()
		if !slices.ContainsFunc(c.in.Policy.Warm, func(r WarmRule) bool { return r.takes(&k) }) {
			c.say("a new %s is of no warm pool", g.Offering.InstanceType)
		}
	}
	if planned != told {
		c.say("%d machines are added to be ready, the warm pools tell of %d", planned, told)
	}
}

// placeholder is the pod that stands for a machine that a plan adds to be ready, for an actuator that buys machines by their pods.
func placeholder(c *Candidate, i int) packing.Pod {
	out := packing.Pod{Name: fmt.Sprintf("warm/%d", i), CPUMilli: max(c.CPUMilli, 0) * 6 / 10, MemMiB: max(c.MemMiB, 0) * 6 / 10, GPUCount: c.GPUCount, Archs: []string{"*"}, SpotOK: c.Offering.Purchase == fleet.PurchaseSpot,
		Rules: &packing.Rules{Tolerates: []string{"*"}, Where: []packing.Selector{{Key: "instance_type", Values: []string{c.Offering.InstanceType}}}}}
	if out.GPUCount > 0 {
		out.GPUMilli = 1000
	}
	return out
}
