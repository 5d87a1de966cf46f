package lab

import (
	"fmt"
	"slices"

	"plimsoll.dev/services/fleet"
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
		{Name: "hpa-queue", New: func(*Trace, Config) Policy { return newHPA(0, 4) }},
		{Name: "keda-inflight", New: func(t *Trace, _ Config) Policy { return newKEDA(0.7, t) }},
		{Name: "knative-kpa", New: func(t *Trace, _ Config) Policy { return newKnative(t) }},
		{Name: "aibrix-apa", New: func(t *Trace, _ Config) Policy { return newAIBrix(t) }},
		{Name: "aws-tracking", New: func(*Trace, Config) Policy { return newTracking(0.7) }},
		{Name: "aws-predictive", New: func(*Trace, Config) Policy { return newPredictive(0.7) }},
		{Name: "naive", New: func(*Trace, Config) Policy { return naive{} }},
		{Name: "plimsoll-cq", New: func(_ *Trace, cfg Config) Policy { return NewCQ(CQConfig{}, cfg.ColdSlots) }},
		{Name: "oracle", Oracle: true, New: func(t *Trace, cfg Config) Policy { return newOracle(t, cfg.ColdSlots) }},
	}
}

// Named finds policies by name, in the given order; none given means all.
func Named(names []string) ([]Entry, error) {
	all := Policies()
	if len(names) == 0 {
		return all, nil
	}
	out := []Entry{}
	for _, n := range names {
		i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == n })
		if i < 0 {
			known := []string{}
			for _, e := range all {
				known = append(known, e.Name)
			}
			return nil, fleet.Errorf(fleet.CodeInvalid, "there is no policy %q; there are %s", n, fmt.Sprint(known))
		}
		out = append(out, all[i])
	}
	return out, nil
}
