package lab

import "math"

// CQ is the conditional quantile policy with shadows: several forecasts of the demand at the time an order becomes ready, each with the
// distribution of its own errors learned as it goes; and for every (forecast, quantile, hold) a shadow, a small queue that is run beside the
// real one as if it had been in charge. Once an hour the cheapest shadow that would have been on time takes over. Nothing is tuned by
// hand and nothing is replayed: a step costs the same however long the history is.
type CQ struct {
	cfg   CQConfig
	cold  int
	load  load
	past  history
	casts [forecasts]forecast
	queue []shadow
	chief int // the shadow in charge

	requests float64 // decayed like the shadows' sums
	hours    float64 // of experience
}

// CQConfig has what a person may set. The zero value of each field means the default.
type CQConfig struct {
	Late     float64 // share of late requests that is aimed at; default 0.006, for an SLO of 0.01
	HalfLife float64 // days after which experience counts half; default 3
	Cycle    float64 // what one up-down-up is worth avoiding, in replica-slots of 15 s; default 80
}

func (c CQConfig) withDefaults() CQConfig {
	if c.Late == 0 {
		c.Late = 0.006
	}
	if c.HalfLife == 0 {
		c.HalfLife = 3
	}
	if c.Cycle == 0 {
		c.Cycle = 80
	}
	return c
}

// The shadows: every quantile with every hold of every forecast.
var (
	quantiles = [...]float64{0.70, 0.78, 0.84, 0.88, 0.91, 0.94, 0.96, 0.975, 0.985, 0.993, 0.997}
	holds     = [...]int{8, 20, 40, 80, 160, 320}
)

// NewCQ makes the policy for a service whose replicas start within cold slots.
func NewCQ(cfg CQConfig, cold int) *CQ {
	c := &CQ{cfg: cfg.withDefaults(), cold: cold}
	for i := range c.casts {
		c.casts[i].init(i, cold+1)
	}
	for f := range c.casts {
		for q := range quantiles {
			for _, h := range holds {
				c.queue = append(c.queue, newShadow(f, q, h, cold+1))
				if f == firstForecast && q == firstQuantile && h == firstHold {
					c.chief = len(c.queue) - 1
				}
			}
		}
	}
	return c
}

// Before the first hour is over the policy sizes by this shadow.
const (
	firstForecast = castTrend
	firstQuantile = 9
	firstHold     = 20
)

// After that, experience counts beside what was to be expected beforehand, which is worth priorHours of it: of the slots that exceed the
// quantile, so many requests are late at a hold of five minutes; fewer at longer ones. The shares are twice those measured on the first
// weeks of the workloads in docs/replay.md.
const priorHours = 24

var priorLate = [forecasts]float64{castShort: 0.20, castMiddle: 0.38, castLong: 0.60, castTrend: 0.09, castLinear: 0.34}

// Step decides for one slot.
func (c *CQ) Step(o *Observation) int {
	demand := c.load.step(o)
	c.past.add(demand)
	c.requests += o.Rate * SlotSeconds
	var wants [forecasts][len(quantiles)]int32
	for i := range c.casts {
		c.casts[i].step(&c.past, demand, &wants[i])
	}
	slot := int32(o.Slot) //nolint:gosec // a trace has at most maxSlots
	for i := range c.queue {
		s := &c.queue[i]
		s.step(slot, wants[s.cast][s.quantile], demand, o.Rate*SlotSeconds)
	}
	if (o.Slot+1)%SlotsPerHour == 0 {
		c.hourly()
	}
	want := c.queue[c.chief].want
	return int(max(want, catchUp(demand, c.load.backlog())))
}

// hourly refreshes the quantiles, lets the best shadow take over and ages what was learned.
func (c *CQ) hourly() {
	c.hours++
	for i := range c.casts {
		c.casts[i].refresh()
	}
	c.chief = c.best()
	keep := math.Exp2(-1 / (24 * c.cfg.HalfLife))
	c.requests *= keep
	for i := range c.queue {
		c.queue[i].age(keep)
	}
}

// best is the cheapest shadow that was on time and calm; if none was, the one with the fewest late requests.
func (c *CQ) best() int {
	seen := (1 - math.Exp2(-c.hours/(24*c.cfg.HalfLife))) / (1 - math.Exp2(-1/(24*c.cfg.HalfLife)))
	// What has not happened yet will: a shadow starts with the lateness that its quantile and hold had elsewhere, worth some hours.
	believed := c.requests / seen * priorHours * math.Exp2(-c.hours/(24*c.cfg.HalfLife))
	best, least := -1, -1
	for i := range c.queue {
		s := &c.queue[i]
		if least < 0 || s.late < c.queue[least].late || (s.late == c.queue[least].late && s.paid < c.queue[least].paid) {
			least = i
		}
		if s.late+believed*s.prior > c.cfg.Late*(c.requests+believed) {
			continue
		}
		if best < 0 || s.paid+s.cycles*c.cfg.Cycle < c.queue[best].paid+c.queue[best].cycles*c.cfg.Cycle {
			best = i
		}
	}
	if best < 0 {
		return least
	}
	return best
}

// shadow is one candidate: what it would ask for, and the queue it would have.
type shadow struct {
	cast, quantile int
	want           int32
	hold, start    extreme // highest need of the hold; lowest want of a start, which is what is ready
	backlog        float64
	phase          int8

	late, paid, cycles float64
	prior              float64 // share of late requests to be expected before anything was seen
}

func newShadow(cast, quantile, hold, start int) shadow {
	return shadow{cast: cast, quantile: quantile, hold: newExtreme(hold), start: newExtreme(start),
		prior: priorLate[cast] * (1 - quantiles[quantile]) * math.Pow(20/float64(hold), 0.25)}
}

// step lets the shadow see one slot. What is ready in it is the least that was asked for since an order of now would have had to be given:
// orders take that long, and what is let go is gone at once.
func (s *shadow) step(slot, need int32, demand, requests float64) {
	if ready := -s.start.top(); s.start.n > 0 {
		free := float64(ready) - demand
		if s.backlog > 0 || free < 0 {
			before := s.backlog
			s.backlog = max(0, before-free*SlotSeconds)
			s.late += requests * above(before, s.backlog, float64(ready)*LateSeconds)
		}
	}
	need = max(need, catchUp(demand, s.backlog))
	want := s.hold.add(slot, need)
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

// catchUp is what it takes to work off a backlog within backlogSeconds, once it makes requests late.
func catchUp(demand, backlog float64) int32 {
	if backlog <= demand*LateSeconds {
		return 0
	}
	return int32(min(math.Ceil(1.05*demand+backlog/backlogSeconds), maxReplicas))
}

const backlogSeconds = 90

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
	slots     int32
	mask      int32 // length of the ring less one
	first, n  int32
	at, value []int32
}

func newExtreme(slots int) extreme {
	size := 1
	for size <= slots {
		size *= 2
	}
	return extreme{slots: int32(slots), mask: int32(size - 1), at: make([]int32, size), value: make([]int32, size)} //nolint:gosec // a hold or a start: at most a day
}

func (e *extreme) add(slot, v int32) int32 {
	mask := e.mask
	for e.n > 0 && e.value[(e.first+e.n-1)&mask] <= v {
		e.n--
	}
	e.at[(e.first+e.n)&mask], e.value[(e.first+e.n)&mask] = slot, v
	e.n++
	for e.at[e.first&mask] <= slot-e.slots {
		e.first, e.n = (e.first+1)&mask, e.n-1
	}
	return e.value[e.first&mask]
}

func (e *extreme) top() int32 { return e.value[e.first&e.mask] }

// load learns what one request costs and tells from the gauges how much work arrives. Requests in flight times their share would be too
// much while there is a queue: what waits is work of a few seconds, not a replica for as long as it waits.
type load struct {
	work, started float64 // decayed sums: replica-seconds done, requests begun
	queue         float64
}

const loadKeep = 0.9971 // per slot: half in an hour

func (l *load) backlog() float64 { return l.queue * part(l.work, l.started) }

func (l *load) step(o *Observation) float64 {
	grown := o.Queue - l.queue
	l.queue = o.Queue
	l.work = loadKeep*l.work + o.Busy*SlotSeconds
	l.started = loadKeep*l.started + max(0, o.Rate*SlotSeconds-grown)
	return max(0, o.Busy+grown*part(l.work, l.started)/SlotSeconds)
}
