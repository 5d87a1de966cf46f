package lab

// Score says how a policy fared over the judged span.
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

	phase       int // 0 nothing yet, 1 up seen, 2 up then down seen
	busy, ready float64
}

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
	s.Paid += float64(w.ready + w.pending)
	s.Demand += rho
	s.Requests += w.trace.Requests[w.slot]
	s.Over += max(0, ready-rho)
	s.Under += max(0, rho-ready)
	s.busy += busy
	s.ready += ready
	s.Most = max(s.Most, w.ready+w.pending)
}

// ordered counts directions, and completed up-down-up cycles.
func (s *Score) ordered(have, want int, judged bool) {
	if !judged || have == want {
		return
	}
	if want > have {
		s.Ups++
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

func (s Score) finished() Score {
	s.Over, s.Under, s.Use = part(s.Over, s.Demand), part(s.Under, s.Demand), part(s.busy, s.ready)
	s.Paid /= SlotsPerHour
	s.Demand /= SlotsPerHour
	return s
}

func part(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
