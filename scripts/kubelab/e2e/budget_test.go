package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	appsv1 "k8s.io/api/apps/v1"
)

const (
	floor   = 2                // of the policy under test
	ceiling = 12               // as many as the agent's own limit lets a workload have
	runaway = 1000             // waiting requests: the policy alone would ask for a hundred replicas
	settled = 12 * time.Second // many ticks: the agent reports every second or two
)

var budgetPolicy = strings.NewReplacer("min: 1", fmt.Sprintf("min: %d", floor), "max: 8", fmt.Sprintf("max: %d", ceiling)).Replace(policy)

// TestBudget sends a load that asks for a hundred replicas on a real cluster against
// budgets: an enforced one and a spend breaker stop it in the first plan that
// sees it, nobody is told twice, and both let go when they are told to.
func TestBudget(t *testing.T) {
	c := startCluster(t)
	c.addNodes(t)
	c.deploy(t, floor)
	l := serveLoad(t, c)
	s := startService(t)
	s.allowLoopback(t)
	r := s.receiver(t)
	a := installAgent(t, c, installRights(t, c, s.url), s.enrolmentToken(t))
	a.start(t)
	w := s.workload(t)
	s.setPolicy(t, w, budgetPolicy)
	h := c.history(t)

	var price float64 // of a replica, an hour
	var id string
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a replica has a price", func(t *testing.T) {
			l.set(30, 5)
			c.waitReplicas(t, patience, 3)
			price = s.replicaPrice(t)
		}},
		{"an enforced budget stops a runaway in its first plan", func(t *testing.T) {
			id = s.budget(t, "", map[string]any{"enforced": true, "workload_id": w.ID}, func(b budget) float64 {
				return 5.5 * price * b.PeriodEnd.Sub(time.Now()).Hours()
			})
			mark := s.newest(t)
			l.set(runaway, 10)
			took := c.waitReplicas(t, patience, 5)
			never(t, settled, "another write", c.changed(t, 5))
			s.stopped(t, mark, 5, "budget")
			h.within(t, floor, 5)
			t.Logf("%.1f s from the load to the stop", took.Seconds())
			r.once(t, "held_by_budget", "workload/"+w.ID)
		}},
		{"it goes on when the budget is raised", func(t *testing.T) {
			s.budget(t, id, map[string]any{"enforced": true, "workload_id": w.ID}, func(b budget) float64 {
				return 8.5 * price * b.PeriodEnd.Sub(time.Now()).Hours()
			})
			c.waitReplicas(t, patience, 8)
			never(t, settled, "another write", c.changed(t, 8))
			r.once(t, "held_by_budget", "workload/"+w.ID) // held on a higher level is the same state
			h.within(t, floor, 8)
		}},
		{"a breaker stops a runaway in its first plan", func(t *testing.T) {
			l.set(30, 5)
			c.waitReplicas(t, patience, 3)
			s.budget(t, id, map[string]any{"workload_id": w.ID, "breaker_percent": 150, "breaker_minutes": 0}, func(b budget) float64 {
				return 4 * price * b.PeriodEnd.Sub(b.PeriodStart).Hours() // usual 4 replicas, trips at 6
			})
			mark := s.newest(t)
			from := h.mark()
			l.set(runaway, 10)
			within(t, patience, "breaker tripped", func() (bool, string) { return s.held("spend_breaker") })
			never(t, settled, "a write through the breaker", c.changed(t, 3))
			s.stopped(t, mark, 3, "spend_breaker")
			from.within(t, 3, 3)
			r.once(t, "spend_breaker", "budget/"+id)
		}},
		{"it goes on when the limit is raised and the breaker reset", func(t *testing.T) {
			s.budget(t, id, map[string]any{"workload_id": w.ID, "breaker_percent": 10000, "breaker_minutes": 0}, func(b budget) float64 {
				return 100 * price * b.PeriodEnd.Sub(b.PeriodStart).Hours()
			})
			s.call(t, http.MethodPost, "/budgets/"+id+"/reset-breaker", nil, nil)
			c.waitReplicas(t, patience, ceiling)
			within(t, patience, "the end told", func() (bool, string) { return r.told("alert.resolved", "spend_breaker", "budget/"+id) == 1, r.String() })
		}},
		{"a spent budget gives back to the floor and no further", func(t *testing.T) {
			var spent budget
			within(t, 90*time.Second, "costs of the open hour", func() (bool, string) {
				s.call(t, http.MethodGet, "/budgets/"+id, nil, &spent)
				return spent.Spent.value(t) > 0.001, fmt.Sprintf("%+v", spent.Spent)
			})
			s.budget(t, id, map[string]any{"enforced": true, "workload_id": w.ID, "thresholds": []int{100}}, func(budget) float64 { return 0.001 })
			c.waitReplicas(t, patience, floor)
			never(t, settled, "another write", c.changed(t, floor))
			h.within(t, floor, ceiling)
			within(t, patience, "the threshold told", func() (bool, string) {
				return r.told("alert.opened", "budget_threshold", "budget/"+id+"/actual/100") == 1, r.String()
			})
			within(t, patience, "every delivery finished", func() (bool, string) { return s.delivered(t, r.channel) })
			r.noneTwice(t)
		}},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("%s\n%s", a.running.tail(), s.worker.tail())
		}
	}
}

// allowLoopback starts the service again so that channels may be on this machine.
func (s *service) allowLoopback(t *testing.T) {
	t.Helper()
	allow := "PLIMSOLL_WEBHOOK_ALLOW=127.0.0.0/8"
	s.worker.stop()
	s.serve.stop()
	env := slices.Clone(s.env)
	s.env = append(s.env, allow)
	s.startServe(t)
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "PLIMSOLL_LISTEN=") })
	s.worker = start(t, "worker-2", exec.Command(serviceBin, "worker"), append(env, allow, fmt.Sprintf("PLIMSOLL_LISTEN=127.0.0.1:%d", freePort(t)))...)
}

// amount is money as the API writes it.
type amount struct {
	Amount   string
	Currency string
}

func (a amount) value(t *testing.T) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(a.Amount, 64)
	if err != nil {
		t.Fatalf("an amount reads %q", a.Amount)
	}
	return f
}

// budget is one as the API shows it.
type budget struct {
	ID          string
	PeriodStart time.Time `json:"period_start"`
	PeriodEnd   time.Time `json:"period_end"`
	Spent       amount
}

// budget makes a budget of a year, or changes one; of says its amount from its period.
func (s *service) budget(t *testing.T, id string, fields map[string]any, of func(budget) float64) string {
	t.Helper()
	now := time.Now().UTC()
	b := budget{PeriodStart: time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC), PeriodEnd: time.Date(now.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)}
	fields["name"], fields["period"] = "runaway", "year"
	method, path := http.MethodPost, "/budgets"
	if id != "" {
		method, path = http.MethodPut, "/budgets/"+id
	}
	fields["amount"] = strconv.FormatFloat(of(b), 'f', 6, 64)
	var saved budget
	s.call(t, method, path, fields, &saved)
	if !saved.PeriodStart.Equal(b.PeriodStart) || !saved.PeriodEnd.Equal(b.PeriodEnd) {
		t.Fatalf("a year from %s to %s", saved.PeriodStart, saved.PeriodEnd)
	}
	return saved.ID
}

// priced is a decision with what the tests of money look at.
type priced struct {
	decision
	From   int     `json:"from_replicas"`
	Needed int     `json:"needed"`
	Delta  *amount `json:"cost_delta_hour"`
}

// since lists the decisions after one, oldest first; empty: all.
func (s *service) since(t *testing.T, mark string) []priced {
	t.Helper()
	var list struct{ Items []priced }
	s.call(t, http.MethodGet, "/decisions?limit=200&cluster="+s.cluster, nil, &list)
	if i := slices.IndexFunc(list.Items, func(d priced) bool { return d.ID == mark }); i >= 0 {
		list.Items = list.Items[:i]
	}
	slices.Reverse(list.Items)
	return list.Items
}

func (s *service) newest(t *testing.T) string {
	t.Helper()
	all := s.since(t, "")
	return all[len(all)-1].ID
}

// replicaPrice is what one replica costs an hour, from what a raise said that it would cost.
func (s *service) replicaPrice(t *testing.T) (price float64) {
	t.Helper()
	for _, d := range s.since(t, "") {
		if d.Outcome == "scale_up" && d.Delta != nil {
			price = d.Delta.value(t) / float64(d.Target-d.From)
		}
	}
	if price <= 0 || math.IsInf(price, 0) {
		t.Fatal("no raise has a price")
	}
	t.Logf("a replica costs %.4f an hour", price)
	return price
}

// stopped fails unless the first decision after the mark that saw the runaway
// was held to most for this reason, as was every later one, and its
// explanation names the budget with its numbers.
func (s *service) stopped(t *testing.T, mark string, most int, reason string) {
	t.Helper()
	seen := 0
	for _, d := range s.since(t, mark) {
		if d.Target > most {
			t.Errorf("a decision went to %d: %+v", d.Target, d)
		}
		if d.Needed <= most {
			continue
		}
		if seen++; d.Binding != reason {
			t.Errorf("decision %d since the load is bound by %s, want %s: %+v", seen, d.Binding, reason, d)
		}
		if seen > 1 {
			continue
		}
		var explained struct {
			Detail struct {
				Reasons []struct {
					Code    string
					Budget  string
					Numbers map[string]float64
				}
			}
		}
		s.call(t, http.MethodGet, "/decisions/"+d.ID, nil, &explained)
		named := false
		for _, why := range explained.Detail.Reasons {
			named = named || why.Code == reason && why.Budget != "" && why.Numbers["rate_hour"] > 0
		}
		if !named {
			t.Errorf("the explanation does not name the budget and its rate: %+v", explained)
		}
		t.Logf("first plan that saw it: %d needed, %d asked for, because of %s", d.Needed, d.Target, d.Binding)
	}
	if seen == 0 {
		t.Error("no decision saw the load")
	}
}

// history is every number of replicas that was ever written to the workload,
// from the API server's own watch: nothing between two looks is missed.
type history struct {
	mu  sync.Mutex
	all []int32
	at  int
	of  *history
}

func (c *cluster) history(t *testing.T) *history {
	t.Helper()
	h := &history{}
	h.of = h
	first, err := c.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := c.kube.AppsV1().Deployments(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + workload, ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	h.all = []int32{*first.Spec.Replicas}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			h.mu.Lock()
			if d, ok := e.Object.(*appsv1.Deployment); ok && e.Type == watch.Modified {
				if n := *d.Spec.Replicas; n != h.all[len(h.all)-1] {
					h.all = append(h.all, n)
				}
			} else {
				h.all = append(h.all, -1) // deleted, or the watch broke: no proof
			}
			h.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); w.Stop(); <-ended })
	return h
}

// mark is the history from now on.
func (h *history) mark() *history {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return &history{of: h.of, at: len(h.of.all) - 1}
}

// within fails unless every number lay between least and most.
func (h *history) within(t *testing.T, least, most int32) {
	t.Helper()
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	for _, n := range h.of.all[h.at:] {
		if n < least || n > most {
			t.Errorf("replicas were %v, not between %d and %d", h.of.all[h.at:], least, most)
			return
		}
	}
	t.Logf("replicas were %v", h.of.all[h.at:])
}

// receiver is a webhook on this machine that checks signatures, refuses the
// first attempt of every event and remembers what it took.
type receiver struct {
	mu       sync.Mutex
	channel  string
	secret   string
	refused  map[string]bool           // by event id
	taken    map[string]int            // by event id
	messages map[string]receiverNotice // by event id
	bad      []string
}

type receiverNotice struct {
	ID, Event string
	Alert     struct{ Kind, Subject string }
}

// receiver makes the channel that hears of everything.
func (s *service) receiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{refused: map[string]bool{}, taken: map[string]int{}, messages: map[string]receiverNotice{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	var made struct{ ID, Secret string }
	s.call(t, http.MethodPost, "/channels", map[string]any{"kind": "webhook", "name": "lab", "address": server.URL}, &made)
	r.mu.Lock()
	r.channel, r.secret = made.ID, made.Secret
	r.mu.Unlock()
	s.call(t, http.MethodPost, "/notify-routes", map[string]any{"name": "all", "channel_id": made.ID, "min_severity": "info"}, nil)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	var m receiverNotice
	r.mu.Lock()
	defer r.mu.Unlock()
	id := req.Header.Get("Plimsoll-Event-Id")
	switch {
	case err != nil || json.Unmarshal(body, &m) != nil || m.ID != id:
		r.bad = append(r.bad, fmt.Sprintf("event %q: %s", id, body))
	case !signed(r.secret, req.Header.Get("Plimsoll-Signature"), body):
		r.bad = append(r.bad, "event "+id+" is not signed")
	case !r.refused[id]:
		r.refused[id] = true
		http.Error(w, "come again", http.StatusServiceUnavailable)
	default:
		r.taken[id]++
		r.messages[id] = m
	}
}

// signed says whether a signature is over the body, by the secret, and of now.
func signed(secret, header string, body []byte) bool {
	var at string
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			at = value
		case "v1":
			seconds, err := strconv.ParseInt(at, 10, 64)
			if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
				return false
			}
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write([]byte(at + "." + string(body)))
			if hmac.Equal([]byte(value), []byte(hex.EncodeToString(mac.Sum(nil)))) {
				return true
			}
		}
	}
	return false
}

// told counts the events of a kind and subject that were taken.
func (r *receiver) told(event, kind, subject string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.messages {
		if m.Event == event && m.Alert.Kind == kind && m.Alert.Subject == subject {
			n++
		}
	}
	return n
}

func (r *receiver) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%+v, bad: %v", r.messages, r.bad)
}

// once waits until an alert's opening was told, and fails if it was more than once.
func (r *receiver) once(t *testing.T, kind, subject string) {
	t.Helper()
	within(t, 90*time.Second, kind+" told", func() (bool, string) { return r.told("alert.opened", kind, subject) > 0, "" })
	if n := r.told("alert.opened", kind, subject); n != 1 {
		t.Errorf("%s of %s was told %d times", kind, subject, n)
	}
}

// noneTwice fails if any event was taken twice, was not signed, or was never refused first.
func (r *receiver) noneTwice(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, n := range r.taken {
		if n != 1 {
			t.Errorf("event %s was taken %d times: %+v", id, n, r.messages[id])
		}
	}
	if len(r.bad) > 0 {
		t.Errorf("bad messages: %v", r.bad)
	}
	t.Logf("%d events, each refused once and taken once", len(r.taken))
}

// delivered says whether the log has every delivery of a channel finished, each in two attempts.
func (s *service) delivered(t *testing.T, channel string) (bool, string) {
	t.Helper()
	var log struct {
		Items []struct {
			State    string
			Attempts int
		}
	}
	s.call(t, http.MethodGet, "/channels/"+channel+"/deliveries?limit=200", nil, &log)
	for _, d := range log.Items {
		if d.State != "delivered" || d.Attempts != 2 {
			return false, fmt.Sprintf("%+v", log.Items)
		}
	}
	return len(log.Items) > 0, fmt.Sprintf("%d deliveries, each in two attempts", len(log.Items))
}
