package lab

import "math"

// fixed is static provisioning: always the same count. The scoreboard's static peak knows the peak of the judged span beforehand.
type fixed int

// Step keeps the count.
func (f fixed) Step(*Observation) int { return int(f) }

func newStaticPeak(t *Trace) Policy { return fixed(math.Ceil(t.Peak())) }

// naive is ceil(load / capacity) without headroom, the formula of many home-made scalers.
type naive struct{}

// Step asks for exactly what is in use and waiting.
func (naive) Step(o *Observation) int { return int(math.Ceil(o.Demand)) }

// window is a mean over the last slots.
type window struct {
	values []float64
	n      int
}

func newWindow(slots int) window { return window{values: make([]float64, max(slots, 1))} }

func (w *window) add(v float64) float64 {
	i := w.n % len(w.values)
	w.values[i] = v
	w.n++
	sum, n := 0.0, min(w.n, len(w.values))
	for _, x := range w.values[:n] {
		sum += x
	}
	return sum / float64(n)
}

// highest is the maximum over the last slots, by a queue of falling values.
type highest struct {
	slots int
	at    []int
	value []float64
}

func (h *highest) add(slot int, v float64) float64 {
	for len(h.at) > 0 && (h.value[len(h.value)-1] <= v) {
		h.at, h.value = h.at[:len(h.at)-1], h.value[:len(h.value)-1]
	}
	h.at, h.value = append(h.at, slot), append(h.value, v)
	for h.at[0] <= slot-h.slots {
		h.at, h.value = h.at[1:], h.value[1:]
	}
	return h.value[0]
}

// knative is the Knative Pod Autoscaler: concurrency over a stable window of 60 s and a panic window of a tenth of it (here one slot, the
// finest there is), the target a share of a replica's batch, 70 % by default; panic when the short window needs 200 % of the ready pods, for one stable
// window, without going down; at most x 1000 up and / 2 down of the ready pods per decision.
// https://knative.dev/docs/serving/autoscaling/kpa-specific and pkg/autoscaler/scaling of knative/serving.
type knative struct {
	target   float64 // requests per replica
	stable   window
	panicked int // slot in which panic was last found; -1 none
	most     int // of the panic
	need     int
}

func newKnative(share float64, t *Trace) Policy {
	return &knative{target: share / t.Share, stable: newWindow(60 / SlotSeconds), panicked: -1}
}

// Step decides for one slot.
func (k *knative) Step(o *Observation) int {
	now := o.Running + o.Queue
	stable := k.stable.add(now)
	ready := math.Max(1, float64(o.Ready))
	up, down := math.Ceil(1000*ready), math.Floor(ready/2)
	hold := func(v float64) int { return int(math.Min(math.Max(math.Ceil(v/k.target), down), up)) }
	want, urgent := hold(stable), hold(now)
	k.need = want
	if math.Ceil(now/k.target)/ready >= 2 {
		if k.panicked < 0 {
			k.most = 0
		}
		k.panicked = o.Slot
	} else if k.panicked >= 0 && o.Slot-k.panicked > 60/SlotSeconds {
		k.panicked = -1
	}
	if k.panicked >= 0 {
		k.most = max(k.most, urgent)
		return k.most
	}
	return want
}

// Needed is what the stable window alone asks for.
func (k *knative) Needed() int { return k.need }

// aibrix is the APA of AIBrix (vllm-project/aibrix, pkg/controller/podautoscaler/algorithm/apa.go): the ratio of use per pod to its target,
// acted upon beyond 10 % either way, at most doubling and at most halving the ready pods; then the cooldown of its controller, which
// takes the highest recommendation of the last 300 s.
type aibrix struct {
	target float64
	use    window
	recent highest
	need   int
}

func newAIBrix(share float64, t *Trace) Policy {
	return &aibrix{target: share / t.Share, use: newWindow(60 / SlotSeconds), recent: highest{slots: 300 / SlotSeconds}}
}

// Step decides for one slot.
func (a *aibrix) Step(o *Observation) int {
	pods := float64(max(o.Ready, 1))
	ratio := a.use.add(part(o.Running+o.Queue, float64(o.Ready))) / a.target
	want := pods
	switch {
	case ratio > 1.1:
		want = math.Min(math.Ceil(pods*ratio), math.Ceil(2*pods))
	case ratio < 0.9:
		want = math.Max(math.Ceil(pods*ratio), math.Floor(pods/2))
	}
	a.need = int(want)
	return int(a.recent.add(o.Slot, want))
}

// Needed is the recommendation before the cooldown.
func (a *aibrix) Needed() int { return a.need }

// tracking is AWS target tracking: CloudWatch looks at minutes; three in a row over the target scale out in proportion, fifteen in a row
// under 90 % of it scale in; instances that warm up count as capacity and their silence as no load, and while some do there is no scale in.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-scaling-target-tracking.html
type tracking struct {
	target      float64
	minute      window
	over, under int
}

func newTracking(target float64) *tracking {
	return &tracking{target: target, minute: newWindow(60 / SlotSeconds)}
}

// Step decides once a minute.
func (a *tracking) Step(o *Observation) int {
	use := a.minute.add(part(o.Busy, float64(o.Ready)))
	have := o.Replicas()
	if o.Slot%(60/SlotSeconds) != 60/SlotSeconds-1 {
		return have
	}
	switch {
	case use > a.target:
		a.over, a.under = a.over+1, 0
	case use < 0.9*a.target:
		a.over, a.under = 0, a.under+1
	default:
		a.over, a.under = 0, 0
	}
	want := int(math.Ceil(use * float64(o.Ready) / a.target))
	switch {
	case a.over >= 3:
		return max(have, want)
	case a.under >= 15 && o.Starting == 0:
		a.under = 0
		return min(have, max(want, 1))
	}
	return have
}

// predictive is AWS predictive scaling beside target tracking: once an hour the load of the next 48 hours is forecast from up to 14 days of
// hourly values (here the weighted mean of the same hour of the last days and of the last week; Amazon does not publish its model),
// and the capacity for the hour's mean load at the target is in place five minutes before; forecasts only scale out. It starts with a day.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/predictive-scaling-policy-overview.html
type predictive struct {
	tracking *tracking
	target   float64
	hours    []float64 // mean load by hour
	sum      float64
}

func newPredictive(target float64) Policy {
	return &predictive{tracking: newTracking(target), target: target}
}

// Step takes the larger of forecast and tracking.
func (a *predictive) Step(o *Observation) int {
	want := a.tracking.Step(o)
	a.sum += o.Busy
	if (o.Slot+1)%SlotsPerHour == 0 {
		a.hours = append(a.hours, a.sum/SlotsPerHour)
		a.sum = 0
	}
	ahead := (o.Slot + 1 + (300+180)/SlotSeconds) / SlotsPerHour
	floor := max(a.forecast(ahead), a.forecast((o.Slot+1)/SlotsPerHour))
	return max(want, int(math.Ceil(floor/a.target)))
}

// forecast is the load of an hour, from the same hour of earlier days.
func (a *predictive) forecast(hour int) float64 {
	sum, weight := 0.0, 0.0
	for day := 1; day <= 14; day++ {
		i := hour - 24*day
		if i < 0 {
			break
		}
		if i >= len(a.hours) {
			continue
		}
		w := math.Pow(0.7, float64(day-1))
		if day%7 == 0 {
			w = 1
		}
		sum += w * a.hours[i]
		weight += w
	}
	return part(sum, weight)
}

// oracle knows the demand of the next cold start and no more: it orders the least that leaves nobody late in the slot in which the order
// becomes ready, and lets go what no slot up to then needs: giving up a replica pays exactly when it is idle for longer than a start takes.
type oracle struct {
	trace   *Trace
	cold    int
	next    highest
	fed     int
	want    float64
	backlog float64 // at the end of the last slot it knows, if it held no more than that slot needs
}

func newOracle(t *Trace, cold int) Policy {
	return &oracle{trace: t, cold: cold, next: highest{slots: cold + 1}}
}

// Step looks ahead.
func (a *oracle) Step(o *Observation) int {
	for last := min(o.Slot+1+a.cold, a.trace.Slots()-1); a.fed <= last; a.fed++ {
		rho := a.trace.Rho[a.fed]
		need := math.Ceil(leastOnTime(a.backlog, rho) - 1e-9)
		a.backlog = max(0, a.backlog+(rho-need)*SlotSeconds)
		a.want = a.next.add(a.fed, need)
	}
	return int(a.want)
}
