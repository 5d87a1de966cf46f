package optimizer

import (
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// HintKind says in what a hint is counted.
type HintKind string

// The kinds.
const (
	HintFactor   HintKind = "factor"   // times the demand of the hour before it takes effect; for an SLO rule
	HintRate     HintKind = "rate"     // requests per second; for an SLO rule
	HintReplicas HintKind = "replicas" // replicas at least; for all rules
)

// Hint is load that somebody expects. While it holds it is a floor under what the rules ask for: it never lowers a count, never lifts one above the policy's
// maximum, and passes the same guards, steps and cooldowns as any need.
type Hint struct {
	ID     string    `json:"id"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Kind   HintKind  `json:"kind"`
	Amount float64   `json:"amount"`
}

// Bounds of hints.
const (
	MaxHintFactor = 100
	MaxHintRate   = 1e7
	MaxHintSpan   = 31 * 24 * time.Hour // of one
	MaxHintAhead  = 366 * 24 * time.Hour
	maxHints      = 64 // that are looked at in one decision
)

// Validate refuses what has no meaning. The error is of a field of the hint.
func (h *Hint) Validate(now time.Time) error {
	bad := func(field, text string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: text, Field: "body." + field}
	}
	most := map[HintKind]float64{HintFactor: MaxHintFactor, HintRate: MaxHintRate, HintReplicas: maxReplicas}[h.Kind]
	switch {
	case most == 0:
		return bad("kind", "a hint is a factor, a rate or replicas")
	case !finite(h.Amount) || h.Amount <= 0 || h.Amount > most:
		return bad("amount", "the amount is more than 0, and at most 100 as a factor, 10,000,000 as a rate and 100,000 as replicas")
	case h.Kind == HintReplicas && h.Amount != math.Trunc(h.Amount):
		return bad("amount", "replicas are whole")
	case !h.To.After(h.From):
		return bad("to", "a hint ends after it begins")
	case !h.To.After(now):
		return bad("to", "this time is over")
	case h.To.Sub(h.From) > MaxHintSpan:
		return bad("to", "a hint holds for 31 days at most: what is so for longer is learned")
	case h.From.Sub(now) > MaxHintAhead:
		return bad("from", "a hint begins within a year")
	}
	return nil
}

// HintBase is what was so when a hint took effect, kept while it holds.
type HintBase struct {
	ID     string   `json:"id"`
	Demand *float64 `json:"demand,omitempty"` // replicas in use, the median of the hour before; nil: not known
	Cost   *float64 `json:"cost,omitempty"`   // replicas in use per request and second, as last seen; nil: not known
}

// hintLead is how long before its time a hint takes effect when nothing was learned of how long a start takes.
const hintLead = defaultStartSeconds * time.Second

// hint raises the count to what the hints ask for that hold now, or will when a replica of now serves. The largest wins; one that cannot be computed says so.
func (g *deciding) hint() {
	lead := hintLead
	if f := g.forecast; f != nil && f.Outlook.LeadSlots > 0 && f.Outlook.LeadSlots <= maxStartSeconds {
		lead = time.Duration(f.Outlook.LeadSlots*quantile.SlotSeconds) * time.Second
	}
	var bases []HintBase
	best, floor := Reason{}, -1
	for i := range g.hints[:min(len(g.hints), maxHints)] {
		h := &g.hints[i]
		if g.snap.Now.Before(h.From.Add(-lead)) || !g.snap.Now.Before(h.To) {
			continue
		}
		base := g.hintBase(h)
		bases = append(bases, base)
		n, numbers, ok := g.hintFloor(h, &base)
		until := h.To
		if !ok {
			g.note(Reason{Code: ReasonHintUnused, From: g.count, To: g.count, Until: &until, Numbers: numbers})
			continue
		}
		numbers["in_seconds"] = h.From.Sub(g.snap.Now).Seconds()
		if n > floor {
			floor, best = n, Reason{Code: ReasonHint, From: g.count, To: max(n, g.count), Until: &until, Numbers: numbers}
		}
	}
	g.memory.Hints = bases
	if floor < 0 {
		return
	}
	g.hinted = floor
	if floor <= g.count {
		g.note(best)
		return
	}
	g.d.Needed = max(g.d.Needed, floor)
	g.settle(best)
}

// hintBase is what is kept of a hint's beginning, brought up to date.
func (g *deciding) hintBase(h *Hint) HintBase {
	out := HintBase{ID: h.ID}
	if i := slices.IndexFunc(g.memory.Hints, func(b HintBase) bool { return b.ID == h.ID }); i >= 0 {
		out = g.memory.Hints[i]
	}
	f := g.forecast
	if f == nil || g.policy.SLO == nil || !f.usable(g.snap.Now, seconds(g.policy.MaxSignalAgeSeconds)) {
		return out
	}
	if out.Demand == nil {
		median := max(f.Outlook.Median, 0)
		out.Demand = &median
	}
	if rate := g.read(fleet.SignalRequestRate); rate.fresh() && rate.level > 0 && f.Outlook.Demand > 0 {
		cost := f.Outlook.Demand / rate.level
		out.Cost = &cost
	}
	return out
}

// hintFloor is the count that a hint asks for: expected demand, staffed like a service of which nothing is known.
func (g *deciding) hintFloor(h *Hint, base *HintBase) (floor int, numbers map[string]float64, ok bool) {
	numbers = map[string]float64{string(h.Kind): h.Amount}
	var rho float64
	switch {
	case h.Kind == HintReplicas:
		return int(min(h.Amount, maxReplicas)), numbers, true
	case g.policy.SLO == nil:
		return 0, numbers, false
	}
	switch h.Kind {
	case HintFactor:
		if base.Demand == nil {
			return 0, numbers, false
		}
		rho, numbers["before"] = h.Amount**base.Demand, *base.Demand
	case HintRate:
		if base.Cost == nil {
			return 0, numbers, false
		}
		rho, numbers["cost"] = h.Amount**base.Cost, *base.Cost
	default:
		return 0, numbers, false
	}
	if !finite(rho) {
		return 0, numbers, false
	}
	numbers["demand"] = rho
	return min(g.policy.SLO.staffed(rho), maxReplicas), numbers, true
}

// staffed is square-root staffing of a demand in replicas: 1.25 times it and 2.33 of its standard deviations, at nine tenths of what a replica can hold.
func (s *SLO) staffed(rho float64) int {
	return ceilCount((1.25*rho + 2.33*math.Sqrt(rho/s.RequestsPerReplica)) / 0.9)
}

// sortHints puts hints in the order in which they are looked at.
func sortHints(list []Hint) {
	slices.SortFunc(list, func(a, b Hint) int {
		if c := a.From.Compare(b.From); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// WithHints gives a binding the hints that may matter to a decision at now, in order.
func (b Binding) WithHints(all []Hint, now time.Time) Binding {
	b.Hints = nil
	for _, h := range all {
		if h.To.After(now) && h.From.Sub(now) <= maxStartSeconds*time.Second {
			b.Hints = append(b.Hints, h)
		}
	}
	sortHints(b.Hints)
	return b
}
