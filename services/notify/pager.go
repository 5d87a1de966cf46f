package notify

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Addresses of pager services where nobody names another: those of the EU have their own.
const (
	PagerDutyURL = "https://events.pagerduty.com/v2/enqueue"
	OpsgenieURL  = "https://api.opsgenie.com/v2/alerts"
)

// Most that the services take: https://developer.pagerduty.com/docs/events-api-v2-overview and https://docs.opsgenie.com/docs/alert-api.
const (
	mostSummary = 1024
	mostMessage = 130
)

// pagerKey is one incident's name at a pager service: the alert's, so that its end closes what its opening opened and a repetition opens nothing.
func (n Notice) pagerKey() string {
	if n.Alert != "" {
		return "plimsoll/" + n.Alert
	}
	return "plimsoll/" + n.ID
}

// PagerDuty makes an event of the Events API v2 without its routing key, which is a secret that WithRoutingKey adds when it is sent. An alert
// that opens triggers, one that is over resolves.
func (n Notice) PagerDuty(lang Language) ([]byte, error) {
	type object = map[string]any
	event := object{"event_action": "trigger", "dedup_key": n.pagerKey(), "client": "Plimsoll"}
	if n.Event == "alert.resolved" {
		event["event_action"] = "resolve"
		return json.Marshal(event)
	}
	severity := n.Severity
	if severity != "critical" && severity != "warning" {
		severity = "info"
	}
	source := n.Subject
	if source == "" {
		source = "plimsoll"
	}
	payload := object{"summary": cut(n.Headline(lang), mostSummary), "source": source, "severity": severity, "custom_details": n.fields(lang)}
	if at := n.began(); !at.IsZero() {
		payload["timestamp"] = at.UTC().Format(time.RFC3339)
	}
	if n.Kind != "" {
		payload["class"] = n.Kind
	}
	event["payload"] = payload
	if n.Link != "" {
		event["client_url"] = n.Link
		event["links"] = []object{{"href": n.Link, "text": words[lang]["open"]}}
	}
	return json.Marshal(event)
}

// WithRoutingKey adds the key of a PagerDuty integration to an event.
func WithRoutingKey(event []byte, key string) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(event, &fields); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	k, err := json.Marshal(key)
	if err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	fields["routing_key"] = k
	return json.Marshal(fields)
}

// Opsgenie makes the body of a call of its Alert API: that creates an alert, or closes it. Which one the event says; OpsgenieAddress says where.
func (n Notice) Opsgenie(lang Language) ([]byte, error) {
	if n.Event == "alert.resolved" {
		return json.Marshal(map[string]any{"source": "Plimsoll", "alias": n.pagerKey(), "note": cut(n.Headline(lang), mostSummary)})
	}
	priority := map[string]string{"critical": "P1", "warning": "P3"}[n.Severity]
	if priority == "" {
		priority = "P5"
	}
	body := map[string]any{"message": cut(n.Headline(lang), mostMessage), "alias": n.pagerKey(), "source": "Plimsoll", "priority": priority, "details": n.fields(lang)}
	if n.Subject != "" {
		body["entity"] = cut(n.Subject, 512)
	}
	if n.Kind != "" {
		body["tags"] = []string{cut(n.Kind, 50)}
	}
	if n.Link != "" {
		body["description"] = n.Headline(lang) + "\n" + n.Link
	}
	return json.Marshal(body)
}

// OpsgenieAddress is where the body of an event goes: an alert is closed under its alias.
func OpsgenieAddress(base, event string, body []byte) (string, error) {
	if event != "alert.resolved" {
		return base, nil
	}
	var of struct{ Alias string }
	if err := json.Unmarshal(body, &of); err != nil || of.Alias == "" {
		return "", fmt.Errorf("read alias: %w", err)
	}
	return strings.TrimSuffix(base, "/") + "/" + url.PathEscape(of.Alias) + "/close?identifierType=alias", nil
}

// began is when what a notice tells of began.
func (n Notice) began() time.Time {
	if n.OpenedAt.IsZero() {
		return n.At
	}
	return n.OpenedAt
}

func (n Notice) fields(lang Language) map[string]string {
	out := map[string]string{}
	for _, l := range n.Facts(lang) {
		out[l.Name] = l.Value
	}
	return out
}

// cut shortens a text to so many characters.
func cut(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}
