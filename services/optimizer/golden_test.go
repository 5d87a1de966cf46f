package optimizer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
)

var update = flag.Bool("update", false, "write the golden files anew")

// An evening in one cluster: a chat model behind its queue, an image model that flapped, an API that was scaled by hand and
// is fought over, a batch job at zero, and an embedding service whose GPU exporter went silent.
func TestAPlanAPersonCanRead(t *testing.T) {
	t.Parallel()
	price := fleet.Money(3_672_000_000)
	in := Input{
		Snapshot: fleet.Snapshot{Cluster: "c", Now: noon, Mode: fleet.ModeEnforce, Generation: 811, Parent: "p"},
		Policies: map[fleet.WorkloadID]Binding{}, Memory: map[fleet.WorkloadID]Memory{},
	}
	add := func(key, preset string, replicas int, m Memory, opts ...option) {
		s := newScene(replicas, opts...)
		id := fleet.WorkloadID(key)
		s.state.Workload = fleet.Workload{ID: id, Key: key, Kind: "Deployment"}
		s.state.ReplicaHour = &price
		in.Snapshot.Workloads = append(in.Snapshot.Workloads, s.state)
		for _, p := range Presets() {
			if p.Name == preset {
				policy, _ := ParsePolicy([]byte(p.YAML))
				policy.Mode = fleet.ModeEnforce
				in.Policies[id] = Binding{Version: 2, Policy: policy}
			}
		}
		if m.LastAt == nil {
			m.LastAt = at(-15)
		}
		m.LastFrom, m.LastTarget = replicas, replicas
		in.Memory[id] = m
	}
	add("chat/Deployment/llm", "llm-queue", 6, Memory{},
		queue(4, 9, 18, 30, 41, 55, 60), gauge(fleet.SignalRunning, 4, 94, 95, 96, 96, 96, 96), gauge(fleet.SignalQueueAge, 4, 2, 3, 4, 6, 8, 9),
		gauge(fleet.SignalTTFTP99, 4, 1.1, 1.3, 1.9, 2.4, 3.1, 3.5), gauge(fleet.SignalRequestRate, 4, 40, 44, 49, 53, 58, 61))
	add("chat/Deployment/image", "gpu-sm", 9, Memory{
		Changes: []Change{{*at(-3000), 4, 8}, {*at(-2500), 8, 4}, {*at(-1900), 4, 9}, {*at(-1700), 9, 5}, {*at(-1000), 5, 9}},
		LastUp:  at(-1000), LastDown: at(-1700), FlapLevel: 1, FlapAt: at(-1000), Recommendations: []Recommendation{{*at(-1000), 9}},
	}, gauge(fleet.SignalGPUSM, 4, 0.22, 0.2, 0.21, 0.2, 0.19, 0.2))
	add("shop/Deployment/api", "static", 3, Memory{}, gauge(fleet.SignalCPURatio, 4, 0.8, 0.8, 0.81), withWriter("horizontal-pod-autoscaler", 200))
	add("train/Deployment/worker", "batch", 0, Memory{}, queue(4, 23), gauge(fleet.SignalRunning, 4, 0))
	add("chat/Deployment/embed", "gpu-sm", 4, Memory{}, gauge(fleet.SignalGPUSM, 130, 0.1, 0.1))
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Check(plan, in) {
		t.Errorf("%s: %s", v.Code, v.Message)
	}
	golden(t, "evening.golden", render(plan))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("plan differs (go test -run Person -update writes it anew):\n%s", diff)
	}
}

// render writes a plan for a person.
func render(p Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan %d at %s, %s, until %s\n", p.Generation, p.At.Format("15:04:05"), p.Mode, p.ExpiresAt.Format("15:04:05"))
	for _, d := range p.Decisions {
		fmt.Fprintf(&b, "\n%s: %s %d -> %d (needs %d, %d to %d), by %s", d.Key, d.Outcome, d.From, d.Target, d.Needed, d.Min, d.Max, d.Binding)
		if d.CostDelta != nil && *d.CostDelta != 0 {
			fmt.Fprintf(&b, ", %s an hour", d.CostDelta)
		}
		b.WriteString("\n")
		for _, in := range d.Inputs {
			fmt.Fprintf(&b, "  saw      %s %s", in.Name, in.Truth)
			if in.Raw != nil {
				fmt.Fprintf(&b, " %.4g (filtered %.4g) %.0f s old", *in.Raw, *in.Filtered, in.AgeSeconds)
			}
			if in.Needed != nil {
				fmt.Fprintf(&b, " -> %d", *in.Needed)
			}
			b.WriteString("\n")
		}
		for _, r := range d.Reasons {
			mark := "because "
			if r.Binding {
				mark = "BINDING "
			}
			fmt.Fprintf(&b, "  %s %s %s %d -> %d%s", mark, r.Code, r.Signal, r.From, r.To, numbers(r.Numbers))
			if r.Until != nil {
				fmt.Fprintf(&b, " until %s", r.Until.Format("15:04:05"))
			}
			b.WriteString("\n")
		}
		for _, a := range d.Alternatives {
			fmt.Fprintf(&b, "  or       %d", a.Replicas)
			if a.CostHour != nil {
				fmt.Fprintf(&b, " at %s an hour", a.CostHour)
			}
			if a.Load != nil {
				fmt.Fprintf(&b, ", load %.2f", *a.Load)
			}
			fmt.Fprintf(&b, ": %s\n", a.Rejected)
		}
	}
	return b.String()
}

func numbers(m map[string]float64) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, " %s=%.4g", k, m[k])
	}
	return b.String()
}
