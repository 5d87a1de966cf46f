package notify_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/notify"
)

func burningNotice(event string) notify.Notice {
	over := time.Date(2026, 3, 10, 11, 0, 0, 0, time.UTC)
	return notify.Notice{Event: event, ID: "e-" + event, Alert: "a1", Kind: "thrash", Subject: "workload/w1", Severity: "critical", At: over.Add(-time.Minute), OpenedAt: over.Add(-time.Hour),
		ResolvedAt: &over, Detail: map[string]any{"workload": "chat/Deployment/llm", "cycles": 4.0, "team": "red"}, Link: "https://plimsoll.example.com/alerts"}
}

func decode(t *testing.T, body []byte, err error) map[string]any {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnEventOfPagerDutyTriggersAndResolvesTheSameIncident(t *testing.T) {
	t.Parallel()
	body, err := burningNotice("alert.opened").PagerDuty(notify.English)
	opened := decode(t, body, err)
	want := map[string]any{"event_action": "trigger", "dedup_key": "plimsoll/a1", "client": "Plimsoll", "client_url": "https://plimsoll.example.com/alerts",
		"links": []any{map[string]any{"href": "https://plimsoll.example.com/alerts", "text": "Open in Plimsoll"}},
		"payload": map[string]any{"summary": "chat/Deployment/llm: 4 up-down-up cycles in an hour", "source": "workload/w1", "severity": "critical", "class": "thrash", "timestamp": "2026-03-10T10:00:00Z",
			"custom_details": map[string]any{"Kind": "thrash", "Since": "2026-03-10 10:00 UTC", "Over at": "2026-03-10 11:00 UTC", "cycles": "4", "team": "red", "workload": "chat/Deployment/llm"}}}
	if d := cmp.Diff(want, opened); d != "" {
		t.Errorf("trigger (-want +got):\n%s", d)
	}
	keyed, err := notify.WithRoutingKey(body, "R0UT1NG")
	if k := decode(t, keyed, err); k["routing_key"] != "R0UT1NG" || k["dedup_key"] != "plimsoll/a1" {
		t.Errorf("with its key: %v", k)
	}
	if _, err := notify.WithRoutingKey([]byte("no json"), "k"); err == nil {
		t.Error("a key was added to what is no event")
	}
	over, err := burningNotice("alert.resolved").PagerDuty(notify.Chinese)
	if d := cmp.Diff(map[string]any{"event_action": "resolve", "dedup_key": "plimsoll/a1", "client": "Plimsoll"}, decode(t, over, err)); d != "" {
		t.Errorf("resolve (-want +got):\n%s", d)
	}
	test, err := notify.Notice{Event: "test", ID: "e9", Severity: "info", At: time.Unix(0, 0)}.PagerDuty(notify.English)
	if m := decode(t, test, err); m["dedup_key"] != "plimsoll/e9" || m["payload"].(map[string]any)["source"] != "plimsoll" {
		t.Errorf("test: %v", m)
	}
}

func TestAnAlertOfOpsgenieIsMadeAndClosedUnderItsAlias(t *testing.T) {
	t.Parallel()
	n := burningNotice("alert.opened")
	n.Detail["workload"] = strings.Repeat("长", 300)
	body, err := n.Opsgenie(notify.English)
	made := decode(t, body, err)
	if made["alias"] != "plimsoll/a1" || made["priority"] != "P1" || made["entity"] != "workload/w1" || len([]rune(made["message"].(string))) > 130 {
		t.Errorf("made: %v", made)
	}
	if at, err := notify.OpsgenieAddress("https://api.example.com/v2/alerts", "alert.opened", body); err != nil || at != "https://api.example.com/v2/alerts" {
		t.Errorf("made at %s, %v", at, err)
	}
	body, err = burningNotice("alert.resolved").Opsgenie(notify.English)
	if closed := decode(t, body, err); closed["alias"] != "plimsoll/a1" || closed["message"] != nil {
		t.Errorf("closed: %v", closed)
	}
	if at, err := notify.OpsgenieAddress("https://api.example.com/v2/alerts/", "alert.resolved", body); err != nil || at != "https://api.example.com/v2/alerts/plimsoll%2Fa1/close?identifierType=alias" {
		t.Errorf("closed at %s, %v", at, err)
	}
	if _, err := notify.OpsgenieAddress("https://api.example.com/v2/alerts", "alert.resolved", []byte(`{}`)); err == nil {
		t.Error("closed under no alias")
	}
}
