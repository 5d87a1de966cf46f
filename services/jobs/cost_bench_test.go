package jobs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// Goals of ./scripts/bench cost.
const (
	goalPodHours = 1e6                    // per CPU-minute of the whole pipeline, service and Postgres
	goalDaily    = 100 * time.Millisecond // p99 of the explorer's queries of the daily table
	goalAdHoc    = 2 * time.Second        // p99 of queries that no table was made for
	goalAgain    = 10.0                   // a month costed once against costing one late pod's hours again, at least
	goalBytes    = 4096                   // per workload-hour, all tables with indexes
)

// Shape of the fleet: ten thousand pods at a time in five hundred workloads, eight to a machine of eight GPUs; a pod lives a day.
const (
	costPods      = 10_000
	costWorkloads = 500
	costNodes     = costPods / 8
)

// costBench is a durable Postgres of its own with a month of a large cluster's inventory.
type costBench struct {
	estate
	server *devdb.Server
	owner  *pgx.Conn
	hours  int
}

// TestCostOfTenThousandPods costs a month of ten thousand pods, asks what the explorer asks, and weighs what is kept. It prints figures
// with their goals and fails when one is missed. CPU is user+system of this process and of all processes of Postgres.
func TestCostOfTenThousandPods(t *testing.T) {
	if os.Getenv("PLIMSOLL_BENCH") == "" {
		t.Skip("a benchmark: run ./scripts/bench cost")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the CPU of Postgres is read from /proc, which is not here")
	}
	days := 30
	if v := os.Getenv("PLIMSOLL_BENCH_DAYS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 2 || n > 60 {
			t.Fatalf("PLIMSOLL_BENCH_DAYS is not 2 to 60: %q", v)
		}
		days = n
	}
	b := openCostBench(t, days)
	b.fill()
	once := b.close()
	b.again(once)
	b.views()
	b.sizes()
}

func openCostBench(t *testing.T, days int) *costBench {
	t.Helper()
	ctx := context.Background()
	root := ""
	if os.Geteuid() == 0 {
		root = "/var/tmp" // the database's account must reach it
	}
	dir, err := os.MkdirTemp(root, "plimsoll-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "pg"), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if err := store.MigrateUp(ctx, server.URL); err != nil {
		t.Fatal(err)
	}
	owner, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close(ctx) })
	if _, err := owner.Exec(ctx, `CREATE ROLE bench LOGIN PASSWORD 'bench' IN ROLE plimsoll_service`); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(ctx, strings.Replace(server.URL, "postgres@", "bench:bench@", 1), store.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return &costBench{server: server, owner: owner, hours: days * 24, estate: estate{t: t, db: db, tenant: fleet.TenantID(uuid.NewString()), cluster: fleet.ClusterID(uuid.NewString()),
		log: log, closer: &CloseHour{DB: db, Prices: market.Catalogue, Log: log}}}
}

// fill writes the inventory and the hourly use of the workloads.
func (b *costBench) fill() {
	b.t.Helper()
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO tenant (tenant_id, name, created_at) VALUES ($1, 'Bench', now())`, []any{b.tenant}},
		{`INSERT INTO cluster (tenant_id, id, name, mode, created_at) VALUES ($1, $2, 'c', 'observe', now())`, []any{b.tenant, b.cluster}},
		{`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, instance_type, purchase, phase, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, started_at, ready_at)
SELECT $1, $2, 'node-' || n, 'node-' || n, 'aws', 'us-east-1', 'p5.48xlarge', 'on_demand', 'ready', 192000, 2097152, 'H100', 8, 81559, $3, $3::timestamptz + interval '5 minutes'
FROM generate_series(0, $4::int - 1) n`, []any{b.tenant, b.cluster, start, costNodes}},
		{`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, labels, first_seen)
SELECT $1, gen_random_uuid(), $2, 'ns' || (w % 50) || '/Deployment/w' || w, 'ns' || (w % 50), 'Deployment', 'w' || w, 'team' || (w % 20), jsonb_build_object('tier', 'tier' || (w % 4)), $3
FROM generate_series(0, $4::int - 1) w`, []any{b.tenant, b.cluster, start, costWorkloads}},
		{`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, gpu_milli, created_at, started_at, ended_at)
SELECT $1, $2, 'pod-' || s || '-' || k, 'pod-' || s || '-' || k, 'ns' || (s % $5::int % 50), 'ns' || (s % $5::int % 50) || '/Deployment/w' || (s % $5::int), 'node-' || (s / 8), 'ended', 8000, 65536, 1000, t, t,
  t + interval '24 hours' FROM generate_series(0, $4::int - 1) s, generate_series(0, $6::int / 24) k,
  LATERAL (SELECT $3::timestamptz + (k * 24 - s % 24) * interval '1 hour' + (s % 3600) * interval '1 second' AS t) x`,
			[]any{b.tenant, b.cluster, start, costPods, costWorkloads, b.hours}},
		{`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, cpu_cores, memory_mib, gpu_sm_active_ratio, gpu_memory_used_mib)
SELECT $1, $2, w.id, $3::timestamptz + h * interval '1 hour', 60, 80 + h % 40, 600000, (h % 100) / 100.0, 900000 FROM workload w, generate_series(0, $4::int - 1) h WHERE w.tenant_id = $1`,
			[]any{b.tenant, b.cluster, start, b.hours}},
	} {
		if _, err := b.owner.Exec(context.Background(), q.sql, q.args...); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, table := range []string{"pod", "node", "workload", "rollup_1h"} {
		if _, err := b.owner.Exec(context.Background(), "VACUUM ANALYZE "+table); err != nil {
			b.t.Fatal(err)
		}
	}
}

// check fails the benchmark when a goal is missed.
func (b *costBench) check(ok bool, format string, args ...any) {
	b.t.Helper()
	word := "met"
	if !ok {
		word = "MISSED"
		b.t.Errorf("goal missed: "+format, args...)
	}
	fmt.Printf("  %s: goal %s\n", fmt.Sprintf(format, args...), word)
}

// close costs the whole month and returns the CPU that it took.
func (b *costBench) close() time.Duration {
	b.t.Helper()
	b.dataAt(start.Add(time.Duration(b.hours)*time.Hour + 30*time.Minute))
	fmt.Printf("costing %d pods at a time, %d machines, %d workloads, %d days\n", costPods, costNodes, costWorkloads, b.hours/24)
	c0, s0 := b.cpu()
	began := time.Now()
	b.catchUp()
	took := time.Since(began)
	c1, s1 := b.cpu()
	spent := c1 - c0 + s1 - s0
	closed := b.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, b.tenant)
	podHours := float64(closed) * costPods
	fmt.Printf("  %d hours closed, %.1f million pod-hours: %.1f CPU-seconds (service %.1f, Postgres %.1f), %.1f s of wall time\n", closed, podHours/1e6, spent.Seconds(), (c1 - c0).Seconds(), (s1 - s0).Seconds(), took.Seconds())
	rate := podHours / spent.Minutes()
	b.check(rate >= goalPodHours, "%.2f million pod-hours per CPU-minute, %.1f times the goal of %.0f million", rate/1e6, rate/goalPodHours, goalPodHours/1e6)
	if want := int64(b.hours); closed != want {
		b.t.Errorf("%d hours closed, want %d", closed, want)
	}
	nodes := b.number(`SELECT sum(node_nano)::bigint FROM cost_hour WHERE tenant_id = $1`, b.tenant)
	days := b.number(`SELECT sum(amount_nano)::bigint FROM cost_day WHERE tenant_id = $1`, b.tenant)
	b.check(nodes == days, "machines cost %s, the daily table adds up to %s", fleet.Money(nodes), fleet.Money(days))
	return spent
}

// again tells of one pod late and costs what it touches.
func (b *costBench) again(once time.Duration) {
	b.t.Helper()
	b.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, gpu_milli, created_at, started_at, ended_at)
VALUES ($1, $2, 'late', 'late', 'ns0', 'ns0/Deployment/w0', 'node-0', 'ended', 100, 100, 0, $3, $3, $3::timestamptz + interval '90 minutes')`, b.tenant, b.cluster, start.Add(20*time.Hour))
	c0, s0 := b.cpu()
	began := time.Now()
	b.catchUp()
	took := time.Since(began)
	c1, s1 := b.cpu()
	spent := c1 - c0 + s1 - s0
	again := b.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND version > 1`, b.tenant)
	fmt.Printf("  a pod that comes late restates %d hours: %.2f CPU-seconds, %.2f s of wall time\n", again, spent.Seconds(), took.Seconds())
	share := once.Seconds() / spent.Seconds()
	b.check(again == 2 && share >= goalAgain, "2 hours restated for 1/%.0f of the CPU of the month", share)
}

// views asks what the explorer asks, each question often enough for a p99.
func (b *costBench) views() {
	b.t.Helper()
	if _, err := b.owner.Exec(context.Background(), "VACUUM ANALYZE cost_day, cost_hour_line, cost_transfer, cost_detail, cost_hour"); err != nil {
		b.t.Fatal(err)
	}
	from, to := start, start.Add(time.Duration(b.hours)*time.Hour)
	week := to.AddDate(0, 0, -7)
	if week.Before(from) {
		week = from
	}
	costs := func(q store.CostQuery) func(context.Context, *store.Tx) error {
		return func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.Costs(ctx, tx, q)
			if err == nil && len(rows) == 0 {
				err = fmt.Errorf("no costs by %s", q.Aggregate)
			}
			return err
		}
	}
	for _, c := range []struct {
		name  string
		runs  int
		limit time.Duration
		ask   func(context.Context, *store.Tx) error
	}{
		{"daily, by team and day", 200, goalDaily, costs(store.CostQuery{From: from, To: to, Aggregate: "team", Buckets: true})},
		{"daily, by namespace", 200, goalDaily, costs(store.CostQuery{From: from, To: to, Aggregate: "namespace"})},
		{"daily, by workload", 200, goalDaily, costs(store.CostQuery{From: from, To: to, Aggregate: "workload"})},
		{"daily, by a label", 200, goalDaily, costs(store.CostQuery{From: from, To: to, Aggregate: "label:tier", Buckets: true})},
		{"daily, one team by workload and day", 200, goalDaily, costs(store.CostQuery{From: from, To: to, Aggregate: "workload", Team: "team3", Buckets: true})},
		{"hourly, a week by team", 30, goalAdHoc, costs(store.CostQuery{From: week, To: to, Hourly: true, Aggregate: "team", Buckets: true})},
		{"hourly, a month by team and hour", 12, goalAdHoc, costs(store.CostQuery{From: from, To: to, Hourly: true, Aggregate: "team", Buckets: true})},
		{"hours and days, a month by workload", 12, goalAdHoc, costs(store.CostQuery{From: from.Add(5 * time.Hour), To: to.Add(-5 * time.Hour), Hourly: true, Aggregate: "workload"})},
		{"hourly, a day by machine", 12, goalAdHoc, func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.OpenCostRows(ctx, tx, store.OpenCostQuery{From: to.Add(-24 * time.Hour), To: to, Step: 24 * time.Hour, Nodes: true})
			if err == nil && len(rows) == 0 {
				err = fmt.Errorf("no costs by machine")
			}
			return err
		}},
	} {
		took := make([]time.Duration, c.runs)
		c0, s0 := b.cpu()
		for i := range took {
			began := time.Now()
			b.tx(c.ask)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		c1, s1 := b.cpu()
		each := (c1 - c0 + s1 - s0) / time.Duration(c.runs)
		p99 := took[(len(took)*99+99)/100-1]
		ok, by := p99 < c.limit, ""
		if load := load(); !ok && load > float64(runtime.NumCPU()) {
			ok, by = each < c.limit/2, fmt.Sprintf(" (load %.0f on %d cores: judged by the CPU of one, which must be below half of that)", load, runtime.NumCPU())
		}
		b.check(ok, "%-36s p50 %s, p99 %s of %s, CPU %s%s", c.name, took[len(took)/2].Round(100*time.Microsecond), p99.Round(100*time.Microsecond), c.limit, each.Round(100*time.Microsecond), by)
	}
}

// load is how many processes wanted a core over the last minute; 0 where nobody says.
func load() float64 {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// sizes weighs what is kept, with indexes.
func (b *costBench) sizes() {
	b.t.Helper()
	workloadHours, podHours := float64(costWorkloads*b.hours), float64(costPods*b.hours)
	all := 0.0
	for _, table := range []string{"cost_transfer", "cost_detail", "cost_hour_line", "cost_day", "cost_hour", "cost_hour_cause", "node_price"} {
		size := float64(b.number(`SELECT pg_total_relation_size($1::regclass)`, table))
		all += size
		fmt.Printf("  %-16s %8.1f MB, %7.1f bytes per workload-hour\n", table, size/1e6, size/workloadHours)
	}
	b.check(all/workloadHours <= goalBytes, "together %.1f MB: %.0f bytes per workload-hour of %d, %.1f per pod-hour", all/1e6, all/workloadHours, goalBytes, all/podHours)
	lines := b.number(`SELECT sum(lines)::bigint FROM cost_detail WHERE tenant_id = $1`, b.tenant)
	perRow := float64(b.number(`SELECT pg_total_relation_size('cost_transfer') / count(*) FROM cost_transfer WHERE tenant_id = $1`, b.tenant))
	fmt.Printf("  %d lines by machine take %.1f bytes each packed; a row of the ledger's table takes %.0f\n", lines, float64(b.number(`SELECT pg_total_relation_size('cost_detail')`))/float64(lines), perRow)
}

// cpu is what this process and all processes of Postgres have used so far. What ended backends used is with their parent.
func (b *costBench) cpu() (client, server time.Duration) {
	b.t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.t.Fatal(err)
	}
	client = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	postmaster := strconv.Itoa(b.server.Pid())
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		_, rest, ok := strings.Cut(string(raw), ") ")
		f := strings.Fields(rest)
		pid := filepath.Base(filepath.Dir(path))
		if !ok || len(f) < 15 || pid != postmaster && f[1] != postmaster {
			continue
		}
		columns := []int{11, 12} // utime, stime
		if pid == postmaster {
			columns = append(columns, 13, 14) // of its ended children
		}
		for _, c := range columns {
			n, _ := strconv.ParseInt(f[c], 10, 64)
			server += time.Duration(n) * time.Second / 100 // clock ticks
		}
	}
	return client, server
}
