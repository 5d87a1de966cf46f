// Package collect reads what a cluster does and turns it into reports: observations that decisions are made from, inventory,
// events, and frames of bulk telemetry. Silence is never zero: what did not answer is counted as unready or missing. It may
// never act, never decide, and never keep more in memory than its bounds say.
package collect

import (
	"context"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Source reads one kind of thing. It is called from one goroutine at a time and must return before ctx ends.
type Source interface {
	// Name is a short word for logs and metrics.
	Name() string
	Collect(ctx context.Context, in Input) (Batch, error)
}

// Input is what a source is told at each call.
type Input struct {
	NowMS int64 // the cluster's clock
	Pods  []Pod // replicas known from the inventory, sorted by namespace and name
	// Devices says which pod holds which GPU, by UUID; nil: the kubelet was not asked or did not answer.
	Devices map[string]PodRef
	// Loose are the holders of MIG instances that no number is known of, by profile.
	Loose map[string][]PodRef
}

// Pod is what sources must know about a replica to read it.
type Pod struct {
	UID, Namespace, Name, IP, Node, Workload string
	Labels, Annotations                      map[string]string
	Ready                                    bool
	CPUMilli                                 int64 // requested
}

// Batch is what a source read. Zero fields mean that it has nothing to say about them.
type Batch struct {
	AtMS      int64   // the cluster's clock as this source knows it; 0: no clock of its own
	Speed     float64 // of a simulated clock; 0: real time
	Inventory *agentv1.Inventory
	Pods      []Pod
	Devices   map[string]PodRef
	Loose     map[string][]PodRef
	Holdings  *agentv1.GPUHoldings // of the node; nil: nothing was said
	// Workloads carry replica counts, signals or both; those of several sources are merged by workload.
	Workloads []*agentv1.WorkloadObservation
	Values    []Value
	Drivers   map[string]string // of GPUs, by node; nobody told: not there
	Events    []*agentv1.Event
}

// Value is one number for the bulk telemetry.
type Value struct {
	Kind, Entity, Field string
	Value               float64
}

// Kinds of entities that bulk telemetry is about.
const (
	KindWorkload = "workload"
	KindGPU      = "gpu"
	KindNode     = "node"
)

// Signal names that sources here produce. Totals over the workload unless the name says ratio or seconds.
const (
	SignalRequestRate = "request_rate"
	SignalQueueLength = "queue_length"
	SignalRunning     = "running_requests"
	SignalLatencyP50  = "latency_p50_seconds"
	SignalLatencyP99  = "latency_p99_seconds"
	SignalTTFTP99     = "ttft_p99_seconds"
	SignalKVCache     = "kv_cache_ratio"
	SignalGPUSM       = "gpu_sm_active_ratio"
	SignalGPUUtil     = "gpu_util_ratio"
	SignalGPUMemory   = "gpu_memory_used_mib"
	SignalCPU         = "cpu_cores"
	SignalCPURatio    = "cpu_ratio"
	SignalMemory      = "memory_mib"
	SignalTokensIn    = "tokens_in_per_second"
	SignalTokensOut   = "tokens_out_per_second"
)

var signalName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// ValidSignal says whether a word can name a signal.
func ValidSignal(name string) bool { return signalName.MatchString(name) }

// isTotal says whether a signal is summed over pods; the others are averaged, times and ages take the worst.
func isTotal(name string) bool {
	return !strings.HasSuffix(name, "_ratio") && !strings.HasSuffix(name, "_seconds")
}

// gather folds readings of single pods into signals of workloads, and counts who was silent.
type gather struct {
	values map[string]map[string][]float64 // workload, signal
	silent map[string]map[string]int       // ready pods that gave none
	expect map[string]bool                 // workloads that were asked
	unread map[string]int                  // pods not ready
}

func newGather() *gather {
	return &gather{values: map[string]map[string][]float64{}, silent: map[string]map[string]int{}, expect: map[string]bool{}, unread: map[string]int{}}
}

// pod takes what one pod said. All signals in want that it did not give count as missing when it is ready.
func (g *gather) pod(p Pod, want []string, got map[string]float64) {
	g.expect[p.Workload] = true
	if !p.Ready {
		g.unread[p.Workload]++
		return
	}
	if g.values[p.Workload] == nil {
		g.values[p.Workload], g.silent[p.Workload] = map[string][]float64{}, map[string]int{}
	}
	for _, name := range want {
		if v, ok := got[name]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			g.values[p.Workload][name] = append(g.values[p.Workload][name], v)
		} else {
			g.silent[p.Workload][name]++
		}
	}
}

// signals returns one observation per workload, sorted. A signal that no pod gave is left out: it is missing, not zero.
func (g *gather) signals(nowMS int64) []*agentv1.WorkloadObservation {
	var out []*agentv1.WorkloadObservation
	for _, w := range sortedKeys(g.expect) {
		o := &agentv1.WorkloadObservation{Workload: w}
		for _, name := range sortedKeys(g.values[w]) {
			o.Signals = append(o.Signals, &agentv1.Signal{
				Name: name, Value: fold(name, g.values[w][name]), AtMs: nowMS, PodsReported: count32(len(g.values[w][name])),
				PodsUnready: count32(g.unread[w]), PodsMissing: count32(g.silent[w][name]),
			})
		}
		out = append(out, o)
	}
	return out
}

func fold(name string, vs []float64) float64 {
	if strings.HasSuffix(name, "_seconds") {
		return slices.Max(vs)
	}
	var sum float64
	for _, v := range vs {
		sum += v
	}
	if isTotal(name) {
		return sum
	}
	return sum / float64(len(vs))
}

// count32 is a count as the wire has it; what does not fit is as much as fits.
func count32[N int | int64](n N) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
