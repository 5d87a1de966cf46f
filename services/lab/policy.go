package lab

import (
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer/quantile"
)

// Entry is a policy of the scoreboard.
type Entry struct {
	Name string
	// Oracle marks what no real policy can be: it sees the future.
	Oracle bool
	New    func(t *Trace, cfg Config) Policy
}

// Policies of the scoreboard, in its order.
func Policies() []Entry {
	return []Entry{
		{Name: "static-peak", New: func(t *Trace, _ Config) Policy { return newStaticPeak(t) }},
		{Name: "hpa-50", New: func(*Trace, Config) Policy { return newHPA(0.5, 0) }},
		{Name: "hpa-70", New: func(*Trace, Config) Policy { return newHPA(0.7, 0) }},
		{Name: "hpa-70+queue", New: func(*Trace, Config) Policy { return newHPA(0.7, 4) }},
		{Name: "hpa-70+inflight", New: func(t *Trace, _ Config) Policy { return newHPAInFlight(0.7, t) }},
		{Name: "hpa-queue", New: func(*Trace, Config) Policy { return newHPA(0, 4) }},
		{Name: "hpa-queue-value", New: func(*Trace, Config) Policy { return newHPAQueueValue(4) }},
		{Name: "keda-queue", New: func(*Trace, Config) Policy { return newKEDAQueue(5) }},
		{Name: "keda-inflight", New: func(t *Trace, _ Config) Policy { return newKEDA(0.7, t) }},
		{Name: "knative-kpa", New: func(t *Trace, _ Config) Policy { return newKnative(0.7, t) }},
		{Name: "aibrix-apa", New: func(t *Trace, _ Config) Policy { return newAIBrix(0.7, t) }},
		{Name: "aws-tracking", New: func(*Trace, Config) Policy { return newTracking(0.7) }},
		{Name: "aws-predictive", New: func(*Trace, Config) Policy { return newPredictive(0.7) }},
		{Name: "azure-predictive", New: func(_ *Trace, cfg Config) Policy { return newAzure(0.7, cfg.ColdSlots) }},
		{Name: "llmd-wva", New: func(*Trace, Config) Policy { return newVariant(0.8) }},
		{Name: "llmd-wva-model", New: func(t *Trace, _ Config) Policy { return newVariantModel(0.5, t) }},
		{Name: "dynamo-load", New: func(*Trace, Config) Policy { return newDynamoLoad(0.9) }},
		{Name: "dynamo-sla", New: func(*Trace, Config) Policy { return newDynamoSLA(1, false) }},
		{Name: "dynamo-sla-trend", New: func(*Trace, Config) Policy { return newDynamoSLA(1, true) }},
		{Name: "autopilot", New: func(*Trace, Config) Policy { return newAutopilot(0.8) }},
		{Name: "autopilot-decay", New: func(*Trace, Config) Policy { return newMovingWindow(0.95) }},
		{Name: "queue-latency", New: func(t *Trace, _ Config) Policy { return newQueueLatency(0.7, t) }},
		{Name: "naive", New: func(*Trace, Config) Policy { return naive{} }},
		{Name: "plimsoll-cq", New: func(_ *Trace, cfg Config) Policy { return NewCQ(quantile.Params{}, cfg.ColdSlots) }},
		{Name: "oracle", Oracle: true, New: func(t *Trace, cfg Config) Policy { return newOracle(t, cfg.ColdSlots) }},
	}
}

// Named finds policies by name, in the given order; none given means all of the scoreboard. Every family of Families
// also comes with another target: hpa-85, keda-inflight-90, llmd-wva-model-200; and ours with another objective, in hundredths of a per cent of requests late:
// plimsoll-cq-5.
func Named(names []string) ([]Entry, error) {
	all := Policies()
	if len(names) == 0 {
		return all, nil
	}
	out := []Entry{}
	for _, n := range names {
		if i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == n }); i >= 0 {
			out = append(out, all[i])
			continue
		}
		e, ok := targeted(n)
		if !ok {
			known := []string{}
			for _, e := range all {
				known = append(known, e.Name)
			}
			return nil, fleet.Errorf(fleet.CodeInvalid, "there is no policy %q; there are %s", n, strings.Join(known, ", "))
		}
		out = append(out, e)
	}
	return out, nil
}
