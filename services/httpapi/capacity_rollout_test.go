package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

// enforced makes the yard's cluster enforce, with two machines and a pod.
func (y *yard) enforced() {
	now := time.Now().UTC()
	y.exec(`UPDATE cluster SET mode = 'enforce', last_seen_at = now(), data_at = $3 WHERE tenant_id = $1 AND id = $2`, string(y.tenant.ID), string(y.cluster), now)
	y.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, started_at, ready_at)
SELECT $1, $2, 'n' || i, 'n' || i, 'web', 'aws', 'us-east-1', 'us-east-1a', 'm5.4xlarge', 'on_demand', 'ready', 16000, 64000, $3, $3 FROM generate_series(1, 2) i`, string(y.tenant.ID), string(y.cluster), now.Add(-24*time.Hour))
	y.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, created_at, ready_at)
VALUES ($1, $2, 'p', 'api-1', 'web', 'web/Deployment/api', 'n1', 'ready', 1000, 2000, $3, $3)`, string(y.tenant.ID), string(y.cluster), now.Add(-24*time.Hour))
}

func TestAClusterThatEnforcesGetsAPolicyInStepsOrWithAReason(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	y.enforced()
	policy := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy"
	doc := map[string]any{"max_nodes": 10}
	if refused := y.json(y.operator, http.MethodPut, policy, map[string]any{"version": 0, "policy": doc}, 409); !strings.Contains(refused["detail"].(string), "capacity-rollouts") {
		t.Errorf("the refusal does not say what to do: %v", refused)
	}
	y.json(y.operator, http.MethodPut, policy, map[string]any{"version": 0, "policy": doc, "rollout_override": "  "}, 409)
	y.json(y.operator, http.MethodPut, policy, map[string]any{"version": 0, "policy": doc, "rollout_override": "the first one"}, 200)
	var audit list[struct {
		Action string
		Detail map[string]string
	}]
	y.with(y.key(y.tenant.ID, auth.RoleAdmin), "GET", "/api/v1/audit", nil).want(t, 200).into(t, &audit)
	if len(audit.Items) == 0 || audit.Items[0].Detail["rollout_override"] != "the first one" {
		t.Errorf("audit %+v", audit.Items)
	}

	create := func(key string, change map[string]any, want int) map[string]any {
		t.Helper()
		body := map[string]any{"clusters": []string{string(y.cluster)}, "policy": map[string]any{"max_nodes": 20}, "version": 1}
		for k, v := range change {
			body[k] = v
		}
		return y.json(key, http.MethodPost, "/api/v1/capacity-rollouts", body, want)
	}
	create(y.viewer, nil, 403)
	create(y.stranger, nil, 404)
	for name, bad := range map[string]map[string]any{
		"shares that fall": {"shares": []float64{0.5, 0.2, 1}}, "shares that end early": {"shares": []float64{0.5}}, "no shares above all": {"shares": []float64{2}},
		"twice the cluster": {"clusters": []string{string(y.cluster), string(y.cluster)}}, "no cluster": {"clusters": []string{}}, "no such zone": {"policy": map[string]any{"freeze": []any{map[string]any{"from": "22:00", "to": "06:00", "time_zone": "Mars/Base"}}}},
		"a short step": {"stage_seconds": 10},
	} {
		if a := create(y.operator, bad, 422); a["detail"] == "" {
			t.Errorf("%s: %v", name, a)
		}
	}
	create(y.operator, map[string]any{"version": 0}, 409)                              // read before it was changed
	create(y.operator, map[string]any{"policy": map[string]any{"max_nodes": 10}}, 409) // in force already
	r := create(y.operator, nil, 201)
	id := r["id"].(string)
	if r["state"] != "shadow" || len(r["clusters"].([]any)) != 1 || r["shares"].([]any)[0] != 0.1 || len(r["steps"].([]any)) != 1 {
		t.Errorf("%v", r)
	}
	create(y.operator, map[string]any{"policy": map[string]any{"max_nodes": 30}}, 409) // one is under way
	one := "/api/v1/capacity-rollouts/" + id
	y.json(y.stranger, http.MethodGet, one, nil, 404)
	y.json(y.viewer, http.MethodPost, one+"/pause", map[string]any{}, 403)
	y.json(y.stranger, http.MethodPost, one+"/rollback", map[string]any{}, 404)
	if l := y.json(y.viewer, http.MethodGet, "/api/v1/capacity-rollouts?cluster="+string(y.cluster), nil, 200); len(l["items"].([]any)) != 1 {
		t.Errorf("%v", l)
	}
	y.json(y.stranger, http.MethodGet, "/api/v1/capacity-rollouts?cluster="+string(y.cluster), nil, 404)
	if l := y.json(y.stranger, http.MethodGet, "/api/v1/capacity-rollouts", nil, 200); len(l["items"].([]any)) != 0 {
		t.Errorf("a stranger sees %v", l)
	}

	y.json(y.operator, http.MethodPost, one+"/promote", map[string]any{}, 409) // nothing was told yet
	if p := y.json(y.operator, http.MethodPost, one+"/pause", map[string]any{"seq": 0}, 200); p["paused"] != true || p["seq"] != 1.0 {
		t.Errorf("%v", p)
	}
	y.json(y.operator, http.MethodPost, one+"/promote", map[string]any{"seq": 1}, 409) // paused
	y.json(y.operator, http.MethodPost, one+"/resume", map[string]any{"seq": 0}, 409)  // somebody was faster
	y.json(y.operator, http.MethodPost, one+"/resume", map[string]any{"seq": 1}, 200)
	if b := y.json(y.operator, http.MethodPost, one+"/rollback", map[string]any{"reason": "too early"}, 200); b["state"] != "cancelled" || b["outcome"] != "too early" || len(b["steps"].([]any)) != 4 {
		t.Errorf("%v", b)
	}
	y.json(y.operator, http.MethodPost, one+"/rollback", map[string]any{}, 409) // over
	if p := y.json(y.viewer, http.MethodGet, policy, nil, 200); p["version"] != 1.0 {
		t.Errorf("the policy changed: %v", p)
	}
	y.exec(`UPDATE cluster SET mode = 'recommend' WHERE tenant_id = $1`, string(y.tenant.ID))
	create(y.operator, nil, 409) // nothing acts there
}

func TestAPolicyIsPreviewedBesideTheOneInForceAndNothingIsSaved(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy/preview"
	body := map[string]any{"policy": map[string]any{"max_nodes": 1}}
	if got := y.json(y.viewer, http.MethodPost, path, body, 200); got["comparison"] != nil {
		t.Errorf("a preview of a cluster that never reported: %v", got)
	}
	y.json(y.stranger, http.MethodPost, path, body, 404)
	y.enforced()
	c := y.json(y.viewer, http.MethodPost, path, body, 200)["comparison"].(map[string]any)
	if c["in_force"].(map[string]any)["machines"] == nil || c["cost"].(map[string]any)["amount"] == "0.00" {
		t.Errorf("%v", c)
	}
	y.json(y.viewer, http.MethodPost, path, map[string]any{"policy": map[string]any{"move_cost": "0"}}, 422)
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		p, err := store.CapacityPolicyOf(ctx, tx, y.cluster)
		if p.Version != 0 {
			t.Errorf("version %d", p.Version)
		}
		return err
	})
}

func TestMachinesThatDoNotObeyThePolicyAreListed(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster)
	if got := y.json(y.viewer, http.MethodGet, path+"/node-compliance", nil, 200); got["at"] != nil || len(got["items"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	y.json(y.stranger, http.MethodGet, path+"/node-compliance", nil, 404)
	y.enforced()
	y.json(y.operator, http.MethodPut, path+"/capacity-policy", map[string]any{"version": 0, "rollout_override": "test", "policy": map[string]any{"instance_types": []string{"m5.large"},
		"node_rules": map[string]any{"labels": []string{"team=ml"}}}}, 200)
	got := y.json(y.viewer, http.MethodGet, path+"/node-compliance", nil, 200)
	first := got["items"].([]any)[0].(map[string]any)
	if got["breaking"] != 2.0 || got["checked"] != 2.0 || first["node"] != "n1" || len(first["findings"].([]any)) != 2 {
		t.Errorf("%v", got)
	}
	y.json(y.operator, http.MethodPut, path+"/capacity-policy", map[string]any{"version": 1, "rollout_override": "test", "policy": map[string]any{"node_rules": map[string]any{"labels": []string{"=x"}}}}, 422)
}
