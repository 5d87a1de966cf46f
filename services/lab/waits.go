package lab

import (
	"math"
	"sort"
)

// Percentiles of a duration in seconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Bins of durations: the first holds what takes no time, each further one is 5 % wider, from 20 ms to over an hour.
const (
	durationBins  = 260
	durationFirst = 0.02
	durationRatio = 1.05
)

var (
	durationEdges = makeEdges()
	durationScale = 1 / math.Log(durationRatio)
)

func makeEdges() (out [durationBins]float64) {
	for i := range out {
		out[i] = durationFirst * math.Pow(durationRatio, float64(i))
	}
	return out
}

// durations is a histogram of seconds, weighted.
type durations struct {
	none float64 // weight of nothing
	bin  [durationBins]float64
}

func durationBin(v float64) int {
	if v <= durationFirst {
		return 0
	}
	return min(max(int(math.Log(v/durationFirst)*durationScale)+1, 0), durationBins-1)
}

// add spreads a weight evenly over the durations between two.
func (d *durations) add(a, b, weight float64) {
	a, b = max(min(a, b), 0), max(a, b, 0)
	if b <= 1e-9 {
		d.none += weight
		return
	}
	if b-a < 1e-9 {
		d.bin[durationBin(b)] += weight
		return
	}
	per := weight / (b - a)
	for i := durationBin(a); i < durationBins; i++ {
		top := durationEdges[i]
		if top >= b || i == durationBins-1 {
			d.bin[i] += per * (b - a)
			return
		}
		d.bin[i] += per * max(0, top-a)
		a = max(a, top)
	}
}

func (d *durations) total() float64 {
	sum := d.none
	for _, w := range d.bin {
		sum += w
	}
	return sum
}

// quantile is the duration that a share of the weight does not exceed.
func (d *durations) quantile(share, total float64) float64 {
	left := share*total - d.none
	if left <= 0 {
		return 0
	}
	low := 0.0
	for i, w := range d.bin {
		if w > 0 && left <= w {
			return low + (durationEdges[i]-low)*left/w
		}
		left -= w
		low = durationEdges[i]
	}
	return durationEdges[durationBins-1]
}

func (d *durations) percentiles() Percentiles {
	n := d.total()
	if n == 0 {
		return Percentiles{}
	}
	return Percentiles{P50: d.quantile(0.50, n), P95: d.quantile(0.95, n), P99: d.quantile(0.99, n)}
}

// after is the distribution when each duration is followed by one of these, independent of it.
func (d *durations) after(others []float64) *durations {
	out := &durations{}
	share := 1 / float64(len(others))
	low := 0.0
	for _, o := range others {
		out.add(o, o, d.none*share)
	}
	for i, w := range d.bin {
		if w > 0 {
			for _, o := range others {
				out.add(low+o, durationEdges[i]+o, w*share)
			}
		}
		low = durationEdges[i]
	}
	return out
}

// arrivals are requests that came evenly between two times and whose work has not begun.
type arrivals struct {
	from, to float64 // seconds
	work     float64 // replica-seconds
	requests float64 // 0 outside the judged span
}

// waits follows every request from its arrival to the start of its work, first come first served, exactly: both what comes and what is
// worked off are straight lines within a slot.
type waits struct {
	of      durations
	pending []arrivals
}

// slot plays one slot: demand rho on n ready replicas.
func (q *waits) slot(s int, rho, n, requests float64) {
	start := float64(s) * SlotSeconds
	end := start + SlotSeconds
	if len(q.pending) == 0 && rho <= n {
		q.of.none += requests
		return
	}
	at := q.workOff(start, end, n)
	if len(q.pending) > 0 { // nobody of this slot is begun in it
		q.pending = append(q.pending, arrivals{start, end, rho * SlotSeconds, requests})
		return
	}
	// The first to come now waits until what was there is begun; who comes u seconds later, as much longer as what came between takes.
	behind := at - start
	begun := float64(SlotSeconds)
	if rho > 0 {
		begun = min(begun, (SlotSeconds-behind)*n/rho)
	}
	faster := 1.0
	if n > 0 {
		faster = 1 - rho/n
	}
	if faster > 0 && behind/faster <= begun { // the queue is empty before the end
		empty := behind / faster
		q.of.add(behind, 0, requests*empty/SlotSeconds)
		q.of.none += requests * (SlotSeconds - empty) / SlotSeconds
		return
	}
	q.of.add(behind, behind-begun*faster, requests*begun/SlotSeconds)
	if begun < SlotSeconds {
		left := SlotSeconds - begun
		q.pending = append(q.pending, arrivals{start + begun, end, rho * left, requests * left / SlotSeconds})
	}
}

// workOff begins what waits, in order, on n replicas, and says when the last of it was begun.
func (q *waits) workOff(start, end, n float64) float64 {
	at := start
	for len(q.pending) > 0 && n > 0 {
		p := &q.pending[0]
		took := p.work / n
		if at+took <= end {
			q.of.add(at-p.from, at+took-p.to, p.requests)
			at += took
			q.pending = q.pending[1:]
			continue
		}
		part := (end - at) / took
		cut := p.from + part*(p.to-p.from)
		q.of.add(at-p.from, end-cut, p.requests*part)
		p.from, p.work, p.requests = cut, p.work*(1-part), p.requests*(1-part)
		return end
	}
	return at
}

// rest counts who still waits at a time with what they waited so far.
func (q *waits) rest(s int) {
	now := float64(s) * SlotSeconds
	for _, p := range q.pending {
		q.of.add(now-p.from, now-p.to, p.requests)
	}
	q.pending = nil
}

// ScaleLatency is how long it took to follow the demand: from the slot in which it went over what was ready to the one in which as much was
// ready again. A slot is 15 s, and so is the resolution.
type ScaleLatency struct {
	Crossings int     `json:"crossings"`
	Decide    float64 `json:"decide_seconds"` // mean, until enough was ordered; 0 where it was ordered before
	Start     float64 `json:"start_seconds"`  // mean, from there until it served
	Mean      float64 `json:"mean_seconds"`
	P95       float64 `json:"p95_seconds"`
}

// crossings times the episodes in which the demand is over what is ready.
type crossings struct {
	from, decided int // slots; -1: none
	decide        float64
	took          []float64
}

func (c *crossings) slot(s int, rho, ready, ordered float64) {
	switch {
	case c.from < 0 && rho > ready:
		c.from, c.decided = s, -1
	case c.from < 0:
		return
	}
	if c.decided < 0 && ordered >= rho {
		c.decided = s
	}
	if ready >= rho {
		c.decide += float64(c.decided-c.from) * SlotSeconds
		c.took = append(c.took, float64(s-c.from)*SlotSeconds)
		c.from = -1
	}
}

func (c *crossings) latency() ScaleLatency {
	n := len(c.took)
	if n == 0 {
		return ScaleLatency{}
	}
	sort.Float64s(c.took)
	sum := 0.0
	for _, v := range c.took {
		sum += v
	}
	return ScaleLatency{Crossings: n, Decide: c.decide / float64(n), Start: (sum - c.decide) / float64(n), Mean: sum / float64(n), P95: c.took[min(n-1, n*95/100)]}
}
