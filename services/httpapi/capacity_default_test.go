package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"plimsoll.dev/services/auth"
)

func TestTheTenantsDefaultIsInheritedOverriddenAndTakenAgain(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	const standard = "/api/v1/capacity-default"
	own := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy"
	doc := func(nodes int) map[string]any { return map[string]any{"max_nodes": nodes} }
	got := y.json(y.viewer, http.MethodGet, standard, nil, 200)
	if got["version"] != 0.0 || got["updated_at"] != nil || len(got["clusters"].([]any)) != 1 {
		t.Fatalf("%v", got)
	}
	y.json(y.viewer, http.MethodPut, standard, map[string]any{"version": 0, "policy": doc(30)}, 403)
	y.json(y.operator, http.MethodPut, standard, map[string]any{"version": 0, "policy": map[string]any{"move_cost": "0"}}, 422)
	y.json(y.operator, http.MethodPut, standard, map[string]any{"version": 7, "policy": doc(30)}, 409)
	y.json(y.operator, http.MethodPut, standard, map[string]any{"version": 0, "policy": doc(30)}, 200)
	if p := y.json(y.viewer, http.MethodGet, own, nil, 200); p["inherited"] != true || p["default_version"] != 1.0 || p["version"] != 0.0 || p["policy"].(map[string]any)["max_nodes"] != 30.0 || p["updated_at"] == nil {
		t.Errorf("inherited: %v", p)
	}

	y.json(y.operator, http.MethodDelete, own+"?version=1", nil, 409) // it has none of its own
	if p := y.json(y.operator, http.MethodPut, own, map[string]any{"version": 0, "policy": doc(40)}, 200); p["inherited"] != false || p["default_version"] != 0.0 || p["version"] != 1.0 {
		t.Errorf("its own: %v", p)
	}
	if got := y.json(y.viewer, http.MethodGet, standard, nil, 200); len(got["clusters"].([]any)) != 0 {
		t.Errorf("a cluster with its own takes the default: %v", got)
	}
	y.json(y.viewer, http.MethodDelete, own+"?version=1", nil, 403)
	y.json(y.stranger, http.MethodDelete, own+"?version=1", nil, 404)
	y.json(y.operator, http.MethodDelete, own, nil, 422)
	y.json(y.operator, http.MethodDelete, own+"?version=9", nil, 409)
	if p := y.json(y.operator, http.MethodDelete, own+"?version=1", nil, 200); p["inherited"] != true || p["version"] != 2.0 || p["policy"].(map[string]any)["max_nodes"] != 30.0 {
		t.Errorf("back: %v", p)
	}
	if got := y.json(y.stranger, http.MethodGet, standard, nil, 200); got["version"] != 0.0 || len(got["policy"].(map[string]any)) != 0 {
		t.Errorf("another tenant sees %v", got)
	}
}

func TestADefaultThatClustersEnforceIsRolledOutOrSavedWithAReason(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	const standard, rollouts = "/api/v1/capacity-default", "/api/v1/capacity-rollouts"
	own := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy"
	begin := func(body map[string]any, want int) map[string]any {
		t.Helper()
		return y.json(y.operator, http.MethodPost, rollouts, body, want)
	}
	doc := map[string]any{"max_nodes": 30}
	if a := begin(map[string]any{"default": true, "policy": doc}, 409); !strings.Contains(a["detail"].(string), "capacity-default") {
		t.Errorf("nothing enforces, and the refusal does not say what to do: %v", a)
	}
	y.enforced()
	if a := y.json(y.operator, http.MethodPut, standard, map[string]any{"version": 0, "policy": doc}, 409); !strings.Contains(a["detail"].(string), "capacity-rollouts") {
		t.Errorf("the refusal does not say what to do: %v", a)
	}
	y.json(y.operator, http.MethodPut, standard, map[string]any{"version": 0, "policy": doc, "rollout_override": "the first one"}, 200)
	begin(map[string]any{"default": true, "clusters": []string{string(y.cluster)}, "policy": map[string]any{"max_nodes": 31}}, 422)
	begin(map[string]any{"policy": map[string]any{"max_nodes": 31}}, 422)
	begin(map[string]any{"default": true, "policy": map[string]any{"max_nodes": 31}, "version": 0}, 409)
	begin(map[string]any{"default": true, "policy": doc, "version": 1}, 409) // in force already
	r := begin(map[string]any{"default": true, "policy": map[string]any{"max_nodes": 31}, "version": 1}, 201)
	if r["default"] != true || r["default_version"] != 1.0 || len(r["clusters"].([]any)) != 1 {
		t.Errorf("%v", r)
	}
	y.json(y.operator, http.MethodPost, rollouts+"/"+r["id"].(string)+"/rollback", map[string]any{}, 200)

	y.json(y.operator, http.MethodPut, own, map[string]any{"version": 0, "policy": map[string]any{"max_nodes": 40}, "rollout_override": "test"}, 200)
	if a := y.json(y.operator, http.MethodDelete, own+"?version=1", nil, 409); !strings.Contains(a["detail"].(string), "capacity-rollouts") {
		t.Errorf("the refusal does not say what to do: %v", a)
	}
	y.json(y.operator, http.MethodPut, own, map[string]any{"version": 1, "policy": doc, "rollout_override": "the same as the default"}, 200)
	y.json(y.operator, http.MethodDelete, own+"?version=2", nil, 200) // nothing changes by it
	y.json(y.operator, http.MethodPut, own, map[string]any{"version": 3, "policy": map[string]any{"max_nodes": 40}, "rollout_override": "test"}, 200)
	y.json(y.operator, http.MethodDelete, own+"?version=4&rollout_override=the+default+is+tried", nil, 200)
	var audit list[struct {
		Action string
		Detail map[string]string
	}]
	y.with(y.key(y.tenant.ID, auth.RoleAdmin), "GET", "/api/v1/audit", nil).want(t, 200).into(t, &audit)
	if len(audit.Items) == 0 || audit.Items[0].Action != "capacity_policy.inherit" || audit.Items[0].Detail["rollout_override"] != "the default is tried" {
		t.Errorf("audit %+v", audit.Items)
	}
}

func TestRulesOfPoolsThatHaveNoMeaningNameTheirField(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	own := "/api/v1/clusters/" + string(y.cluster) + "/capacity-policy"
	for field, bad := range map[string]map[string]any{
		"labels":         {"labels": map[string]string{"karpenter.sh/nodepool": "x"}},
		"taints":         {"taints": []string{"team=ml:PreferNoSchedule"}},
		"startup_taints": {"startup_taints": []string{"node.kubernetes.io/not-ready:NoExecute"}},
		"drift_budget":   {"drift_budget": "150%"},
	} {
		for _, path := range []string{own, "/api/v1/capacity-default"} {
			a := y.with(y.operator, http.MethodPut, path, map[string]any{"version": 0, "policy": map[string]any{"node_pools": bad}}).want(t, 422)
			if !strings.Contains(string(a.body), "body.policy.node_pools."+field) {
				t.Errorf("%s: the field is not named: %s", field, a.body)
			}
		}
	}
	good := map[string]any{"labels": map[string]string{"tier": "gold"}, "taints": []string{"team=ml:NoSchedule"}, "expire_after_hours": 720, "drift_budget": "10%"}
	p := y.json(y.operator, http.MethodPut, own, map[string]any{"version": 0, "policy": map[string]any{"node_pools": good}}, 200)
	if got := p["policy"].(map[string]any)["node_pools"].(map[string]any); got["drift_budget"] != "10%" || got["labels"].(map[string]any)["tier"] != "gold" {
		t.Errorf("%v", got)
	}
}
