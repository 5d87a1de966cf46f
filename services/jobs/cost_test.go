package jobs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// estate is a tenant with one cluster in a database of its own. Its first hour is at start.
type estate struct {
	t       *testing.T
	db      *store.DB
	tenant  fleet.TenantID
	cluster fleet.ClusterID
	owner   string // URL of the database's owner
	log     *slog.Logger
	closer  *CloseHour
	checker *CheckBudgets
}

var start = time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)

func newEstate(t *testing.T) *estate {
	t.Helper()
	d := devdb.ForTest(t, store.MigrateUp)
	db, err := store.Open(context.Background(), d.ServiceURL, store.Options{MaxConns: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	e := &estate{t: t, db: db, owner: d.OwnerURL, tenant: fleet.TenantID(uuid.NewString()), cluster: fleet.ClusterID(uuid.NewString()), log: log,
		closer:  &CloseHour{DB: db, Prices: market.Catalogue, Log: log},
		checker: &CheckBudgets{DB: db, Currency: "USD", Log: log}}
	e.exec(`INSERT INTO tenant (tenant_id, name, created_at) VALUES ($1, 'Test', now())`, e.tenant)
	e.exec(`INSERT INTO tenant_directory (tenant_id, created_at) VALUES ($1, now())`, e.tenant)
	e.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at) VALUES ($1, $2, 'c', 'observe', now())`, e.tenant, e.cluster)
	return e
}

func (e *estate) tx(fn func(context.Context, *store.Tx) error) {
	e.t.Helper()
	ctx := context.Background()
	if err := e.db.Tenant(ctx, e.tenant, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) exec(sql string, args ...any) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.PGX().Exec(ctx, sql, args...)
		return err
	})
}

// asOwner does what the service may not.
func (e *estate) asOwner(sql string, args ...any) {
	e.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, e.owner)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		e.t.Fatal(err)
	}
}

// number reads one number of the tenant.
func (e *estate) number(sql string, args ...any) (n int64) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error { return tx.PGX().QueryRow(ctx, sql, args...).Scan(&n) })
	return n
}

func (e *estate) dataAt(at time.Time) {
	e.t.Helper()
	e.exec(`UPDATE cluster SET data_at = $3 WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, at)
}

func (e *estate) node(uid, instanceType string, purchase fleet.Purchase, from time.Time) {
	e.t.Helper()
	it, ok := market.Catalogue().InstanceType(fleet.CloudAWS, instanceType)
	if !ok {
		it = fleet.InstanceType{CPUMilli: 8000, MemMiB: 32768}
	}
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, instance_type, purchase, phase, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, started_at, ready_at)
VALUES ($1, $2, $3, $3, 'aws', 'us-east-1', $4, $5, 'ready', $6, $7, $8, $9, $10, $11, $11)`,
		e.tenant, e.cluster, uid, instanceType, purchase, it.CPUMilli, it.MemMiB, it.GPUModel, it.GPUCount, it.GPUMemoryMiB, from)
}

func (e *estate) workload(name, team string) fleet.WorkloadID {
	e.t.Helper()
	id := fleet.WorkloadID(uuid.NewString())
	e.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, labels, first_seen) VALUES ($1, $2, $3, $4, 'chat', 'Deployment', $5, $6, '{"tier": "hot"}', $7)`,
		e.tenant, id, e.cluster, "chat/Deployment/"+name, name, team, start)
	return id
}

func (e *estate) pod(uid, node, workload string, gpuMilli int64, from time.Time) {
	e.t.Helper()
	key := ""
	if workload != "" {
		key = "chat/Deployment/" + workload
	}
	e.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, gpu_milli, created_at, started_at)
VALUES ($1, $2, $3, $3, 'chat', $4, $5, 'ready', 1000, 4096, $6, $7, $7)`, e.tenant, e.cluster, uid, key, node, gpuMilli, from)
}

func (e *estate) catchUp() {
	e.t.Helper()
	if err := e.closer.CatchUp(context.Background(), CloseHourArgs{Tenant: e.tenant, Cluster: e.cluster}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) check() []string {
	e.t.Helper()
	var deliveries []string
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		deliveries, err = e.checker.Check(ctx, tx)
		return err
	})
	return deliveries
}

// balanced fails unless what every view shows adds up to what the nodes cost.
func (e *estate) balanced(want fleet.Money) {
	e.t.Helper()
	for what, sql := range map[string]string{
		"hours":       `SELECT coalesce(sum(node_nano), 0)::bigint FROM cost_hour WHERE tenant_id = $1`,
		"hourly rows": `SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1`,
		"daily rows":  `SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_day WHERE tenant_id = $1`,
	} {
		if got := fleet.Money(e.number(sql, e.tenant)); got != want {
			e.t.Errorf("%s add up to %s, want %s", what, got, want)
		}
	}
	closed := e.number(`SELECT coalesce(sum(node_nano), 0)::bigint FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, e.tenant)
	moved := e.number(`SELECT coalesce(sum(CASE WHEN t.credit LIKE 'nodes/%' THEN t.amount_nano ELSE -t.amount_nano END), 0)::bigint FROM cost_transfer t
JOIN cost_hour h ON h.tenant_id = t.tenant_id AND h.cluster_id = t.cluster_id AND h.hour = t.hour AND h.version = t.version WHERE t.tenant_id = $1`, e.tenant)
	if closed != moved {
		e.t.Errorf("closed hours cost %s, their transfers move %s", fleet.Money(closed), fleet.Money(moved))
	}
}

func usd(t *testing.T, s string) fleet.Money {
	t.Helper()
	m, err := fleet.ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHoursCloseOnceTheirDataIsComplete(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start) // 1.006 an hour
	e.workload("llm", "red")
	e.pod("p1", "n1", "llm", 1000, start)
	e.catchUp()
	e.balanced(0) // no data yet

	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	e.balanced(usd(t, "2.515")) // two and a half hours
	state := func(s string) int64 {
		return e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = $2`, e.tenant, s)
	}
	if closed, open := state("closed"), state("open"); closed != 2 || open != 1 {
		t.Fatalf("%d hours closed, %d open, want 2 and 1", closed, open)
	}
	transfers := e.number(`SELECT count(*) FROM cost_transfer WHERE tenant_id = $1`, e.tenant)
	e.catchUp()
	e.catchUp()
	e.balanced(usd(t, "2.515"))
	if again := e.number(`SELECT count(*) FROM cost_transfer WHERE tenant_id = $1`, e.tenant); again != transfers {
		t.Errorf("costing again posted %d more transfers", again-transfers)
	}

	e.dataAt(start.Add(3*time.Hour + 5*time.Minute))
	e.catchUp()
	if closed := state("closed"); closed != 2 {
		t.Errorf("an hour closed five minutes after its end")
	}
	e.exec(`INSERT INTO rollup_dirty (tenant_id, cluster_id, block_at, marked_at) VALUES ($1, $2, $3, now())`, e.tenant, e.cluster, start.Add(2*time.Hour))
	e.dataAt(start.Add(4*time.Hour + 30*time.Minute))
	e.catchUp()
	if closed := state("closed"); closed != 2 {
		t.Errorf("an hour closed before its roll-ups were made")
	}
	e.exec(`DELETE FROM rollup_dirty WHERE tenant_id = $1`, e.tenant)
	e.catchUp()
	if closed := state("closed"); closed != 4 {
		t.Errorf("%d hours closed, want 4", closed)
	}
	e.balanced(usd(t, "4.527"))
}

// A backlog whose roll-ups are still to be made is costed at once, open, and closes when they are there.
func TestABacklogWaitsForItsRollUps(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.exec(`INSERT INTO rollup_dirty (tenant_id, cluster_id, block_at, marked_at) SELECT $1, $2, $3::timestamptz + b * interval '2 hours', now() FROM generate_series(0, 30) b`, e.tenant, e.cluster, start)
	e.dataAt(start.Add(60 * time.Hour))
	e.catchUp()
	e.balanced(usd(t, "60.36"))
	if closed := e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, e.tenant); closed != 0 {
		t.Errorf("%d hours closed before their roll-ups were made", closed)
	}
	e.exec(`DELETE FROM rollup_dirty WHERE tenant_id = $1 AND block_at < $2`, e.tenant, start.Add(40*time.Hour))
	e.catchUp()
	e.balanced(usd(t, "60.36"))
	if closed := e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, e.tenant); closed != 40 {
		t.Errorf("%d hours closed, want 40", closed)
	}
}

func TestUseAboveTheRequestAndTeamsReachTheDailyTable(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "m6i.2xlarge", fleet.PurchaseOnDemand, start)
	id := e.workload("api", "blue")
	e.pod("p1", "n1", "api", 0, start)
	e.pod("bare", "n1", "", 0, start)
	e.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, cpu_cores, memory_mib) VALUES ($1, $2, $3, $4, 60, 4, 'NaN')`, e.tenant, e.cluster, id, start)
	e.dataAt(start.Add(70 * time.Minute))
	e.catchUp()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := store.Costs(ctx, tx, store.CostQuery{From: start, To: start.Add(time.Hour), Hourly: true, Aggregate: "team"})
		got := map[string]float64{}
		for _, r := range rows {
			got[fmt.Sprintf("%s %q %s", r.Kind, r.Key, r.Resource)] = r.Quantity
		}
		want := map[string]float64{`workload "blue" cpu`: 4, `workload "blue" memory`: 4, `workload "" cpu`: 1, `workload "" memory`: 4, `idle "" cpu`: 3, `idle "" memory`: 24}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("quantities (-want +got):\n%s", d)
		}
		return err
	})
}

func TestLateDataRestatesTheHourAtItsFrozenPrice(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseSpot, start)
	e.node("odd", "x99.mystery", fleet.PurchaseOnDemand, start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	e.balanced(usd(t, "0.61869")) // 1.5 hours of Spot; the other node has no price
	if share := e.number(`SELECT (sum(unpriced_node_seconds) * 100 / sum(node_seconds))::bigint FROM cost_hour WHERE tenant_id = $1`, e.tenant); share != 50 {
		t.Errorf("%d %% of node time has no price, want 50", share)
	}
	if deliveries := e.check(); len(deliveries) != 0 {
		t.Errorf("an alert without a webhook made deliveries: %v", deliveries)
	}
	if open := e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL`, e.tenant, AlertUnpriced); open != 1 {
		t.Errorf("%d alerts of unknown prices", open)
	}

	// The pod was there all along, its news came late; the catalogue has changed since; the tenant named the odd machine's price.
	e.pod("late", "n1", "", 1000, start)
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, p := range []store.TenantPrice{
			{Cloud: "aws", InstanceType: "x99.mystery", Purchase: fleet.PurchaseOnDemand, Hour: usd(t, "2"), ValidFrom: start.Add(-time.Hour)},
			{Cloud: "aws", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseSpot, Hour: usd(t, "99"), ValidFrom: start.Add(-time.Hour)},
		} {
			if err := store.SetTenantPrice(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	e.dataAt(start.Add(150 * time.Minute))
	e.catchUp()
	version := e.number(`SELECT version FROM cost_hour WHERE tenant_id = $1 AND hour = $2`, e.tenant, start)
	if version != 2 {
		t.Fatalf("hour has version %d, want 2", version)
	}
	if n := e.number(`SELECT count(DISTINCT version) FROM cost_transfer WHERE tenant_id = $1 AND hour = $2`, e.tenant, start); n != 2 {
		t.Errorf("%d versions of transfers are readable, want both", n)
	}
	// First hour: Spot as frozen plus 2 of the odd machine. Then an hour and a half at 99 and 2.
	e.balanced(usd(t, "0.41246") + usd(t, "2") + usd(t, "151.5"))
	e.check()
	if open := e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL`, e.tenant, AlertUnpriced); open != 0 {
		t.Errorf("the alert stays open although every machine has a price")
	}
}

func TestTheLedgerIsAppendOnly(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	ctx := context.Background()
	for _, sql := range []string{"UPDATE cost_transfer SET amount_nano = 1", "DELETE FROM cost_transfer", "UPDATE node_price SET effective_nano = 1", "DELETE FROM node_price",
		"UPDATE cost_detail SET lines = 0", "DELETE FROM cost_detail"} {
		err := e.db.Tenant(ctx, e.tenant, func(tx *store.Tx) error {
			_, err := tx.PGX().Exec(ctx, sql)
			return err
		})
		if err == nil {
			t.Errorf("the service may run %q", sql)
		}
	}
}

// The whole way of a budget: cost, threshold, alert once per change of state, signed delivery with retry, log, redelivery.
func TestABudgetReachesItsWebhookOnce(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	type call struct{ id, event string }
	calls := make(chan call, 100)
	secret := notify.NewSecret()
	var attempts atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := notify.Verify([]byte(secret), r.Header.Get("Plimsoll-Signature"), body, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		if attempts.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // the first attempt fails, River tries again
			return
		}
		calls <- call{r.Header.Get("Plimsoll-Event-Id"), r.Header.Get("Plimsoll-Event")}
	}))
	t.Cleanup(receiver.Close)
	sealer, err := auth.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	hook := uuid.NewString()
	var budget store.Budget
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		err := store.InsertWebhook(ctx, tx, store.Webhook{ID: hook, Name: "h", URL: receiver.URL, SealedSecret: sealer.Seal(notify.SecretPurpose(e.tenant, hook), []byte(secret))})
		if err == nil {
			budget, err = store.SaveBudget(ctx, tx, store.Budget{Name: "chat", Team: "red", Amount: usd(t, "0.5"), Thresholds: []int{50, 100, 100000}, Webhook: hook})
		}
		return err
	})
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.workload("llm", "red")
	e.pod("p1", "n1", "llm", 1000, start)
	e.dataAt(start.Add(40 * time.Minute)) // about 0.55 of the node's 0.67
	client, err := New(Config{SweepEvery: time.Hour}, Deps{DB: e.db, Prices: market.Catalogue, Secrets: sealer, Log: e.log,
		Sender: notify.New(notify.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { done <- client.Run(running) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	queue, err := NewEnqueuer(e.db, e.log)
	if err != nil {
		t.Fatal(err)
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error { return queue.CloseSoon(ctx, tx, e.cluster) })
	next := func() call {
		t.Helper()
		select {
		case c := <-calls:
			return c
		case <-ctx.Done():
			t.Fatal("no delivery came")
			return call{}
		}
	}
	first, second := next(), next()
	if first.event != "alert.opened" || second.event != "alert.opened" || first.id == second.id {
		t.Errorf("deliveries %+v and %+v", first, second)
	}
	if open := e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = $2 AND resolved_at IS NULL`, e.tenant, AlertBudget); open != 2 {
		t.Errorf("%d alerts are open, want those of 50 and 100 percent", open)
	}
	if again := e.check(); len(again) != 0 {
		t.Errorf("the same state fired again: %v", again)
	}
	// A higher limit resolves both.
	budget.Amount = usd(t, "5000")
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveBudget(ctx, tx, budget)
		if err != nil {
			return err
		}
		return queue.CheckBudgetsSoon(ctx, tx)
	})
	if a, b := next(), next(); a.event != "alert.resolved" || b.event != "alert.resolved" {
		t.Errorf("deliveries %+v and %+v, want both resolved", a, b)
	}
	var log []store.Delivery
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		log, err = store.Deliveries(ctx, tx, hook, store.Position{}, 10)
		return err
	})
	if len(log) != 4 {
		t.Fatalf("%d deliveries in the log", len(log))
	}
	var again string
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		d := log[3]
		again, err = store.InsertDelivery(ctx, tx, store.Delivery{Webhook: hook, Alert: d.Alert, EventID: d.EventID, Event: d.Event, Payload: d.Payload})
		if err == nil {
			err = queue.DeliverSoon(ctx, tx, again)
		}
		return err
	})
	if c := next(); c.id != log[3].EventID {
		t.Errorf("redelivery has event id %s, want %s", c.id, log[3].EventID)
	}
}

func TestOutcomeOfAnAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		a    notify.Answer
		err  error
		last bool
		want string
	}{
		{"an answer is delivered", notify.Answer{Status: 204}, nil, false, store.DeliveryDelivered},
		{"an error is tried again", notify.Answer{Status: 500}, io.ErrUnexpectedEOF, false, store.DeliveryPending},
		{"the last error is final", notify.Answer{Status: 500}, io.ErrUnexpectedEOF, true, store.DeliveryFailed},
		{"gone is final", notify.Answer{Status: 410}, io.ErrUnexpectedEOF, false, store.DeliveryFailed},
		{"a refused address is final", notify.Answer{}, fmt.Errorf("dial: %w", notify.ErrRefused), false, store.DeliveryFailed},
	} {
		if got := outcome(c.a, c.err, c.last); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Two weeks of a cluster of thirty nodes, hour by hour: an hour costs no more to close for the weeks that lie before it. What a month of
// ten thousand pods takes is measured by scripts/bench cost.
func TestClosingAnHourCostsNoMoreForTheWeeksBeforeIt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a load test")
	}
	e := newEstate(t)
	for i := range 30 {
		e.node(fmt.Sprintf("n%d", i), "g6.12xlarge", fleet.PurchaseOnDemand, start)
	}
	var ids []string
	for i := range 6 {
		ids = append(ids, string(e.workload(fmt.Sprintf("w%d", i), fmt.Sprintf("team%d", i%3))))
	}
	const hours = 14 * 24
	// Every pod lives eight hours, then another takes its place: 120 at a time, 5,040 in all.
	e.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, gpu_milli, created_at, started_at, ended_at)
SELECT $1, $2, 'p' || s || '-' || k, 'p', 'chat', 'chat/Deployment/w' || (s % 6), 'n' || (s % 30), 'ended', 4000, 16384, 1000, t, t, t + interval '8 hours'
FROM generate_series(0, 119) s, generate_series(0, $4::int / 8 - 1) k, LATERAL (SELECT $3::timestamptz + k * interval '8 hours' AS t) x`, e.tenant, e.cluster, start, hours)
	e.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, cpu_cores, memory_mib, gpu_sm_active_ratio)
SELECT $1, $2, w, $3::timestamptz + h * interval '1 hour', 60, 12.5, 40000, 0.6 FROM unnest($4::uuid[]) w, generate_series(0, $5::int - 1) h`, e.tenant, e.cluster, start, ids, hours)
	var took [2]time.Duration
	for week := range took {
		e.dataAt(start.Add(time.Duration(week+1)*hours/2*time.Hour + 30*time.Minute))
		began := time.Now()
		e.catchUp()
		took[week] = time.Since(began)
	}
	e.balanced(usd(t, "4.6016")*30*hours + usd(t, "69.024"))
	closed := e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, e.tenant)
	t.Logf("%d hours of 30 nodes and 120 pods closed in %s and %s, %d transfers", closed, took[0].Round(time.Millisecond), took[1].Round(time.Millisecond), e.number(`SELECT count(*) FROM cost_transfer WHERE tenant_id = $1`, e.tenant))
	if closed != hours || took[1] > 3*took[0] || took[0] > 15*took[1] { // the first look at everything took 26 times as long when it was quadratic in pods
		t.Errorf("%d hours closed, want %d; the first week took %s and the second %s, want at most 15 and 3 times the other", closed, hours, took[0], took[1])
	}
}
