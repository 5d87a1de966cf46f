package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

func newSealer(t *testing.T) *auth.Sealer {
	t.Helper()
	sealer, err := auth.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return sealer
}

// channel adds one.
func (e *estate) channel(sealer *auth.Sealer, kind store.ChannelKind, address, secret string) string {
	e.t.Helper()
	id := uuid.NewString()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.InsertWebhook(ctx, tx, store.Webhook{ID: id, Name: string(kind), Kind: kind, URL: address, SealedSecret: sealer.Seal(notify.SecretPurpose(e.tenant, id), []byte(secret))})
	})
	return id
}

// tellers runs the workers that check, tell and deliver; a failed attempt is tried again at once.
func (e *estate) tellers(sealer *auth.Sealer, sender Sender, mailer Mailer) *river.Client[pgx.Tx] {
	e.t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, e.checker)
	river.AddWorker(workers, &Deliver{DB: e.db, Secrets: sealer, Sender: sender, Mailer: mailer, Log: e.log})
	river.AddWorker(workers, &Announce{DB: e.db, Log: e.log})
	fast := river.QueueConfig{MaxWorkers: 2, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond}
	client, err := river.NewClient(riverpgxv5.New(e.db.Pool()), &river.Config{Workers: workers, Logger: e.log, RetryPolicy: soon{},
		Queues: map[string]river.QueueConfig{queueBulk: fast, queueDeliver: fast}})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		stop, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := client.StopAndCancel(stop); err != nil {
			e.t.Error(err)
		}
	})
	return client
}

func (e *estate) insert(client *river.Client[pgx.Tx], args river.JobArgs) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := client.InsertTx(ctx, tx.PGX(), args, nil)
		return err
	})
}

// letter is a message that a receiver took.
type letter struct {
	id, event, signature string
	body                 []byte
}

// moody is a receiver that misbehaves: the first message it refuses, is too slow for, and sends elsewhere, before it takes it.
type moody struct {
	mu       sync.Mutex
	attempts int
	took     chan letter
	away     string
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.attempts++
	n := m.attempts
	m.mu.Unlock()
	switch n {
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2:
		<-r.Context().Done() // until the sender has given up
	case 3:
		http.Redirect(w, r, m.away, http.StatusTemporaryRedirect)
	default:
		m.took <- letter{r.Header.Get("Plimsoll-Event-Id"), r.Header.Get("Plimsoll-Event"), r.Header.Get("Plimsoll-Signature"), body}
	}
}

func (m *moody) next(t *testing.T) letter {
	t.Helper()
	select {
	case l := <-m.took:
		return l
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was delivered")
		return letter{}
	}
}

// A receiver that fails, times out and redirects to a private address gets each change of state once in the end; the log has every attempt;
// what an eavesdropper plays again is refused.
func TestEveryChangeOfStateArrivesOnceAtAReceiverThatMisbehaves(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	sealer, secret := newSealer(t), notify.NewSecret()
	private := make(chan string, 10)
	inside := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { private <- r.URL.Path }))
	t.Cleanup(inside.Close)
	m := &moody{took: make(chan letter, 10), away: inside.URL + "/latest/meta-data"}
	receiver := httptest.NewServer(m)
	t.Cleanup(receiver.Close)
	hook := e.channel(sealer, store.ChannelWebhook, receiver.URL, secret)
	var budget store.Budget
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		budget, err = store.SaveBudget(ctx, tx, store.Budget{Name: "chat", Team: "red", Amount: usd(t, "0.5"), Thresholds: []int{50}, Webhook: hook})
		if err == nil { // a route that names the same channel does not tell it twice
			_, err = store.SaveRoute(ctx, tx, store.Route{Name: "all", Channel: hook, MinSeverity: store.SeverityInfo, Resolved: true})
		}
		return err
	})
	e.node("n1", "g5.xlarge", "on_demand", start)
	e.workload("llm", "red")
	e.pod("p1", "n1", "llm", 1000, start)
	e.dataAt(start.Add(40 * time.Minute))
	e.catchUp()
	client := e.tellers(sealer, notify.New(notify.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 500 * time.Millisecond}), nil)
	e.insert(client, CheckBudgetsArgs{Tenant: e.tenant})

	opened := m.next(t)
	if opened.event != store.EventOpened {
		t.Errorf("the first message is %s", opened.event)
	}
	if err := notify.Verify([]byte(secret), opened.signature, opened.body, time.Now(), 5*time.Minute); err != nil {
		t.Error(err)
	}
	var body struct{ ID string }
	if err := json.Unmarshal(opened.body, &body); err != nil || body.ID != opened.id {
		t.Errorf("the body names event %q, the header %q (%v)", body.ID, opened.id, err)
	}
	// Played again later, the signature is too old; with another body it does not fit.
	if err := notify.Verify([]byte(secret), opened.signature, opened.body, time.Now().Add(10*time.Minute), 5*time.Minute); err == nil {
		t.Error("an old message is taken again")
	}
	if err := notify.Verify([]byte(secret), opened.signature, bytes.ReplaceAll(opened.body, []byte("50"), []byte("90")), time.Now(), 5*time.Minute); err == nil {
		t.Error("a changed message is taken")
	}
	for range 3 { // the same state again is nothing to tell
		if again := e.check(); len(again) != 0 {
			t.Errorf("told again: %v", again)
		}
	}

	// The secret is exchanged: what comes now can be verified with both.
	newSecret := notify.NewSecret()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.RotateWebhook(ctx, tx, hook, sealer.Seal(notify.SecretPurpose(e.tenant, hook), []byte(newSecret)), tx.Now.Add(time.Hour))
	})
	budget.Amount = usd(t, "5000")
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveBudget(ctx, tx, budget)
		return err
	})
	e.insert(client, CheckBudgetsArgs{Tenant: e.tenant})
	resolved := m.next(t)
	if resolved.event != store.EventResolved || resolved.id == opened.id {
		t.Errorf("the second message is %s with event id %s", resolved.event, resolved.id)
	}
	for _, key := range []string{secret, newSecret} {
		if err := notify.Verify([]byte(key), resolved.signature, resolved.body, time.Now(), 5*time.Minute); err != nil {
			t.Errorf("during the overlap: %v", err)
		}
	}
	e.quiet()

	var statuses []int
	var log []store.Delivery
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if log, err = store.Deliveries(ctx, tx, hook, store.Position{}, 10); err != nil || len(log) != 2 {
			return err
		}
		attempts, err := store.Attempts(ctx, tx, log[1].ID)
		for _, a := range attempts {
			status := 0
			if a.Status != nil {
				status = *a.Status
			}
			statuses = append(statuses, status)
			if (a.Problem == "") != (status == http.StatusOK) {
				t.Errorf("attempt %d: %+v", a.N, a)
			}
		}
		return err
	})
	if len(log) != 2 || log[0].State != store.DeliveryDelivered || log[1].State != store.DeliveryDelivered || log[1].Attempts != 4 {
		t.Fatalf("the log: %+v", log)
	}
	if d := cmp.Diff([]int{500, 0, 307, 200}, statuses); d != "" {
		t.Errorf("attempts (-want +got):\n%s", d)
	}
	select {
	case path := <-private:
		t.Errorf("a redirect to a private address was followed: %s", path)
	case l := <-m.took:
		t.Errorf("one message too many: %+v", l)
	default:
	}
}

// quiet waits until no delivery is pending: each is recorded after its answer.
func (e *estate) quiet() {
	e.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for e.number(`SELECT count(*) FROM webhook_delivery WHERE tenant_id = $1 AND state = 'pending'`, e.tenant) > 0 {
		if time.Now().After(deadline) {
			e.t.Fatal("deliveries stay pending")
		}
	}
}

// A channel whose address turns out to be private is refused for good, and the failure is told to the other channels, not to itself.
func TestAChannelInAPrivateNetworkIsRefusedAndTheOthersHearOfIt(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	sealer := newSealer(t)
	bad := e.channel(sealer, store.ChannelSlack, "https://127.0.0.1/…", "https://127.0.0.1:1/services/T/B/x")
	good := e.channel(sealer, store.ChannelEmail, "mailto:ops@example.com", "")
	post := &postman{took: make(chan notify.Mail, 10)}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, id := range []string{bad, good} {
			if _, err := store.SaveRoute(ctx, tx, store.Route{Name: id, Channel: id, MinSeverity: store.SeverityInfo, Resolved: true}); err != nil {
				return err
			}
		}
		_, _, err := store.OpenAlert(ctx, tx, "agent_offline", "cluster/x", store.SeverityWarning, tx.Now, map[string]any{"cluster": "prod", "last_seen_at": "10:00"})
		return err
	})
	client := e.tellers(sealer, notify.New(notify.Config{}), post)
	ended, cancel := client.Subscribe(river.EventKindJobCompleted)
	t.Cleanup(cancel)
	e.insert(client, AnnounceArgs{})
	first := post.next(t)
	if first.Letter.Subject != "[Plimsoll] Warning: Cluster prod: no report since 10:00" || !slices.Equal(first.To, []string{"ops@example.com"}) {
		t.Errorf("mail: %+v", first)
	}
	e.quiet()
	for ev := range ended { // one announcement at a time
		if ev.Job.Kind == (AnnounceArgs{}).Kind() {
			break
		}
	}
	e.insert(client, AnnounceArgs{}) // the failure of the channel is an alert by now
	if second := post.next(t); second.ID == first.ID || second.Letter.Subject[:len("[Plimsoll] Warning: Channel slack")] != "[Plimsoll] Warning: Channel slack" {
		t.Errorf("mail: %+v", second)
	}
	e.quiet()
	if n := e.number(`SELECT count(*) FROM webhook_delivery WHERE tenant_id = $1 AND webhook_id = $2`, e.tenant, bad); n != 1 {
		t.Errorf("the channel that fails got %d deliveries, want the first only", n)
	}
	if n := e.number(`SELECT count(*) FROM webhook_attempt WHERE tenant_id = $1 AND delivery_id IN (SELECT id FROM webhook_delivery WHERE webhook_id = $2)`, e.tenant, bad); n != 1 {
		t.Errorf("a refused address was tried %d times", n)
	}
}

type postman struct{ took chan notify.Mail }

func (p *postman) Send(_ context.Context, m notify.Mail) (int, error) {
	p.took <- m
	return 250, nil
}

func (p *postman) next(t *testing.T) notify.Mail {
	t.Helper()
	select {
	case m := <-p.took:
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("no mail came")
		return notify.Mail{}
	}
}

// tell opens or resolves an alert and announces; it returns how many deliveries were made.
func (e *estate) tell(subject string, open bool) (n int) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if open {
			err = openAlert(ctx, tx, e.log, "agent_offline", subject, store.SeverityWarning, tx.Now, map[string]any{"team": "red"})
		} else {
			err = resolveAlert(ctx, tx, e.log, "agent_offline", subject, tx.Now)
		}
		if err != nil {
			return err
		}
		ids, err := announce(ctx, tx, "", e.log)
		n = len(ids)
		return err
	})
	return n
}

func TestASilenceHoldsWhatItCoversAndTellsTheRestAfterwards(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	hook := e.channel(newSealer(t), store.ChannelTeams, "https://example.com/…", "https://example.com/x")
	var silence store.Silence
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if _, err = store.SaveRoute(ctx, tx, store.Route{Name: "all", Channel: hook, MinSeverity: store.SeverityInfo, Resolved: true}); err != nil {
			return err
		}
		silence, err = store.InsertSilence(ctx, tx, store.Silence{Subject: "cluster/a", Team: "red", Reason: "maintenance", From: tx.Now, Until: tx.Now.Add(time.Hour), CreatedBy: "test"})
		return err
	})
	for _, step := range []struct {
		what    string
		subject string
		open    bool
		want    int
	}{
		{"another subject is told", "cluster/b", true, 1},
		{"its end is told", "cluster/b", false, 1},
		{"what the silence covers is not told", "cluster/a1", true, 0},
		{"nor that it is over", "cluster/a1", false, 0},
		{"it stays open", "cluster/a2", true, 0},
	} {
		if n := e.tell(step.subject, step.open); n != step.want {
			t.Errorf("%s: %d deliveries, want %d", step.what, n, step.want)
		}
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error { return store.EndSilence(ctx, tx, silence.ID) })
	if n := e.tell("cluster/c", false); n != 1 { // nothing happens but that the silence is over
		t.Errorf("%d deliveries after the silence, want the one that is open still", n)
	}
	if n := e.tell("cluster/a2", true) + e.tell("cluster/c", false); n != 0 {
		t.Errorf("told again: %d", n)
	}
	states := map[string]int64{}
	for _, s := range []string{store.EventPending, store.EventSilenced, store.EventTold, store.EventDropped} {
		states[s] = e.number(`SELECT count(*) FROM alert_event WHERE tenant_id = $1 AND state = $2`, e.tenant, s)
	}
	if d := cmp.Diff(map[string]int64{"pending": 0, "silenced": 0, "told": 3, "dropped": 2}, states); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestRoutesChooseByKindSeverityAndTeam(t *testing.T) {
	t.Parallel()
	alert := store.Alert{Kind: "spend_breaker", Severity: store.SeverityWarning, Detail: json.RawMessage(`{"team":"red"}`)}
	for _, c := range []struct {
		name  string
		route store.Route
		event string
		want  bool
	}{
		{"everything", store.Route{MinSeverity: store.SeverityInfo}, store.EventOpened, true},
		{"the end only where it is asked for", store.Route{MinSeverity: store.SeverityInfo}, store.EventResolved, false},
		{"the end where it is", store.Route{MinSeverity: store.SeverityInfo, Resolved: true}, store.EventResolved, true},
		{"too mild", store.Route{MinSeverity: store.SeverityCritical}, store.EventOpened, false},
		{"another kind", store.Route{MinSeverity: store.SeverityInfo, Kinds: []string{"conflict"}}, store.EventOpened, false},
		{"its kind", store.Route{MinSeverity: store.SeverityInfo, Kinds: []string{"conflict", "spend_breaker"}}, store.EventOpened, true},
		{"another team", store.Route{MinSeverity: store.SeverityInfo, Team: "blue"}, store.EventOpened, false},
		{"its team", store.Route{MinSeverity: store.SeverityInfo, Team: "red"}, store.EventOpened, true},
	} {
		if got := c.route.Fits(c.event, alert); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
