package httpapi_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

const (
	someGroup  = "0190b0e0-0000-7000-8000-000000000001"
	someAction = "0190b0e0-0000-7000-8000-000000000003"
)

// groupYard is a yard with a cloud account and the body of a group of it.
type groupYard struct {
	*yard
	admin, path string
	body        map[string]any
}

func openGroupYard(t *testing.T) *groupYard {
	t.Helper()
	y := &groupYard{yard: openYard(t)}
	y.admin, y.path = y.key(y.tenant.ID, auth.RoleAdmin), "/api/v1/clusters/"+string(y.cluster)
	account := y.json(y.admin, http.MethodPost, "/api/v1/cloud-accounts", map[string]any{"name": "Groups", "cloud": "aws", "regions": []string{"us-east-1"}, "aws": map[string]any{"role_arn": "arn:aws:iam::123456789012:role/groups"}}, 201)
	y.body = map[string]any{"account_id": account["id"], "ref": "us-east-1/gpu", "region": "us-east-1", "zones": []string{"us-east-1a"}, "instance_types": []string{"g5.xlarge", "g5.2xlarge"}, "purchase": "spot", "min": 1, "max": 8}
	return y
}

// but is the body with other values.
func (y *groupYard) but(change map[string]any) map[string]any {
	out := maps.Clone(y.body)
	maps.Copy(out, change)
	return out
}

// set puts the group as admin and wants a status.
func (y *groupYard) set(group string, body map[string]any, want int) answer {
	y.t.Helper()
	return y.with(y.admin, http.MethodPut, y.path+"/cloud-groups/"+group, body).want(y.t, want)
}

func (y *groupYard) list() (groups, actions []map[string]any) {
	y.t.Helper()
	var got struct{ Items, Actions []map[string]any }
	y.with(y.viewer, http.MethodGet, y.path+"/cloud-groups", nil).want(y.t, 200).into(y.t, &got)
	return got.Items, got.Actions
}

// acted writes down an action of the group from 2 to 5 machines, open or ended.
func (y *groupYard) acted(closed bool) {
	y.t.Helper()
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		a := store.GroupAction{ID: someAction, Group: someGroup, Cluster: y.cluster, Before: 2, ReadyBefore: 2, Desired: 5, Version: "v", State: store.GroupPartial, Ready: 4, Problem: "InsufficientInstanceCapacity"}
		if _, err := store.OpenGroupAction(ctx, tx, a); err != nil {
			return err
		}
		return store.NoteGroupAction(ctx, tx, a, closed)
	})
}

func TestCloudGroupsBelongToAdmins(t *testing.T) {
	t.Parallel()
	y := openGroupYard(t)
	if groups, actions := y.list(); len(groups) != 0 || len(actions) != 0 {
		t.Errorf("%v %v", groups, actions)
	}
	y.json(y.stranger, http.MethodGet, y.path+"/cloud-groups", nil, 404)
	y.set(someGroup, y.body, 204)
	y.acted(true)
	for _, key := range []string{y.viewer, y.operator, y.key(y.tenant.ID, auth.RoleFinance)} {
		y.json(key, http.MethodPut, y.path+"/cloud-groups/"+someGroup, y.but(map[string]any{"max": 100}), 403)
		y.json(key, http.MethodPost, y.path+"/cloud-group-actions/"+someAction+"/undo", nil, 403)
		y.json(key, http.MethodDelete, y.path+"/cloud-groups/"+someGroup, nil, 403)
	}
	y.json(y.stranger, http.MethodPut, y.path+"/cloud-groups/"+someGroup, y.body, 404)
	y.json(y.stranger, http.MethodPost, y.path+"/cloud-group-actions/"+someAction+"/undo", nil, 404)
	y.json(y.stranger, http.MethodDelete, y.path+"/cloud-groups/"+someGroup, nil, 404)
	groups, actions := y.list()
	if len(groups) != 1 || groups[0]["max"] != 8.0 || len(actions) != 1 {
		t.Errorf("what was refused left a mark: %v %v", groups, actions)
	}
}

func TestACloudGroupIsAddedChangedAndForgotten(t *testing.T) {
	t.Parallel()
	y := openGroupYard(t)
	y.set(someGroup, y.body, 204)
	groups, _ := y.list()
	if len(groups) != 1 {
		t.Fatalf("%v", groups)
	}
	g := groups[0]
	if g["id"] != someGroup || g["account_id"] != y.body["account_id"] || g["cloud"] != "aws" || g["ref"] != "us-east-1/gpu" || g["purchase"] != "spot" || g["min"] != 1.0 || g["max"] != 8.0 || len(g["instance_types"].([]any)) != 2 {
		t.Errorf("%v", g)
	}
	if g["enabled"] != false || g["step"] != 5.0 || g["hourly"] != 20.0 {
		t.Errorf("off, and with the limits of the document, unless said otherwise: %v", g)
	}
	y.set(someGroup, y.but(map[string]any{"max": 12, "step": 2, "hourly": 6, "enabled": true, "zones": []string{}}), 204)
	if groups, _ = y.list(); len(groups) != 1 || groups[0]["enabled"] != true || groups[0]["max"] != 12.0 || groups[0]["step"] != 2.0 || groups[0]["hourly"] != 6.0 || len(groups[0]["zones"].([]any)) != 0 {
		t.Errorf("changed: %v", groups)
	}
	var told string
	if err := y.owner.QueryRow(context.Background(), `SELECT string_agg(action || ' ' || detail::text, '; ' ORDER BY seq) FROM audit_log WHERE tenant_id = $1 AND object = $2`, y.tenant.ID, "cloud_group/"+someGroup).Scan(&told); err != nil ||
		strings.Count(told, "cloud_group.set") != 2 || !strings.Contains(told, `"enabled": "true"`) || !strings.Contains(told, `"max": "12"`) {
		t.Errorf("audit log: %s, %v", told, err)
	}
	if p := y.set("0190b0e0-0000-7000-8000-00000000000a", y.body, 409); !strings.Contains(string(p.body), "body.ref") {
		t.Errorf("the same group under another id: %s", p.body)
	}
	y.with(y.admin, http.MethodDelete, y.path+"/cloud-groups/"+someGroup, nil).want(t, 204)
	y.with(y.admin, http.MethodDelete, y.path+"/cloud-groups/"+someGroup, nil).want(t, 404)
	if groups, _ = y.list(); len(groups) != 0 {
		t.Errorf("still there: %v", groups)
	}
}

func TestBadCloudGroupsAreRefusedByField(t *testing.T) {
	t.Parallel()
	y := openGroupYard(t)
	for name, c := range map[string]struct {
		change map[string]any
		field  string
	}{
		"a lower bound above the upper":      {map[string]any{"min": 9}, "body.min"},
		"a lower bound below none":           {map[string]any{"min": -1}, "body.min"},
		"an upper bound beyond all reason":   {map[string]any{"max": 20_001}, "body.max"},
		"no machine per action":              {map[string]any{"step": 0}, "body.step"},
		"no machine per hour":                {map[string]any{"hourly": 0}, "body.hourly"},
		"no instance type":                   {map[string]any{"instance_types": []string{}}, "body.instance_types"},
		"no name":                            {map[string]any{"ref": ""}, "body.ref"},
		"machines that are reserved":         {map[string]any{"purchase": "reserved"}, "body.purchase"},
		"an account that is no account's id": {map[string]any{"account_id": "mine"}, "body.account_id"},
	} {
		p := y.set(someGroup, y.but(c.change), 422)
		var problem struct{ Errors []struct{ Location string } }
		p.into(t, &problem)
		if len(problem.Errors) != 1 || problem.Errors[0].Location != c.field {
			t.Errorf("%s: %s", name, p.body)
		}
	}
	y.set(someGroup, y.but(map[string]any{"account_id": "0190b0e0-0000-7000-8000-0000000000ff"}), 404)
	if groups, _ := y.list(); len(groups) != 0 {
		t.Errorf("a refused group is kept: %v", groups)
	}
}

func TestAnActionOfACloudGroupIsUndoneOnceItHasEnded(t *testing.T) {
	t.Parallel()
	y := openGroupYard(t)
	y.set(someGroup, y.body, 204)
	undo := y.path + "/cloud-group-actions/" + someAction + "/undo"
	y.json(y.admin, http.MethodPost, undo, nil, 404)
	y.acted(false)
	y.json(y.admin, http.MethodPost, undo, nil, 409)
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.NoteGroupAction(ctx, tx, store.GroupAction{ID: someAction, State: store.GroupPartial, Ready: 4, Problem: "InsufficientInstanceCapacity"}, true)
	})
	if p := y.json(y.admin, http.MethodPost, undo, nil, 409); !strings.Contains(p["detail"].(string), "mode approve") { // as the yard's cluster is
		t.Errorf("undone in approve: %v", p)
	}
	y.exec(`UPDATE cluster SET mode = 'enforce', frozen = true WHERE id = $1`, string(y.cluster))
	if p := y.json(y.admin, http.MethodPost, undo, nil, 409); !strings.Contains(p["detail"].(string), "frozen") {
		t.Errorf("undone while frozen: %v", p)
	}
	if _, actions := y.list(); len(actions) != 1 {
		t.Errorf("a refused undo left a mark: %v", actions)
	}
	y.exec(`UPDATE cluster SET frozen = false WHERE id = $1`, string(y.cluster))
	y.with(y.admin, http.MethodPost, undo, nil).want(t, 202)
	y.json(y.admin, http.MethodPost, undo, nil, 409) // the undo is open
	_, actions := y.list()
	if len(actions) != 2 {
		t.Fatalf("%v", actions)
	}
	back, first := actions[0], actions[1]
	if back["undoes"] != someAction || back["before"] != 5.0 || back["desired"] != 2.0 || back["state"] != "asked" || back["closed_at"] != nil || back["plan_id"] != nil {
		t.Errorf("undo: %v", back)
	}
	if first["id"] != someAction || first["before"] != 2.0 || first["desired"] != 5.0 || first["ready"] != 4.0 || first["state"] != "partial" || first["problem"] != "InsufficientInstanceCapacity" || first["closed_at"] == nil {
		t.Errorf("what was done: %v", first)
	}
}

func TestWhatOfTheCloudChangesAGroupIsShown(t *testing.T) {
	t.Parallel()
	y := openGroupYard(t)
	y.set(someGroup, y.but(map[string]any{"enabled": true}), 204)
	one := func() map[string]any {
		t.Helper()
		groups, _ := y.list()
		return groups[0]
	}
	if g := one(); g["own"] != false || g["shrink"] != false || g["yields"] != false || g["writers_at"] != nil || len(g["writers"].([]any)) != 0 || len(g["suspended"].([]any)) != 0 {
		t.Errorf("at first: %v", g)
	}
	writers := func(kind string, sizes bool) {
		y.tx(func(ctx context.Context, tx *store.Tx) error {
			return store.NoteGroupWriters(ctx, tx, someGroup, []map[string]any{{"kind": kind, "name": "cpu", "sizes": sizes, "stop": "AlarmNotification"}}, "")
		})
	}
	writers("scaling_policy", true)
	if g := one(); g["yields"] != true || g["writers"].([]any)[0].(map[string]any)["name"] != "cpu" || g["writers_at"] == nil {
		t.Errorf("a policy of the cloud: %v", g)
	}
	writers("rebalance", false)
	if g := one(); g["yields"] != false {
		t.Errorf("moves between zones do not keep it from growing: %v", g)
	}
	y.set(someGroup, y.but(map[string]any{"enabled": true, "shrink": true, "own": true}), 204)
	if g := one(); g["yields"] != true || g["own"] != true || g["shrink"] != true {
		t.Errorf("but from shrinking: %v", g)
	}
	y.exec(`UPDATE cloud_group SET suspended = '{AZRebalance}' WHERE id = $1`, someGroup)
	if p := y.json(y.admin, http.MethodDelete, y.path+"/cloud-groups/"+someGroup, nil, 409); !strings.Contains(p["detail"].(string), "given back") {
		t.Errorf("%v", p)
	}
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.NoteGroupWriters(ctx, tx, someGroup, nil, "the account may not say")
	})
	if g := one(); g["writers_problem"] != "the account may not say" || len(g["writers"].([]any)) != 0 || g["suspended"].([]any)[0] != "AZRebalance" {
		t.Errorf("%v", g)
	}
}
