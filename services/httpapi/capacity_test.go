package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// json asks and reads the answer, whatever its status.
func (y *yard) json(key, method, path string, body any, want int) map[string]any {
	y.t.Helper()
	a := y.with(key, method, path, body)
	a.problem(y.t)
	out := map[string]any{}
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != want {
		y.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.status, want, a.body)
	}
	return out
}

func TestCapacityPlansAreShown(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster)
	get := func(key, what string, want int) map[string]any {
		t.Helper()
		return y.json(key, http.MethodGet, path+what, nil, want)
	}
	if p := get(y.viewer, "/capacity-plan", 200); p["plan"] != nil {
		t.Errorf("a plan of a cluster that never reported: %v", p)
	}
	if m := get(y.viewer, "/capacity-map", 200); m["at"] != nil || len(m["nodes"].([]any)) != 0 {
		t.Errorf("map %v", m)
	}
	for _, what := range []string{"/capacity-plan", "/capacity-plans", "/capacity-map", "/pending-pods", "/conflicts", "/capacity-policy"} {
		get(y.stranger, what, 404)
	}
	now := y.now
	price, cheap := fleet.Money(4_000_000_000), fleet.Money(1_000_000_000)
	o := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g6.12xlarge", Purchase: fleet.PurchaseOnDemand}
	small := o
	small.InstanceType = "g6.xlarge"
	in := capacity.Input{Cluster: y.cluster, Now: now, DataAt: now, Mode: fleet.ModeRecommend, NodeStart: 100, PodStart: 50,
		Nodes: []capacity.Node{{UID: "u", Name: "n1", Pool: "gpu", Offering: o, Phase: fleet.NodeReady, CPUMilli: 48_000, MemMiB: 190_000, MaxPods: 100, GPUModel: "L4", GPUCount: 4, Arch: "amd64", Price: &price, Saves: &price, StartedAt: now.Add(-time.Hour)}},
		Pods: []capacity.Pod{{UID: "p", Name: "ns/a", Workload: "ns/Deployment/a", Node: "n1", Phase: fleet.PodReady, CPUMilli: 1000, MemMiB: 1000, GPUCount: 1, GPUMilli: 1000, Since: now.Add(-time.Hour), ReadyAt: now.Add(-time.Hour)},
			{Name: "ns/b", Workload: "ns/Deployment/b", Phase: fleet.PodPending, Reason: "Unschedulable", CPUMilli: 1000, MemMiB: 1000, GPUCount: 16, GPUMilli: 1000, Since: now.Add(-time.Hour)}},
		Candidates: []capacity.Candidate{{Offering: small, Price: &cheap, CPUMilli: 3900, MemMiB: 14_000, MaxPods: 50, GPUModel: "L4", GPUCount: 1, Arch: "amd64"}}}
	plan, err := capacity.Decide(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveCapacityPlan(ctx, tx, in, plan, 5*time.Millisecond)
		return err
	})
	p := get(y.viewer, "/capacity-plan", 200)["plan"].(map[string]any)
	if p["outcome"] != "change" || p["before"].(map[string]any)["amount"] != "4.00" || p["after"].(map[string]any)["amount"] != "1.00" || len(p["drain"].([]any)) != 1 {
		t.Errorf("plan %v", p)
	}
	get(y.viewer, "/capacity-plan?plan="+p["id"].(string), 200)
	get(y.viewer, "/capacity-plan?plan="+string(y.cluster), 404)
	list := get(y.viewer, "/capacity-plans?limit=1", 200)
	if len(list["items"].([]any)) != 1 || len(get(y.viewer, "/capacity-plans?limit=1&cursor="+list["next_cursor"].(string), 200)["items"].([]any)) != 0 {
		t.Errorf("history %v", list)
	}
	get(y.viewer, "/capacity-plans?cursor=xyz", 422)
	m := get(y.viewer, "/capacity-map", 200)
	node := m["nodes"].([]any)[0].(map[string]any)
	if node["state"] != "drain" || node["gpus_requested"] != 1.0 || m["gpu_fleet"].([]any)[0].(map[string]any)["gpus"] != 4.0 {
		t.Errorf("map %v", m)
	}
	pods := get(y.viewer, "/pending-pods", 200)["items"].([]any)
	if w := pods[0].(map[string]any); len(pods) != 1 || w["cause"] != "fits_nothing" || w["long"] != true || len(w["reasons"].([]any)) == 0 {
		t.Errorf("pods %v", pods)
	}
}

func TestTheCapacityPolicyIsReadAndChanged(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy"
	put := func(key string, version int, policy map[string]any, want int) map[string]any {
		t.Helper()
		return y.json(key, http.MethodPut, path, map[string]any{"version": version, "policy": policy}, want)
	}
	caps := map[string]any{"max_nodes": 10, "hourly_max": "12.5", "freeze": []any{map[string]any{"days": []string{"sat"}, "from": "22:00", "to": "06:00", "time_zone": "Europe/Berlin"}}}
	put(y.viewer, 0, caps, 403)
	got := put(y.operator, 0, caps, 200)
	if p := got["policy"].(map[string]any); got["version"] != 1.0 || p["hourly_max"] != "12.50" || p["max_nodes"] != 10.0 {
		t.Errorf("policy %v", got)
	}
	put(y.operator, 0, caps, 409) // somebody was faster
	for name, bad := range map[string]map[string]any{
		"no amount":    {"hourly_max": "cheap"},
		"below zero":   {"daily_max": "-1"},
		"moving free":  {"move_cost": "0"},
		"no such zone": {"freeze": []any{map[string]any{"from": "22:00", "to": "06:00", "time_zone": "Mars/Base"}}},
		"no such day":  {"freeze": []any{map[string]any{"days": []string{"moonday"}, "from": "22:00", "to": "06:00", "time_zone": "UTC"}}},
		"too much":     {"max_moved_milli": 1001},
	} {
		if a := put(y.operator, 1, bad, 422); a["detail"] == "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	if got := put(y.operator, 1, map[string]any{}, 200); got["version"] != 2.0 {
		t.Errorf("policy %v", got)
	}
}

func TestConflictsTellBothWritersAndHowOftenTheyFight(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		id := store.WorkloadIDOf(y.cluster, "ns/Deployment/a")
		for _, sql := range []string{
			`UPDATE cluster SET data_at = $3, last_seen_at = $3 WHERE tenant_id = $1 AND id = $2`,
			`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, first_seen) VALUES ($1, '` + string(id) + `', $2, 'ns/Deployment/a', 'ns', 'Deployment', 'a', $3)`,
			`INSERT INTO workload_writer (tenant_id, cluster_id, workload_key, manager, object, field, at) VALUES ($1, $2, 'ns/Deployment/a', 'horizontal-pod-autoscaler', 'HorizontalPodAutoscaler/a', 'spec.replicas', $3)`,
			`INSERT INTO plan (tenant_id, id, cluster_id, generation, at, created_at, expires_at, mode, input_hash, input) VALUES ($1, $2, $2, 1, $3, $3, $3, 'enforce', '', '')`,
			`INSERT INTO decision (tenant_id, id, plan_id, cluster_id, workload_id, at, outcome, from_replicas, needed, target, binding, detail, state, expires_at, before_replicas, after_replicas, result_code, finished_at)
SELECT $1, gen_random_uuid(), $2, $2, '` + string(id) + `', $3::timestamptz - n * interval '1 minute', 'scale_up', 2, 4, 4, 'queue', '{}', CASE WHEN n = 1 THEN 'refused' ELSE 'applied' END, $3,
  CASE WHEN n IN (2, 3) THEN 2 ELSE 4 END, 4, CASE WHEN n = 1 THEN 'conflict' END, $3::timestamptz - n * interval '1 minute' FROM generate_series(1, 5) n`,
		} {
			if _, err := tx.PGX().Exec(ctx, sql, tx.Tenant, y.cluster, y.now); err != nil {
				return err
			}
		}
		return nil
	})
	got := y.json(y.viewer, http.MethodGet, "/api/v1/clusters/"+string(y.cluster)+"/conflicts", nil, 200)["items"].([]any)
	if len(got) != 1 {
		t.Fatal(got)
	}
	c := got[0].(map[string]any)
	if c["overwritten"] != 2.0 || c["refused"] != 1.0 || c["applied"] != 4.0 || c["fights_per_hour"] != 0.125 || c["writers"].([]any)[0].(map[string]any)["manager"] != "horizontal-pod-autoscaler" {
		t.Errorf("conflict %v", c)
	}
}
