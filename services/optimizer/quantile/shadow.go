package quantile

import "math"

// shadow is one candidate: what it would ask for, and the queue it would have.
type shadow struct {
	at          Choice
	want        int32
	hold, start extreme // needs since the last change that may yet be the highest; lowest want of a start, which is what is ready
	backlog     float64
	phase       int8

	late, paid, cycles float64
	since, worst, fast float64 // late at the beginning of the hour; the most that an hour made late; of the last hours
	prior              float64 // share of late requests that it had elsewhere
}

func newShadow(p *Params, at Choice) shadow {
	hold := p.Holds[at.Hold]
	return shadow{at: at, hold: newExtreme(hold + int(p.leastHold())), start: newExtreme(p.ColdSlots + 1),
		prior: p.expected(at)}
}

// The hold that the shares of Params.Prior are for, and by which powers they fall with longer ones and with the share of slots over the quantile:
// measured with all shadows on the single days of the first week of four workloads in docs/replay.md, right within a quarter.
const (
	priorHold      = 120
	priorHoldPower = 0.30
	priorTrend     = 0.42 // the hold's, of a trend
	priorOverPower = 0.65
)

// expected is the share of late requests that a shadow had elsewhere.
func (p *Params) expected(at Choice) float64 {
	power := priorHoldPower
	if at.Cast == CastTrend {
		power = priorTrend
	}
	return p.Prior[at.Cast] * math.Pow(1-p.Quantiles[at.Quantile], priorOverPower) * math.Pow(priorHold/float64(p.Holds[at.Hold]), power)
}

// step lets the shadow see one slot. What is ready in it is the least that was asked for since an order of now would have had to be given:
// orders take that long, and what is let go is gone at once.
func (s *shadow) step(p *Params, slot int64, need, used int32, demand, requests float64) {
	s.serve(p, demand, requests)
	need = max(need, p.catchUp(demand, s.backlog+s.coming(p, slot, demand, s.backlog)))
	s.order(slot, s.settle(p, slot, need, used, p.Holds[s.at.Hold]))
}

// leastHold is how long nothing is let go for, however much it is: as long as a start takes and two minutes.
func (p *Params) leastHold() int64 { return int64(p.ColdSlots) + 120/SlotSeconds }

// settle is the count after a need. Up goes at once. Down goes to what was enough for n slots, once the replicas above it have been spare for as
// many replica-slots as the hold allows: one spare replica is kept for the hold, four for a quarter of it. What is saved by letting go early
// is then at least what a cycle costs, the rule of who rents skis until he could have bought them, and a large surplus never waits. What is used
// now is never let go, whatever is forecast.
func (s *shadow) settle(p *Params, slot int64, need, used int32, hold int) int32 {
	e := &s.hold
	need = max(need, min(used, s.want))
	if need >= s.want {
		e.clear()
		e.add(slot, need)
		return need
	}
	e.add(slot, need)
	for i := e.n - 1; i >= 0; i-- { // what was enough lately is least
		v, n := e.at(i).value, int64(e.slots) // nothing higher is remembered
		if i > 0 {
			n = slot - e.at(i-1).slot
		}
		if v < s.want && n >= p.leastHold() && n*int64(s.want-v) >= int64(hold) {
			e.drop(i)
			return v
		}
	}
	return s.want
}

// serve lets what is ready work on the slot's demand.
func (s *shadow) serve(p *Params, demand, requests float64) {
	if s.start.n == 0 {
		return
	}
	ready := -s.start.top()
	free := float64(ready) - demand
	if s.backlog > 0 || free < 0 {
		before := s.backlog
		s.backlog = max(0, before-free*SlotSeconds)
		s.late += requests * above(before, s.backlog, float64(ready)*p.LateSeconds)
	}
}

// order notes what is asked for from now on, and pays for it.
func (s *shadow) order(slot int64, want int32) {
	s.paid += float64(want)
	switch {
	case want > s.want:
		if s.phase == 2 {
			s.cycles++
		}
		s.phase = 1
	case want < s.want && s.phase == 1:
		s.phase = 2
	}
	s.want = want
	s.start.add(slot, -want)
}

// plainTarget and plainHold are those of the HorizontalPodAutoscaler that everything is compared with: 70 % of what a replica can hold, and
// its default window of 300 s on the way down.
const (
	plainTarget    = 0.70
	plainTolerance = 0.10
	plainHold      = 300 / SlotSeconds
)

// react is a slot of the HorizontalPodAutoscaler: the use of what is ready against the target, with its tolerance; pods that start count as
// idle on the way up; at most twice or four more at a time.
func (s *shadow) react(p *Params, slot int64, demand, requests float64) {
	need := int32(max(1, math.Ceil(min(demand/plainTarget, maxReplicas))))
	if s.start.n > 0 {
		ready := float64(max(1, -s.start.top()))
		busy := min(ready, demand+s.backlog/SlotSeconds)
		up, down := busy/float64(max(1, s.want))/plainTarget, busy/ready/plainTarget
		need = s.want
		if up > 1+plainTolerance || down < 1-plainTolerance {
			need = int32(max(1, math.Ceil(busy/plainTarget)))
		}
		need = min(need, max(2*s.want, s.want+4))
	}
	s.serve(p, demand, requests)
	s.order(slot, s.hold.add(slot, need))
}

// catchUp is what it takes to work off a backlog (replica-seconds) in time, once it makes requests late.
func (p *Params) catchUp(demand, backlog float64) int32 {
	if backlog <= demand*p.LateSeconds {
		return 0
	}
	return int32(min(math.Ceil(1.05*demand+backlog/p.CatchUpSeconds), maxReplicas))
}

// A surge is a demand of surgeFrom times what is ready. What it will make wait is worked off in two thirds of the time that other backlogs are,
// by at most 1.5 times the demand, since it may be over at once, and two and a half times once it has lasted for two slots.
const (
	surgeFrom  = 2
	surgeHaste = 1.55
	surgeMost  = 1.5
	surgeLast  = 2.5
)

// coming is the work (replica-seconds) that will have joined the queue by the time an order of now is ready, if the demand stays and is a surge: it
// is worked off within the same time as what waits already, not only once it waits too.
func (s *shadow) coming(p *Params, slot int64, demand, backlog float64) float64 {
	if s.start.n == 0 || demand <= -surgeFrom*float64(s.start.top()) {
		return 0
	}
	most := surgeMost
	if over := demand + float64(s.start.top()); backlog > 1.5*over*SlotSeconds {
		most = surgeLast
	}
	sum, at := 0.0, int32(0)
	for u := slot + 1; u <= slot+int64(p.ColdSlots); u++ {
		for at < s.start.n-1 && s.start.at(at).slot <= u-int64(s.start.slots) {
			at++
		}
		sum += max(0, demand+float64(s.start.at(at).value)) * SlotSeconds
	}
	return min(surgeHaste*sum, most*demand*p.CatchUpSeconds)
}

// above is the share of a straight line from a to b that lies over a limit.
func above(a, b, limit float64) float64 {
	switch {
	case a <= limit && b <= limit:
		return 0
	case a > limit && b > limit:
		return 1
	}
	return (max(a, b) - limit) / math.Abs(b-a)
}

// endHour notes what the hour that is over made late.
func (s *shadow) endHour() {
	hour := s.late - s.since
	s.worst, s.fast, s.since = max(s.worst, hour), fastKeep*s.fast+hour, s.late
}

// fastKeep is what the last hours count per hour.
const fastKeep = 0.7

func (s *shadow) age(keep float64) {
	s.worst *= keep
	s.since *= keep
	s.late *= keep
	s.paid *= keep
	s.cycles *= keep
}

// extreme is the highest of the last values, kept as the falling ones that may yet be the highest.
type extreme struct {
	slots    int32
	first, n int32
	ring     []entry // a power of two long, grown when it is full
}

// entry is a value and the slot that it is of.
type entry struct {
	slot  int64
	value int32
}

func newExtreme(slots int) extreme {
	return extreme{slots: int32(slots), ring: make([]entry, 4)} //nolint:gosec // a hold or a start: at most a day
}

func (e *extreme) at(i int32) *entry { return &e.ring[(e.first+i)&int32(len(e.ring)-1)] } //nolint:gosec // at most twice a day's slots

func (e *extreme) add(slot int64, v int32) int32 {
	for e.n > 0 && e.at(e.n-1).value <= v {
		e.n--
	}
	for e.n > 0 && e.at(0).slot <= slot-int64(e.slots) {
		e.first, e.n = (e.first+1)&int32(len(e.ring)-1), e.n-1 //nolint:gosec // at most twice a day's slots
	}
	if int(e.n) == len(e.ring) {
		e.grow()
	}
	*e.at(e.n) = entry{slot, v}
	e.n++
	return e.at(0).value
}

// clear forgets all values, drop those before the i-th.
func (e *extreme) clear() { e.n = 0 }

func (e *extreme) drop(i int32) {
	e.first, e.n = (e.first+i)&int32(len(e.ring)-1), e.n-i //nolint:gosec // at most twice a day's slots
}

func (e *extreme) grow() {
	ring := make([]entry, 2*len(e.ring))
	for i := range e.n {
		ring[i] = *e.at(i)
	}
	e.ring, e.first = ring, 0
}

func (e *extreme) top() int32 { return e.at(0).value }
