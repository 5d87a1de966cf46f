package lab

import "math"

// dynamoLoad is the load-based planner of NVIDIA Dynamo for aggregated workers: every 30 s the mean KV cache use of the interval (here the share
// of the batch in use) is compared with two thresholds, 0.9 up and 0.5 down by default; one worker at a time, nothing while one is starting, and no
// worker is taken away within three intervals after one became ready. https://docs.nvidia.com/dynamo (load planner)
type dynamoLoad struct {
	up, down float64
	use      window
	before   int // ready
	grace    int // intervals
}

const (
	dynamoInterval = 30 / SlotSeconds
	dynamoGrace    = 3
)

func newDynamoLoad(up float64) Policy {
	return &dynamoLoad{up: up, down: up * 0.5 / 0.9, use: newWindow(dynamoInterval)}
}

// Step decides every 30 s.
func (d *dynamoLoad) Step(o *Observation) int {
	use := d.use.add(part(o.Busy, float64(o.Ready)))
	have := o.Replicas()
	if (o.Slot+1)%dynamoInterval != 0 {
		return have
	}
	if o.Ready > d.before {
		d.grace = dynamoGrace
	} else if d.grace > 0 {
		d.grace--
	}
	d.before = o.Ready
	switch {
	case o.Starting > 0:
		return have
	case use > d.up:
		return have + 1
	case use < d.down && d.grace == 0:
		return max(1, have-1)
	}
	return have
}

// dynamoSLA is the SLA-based planner of NVIDIA Dynamo, with prefill and decode on the same workers: once per interval the number of
// requests and what one costs in throughput are predicted, and the replicas are their product over what one worker does within the latency
// target. The profile is the world's own, so that its correction of the token latency is one; that of the time to first token is
// held to at most one, as in the planner, so a queue never asks for more. The predictor is the constant one or a filter with level and trend
// (Kalman, as the planner offers), both of the last interval. https://docs.nvidia.com/dynamo (SLA planner)
type dynamoSLA struct {
	share    float64 // of a worker's throughput that the profile allows at the latency target
	interval int
	trend    *levelTrend
	requests float64
	queue    float64
	busy     float64
	started  float64
	want     int
}

func newDynamoSLA(share float64, trend bool) Policy {
	d := &dynamoSLA{share: share, interval: 180 / SlotSeconds}
	if trend {
		d.trend = &levelTrend{}
	}
	return d
}

// Step decides once an interval.
func (d *dynamoSLA) Step(o *Observation) int {
	d.requests += o.Rate * SlotSeconds
	d.busy += o.Busy * SlotSeconds
	d.started += math.Max(0, o.Rate*SlotSeconds-(o.Queue-d.queue))
	d.queue = o.Queue
	if (o.Slot+1)%d.interval != 0 {
		return max(d.want, min(o.Replicas(), 1), d.kept(o))
	}
	cost := part(d.busy, d.started) // replica-seconds of one request
	next := d.requests
	if d.trend != nil {
		next = d.trend.next(d.requests)
	}
	seconds := float64(d.interval * SlotSeconds)
	d.want = max(1, int(math.Ceil(next*cost/seconds/d.share-1e-9)))
	d.requests, d.busy, d.started = 0, 0, 0
	return d.want
}

// kept holds what is there before the first interval is over.
func (d *dynamoSLA) kept(o *Observation) int {
	if d.want > 0 {
		return 0
	}
	return o.Replicas()
}

// levelTrend is a Kalman filter of a local linear trend: process noise of level and trend, measurement noise, and five points before it
// forecasts.
type levelTrend struct {
	n             int
	level, trend  float64
	p00, p01, p11 float64
}

const (
	kalmanLevel  = 1.0
	kalmanTrend  = 0.1
	kalmanNoise  = 10.0
	kalmanPoints = 5
)

// next takes a value and says what the next one will be.
func (k *levelTrend) next(v float64) float64 {
	if k.n == 0 {
		k.level, k.p00, k.p11 = v, 100, 100
	}
	k.n++
	// Predict one step, then correct by the value.
	k.level += k.trend
	k.p00 += 2*k.p01 + k.p11 + kalmanLevel
	k.p01 += k.p11
	k.p11 += kalmanTrend
	gain := k.p00 + kalmanNoise
	g0, g1 := k.p00/gain, k.p01/gain
	miss := v - k.level
	k.level += g0 * miss
	k.trend += g1 * miss
	k.p00, k.p01, k.p11 = (1-g0)*k.p00, (1-g0)*k.p01, k.p11-g1*k.p01
	if k.n < kalmanPoints {
		return v
	}
	return math.Max(0, k.level+k.trend)
}
