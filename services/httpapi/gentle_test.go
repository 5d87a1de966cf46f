package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func TestCheckpointsAreShown(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster) + "/checkpoints"
	y.json(y.stranger, http.MethodGet, path, nil, 404)
	if got := y.json(y.viewer, http.MethodGet, path, nil, 200); got["told"] != false || len(got["items"].([]any)) != 0 {
		t.Errorf("before anything: %v", got)
	}
	y.exec(`INSERT INTO checkpoint_call (tenant_id, cluster_id, id, at, pod, workload_key, node, cause, outcome, took_ms, tries, detail)
VALUES ($1, $2, 'cp-1', $3, 'train/a-0', 'train/Job/a', 'n1', 'interruption', 'late', 9000, 3, 'it answered 503')`, y.tenant.ID, y.cluster, y.now)
	y.exec(`UPDATE cluster SET capabilities = '{drain}' WHERE id = $1`, y.cluster)
	got := y.json(y.viewer, http.MethodGet, path+"?workload=train/Job/a", nil, 200)
	item := got["items"].([]any)[0].(map[string]any)
	if got["told"] != true || item["outcome"] != "late" || item["took_ms"] != 9000.0 || item["cause"] != "interruption" || item["tries"] != 3.0 {
		t.Errorf("shown %v", got)
	}
	if got := y.json(y.viewer, http.MethodGet, path+"?workload=train/Job/b", nil, 200); len(got["items"].([]any)) != 0 {
		t.Errorf("of another workload: %v", got)
	}
}

func TestWarmPoolsAndDriversOfAPolicy(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy"
	pool := map[string]any{"name": "h100", "gpu_model": "H100", "gpus": 8, "how": "growth", "count": 3, "least": 1, "quantile": 990, "hourly_max": "120.00"}
	need := map[string]any{"workload": "train/", "cuda": "12.4", "compute": "8.0"}
	put := func(policy map[string]any, version, want int) map[string]any {
		t.Helper()
		return y.json(y.operator, http.MethodPut, path, map[string]any{"policy": policy, "version": version}, want)
	}
	got := put(map[string]any{"warm": []any{pool}, "gpu_driver": "550.54.14", "gpu_needs": []any{need}}, 0, 200)["policy"].(map[string]any)
	w := got["warm"].([]any)[0].(map[string]any)
	if w["name"] != "h100" || w["how"] != "growth" || w["least"] != 1.0 || w["hourly_max"] != "120.00" || got["gpu_driver"] != "550.54.14" || got["gpu_needs"].([]any)[0].(map[string]any)["cuda"] != "12.4" {
		t.Errorf("kept %v", got)
	}
	for name, bad := range map[string]map[string]any{
		"a driver that is no version": {"gpu_driver": "latest"},
		"a need that is no version":   {"gpu_needs": []any{map[string]any{"workload": "", "cuda": "12.x"}}},
		"two pools of one name":       {"warm": []any{pool, pool}},
		"a pool of nothing":           {"warm": []any{map[string]any{"name": "a", "how": "fixed", "count": 1}}},
		"an amount that is none":      {"warm": []any{map[string]any{"name": "a", "gpu_model": "L4", "how": "fixed", "count": 1, "hourly_max": "much"}}},
	} {
		if p := put(bad, 1, 422); p["detail"] == "" {
			t.Errorf("%s: %v", name, p)
		}
	}
	price := fleet.Money(1_000_000_000)
	in := capacity.Input{Cluster: y.cluster, Now: y.now, DataAt: y.now, Mode: fleet.ModeRecommend, NodeStart: 100, KeepsRoom: true,
		Policy: capacity.Policy{Warm: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", How: capacity.WarmGrowth, Count: 2}}}, Growths: []capacity.Growth{{Rule: "l4", GPUs: 1, Samples: 9, Seconds: 100}},
		Pods:       []capacity.Pod{{UID: "p", Name: "ns/a", Workload: "ns/Deployment/a", Phase: fleet.PodPending, CPUMilli: 1000, MemMiB: 1000, GPUCount: 1, GPUMilli: 1000, Since: y.now}},
		Candidates: []capacity.Candidate{{Offering: fleet.Offering{Cloud: fleet.CloudAWS, Region: "r", Zone: "a", InstanceType: "g6.xlarge", Purchase: fleet.PurchaseOnDemand}, Price: &price, CPUMilli: 3900, MemMiB: 14_000, MaxPods: 50, GPUModel: "L4", GPUCount: 1, Arch: "amd64"}}}
	plan, err := capacity.Decide(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveCapacityPlan(ctx, tx, in, plan, 0)
		return err
	})
	p := y.json(y.viewer, http.MethodGet, "/api/v1/clusters/"+string(y.cluster)+"/capacity-plan", nil, 200)["plan"].(map[string]any)
	shown := p["warm"].([]any)[0].(map[string]any)
	if shown["want"] != 1.0 || shown["add"] != 1.0 || shown["hour"].(map[string]any)["amount"] != "1.00" || shown["saves_seconds"] != 100.0 || shown["placeholders"] != true || shown["growth"].(map[string]any)["samples"] != 9.0 {
		t.Errorf("shown %v", shown)
	}
}
