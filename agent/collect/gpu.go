package collect

import (
	"math"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// gpuReading is what is known of one GPU or MIG instance at a moment. Field names are DCGM's, in lower case, in DCGM's units.
type gpuReading struct {
	Entity         string // UUID of the GPU, or "<UUID>/gi/<instance>"
	Profile        string // of a MIG instance, where it is told
	Namespace, Pod string // who uses it; empty: nobody, or nobody knows
	Fields         map[string]float64
	Host, Driver   string // as the exporter names them; empty: it does not
}

// Values that DCGM gives when it has none: not there, not found, not supported, not permitted.
const (
	blankInt32 = 0x7ffffff0
	blankInt64 = 9223372036854775792.0 // 0x7ffffffffffffff0, as a float64 the same as all above it
	blankFP64  = 140737488355328.0
)

// isBlank says whether a number is one of DCGM's placeholders. Counters are large by nature: only the 64-bit ones count there.
func isBlank(v float64, counter bool) bool {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || v >= blankInt64:
		return true
	case counter:
		return false
	}
	return (v >= blankInt32 && v <= blankInt32+15) || (v >= blankFP64 && v <= blankFP64+15)
}

// gpuBatch turns readings into bulk values and, where the pod is known, into signals of its workload.
func gpuBatch(readings []gpuReading, in Input) Batch {
	join(readings, in)
	var b Batch
	byPod := map[string][]gpuReading{}
	for _, r := range readings {
		for _, field := range sortedKeys(r.Fields) {
			b.Values = append(b.Values, Value{KindGPU, r.Entity, field, r.Fields[field]})
		}
		if r.Pod != "" {
			byPod[r.Namespace+"/"+r.Pod] = append(byPod[r.Namespace+"/"+r.Pod], r)
		}
	}
	b.Workloads = gpuSignals(byPod, in)
	b.Drivers = driversOf(readings, in)
	return b
}

// gpuSignals are means over the GPUs of ready replicas, and the memory in total. Only workloads with a GPU in use are
// expected to say anything.
func gpuSignals(byPod map[string][]gpuReading, in Input) []*agentv1.WorkloadObservation {
	uses := map[string]bool{}
	for _, p := range in.Pods {
		if len(byPod[p.Namespace+"/"+p.Name]) > 0 {
			uses[p.Workload] = true
		}
	}
	g := newGather()
	for _, p := range in.Pods {
		if !uses[p.Workload] {
			continue
		}
		got := map[string]float64{}
		mean(got, SignalGPUSM, byPod[p.Namespace+"/"+p.Name], []string{"dcgm_fi_prof_sm_active", "dcgm_fi_prof_gr_engine_active"}, 1)
		mean(got, SignalGPUUtil, byPod[p.Namespace+"/"+p.Name], []string{"dcgm_fi_dev_gpu_util"}, 0.01)
		mean(got, SignalGPUMemory, byPod[p.Namespace+"/"+p.Name], []string{"dcgm_fi_dev_fb_used"}, 1)
		if v, ok := got[SignalGPUMemory]; ok {
			got[SignalGPUMemory] = v * float64(len(byPod[p.Namespace+"/"+p.Name]))
		}
		g.pod(p, []string{SignalGPUSM, SignalGPUUtil, SignalGPUMemory}, got)
	}
	return g.signals(in.NowMS)
}

// mean stores the mean over the GPUs that have the field; the first of fields that any has counts.
func mean(into map[string]float64, signal string, gpus []gpuReading, fields []string, scale float64) {
	for _, f := range fields {
		var sum, n float64
		for _, r := range gpus {
			if v, ok := r.Fields[f]; ok {
				sum, n = sum+v*scale, n+1
			}
		}
		if n > 0 {
			into[signal] = sum / n
			return
		}
	}
}

func fieldName(dcgm string) string { return strings.ToLower(dcgm) }

// driversOf are the driver's versions by node: that of the pod on a GPU, else as the exporter names its host. A word that is no version is left out.
func driversOf(readings []gpuReading, in Input) map[string]string {
	node := map[string]string{}
	for _, p := range in.Pods {
		node[p.Namespace+"/"+p.Name] = p.Node
	}
	var out map[string]string
	for _, r := range readings {
		host := r.Host
		if n := node[r.Namespace+"/"+r.Pod]; n != "" {
			host = n
		}
		if host == "" || !isVersion(r.Driver) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[host] = max(out[host], r.Driver) // GPUs of one machine have one driver
	}
	return out
}

func isVersion(v string) bool {
	return v != "" && len(v) <= 40 && v[0] >= '0' && v[0] <= '9' && strings.Trim(v, "0123456789.") == ""
}
