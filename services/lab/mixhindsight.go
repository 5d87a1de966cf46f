package lab

import (
	"io"
	"slices"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// MixFamily is a way to buy with the number that its operator sets.
type MixFamily struct {
	Name    string
	Means   string
	Targets []int // from careful to thrifty
	New     func(target int, t *Trace, cfg MixConfig) Buyer
}

// mixDemands are the demand policies that every way to buy is combined with: HPA at a use, and the quantile policy at a late target in
// hundredths of a per cent, calm (a cycle counts as on demand) or not (as in our own buyer).
func mixDemands() []struct {
	name, means string
	targets     []int
	make        func(target int, cfg MixConfig) Policy
} {
	late := []int{10, 30, 60, 75, 90, 110, 140}
	return []struct {
		name, means string
		targets     []int
		make        func(target int, cfg MixConfig) Policy
	}{
		{"hpa", "utilisation, %", []int{50, 60, 70, 80, 90}, func(v int, _ MixConfig) Policy { return newHPA(percent(v), 0) }},
		{"cq", "late target, 0.01 %", late, func(v int, cfg MixConfig) Policy {
			return NewCQ(quantile.Params{Late: float64(v) / 10_000}, cfg.ColdSlots())
		}},
		{"restless-cq", "late target, 0.01 %", late, func(v int, cfg MixConfig) Policy {
			return NewCQ(quantile.Params{Late: float64(v) / 10_000, Cycle: spotCycle}, cfg.ColdSlots())
		}},
	}
}

// MixFamilies are the ways to buy that hindsight tunes: on demand, half and half, Spot with fallback, and SpotHedge with 0 to 2 spare replicas, each
// under HPA and under our own demand policy; and SkyServe with its own count.
func MixFamilies() []MixFamily {
	out := []MixFamily{{Name: "skyserve+1", Means: "requests per replica, % of its capacity", Targets: []int{50, 60, 70, 80, 90, 100},
		New: func(v int, t *Trace, _ MixConfig) Buyer {
			return &spotHedge{demand: newSkyServe(percent(v), t), extra: 1}
		}}}
	buyers := []struct {
		name string
		make func(d Policy) Buyer
	}{
		{"on-demand", func(d Policy) Buyer { return &onDemandOnly{demand: d} }},
		{"half-and-half", func(d Policy) Buyer { return &spotFallback{demand: d, share: 0.5} }},
		{"spot-fallback", func(d Policy) Buyer { return &spotFallback{demand: d, share: 1} }},
		{"spothedge+0", func(d Policy) Buyer { return &spotHedge{demand: d} }},
		{"spothedge+1", func(d Policy) Buyer { return &spotHedge{demand: d, extra: 1} }},
		{"spothedge+2", func(d Policy) Buyer { return &spotHedge{demand: d, extra: 2} }},
	}
	for _, b := range buyers {
		for _, d := range mixDemands() {
			out = append(out, MixFamily{Name: b.name + " " + d.name, Means: d.means, Targets: d.targets,
				New: func(v int, _ *Trace, cfg MixConfig) Buyer { return b.make(d.make(v, cfg)) }})
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
		out := Tuned{Family: f.Name, Means: f.Means}
		for _, target := range slices.Backward(f.Targets) {
			out.Tried++
			cost, late, all, fine := 0.0, 0.0, 0.0, true
			for _, m := range markets {
				cfg := DefaultMix(t)
				s, done, err := runMixWhile(t, m, cfg, f.New(target, t, cfg), func(s *MixScore) bool {
					spent := cost + float64(s.Cost)/FullPrice/SlotsPerHour
					return late+s.Late <= allowed && (out.Target == 0 || spent < out.Paid)
				})
				if err != nil {
					return h, err
				}
				if !done {
					fine = false
					break
				}
				cost, late, all = cost+s.CostHours, late+s.Late, all+s.Requests
			}
			if fine {
				out.Target, out.Paid, out.Late = target, cost, part(late, all)
				out.Ratio = part(cost, b.Bound)
			}
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
		case (a.Target == 0) != (b.Target == 0):
			if a.Target == 0 {
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

// WriteMixHindsight prints the tables of hindsight in markets.
func WriteMixHindsight(w io.Writer, all []Hindsight) error {
	return writeTuned(w, all, "priced bound", "bought and counted", "each way to buy")
}
