package lab

import (
	"slices"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// MixFamily is a way to buy with the number that its operator sets.
type MixFamily struct {
	Name    string
	Means   string
	Own     bool  // it follows our own demand policy
	Targets []int // from careful to thrifty
	New     func(target int, t *Trace, cfg MixConfig) Buyer
}

// mixDemand is a demand policy that ways to buy are combined with.
type mixDemand struct {
	name, means string
	own         bool
	targets     []int
	make        func(target int, t *Trace, cfg MixConfig) Policy
}

// fieldDemands are those of the field that stand up on demand in hindsight (docs/replay-baselines.md), as families of the scoreboard.
var fieldDemands = map[string][]int{
	"hpa": {30, 40, 50, 60, 70, 80, 90}, "hpa+inflight": {30, 40, 50, 60, 70, 80, 90}, "keda-inflight": {30, 40, 50, 60, 70, 80, 90},
	"knative-kpa": {20, 30, 40, 50, 60, 70, 80}, "dynamo-sla": {30, 40, 50, 60, 65, 70, 75},
}

// mixDemands are those of the field, and the quantile policy at a late target in hundredths of a per cent, calm (a cycle counts as on demand) or not
// (as in our own buyer).
func mixDemands() []mixDemand {
	out := []mixDemand{}
	for _, f := range Families() {
		if targets := fieldDemands[f.Name]; targets != nil {
			out = append(out, mixDemand{f.Name, f.Means, false, targets, func(v int, t *Trace, cfg MixConfig) Policy {
				return f.New(v, t, Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max})
			}})
		}
	}
	late := []int{10, 30, 60, 75, 90, 110, 140}
	cq := func(cycle float64) func(v int, _ *Trace, cfg MixConfig) Policy {
		return func(v int, _ *Trace, cfg MixConfig) Policy {
			return NewCQ(quantile.Params{Late: float64(v) / 10_000, Cycle: cycle}, cfg.ColdSlots())
		}
	}
	return append(out, mixDemand{"cq", "late target, 0.01 %", true, late, cq(0)}, mixDemand{"restless-cq", "late target, 0.01 %", true, late, cq(spotCycle)})
}

// wayToBuy is a buyer that the field has.
type wayToBuy struct {
	name string
	make func(d Policy) Buyer
}

var (
	allOnDemand = wayToBuy{"on-demand", func(d Policy) Buyer { return &onDemandOnly{demand: d} }}
	spotWays    = []wayToBuy{
		{"spot-fallback", func(d Policy) Buyer { return &spotFallback{demand: d, share: 1} }},
		{"spothedge+0", func(d Policy) Buyer { return &spotHedge{demand: d} }},
		{"spothedge+1", func(d Policy) Buyer { return &spotHedge{demand: d, extra: 1} }},
		{"spothedge+2", func(d Policy) Buyer { return &spotHedge{demand: d, extra: 2} }},
	}
)

// MixFamilies are the ways to buy that hindsight tunes: Spot with fallback and SpotHedge with 0 to 2 spare replicas, each under the field's demand policies and
// under our own; on demand and half and half under HPA and our own; and SkyServe with its own count.
func MixFamilies() []MixFamily {
	out := []MixFamily{{Name: "skyserve+1", Means: "requests per replica, % of its capacity", Targets: []int{50, 60, 70, 80, 90, 100},
		New: func(v int, t *Trace, _ MixConfig) Buyer {
			return &spotHedge{demand: newSkyServe(percent(v), t), extra: 1}
		}}}
	half := wayToBuy{"half-and-half", func(d Policy) Buyer { return &spotFallback{demand: d, share: 0.5} }}
	for _, b := range append([]wayToBuy{allOnDemand, half}, spotWays...) {
		for _, d := range mixDemands() {
			if !d.own && d.name != "hpa" && (b.name == allOnDemand.name || b.name == half.name) {
				continue
			}
			out = append(out, MixFamily{Name: b.name + " " + d.name, Means: d.means, Own: d.own, Targets: d.targets,
				New: func(v int, t *Trace, cfg MixConfig) Buyer { return b.make(d.make(v, t, cfg)) }})
		}
	}
	return out
}

// TuneMixInHindsight finds for every way to buy the cheapest target that leaves no more requests late than ours does, over all windows of the board. A
// window that already costs more than the best so far, or is already later than ours in all, ends the try. stop is asked between families.
func TuneMixInHindsight(t *Trace, markets []*Market, b *MixBoard, families []MixFamily, stop func() bool) (Hindsight, error) {
	mine, ok := b.Row(PlimsollMix)
	if !ok {
		return Hindsight{}, fleet.Errorf(fleet.CodeInvalid, "the board of %s has no row of %s", t.Name, PlimsollMix)
	}
	h := Hindsight{Workload: t.Name + ", mixed", Policy: PlimsollMix, Paid: mine.Cost, Ratio: mine.Ratio, Late: mine.LateRate}
	requests := 0.0
	for s := t.From; s < t.To; s++ {
		requests += t.Requests[s]
	}
	allowed := (mine.LateRate + lateSlack) * requests * float64(len(markets))
	for _, f := range families {
		if stop() {
			break
		}
		out := Tuned{Family: f.Name, Means: f.Means, Own: f.Own}
		err := search(f.Targets, marketSteps, func(target int) (bool, error) {
			out.Tried++
			cost, late, all := 0.0, 0.0, 0.0
			for _, m := range markets {
				cfg := DefaultMix(t)
				s, done, err := runMixWhile(t, m, cfg, f.New(target, t, cfg), func(s *MixScore) bool {
					spent := cost + float64(s.Cost)/FullPrice/SlotsPerHour
					return late+s.Late <= allowed && (out.Target == 0 || spent < out.Paid)
				})
				if err != nil || !done {
					return false, err
				}
				cost, late, all = cost+s.CostHours, late+s.Late, all+s.Requests
			}
			out.Target, out.Paid, out.Late = target, cost, part(late, all)
			out.Ratio = part(cost, b.Bound)
			return true, nil
		})
		if err != nil {
			return h, err
		}
		if out.Target != 0 {
			out.Delta = mine.Cost/out.Paid - 1
		}
		h.Tuned = append(h.Tuned, out)
	}
	sortTuned(h.Tuned)
	return h, nil
}

// sortTuned puts the cheapest first, and those that are never punctual enough last.
func sortTuned(all []Tuned) {
	slices.SortStableFunc(all, func(a, b Tuned) int {
		switch {
		case a.Found() != b.Found():
			if !a.Found() {
				return 1
			}
			return -1
		case a.Paid < b.Paid:
			return -1
		case a.Paid > b.Paid:
			return 1
		}
		return 0
	})
}

// runMixWhile plays a buyer for as long as a condition holds that can only turn false once, asked every hour. It says whether it held to the end.
func runMixWhile(t *Trace, m *Market, cfg MixConfig, b Buyer, holds func(s *MixScore) bool) (MixScore, bool, error) {
	w, err := NewMixWorld(t, m, cfg, firstNeed(t, cfg.ColdSlots()))
	if err != nil {
		return MixScore{}, false, err
	}
	for !w.Over() {
		v := w.Advance()
		clear(w.target)
		b.Buy(v, w.target)
		w.Order(w.target)
		if v.Slot%SlotsPerHour == 0 {
			so := MixScore{Score: Score{Late: w.queue.score.Late}, Cost: w.score.Cost}
			if !holds(&so) {
				return MixScore{}, false, nil
			}
		}
	}
	s := w.Score()
	return s, holds(&s), nil
}
