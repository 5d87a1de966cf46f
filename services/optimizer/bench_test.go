package optimizer

import (
	"fmt"
	"testing"

	"plimsoll.dev/services/fleet"
)

// BenchmarkDecide plans ten workloads with four signals of sixty samples, as one tick of a demo cluster does.
func BenchmarkDecide(b *testing.B) {
	const workloads = 10
	in := Input{
		Snapshot: fleet.Snapshot{Cluster: "c", Now: noon, Mode: fleet.ModeEnforce},
		Policies: map[fleet.WorkloadID]Binding{}, Memory: map[fleet.WorkloadID]Memory{},
	}
	policy, _ := ParsePolicy([]byte(presetLLMQueue))
	policy.TargetRatio = []TargetRatio{{Signal: fleet.SignalGPUSM, Type: RatioUtilization, Target: 0.6, Tolerance: 0.1}}
	policy.Queue.MaxAgeSeconds = 0
	price := fleet.Money(2_500_000_000)
	for i := range workloads {
		id := fleet.WorkloadID(fmt.Sprintf("w%02d", i))
		w := fleet.WorkloadState{
			Workload: fleet.Workload{ID: id, Key: "ns/Deployment/" + string(id), Kind: "Deployment"}, Replicas: 8, Ready: 8, ReplicaHour: &price,
		}
		for k, name := range []fleet.SignalName{fleet.SignalGPUSM, fleet.SignalQueueLength, fleet.SignalRunning, fleet.SignalTTFTP99} {
			sig := fleet.Signal{Name: name}
			for j := range 60 {
				sig.Samples = append(sig.Samples, fleet.Sample{At: noon.Add(-seconds(15 * (59 - j))), Value: 0.3 + 0.01*float64((j*7+k+i)%11), PodsReported: 8})
			}
			w.Signals = append(w.Signals, sig)
		}
		in.Snapshot.Workloads = append(in.Snapshot.Workloads, w)
		in.Policies[id] = Binding{Version: 1, Policy: policy}
		in.Memory[id] = Memory{LastAt: at(-15), LastFrom: 8, LastTarget: 8, Recommendations: []Recommendation{{*at(-500), 9}, {*at(-15), 7}}}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if _, err := Decide(in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/workloads, "µs/workload")
}

// BenchmarkParsePolicy reads the longest preset, as the store does for each workload of a plan.
func BenchmarkParsePolicy(b *testing.B) {
	doc := []byte(presetLLMQueue)
	b.ReportAllocs()
	for b.Loop() {
		if _, f := ParsePolicy(doc); HasErrors(f) {
			b.Fatal(f)
		}
	}
}
