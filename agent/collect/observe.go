package collect

import (
	"math"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

const (
	movedBy         = 0.2  // a signal that moved by a fifth is reported at once
	movedAtLeast    = 0.01 // in its own unit: noise around zero is no move
	conflictRatio   = 0.5  // two sources that differ by more than half disagree
	observationPart = 500  // workloads in one report
)

// merge joins the observations of several sources by workload, sorted. Counts come from the source that has them; the first
// source of a signal wins, and when a later one disagrees with it the signal is marked as conflicting.
func merge(batches []Batch) []*agentv1.WorkloadObservation {
	all := map[string]*agentv1.WorkloadObservation{}
	for _, b := range batches {
		for _, w := range b.Workloads {
			have := all[w.GetWorkload()]
			if have == nil {
				all[w.GetWorkload()] = proto.Clone(w).(*agentv1.WorkloadObservation)
				continue
			}
			if w.GetReplicas() != 0 || w.GetReady() != 0 || w.GetStarting() != 0 || w.GetDraining() != 0 {
				have.Replicas, have.Ready, have.Starting, have.Draining = w.GetReplicas(), w.GetReady(), w.GetStarting(), w.GetDraining()
			}
			for _, s := range w.GetSignals() {
				addSignal(have, s)
			}
		}
	}
	out := make([]*agentv1.WorkloadObservation, 0, len(all))
	for _, k := range sortedKeys(all) {
		out = append(out, all[k])
	}
	return out
}

func addSignal(w *agentv1.WorkloadObservation, s *agentv1.Signal) {
	for _, have := range w.GetSignals() {
		if have.GetName() == s.GetName() {
			if larger := math.Max(math.Abs(have.GetValue()), math.Abs(s.GetValue())); larger > movedAtLeast &&
				math.Abs(have.GetValue()-s.GetValue()) > conflictRatio*larger {
				have.Conflicting = true
			}
			return
		}
	}
	w.Signals = append(w.Signals, proto.Clone(s).(*agentv1.Signal))
}

// moved says whether anything changed enough since the last report to be told at once.
func moved(last, now []*agentv1.WorkloadObservation) bool {
	before := byKey(last, (*agentv1.WorkloadObservation).GetWorkload)
	if len(before) != len(now) {
		return true
	}
	for _, w := range now {
		old, ok := before[w.GetWorkload()]
		if !ok || old.GetReplicas() != w.GetReplicas() || old.GetReady() != w.GetReady() || len(old.GetSignals()) != len(w.GetSignals()) {
			return true
		}
		signals := byKey(old.GetSignals(), (*agentv1.Signal).GetName)
		for _, s := range w.GetSignals() {
			o, ok := signals[s.GetName()]
			if !ok || movedSignal(o.GetValue(), s.GetValue()) || o.GetConflicting() != s.GetConflicting() {
				return true
			}
		}
	}
	return false
}

func movedSignal(a, b float64) bool {
	d := math.Abs(b - a)
	return d > movedAtLeast && d >= movedBy*math.Abs(a)
}

// workloadValues are the observations as bulk telemetry.
func workloadValues(ws []*agentv1.WorkloadObservation) []Value {
	var out []Value
	for _, w := range ws {
		k := w.GetWorkload()
		out = append(out, Value{KindWorkload, k, "replicas", float64(w.GetReplicas())},
			Value{KindWorkload, k, "ready", float64(w.GetReady())}, Value{KindWorkload, k, "starting", float64(w.GetStarting())})
		for _, s := range w.GetSignals() {
			out = append(out, Value{KindWorkload, k, s.GetName(), s.GetValue()})
		}
	}
	return out
}
