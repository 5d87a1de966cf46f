package lab

import "math"

// Observation is what a policy may see at the end of a slot: gauges of the slot that just passed, never the future.
type Observation struct {
	Slot     int     // index of the slot that just passed
	Ready    int     // replicas that served in it
	Starting int     // ordered, not ready yet
	Rate     float64 // requests per second that arrived
	Running  float64 // requests in service, mean over the slot
	Queue    float64 // requests waiting at its end
	Busy     float64 // replicas in use, mean over the slot
	// Demand in replica units: running and waiting requests times the share of a replica each needs.
	Demand float64
}

// Replicas asked for so far.
func (o *Observation) Replicas() int { return o.Ready + o.Starting }

// Policy decides on a replica count once per slot. It may keep state; a fresh one is made for every run.
type Policy interface {
	Step(o *Observation) int
}

// Config of a run.
type Config struct {
	ColdSlots int // slots from the order to the first slot served; the starting replica is paid for
	Min, Max  int // bounds of the replica count
}

// DefaultConfig is that of the scoreboard: 180 s cold start, at least one replica, at most twice the peak of the whole trace, as an
// operator would cap it.
func DefaultConfig(t *Trace) Config {
	return Config{ColdSlots: 180 / SlotSeconds, Min: 1, Max: max(2*int(math.Ceil(t.Span(0, t.Slots()).Peak())), 4)}
}

// World is one service in its replicas: a first-come queue whose work is the demand of the trace. With N replicas ready, at most
// N replica-seconds of work are done per second; what is not done delays everything behind it, and a request is late when its
// work starts more than LateSeconds after it would have without any queue.
type World struct {
	cfg   Config
	trace *Trace

	slot     int
	ready    int
	starting []int // ring: replicas that become ready at slot s stand at s mod len
	pending  int
	backlog  float64 // replica-seconds undone at the start of the slot

	done, head float64 // cumulative demand before slot oldest, and at the start of slot
	oldest     int     // first slot with work that has not begun
	waiting    float64 // requests of the slots from oldest on

	recent [ring]slotState
	score  Score
}

const ring = 1 + TimeoutSeconds/SlotSeconds

// slotState is what judging the requests of a slot needs, up to a minute later.
type slotState struct {
	rho, backlog, ready, requests float64
	judged                        bool
}

// NewWorld starts with initial replicas ready.
func NewWorld(t *Trace, cfg Config, initial int) *World {
	return &World{cfg: cfg, trace: t, ready: max(initial, cfg.Min), starting: make([]int, cfg.ColdSlots+1)}
}

// Run plays a policy over the whole trace and judges it over the trace's span. The world starts with what the first slots need, which no
// order could have had ready.
func Run(t *Trace, cfg Config, p Policy) Score {
	w := newRun(t, cfg)
	for !w.Over() {
		o := w.Advance()
		want := p.Step(&o)
		w.score.holding(p, want, cfg, o.Slot >= t.From && o.Slot < t.To)
		w.Order(want)
	}
	return w.Score()
}

func newRun(t *Trace, cfg Config) *World {
	first := 0.0
	for _, rho := range t.Rho[:min(cfg.ColdSlots+1, t.Slots())] {
		first = max(first, rho)
	}
	return NewWorld(t, cfg, min(int(math.Ceil(first)), cfg.Max))
}

// Over says that the trace has ended.
func (w *World) Over() bool { return w.slot >= w.trace.Slots() }

// Advance plays one slot and says what could be seen of it.
func (w *World) Advance() Observation {
	s := w.slot
	if n := &w.starting[s%len(w.starting)]; *n > 0 {
		w.ready += *n
		w.pending -= *n
		*n = 0
	}
	rho, requests, ready := w.trace.Rho[s], w.trace.Requests[s], float64(w.ready)
	judged := s >= w.trace.From && s < w.trace.To
	w.recent[s%ring] = slotState{rho, w.backlog, ready, requests, judged}
	w.judge(s)
	end := max(0, w.backlog+(rho-ready)*SlotSeconds)
	busy := max(0, rho+(w.backlog-end)/SlotSeconds)
	w.backlog = end
	w.head += rho * SlotSeconds
	w.waiting += requests
	queue := w.queue(s)
	w.score.note(w, rho, judged)
	if judged {
		w.score.add(w, rho, busy)
	}
	w.slot++
	share := w.trace.Share
	return Observation{Slot: s, Ready: w.ready, Starting: w.pending, Rate: requests / SlotSeconds,
		Running: busy / share, Queue: queue, Busy: busy, Demand: busy + queue*share}
}

// queue counts the requests whose work has not begun: those of the demand beyond what is done.
func (w *World) queue(s int) float64 {
	if w.backlog <= 1e-9 {
		w.done, w.oldest, w.waiting = w.head, s+1, 0
		return 0
	}
	begun := w.head - w.backlog
	for w.oldest <= s && w.done+w.trace.Rho[w.oldest]*SlotSeconds <= begun {
		w.done += w.trace.Rho[w.oldest] * SlotSeconds
		w.waiting -= w.trace.Requests[w.oldest]
		w.oldest++
	}
	if w.oldest > s {
		return 0
	}
	part := (begun - w.done) / (w.trace.Rho[w.oldest] * SlotSeconds)
	return max(0, w.waiting-part*w.trace.Requests[w.oldest])
}

// judge settles how many requests of the previous slot were late, now that this slot's capacity is known, and how many of four slots ago timed out.
func (w *World) judge(s int) {
	now := &w.recent[s%ring]
	if s >= 1 {
		if p := &w.recent[(s-1)%ring]; p.judged && (now.backlog > 0 || p.backlog > 0) {
			w.score.Late += p.requests * p.lateShare(now)
		}
	}
	if s >= ring-1 {
		if p := &w.recent[(s+1)%ring]; p.judged && now.backlog > 0 {
			w.score.TimedOut += p.requests * now.overdueShare(p, w.between(s))
		}
	}
}

// lateShare is the share of the slot's arrivals whose work starts over LateSeconds after them. Arrival times run evenly over the slot, and
// both the demand and the work done are straight lines within a slot, so each part is the length of an interval.
func (p *slotState) lateShare(next *slotState) float64 {
	const early = SlotSeconds - LateSeconds
	// Arrivals at t <= early are due in this slot: late when the work done by t + LateSeconds is under their place, rho t.
	late := positive(p.backlog-p.ready*LateSeconds, p.rho-p.ready, 0, early)
	// The others are due in the next one.
	late += positive(next.backlog-p.rho*SlotSeconds+next.ready*early, p.rho-next.ready, early, SlotSeconds)
	return late / SlotSeconds
}

// overdueShare is the same for the slot due, TimeoutSeconds ago, whose arrivals are due at the same moment of this one; between is the
// demand from the start of that slot to the start of this one.
func (p *slotState) overdueShare(due *slotState, between float64) float64 {
	return positive(p.backlog-between, due.rho-p.ready, 0, SlotSeconds) / SlotSeconds
}

func (w *World) between(s int) float64 {
	sum := 0.0
	for i := s - ring + 1; i < s; i++ {
		sum += w.recent[(i+ring)%ring].rho * SlotSeconds
	}
	return sum
}

// positive is how much of [from, to] has a + b t > 0.
func positive(a, b, from, to float64) float64 {
	if b == 0 {
		if a > 1e-9 {
			return to - from
		}
		return 0
	}
	root := -a / b
	if b > 0 {
		return to - min(max(root, from), to)
	}
	return min(max(root, from), to) - from
}

// Order takes the count a policy wants from the next slot on. What is new becomes ready after the cold start; what is too much ends at
// once, those not ready yet first and of them the youngest.
func (w *World) Order(want int) {
	want = min(max(want, w.cfg.Min), w.cfg.Max)
	have := w.ready + w.pending
	w.score.ordered(have, want, w.slot > w.trace.From && w.slot <= w.trace.To)
	if want > have {
		n := want - have
		w.starting[(w.slot+w.cfg.ColdSlots)%len(w.starting)] += n
		w.pending += n
		return
	}
	for i := w.cfg.ColdSlots; i >= 0 && have > want && w.pending > 0; i-- {
		n := &w.starting[(w.slot+i)%len(w.starting)]
		cut := min(*n, have-want)
		*n -= cut
		w.pending -= cut
		have -= cut
	}
	w.ready -= have - want
}

// Score is the scorecard so far.
func (w *World) Score() Score { return w.score.finished() }
