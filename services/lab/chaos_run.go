package lab

import (
	"math"

	"plimsoll.dev/services/optimizer"
)

// chaosRun is one run of a policy through a fault, and what it is judged by.
type chaosRun struct {
	fault *fault
	world *chaosWorld
	cfg   Config

	above, darkDowns, differing, unsound int
	recomputed                           int
	orders                               []int // asked for, by slot
	score                                Score
	peakRate                             float64 // requests per second, the highest of the judged span
	backAt                               int     // slots after the fault began until nobody waited for five minutes on end
	calm                                 int     // slots in a row in which nobody waited for long
}

// note follows the queue: whoever comes waits for as long as the ready replicas need for what is queued.
func (r *chaosRun) note(o *Observation) {
	if o.Slot < chaosFault {
		return
	}
	r.peakRate = max(r.peakRate, o.Rate)
	waits := o.Queue > 0 && (o.Ready == 0 || o.Queue/chaosBatch*chaosLength/float64(o.Ready) > LateSeconds)
	switch {
	case waits && r.calm < minutes(5):
		r.calm, r.backAt = 0, o.Slot+1-chaosFault
	case !waits:
		r.calm++
	}
}

// chaosWorld is a World that loses replicas, runs out of stock and starts slowly.
type chaosWorld struct {
	*World
	fault *fault
	stuck int // asked for, no machine can be had
}

func newChaosWorld(t *Trace, cfg Config, f *fault) *chaosWorld {
	w := &chaosWorld{World: newRun(t, cfg), fault: f}
	w.starting = make([]int, 4*cfg.ColdSlots+1) // a slow start is up to four times as long
	return w
}

func (w *chaosWorld) cold(slot int) int {
	if w.fault.cold != nil {
		if n := w.fault.cold(slot); n > 0 {
			return min(n, 4*w.cfg.ColdSlots)
		}
	}
	return w.cfg.ColdSlots
}

func (w *chaosWorld) stock(slot int) bool { return w.fault.stock == nil || w.fault.stock(slot) }

// launch asks for n machines from the given slot on.
func (w *chaosWorld) launch(slot, n int) {
	w.pending += n
	if !w.stock(slot) {
		w.stuck += n
		return
	}
	w.starting[(slot+w.cold(slot))%len(w.starting)] += n
}

// begin plays the faults of the slot that comes next. What is lost is started anew by the cluster: the count asked for stands.
func (w *chaosWorld) begin() {
	s := w.slot
	if w.stuck > 0 && w.stock(s) {
		n := w.stuck
		w.stuck, w.pending = 0, w.pending-n
		w.launch(s, n)
	}
	if w.fault.lose != nil {
		if n := min(max(w.fault.lose(s, w.ready), 0), w.ready); n > 0 {
			w.ready -= n
			w.launch(s, n)
		}
	}
}

// order is Order for this world.
func (w *chaosWorld) order(want int) {
	want = min(max(want, w.cfg.Min), w.cfg.Max)
	have := w.ready + w.pending
	w.score.ordered(have, want, w.slot > w.trace.From && w.slot <= w.trace.To)
	if want > have {
		w.launch(w.slot, want-have)
		return
	}
	cut := have - want
	n := min(w.stuck, cut)
	w.stuck, w.pending, cut = w.stuck-n, w.pending-n, cut-n
	for i := len(w.starting) - 1; i >= 0 && cut > 0; i-- {
		at := &w.starting[(w.slot+i)%len(w.starting)]
		n := min(*at, cut)
		*at, w.pending, cut = *at-n, w.pending-n, cut-n
	}
	w.ready -= cut
}

// recomputeEvery is how often a decision that changes nothing is computed again; those that change something all are.
const recomputeEvery = 37

func playChaos(f *fault, p ChaosPolicy) (*chaosRun, error) {
	t := chaosTrace(f)
	if err := t.Check(); err != nil {
		return nil, err
	}
	cfg := Config{ColdSlots: 180 / SlotSeconds, Min: 1, Max: chaosMax}
	if f.max > 0 {
		cfg.Max = f.max
	}
	r := &chaosRun{fault: f, cfg: cfg, world: newChaosWorld(t, cfg, f), orders: make([]int, 0, chaosSlots)}
	step, err := r.stepper(p)
	if err != nil {
		return nil, err
	}
	for !r.world.Over() {
		r.world.begin()
		o := r.world.Advance()
		r.note(&o)
		want := o.Replicas()
		if f.silent == nil || !f.silent(o.Slot) {
			want = step(&o)
		}
		if want > cfg.Max {
			r.above++
		}
		if want < o.Replicas() && f.dark != nil && f.dark(o.Slot) {
			r.darkDowns++
		}
		r.orders = append(r.orders, want)
		r.world.order(want)
	}
	r.score = r.world.Score()
	return r, nil
}

// stepper is the policy. The lab's own knows of no lost signals: for it a dark slot is passed over and the count held, as its caller in
// production does.
func (r *chaosRun) stepper(p ChaosPolicy) (func(o *Observation) int, error) {
	f := r.fault
	if p.document == nil {
		c, cfg := p.lab(r.cfg), r.cfg
		return func(o *Observation) int {
			if f.start != nil {
				if cold := f.start(o.Slot) / SlotSeconds; cold != cfg.ColdSlots { // learned for another start: it begins anew
					cfg.ColdSlots = cold
					c = p.lab(cfg)
				}
			}
			if f.dark != nil && f.dark(o.Slot) {
				c.Skip(1)
				return o.Replicas()
			}
			return min(c.Step(o), r.cfg.Max) // its caller bounds it
		}, nil
	}
	doc := *p.document
	doc.Max = r.cfg.Max
	d, err := NewPlanner(doc, "")
	if err != nil {
		return nil, err
	}
	d.Deliver, d.Prepare = f.deliver, f.prepare
	if f.start != nil {
		d.Measured = f.start
	}
	d.Judge = func(slot int, in *optimizer.Input, plan *optimizer.Plan) error {
		if got := plan.Decisions[0]; slot >= chaosFault && (got.Target != got.From || slot%recomputeEvery == 0) {
			r.recomputed++
			if Recomputes(in, plan) != nil {
				r.differing++
			}
		}
		return nil
	}
	return func(o *Observation) int {
		d.err = nil
		want := d.Step(o)
		if d.err != nil {
			r.unsound++
		}
		return want
	}, nil
}

func (r *chaosRun) result(scenario, policy string) ChaosResult {
	return ChaosResult{Scenario: scenario, Policy: policy, Pass: true, Checks: []ChaosCheck{}, Late: r.score.LateRatio(), LateFor: r.lateFor(),
		Most: r.score.Most, Decisions: r.recomputed, Paid: r.score.Paid}
}

// lateFor is the late requests as seconds of arrivals at the highest rate of the judged span.
func (r *chaosRun) lateFor() float64 { return part(r.score.Late, r.peakRate) }

// recovered is how long people waited, in seconds from the beginning of the fault to the five minutes in which nobody did.
func (r *chaosRun) recovered() float64 { return float64(r.backAt * SlotSeconds) }

// lowest count asked for in the slots from a on, up to b.
func (r *chaosRun) lowest(a, b int) float64 {
	low := math.MaxInt
	for _, n := range r.orders[a:b] {
		low = min(low, n)
	}
	return float64(low)
}

// drop is the largest fall of the count from one slot to the next in the span, over the count before.
func (r *chaosRun) drop(a, b int) float64 {
	worst := 0.0
	for s := a; s < b; s++ {
		worst = max(worst, part(float64(r.orders[s-1]-r.orders[s]), float64(r.orders[s-1])))
	}
	return worst
}
