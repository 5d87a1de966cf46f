package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

func TestABudgetThatActsThroughTheDoor(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	for field, bad := range map[string]any{"period": "decade", "breaker_percent": 50, "label_key": "tier", "breaker_minutes": -1} {
		b.with(b.finance, "POST", "/api/v1/budgets", map[string]any{"name": "x", "amount": "1", field: bad}).want(t, 422)
	}
	var made httpapi.Budget
	b.with(b.finance, "POST", "/api/v1/budgets", map[string]any{"name": "red", "team": "red", "amount": "20.00", "period": "week", "enforced": true,
		"breaker_percent": 300, "breaker_minutes": 0}).want(t, 201).into(t, &made)
	if !made.Enforced || made.Breaker == nil || made.Breaker.Percent != 300 || made.Breaker.Minutes != 0 || made.Breaker.Tripped || made.Period != "week" {
		t.Errorf("budget: %+v", made)
	}
	if want := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC); !made.PeriodStart.Equal(want) || made.PeriodEnd.Sub(want) != 7*24*time.Hour {
		t.Errorf("the week is %s to %s", made.PeriodStart, made.PeriodEnd)
	}
	path := "/api/v1/budgets/" + string(made.ID) + "/reset-breaker"
	operator := b.key(b.tenant.ID, auth.RoleOperator)
	b.with(operator, "POST", path, nil).want(t, 409) // it has not tripped
	b.exec(`UPDATE budget SET tripped_at = '2026-03-02T11:00Z' WHERE tenant_id = $1`, b.tenant.ID)
	var list struct{ Items []httpapi.Budget }
	b.get("/api/v1/budgets").want(t, 200).into(t, &list)
	if len(list.Items) != 1 || !list.Items[0].Breaker.Tripped {
		t.Fatalf("tripped: %+v", list.Items)
	}
	b.with(b.viewer, "POST", path, nil).want(t, 403)
	var reset httpapi.Budget
	b.with(operator, "POST", path, nil).want(t, 200).into(t, &reset)
	if reset.Breaker.Tripped || reset.Breaker.TrippedAt != nil {
		t.Errorf("reset: %+v", reset.Breaker)
	}
}

func TestChannelsThroughTheDoor(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	for _, bad := range []map[string]string{
		{"kind": "slack", "name": "x", "address": "http://hooks.slack.com/x"}, {"kind": "teams", "name": "x", "address": "https://10.0.0.1/x"},
		{"kind": "email", "name": "x", "address": "not an address"}, {"kind": "pager", "name": "x", "address": "https://example.com"}, {"kind": "webhook", "name": "", "address": "https://example.com"},
	} {
		b.with(b.finance, "POST", "/api/v1/channels", bad).want(t, 422)
	}
	var slack, mail, hook httpapi.NewChannel
	b.with(b.finance, "POST", "/api/v1/channels", map[string]string{"kind": "slack", "name": "ops", "address": "https://hooks.slack.com/services/T0/B0/secret", "language": "zh"}).want(t, 201).into(t, &slack)
	b.with(b.finance, "POST", "/api/v1/channels", map[string]string{"kind": "email", "name": "finance", "address": "Finance <finance@example.com>, ops@example.com"}).want(t, 201).into(t, &mail)
	b.with(b.finance, "POST", "/api/v1/channels", map[string]string{"kind": "webhook", "name": "pager", "address": "https://hooks.example.com/x"}).want(t, 201).into(t, &hook)
	if slack.Address != "https://hooks.slack.com/…" || slack.Secret != "" || mail.Address != "finance@example.com,ops@example.com" || !strings.HasPrefix(hook.Secret, "plw_") {
		t.Errorf("channels: %+v %+v %+v", slack, mail, hook)
	}
	if list := b.get("/api/v1/channels").want(t, 200); strings.Contains(string(list.body), "secret\"") || strings.Contains(string(list.body), "T0/B0") {
		t.Errorf("the list shows a secret: %s", list.body)
	}
	if list := b.get("/api/v1/webhooks").want(t, 200); strings.Contains(string(list.body), slack.ID) {
		t.Errorf("a Slack channel is listed as a webhook: %s", list.body)
	}
	for _, c := range []httpapi.NewChannel{slack, mail, hook} {
		b.with(b.finance, "POST", "/api/v1/channels/"+c.ID+"/test", nil).want(t, 202)
	}

	// Rotation: the new secret is shown once, the old one signs on for the overlap.
	var rotated httpapi.NewChannel
	b.with(b.finance, "POST", "/api/v1/channels/"+hook.ID+"/rotate", map[string]int{"overlap_hours": 2}).want(t, 200).into(t, &rotated)
	if rotated.Secret == hook.Secret || rotated.Secret == "" || rotated.OldUntil == nil {
		t.Errorf("rotated: %+v", rotated)
	}
	b.with(b.finance, "POST", "/api/v1/channels/"+slack.ID+"/rotate", map[string]int{}).want(t, 404) // it has no secret of ours

	// Routes and digests go with their channel.
	var route httpapi.Route
	b.with(b.finance, "POST", "/api/v1/notify-routes", map[string]any{"name": "all", "channel_id": slack.ID, "kinds": []string{"spend_breaker"}, "team": "red"}).want(t, 201).into(t, &route)
	if route.MinSeverity != store.SeverityWarning || !route.Resolved {
		t.Errorf("route: %+v", route)
	}
	b.with(b.finance, "POST", "/api/v1/notify-routes", map[string]any{"name": "x", "channel_id": "00000000-0000-4000-8000-000000000000"}).want(t, 422)
	b.with(b.finance, "PUT", "/api/v1/notify-routes/"+route.ID, map[string]any{"name": "all", "channel_id": slack.ID, "resolved": false, "min_severity": "critical"}).want(t, 200).into(t, &route)
	if route.Resolved || len(route.Kinds) != 0 {
		t.Errorf("changed route: %+v", route)
	}
	b.with(b.finance, "PUT", "/api/v1/digests/"+slack.ID+"/day", map[string]int{"hour": 9}).want(t, 204)
	b.with(b.finance, "PUT", "/api/v1/digests/"+slack.ID+"/day", map[string]int{"hour": 24}).want(t, 422)
	b.with(b.finance, "DELETE", "/api/v1/channels/"+slack.ID, nil).want(t, 204)
	var routes struct{ Items []httpapi.Route }
	var digests struct{ Items []httpapi.Digest }
	b.get("/api/v1/notify-routes").want(t, 200).into(t, &routes)
	b.get("/api/v1/digests").want(t, 200).into(t, &digests)
	if len(routes.Items) != 0 || len(digests.Items) != 0 {
		t.Errorf("left: %+v %+v", routes.Items, digests.Items)
	}
	other, _ := b.newTenant("Other", "other@harbour.test")
	b.with(b.key(other.ID, auth.RoleAdmin), "DELETE", "/api/v1/channels/"+hook.ID, nil).want(t, 404)
}

func TestSilencesAndAnomaliesThroughTheDoor(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	operator := b.key(b.tenant.ID, auth.RoleOperator)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, bad := range []map[string]any{{"reason": "", "until": later}, {"reason": "x", "until": "2020-01-01T00:00:00Z"}, {"reason": "x", "until": time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)}} {
		b.with(operator, "POST", "/api/v1/silences", bad).want(t, 422)
	}
	b.with(b.viewer, "POST", "/api/v1/silences", map[string]any{"reason": "x", "until": later}).want(t, 403)
	var made httpapi.Silence
	b.with(operator, "POST", "/api/v1/silences", map[string]any{"reason": "maintenance", "until": later, "kinds": []string{"agent_offline"}}).want(t, 201).into(t, &made)
	b.with(operator, "POST", "/api/v1/silences/"+made.ID+"/end", nil).want(t, 204)
	b.with(operator, "POST", "/api/v1/silences/"+made.ID+"/end", nil).want(t, 404)
	var all struct{ Items []httpapi.Silence }
	b.get("/api/v1/silences?all=true").want(t, 200).into(t, &all)
	if len(all.Items) != 1 || all.Items[0].EndedAt == nil {
		t.Errorf("silences: %+v", all.Items)
	}

	ctx := context.Background()
	var id string
	if err := b.owner.QueryRow(ctx, `INSERT INTO anomaly (tenant_id, id, scope, scope_key, day, direction, actual_nano, expected_nano, low_nano, high_nano, score, days, contributors, decisions, found_at)
VALUES ($1, gen_random_uuid(), 'team', 'red', '2026-03-01', 'up', 9000000000, 4000000000, 3000000000, 5000000000, 7.5, 30, '[]', '[]', now()) RETURNING id::text`, b.tenant.ID).Scan(&id); err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []httpapi.Anomaly }
	b.get("/api/v1/anomalies?open=true&scope=team").want(t, 200).into(t, &list)
	if len(list.Items) != 1 || list.Items[0].Actual.Amount != "9.00" || list.Items[0].Day != "2026-03-01" || list.Items[0].Name != "red" {
		t.Fatalf("anomalies: %+v", list.Items)
	}
	b.with(operator, "POST", "/api/v1/anomalies/"+id+"/acknowledge", map[string]string{"note": "load test"}).want(t, 200)
	b.get("/api/v1/anomalies?open=true").want(t, 200).into(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("acknowledged and open still: %+v", list.Items)
	}
	other, _ := b.newTenant("Other", "other@harbour.test")
	b.with(b.key(other.ID, auth.RoleViewer), "GET", "/api/v1/anomalies/"+id, nil).want(t, 404)
}

func TestAPagersKeyIsNeverShown(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	for _, bad := range []map[string]string{
		{"kind": "pagerduty", "name": "x"}, {"kind": "pagerduty", "name": "x", "key": "two words"}, {"kind": "opsgenie", "name": "x", "key": "k", "address": "http://api.opsgenie.com/v2/alerts"},
		{"kind": "pagerduty", "name": "x", "key": "k", "address": "https://169.254.169.254/"}, {"kind": "slack", "name": "x", "key": "k", "address": "https://hooks.slack.com/x"}, {"kind": "webhook", "name": "x"},
	} {
		b.with(b.finance, "POST", "/api/v1/channels", bad).want(t, 422)
	}
	var duty, genie httpapi.NewChannel
	made := b.with(b.finance, "POST", "/api/v1/channels", map[string]string{"kind": "pagerduty", "name": "on call", "key": "R0UT1NG"}).want(t, 201)
	made.into(t, &duty)
	b.with(b.finance, "POST", "/api/v1/channels", map[string]string{"kind": "opsgenie", "name": "eu", "key": "G3N13", "address": "https://api.eu.opsgenie.com/v2/alerts"}).want(t, 201).into(t, &genie)
	if duty.Address != "https://events.pagerduty.com/v2/enqueue" || genie.Address != "https://api.eu.opsgenie.com/v2/alerts" || duty.Secret != "" {
		t.Errorf("channels: %+v %+v", duty, genie)
	}
	for _, id := range []string{duty.ID, genie.ID} {
		b.with(b.finance, "POST", "/api/v1/channels/"+id+"/test", nil).want(t, 202)
		b.with(b.finance, "PUT", "/api/v1/digests/"+id+"/day", map[string]int{"hour": 8}).want(t, 422)
		if log := b.get("/api/v1/channels/"+id+"/deliveries").want(t, 200); strings.Contains(string(log.body), "R0UT1NG") || strings.Contains(string(log.body), "G3N13") {
			t.Errorf("the log shows a key: %s", log.body)
		}
	}
	if list := b.get("/api/v1/channels").want(t, 200); strings.Contains(string(list.body)+string(made.body), "R0UT1NG") {
		t.Errorf("the list shows a key: %s", list.body)
	}
}
