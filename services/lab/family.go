package lab

import (
	"math"
	"strconv"
	"strings"

	"plimsoll.dev/services/optimizer/quantile"
)

// Family is a baseline with the one number that its operator sets. A policy's name is the family's and the target: hpa-85.
type Family struct {
	Name    string
	Means   string // what the target is
	Default int
	Targets []int // tried in hindsight
	New     func(target int, t *Trace, cfg Config) Policy
}

// targets from low to high in steps.
func targets(low, high, step int) []int {
	out := []int{}
	for v := low; v <= high; v += step {
		out = append(out, v)
	}
	return out
}

func percent(v int) float64 { return float64(v) / 100 }

// Families are the baselines of the field, each cited where it is implemented. What a fleet's operator would set is the target; all else
// is as the source has it.
func Families() []Family {
	useTargets := targets(30, 100, 5)
	queueTargets := []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}
	return []Family{
		{Name: "static", Means: "replicas in per cent of the peak of the judged span", Default: 100, Targets: targets(20, 100, 5),
			New: func(v int, t *Trace, _ Config) Policy { return fixed(math.Ceil(percent(v) * math.Ceil(t.Peak()))) }},
		{Name: "hpa", Means: "utilisation, %", Default: 70, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newHPA(percent(v), 0) }},
		{Name: "hpa+queue", Means: "utilisation, %, with 4 waiting requests per replica", Default: 70, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newHPA(percent(v), 4) }},
		{Name: "hpa+inflight", Means: "utilisation and requests in flight, % of the batch", Default: 70, Targets: useTargets,
			New: func(v int, t *Trace, _ Config) Policy { return newHPAInFlight(percent(v), t) }},
		{Name: "hpa-queue", Means: "waiting requests per replica", Default: 4, Targets: queueTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newHPA(0, float64(v)) }},
		{Name: "hpa-queue-value", Means: "waiting requests, as a plain value", Default: 4, Targets: queueTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newHPAQueueValue(float64(v)) }},
		{Name: "keda-queue", Means: "waiting requests per replica", Default: 5, Targets: queueTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newKEDAQueue(float64(v)) }},
		{Name: "keda-inflight", Means: "requests in flight, % of the batch", Default: 70, Targets: useTargets,
			New: func(v int, t *Trace, _ Config) Policy { return newKEDA(percent(v), t) }},
		{Name: "knative-kpa", Means: "concurrency, % of the batch", Default: 70, Targets: useTargets,
			New: func(v int, t *Trace, _ Config) Policy { return newKnative(percent(v), t) }},
		{Name: "aibrix-apa", Means: "concurrency, % of the batch", Default: 70, Targets: useTargets,
			New: func(v int, t *Trace, _ Config) Policy { return newAIBrix(percent(v), t) }},
		{Name: "aws-tracking", Means: "utilisation, %", Default: 70, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newTracking(percent(v)) }},
		{Name: "aws-predictive", Means: "utilisation, %", Default: 70, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newPredictive(percent(v)) }},
		{Name: "azure-predictive", Means: "utilisation, %", Default: 70, Targets: useTargets,
			New: func(v int, _ *Trace, cfg Config) Policy { return newAzure(percent(v), cfg.ColdSlots) }},
		{Name: "llmd-wva", Means: "cache use at which a replica is saturated, %", Default: 80, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newVariant(percent(v)) }},
		{Name: "llmd-wva-model", Means: "mean wait of the queueing model, ms", Default: 500, Targets: []int{1, 5, 20, 50, 100, 200, 500, 1000, 2000, 5000},
			New: func(v int, t *Trace, _ Config) Policy { return newVariantModel(float64(v)/1000, t) }},
		{Name: "dynamo-load", Means: "cache use that adds a worker, %", Default: 90, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newDynamoLoad(percent(v)) }},
		{Name: "dynamo-sla", Means: "share of a worker's throughput that the profile allows, %", Default: 100, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newDynamoSLA(percent(v), false) }},
		{Name: "dynamo-sla-trend", Means: "share of a worker's throughput that the profile allows, %", Default: 100, Targets: useTargets,
			New: func(v int, _ *Trace, _ Config) Policy { return newDynamoSLA(percent(v), true) }},
		{Name: "autopilot", Means: "utilisation, %", Default: 80, Targets: targets(50, 200, 10),
			New: func(v int, _ *Trace, _ Config) Policy { return newAutopilot(percent(v)) }},
		{Name: "autopilot-decay", Means: "percentile of the load-weighted use", Default: 95, Targets: []int{30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 100},
			New: func(v int, _ *Trace, _ Config) Policy { return newMovingWindow(percent(v)) }},
		{Name: "queue-latency", Means: "requests in flight, % of the batch, beside the latency rule", Default: 70, Targets: useTargets,
			New: func(v int, t *Trace, _ Config) Policy { return newQueueLatency(percent(v), t) }},
	}
}

// maxTarget bounds what a name may ask for.
const maxTarget = 10_000

// targeted makes a policy of a family with the target that its name ends in.
func targeted(name string) (Entry, bool) {
	for _, f := range Families() {
		rest, ok := strings.CutPrefix(name, f.Name+"-")
		if !ok {
			continue
		}
		target, err := strconv.Atoi(rest)
		if err != nil || target < 1 || target > maxTarget {
			continue
		}
		return f.Entry(target), true
	}
	return underObjective(name)
}

// mostObjective is the laxest objective that ours is played under, in hundredths of a per cent of requests late.
const mostObjective = 1000

// underObjective is plimsoll-cq under another objective than 1 %: plimsoll-cq-5 allows five hundredths of a per cent of requests to be late. As in production it
// aims at nine tenths of the objective. It is no family of Families: hindsight tunes the baselines, not ours.
func underObjective(name string) (Entry, bool) {
	rest, ok := strings.CutPrefix(name, "plimsoll-cq-")
	if !ok {
		return Entry{}, false
	}
	objective, err := strconv.Atoi(rest)
	if err != nil || objective < 1 || objective > mostObjective {
		return Entry{}, false
	}
	late := 0.9 * float64(objective) / 10_000
	return Entry{Name: "plimsoll-cq-" + strconv.Itoa(objective), New: func(_ *Trace, cfg Config) Policy { return NewCQ(quantile.Params{Late: late}, cfg.ColdSlots) }}, true
}

// Entry is the family with a target.
func (f *Family) Entry(target int) Entry {
	return Entry{Name: f.Name + "-" + strconv.Itoa(target), New: func(t *Trace, cfg Config) Policy { return f.New(target, t, cfg) }}
}
