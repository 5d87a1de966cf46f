package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

type clusterView struct {
	ID, Name, Mode, Health string
	Frozen                 bool
	Nodes, GPUs, Workloads int
	UnpricedNodes          int `json:"unpriced_nodes"`
	Capabilities           []string
	CostHour               *struct{ Amount, Currency string } `json:"cost_hour"`
	AgentLimits            struct {
		MaxReplicas int64 `json:"max_replicas"`
	} `json:"agent_limits"`
}

func TestClusterIsMadeSeenFrozenAndChanged(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleOperator)
	var c clusterView
	d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": "north-1"}).want(t, 201).into(t, &c)
	if c.Mode != "recommend" || c.Health != "never" || c.Frozen || c.CostHour != nil || c.Capabilities == nil {
		t.Errorf("new cluster %+v", c)
	}
	path := "/api/v1/clusters/" + c.ID
	d.with(key, "PATCH", path, map[string]any{"mode": "enforce", "frozen": true}).want(t, 200).into(t, &c)
	if c.Mode != "enforce" || !c.Frozen {
		t.Errorf("changed to %+v", c)
	}
	d.with(key, "PATCH", path, map[string]any{"frozen": false}).want(t, 200).into(t, &c)
	if c.Mode != "enforce" || c.Frozen {
		t.Errorf("only the freeze was to end: %+v", c)
	}
	d.with(key, "PATCH", path, map[string]any{"mode": "berserk"}).want(t, 422)
	d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": "north-1"}).want(t, 409)
	for _, name := range []string{"", "-x", "a b", "a;rm -rf", "a$(id)", "ü", strings.Repeat("a", 64)} {
		d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": name}).want(t, 422)
	}
	d.with(key, "GET", "/api/v1/clusters/not-a-uuid", nil).want(t, 422)
	d.with(key, "GET", "/api/v1/clusters/99999999-9999-4999-8999-999999999999", nil).want(t, 404)
}

func TestClustersComeInPagesByName(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleOperator)
	for i := range 7 {
		d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": fmt.Sprintf("c%d", 6-i)}).want(t, 201)
	}
	var names []string
	pages := 0
	for cursor := ""; ; {
		var page struct {
			Items []clusterView
			Next  string `json:"next_cursor"`
		}
		d.with(key, "GET", "/api/v1/clusters?limit=3&cursor="+cursor, nil).want(t, 200).into(t, &page)
		pages++
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if pages != 3 || strings.Join(names, "") != "c0c1c2c3c4c5c6" {
		t.Errorf("%d pages: %v", pages, names)
	}
	for _, cursor := range []string{"!!!", "bm90IGpzb24", "eyJhIjoxfQ"} {
		d.with(key, "GET", "/api/v1/clusters?cursor="+cursor, nil).want(t, 422)
	}
	d.with(key, "GET", "/api/v1/clusters?limit=0", nil).want(t, 422)
	d.with(key, "GET", "/api/v1/clusters?limit=501", nil).want(t, 422)
}

func TestClusterCountsItsContentsAndNodesKnowTheirPrice(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleOperator)
	var c clusterView
	d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": "north"}).want(t, 201).into(t, &c)
	tenant := string(d.tenant.ID)
	node := func(uid, kind string, gpus int, ended any) {
		d.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, phase, gpu_model, gpu_count, started_at, ended_at)
			VALUES ($1, $2, $3, 'n-' || $3, 'aws', 'us-east-1', 'us-east-1a', $4, 'ready', 'L4', $5, now() - interval '1 day', $6)`, tenant, c.ID, uid, kind, gpus, ended)
	}
	node("a", "g6.xlarge", 1, nil)
	node("b", "g6.xlarge", 1, nil) // as a
	node("c", "mystery", 8, nil)   // nobody knows its price
	node("d", "g6.xlarge", 1, time.Now())
	// The tenant's own price counts, and of two machines one is reserved at half of it.
	d.exec(`INSERT INTO tenant_price (tenant_id, cloud, region, instance_type, purchase, valid_from, hour_nano, created_by, created_at)
		VALUES ($1, 'aws', '', 'g6.xlarge', 'on_demand', now() - interval '2 days', 500000001, 'test', now())`, tenant)
	finance := d.key(d.tenant.ID, auth.RoleFinance)
	d.with(finance, "POST", "/api/v1/commitments", map[string]string{"ref": "ri", "kind": "aws_zonal_ri", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "g6.xlarge",
		"quantity": "1", "recurring_hour": "0.25", "starts_at": time.Now().AddDate(0, -1, 0).Format(time.DateOnly), "ends_at": time.Now().AddDate(0, 11, 0).Format(time.DateOnly)}).want(t, 201)
	d.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, node, phase, cpu_milli, mem_mib, gpu_milli, created_at, ended_at) VALUES
		($1, $2, '1', 'p1', 'ns', 'n-a', 'ready', 500, 1024, 500, now(), NULL), ($1, $2, '2', 'p2', 'ns', 'n-a', 'loading', 250, 512, 250, now(), NULL),
		($1, $2, '3', 'p3', 'ns', 'n-a', 'ended', 9000, 9000, 9000, now(), now()), ($1, $2, '4', 'p4', 'ns', '', 'pending', 9000, 9000, 9000, now(), NULL)`, tenant, c.ID)
	d.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, first_seen, gone_at) VALUES
		($1, gen_random_uuid(), $2, 'ns/Deployment/a', 'ns', 'Deployment', 'a', now(), NULL), ($1, gen_random_uuid(), $2, 'ns/Deployment/b', 'ns', 'Deployment', 'b', now(), now())`, tenant, c.ID)
	d.exec(`UPDATE cluster SET last_seen_at = now(), agent_limits = '{"max_replicas": 40}', capabilities = '{scale}' WHERE id = $1`, c.ID)
	d.with(key, "GET", "/api/v1/clusters/"+c.ID, nil).want(t, 200).into(t, &c)
	if c.Nodes != 3 || c.GPUs != 10 || c.Workloads != 1 || c.UnpricedNodes != 1 || c.Health != "online" || c.AgentLimits.MaxReplicas != 40 {
		t.Errorf("cluster %+v", c)
	}
	if c.CostHour == nil || fleetMoney(t, c.CostHour.Amount) != 750_000_001 || c.CostHour.Currency != "USD" {
		t.Errorf("cost %+v", c.CostHour)
	}
	var nodes struct {
		Items []struct {
			Name         string
			Pods         int
			GPUCount     int                      `json:"gpu_count"`
			GPUAllocated float64                  `json:"gpu_allocated"`
			CPUAllocated int64                    `json:"cpu_milli_allocated"`
			CostHour     *struct{ Amount string } `json:"cost_hour"`
		}
		Next string `json:"next_cursor"`
	}
	d.with(key, "GET", "/api/v1/clusters/"+c.ID+"/nodes", nil).want(t, 200).into(t, &nodes)
	if len(nodes.Items) != 3 || nodes.Next != "" {
		t.Fatalf("nodes %+v", nodes)
	}
	a, b, mystery := nodes.Items[0], nodes.Items[1], nodes.Items[2]
	if a.Name != "n-a" || a.Pods != 2 || a.GPUAllocated != 0.75 || a.CPUAllocated != 750 || a.CostHour == nil || b.Pods != 0 || b.CostHour == nil ||
		fleetMoney(t, a.CostHour.Amount)+fleetMoney(t, b.CostHour.Amount) != 750_000_001 {
		t.Errorf("nodes %+v", nodes.Items)
	}
	if mystery.CostHour != nil {
		t.Errorf("a node without a price costs %v", mystery.CostHour)
	}
	d.with(key, "GET", "/api/v1/clusters/"+c.ID+"/nodes?limit=2", nil).want(t, 200).into(t, &nodes)
	next := nodes.Next
	nodes.Next = ""
	d.with(key, "GET", "/api/v1/clusters/"+c.ID+"/nodes?limit=2&cursor="+next, nil).want(t, 200).into(t, &nodes)
	if len(nodes.Items) != 1 || nodes.Items[0].Name != "n-c" || nodes.Next != "" {
		t.Errorf("second page %+v", nodes)
	}
}

func fleetMoney(t *testing.T, s string) fleet.Money {
	t.Helper()
	m, err := fleet.ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestClusterEventsComeInPagesNewestFirst(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleOperator)
	var c clusterView
	d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": "north"}).want(t, 201).into(t, &c)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 10 { // five pairs of the same moment
		d.exec(`INSERT INTO cluster_event (tenant_id, cluster_id, at, stream, epoch, seq, position, kind, message) VALUES ($1, $2, $3, 'controller', 1, $4, $5, $6, $7)`,
			string(d.tenant.ID), c.ID, at.Add(time.Duration(i/2)*time.Minute), i/2, i%2, []string{"oom", "interruption"}[i%2], fmt.Sprint(i))
	}
	read := func(query string) (messages string) {
		for cursor := ""; ; {
			var page struct {
				Items []struct{ Message string }
				Next  string `json:"next_cursor"`
			}
			d.with(key, "GET", "/api/v1/clusters/"+c.ID+"/events?limit=3&cursor="+cursor+query, nil).want(t, 200).into(t, &page)
			for _, e := range page.Items {
				messages += e.Message
			}
			if cursor = page.Next; cursor == "" {
				return messages
			}
		}
	}
	if got := read(""); got != "9876543210" {
		t.Errorf("all events: %s", got)
	}
	if got := read("&kind=oom"); got != "86420" {
		t.Errorf("events of a kind: %s", got)
	}
}

func TestAnotherTenantsClusterIsNotThere(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	other, _ := d.newTenant("Quay", "owner@quay.test")
	var c clusterView
	d.with(d.key(other.ID, auth.RoleOperator), "POST", "/api/v1/clusters", map[string]string{"name": "theirs"}).want(t, 201).into(t, &c)
	ours := d.key(d.tenant.ID, auth.RoleAdmin)
	path := "/api/v1/clusters/" + c.ID
	d.with(ours, "GET", path, nil).want(t, 404)
	d.with(ours, "PATCH", path, map[string]any{"frozen": true}).want(t, 404)
	d.with(ours, "POST", path+"/enrolment-tokens", nil).want(t, 404)
	d.with(ours, "DELETE", path+"/enrolment-tokens", nil).want(t, 404)
	d.with(ours, "GET", path+"/nodes", nil).want(t, 404)
	d.with(ours, "GET", path+"/events", nil).want(t, 404)
	var list struct{ Items []clusterView }
	d.with(ours, "GET", "/api/v1/clusters", nil).want(t, 200).into(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("sees %+v", list.Items)
	}
	// A name is taken within a tenant only.
	d.with(ours, "POST", "/api/v1/clusters", map[string]string{"name": "theirs"}).want(t, 201)
}

func TestEnrolmentTokenLetsOneInstallationIn(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleOperator)
	var c clusterView
	d.with(key, "POST", "/api/v1/clusters", map[string]string{"name": "north"}).want(t, 201).into(t, &c)
	token := func(body any) string {
		t.Helper()
		var made struct {
			Token, Helm string
			Command     string    `json:"helm_command"`
			Expires     time.Time `json:"expires_at"`
		}
		d.with(key, "POST", "/api/v1/clusters/"+c.ID+"/enrolment-tokens", body).want(t, 201).into(t, &made)
		if !strings.Contains(made.Command, "--set enrolment.token="+made.Token) || !strings.Contains(made.Command, "--set clusterName=north") || !made.Expires.After(time.Now()) {
			t.Errorf("made %+v", made)
		}
		return made.Token
	}
	redeem := func(token, install string) (fleet.ClusterID, error) {
		shown, err := auth.ParseEnrolmentToken(token)
		if err != nil {
			return "", err
		}
		var cluster fleet.ClusterID
		err = d.db.Tenant(context.Background(), shown.Tenant, func(tx *store.Tx) (err error) {
			cluster, err = store.RedeemEnrolment(context.Background(), tx, shown.ID, shown.Matches, install)
			return err
		})
		return cluster, err
	}
	refused := func(what, token, install string, code fleet.Code) {
		t.Helper()
		got, err := redeem(token, install)
		var coded *fleet.Error
		if !errors.As(err, &coded) || coded.Code != code || got != "" {
			t.Errorf("%s: cluster %q, %v", what, got, err)
		}
	}
	first := token(nil)
	refused("no install id", first, "", fleet.CodeInvalid)
	refused("install id too long", first, strings.Repeat("x", 200), fleet.CodeInvalid)
	for range 2 { // the answer may have got lost
		if got, err := redeem(first, "install-1"); err != nil || string(got) != c.ID {
			t.Fatalf("redeemed %q, %v", got, err)
		}
	}
	refused("another installation", first, "install-2", fleet.CodeUnauthorized)
	d.exec("UPDATE enrolment_token SET expires_at = now() - interval '1 hour'")
	if got, err := redeem(first, "install-1"); err != nil || string(got) != c.ID {
		t.Errorf("the same installation after a long absence: %q, %v", got, err)
	}
	late := token(map[string]any{"expires_in_hours": 1})
	d.exec("UPDATE enrolment_token SET expires_at = now() - interval '1 second' WHERE used_at IS NULL")
	refused("first use after the expiry", late, "install-3", fleet.CodeUnauthorized)
	d.with(key, "DELETE", "/api/v1/clusters/"+c.ID+"/enrolment-tokens", nil).want(t, 204)
	refused("revoked", first, "install-1", fleet.CodeUnauthorized)
	forged, err := auth.NewEnrolmentToken(d.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	refused("never made", forged.Token, "install-1", fleet.CodeUnauthorized)
	d.with(key, "POST", "/api/v1/clusters/"+c.ID+"/enrolment-tokens", map[string]any{"expires_in_hours": 721}).want(t, 422)
	for range 20 {
		token(nil)
	}
	d.with(key, "POST", "/api/v1/clusters/"+c.ID+"/enrolment-tokens", nil).want(t, 409)
	var enrolled int
	if err := d.owner.QueryRow(context.Background(), "SELECT count(*) FROM audit_log WHERE action = 'agent.enrol'").Scan(&enrolled); err != nil || enrolled != 1 {
		t.Errorf("%d enrolments in the audit log, %v", enrolled, err)
	}
}

func TestHealthIsJudgedByOurClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]store.Health{
		-time.Minute: store.HealthOnline, 0: store.HealthOnline, 90 * time.Second: store.HealthOnline,
		91 * time.Second: store.HealthLagging, 5 * time.Minute: store.HealthLagging, 5*time.Minute + 1: store.HealthOffline,
	} {
		seen := now.Add(-ago)
		if got := store.HealthOf(now, &seen); got != want {
			t.Errorf("seen %v ago: %s, want %s", ago, got, want)
		}
	}
	if got := store.HealthOf(now, nil); got != store.HealthNever {
		t.Errorf("never seen: %s", got)
	}
}
