package lab

import "math"

// Hedged sizes a service whose replicas the cloud takes back. The quantile policy judges its shadows as if every replica that was ordered were there; in
// a market some are not. Hedged keeps shadows of its own, one for each of some demand policies and each of some margins on top, takes from every one of them the
// same share that the real fleet is missing, and lets the cheapest that would have been on time take over once an hour. So lateness of demand and of
// interruptions come out of one budget, and a market that is quiet costs no insurance.
type Hedged struct {
	cfg     HedgeConfig
	demand  []Policy
	wants   []int
	shadows []hedgeShadow
	chief   int
	load    arriving
	ideal   leastOf // of what was asked for: what would serve if nothing were lost
	all     float64 // requests, decayed
	hours   float64
}

// HedgeConfig has what a person may set.
type HedgeConfig struct {
	Late     float64   // share of late requests that a bad week may have
	HalfLife float64   // days after which experience counts half
	Margins  []float64 // shares of the demand on top
	Prior    float64   // hours of experience that the first guess counts
	Believe  float64   // the first guess: share of late requests without a margin; half of it for every 8 % of margin
}

// DefaultHedge is the default.
func DefaultHedge() HedgeConfig {
	return HedgeConfig{Late: 0.012, HalfLife: 6, Margins: []float64{0, 0.04, 0.08, 0.12, 0.18, 0.25, 0.35, 0.5}, Prior: 24, Believe: 0.004}
}

type hedgeShadow struct {
	demand            int
	margin            float64
	want              int
	ideal             leastOf
	backlog           float64
	late, paid, prior float64
}

// NewHedged makes the policy from demand policies; cold is the start in slots.
func NewHedged(cfg HedgeConfig, cold int, demand ...Policy) *Hedged {
	h := &Hedged{cfg: cfg, demand: demand, wants: make([]int, len(demand)), ideal: newLeastOf(cold + 1)}
	for d := range demand {
		for _, m := range cfg.Margins {
			h.shadows = append(h.shadows, hedgeShadow{demand: d, margin: m, ideal: newLeastOf(cold + 1), prior: cfg.Believe * math.Exp2(-m/0.08)})
			if d == 0 && m <= 0.08 {
				h.chief = len(h.shadows) - 1
			}
		}
	}
	return h
}

// Step decides for one slot.
func (h *Hedged) Step(o *Observation) int {
	demand := h.load.step(o)
	for d, p := range h.demand {
		h.wants[d] = p.Step(o)
	}
	there := 1.0
	if ideal := h.ideal.top(); ideal > 0 && o.Ready < ideal {
		there = float64(o.Ready) / float64(ideal)
	}
	requests := o.Rate * SlotSeconds
	h.all += requests
	for i := range h.shadows {
		s := &h.shadows[i]
		s.step(o.Slot, h.wants[s.demand], demand, requests, there)
	}
	if (o.Slot+1)%SlotsPerHour == 0 {
		h.hourly()
	}
	want := h.shadows[h.chief].want
	h.ideal.add(o.Slot, want)
	return want
}

func (s *hedgeShadow) step(slot, want int, demand, requests, there float64) {
	if ideal := s.ideal.top(); ideal > 0 {
		ready := there * float64(ideal)
		before := s.backlog
		s.backlog = max(0, before+(demand-ready)*SlotSeconds)
		if s.backlog > 0 || before > 0 {
			s.late += requests * lineAbove(before, s.backlog, ready*LateSeconds)
		}
	}
	if s.backlog > demand*LateSeconds { // as the demand policies do with a real queue
		want = max(want, int(math.Ceil(1.05*demand+s.backlog/90)))
	}
	s.want = int(math.Ceil(float64(want)*(1+s.margin) - 1e-9))
	s.paid += float64(s.want)
	s.ideal.add(slot, s.want)
}

func (h *Hedged) hourly() {
	h.hours++
	keep := math.Exp2(-1 / (24 * h.cfg.HalfLife))
	seen := (1 - math.Pow(keep, h.hours)) / (1 - keep) // hours that the sums are worth
	believed := h.all / seen * h.cfg.Prior * math.Pow(keep, h.hours)
	best, least := -1, 0
	for i := range h.shadows {
		s := &h.shadows[i]
		if s.late < h.shadows[least].late {
			least = i
		}
		if s.late+believed*s.prior <= h.cfg.Late*(h.all+believed) && (best < 0 || s.paid < h.shadows[best].paid) {
			best = i
		}
	}
	if best < 0 {
		best = least
	}
	h.chief = best
	h.all *= keep
	for i := range h.shadows {
		h.shadows[i].late *= keep
		h.shadows[i].paid *= keep
	}
}

// lineAbove is the share of a straight line from a to b that lies over a limit.
func lineAbove(a, b, limit float64) float64 {
	switch {
	case a <= limit && b <= limit:
		return 0
	case a > limit && b > limit:
		return 1
	}
	return (max(a, b) - limit) / math.Abs(b-a)
}

// arriving tells from the gauges how much work arrives, in replicas: those busy, and the growth of the queue times what one request takes.
type arriving struct{ work, begun, queue float64 }

func (a *arriving) step(o *Observation) float64 {
	const keep = 0.9971 // per slot: half in an hour
	grown := o.Queue - a.queue
	a.queue = o.Queue
	a.work = keep*a.work + o.Busy*SlotSeconds
	a.begun = keep*a.begun + max(0, o.Rate*SlotSeconds-grown)
	return max(0, o.Busy+grown*part(a.work, a.begun)/SlotSeconds)
}

// leastOf is the lowest of the last so many values.
type leastOf struct {
	high peakOf
	now  int
	any  bool
}

func newLeastOf(slots int) leastOf { return leastOf{high: newPeakOf(slots)} }

func (l *leastOf) add(slot, v int) { l.now, l.any = -l.high.add(slot, -v), true }

func (l *leastOf) top() int {
	if !l.any {
		return 0
	}
	return l.now
}
