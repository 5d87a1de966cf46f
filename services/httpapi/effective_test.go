package httpapi_test

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// A replica takes a whole machine, so that its price is the machine's.
const (
	wholeCPU, wholeMemory = 4000, 16384
	machine               = "g5.xlarge"
)

// priced is a yard with a workload on Spot and one on demand, both on whole machines of one type in one zone.
type priced struct {
	*yard
	spot, demand fleet.WorkloadID
}

func openPriced(t *testing.T) *priced {
	t.Helper()
	p := &priced{yard: openYard(t)}
	tenant, cluster := string(p.tenant.ID), string(p.cluster)
	p.exec(`UPDATE cluster SET data_at = $2, last_seen_at = now() WHERE id = $1`, cluster, p.now)
	for name, purchase := range map[string]fleet.Purchase{"spot": fleet.PurchaseSpot, "demand": fleet.PurchaseOnDemand} {
		id := p.workload("chat", name, "red")
		p.exec(`UPDATE workload SET cpu_milli = $2, mem_mib = $3, gpu_milli = 1000 WHERE id = $1`, string(id), wholeCPU, wholeMemory)
		p.policy(id, "mode: recommend\nmin: 1\nmax: 8\nqueue:\n  target_per_replica: 8\n")
		p.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, started_at)
			VALUES ($1, $2, $3, $3, 'aws', 'us-east-1', 'us-east-1a', $4, $5, 'ready', $6, $7, 'A10G', 1, 24576, $8)`,
			tenant, cluster, name, machine, purchase, wholeCPU, wholeMemory, p.now.Add(-time.Hour))
		p.exec(`INSERT INTO pod (tenant_id, cluster_id, uid, name, namespace, workload_key, node, phase, cpu_milli, mem_mib, gpu_milli, created_at)
			VALUES ($1, $2, $3, $3, 'chat', 'chat/Deployment/' || $3, $3, 'ready', $4, $5, 1000, $6)`, tenant, cluster, name, wholeCPU, wholeMemory, p.now.Add(-time.Hour))
		if purchase == fleet.PurchaseSpot {
			p.spot = id
		} else {
			p.demand = id
		}
	}
	return p
}

// spotPrice writes the Spot price in force from after on.
func (p *priced) spotPrice(after time.Duration, price string) {
	p.t.Helper()
	m, err := fleet.ParseMoney(price)
	if err != nil {
		p.t.Fatal(err)
	}
	pool := market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: machine, Product: market.ProductLinux}
	err = p.db.Global(context.Background(), func(tx *store.Tx) error {
		tx.Now = p.now // the history of a cluster whose time is ahead of ours
		w, err := store.NewSpotWriter(context.Background(), tx, store.SpotWriteOptions{Source: "test", Trust: true})
		if err != nil {
			return err
		}
		if err := w.Add(context.Background(), market.SpotRow{Pool: pool, Change: market.SpotChange{At: p.now.Add(after).Unix(), Spot: market.Listed(m), OnDemand: market.Listed(1_006_000_000)}}); err != nil {
			return err
		}
		_, err = w.Close(context.Background())
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// next is what one more machine costs, and fails unless the planner's input, the list of workloads and the explanation agree on it.
func (p *priced) next(what string, purchase fleet.Purchase) string {
	p.t.Helper()
	id := map[fleet.Purchase]fleet.WorkloadID{fleet.PurchaseSpot: p.spot, fleet.PurchaseOnDemand: p.demand}[purchase]
	var planned *fleet.Money
	p.tx(func(ctx context.Context, tx *store.Tx) error {
		in, err := store.LoadPlanInput(ctx, tx, p.cluster)
		if err != nil {
			return err
		}
		if err := store.PricePlan(ctx, tx, market.Catalogue(), in); err != nil {
			return err
		}
		for _, w := range in.Input.Snapshot.Workloads {
			if w.Workload.ID == id {
				planned = w.ReplicaHour
			}
		}
		return nil
	})
	var listed httpapi.Workload
	p.with(p.viewer, "GET", "/api/v1/workloads/"+string(id), nil).want(p.t, 200).into(p.t, &listed)
	var explained httpapi.PriceExplained
	p.with(p.viewer, "GET", "/api/v1/prices/explain?cloud=aws&region=us-east-1&zone=us-east-1a&instance_type="+machine+"&purchase="+string(purchase), nil).want(p.t, 200).into(p.t, &explained)
	if planned == nil || listed.ReplicaHour == nil || explained.PerHour == nil {
		p.t.Fatalf("%s: plan %v, list %v, explanation %v", what, planned, listed.ReplicaHour, explained.PerHour)
	}
	shown, told := fleetMoney(p.t, listed.ReplicaHour.Amount), fleetMoney(p.t, explained.PerHour.Amount)
	if int64(*planned) != int64(shown) || int64(shown) != int64(told) {
		p.t.Errorf("%s, %s: the plan reckons with %s, the list shows %s, the explanation %s", what, purchase, *planned, listed.ReplicaHour.Amount, explained.PerHour.Amount)
	}
	return explained.PerHour.Amount
}

func TestOneEffectivePriceForPlanListAndExplanation(t *testing.T) {
	t.Parallel()
	p := openPriced(t)
	want := func(what, spot, demand string) {
		t.Helper()
		if a, b := p.next(what, fleet.PurchaseSpot), p.next(what, fleet.PurchaseOnDemand); a != spot || b != demand {
			t.Errorf("%s: Spot %s, on demand %s; want %s and %s", what, a, b, spot, demand)
		}
	}
	p.spotPrice(-48*time.Hour, "0.4")
	want("Spot is cheaper than the list", "0.40", "1.006")
	p.spotPrice(-time.Minute, "0.55")
	want("Spot of the moment", "0.55", "1.006")

	// A plan of 1.00 an hour at 37 % off: the machine on demand takes 0.63378 of it, and what is left covers 0.577866 of the next one.
	p.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{{Ref: "sp", Kind: commitment.KindInstanceSP, Region: "us-east-1", Family: "g5", Spend: 1_000_000_000,
			DiscountPPM: 370_000, Term: fleet.Interval{From: p.now.AddDate(0, -6, 0), To: p.now.AddDate(0, 6, 0)}}}, "api", "test")
		return err
	})
	want("what is left under the plan is cheaper than Spot", "0.55", "0.424698413")
	p.spotPrice(-30*time.Second, "0.42")
	want("Spot falls below it", "0.42", "0.424698413")

	// What runs costs what it takes of the plan, in the list, the clusters and the nodes alike.
	var demand httpapi.Workload
	p.with(p.viewer, "GET", "/api/v1/workloads/"+string(p.demand), nil).want(t, 200).into(t, &demand)
	if demand.CostHour == nil || demand.CostHour.Amount != "1.26756" { // two replicas asked for
		t.Errorf("the workload on demand costs %+v", demand.CostHour)
	}
	var cluster clusterView
	p.with(p.key(p.tenant.ID, auth.RoleViewer), "GET", "/api/v1/clusters/"+string(p.cluster), nil).want(t, 200).into(t, &cluster)
	if cluster.CostHour == nil || cluster.CostHour.Amount != "1.05378" || cluster.UnpricedNodes != 0 {
		t.Errorf("the cluster costs %+v", cluster.CostHour)
	}
}

func TestTheEffectiveLineFollowsWhatCommitmentsLeftOver(t *testing.T) {
	t.Parallel()
	p := openPriced(t)
	p.spotPrice(-48*time.Hour, "0.4")
	at := func(back time.Duration) time.Time { return p.now.Add(-back).UTC().Truncate(time.Hour) }
	// A plan of 1.00 an hour at 37 % off began twelve hours ago; the machine on demand has run for one.
	p.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{{Ref: "sp", Kind: commitment.KindInstanceSP, Region: "us-east-1", Family: "g5", Spend: 1_000_000_000,
			DiscountPPM: 370_000, Term: fleet.Interval{From: at(12 * time.Hour), To: p.now.AddDate(0, 6, 0)}}}, "api", "test")
		return err
	})
	from, to := at(24*time.Hour), p.now.UTC().Truncate(time.Hour).Add(time.Hour)
	line := func(more string) map[time.Time]string {
		var h httpapi.SpotHistory
		p.with(p.viewer, "GET", "/api/v1/prices/spot?region=us-east-1&instance_type="+machine+"&step=3600&from="+from.Format(time.RFC3339)+"&to="+to.Format(time.RFC3339)+more, nil).want(t, 200).into(t, &h)
		if len(h.Series) != 1 || len(h.Effective) != len(h.Series[0].Points) {
			t.Fatalf("%d series, %d prices", len(h.Series), len(h.Effective))
		}
		out := map[time.Time]string{}
		for i, e := range h.Effective {
			if !e.At.Equal(h.Series[0].Points[i].At) || e.Price == nil {
				t.Fatalf("step %d: %+v beside %s", i, e, h.Series[0].Points[i].At)
			}
			out[e.At.UTC()] = *e.Price
		}
		if h.Data == nil || h.Data.Pools != 1 || h.Data.Changes != 1 || !h.Data.FirstAt.Equal(h.Data.LastAt) || h.Data.Source != "test" {
			t.Errorf("the history reaches %+v", h.Data)
		}
		return out
	}
	got := line("")
	for name, c := range map[string]struct {
		back time.Duration
		want string
	}{
		"before the plan the list":           {13 * time.Hour, "1.006"},
		"a plan without machines covers all": {12 * time.Hour, "0.00"},
		"while nothing ran it stays so":      {4 * time.Hour, "0.00"},
	} {
		if price := got[at(c.back)]; price != c.want {
			t.Errorf("%s: %s, want %s", name, price, c.want)
		}
	}
	// Now, with one machine running: the same as the explanation says.
	if now, explained := got[to.Add(-time.Hour)], p.next("now", fleet.PurchaseOnDemand); now != explained && p.now.Sub(to.Add(-time.Hour)) < time.Hour {
		if p.now.Add(-time.Hour).Before(to.Add(-time.Hour)) { // the machine ran at the step already
			t.Errorf("the line ends at %s, the explanation says %s", now, explained)
		}
	}
}
