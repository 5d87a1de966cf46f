package quantile

import "math"

// shadow is one candidate: what it would ask for, and the queue it would have.
type shadow struct {
	at          Choice
	want        int32
	hold, start extreme // highest need of the hold; lowest want of a start, which is what is ready
	backlog     float64
	phase       int8

	late, paid, cycles float64
	prior              float64 // share of late requests to be expected before anything was seen
}

func newShadow(p *Params, at Choice) shadow {
	hold := p.Holds[at.Hold]
	return shadow{at: at, hold: newExtreme(hold), start: newExtreme(p.ColdSlots + 1),
		prior: p.Prior[at.Cast] * (1 - p.Quantiles[at.Quantile]) * math.Pow(20/float64(hold), 0.25)}
}

// step lets the shadow see one slot. What is ready in it is the least that was asked for since an order of now would have had to be given:
// orders take that long, and what is let go is gone at once.
func (s *shadow) step(p *Params, slot int64, need int32, demand, requests float64) {
	s.serve(p, demand, requests)
	need = max(need, p.catchUp(demand, s.backlog+s.coming(p, slot, demand, s.backlog)))
	s.order(slot, s.hold.add(slot, need))
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
// by at most one and a half times the demand, since it may
// be over at once, and two and a half times once it has lasted for two slots.
const (
	surgeFrom  = 2
	surgeHaste = 1.5
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

func (s *shadow) age(keep float64) {
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

func (e *extreme) grow() {
	ring := make([]entry, 2*len(e.ring))
	for i := range e.n {
		ring[i] = *e.at(i)
	}
	e.ring, e.first = ring, 0
}

func (e *extreme) top() int32 { return e.at(0).value }
