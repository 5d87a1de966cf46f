package replay

import (
	"math"

	"plimsoll.dev/services/fleet"
)

const (
	stepSeconds = StepMillis / 1000.0
	window      = 12 // steps over which rates and percentiles are measured: one minute
)

// workloadState is a workload's queue, replicas and recent past. Exported fields are saved.
type workloadState struct {
	Desired  int
	Queue    []cohort
	Running  int64   // requests in service
	Carry    float64 // part of a completion not yet counted
	TokensIn float64 // smoothed means of what is served
	TokenOut float64
	Admitted float64 // smoothed requests admitted per second
	Service  float64 // seconds a request takes now
	Work     float64 // share of the ready replicas' capacity in use
	Batch    float64 // share of the slots in use
	Prefill  float64 // share of capacity spent on prompts
	Ring     [window]stepStats
	Count    Count
	Starts   int64
	StartMS  int64 // sum over Starts of created to ready
	Sums     sums

	index   uint64
	cfg     *Workload
	pools   []*poolState
	pods    []*pod
	signals []fleet.Signal
	ready   int
	eff     float64 // ready replicas, those still warming counted in part
}

// cohort is the requests that arrived in one step.
type cohort struct {
	AtMS int64
	N    int64
}

// Count is the book of a workload's requests. Arrived = Served + Waiting + InService + TimedOut, always.
type Count struct {
	Arrived, Served, Waiting, InService, TimedOut int64
	Late                                          int64 // started later than the objective; part of the others
	Requeued                                      int64 // in service on a replica that was lost, waiting again
}

// stepStats is what one step saw.
type stepStats struct {
	Arrived, Admitted, Served, Late, TimedOut int64
	Waits                                     [waitBuckets]int32
}

// Waits fall into buckets of a fifth of an octave from 50 ms up; the first is "at once".
const waitBuckets = 96

func waitBucket(seconds float64) int {
	if seconds < 0.05 {
		return 0
	}
	return min(waitBuckets-1, 1+int(5*math.Log2(seconds/0.05)))
}

func bucketSeconds(i int) float64 {
	if i == 0 {
		return 0.02
	}
	return 0.05 * math.Exp2((float64(i)-0.5)/5)
}

// serve lets requests arrive, give up, be admitted and completed for one step. The queue is first in, first out; the requests in
// service follow dR/dt = admitted - R/S, solved exactly over the step, and stay whole numbers.
func (w *World) serve(l *workloadState) error {
	load := l.cfg.Traffic.At(w.now - StepMillis)
	if err := checkLoad(load); err != nil {
		return err
	}
	st := &l.Ring[w.now/StepMillis%window]
	*st = stepStats{Arrived: poisson(load.Rate*stepSeconds, draw(w.cfg.Seed, forArrivals, l.index, uint64(w.now/StepMillis)))}
	l.arrive(w.now-StepMillis/2, st.Arrived, load)
	l.giveUp(w.now, st)
	holders := l.capacity(w.now)
	l.requeue(w.now, holders)
	l.Service = l.serviceSeconds(holders)
	l.flow(w.now, st)
	l.measure()
	return nil
}

func (l *workloadState) arrive(at, n int64, load Load) {
	if n == 0 {
		return
	}
	l.Count.Arrived += n
	l.Count.Waiting += n
	if len(l.Queue) >= maxCohorts {
		l.Queue[len(l.Queue)-1].N += n
	} else {
		l.Queue = append(l.Queue, cohort{at, n})
	}
	if l.TokensIn == 0 {
		l.TokensIn, l.TokenOut = load.TokensIn, load.TokensOut
	}
	l.TokensIn += 0.2 * (load.TokensIn - l.TokensIn)
	l.TokenOut += 0.2 * (load.TokensOut - l.TokenOut)
}

// giveUp drops those who waited too long.
func (l *workloadState) giveUp(now int64, st *stepStats) {
	if l.cfg.Service.TimeoutSeconds == 0 {
		return
	}
	limit, k := now-int64(1000*l.cfg.Service.TimeoutSeconds), 0
	for ; k < len(l.Queue) && l.Queue[k].AtMS < limit; k++ {
		n := l.Queue[k].N
		l.Count.Waiting -= n
		l.Count.TimedOut += n
		l.Count.Late += n
		st.TimedOut += n
		st.Late += n
	}
	l.Queue = l.Queue[k:]
}

// capacity counts ready replicas, in whole and with their warm-up, and says how many hold requests, draining ones included.
func (l *workloadState) capacity(now int64) (holders int) {
	l.ready, l.eff = 0, 0
	warm := 1000 * l.cfg.Startup.WarmSeconds
	for _, p := range l.pods {
		switch {
		case p.Phase == fleet.PodReady:
			l.ready++
			share := 1.0
			if age := float64(now - p.ReadyMS); age < warm {
				share = l.cfg.Startup.WarmFrom + (1-l.cfg.Startup.WarmFrom)*age/warm
			}
			l.eff += share
		case p.Phase == fleet.PodTerminating && p.Served:
			holders++
		}
	}
	return holders + l.ready
}

// requeue puts the requests of lost replicas back to the head of the queue.
func (l *workloadState) requeue(now int64, holders int) {
	lost := l.Running - int64(holders*l.cfg.Service.Slots)
	if lost <= 0 {
		return
	}
	at := now
	if len(l.Queue) > 0 {
		at = l.Queue[0].AtMS
	}
	l.Queue = append([]cohort{{at, lost}}, l.Queue...)
	l.Running -= lost
	l.Count.InService -= lost
	l.Count.Waiting += lost
	l.Count.Requeued += lost
}

// serviceSeconds is how long a request takes at the present batch. For tokens: prompts are read at PrefillRate and slow the decoding of
// the others by the share of time they take; the time per token grows with the batch. A full batch then yields PrefillRate and
// Slots/TokenSeconds as the two saturated rates.
func (l *workloadState) serviceSeconds(holders int) float64 {
	s := l.cfg.Service
	if s.PrefillRate == 0 {
		return s.Seconds
	}
	eff := math.Max(l.eff, float64(holders-l.ready))
	if eff == 0 {
		return math.Max(l.Service, s.TokenSeconds)
	}
	batch := math.Min(1, float64(l.Running)/(eff*float64(s.Slots)))
	perToken := s.TokenSeconds1 + (s.TokenSeconds-s.TokenSeconds1)*batch
	l.Prefill = math.Min(0.95, l.Admitted*l.TokensIn/s.PrefillRate/eff)
	return math.Max(0.01, (l.TokensIn/s.PrefillRate+l.TokenOut*perToken)/(1-l.Prefill))
}

// capacityPerSecond is how many requests the ready replicas complete per second at most: the prompt and the output of each take their
// share of a replica.
func (l *workloadState) capacityPerSecond() float64 {
	s := l.cfg.Service
	if s.PrefillRate == 0 {
		return math.Inf(1) // the slots alone are the limit
	}
	return l.eff / math.Max(1e-6, l.TokensIn/s.PrefillRate+l.TokenOut*s.TokenSeconds/float64(s.Slots))
}

// flow admits and completes.
func (l *workloadState) flow(now int64, st *stepStats) {
	slots := int64(l.eff * float64(l.cfg.Service.Slots))
	before, waiting := float64(l.Running), float64(l.Count.Waiting)
	fade := math.Exp(-stepSeconds / l.Service)
	// If everybody who waits is let in evenly over the step, this many run at its end:
	after := before*fade + waiting/stepSeconds*l.Service*(1-fade)
	completed := before + waiting - after
	switch {
	case before > float64(slots): // replicas went away: only completions make room
		completed = before * (1 - fade)
	case after > float64(slots): // full
		completed = (before + float64(slots)) / 2 * stepSeconds / l.Service
	}
	if before <= float64(slots) {
		completed = math.Min(completed, l.capacityPerSecond()*stepSeconds)
	}
	l.Carry += completed
	done := min(int64(l.Carry), l.Running+l.Count.Waiting)
	admitted := min(l.Count.Waiting, max(0, slots-l.Running+done))
	done = min(done, l.Running+admitted)
	l.Carry = math.Min(1, l.Carry-float64(done))
	l.admit(now, admitted, st)
	l.Running += admitted - done
	l.Count.InService = l.Running
	l.Count.Waiting -= admitted
	l.Count.Served += done
	st.Served, st.Admitted = done, admitted
	l.Admitted += 0.3 * (float64(admitted)/stepSeconds - l.Admitted)
}

// admit takes n requests off the head of the queue and notes how long they waited.
func (l *workloadState) admit(now, n int64, st *stepStats) {
	for n > 0 {
		head := &l.Queue[0]
		take := min(n, head.N)
		wait := float64(now-StepMillis/2-head.AtMS) / 1000
		if wait <= 0 {
			wait = l.shortWait()
		}
		st.Waits[waitBucket(wait)] += int32(min(take, math.MaxInt32/2))
		if wait > l.cfg.Service.LateSeconds {
			st.Late += take
			l.Count.Late += take
		}
		head.N -= take
		n -= take
		if head.N == 0 {
			l.Queue = l.Queue[1:]
		}
	}
}

// shortWait is the wait within a step, which the step itself cannot resolve: Sakasegawa's approximation for many servers (1977).
func (l *workloadState) shortWait() float64 {
	slots := l.eff * float64(l.cfg.Service.Slots)
	if slots < 1 {
		return stepSeconds / 2
	}
	use := math.Min(0.98, l.Batch)
	return math.Min(stepSeconds/2, l.Service/slots*math.Pow(use, math.Sqrt(2*(slots+1))-1)/(1-use))
}

// measure refreshes how busy the replicas are.
func (l *workloadState) measure() {
	s := l.cfg.Service
	l.Work, l.Batch = 0, 0
	if l.eff == 0 {
		return
	}
	slots := l.eff * float64(s.Slots)
	l.Batch = math.Min(1, float64(l.Running)/slots)
	if s.PrefillRate > 0 {
		l.Work = math.Min(1, l.Admitted*(l.TokensIn/s.PrefillRate+l.TokenOut*s.TokenSeconds/float64(s.Slots))/l.eff)
	} else {
		l.Work = math.Min(1, math.Max(l.Batch, l.Admitted*s.Seconds/slots)) // short services: what ran during the step
	}
	l.Sums.add(l)
}
