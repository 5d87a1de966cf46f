package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestKarpenterOpensPools makes as many pools as a plan may have, with a real
// agent on a real control plane, changes all of them, and refuses nothing. How
// long the first pool is open before the last is what counts: until then the
// first is filled with pods that belong elsewhere.
func TestKarpenterOpensPools(t *testing.T) {
	const pools = 80
	l := startKarpenterLab(t, "open", builtIn())
	apply := func(generation int, nodes string) (all, between time.Duration) {
		t.Helper()
		var actions []map[string]any
		for i := range pools {
			o := l.offers[i%len(l.offers)]
			name := fmt.Sprintf("plimsoll-open-%02d", i)
			actions = append(actions, map[string]any{"action_id": "pool/" + name, "reasons": []string{"plan"}, "node_pool": map[string]any{
				"name": name, "weight": 99 - i, "class_group": "karpenter.kwok.sh", "class_kind": "KWOKNodeClass", "class_name": "default", "limits": map[string]string{"nodes": nodes},
				"consolidation_policy": "WhenEmpty", "consolidate_after_seconds": 30, "budgets": []map[string]any{{"nodes": "100%", "reasons": []string{"Empty"}}, {"nodes": "0", "reasons": []string{"Drifted", "Underutilized"}}},
				"requirements": []map[string]any{{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []string{o.name}}, {"key": "karpenter.sh/capacity-type", "operator": "In", "values": []string{o.way}}}}})
		}
		now := time.Now()
		b, err := json.Marshal(map[string]any{"plan_id": fmt.Sprint("open-", generation), "generation": generation, "created_ms": now.UnixMilli(), "expires_ms": now.Add(time.Minute).UnixMilli(), "capacity": actions})
		file := filepath.Join(l.dir, fmt.Sprintf("open-%d.json", generation))
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		cmd := exec.Command(agentBin, "-config", l.agent, "-apply", file)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		begin := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatalf("apply: %v: %s", err, stderr.String())
		}
		all = time.Since(begin)
		var first, last int64
		n := 0
		for line := range bytes.Lines(stdout.Bytes()) {
			var r struct {
				ActionID string `json:"actionId"`
				Outcome  string
				AtMs     int64 `json:"atMs,string"`
			}
			if err := json.Unmarshal(line, &r); err != nil || r.Outcome != "applied" || r.ActionID != fmt.Sprintf("pool/plimsoll-open-%02d", n) {
				t.Fatalf("answer %d: %v %+v", n, err, r)
			}
			if n++; first == 0 || r.AtMs < first {
				first = r.AtMs
			}
			last = max(last, r.AtMs)
		}
		if n != pools {
			t.Fatalf("%d answers", n)
		}
		return all, time.Duration(last-first) * time.Millisecond
	}
	made, opened := apply(1, "1")
	changed, between := apply(2, "2")
	t.Logf("KARPENTER %d pools made and opened in %.1f s, the last %.2f s after the first; all changed in %.1f s, the last %.2f s after the first", pools, made.Seconds(), opened.Seconds(), changed.Seconds(), between.Seconds())
	if opened > 10*time.Second {
		t.Errorf("the first pool was open for %s before the last", opened)
	}
}
