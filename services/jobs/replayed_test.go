package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// careful is a receiver as the guide asks for: it checks the signature by its clock, and acts once per event, by the id in the signed body.
type careful struct {
	secret  string
	mu      sync.Mutex
	clock   time.Duration // ahead of ours
	mute    bool          // it acts, but its answer is lost
	acted   map[string]int
	seen    []*http.Request
	bodies  [][]byte
	refused int
	effect  chan string
}

func (c *careful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.seen, c.bodies = append(c.seen, r), append(c.bodies, body)
	var m struct{ ID, Event string }
	switch {
	case notify.Verify([]byte(c.secret), r.Header.Get("Plimsoll-Signature"), body, time.Now().Add(c.clock), 5*time.Minute) != nil:
		c.refused++
		w.WriteHeader(http.StatusForbidden)
	case json.Unmarshal(body, &m) != nil || m.ID == "":
		w.WriteHeader(http.StatusBadRequest)
	case c.acted[m.ID] == 0:
		c.acted[m.ID]++
		c.effect <- m.Event
	}
	mute := c.mute
	c.mute = false
	c.mu.Unlock()
	if mute {
		<-r.Context().Done()
	}
}

// playAgain sends a message that somebody listened to once more and returns the status.
func (c *careful) playAgain(t *testing.T, url string, r *http.Request, body []byte, id string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.Header.Clone()
	if id != "" {
		req.Header.Set("Plimsoll-Event-Id", id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// An answer that is lost makes us send again, and an eavesdropper plays messages again at once, later, under another id and changed: each change
// of state has one effect all the same.
func TestAChangeOfStateHasOneEffectWhoeverSendsItAgain(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	sealer, secret := newSealer(t), notify.NewSecret()
	c := &careful{secret: secret, mute: true, acted: map[string]int{}, effect: make(chan string, 10)}
	receiver := httptest.NewServer(c)
	t.Cleanup(receiver.Close)
	hook := e.channel(sealer, store.ChannelWebhook, receiver.URL, secret)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := store.SaveRoute(ctx, tx, store.Route{Name: "all", Channel: hook, MinSeverity: store.SeverityInfo, Resolved: true}); err != nil {
			return err
		}
		return openAlert(ctx, tx, e.log, AlertThrash, "workload/w", store.SeverityWarning, tx.Now, map[string]any{"workload": "llm"})
	})
	client := e.tellers(sealer, notify.New(notify.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 500 * time.Millisecond}), nil)
	e.insert(client, AnnounceArgs{})
	if event := <-c.effect; event != store.EventOpened {
		t.Fatalf("the effect is of %s", event)
	}
	deadline := time.Now().Add(30 * time.Second)
	for e.number(`SELECT count(*) FROM webhook_delivery WHERE tenant_id = $1 AND state = 'delivered'`, e.tenant) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was delivered")
		}
	}
	c.mu.Lock()
	if len(c.seen) != 2 || !bytes.Equal(c.bodies[0], c.bodies[1]) || c.seen[0].Header.Get("Plimsoll-Event-Id") != c.seen[1].Header.Get("Plimsoll-Event-Id") {
		t.Errorf("the repetition is another message: %d requests", len(c.seen))
	}
	last, body := c.seen[len(c.seen)-1], c.bodies[len(c.bodies)-1]
	c.mu.Unlock()

	for _, again := range []struct {
		name  string
		later time.Duration
		id    string
		body  []byte
		want  int
	}{
		{"at once", 0, "", body, http.StatusOK}, // known: taken without an effect
		{"at once, under another id", 0, "11111111-1111-1111-1111-111111111111", body, http.StatusOK},
		{"ten minutes later", 10 * time.Minute, "", body, http.StatusForbidden},
		{"before its time", -10 * time.Minute, "", body, http.StatusForbidden},
		{"changed", 0, "", bytes.Replace(body, []byte("warning"), []byte("info"), 1), http.StatusForbidden},
	} {
		c.mu.Lock()
		c.clock = again.later
		c.mu.Unlock()
		if got := c.playAgain(t, receiver.URL, last, again.body, again.id); got != again.want {
			t.Errorf("played again %s: %d, want %d", again.name, got, again.want)
		}
	}
	select {
	case event := <-c.effect:
		t.Errorf("a second effect: %s", event)
	default:
	}
	if len(c.acted) != 1 || c.refused != 3 {
		t.Errorf("%d events acted on, %d messages refused", len(c.acted), c.refused)
	}
	var statuses []int
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		log, err := store.Deliveries(ctx, tx, hook, store.Position{}, 10)
		if err != nil || len(log) != 1 {
			t.Fatalf("the log: %+v, %v", log, err)
		}
		attempts, err := store.Attempts(ctx, tx, log[0].ID)
		for _, a := range attempts {
			status := 0
			if a.Status != nil {
				status = *a.Status
			}
			statuses = append(statuses, status)
		}
		return err
	})
	if d := cmp.Diff([]int{0, http.StatusOK}, statuses); d != "" {
		t.Errorf("attempts (-want +got):\n%s", d)
	}
}
