package httpapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
	"plimsoll.dev/services/store"
)

// elsewhere adds a cluster with a workload of the same name.
func (y *yard) elsewhere(cluster, name string) fleet.WorkloadID {
	y.t.Helper()
	home := y.cluster
	defer func() { y.cluster = home }()
	y.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		y.cluster, err = store.CreateCluster(ctx, tx, cluster, fleet.ModeEnforce)
		return err
	})
	return y.workload("llm", name, "red")
}

func TestAServiceIsDeclaredChangedShownAndForgotten(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	a, b := y.workload("llm", "chat", "red"), y.elsewhere("south", "chat")
	other := y.workload("llm", "other", "red")
	doc := func(change func(map[string]any)) map[string]any {
		d := map[string]any{"name": "chat", "mode": "recommend", "rules": map[string]any{"traffic": "balanced", "headroom": 0.5, "move_cost": "0.10"},
			"sites": []any{map[string]any{"workload_id": a, "rules": map[string]any{"min": 2, "max_share": 0.7, "egress_gb_hour": 2.5, "egress_price": "0.09"}}, map[string]any{"workload_id": b}}}
		if change != nil {
			change(d)
		}
		return d
	}
	post := func(key string, body any, want int) map[string]any {
		t.Helper()
		return y.json(key, http.MethodPost, "/api/v1/services", body, want)
	}
	post(y.viewer, doc(nil), 403)
	post(y.stranger, doc(nil), 422) // the workloads are not theirs
	for name, change := range map[string]func(map[string]any){
		"a name that is no label": func(d map[string]any) { d["name"] = "no label!" },
		"two workloads of a cluster": func(d map[string]any) {
			d["sites"] = []any{map[string]any{"workload_id": a}, map[string]any{"workload_id": other}}
		},
		"the same workload twice": func(d map[string]any) {
			d["sites"] = []any{map[string]any{"workload_id": a}, map[string]any{"workload_id": a}}
		},
		"a least above the most": func(d map[string]any) {
			d["sites"] = []any{map[string]any{"workload_id": a}, map[string]any{"workload_id": b, "rules": map[string]any{"min": 5, "max": 2}}}
		},
		"a workload that nobody has": func(d map[string]any) {
			d["sites"] = []any{map[string]any{"workload_id": "01900000-0000-7000-8000-000000000000"}}
		},
		"an amount that is none": func(d map[string]any) { d["rules"].(map[string]any)["move_cost"] = "cheap" },
		"a free move":            func(d map[string]any) { d["rules"].(map[string]any)["move_cost"] = "0" },
		"approve":                func(d map[string]any) { d["mode"] = "approve" },
		"shares of more than all": func(d map[string]any) {
			d["sites"] = []any{map[string]any{"workload_id": a, "rules": map[string]any{"min_share": 0.6}}, map[string]any{"workload_id": b, "rules": map[string]any{"min_share": 0.6}}}
		},
	} {
		p := post(y.operator, doc(change), 422)
		if p["detail"] == "" {
			t.Errorf("%s: %v", name, p)
		}
		if first := p["errors"].([]any)[0].(map[string]any); name == "a least above the most" && first["location"] != "body.sites[1].rules.max" {
			t.Errorf("%s: %v", name, first)
		}
	}
	made := post(y.operator, doc(nil), 201)
	id := made["id"].(string)
	path := "/api/v1/services/" + id
	if rules := made["rules"].(map[string]any); made["version"] != 1.0 || rules["headroom"] != 0.5 || rules["move_cost"] != "0.10" || len(made["sites"].([]any)) != 2 {
		t.Errorf("%v", made)
	}
	post(y.operator, doc(nil), 409)
	post(y.operator, doc(func(d map[string]any) { d["name"] = "again" }), 409) // its workloads are taken
	for _, what := range []string{"", "/plan"} {
		y.json(y.stranger, http.MethodGet, path+what, nil, 404)
	}
	y.json(y.stranger, http.MethodPut, path, map[string]any{"version": 1, "service": map[string]any{"name": "mine", "mode": "off"}}, 404)
	y.json(y.stranger, http.MethodDelete, path, nil, 404)
	if list := y.json(y.stranger, http.MethodGet, "/api/v1/services", nil, 200); len(list["items"].([]any)) != 0 {
		t.Errorf("a stranger sees %v", list)
	}
	if p := y.json(y.viewer, http.MethodGet, path+"/plan", nil, 200); p["plan"] != nil {
		t.Errorf("%v", p)
	}
	y.tx(func(ctx context.Context, tx *store.Tx) error { // no capacity plan yet: nothing is priced
		work, err := store.LoadServiceWork(ctx, tx, id)
		if err != nil {
			return err
		}
		plan, err := spread.Decide(work.Input)
		if err != nil {
			return err
		}
		_, err = store.SaveServicePlan(ctx, tx, id, 1, work.Input, plan, time.Second)
		return err
	})
	shown := y.json(y.viewer, http.MethodGet, path+"/plan", nil, 200)
	plan := shown["plan"].(map[string]any)
	parts := plan["parts"].([]any)
	if plan["outcome"] != "held" || len(parts) != 2 || parts[0].(map[string]any)["held"] != "silent" || parts[0].(map[string]any)["cluster"] != "north" || len(shown["history"].([]any)) != 1 {
		t.Errorf("%v", shown)
	}
	y.json(y.viewer, http.MethodGet, path+"/plan?plan="+plan["id"].(string), nil, 200)
	y.json(y.viewer, http.MethodGet, path+"/plan?plan="+id, nil, 404)
	change := map[string]any{"version": 1, "service": doc(func(d map[string]any) { d["mode"] = "enforce" })}
	y.json(y.viewer, http.MethodPut, path, change, 403)
	if v := y.json(y.operator, http.MethodPut, path, change, 200); v["version"] != 2.0 || v["mode"] != "enforce" {
		t.Errorf("%v", v)
	}
	y.json(y.operator, http.MethodPut, path, change, 409)
	if list := y.json(y.viewer, http.MethodGet, "/api/v1/services", nil, 200); list["items"].([]any)[0].(map[string]any)["clusters"] != 2.0 {
		t.Errorf("%v", list)
	}
	if a := y.with(y.operator, http.MethodDelete, path, nil); a.status != 204 {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
	y.json(y.viewer, http.MethodGet, path, nil, 404)
}

func TestWorkloadsJoinAServiceByTheirLabel(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	a, b := y.workload("llm", "chat", "red"), y.elsewhere("south", "chat")
	second := y.workload("llm", "chat-2", "red")
	y.exec(`UPDATE workload SET labels = '{"plimsoll.dev/service": "chat"}' WHERE id = ANY ($1::uuid[])`, []string{string(a), string(b), string(second)})
	list := y.json(y.viewer, http.MethodGet, "/api/v1/services", nil, 200)
	if labels := list["labelled"].([]any); len(labels) != 1 || labels[0].(map[string]any)["name"] != "chat" || labels[0].(map[string]any)["clusters"] != 2.0 {
		t.Fatalf("%v", list)
	}
	made := y.json(y.operator, http.MethodPost, "/api/v1/services", map[string]any{"name": "chat", "mode": "recommend"}, 201)
	sites := made["sites"].([]any)
	twice := 0
	for _, s := range sites {
		if s.(map[string]any)["twice"] == true {
			twice++
		}
		if s.(map[string]any)["labelled"] != true {
			t.Errorf("%v", s)
		}
	}
	if len(sites) != 3 || twice != 1 {
		t.Errorf("%v", made)
	}
	if list := y.json(y.viewer, http.MethodGet, "/api/v1/services", nil, 200); len(list["labelled"].([]any)) != 0 {
		t.Errorf("%v", list)
	}
}
