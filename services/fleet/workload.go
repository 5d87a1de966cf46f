package fleet

import (
	"math"
	"time"
)

// Workload is something with replicas: a Deployment, StatefulSet, LeaderWorkerSet or anything with a scale subresource.
type Workload struct {
	ID        WorkloadID
	Cluster   ClusterID
	Key       string // "namespace/Kind/name", unique in its cluster
	Namespace string
	Kind      string
	Name      string
	Team      string // from the team label, else empty
	Class     string // gold, standard or economy; empty reads as standard
	Labels    map[string]string
	// Requests of one replica.
	CPUMilli int64
	MemMiB   int64
	GPUMilli int64
}

// SignalName says what a signal measures. Values are totals over the workload unless the name says otherwise.
type SignalName string

// Signals that the policies know. Ratios are 0..1.
const (
	SignalRequestRate SignalName = "request_rate"         // requests per second, total
	SignalQueueLength SignalName = "queue_length"         // waiting requests, total
	SignalQueueAge    SignalName = "queue_age_seconds"    // age of the oldest waiting request
	SignalRunning     SignalName = "running_requests"     // requests in service, total
	SignalLatencyP50  SignalName = "latency_p50_seconds"  // end to end
	SignalLatencyP99  SignalName = "latency_p99_seconds"  // end to end
	SignalTTFTP99     SignalName = "ttft_p99_seconds"     // time to first token
	SignalKVCache     SignalName = "kv_cache_ratio"       // mean over ready replicas
	SignalGPUSM       SignalName = "gpu_sm_active_ratio"  // mean over ready replicas
	SignalGPUUtil     SignalName = "gpu_util_ratio"       // mean over ready replicas; the coarse one
	SignalGPUMemory   SignalName = "gpu_memory_used_mib"  // total
	SignalCPU         SignalName = "cpu_cores"            // total cores in use
	SignalCPURatio    SignalName = "cpu_ratio"            // use over request, mean over ready replicas
	SignalMemory      SignalName = "memory_mib"           // total
	SignalErrorRatio  SignalName = "error_ratio"          // failed over all requests
	SignalLateRatio   SignalName = "late_ratio"           // requests that waited past the SLO over all
	SignalTokensIn    SignalName = "tokens_in_per_second" // total
	SignalTokensOut   SignalName = "tokens_out_per_second"
)

// Truth is how far a signal can be believed.
type Truth string

// Truth states of a signal. Only a fresh one may ever lead to a scale-down.
const (
	TruthFresh       Truth = "fresh"
	TruthStale       Truth = "stale"
	TruthMissing     Truth = "missing"
	TruthConflicting Truth = "conflicting"
)

// Sample is one reading of a signal at a time, with how many pods stand behind it.
type Sample struct {
	At           time.Time
	Value        float64
	PodsReported int // pods that gave a value
	PodsUnready  int // pods that are not ready yet; their silence is not zero demand
	PodsMissing  int // ready pods that gave none
}

// Signal is the recent past of one measure of a workload, oldest first.
type Signal struct {
	Name    SignalName
	Samples []Sample
	// Conflicting is set by the collector when two sources disagree by more than the tolerance they are given.
	Conflicting bool
}

// Last returns the newest sample, or false when there is none.
func (s Signal) Last() (Sample, bool) {
	if len(s.Samples) == 0 {
		return Sample{}, false
	}
	return s.Samples[len(s.Samples)-1], true
}

// Truth classifies the signal at now: missing without a finite sample, stale when the newest is older than maxAge or
// comes from the future by more than maxAge, conflicting when sources disagree, else fresh.
func (s Signal) Truth(now time.Time, maxAge time.Duration) Truth {
	last, ok := s.Last()
	switch {
	case !ok || math.IsNaN(last.Value) || math.IsInf(last.Value, 0):
		return TruthMissing
	case s.Conflicting:
		return TruthConflicting
	case now.Sub(last.At) > maxAge || last.At.Sub(now) > maxAge:
		return TruthStale
	}
	return TruthFresh
}

// WorkloadState is what is known of a workload at a moment.
type WorkloadState struct {
	Workload Workload
	Replicas int // asked for now: spec.replicas
	Ready    int
	Starting int // created but not ready
	Draining int
	Signals  []Signal
	// Writers are the other controllers seen to write this workload's replicas.
	Writers []Writer
	// ReplicaHour is the price of one replica for one hour, if it is known.
	ReplicaHour *Money
}

// Signal returns the named signal; an absent one is returned empty, which reads as missing.
func (w WorkloadState) Signal(name SignalName) Signal {
	for _, s := range w.Signals {
		if s.Name == name {
			return s
		}
	}
	return Signal{Name: name}
}

// Writer is a controller that also writes a field of the workload.
type Writer struct {
	Manager string // field manager, for example "horizontal-pod-autoscaler"
	Object  string // the object behind it, "HorizontalPodAutoscaler/chat", if known
	Field   string // "spec.replicas"
	At      time.Time
}

// Snapshot is everything a decision for one cluster may look at. It is built by store or replay, never changed after.
// Workloads are sorted by key.
type Snapshot struct {
	Tenant     TenantID
	Cluster    ClusterID
	Now        time.Time // the cluster's data time; the only clock of a decision
	Mode       Mode
	Frozen     bool  // kill switch or freeze window: nothing may change
	Generation int64 // of the newest plan; 0 when there is none
	Parent     PlanID
	Workloads  []WorkloadState
	// LastSeen is when the agent's newest report was made, in data time.
	LastSeen time.Time
}
