package jobs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// pagers plays both services by their documented contracts: it refuses a wrong key and a body without what they require, and keeps incidents.
type pagers struct {
	t         *testing.T
	mu        sync.Mutex
	stumbles  int               // requests to answer with 503 first
	incidents map[string]string // service and name -> open, closed
	calls     []string
	changed   chan struct{}
}

func (p *pagers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer func() {
		p.mu.Unlock()
		p.changed <- struct{}{}
	}()
	if p.stumbles > 0 {
		p.stumbles--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var m map[string]any
	if json.NewDecoder(r.Body).Decode(&m) != nil || r.Header.Get("Plimsoll-Signature") != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch action, _ := m["event_action"].(string); {
	case r.URL.Path == "/v2/enqueue" && m["routing_key"] == "R0UT1NG" && m["dedup_key"] != "" && (action == "trigger" || action == "resolve"):
		if payload, _ := m["payload"].(map[string]any); action == "trigger" && (payload["summary"] == nil || payload["source"] == nil || payload["severity"] == nil) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.note("pagerduty/"+m["dedup_key"].(string), action == "trigger", action)
	case strings.HasPrefix(r.URL.Path, "/v2/alerts") && r.Header.Get("Authorization") == "GenieKey G3N13":
		if closing := strings.HasSuffix(r.URL.Path, "/close"); closing && r.URL.Query().Get("identifierType") == "alias" {
			p.note("opsgenie/"+strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v2/alerts/"), "/close"), false, "close")
		} else if m["message"] != nil && m["alias"] != nil {
			p.note("opsgenie/"+m["alias"].(string), true, "create")
		} else {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
	default:
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (p *pagers) note(name string, open bool, call string) {
	p.calls = append(p.calls, call)
	if open {
		p.incidents[name] = "open"
	} else if p.incidents[name] == "open" {
		p.incidents[name] = "closed"
	}
}

func (p *pagers) wait(n int) {
	p.t.Helper()
	for range n {
		select {
		case <-p.changed:
		case <-time.After(30 * time.Second):
			p.t.Fatal("no call came")
		}
	}
}

func (p *pagers) all(state string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.incidents {
		if s == state {
			n++
		}
	}
	return n
}

// A pager service keeps one incident per alert: it opens once however often it is told, the alert's end closes it, and an opening that comes
// after the end opens nothing. Keys are in no log.
func TestAPagerKeepsOneIncidentPerAlert(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	sealer := newSealer(t)
	p := &pagers{t: t, stumbles: 1, incidents: map[string]string{}, changed: make(chan struct{}, 100)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	duty := e.channel(sealer, store.ChannelPagerDuty, server.URL+"/v2/enqueue", "R0UT1NG")
	genie := e.channel(sealer, store.ChannelOpsgenie, server.URL+"/v2/alerts", "G3N13")
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, id := range []string{duty, genie} {
			if _, err := store.SaveRoute(ctx, tx, store.Route{Name: id, Channel: id, MinSeverity: store.SeverityInfo, Resolved: true}); err != nil {
				return err
			}
		}
		return nil
	})
	change := func(open bool) {
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			if open {
				return openAlert(ctx, tx, e.log, AlertThrash, "workload/w", store.SeverityCritical, tx.Now, map[string]any{"workload": "llm", "cycles": 3})
			}
			return resolveAlert(ctx, tx, e.log, AlertThrash, "workload/w", tx.Now)
		})
	}
	client := e.tellers(sealer, notify.New(notify.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), nil)
	change(true)
	change(true)
	e.insert(client, AnnounceArgs{})
	p.wait(3) // one stumbled
	e.quiet()
	if p.all("open") != 2 {
		t.Fatalf("incidents: %+v", p.incidents)
	}
	change(false)
	e.tx(func(ctx context.Context, tx *store.Tx) error { // announced by hand: the worker's run may not be over
		ids, err := announce(ctx, tx, "", e.log)
		for _, id := range ids {
			if _, err := client.InsertTx(ctx, tx.PGX(), DeliverArgs{Tenant: tx.Tenant, Delivery: id}, nil); err != nil {
				return err
			}
		}
		return err
	})
	p.wait(2)
	e.quiet()
	if p.all("closed") != 2 || p.all("open") != 0 {
		t.Fatalf("incidents: %+v", p.incidents)
	}

	// The opening is sent again by hand once it is over: nothing opens.
	var again string
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		log, err := store.Deliveries(ctx, tx, duty, store.Position{}, 10)
		if err != nil {
			return err
		}
		for _, d := range log {
			if strings.Contains(d.Payload, "R0UT1NG") {
				t.Error("the log has the key")
			}
			if d.Event == store.EventOpened {
				again, err = store.InsertDelivery(ctx, tx, store.Delivery{Webhook: d.Webhook, Alert: d.Alert, EventID: d.EventID, Event: d.Event, Payload: d.Payload})
				if err == nil {
					_, err = client.InsertTx(ctx, tx.PGX(), DeliverArgs{Tenant: tx.Tenant, Delivery: again}, nil)
				}
			}
		}
		return err
	})
	e.quiet()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		d, err := store.LoadDelivery(ctx, tx, again)
		if err == nil && (d.State != store.DeliveryFailed || !strings.Contains(d.LastError, "over before")) {
			t.Errorf("the late opening: %+v", d)
		}
		return err
	})
	if p.all("open") != 0 || len(p.calls) != 4 {
		t.Errorf("calls %v, incidents %v", p.calls, p.incidents)
	}
}
