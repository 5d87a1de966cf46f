package optimizer

import (
	"errors"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// Beginning says why a workload's learning began when it did.
type Beginning string

// Beginnings. All but the first threw away what was known, which says so in the decisions of the first hour.
const (
	BeganNew     Beginning = "new"     // nothing was kept
	BeganDamaged Beginning = "damaged" // what was kept could not be read
	BeganVersion Beginning = "version" // it was kept by another version of the policy
	BeganShape   Beginning = "shape"   // replicas take another time to start, by the policy or by measurement
	BeganClock   Beginning = "clock"   // the cluster's clock went back by more than an hour
)

// Learner is what is known of one workload. Learning is a step of its own before a decision: its outcome, the Forecast, is part of the
// decision's input.
type Learner struct {
	Policy *quantile.Policy
	Began  Beginning
	Kept   int64 // the next slot to learn when it was last kept; -1: never
	params quantile.Params
}

// keepEvery is after how many slots a learner is to be kept again: five minutes. What comes after it is learned again from the snapshot,
// whose signals reach further back than that.
const keepEvery = 300 / quantile.SlotSeconds

// NewLearner makes a learner of what was kept of it; none, or nothing usable, gives one that knows nothing. It never fails. measured is
// the start of the workload's replicas in seconds, 0 when it is not known (any more).
func NewLearner(kept []byte, began Beginning, s *SLO, class string, measured int) *Learner {
	params := s.params(class, s.start(measured, quantile.KeptColdSlots(kept)*quantile.SlotSeconds))
	if len(kept) == 0 {
		return &Learner{Policy: quantile.New(params), Began: BeganNew, Kept: -1, params: params}
	}
	p, err := quantile.Decode(kept, params)
	switch {
	case err == nil:
		return &Learner{Policy: p, Began: began, Kept: p.Next(), params: params}
	case errors.Is(err, quantile.ErrVersion):
		began = BeganVersion
	case errors.Is(err, quantile.ErrShape):
		began = BeganShape
	default:
		began = BeganDamaged
	}
	return &Learner{Policy: quantile.New(params), Began: began, Kept: -1, params: params}
}

// LearnAll brings every learner up to the snapshot's time and puts their forecasts into the input. It makes learners of what is kept for
// the workloads with an SLO rule; of the others nothing is learned. The input's maps are not written to.
func LearnAll(in Input, learner func(id fleet.WorkloadID, s *SLO, class string) *Learner) (Input, map[fleet.WorkloadID]*Learner) {
	var learners map[fleet.WorkloadID]*Learner
	for i := range in.Snapshot.Workloads {
		w := &in.Snapshot.Workloads[i]
		b, ok := in.Policies[w.Workload.ID]
		if !ok || b.Policy.SLO == nil {
			continue
		}
		p := b.Policy.WithDefaults()
		if !p.computable() {
			continue
		}
		if learners == nil {
			learners, in.Forecasts = map[fleet.WorkloadID]*Learner{}, map[fleet.WorkloadID]Forecast{}
		}
		l := learner(w.Workload.ID, p.SLO, w.Workload.Class)
		learners[w.Workload.ID] = l
		if f := l.Learn(w, p.SLO, seconds(p.MaxSignalAgeSeconds), in.Snapshot.Now); f != nil {
			in.Forecasts[w.Workload.ID] = *f
		}
	}
	return in, learners
}

// Due says whether the learner is to be kept now.
func (l *Learner) Due() bool { return l.Kept < 0 || l.Policy.Next()-l.Kept >= keepEvery }

// Learn takes what the snapshot shows of every slot that is over, and returns the forecast to decide with; nil when nothing was ever seen.
// Slots in which a signal says nothing are passed over: the forecast then grows old, and nobody goes down by it.
func (l *Learner) Learn(w *fleet.WorkloadState, s *SLO, maxAge time.Duration, now time.Time) *Forecast {
	last := now.Unix()/quantile.SlotSeconds - 1
	first := last - maxSlotsSeen + 1
	if next := l.Policy.Next(); next > last+hourSeconds/quantile.SlotSeconds {
		l.Policy, l.Began, l.Kept = quantile.New(l.params), BeganClock, -1
	}
	if l.Policy.Next() > 0 {
		first = max(first, l.Policy.Next())
	}
	t := telemetry{per: s.RequestsPerReplica, maxAge: maxAge}
	for i, name := range [...]fleet.SignalName{fleet.SignalRunning, fleet.SignalQueueLength, fleet.SignalRequestRate} {
		sig := w.Signal(name)
		t.samples[i] = inOrder(sig.Samples)
		if sig.Conflicting {
			t.samples[i] = nil
		}
	}
	for slot := max(first, 1); slot <= last; slot++ {
		g, ok := t.at(slot)
		if !ok {
			continue
		}
		if l.Policy.Next() == 0 {
			l.Policy.Begin(slot)
		}
		l.Policy.Skip(slot - l.Policy.Next())
		l.Policy.Step(g)
	}
	if l.Policy.Next() == 0 {
		return nil
	}
	return &Forecast{At: time.Unix(l.Policy.Next()*quantile.SlotSeconds, 0).UTC(), Began: l.Began, Aim: s.Aim(w.Workload.Class), Outlook: l.Policy.Outlook()}
}

// maxSlotsSeen bounds how much is learned at once: a quarter of an hour, as far back as a snapshot reaches.
const maxSlotsSeen = 900 / quantile.SlotSeconds

// telemetry turns samples into the gauges of slots. It walks forward.
type telemetry struct {
	per     float64
	maxAge  time.Duration
	samples [3][]fleet.Sample // running, waiting, rate; in order
	next    [3]int            // the first that is not older than the slots so far
}

// at is what is known of a slot: the mean of the requests in service, the newest of the others. A slot without a sample of its own has the
// newest before it, if that is not too old.
func (t *telemetry) at(slot int64) (quantile.Gauges, bool) {
	from := time.Unix(slot*quantile.SlotSeconds, 0)
	to := from.Add(quantile.SlotSeconds * time.Second)
	var newest [3]fleet.Sample
	sum, n := 0.0, 0
	for i := range t.samples {
		list := t.samples[i]
		for t.next[i] < len(list) && !list[t.next[i]].At.After(to) {
			if s := list[t.next[i]]; i == 0 && s.At.After(from) && usable(s) {
				v, ok := whole(s)
				if ok {
					sum, n = sum+v, n+1
				}
			}
			t.next[i]++
		}
		found := false
		for j := t.next[i] - 1; j >= 0 && to.Sub(list[j].At) <= t.maxAge && !found; j-- {
			if usable(list[j]) {
				newest[i], found = list[j], true
			}
		}
		if !found {
			return quantile.Gauges{}, false
		}
	}
	running, ok := whole(newest[0])
	waiting, known := whole(newest[1])
	if !ok || !known {
		return quantile.Gauges{}, false
	}
	if n > 0 {
		running = sum / float64(n)
	}
	// What is in service beyond what the replicas can serve in time waits, in truth.
	if pods := newest[0].PodsReported + newest[0].PodsMissing; pods > 0 {
		over := max(0, running-t.per*float64(pods))
		running, waiting = running-over, waiting+over
	}
	return quantile.Gauges{Busy: min(running/t.per, maxReplicas), Queue: min(waiting, maxWaiting), Rate: min(newest[2].Value, maxWaiting)}, true
}

// maxWaiting bounds requests: beyond it something is broken.
const maxWaiting = 1e9

// whole is a total with the pods that gave no value counted like those that did.
func whole(s fleet.Sample) (float64, bool) {
	switch {
	case s.PodsMissing == 0:
		return s.Value, true
	case s.PodsReported == 0:
		return 0, false
	}
	return s.Value * float64(s.PodsReported+s.PodsMissing) / float64(s.PodsReported), true
}
