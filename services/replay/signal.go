package replay

import (
	"math"
	"sort"
	"time"

	"plimsoll.dev/services/fleet"
)

// keepSamples is how many samples a signal keeps: fifteen minutes, as the service does.
const keepSamples = 15 * 60_000 / SampleMillis

// smActive is the mean SM activity of the ready replicas: it grows with the work done, while the coarse utilisation is near one as soon
// as a kernel runs.
func (l *workloadState) smActive() float64 {
	if l.cfg.GPUMilli == 0 || l.Running == 0 && l.Work == 0 {
		return 0
	}
	return l.cfg.Service.SMBase + (l.cfg.Service.SMFull-l.cfg.Service.SMBase)*l.Work
}

func (l *workloadState) gpuUtil() float64 {
	if l.cfg.GPUMilli == 0 || l.Running == 0 && l.Work == 0 {
		return 0
	}
	if l.cfg.Service.PrefillRate > 0 {
		return math.Min(1, 0.6+0.4*math.Sqrt(l.Batch))
	}
	return l.Work
}

func (l *workloadState) gpuMemory() float64 {
	return l.cfg.Service.GPUBaseMiB + l.cfg.Service.GPUBusyMiB*l.Batch
}

// cores in use by one replica.
func (l *workloadState) cores() float64 {
	s := l.cfg.Service
	perSecond := 0.0
	if l.ready > 0 {
		perSecond = l.Admitted / float64(l.ready)
	}
	return s.CPUIdle + s.CPUBusy*l.Work + s.CPUSeconds*perSecond
}

// minute is the last minute in numbers.
type minute struct {
	arrived, admitted, served, late, timedOut int64
	waits                                     [waitBuckets]int64
}

func (l *workloadState) lastMinute() minute {
	var m minute
	for i := range l.Ring {
		st := &l.Ring[i]
		m.arrived += st.Arrived
		m.admitted += st.Admitted
		m.served += st.Served
		m.late += st.Late
		m.timedOut += st.TimedOut
		for b, n := range st.Waits {
			m.waits[b] += int64(n)
		}
	}
	return m
}

// wait is a quantile of the waits of those admitted.
func (m *minute) wait(q float64) float64 {
	need := int64(math.Ceil(q * float64(m.admitted)))
	for b, n := range m.waits {
		if need -= n; need <= 0 {
			return bucketSeconds(b)
		}
	}
	return bucketSeconds(waitBuckets - 1)
}

// sample appends the present values to the signals. Slices that were handed out are never written to again.
func (l *workloadState) sample(now int64) {
	m := l.lastMinute()
	at := time.UnixMilli(now).UTC()
	starting := 0
	for _, p := range l.pods {
		if p.Phase == fleet.PodPending || p.Phase == fleet.PodPulling || p.Phase == fleet.PodLoading {
			starting++
		}
	}
	put := func(name fleet.SignalName, v float64) {
		l.put(name, fleet.Sample{At: at, Value: tidy(v), PodsReported: l.ready, PodsUnready: starting})
	}
	// The front door counts these; they exist without a ready replica.
	door := func(name fleet.SignalName, v float64) {
		l.put(name, fleet.Sample{At: at, Value: tidy(v), PodsReported: max(1, l.ready), PodsUnready: starting})
	}
	door(fleet.SignalRequestRate, float64(m.arrived)/60)
	door(fleet.SignalQueueLength, float64(l.Count.Waiting))
	age := 0.0
	if len(l.Queue) > 0 {
		age = float64(now-l.Queue[0].AtMS) / 1000
	}
	door(fleet.SignalQueueAge, age)
	door(fleet.SignalRunning, float64(l.Running))
	if ended := m.served + m.timedOut; ended > 0 {
		door(fleet.SignalErrorRatio, float64(m.timedOut)/float64(ended))
	}
	if started := m.admitted + m.timedOut; started > 0 {
		door(fleet.SignalLateRatio, float64(m.late)/float64(started))
	}
	if m.admitted > 0 {
		l.sampleLatency(&m, door)
	}
	if l.ready > 0 {
		l.sampleReplicas(put)
	}
}

func (l *workloadState) sampleLatency(m *minute, put func(fleet.SignalName, float64)) {
	s := l.cfg.Service
	// Service times are log-normal: mean Service, sigma Spread.
	median := l.Service * math.Exp(-s.Spread*s.Spread/2)
	tail := median * math.Exp(2.326*s.Spread)
	wait50, wait99 := m.wait(0.50), m.wait(0.99)
	put(fleet.SignalLatencyP50, wait50+median)
	put(fleet.SignalLatencyP99, math.Max(wait99+median, wait50+tail))
	if s.PrefillRate > 0 {
		put(fleet.SignalTTFTP99, wait99+2.5*l.TokensIn/s.PrefillRate/(1-l.Prefill))
		put(fleet.SignalTokensIn, float64(m.admitted)/60*l.TokensIn)
		put(fleet.SignalTokensOut, float64(m.served)/60*l.TokenOut)
	}
}

func (l *workloadState) sampleReplicas(put func(fleet.SignalName, float64)) {
	n := float64(l.ready)
	if l.cfg.GPUMilli > 0 {
		put(fleet.SignalGPUSM, l.smActive())
		put(fleet.SignalGPUUtil, l.gpuUtil())
		put(fleet.SignalGPUMemory, n*l.gpuMemory()*float64(l.cfg.GPUMilli)/1000)
	}
	if l.cfg.Service.KVCache {
		put(fleet.SignalKVCache, l.Batch*0.85)
	}
	put(fleet.SignalCPU, n*l.cores())
	put(fleet.SignalCPURatio, l.cores()*1000/float64(l.cfg.CPUMilli))
	put(fleet.SignalMemory, n*l.cfg.Service.MemoryMiB)
}

// tidy rounds to six significant decimals, so that values are short on the wire and the same after it. Averages that fade away end at zero.
func tidy(v float64) float64 {
	if math.Abs(v) < 1e-9 {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

func (l *workloadState) put(name fleet.SignalName, s fleet.Sample) {
	i := sort.Search(len(l.signals), func(i int) bool { return l.signals[i].Name >= name })
	if i == len(l.signals) || l.signals[i].Name != name {
		l.signals = append(l.signals, fleet.Signal{})
		copy(l.signals[i+1:], l.signals[i:])
		l.signals[i] = fleet.Signal{Name: name}
	}
	list := l.signals[i].Samples
	if len(list) >= keepSamples && len(list) == cap(list) {
		list = append(make([]fleet.Sample, 0, 4*keepSamples), list[len(list)-keepSamples+1:]...)
	}
	list = append(list, s)
	l.signals[i].Samples = list
}

// States describes every workload as a decision sees it, sorted by key, with the samples of the given past (at most fifteen minutes),
// oldest first. The caller may keep the result: later steps do not change it.
func (w *World) States(past time.Duration) []fleet.WorkloadState {
	oldest := w.Now().Add(-min(past, keepSamples*SampleMillis*time.Millisecond))
	states := make([]fleet.WorkloadState, 0, len(w.loads))
	for _, l := range w.loads {
		st := fleet.WorkloadState{Workload: l.cfg.Workload, Replicas: l.Desired}
		for _, p := range l.pods {
			switch p.Phase {
			case fleet.PodReady:
				st.Ready++
			case fleet.PodTerminating:
				st.Draining++
			default:
				st.Starting++
			}
		}
		st.Signals = make([]fleet.Signal, 0, len(l.signals))
		for _, s := range l.signals {
			list := s.Samples
			from := len(list)
			for from > 0 && list[from-1].At.After(oldest) {
				from--
			}
			list = list[from:]
			if len(list) > 0 {
				st.Signals = append(st.Signals, fleet.Signal{Name: s.Name, Samples: list[:len(list):len(list)]})
			}
		}
		states = append(states, st)
	}
	sort.Slice(states, func(i, j int) bool { return states[i].Workload.Key < states[j].Workload.Key })
	return states
}
