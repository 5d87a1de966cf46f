package httpapi_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plimsoll.dev/services/auth"
)

// document is what the tests read of the OpenAPI document.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string                `json:"operationId"`
		Security    []map[string][]string `json:"security"`
		Parameters  []struct {
			Name, In string
		} `json:"parameters"`
	} `json:"paths"`
}

func (d *door) document() document {
	d.t.Helper()
	var doc document
	got := d.call("GET", "/api/v1/openapi.yaml", nil).want(d.t, 200)
	if err := yaml.Unmarshal(got.body, &doc); err != nil {
		d.t.Fatal(err)
	}
	return doc
}

// Every operation of the API, whoever wrote it, is closed to strangers, and those that change something are closed to viewers. The
// exceptions are named here one by one.
func TestEveryOperationKnowsWhoMayCallIt(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{requestsPerMinute: 100_000})
	open := map[string]bool{"login": true, "logout": true}
	viewerMay := map[string]string{
		"change-password":         "one's own",
		"lint-policy":             "computes, changes nothing",
		"recompute-decision":      "computes, changes nothing",
		"preview-capacity-policy": "computes, changes nothing",
	}
	viewer := d.key(d.tenant.ID, auth.RoleViewer)
	operations := 0
	for path, methods := range d.document().Paths {
		for method, o := range methods {
			method = strings.ToUpper(method)
			operations++
			url := path
			for _, p := range o.Parameters {
				if p.In == "path" {
					url = strings.ReplaceAll(url, "{"+p.Name+"}", "99999999-9999-4999-8999-999999999999")
				}
			}
			if open[o.OperationID] {
				if len(o.Security) != 0 {
					t.Errorf("%s is open and says that it is not", o.OperationID)
				}
				continue
			}
			if len(o.Security) != 2 {
				t.Errorf("%s does not say how to sign in: %v", o.OperationID, o.Security)
			}
			// No body, a wrong body: who asks counts before what is asked.
			for _, body := range []any{nil, "{"} {
				got := d.call(method, url, body)
				got.problem(t)
				if got.status != 401 {
					t.Errorf("%s without credentials: %d %s", o.OperationID, got.status, got.body)
				}
			}
			got := d.with(viewer, method, url, nil)
			got.problem(t)
			switch {
			case method == "GET" && got.status == 401, method == "GET" && got.status >= 500:
				t.Errorf("viewer at %s: %d %s", o.OperationID, got.status, got.body)
			case method != "GET" && viewerMay[o.OperationID] == "" && got.status != 403:
				t.Errorf("viewer changes something by %s: %d %s", o.OperationID, got.status, got.body)
			}
		}
	}
	if operations < 25 {
		t.Errorf("walked %d operations only", operations)
	}
}

// The roles of what this room owns, cell by cell: whether each may call it at all.
func TestRoleMatrix(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{requestsPerMinute: 100_000})
	keys := map[auth.Role]string{}
	for _, r := range []auth.Role{auth.RoleAdmin, auth.RoleOperator, auth.RoleFinance, auth.RoleViewer} {
		keys[r] = d.key(d.tenant.ID, r)
	}
	const id = "99999999-9999-4999-8999-999999999999"
	for _, row := range []struct {
		call string
		may  string
	}{
		{"GET /api/v1/me", "admin operator finance viewer"},
		{"GET /api/v1/members", "admin operator finance viewer"},
		{"POST /api/v1/members", "admin"},
		{"PATCH /api/v1/members/" + id, "admin"},
		{"DELETE /api/v1/members/" + id, "admin"},
		{"GET /api/v1/api-keys", "admin"},
		{"POST /api/v1/api-keys", "admin"},
		{"DELETE /api/v1/api-keys/" + id, "admin"},
		{"GET /api/v1/audit", "admin"},
		{"GET /api/v1/audit/verification", "admin"},
		{"GET /api/v1/clusters", "admin operator finance viewer"},
		{"POST /api/v1/clusters", "admin operator"},
		{"GET /api/v1/clusters/" + id, "admin operator finance viewer"},
		{"PATCH /api/v1/clusters/" + id, "admin operator"},
		{"POST /api/v1/clusters/" + id + "/enrolment-tokens", "admin operator"},
		{"DELETE /api/v1/clusters/" + id + "/enrolment-tokens", "admin operator"},
		{"GET /api/v1/clusters/" + id + "/nodes", "admin operator finance viewer"},
		{"GET /api/v1/clusters/" + id + "/events", "admin operator finance viewer"},
		{"GET /api/v1/demo/speed", "admin operator finance viewer"},
		{"PUT /api/v1/demo/speed", "admin operator"},
	} {
		method, path, _ := strings.Cut(row.call, " ")
		for role, key := range keys {
			want := strings.Contains(row.may, string(role))
			if got := d.with(key, method, path, nil); (got.status != 403) != want {
				t.Errorf("%s as %s: %d %s", row.call, role, got.status, got.body)
			}
		}
	}
}

func TestMembersComeChangeAndGo(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	owner := d.login("owner@harbour.test", testPassword)
	as := func(cookie, method, path string, body any) answer {
		return d.call(method, path, body, "Cookie", cookie)
	}
	type member struct{ ID, Email, Role string }
	add := func(cookie, email, role string) answer {
		return as(cookie, "POST", "/api/v1/members", map[string]string{"email": email, "role": role, "password": testPassword})
	}
	var admin, viewer member
	add(owner, "Admin@Harbour.test", "admin").want(t, 201).into(t, &admin)
	if admin.Email != "admin@harbour.test" || admin.Role != "admin" {
		t.Errorf("added %+v", admin)
	}
	adminCookie := d.login("admin@harbour.test", testPassword)
	add(adminCookie, "viewer@harbour.test", "viewer").want(t, 201).into(t, &viewer)
	add(adminCookie, "viewer@harbour.test", "viewer").want(t, 409)
	add(adminCookie, "second@harbour.test", "owner").want(t, 403)
	add(adminCookie, "not an address", "viewer").want(t, 422)
	add(adminCookie, "x@harbour.test", "emperor").want(t, 422)
	as(owner, "POST", "/api/v1/members", map[string]string{"email": "new@harbour.test", "role": "viewer"}).want(t, 422)
	as(owner, "POST", "/api/v1/members", map[string]string{"email": "new@harbour.test", "role": "viewer", "password": "short"}).want(t, 422)

	ownerPath := "/api/v1/members/" + string(d.user.ID)
	as(adminCookie, "PATCH", ownerPath, map[string]string{"role": "viewer"}).want(t, 403)
	as(adminCookie, "DELETE", ownerPath, nil).want(t, 403)
	as(owner, "PATCH", ownerPath, map[string]string{"role": "viewer"}).want(t, 409) // the last owner
	as(owner, "DELETE", ownerPath, nil).want(t, 409)
	as(owner, "PATCH", "/api/v1/members/"+admin.ID, map[string]string{"role": "owner"}).want(t, 200)
	as(owner, "PATCH", ownerPath, map[string]string{"role": "operator"}).want(t, 200)
	as(owner, "DELETE", "/api/v1/members/"+viewer.ID, nil).want(t, 403) // no admin any more
	as(adminCookie, "DELETE", "/api/v1/members/"+viewer.ID, nil).want(t, 204)
	as(adminCookie, "DELETE", "/api/v1/members/"+viewer.ID, nil).want(t, 404)

	var list struct{ Items []member }
	as(owner, "GET", "/api/v1/members", nil).want(t, 200).into(t, &list)
	if len(list.Items) != 2 || list.Items[0].Email != "admin@harbour.test" || list.Items[0].Role != "owner" || list.Items[1].Role != "operator" {
		t.Errorf("members %+v", list.Items)
	}
	if got := as(owner, "GET", "/api/v1/members", nil); bytes.Contains(got.body, []byte("argon2")) {
		t.Error("the list shows password hashes")
	}
}

func TestAnotherTenantsMembersAreNotThere(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	_, stranger := d.newTenant("Quay", "owner@quay.test")
	owner := d.login("owner@harbour.test", testPassword)
	path := "/api/v1/members/" + string(stranger.ID)
	d.call("PATCH", path, map[string]string{"role": "viewer"}, "Cookie", owner).want(t, 404)
	d.call("DELETE", path, nil, "Cookie", owner).want(t, 404)
	if got := d.call("GET", "/api/v1/members", nil, "Cookie", owner).want(t, 200); bytes.Contains(got.body, []byte("quay")) {
		t.Errorf("sees another tenant's people: %s", got.body)
	}
}

func TestKeysAreMadeShownOnceAndRevoked(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	owner := d.login("owner@harbour.test", testPassword)
	create := func(body any) answer { return d.call("POST", "/api/v1/api-keys", body, "Cookie", owner) }
	var made struct{ ID, Secret, Hint, Role string }
	create(map[string]any{"name": "ci", "role": "operator"}).want(t, 201).into(t, &made)
	if !strings.HasPrefix(made.Secret, "plk_") || !strings.HasSuffix(made.Secret, made.Hint) {
		t.Fatalf("made %+v", made)
	}
	d.with(made.Secret, "POST", "/api/v1/clusters", map[string]string{"name": "by-key"}).want(t, 201)
	list := d.call("GET", "/api/v1/api-keys", nil, "Cookie", owner).want(t, 200)
	if bytes.Contains(list.body, []byte(made.Secret)) || !bytes.Contains(list.body, []byte(made.ID)) || bytes.Contains(list.body, []byte(`"last_used_at":null`)) {
		t.Errorf("list: %s", list.body)
	}
	create(map[string]any{"name": "x", "role": "owner"}).want(t, 422)
	create(map[string]any{"name": "", "role": "viewer"}).want(t, 422)
	create(map[string]any{"name": "  ", "role": "viewer"}).want(t, 422)
	create(map[string]any{"name": "x", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}).want(t, 422)
	create(map[string]any{"name": "x", "role": "viewer", "expires_at": "soon"}).want(t, 422)
	d.call("DELETE", "/api/v1/api-keys/"+made.ID, nil, "Cookie", owner).want(t, 204)
	d.with(made.Secret, "GET", "/api/v1/me", nil).want(t, 401)
	d.call("DELETE", "/api/v1/api-keys/"+made.ID, nil, "Cookie", owner).want(t, 404)
}

func TestEveryChangeIsInTheAuditLogAndTheChainShowsTampering(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	owner := d.login("owner@harbour.test", testPassword)
	as := func(method, path string, body any) answer { return d.call(method, path, body, "Cookie", owner) }
	var cluster, key struct{ ID string }
	as("POST", "/api/v1/clusters", map[string]string{"name": "north"}).want(t, 201).into(t, &cluster)
	as("PATCH", "/api/v1/clusters/"+cluster.ID, map[string]any{"frozen": true}).want(t, 200)
	as("PATCH", "/api/v1/clusters/"+cluster.ID, map[string]any{"frozen": true}).want(t, 200) // changes nothing
	as("POST", "/api/v1/clusters/"+cluster.ID+"/enrolment-tokens", nil).want(t, 201)
	as("DELETE", "/api/v1/clusters/"+cluster.ID+"/enrolment-tokens", nil).want(t, 204)
	as("POST", "/api/v1/api-keys", map[string]any{"name": "ci", "role": "viewer"}).want(t, 201).into(t, &key)
	as("DELETE", "/api/v1/api-keys/"+key.ID, nil).want(t, 204)
	as("POST", "/api/v1/clusters", map[string]string{"name": "north"}).want(t, 409) // a refused change leaves no line
	type entry struct {
		Seq                   int64
		Actor, Action, Object string
		Detail                map[string]string
	}
	var all []entry
	for cursor := ""; ; {
		var page struct {
			Items []entry
			Next  string `json:"next_cursor"`
		}
		as("GET", "/api/v1/audit?limit=3&cursor="+cursor, nil).want(t, 200).into(t, &page)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var got []string
	for i, e := range all {
		if e.Seq != int64(len(all)-i) {
			t.Errorf("entry %d has number %d", i, e.Seq)
		}
		if want := "user:" + string(d.user.ID); e.Actor != want && e.Action != "tenant.create" {
			t.Errorf("%s by %s, want %s", e.Action, e.Actor, want)
		}
		if e.Action == "session.open" && e.Detail["address"] != "127.0.0.1" {
			t.Errorf("signed in from %q", e.Detail["address"])
		}
		got = append(got, e.Action)
	}
	want := "api_key.revoke api_key.create enrolment_token.revoke enrolment_token.create cluster.set cluster.create session.open tenant.create"
	if strings.Join(got, " ") != want {
		t.Errorf("log %v\nwant %s", got, want)
	}
	var check struct {
		Entries int64
		Intact  bool
		Broken  *int64 `json:"broken_at"`
	}
	as("GET", "/api/v1/audit/verification", nil).want(t, 200).into(t, &check)
	if !check.Intact || check.Entries != int64(len(all)) || check.Broken != nil {
		t.Errorf("verification %+v", check)
	}
	for name, tamper := range map[string]string{
		"detail changed": `UPDATE audit_log SET detail = '{"name": "south"}' WHERE seq = 4`,
		"actor changed":  "UPDATE audit_log SET actor = 'system' WHERE seq = 4",
		"moved in time":  "UPDATE audit_log SET at = at + interval '1 microsecond' WHERE seq = 4",
		"taken out":      "DELETE FROM audit_log WHERE seq = 4",
	} {
		tx, err := d.owner.Begin(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(context.Background(), "CREATE TABLE kept AS SELECT * FROM audit_log WHERE seq = 4"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(context.Background(), tamper); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		as("GET", "/api/v1/audit/verification", nil).want(t, 200).into(t, &check)
		if check.Intact || check.Broken == nil || *check.Broken != 4 {
			t.Errorf("%s: %+v", name, check)
		}
		d.exec("DELETE FROM audit_log WHERE seq = 4")
		d.exec("INSERT INTO audit_log SELECT * FROM kept")
		d.exec("DROP TABLE kept")
	}
	check.Broken = nil
	as("GET", "/api/v1/audit/verification", nil).want(t, 200).into(t, &check)
	if !check.Intact {
		t.Errorf("put back as it was: %+v", check)
	}
}
