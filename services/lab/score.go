package lab

// Score says how a policy fared over the judged span. What a policy or a load does not tell is left out of JSON, never 0.
type Score struct {
	Slots    int     `json:"slots"`
	Paid     float64 `json:"paid_replica_hours"` // starting ones included
	Demand   float64 `json:"demand_replica_hours"`
	Requests float64 `json:"requests"`
	Late     float64 `json:"late"`
	TimedOut float64 `json:"timed_out"`
	Over     float64 `json:"over_provision_ratio"`  // integral of max(0, supply - demand) over that of demand; supply = ready
	Under    float64 `json:"under_provision_ratio"` // integral of max(0, demand - supply) over that of demand
	Use      float64 `json:"utilisation"`           // busy over ready
	Cycles   int     `json:"cycles"`                // completed up-down-up
	Ups      int     `json:"ups"`
	Downs    int     `json:"downs"`
	Most     int     `json:"most_replicas"`
	Launches int     `json:"launches"`        // replicas ordered
	Failed   int     `json:"failed_launches"` // of them refused for lack of stock; 0 where there is no market
	// Wait is the time from a request's arrival to the start of its work, TTFT that and its prefill; left out when the load's prefill is not known.
	Wait Percentiles  `json:"wait_seconds"`
	TTFT *Percentiles `json:"ttft_seconds,omitempty"`
	// Scale is how long the demand had to wait for replicas.
	Scale ScaleLatency `json:"scale_latency"`
	// HeldIdle is what only a hold, cooldown or stabilisation keeps, beyond what the policy's own signals ask for, in replica-hours; left out for
	// a policy that does not tell its need.
	HeldIdle *float64 `json:"cooldown_idle_replica_hours,omitempty"`

	phase       int // 0 nothing yet, 1 up seen, 2 up then down seen
	busy, ready float64
	paidSlots   int64
	follow      *following
}

// following is what is kept while a run lasts.
type following struct {
	waits     waits
	crossings crossings
	held      float64 // replica-slots
	asked     bool    // the policy tells its need
	prefill   []float64
	next      int // slot
}

// Needing is a policy that tells what its signals alone ask for, before anything holds the count.
type Needing interface{ Needed() int }

// LateRatio is the share of requests that waited over LateSeconds.
func (s *Score) LateRatio() float64 { return part(s.Late, s.Requests) }

// TimeoutRatio is the share of requests that waited over TimeoutSeconds.
func (s *Score) TimeoutRatio() float64 { return part(s.TimedOut, s.Requests) }

// Thrash is completed up-down-up cycles per hour.
func (s *Score) Thrash() float64 { return part(float64(s.Cycles*SlotsPerHour), float64(s.Slots)) }

// add notes one slot. Integrals are kept as replica-slots and divided at the end.
func (s *Score) add(w *World, rho, busy float64) {
	ready := float64(w.ready)
	s.Slots++
	s.paidSlots += int64(w.ready + w.pending)
	s.Paid += float64(w.ready + w.pending)
	s.Demand += rho
	s.Requests += w.trace.Requests[w.slot]
	s.Over += max(0, ready-rho)
	s.Under += max(0, rho-ready)
	s.busy += busy
	s.ready += ready
	s.Most = max(s.Most, w.ready+w.pending)
}

// note follows the requests of a slot, judged or not: who came before the span may stand before those in it.
func (s *Score) note(w *World, rho float64, judged bool) {
	f := s.follow
	if f == nil {
		f = &following{crossings: crossings{from: -1}, prefill: w.trace.Prefill}
		s.follow = f
	}
	requests := 0.0
	if judged {
		requests = w.trace.Requests[w.slot]
	}
	f.next = w.slot + 1
	f.waits.slot(w.slot, rho, float64(w.ready), requests)
	if judged {
		f.crossings.slot(w.slot, rho, float64(w.ready), float64(w.ready+w.pending))
	}
}

// holding notes what a policy keeps beyond its own need.
func (s *Score) holding(p Policy, want int, cfg Config, judged bool) {
	n, ok := p.(Needing)
	if !ok || s.follow == nil {
		return
	}
	s.follow.asked = true
	if judged {
		within := func(v int) int { return min(max(v, cfg.Min), cfg.Max) }
		s.follow.held += float64(max(0, within(want)-within(n.Needed())))
	}
}

// ordered counts directions, and completed up-down-up cycles.
func (s *Score) ordered(have, want int, judged bool) {
	if !judged || have == want {
		return
	}
	if want > have {
		s.Ups++
		s.Launches += want - have
		if s.phase == 2 {
			s.Cycles++
		}
		s.phase = 1
		return
	}
	s.Downs++
	if s.phase == 1 {
		s.phase = 2
	}
}

// finished is the scorecard; the run may go on.
func (s Score) finished() Score {
	s.Over, s.Under, s.Use = part(s.Over, s.Demand), part(s.Under, s.Demand), part(s.busy, s.ready)
	s.Paid /= SlotsPerHour
	s.Demand /= SlotsPerHour
	if f := s.follow; f != nil {
		w := f.waits
		w.rest(f.next)
		s.Wait = w.of.percentiles()
		if len(f.prefill) > 0 {
			t := w.of.after(f.prefill).percentiles()
			s.TTFT = &t
		}
		s.Scale = f.crossings.latency()
		if f.asked {
			held := f.held / SlotsPerHour
			s.HeldIdle = &held
		}
		s.follow = nil
	}
	return s
}

func part(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
