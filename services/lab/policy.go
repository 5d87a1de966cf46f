package lab

import (
	"slices"
	"strconv"
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
		{Name: "hpa-queue", New: func(*Trace, Config) Policy { return newHPA(0, 4) }},
		{Name: "keda-inflight", New: func(t *Trace, _ Config) Policy { return newKEDA(0.7, t) }},
		{Name: "knative-kpa", New: func(t *Trace, _ Config) Policy { return newKnative(0.7, t) }},
		{Name: "aibrix-apa", New: func(t *Trace, _ Config) Policy { return newAIBrix(t) }},
		{Name: "aws-tracking", New: func(*Trace, Config) Policy { return newTracking(0.7) }},
		{Name: "aws-predictive", New: func(*Trace, Config) Policy { return newPredictive(0.7) }},
		{Name: "naive", New: func(*Trace, Config) Policy { return naive{} }},
		{Name: "plimsoll-cq", New: func(_ *Trace, cfg Config) Policy { return NewCQ(quantile.Params{}, cfg.ColdSlots) }},
		{Name: "oracle", Oracle: true, New: func(t *Trace, cfg Config) Policy { return newOracle(t, cfg.ColdSlots) }},
	}
}

// Named finds policies by name, in the given order; none given means all of the scoreboard. The families hpa, hpa+queue, keda-inflight,
// knative-kpa, aws-tracking and aws-predictive also come with another target in per cent: hpa-85, keda-inflight-90.
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

// targeted makes a policy of a family with the target that its name ends in.
func targeted(name string) (Entry, bool) {
	cut := strings.LastIndexByte(name, '-')
	if cut < 0 {
		return Entry{}, false
	}
	percent, err := strconv.Atoi(name[cut+1:])
	if err != nil || percent < 1 || percent > 100 {
		return Entry{}, false
	}
	target := float64(percent) / 100
	families := map[string]func(*Trace) Policy{
		"hpa":            func(*Trace) Policy { return newHPA(target, 0) },
		"hpa+queue":      func(*Trace) Policy { return newHPA(target, 4) },
		"keda-inflight":  func(t *Trace) Policy { return newKEDA(target, t) },
		"knative-kpa":    func(t *Trace) Policy { return newKnative(target, t) },
		"aws-tracking":   func(*Trace) Policy { return newTracking(target) },
		"aws-predictive": func(*Trace) Policy { return newPredictive(target) },
	}
	f, ok := families[name[:cut]]
	return Entry{Name: name, New: func(t *Trace, _ Config) Policy { return f(t) }}, ok
}
