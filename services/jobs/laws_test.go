package jobs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

var (
	lawsFleets = flag.Int("laws.fleets", 12, "random fleets that TestTheLawsOfTheLedger tries")
	lawsFirst  = flag.Int("laws.first", 0, "the seed of the first of them")
)

// The laws of the ledger, for fleets of everything at once: MIG, turns, MPS, fractions, claims, churn of machines, Spot, prices that are named
// late, commitments of three clouds, data that comes hours after its hour closed, a bill that restates and is undone.
//   - every hour of every machine costs its frozen price for its time, to the nano-unit, and its GPU-hours are those that it has;
//   - used and unused of every commitment are what was bought;
//   - whatever is shared, charged, exported or summed by day adds up to the same;
//   - a ledger that was told late, hour by hour, is the ledger of one that was told everything at once, also when it is made twice;
//   - a bill's prices stand to the nano-unit, and undone the ledger is what it was.
func TestTheLawsOfTheLedger(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many fleets")
	}
	e := newEstate(t)
	restated, settled, billed, rows := 0, 0, 0, 0
	for seed := *lawsFirst; seed < *lawsFirst+*lawsFleets; seed++ {
		s := anyStory().Example(seed)
		l := e.live(s)
		l.what = fmt.Sprintf("seed %d", seed)
		for chapter := range s.chapters {
			l.tell(chapter)
			l.cost()
			l.holds()
		}
		told := l.ledger()
		versions := l.number(`SELECT coalesce(sum(version), 0)::bigint FROM cost_hour WHERE tenant_id = $1`, l.tenant)
		l.cost()
		if again := l.number(`SELECT coalesce(sum(version), 0)::bigint FROM cost_hour WHERE tenant_id = $1`, l.tenant); again != versions {
			t.Errorf("%s: costing without news made %d versions", l.what, again-versions)
		}
		restated += int(l.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND version > 1`, l.tenant))
		if s.settled {
			settled++
			for _, what := range []string{"at once", "at once, again"} {
				other := e.live(s)
				other.what = l.what + " " + what
				for chapter := range s.chapters {
					other.tell(chapter)
				}
				other.cost()
				other.holds()
				if d := cmp.Diff(other.ledger(), told); d != "" {
					t.Fatalf("%s: told late another ledger than told %s (-%s +late):\n%s", l.what, what, what, d)
				}
			}
		}
		billed += l.bill()
		rows += l.export()
		if t.Failed() {
			t.Fatalf("%s fails: go test ./jobs -run TestTheLawsOfTheLedger -laws.first %d -laws.fleets 1", l.what, seed)
		}
	}
	t.Logf("%d fleets, %d of them told twice more at once; %d hours were restated, %d hours of machines billed; %d rows of FOCUS", *lawsFleets, settled, restated, billed, rows)
	if *lawsFleets >= 12 && (restated == 0 || settled == 0 || billed == 0) {
		t.Error("the fleets do not try what they are for")
	}
}

// ledger is all that views read of the closed hours, by hour.
func (l *life) ledger() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		for table, sql := range map[string]string{
			"lines": `SELECT l.cluster_id::text, l.hour, concat_ws(' ', l.kind, l.resource, l.purchase, l.workload_id, l.namespace, l.team, l.amount_nano, round(l.quantity::numeric, 7), round(l.unpriced::numeric, 7), round(l.measured::numeric, 7), round(l.used::numeric, 7))
FROM cost_hour_line l JOIN cost_hour h USING (tenant_id, cluster_id, hour) WHERE l.tenant_id = $1 AND h.state = 'closed'`,
			"causes": `SELECT c.cluster_id::text, c.hour, concat_ws(' ', c.cause, c.reason, c.kind, c.resource, c.purchase, c.workload_id, c.namespace, c.team, c.amount_nano, round(c.quantity::numeric, 7))
FROM cost_hour_cause c JOIN cost_hour h USING (tenant_id, cluster_id, hour) WHERE c.tenant_id = $1 AND h.state = 'closed'`,
			"hours": `SELECT cluster_id::text, hour, concat_ws(' ', node_nano, node_seconds, unpriced_node_seconds) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed' AND node_nano <> 0`,
		} {
			rows, err := tx.PGX().Query(ctx, sql+` ORDER BY 1, 2, 3`, l.tenant)
			if err != nil {
				return err
			}
			var cluster, line string
			var hour time.Time
			_, err = pgx.ForEachRow(rows, []any{&cluster, &hour, &line}, func() error {
				out[fmt.Sprintf("%s %s %s", table, cluster[len(cluster)-2:], hour.UTC().Format("02T15"))] += line + "\n"
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out
}

// holds fails unless every law holds for every closed hour as it is now.
func (l *life) holds() {
	l.t.Helper()
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.PGX().Query(ctx, `SELECT cluster_id::text, hour, version, node_nano FROM cost_hour WHERE tenant_id = $1 AND state = 'closed' ORDER BY hour, cluster_id`, l.tenant)
		if err != nil {
			return err
		}
		type closed struct {
			cluster fleet.ClusterID
			hour    time.Time
			version int
			cost    fleet.Money
		}
		hours, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c closed, err error) {
			err = r.Scan(&c.cluster, &c.hour, &c.version, &c.cost)
			c.hour = c.hour.UTC()
			return c, err
		})
		if err != nil {
			return err
		}
		total := fleet.Money(0)
		by := map[time.Time]int{}
		for _, h := range hours {
			total += h.cost
			if h.cluster == store.NoCluster {
				continue
			}
			by[h.hour]++
			lines, ok, err := store.HourDetail(ctx, tx, h.cluster, h.hour, h.version)
			if err != nil {
				return err
			}
			if !ok && h.cost != 0 {
				l.t.Fatalf("%s: no detail of %s", l.what, h.hour)
			}
			l.machines(ctx, tx, h.cluster, h.hour, h.version, h.cost, lines)
			l.shared(lines, h.cost)
		}
		l.bought(ctx, tx, by)
		return nil
	})
	sum := func(sql string) fleet.Money { return fleet.Money(l.number(sql, l.tenant)) }
	hours, lines, days := sum(`SELECT coalesce(sum(node_nano), 0)::bigint FROM cost_hour WHERE tenant_id = $1`), sum(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1`),
		sum(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_day WHERE tenant_id = $1`)
	closedHours, moved := sum(`SELECT coalesce(sum(node_nano), 0)::bigint FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`),
		sum(`SELECT coalesce(sum(CASE WHEN t.credit = 'residual' THEN -t.amount_nano ELSE t.amount_nano END), 0)::bigint FROM cost_transfer t JOIN cost_hour h USING (tenant_id, cluster_id, hour, version) WHERE t.tenant_id = $1`)
	if hours != lines || hours != days || closedHours != moved {
		l.t.Errorf("%s: hours cost %s, lines %s, days %s; closed hours %s, transfers %s", l.what, hours, lines, days, closedHours, moved)
	}
}

// machines holds the lines of an hour against what each machine's frozen price and its time come to, and against the GPUs that it has.
func (l *life) machines(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID, hour time.Time, version int, cost fleet.Money, lines []ledger.CostLine) {
	l.t.Helper()
	amount, gpus := map[string]fleet.Money{}, map[string]float64{}
	for _, line := range lines {
		amount[line.Node] += line.Amount
		if line.Resource == ledger.ResourceGPU {
			gpus[line.Node] += line.Quantity
		}
		if line.Amount < 0 && line.Kind != ledger.KindResidual {
			l.t.Errorf("%s: %s: a negative line %+v", l.what, hour, line)
		}
	}
	rows, err := tx.PGX().Query(ctx, `
SELECT DISTINCT ON (p.node_uid) p.node_uid, p.effective_nano, p.source, n.cloud, n.gpu_count, n.started_at, n.ended_at
FROM node_price p JOIN node n USING (tenant_id, cluster_id) WHERE n.uid = p.node_uid AND p.tenant_id = $1 AND p.cluster_id = $2 AND p.hour = $3 AND p.version <= $4 ORDER BY p.node_uid, p.version DESC`,
		l.tenant, cluster, hour, version)
	if err != nil {
		l.t.Fatal(err)
	}
	var uid, source, cloud string
	var price *fleet.Money
	var count int64
	var from time.Time
	var to *time.Time
	var sum fleet.Money
	_, err = pgx.ForEachRow(rows, []any{&uid, &price, &source, &cloud, &count, &from, &to}, func() error {
		past := hour.Add(time.Hour)
		if to != nil {
			end := *to
			if least := from.Add(time.Minute); cloud != "onprem" && end.Before(least) {
				end = least // AWS and Google bill a minute at least
			}
			if end.Before(past) {
				past = end
			}
		}
		began := from
		if began.Before(hour) {
			began = hour
		}
		ms := max(past.Sub(began).Milliseconds(), 0)
		var want fleet.Money
		if price != nil {
			want = price.MulDiv(ms, time.Hour.Milliseconds())
		}
		if amount[uid] != want {
			l.t.Errorf("%s: %s of %s costs %s, at %v an hour (%s) for %d ms it is %s", l.what, hour.Format("02T15"), uid, amount[uid], price, source, ms, want)
		}
		if want := float64(count) * float64(ms) / float64(time.Hour.Milliseconds()); math.Abs(gpus[uid]-want) > 1e-6 {
			l.t.Errorf("%s: %s of %s has %v GPU-hours in the ledger, want %v", l.what, hour.Format("02T15"), uid, gpus[uid], want)
		}
		sum += amount[uid]
		delete(amount, uid)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if len(amount) != 0 || sum != cost {
		l.t.Errorf("%s: %s costs %s, its machines %s; machines without a price of theirs: %v", l.what, hour.Format("02T15"), cost, sum, amount)
	}
}

// shared holds every way to share what nobody holds, and to charge teams, against the hour's cost.
func (l *life) shared(lines []ledger.CostLine, cost fleet.Money) {
	l.t.Helper()
	rows := ledger.Statement{Lines: lines}.Rows()
	check := func(what string, got fleet.Money) {
		l.t.Helper()
		if got != cost {
			l.t.Errorf("%s: %s makes %s of %s", l.what, what, got, cost)
		}
	}
	add := func(rows []ledger.Row) (sum fleet.Money) {
		for _, r := range rows {
			sum += r.Amount
		}
		return sum
	}
	byNode := map[string][]ledger.Row{}
	for _, line := range lines {
		byNode[line.Node] = append(byNode[line.Node], line.Row)
	}
	for _, how := range []ledger.Spread{ledger.SpreadEven, ledger.SpreadWeighted} {
		var nodes fleet.Money
		for _, scope := range byNode {
			nodes += add(ledger.ShareIdleBy(scope, how))
		}
		check("idle by node, "+string(how), nodes)
		check("idle by cluster, "+string(how), add(ledger.ShareIdleBy(rows, how)))
		check("a shared namespace, "+string(how), add(ledger.ShareWorkloads(rows, func(r ledger.Row) bool { return r.Owner.Namespace == "ns0" }, how, nil)))
		charges := ledger.ChargeTeams([][]ledger.Row{rows}, &how, []ledger.SharedRule{{ID: "a", Pick: "namespace", Value: "ns1", Spread: how}, {ID: "b", Pick: "team", Value: "team0", Spread: ledger.SpreadFixed, Parts: map[string]int64{"team1": 3, "team2": 4}}})
		var sum fleet.Money
		for _, c := range charges.Teams {
			sum += c.Total
		}
		for _, rest := range charges.Rest {
			sum += rest
		}
		for _, u := range charges.Unshared {
			sum += u
		}
		check("charging teams, "+string(how), sum)
	}
}

// bought holds what was used and unused of every commitment against what it cost, in hours that both clusters closed, or that the only one
// that has machines closed.
func (l *life) bought(ctx context.Context, tx *store.Tx, closed map[time.Time]int) {
	l.t.Helper()
	all, err := store.Commitments(ctx, tx, time.Time{}, time.Time{})
	if err != nil {
		l.t.Fatal(err)
	}
	with := map[fleet.ClusterID]bool{}
	rows, err := tx.PGX().Query(ctx, `SELECT DISTINCT cluster_id::text FROM node WHERE tenant_id = $1`, l.tenant)
	if err != nil {
		l.t.Fatal(err)
	}
	var id fleet.ClusterID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { with[id] = true; return nil }); err != nil {
		l.t.Fatal(err)
	}
	for hour, n := range closed {
		if n < len(with) {
			continue
		}
		for _, c := range all {
			var used, unused, kept fleet.Money
			err := tx.PGX().QueryRow(ctx, `SELECT (SELECT coalesce(sum(bought_nano), 0)::bigint FROM commitment_purchase WHERE tenant_id = $1 AND hour = $2 AND commitment_id = $3::uuid), (SELECT coalesce(sum(amount_nano), 0)::bigint FROM commitment_claim WHERE tenant_id = $1 AND hour = $2 AND commitment_id = $3::uuid)
    - (SELECT coalesce(sum(amount_nano), 0)::bigint FROM commitment_release WHERE tenant_id = $1 AND hour = $2 AND commitment_id = $3::uuid),
  (SELECT coalesce(sum(t.amount_nano), 0)::bigint FROM cost_transfer t JOIN cost_hour h USING (tenant_id, cluster_id, hour, version) WHERE t.tenant_id = $1 AND t.hour = $2 AND t.credit = 'commitment/' || $3)`,
				l.tenant, hour, c.ID).Scan(&kept, &used, &unused)
			if err != nil {
				l.t.Fatal(err)
			}
			if want := c.Bought(fleet.Interval{From: hour, To: hour.Add(time.Hour)}); used+unused != want || kept != want {
				l.t.Errorf("%s: %s: %s used and %s unused of %s, which cost %s; the ledger has %s as bought", l.what, hour.Format("02T15"), used, unused, c.Ref, want, kept)
			}
		}
	}
}

// bill lets a bill of the first day stand in the ledger, has late pods come after it, and undoes it. It returns how many hours of machines
// the bill changed.
func (l *life) bill() int {
	l.t.Helper()
	before := l.ledger()
	var b strings.Builder
	b.WriteString("BillingCurrency,BilledCost,EffectiveCost,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceName,ServiceCategory,ProviderName,ResourceId,PricingUnit,PricingQuantity,PricingCategory\n")
	for i, n := range l.s.nodes {
		if i%2 == 0 {
			fmt.Fprintf(&b, "USD,%d.%09d7,%d.%09d7,%s,%s,Usage,Amazon Elastic Compute Cloud,Compute,AWS,%s,Hours,24,Standard\n", 3*i, 7919*i+1, 3*i, 7919*i+1, start.Format(time.RFC3339), start.AddDate(0, 0, 1).Format(time.RFC3339), n.uid)
		}
	}
	f, err := billing.Read(strings.NewReader(b.String()), billing.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	var r store.Restatement
	ctx := context.Background()
	err = l.db.Tenant(ctx, l.tenant, func(tx *store.Tx) (err error) {
		if _, _, _, err = store.SaveBill(ctx, tx, "bill", f, store.BillNew, "test"); err != nil {
			return err
		}
		r, err = store.Restate(ctx, tx, start, start.AddDate(0, 0, 1), "test")
		return err
	})
	if err != nil {
		if !strings.Contains(err.Error(), "nothing to restate") {
			l.t.Errorf("%s: %v", l.what, err)
		}
		return 0
	}
	sum := func() fleet.Money {
		return fleet.Money(l.number(`SELECT coalesce(sum(l.amount_nano), 0)::bigint FROM cost_hour_line l WHERE l.tenant_id = $1 AND l.hour < $2`, l.tenant, start.AddDate(0, 0, 1)))
	}
	was := sum()
	l.cost()
	l.holds()
	if got := sum(); got-was != r.After-r.Before {
		l.t.Errorf("%s: the bill restates %s as %s, the day went from %s to %s", l.what, r.Before, r.After, was, got)
	}
	billed := sum()
	// Late pods cost hours again at the bill's prices.
	for i, n := range l.s.nodes {
		l.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, node, phase, cpu_milli, mem_mib, gpu_milli, created_at, started_at, ended_at) VALUES ($1, $2, $3, $3, 'late', $4, 'ended', 500, 512, 100, $5, $5, $6)`,
			l.tenant, l.clusters[n.cluster].cluster, fmt.Sprint("late", i), n.uid, n.from, n.from.Add(5*time.Hour))
	}
	l.cost()
	l.holds()
	if got := sum(); got != billed {
		l.t.Errorf("%s: at the bill's prices the day costs %s, after late pods %s", l.what, billed, got)
	}
	l.exec(`UPDATE pod SET cpu_milli = 0, mem_mib = 0, gpu_milli = 0, touched_from = '-infinity' WHERE tenant_id = $1 AND namespace = 'late'`, l.tenant)
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.UndoRestatement(ctx, tx, r.ID, "test")
		return err
	})
	l.cost()
	l.holds()
	if d := cmp.Diff(before, l.ledger()); d != "" {
		l.t.Errorf("%s: undone, the ledger is not what it was (-before +undone):\n%s", l.what, d)
	}
	return r.Hours
}

// export holds the FOCUS export of everything against the ledger and the rules, and the purchases against what they cover.
func (l *life) export() int { return l.exportOf(start.Add(-48*time.Hour), start.Add(72*time.Hour)) }

func (l *life) exportOf(from, to time.Time) int {
	l.t.Helper()
	var file bytes.Buffer
	w, err := focus.NewWriter(&file)
	if err != nil {
		l.t.Fatal(err)
	}
	total := fleet.Money(0)
	effective, purchases := map[string]fleet.Money{}, map[string]fleet.Money{}
	write := func(r focus.Row) error {
		if id := r[focus.CommitmentDiscountID]; id != "" {
			if r[focus.ChargeCategory] == "Purchase" {
				purchases[id] += usd(l.t, r[focus.BilledCost])
			} else {
				effective[id] += usd(l.t, r[focus.EffectiveCost])
			}
		}
		return w.Write(&r)
	}
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		e := store.FocusExport{From: from, To: to, Currency: "USD",
			Node: func(n focus.NodeHour) error {
				for _, r := range n.Rows() {
					if err := write(r); err != nil {
						return err
					}
				}
				return nil
			},
			Unused: func(u focus.Unused) error { return write(u.Row()) }, Purchase: func(p focus.Purchase) error { return write(p.Row()) }}
		c, err := e.Coverage(ctx, tx)
		if err != nil {
			return err
		}
		total = c.Total
		return e.Walk(ctx, tx)
	})
	if err := w.Flush(); err != nil {
		l.t.Fatal(err)
	}
	report, err := focus.Check(&file)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range report.Findings {
		l.t.Errorf("%s: line %d, %d times: %s: %s", l.what, f.Line, f.Count, f.Rule.ID, f.Detail)
	}
	if want := fmt.Sprintf("%d.%09d", total/fleet.NanosPerUnit, total%fleet.NanosPerUnit); report.Effect != want {
		l.t.Errorf("%s: EffectiveCost %s, ledger %s", l.what, report.Effect, want)
	}
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.PGX().Query(ctx, `SELECT c.ref, sum(p.bought_nano)::bigint, sum(p.upfront_nano + p.recurring_nano)::bigint FROM commitment_purchase p JOIN commitment c ON c.tenant_id = p.tenant_id AND c.id = p.commitment_id
WHERE p.tenant_id = $1 GROUP BY 1`, l.tenant)
		if err != nil {
			return err
		}
		var ref string
		var bought, paid fleet.Money
		_, err = pgx.ForEachRow(rows, []any{&ref, &bought, &paid}, func() error {
			if effective[ref] != bought || purchases[ref] != paid {
				l.t.Errorf("%s: of %s the export has %s effective and %s billed, the ledger %s bought and %s paid", l.what, ref, effective[ref], purchases[ref], bought, paid)
			}
			return nil
		})
		return err
	})
	return report.Rows
}
