package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// versions lists the closed hours that have another version than the first, by hours after start.
func (e *estate) versions() map[int64]int64 {
	e.t.Helper()
	got := map[int64]int64{}
	for h := range e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, e.tenant) {
		if v := e.number(`SELECT version FROM cost_hour WHERE tenant_id = $1 AND hour = $2`, e.tenant, start.Add(time.Duration(h)*time.Hour)); v != 1 {
			got[h] = v
		}
	}
	return got
}

func TestLateDataCostsExactlyTheHoursItTouchesAgain(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	id := e.workload("llm", "red")
	e.dataAt(start.Add(60*time.Hour + 30*time.Minute))
	e.catchUp()
	total := usd(t, "60.863") // 60.5 hours at 1.006
	e.balanced(total)
	if got := e.versions(); len(got) != 0 {
		t.Fatalf("versions of a fresh cluster: %v", got)
	}
	expect := func(what string, want map[int64]int64) {
		t.Helper()
		e.catchUp()
		e.balanced(total)
		if d := cmp.Diff(want, e.versions()); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
		if left := e.number(`SELECT count(*) FROM cost_touched WHERE tenant_id = $1`, e.tenant); left != 0 {
			t.Errorf("%s: %d hours stay marked", what, left)
		}
	}
	// News of a pod that lived from 3:30 to 5:15 comes two days late, while no hour closes.
	e.pod("late", "n1", "llm", 1000, start.Add(3*time.Hour+30*time.Minute))
	e.exec(`UPDATE pod SET ended_at = $2 WHERE tenant_id = $1`, e.tenant, start.Add(5*time.Hour+15*time.Minute))
	expect("a late pod", map[int64]int64{3: 2, 4: 2, 5: 2})
	expect("nothing new", map[int64]int64{3: 2, 4: 2, 5: 2})

	// Its end was told wrongly: it held on until 6:30. The hours in between are looked at and come out the same.
	e.exec(`UPDATE pod SET ended_at = $2, touched_from = least(touched_from, ended_at, $2) WHERE tenant_id = $1`, e.tenant, start.Add(6*time.Hour+30*time.Minute))
	expect("a later end", map[int64]int64{3: 2, 4: 2, 5: 3, 6: 2})

	// Roll-ups of the block from 4:00 are made again: use above the request changes hour 4 and leaves hour 5, whose use stayed the same.
	e.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, cpu_cores) VALUES ($1, $2, $3, $4, 60, 3.5)`, e.tenant, e.cluster, id, start.Add(4*time.Hour))
	e.exec(`INSERT INTO cost_touched (tenant_id, cluster_id, hour) SELECT $1, $2, unnest($3::timestamptz[])`, e.tenant, e.cluster, []time.Time{start.Add(4 * time.Hour), start.Add(5 * time.Hour)})
	expect("late use", map[int64]int64{3: 2, 4: 3, 5: 3, 6: 2})

	// A node that nobody had told of adds its price from 58:00 on, and to the running hour.
	e.node("n2", "g5.xlarge", fleet.PurchaseOnDemand, start.Add(58*time.Hour))
	total += usd(t, "2.515")
	expect("a late node", map[int64]int64{3: 2, 4: 3, 5: 3, 6: 2, 58: 2, 59: 2})
}

// Both versions of a restated hour stay readable, and a reader says which moment it asks about.
func TestTheLedgerIsReadableAsOfAnyMoment(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.workload("llm", "red")
	e.dataAt(start.Add(3*time.Hour + 30*time.Minute))
	e.catchUp()
	before := e.now()
	e.pod("late", "n1", "llm", 1000, start.Add(time.Hour))
	e.catchUp()
	team := func(asOf time.Time, hourly bool) (red, all fleet.Money) {
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.Costs(ctx, tx, store.CostQuery{From: start, To: start.Add(24 * time.Hour), Hourly: hourly, Aggregate: "team", AsOf: asOf, Buckets: true})
			for _, r := range rows {
				all += r.Amount
				if r.Key == "red" {
					red += r.Amount
				}
			}
			return err
		})
		return red, all
	}
	closed := usd(t, "3.018") // three hours
	for _, hourly := range []bool{false, true} {
		if red, all := team(before, hourly); red != 0 || all != closed {
			t.Errorf("before the late pod red paid %s of %s, want 0 of %s", red, all, closed)
		}
		red, all := team(e.now(), hourly)
		if want := fleet.Money(e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND team = 'red' AND hour < $2`, e.tenant, start.Add(3*time.Hour))); red != want || red == 0 || all != closed {
			t.Errorf("now red pays %s of %s, want %s of %s", red, all, want, closed)
		}
		if red, all := team(before.Add(-time.Hour), hourly); red != 0 || all != 0 {
			t.Errorf("before anything was closed the ledger had %s and %s", red, all)
		}
	}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		c, err := store.Coverage(ctx, tx, "", start, start.Add(24*time.Hour))
		if c.Restated != 2 || c.AsOf == nil || c.AsOf.Before(before) {
			t.Errorf("coverage %+v, want two hours restated after %s", c, before)
		}
		return err
	})
}

// A span that is not told apart by hour is read from days and from hours at its ends, and adds up to the hours.
func TestSpansOfDaysAndHoursAddUp(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.workload("llm", "red")
	e.pod("p", "n1", "llm", 500, start.Add(30*time.Hour))
	e.dataAt(start.Add(100 * time.Hour))
	e.catchUp()
	sums := func(q store.CostQuery) map[string]fleet.Money {
		got := map[string]fleet.Money{}
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			rows, err := store.Costs(ctx, tx, q)
			for _, r := range rows {
				got[fmt.Sprint(r.Kind, " ", r.Key, " ", r.Resource)] += r.Amount
			}
			return err
		})
		return got
	}
	for _, aggregate := range []string{"team", "namespace", "workload", "cluster", "kind", "purchase", "resource", "label:tier"} {
		for _, span := range [][2]int{{0, 96}, {5, 77}, {24, 72}, {23, 100}, {1, 49}, {1, 3}} {
			q := store.CostQuery{From: start.Add(time.Duration(span[0]) * time.Hour), To: start.Add(time.Duration(span[1]) * time.Hour), Hourly: true, Aggregate: aggregate}
			whole := sums(q)
			q.Buckets = true
			if d := cmp.Diff(sums(q), whole); d != "" || len(whole) == 0 {
				t.Errorf("%s of hours %v (-by hour +whole):\n%s", aggregate, span, d)
			}
		}
	}
}

// An hour that is costed again is split by the regression that it was split by, whatever the catalogue says since.
func TestARestatedHourIsSplitAsItWas(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("n1", "g5.xlarge", fleet.PurchaseOnDemand, start)
	e.workload("llm", "red")
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	idle := func(hour int) int64 {
		return e.number(`SELECT sum(amount_nano)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour = $2 AND resource = 'gpu'`, e.tenant, start.Add(time.Duration(hour)*time.Hour))
	}
	was := idle(0)
	// Another regression: what was kept says that GPUs cost nothing, so an hour that trusts it has no GPU in its price.
	e.asOwner(`UPDATE cost_weights SET weights = jsonb_set(weights, '{GPUHour}', '{"A10G": 0}') WHERE tenant_id = $1`, e.tenant)
	e.pod("late", "n1", "llm", 0, start.Add(30*time.Minute))
	e.exec(`UPDATE pod SET ended_at = $2 WHERE tenant_id = $1`, e.tenant, start.Add(50*time.Minute))
	e.dataAt(start.Add(3*time.Hour + 30*time.Minute))
	e.catchUp()
	e.balanced(usd(t, "3.521"))
	if got := idle(0); got != 0 || was == 0 {
		t.Errorf("the restated hour gives %s to the GPU, want what its own version of the weights says: 0 (before: %s)", fleet.Money(got), fleet.Money(was))
	}
	if got := idle(2); got != was {
		t.Errorf("a new hour gives %s to the GPU, want %s by the catalogue's weights", fleet.Money(got), fleet.Money(was))
	}
}

// now is the database's clock.
func (e *estate) now() (at time.Time) {
	e.tx(func(_ context.Context, tx *store.Tx) error { at = tx.Now; return nil })
	return at
}

// What was restated is what a cluster that had known everything at once would have been told.
func TestARestatementIsReproducible(t *testing.T) {
	t.Parallel()
	at := func(h float64) time.Time { return start.Add(time.Duration(h * float64(time.Hour))) }
	early, late := newEstate(t), newEstate(t)
	for _, e := range []*estate{early, late} {
		e.node("n1", "g6.12xlarge", fleet.PurchaseOnDemand, start)
		e.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, labels, first_seen) VALUES ($1, '6f1f7c1e-3c0e-5d0a-9b0e-0d6a5f0b7a12', $2, 'chat/Deployment/llm', 'chat', 'Deployment', 'llm', 'red', '{}', $3)`,
			e.tenant, e.cluster, start)
		e.pod("p0", "n1", "llm", 1000, at(0.5))
	}
	news := []func(e *estate){
		func(e *estate) { e.pod("p1", "n1", "llm", 2000, at(2.25)) },
		func(e *estate) { e.pod("p2", "n1", "", 500, at(3.75)) },
		func(e *estate) { e.node("n2", "g5.xlarge", fleet.PurchaseOnDemand, at(1.5)) },
		func(e *estate) { e.pod("p3", "n2", "llm", 1000, at(1.75)) },
	}
	for _, n := range news {
		n(early)
	}
	early.dataAt(at(8.5))
	early.catchUp()
	for _, n := range news {
		late.dataAt(at(8.5))
		late.catchUp()
		n(late)
	}
	late.catchUp()
	for h := range int64(8) {
		read := func(e *estate) string {
			sum := e.number(`SELECT sum(hashtextextended(concat_ws('|', kind, resource, purchase, workload_id, namespace, team, amount_nano, round(quantity::numeric, 9)), 0) / 1024)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour = $2`, e.tenant, at(float64(h)))
			return fmt.Sprint(sum, e.number(`SELECT node_nano FROM cost_hour WHERE tenant_id = $1 AND hour = $2`, e.tenant, at(float64(h))))
		}
		if a, b := read(early), read(late); a != b {
			t.Errorf("hour %d: known at once %s, restated %s", h, a, b)
		}
	}
	if v := late.number(`SELECT max(version) FROM cost_hour WHERE tenant_id = $1`, late.tenant); v < 3 {
		t.Errorf("nothing was restated: newest version %d", v)
	}
}
