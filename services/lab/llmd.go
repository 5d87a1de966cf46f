package lab

import "math"

// variant is the Workload Variant Autoscaler of llm-d, for one variant. Its saturation analyzer looks once a minute at the highest KV cache use and
// queue per replica of the last minute (here the share of the batch in use stands for the cache: both fill with requests in flight). A
// replica is saturated at 80 % of the cache or 5 waiting requests; one more replica is asked for when the mean spare cache is under
// 10 points or the mean spare queue under 3 requests, not while replicas are pending; one less when the load, spread over the others, leaves both
// triggers untouched. The count goes out as a metric that a HorizontalPodAutoscaler follows: up at once, down after its 300 s.
// https://github.com/llm-d/llm-d-workload-variant-autoscaler docs/saturation-analyzer.md, docs/saturation-scaling-config.md
type variant struct {
	threshold float64 // cache use at which a replica is saturated
	cache     highest
	queue     highest
	stable    highest
	model     *variantModel // nil: saturation only
	need      int
}

const (
	variantQueue      = 5.0
	variantSpareCache = 0.10
	variantSpareQueue = 3.0
	variantMinute     = 60 / SlotSeconds
)

func newVariant(threshold float64) *variant {
	return &variant{threshold: threshold, cache: highest{slots: variantMinute}, queue: highest{slots: variantMinute}, stable: highest{slots: 300 / SlotSeconds}}
}

// newVariantModel adds the model-based optimizer of the same project: a queue with as many servers per replica as the batch holds gives the highest
// arrival rate at which the mean wait stays within the target, and the arrivals over that rate the replicas; saturation vetoes
// and safety checks rule over it (docs/modeling-optimization.md and the matrix of docs/saturation-analyzer.md). The project's example target of
// the time to first token, 500 ms, is the default.
func newVariantModel(target float64, t *Trace) *variant {
	v := newVariant(0.80)
	v.model = &variantModel{servers: max(1, int(math.Round(1/t.Share))), target: target, rate: newWindow(variantMinute)}
	return v
}

// Step decides once a minute.
func (v *variant) Step(o *Observation) int {
	ready := math.Max(1, float64(o.Ready))
	cache := v.cache.add(o.Slot, part(o.Busy, ready))
	queue := v.queue.add(o.Slot, o.Queue/ready)
	if v.model != nil {
		v.model.note(o)
	}
	have := o.Replicas()
	if (o.Slot+1)%variantMinute != 0 {
		return have
	}
	up := cache >= v.threshold || queue >= variantQueue || v.threshold-cache < variantSpareCache || variantQueue-queue < variantSpareQueue
	safe := false
	if !up && o.Ready >= 2 {
		more := ready / (ready - 1)
		safe = v.threshold-cache*more >= variantSpareCache && variantQueue-queue*more >= variantSpareQueue
	}
	want := o.Ready
	switch {
	case o.Starting > 0:
		want = have // what was asked for before is kept until it is there
	case up:
		want = o.Ready + 1
	case safe && v.model == nil:
		want = o.Ready - 1
	}
	if v.model != nil {
		switch m := v.model.replicas(); {
		case m > want:
			want = m
		case m < want && !up && safe && o.Starting == 0:
			want = max(m, o.Ready-1)
		}
	}
	v.need = want
	return max(int(v.stable.add(o.Slot, float64(want))), min(want, have))
}

// Needed is what the analyzer asked for last, before the HPA's window.
func (v *variant) Needed() int { return v.need }

// variantModel sizes by queueing theory.
type variantModel struct {
	servers          int // requests that one replica serves at once
	target           float64
	rate             window
	lastRate         float64
	running, started float64
	queue            float64
}

func (m *variantModel) note(o *Observation) {
	m.lastRate = m.rate.add(o.Rate)
	started := math.Max(0, o.Rate*SlotSeconds-(o.Queue-m.queue))
	m.queue = o.Queue
	const keep = 0.98
	m.running = keep*m.running + o.Running*SlotSeconds
	m.started = keep*m.started + started
}

// replicas is the arrival rate over what one replica may take.
func (m *variantModel) replicas() int {
	service := part(m.running, m.started) // seconds that a request is served
	if service <= 0 || m.lastRate <= 0 {
		return 1
	}
	low, high := 0.0, 1.0 // utilisation of one replica
	for range 30 {
		middle := (low + high) / 2
		if meanWait(m.servers, middle, service) <= m.target {
			low = middle
		} else {
			high = middle
		}
	}
	perReplica := low * float64(m.servers) / service
	return max(1, int(math.Ceil(m.lastRate/math.Max(perReplica, 1e-9)-1e-9)))
}

// meanWait is Erlang's C: seconds that a request waits on average for one of n servers that are busy to this share.
func meanWait(n int, use, service float64) float64 {
	if use >= 1 {
		return math.Inf(1)
	}
	load := use * float64(n)
	blocked := 1.0 // Erlang's B by its recursion
	for k := 1; k <= n; k++ {
		blocked = load * blocked / (float64(k) + load*blocked)
	}
	waits := blocked / (1 - use*(1-blocked))
	return waits * service / (float64(n) * (1 - use))
}
