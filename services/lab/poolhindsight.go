package lab

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

// PoolFamily is a way to run several services from one fleet, with the number that its operator sets. None of the field's policies shares a fleet between
// services: each is given our sharing (swaps, moves for need) beside its own demand policy and its own way to buy.
type PoolFamily struct {
	Name    string
	Means   string
	Own     bool // it follows our own demand policy
	Targets []int
	New     func(target int, services []*Trace, all *Trace, cfg MixConfig) PooledBuyer
}

// poolWays are how the fleet is sized: by the sum of what each service's own policy asks for, by a tenth less, with the rise of eight days held as in our own
// insured pool, or by one policy on the sum of the demands while each service has the most of its last five minutes.
var poolWays = []struct {
	name  string
	cfg   PoolConfig
	whole bool
}{
	{"each", PoolConfig{Part: 1}, false},
	{"each, nine tenths", PoolConfig{Part: 0.9}, false},
	{"each, insured", poolConfig, false},
	{"the sum", PoolConfig{Part: 1}, true},
}

// least holds one replica: for services that are sized by what they use.
type least struct{}

// Step says one.
func (least) Step(*Observation) int { return 1 }

// PoolFamilies are the ways to run a pool that hindsight tunes, on demand or in markets with Spot.
func PoolFamilies(spot bool) []PoolFamily {
	buyers := []wayToBuy{allOnDemand}
	if spot {
		buyers = spotWays
	}
	out := []PoolFamily{}
	for _, b := range buyers {
		for _, d := range mixDemands() {
			if d.own && (d.name == "restless-cq") != spot {
				continue
			}
			for _, way := range poolWays {
				out = append(out, PoolFamily{Name: "pooled " + b.name + " " + d.name + ", " + way.name, Means: d.means, Own: d.own, Targets: d.targets,
					New: func(v int, services []*Trace, all *Trace, cfg MixConfig) PooledBuyer {
						each := make([]Policy, len(services))
						for k, t := range services {
							if each[k] = (least{}); !way.whole {
								each[k] = d.make(v, t, cfg)
							}
						}
						p := poolOf(way.cfg, each, b.make)
						if way.whole {
							p.whole = d.make(v, all, cfg)
						}
						return p
					}})
			}
		}
	}
	return out
}

// poolDearest is how much dearer than the best so far a way may get before it is given up: those that are as punctual only beyond it are not told apart from
// those that never are.
const poolDearest = 1.25

// TunePoolInHindsight finds, for our own way on the board that is named, the cheapest that the others could have done with knowledge of the judged spans and no
// more requests late in all: services that are alone, each with the family and target that make the sum cheapest, and one fleet for all. alone and shared are
// the markets of ScorePool; on demand, both are left out. stop is asked between families.
func TunePoolInHindsight(services []*Trace, alone, shared []*Market, b *PoolBoard, row string, families []PoolFamily, siloed []MixFamily, stop func() bool) (Hindsight, error) {
	mine, ok := b.Row(row)
	if !ok {
		return Hindsight{}, fleet.Errorf(fleet.CodeInvalid, "the board of %s has no row of %s", strings.Join(b.Services, ", "), row)
	}
	times := 1.0
	if len(shared) == 0 { // the same in every window
		times = float64(len(b.Markets))
		shared = []*Market{{Name: "on demand", Pools: []Pool{OnDemand(services[0].Slots())}}}
		alone = shared
	}
	p := poolTuning{times: times, allowed: mine.late/times + lateSlack*mine.all, bound: b.Bound, best: map[bool]float64{}, stop: stop}
	h := Hindsight{Workload: strings.Join(b.Services, " + ") + ", " + row, Policy: row, Paid: mine.Cost, Ratio: mine.Ratio, Late: mine.LateRate}
	for _, own := range []bool{false, true} {
		t, err := p.silos(services, alone, siloed, own)
		if err != nil {
			return h, err
		}
		if t.Tried > 0 {
			h.Tuned = append(h.Tuned, t)
		}
	}
	all, err := Summed("sum", services)
	if err != nil {
		return h, err
	}
	for i := range families {
		if stop() {
			break
		}
		t, err := p.pooled(services, all, shared, &families[i])
		if err != nil {
			return h, err
		}
		h.Tuned = append(h.Tuned, t)
	}
	for i := range h.Tuned {
		if t := &h.Tuned[i]; t.Found() {
			t.Delta = mine.Cost/t.Paid - 1
		}
	}
	sortTuned(h.Tuned)
	return h, nil
}

// poolTuning is a search: what may be late in all, how often its windows count, and the cheapest so far.
type poolTuning struct {
	times, allowed, bound float64
	best                  map[bool]float64 // on-demand hours, of what follows our demand policy and of the field's; absent: none yet
	stop                  func() bool
}

// take notes what a setting costs.
func (p *poolTuning) take(t *Tuned, cost, late, requests float64) {
	t.Paid, t.Late = cost*p.times, part(late, requests)
	t.Ratio = part(t.Paid, p.bound)
	if best, ok := p.best[t.Own]; !ok || cost < best {
		p.best[t.Own] = cost
	}
}

func (p *poolTuning) pooled(services []*Trace, all *Trace, shared []*Market, f *PoolFamily) (Tuned, error) {
	out := Tuned{Family: f.Name, Means: f.Means, Own: f.Own}
	cfg := DefaultMix(all)
	err := search(f.Targets, marketSteps, func(target int) (bool, error) {
		out.Tried++
		cost, late, requests := 0.0, 0.0, 0.0
		for _, m := range shared {
			s, done, err := runPooledWhile(services, m, cfg, f.New(target, services, all, cfg), func(gone, spent float64) bool {
				spent += cost
				best, ok := p.best[f.Own]
				return late+gone <= p.allowed && (!ok || spent < poolDearest*best) && (out.Target == 0 || spent*p.times < out.Paid)
			})
			if err != nil || !done {
				return false, err
			}
			cost, late, requests = cost+s.CostHours, late+s.Late, requests+s.Requests
		}
		out.Target = target
		p.take(&out, cost, late, requests)
		return true, nil
	})
	return out, err
}

// choice is one setting of a service that is alone, or of several.
type choice struct {
	cost, late, requests float64
	parts                []TunedPart
}

// silos is the cheapest of all combinations of settings, one per service, that are late in all no more than is allowed: the lateness may be spent where it
// saves most.
func (p *poolTuning) silos(services []*Trace, markets []*Market, families []MixFamily, own bool) (Tuned, error) {
	out := Tuned{Family: "alone", Means: "targets of the services", Own: own}
	if own {
		out.Family = "alone, our demand"
	}
	sums := []choice{{}}
	for _, t := range services {
		front := []choice{}
		for i := range families {
			f := &families[i]
			if f.Own && !own || p.stop() {
				continue
			}
			if own && !f.Own {
				continue // with our own demand policy every service follows it: it is the cheaper one by far
			}
			for _, target := range slices.Backward(f.Targets) {
				out.Tried++
				c, ok, err := p.alone(t, markets, f, target, front)
				if err != nil {
					return out, err
				}
				if ok {
					front = pareto(append(front, c))
				}
			}
		}
		next := []choice{}
		for _, a := range sums {
			for _, c := range front {
				if a.late+c.late <= p.allowed {
					next = append(next, choice{a.cost + c.cost, a.late + c.late, a.requests + c.requests, append(slices.Clone(a.parts), c.parts...)})
				}
			}
		}
		sums = pareto(next)
	}
	if len(sums) > 0 && len(sums[0].parts) == len(services) {
		out.Parts = sums[0].parts
		p.take(&out, sums[0].cost, sums[0].late, sums[0].requests)
	}
	return out, nil
}

// alone plays one setting of a service in its markets; one that is dearer and later than another is given up.
func (p *poolTuning) alone(t *Trace, markets []*Market, f *MixFamily, target int, front []choice) (choice, bool, error) {
	out := choice{parts: []TunedPart{{t.Name, f.Name, target}}}
	for _, m := range markets {
		cfg := DefaultMix(t)
		s, done, err := runMixWhile(t, m, cfg, f.New(target, t, cfg), func(s *MixScore) bool {
			cost, late := out.cost+float64(s.Cost)/FullPrice/SlotsPerHour, out.late+s.Late
			return late <= p.allowed && !slices.ContainsFunc(front, func(c choice) bool { return c.cost <= cost && c.late <= late })
		})
		if err != nil || !done {
			return out, false, err
		}
		out.cost, out.late, out.requests = out.cost+s.CostHours, out.late+s.Late, out.requests+s.Requests
	}
	return out, true, nil
}

// pareto keeps what no other is both cheaper and more punctual than, cheapest first.
func pareto(all []choice) []choice {
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.late, b.late)) })
	out := all[:0]
	for _, c := range all {
		if len(out) == 0 || c.late < out[len(out)-1].late {
			out = append(out, c)
		}
	}
	return out
}

// runPooledWhile plays a pool for as long as a condition on late requests and cost in on-demand hours holds that can only turn false once, asked every hour. It
// says whether it held to the end.
func runPooledWhile(services []*Trace, m *Market, cfg MixConfig, b PooledBuyer, holds func(late, cost float64) bool) (MixScore, bool, error) {
	w, err := NewPooledWorld(services, m, cfg)
	if err != nil {
		return MixScore{}, false, err
	}
	for !w.Over() {
		v := w.Advance()
		clear(w.target)
		clear(w.assign)
		b.Buy(v, w.target, w.assign)
		w.Order(w.target, w.assign)
		if v.Slot%SlotsPerHour == 0 {
			late := 0.0
			for _, q := range w.queues {
				late += q.score.Late
			}
			if !holds(late, float64(w.score.Cost)/FullPrice/SlotsPerHour) {
				return MixScore{}, false, nil
			}
		}
	}
	s, _ := w.Score()
	return s, holds(s.Late, s.CostHours), nil
}

// OnDemandFamilies are all families of the scoreboard, bought on demand.
func OnDemandFamilies() []MixFamily {
	out := []MixFamily{}
	for _, f := range Families() {
		out = append(out, MixFamily{Name: f.Name, Means: f.Means, Targets: f.Targets, New: func(v int, t *Trace, cfg MixConfig) Buyer {
			return &onDemandOnly{demand: f.New(v, t, Config{ColdSlots: cfg.ColdSlots(), Min: 1, Max: cfg.Max})}
		}})
	}
	for _, d := range mixDemands() {
		if d.own {
			out = append(out, MixFamily{Name: d.name, Means: d.means, Own: true, Targets: d.targets, New: func(v int, t *Trace, cfg MixConfig) Buyer {
				return &onDemandOnly{demand: d.make(v, t, cfg)}
			}})
		}
	}
	return out
}

// writePooled prints the tables of hindsight for several services.
func writePooled(w io.Writer, all []Hindsight) error {
	if len(all) == 0 {
		return nil
	}
	if err := writeTuned(w, all, "pooled bound", "services alone, or one fleet", "everything else"); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nOne fleet: as punctual only for over %.0f %% more than the best of its kind counts as none as punctual here.\n", 100*(poolDearest-1))
	return err
}
