package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// second adds a cluster to the estate and returns a view of the estate that speaks of it.
func (e *estate) second() *estate {
	e.t.Helper()
	other := *e
	other.cluster = fleet.ClusterID(uuid.NewString())
	e.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at) VALUES ($1, $2, 'other', 'observe', now())`, e.tenant, other.cluster)
	return &other
}

// buy writes down one reserved m5.large at 0.06 an hour and a plan of 0.10 an hour at 28 % off; both belong to team web.
func (e *estate) buy() {
	e.t.Helper()
	term := fleet.Interval{From: start.AddDate(0, -1, 0), To: start.AddDate(1, 0, 0)}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{
			{Ref: "ri", Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "m5.large", Quantity: 1000, Recurring: usd(e.t, "0.06"), Term: term, Owner: "web"},
			{Ref: "sp", Kind: commitment.KindComputeSP, Spend: usd(e.t, "0.10"), DiscountPPM: 280_000, Term: term, Owner: "web"},
		}, "api", "test")
		return err
	})
}

// closed adds up the newest transfers of an hour of all clusters; kind empty: all.
func (e *estate) closed(hour time.Time, kind string) fleet.Money {
	e.t.Helper()
	return fleet.Money(e.number(`SELECT coalesce(sum(t.amount_nano), 0)::bigint FROM cost_transfer t
JOIN cost_hour h ON h.tenant_id = t.tenant_id AND h.cluster_id = t.cluster_id AND h.hour = t.hour AND h.version = t.version
WHERE t.tenant_id = $1 AND t.hour = $2 AND ($3 = '' OR t.kind = $3)`, e.tenant, hour, kind))
}

func (e *estate) wantClosed(what string, hour time.Time, kind, want string) {
	e.t.Helper()
	if got := e.closed(hour, kind); got != usd(e.t, want) {
		e.t.Errorf("%s: %s %s, want %s", what, kind, got, want)
	}
}

func TestTwoClustersShareCommitmentsAndUseNoneTwice(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	other := e.second()
	e.buy()
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	other.node("b", "m5.large", fleet.PurchaseOnDemand, start)
	for _, c := range []*estate{e, other} {
		c.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	}
	e.catchUp()
	other.catchUp()
	// One is reserved (0.06), the other under the plan (0.096 x 0.72 = 0.06912), and 0.03088 of the plan are left: together what was bought.
	for i := range 2 {
		at := start.Add(time.Duration(i) * time.Hour)
		e.wantClosed("two clusters", at, "", "0.16")
		e.wantClosed("two clusters", at, "commitment_unused", "0.03088")
	}
	if n := e.number(`SELECT count(*) FROM commitment_claim WHERE tenant_id = $1`, e.tenant); n != 4 {
		t.Errorf("%d claims, want one per node and closed hour", n)
	}
	team := e.number(`SELECT count(*) FROM cost_day WHERE tenant_id = $1 AND kind = 'commitment_unused' AND team = 'web' AND resource = 'commitment' AND amount_nano = 61760000`, e.tenant)
	if team != 1 {
		t.Error("what is unused is not charged to its owner")
	}
	e.catchUp()
	other.catchUp()
	e.wantClosed("costing again", start, "", "0.16")

	// A machine of the first hour that is reported late gets what is left of the plan (0.03088 for 0.446759 of it), and pays the list for the rest.
	other.node("late", "m5.large", fleet.PurchaseOnDemand, start)
	e.exec(`UPDATE node SET ended_at = $3 WHERE tenant_id = $1 AND uid = $2`, e.tenant, "late", start.Add(time.Hour))
	if err := e.closer.CatchUp(context.Background(), CloseHourArgs{Tenant: e.tenant, Cluster: other.cluster, Since: start}); err != nil {
		t.Fatal(err)
	}
	e.wantClosed("a late machine", start, "commitment_unused", "0")
	e.wantClosed("a late machine", start, "", "0.213111111") // 0.16 + 0.096 x (1 - 0.03088/0.06912)
	e.wantClosed("the hour after", start.Add(time.Hour), "", "0.16")
	taken := e.number(`SELECT max(s)::bigint FROM (SELECT sum(amount_nano) AS s FROM commitment_claim WHERE tenant_id = $1 GROUP BY hour) x`, e.tenant)
	if fleet.Money(taken) != usd(t, "0.16") {
		t.Errorf("claims of the first hour are %s, bought was 0.16", fleet.Money(taken))
	}
	source := e.number(`SELECT count(*) FROM node_price WHERE tenant_id = $1 AND source IN ('commitment ri', 'commitment sp', 'commitment list, sp')`, e.tenant)
	if source != e.number(`SELECT count(*) FROM node_price WHERE tenant_id = $1`, e.tenant) || source == 0 {
		t.Error("a price does not say which commitment it rests on")
	}
}

func TestASilentClusterHoldsNoCommitments(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	other := e.second()
	e.buy()
	other.node("silent", "m5.large", fleet.PurchaseOnDemand, start.Add(-24*time.Hour))
	other.dataAt(start.Add(-10 * time.Hour))
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	e.wantClosed("alone", start, "", "0.16")
	e.wantClosed("alone", start, "commitment_unused", "0.10")
}

func TestCommitmentsBoughtOrDeletedLaterDoNotReachBack(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	e.buy()
	again := func() {
		t.Helper()
		if err := e.closer.CatchUp(context.Background(), CloseHourArgs{Tenant: e.tenant, Cluster: e.cluster, Since: start}); err != nil {
			t.Fatal(err)
		}
	}
	again()
	e.wantClosed("closed before it was written down", start, "", "0.096")
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	again()
	e.wantClosed("closed since", start.Add(time.Hour), "", "0.16")
	e.exec(`UPDATE commitment SET deleted_at = now() WHERE tenant_id = $1 AND ref = 'sp'`, e.tenant)
	again()
	e.wantClosed("deleted", start.Add(time.Hour), "", "0.16")
	e.wantClosed("deleted", start.Add(time.Hour), "commitment_unused", "0.10")
}

// What was paid for an hour stays paid as it was, whatever a person writes down, changes or deletes afterwards, and whatever machine is told late: used and
// unused add up to it.
func TestPurchasesOfClosedHoursStay(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	e.dataAt(start.Add(70 * time.Minute))
	e.catchUp()
	e.buy()
	e.dataAt(start.Add(3*time.Hour + 30*time.Minute))
	e.catchUp()
	term := fleet.Interval{From: start.AddDate(0, -1, 0), To: start.AddDate(1, 0, 0)}
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{{Ref: "ri", Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "m5.large", Quantity: 2000, Recurring: usd(t, "0.50"), Term: term, Owner: "web"}}, "api", "test")
		return err
	})
	check := func(what string) {
		t.Helper()
		for h, want := range []string{"0", "0.16", "0.16"} {
			at := start.Add(time.Duration(h) * time.Hour)
			paid := e.number(`SELECT coalesce(sum(recurring_nano), 0)::bigint FROM commitment_purchase WHERE tenant_id = $1 AND hour = $2 AND bought_nano = recurring_nano`, e.tenant, at)
			used := e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM commitment_claim WHERE tenant_id = $1 AND hour = $2`, e.tenant, at)
			if unused := e.closed(at, "commitment_unused"); fleet.Money(paid) != usd(t, want) || fleet.Money(used)+unused != usd(t, want) {
				t.Errorf("%s, hour %d: %s paid, %s used, %s unused, want %s", what, h, fleet.Money(paid), fleet.Money(used), unused, want)
			}
		}
	}
	check("changed")
	e.node("late", "m5.large", fleet.PurchaseOnDemand, start)
	e.exec(`UPDATE node SET ended_at = $2 WHERE tenant_id = $1 AND uid = 'late'`, e.tenant, start.Add(2*time.Hour))
	e.catchUp()
	check("a late machine")
	e.wantClosed("the first hour knew of no commitment", start, "", "0.192")
	e.wantClosed("in the second the plan takes it, and the reservation is what it was", start.Add(time.Hour), "commitment_unused", "0.03088")
	e.exec(`UPDATE commitment SET deleted_at = now() WHERE tenant_id = $1 AND ref = 'ri'`, e.tenant)
	e.node("later", "m5.large", fleet.PurchaseOnDemand, start.Add(2*time.Hour))
	e.exec(`UPDATE node SET ended_at = $2 WHERE tenant_id = $1 AND uid = 'later'`, e.tenant, start.Add(3*time.Hour))
	e.catchUp()
	check("deleted")
}

func TestWithoutCommitmentsNothingChanges(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	e.balanced(usd(t, "0.144"))
	if n := e.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2`, e.tenant, store.NoCluster); n != 0 {
		t.Errorf("%d hours of no cluster", n)
	}
}

func TestAReplicaOnWhatIsPaidAlreadyCostsNothingMore(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	e.dataAt(start.Add(90 * time.Minute))
	id := fleet.WorkloadID(uuid.NewString())
	host := store.Host{Offering: fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "m5.large", Purchase: fleet.PurchaseOnDemand}}
	hour := func() *fleet.Money {
		snapshot := fleet.Snapshot{Now: start.Add(90 * time.Minute), Workloads: []fleet.WorkloadState{{Workload: fleet.Workload{ID: id, CPUMilli: 2000, MemMiB: 8192}}}}
		e.tx(func(ctx context.Context, tx *store.Tx) error {
			return store.PricePlan(ctx, tx, market.Catalogue(), &store.PlanInput{Input: optimizer.Input{Snapshot: snapshot}, Hosts: map[fleet.WorkloadID]store.Host{id: host}})
		})
		return snapshot.Workloads[0].ReplicaHour
	}
	want := func(what, price string) {
		t.Helper()
		if got := hour(); got == nil || *got != usd(t, price) {
			t.Errorf("%s: %v, want %s", what, got, price)
		}
	}
	want("without commitments: all of an m5.large", "0.096")
	e.buy() // the running machine takes the reservation; the plan's 0.10 an hour cover one more (0.06912)
	want("under the plan", "0")
	e.node("b", "m5.large", fleet.PurchaseOnDemand, start)
	want("with 0.03088 left of the plan", "0.053111111")
	e.node("c", "m5.large", fleet.PurchaseOnDemand, start)
	want("with nothing left", "0.096")
	e.exec(`INSERT INTO tenant_price (tenant_id, cloud, region, instance_type, purchase, valid_from, hour_nano, created_by, created_at)
VALUES ($1, 'aws', '', 'm5.large', 'on_demand', $2, 80000000, 'test', now())`, e.tenant, start)
	want("at the tenant's own price", "0.08")
	host.Offering.InstanceType = "none"
	if got := hour(); got != nil {
		t.Errorf("a machine of unknown price costs %s", *got)
	}
}

// What the pages say of each hour is what the ledger claimed and charged for it.
func TestTheSeriesOfUseSaysWhatTheLedgerClaimed(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	other := e.second()
	e.buy()
	e.node("a", "m5.large", fleet.PurchaseOnDemand, start)
	other.node("b", "m5.large", fleet.PurchaseOnDemand, start.Add(90*time.Minute))
	for _, c := range []*estate{e, other} {
		c.dataAt(start.Add(4*time.Hour + 30*time.Minute))
	}
	e.catchUp()
	other.catchUp()
	span := fleet.Interval{From: start, To: start.Add(3 * time.Hour)}
	var steps []commitment.Step
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		bought, err := store.Commitments(ctx, tx, span.From, span.To)
		if err != nil {
			return err
		}
		plain := make([]commitment.Commitment, len(bought))
		for i, c := range bought {
			plain[i] = c.Commitment
		}
		nodes, err := store.NodeLives(ctx, tx, span.From, span.To)
		if err != nil {
			return err
		}
		steps, err = commitment.Series(span, time.Hour, nodes, plain, commitment.NewPrices(market.Catalogue(), nil), "", ctx.Err)
		return err
	})
	if len(steps) != 3 {
		t.Fatalf("%d steps", len(steps))
	}
	for _, s := range steps {
		claimed := fleet.Money(e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM commitment_claim WHERE tenant_id = $1 AND hour = $2`, e.tenant, s.Interval.From))
		if unused := e.closed(s.Interval.From, "commitment_unused"); s.Balance.Used != claimed || s.Balance.Unused != unused || s.Balance.Bought != claimed.Add(unused) || claimed == 0 {
			t.Errorf("%s: the series says %s used and %s unused of %s, the ledger %s and %s", s.Interval.From, s.Balance.Used, s.Balance.Unused, s.Balance.Bought, claimed, unused)
		}
	}
}
