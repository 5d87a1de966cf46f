package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func TestKarpenterIsSwitchedOnToldShownAndHandedBack(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	admin, path := y.key(y.tenant.ID, auth.RoleAdmin), "/api/v1/clusters/"+string(y.cluster)+"/karpenter"
	show := func() map[string]any { return y.json(y.viewer, http.MethodGet, path, nil, 200) }
	on := func(version int, settings map[string]any) map[string]any {
		return map[string]any{"version": version, "settings": settings}
	}
	enabled := map[string]any{"enabled": true}
	for _, key := range []string{y.viewer, y.operator} {
		y.json(key, http.MethodPut, path, on(0, enabled), 403)
		y.json(key, http.MethodPost, path+"/hand-back", nil, 403)
	}
	y.json(y.stranger, http.MethodGet, path, nil, 404)
	y.json(y.stranger, http.MethodPut, path, on(0, enabled), 404)
	if got := show(); got["version"] != 0.0 || got["stopped"] != "mode" || got["settings"].(map[string]any)["enabled"] != false {
		t.Fatalf("at first: %v", got)
	}
	y.with(admin, http.MethodPut, path, on(0, enabled)).want(t, 204)
	y.json(admin, http.MethodPut, path, on(0, enabled), 409)
	for _, bad := range []map[string]any{{"class_name": "Not a name"}, {"class_kind": "lower"}, {"class_group": "a b"}, {"reservation_key": "/"}, {"own": []string{"plimsoll-rest"}}, {"own": []string{"a", "a"}}, {"own": []string{"Not a name"}}} {
		y.json(admin, http.MethodPut, path, on(1, bad), 422)
	}
	if got := show(); got["version"] != 1.0 || got["settings"].(map[string]any)["class_kind"] != "EC2NodeClass" {
		t.Fatalf("on: %v", got)
	}
	y.exec(`UPDATE cluster SET mode = 'enforce', capabilities = '{karpenter}', last_seen_at = now(), data_at = now() WHERE id = $1`, string(y.cluster))
	tell := func() {
		y.tx(func(ctx context.Context, tx *store.Tx) error {
			cost := fleet.Money(1_500_000_000)
			_, _, err := store.OpenKarpenterOrder(ctx, tx, store.KarpenterOrder{Cluster: y.cluster, Kind: "plan", Bought: &cost, At: time.Now(), ExpiresAt: time.Now().Add(time.Hour), CreatedBy: "planner"},
				[]*agentv1.CapacityAction{{ActionId: "pool/plimsoll-a", NodePool: &agentv1.NodePoolSpec{Name: "plimsoll-a", Weight: 99}}})
			return err
		})
	}
	answer := func(outcome, code string, writers ...string) {
		y.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := store.ApplyCapacityResults(ctx, tx, y.cluster, []store.ActionResult{{Decision: "pool/plimsoll-a", Outcome: outcome, Code: code, Generation: 1 << 40, BeforeSpec: `{"weight":1}`, Writers: writers, At: time.Now()}})
			return err
		})
	}
	if got := show(); got["stopped"] != nil {
		t.Fatalf("nothing is in the way: %v", got)
	}
	tell()
	got := show()
	order := got["orders"].([]any)[0].(map[string]any)
	if got["stopped"] != "open" || order["state"] != "open" || order["hourly"] != "1.50" || len(got["pools"].([]any)) != 1 {
		t.Fatalf("told: %v", got)
	}
	answer("failed", "conflict", "kubectl-edit", "plimsoll")
	one := y.json(y.viewer, http.MethodGet, path+"/orders/"+order["id"].(string), nil, 200)
	action := one["actions"].([]any)[0].(map[string]any)
	if one["order"].(map[string]any)["state"] != "refused" || action["code"] != "conflict" || len(action["writers"].([]any)) != 2 || action["before"] != `{"weight":1}` {
		t.Fatalf("%v", one)
	}
	y.json(y.stranger, http.MethodGet, path+"/orders/"+order["id"].(string), nil, 404)
	if p := y.json(admin, http.MethodPost, path+"/hand-back", nil, 409); !strings.Contains(p["detail"].(string), "switch it off first") {
		t.Errorf("handed back while it is on: %v", p)
	}
	y.with(admin, http.MethodPut, path, on(1, map[string]any{"enabled": false})).want(t, 204)
	y.with(admin, http.MethodPost, path+"/hand-back", nil).want(t, 202)
	var p *agentv1.Plan
	y.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = store.PendingPlan(ctx, tx, y.cluster)
		return err
	})
	if len(p.GetCapacity()) != 1 || !p.GetCapacity()[0].GetAbsent() || p.GetGeneration() != 2 {
		t.Fatalf("the agent is told %v", p)
	}
	y.json(admin, http.MethodPost, path+"/hand-back", nil, 409)
	answer("applied", "")
	if got := show(); got["stopped"] != "off" || len(got["pools"].([]any)) != 0 || got["orders"].([]any)[0].(map[string]any)["state"] != "applied" {
		t.Fatalf("handed back: %v", got)
	}
	y.json(admin, http.MethodPost, path+"/hand-back", nil, 409)
}
