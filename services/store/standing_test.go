package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func (b *planBench) standing(book *market.PriceBook) (s *agentv1.Standing) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) (err error) {
		s, err = store.StandingOf(context.Background(), tx, book, b.cluster)
		return err
	})
	return s
}

func (b *planBench) change(sql string, args ...any) {
	b.t.Helper()
	b.tx(func(tx *store.Tx) error {
		_, err := tx.PGX().Exec(context.Background(), sql, append([]any{b.tenant, b.cluster}, args...)...)
		return err
	})
}

func (b *planBench) can(capabilities ...string) {
	b.change(`UPDATE cluster SET capabilities = $3 WHERE tenant_id = $1 AND id = $2`, capabilities)
}

func targets(s *agentv1.Standing) string {
	var out []string
	for _, t := range s.GetTargets() {
		out = append(out, fmt.Sprintf("%s=%d", t.GetWorkload(), t.GetReplicas()))
	}
	return strings.Join(out, " ")
}

func TestAnAgentIsToldWhatHolds(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	book := market.Catalogue()
	b.can(store.CapabilityKEDA)
	if s := b.standing(book); s != nil {
		t.Fatalf("a cluster that never reported: %v", s)
	}
	b.observe(2, 20)
	if s := b.standing(book); s == nil || len(s.GetTargets()) != 0 {
		t.Fatalf("before any decision: %v", s)
	}
	b.plan() // 20 in the queue, 10 a replica: stay
	s := b.standing(book)
	if targets(s) != "ns/Deployment/w=2" || s.GetValidUntilMs() <= s.GetAtMs() || len(s.GetOfferings()) != 0 {
		t.Fatalf("a hold: %v", s)
	}
	b.observe(2, 60)
	b.plan() // up, and on its way: it comes as a plan
	if got := targets(b.standing(book)); got != "ns/Deployment/w=2" {
		t.Fatalf("while an action is on its way: %s", got)
	}
	p := b.pending()
	if len(p.GetActions()) != 1 {
		t.Fatalf("pending %v", p)
	}
	b.tx(func(tx *store.Tx) error {
		_, err := store.ApplyResults(context.Background(), tx, b.cluster, []store.ActionResult{{Decision: fleet.DecisionID(p.GetActions()[0].GetActionId()), Outcome: "applied",
			Before: 2, After: int(p.GetActions()[0].GetTo()), Generation: int64(p.GetGeneration()), At: b.at}})
		return err
	})
	if s = b.standing(book); targets(s) != "ns/Deployment/w=6" || s.GetGeneration() != p.GetGeneration() {
		t.Fatalf("after it was carried out: %v", s)
	}
	b.tx(func(tx *store.Tx) error {
		_, err := store.SavePolicy(context.Background(), tx, store.PolicyVersion{Workload: b.workload, Document: replaceMode(queuePolicy, fleet.ModeEnforce) + "# again\n", Mode: fleet.ModeEnforce, CreatedBy: "test"}, 1)
		return err
	})
	if got := targets(b.standing(book)); got != "" {
		t.Errorf("decided under an older policy: %s", got)
	}
	for name, change := range map[string]string{
		"an agent that may only recommend": `UPDATE cluster SET agent_limits = '{"mode": "recommend"}' WHERE tenant_id = $1 AND id = $2`,
		"a cluster that is only observed":  `UPDATE cluster SET mode = 'observe' WHERE tenant_id = $1 AND id = $2`,
		"an agent that asks for nothing":   `UPDATE cluster SET capabilities = '{scale}' WHERE tenant_id = $1 AND id = $2`,
	} {
		if b.standing(book) == nil {
			t.Fatal("nothing holds before " + name)
		}
		b.change(change)
		if s := b.standing(book); s != nil {
			t.Errorf("%s: %v", name, s)
		}
		b.change(`UPDATE cluster SET agent_limits = '{}', mode = 'enforce', capabilities = '{keda}' WHERE tenant_id = $1 AND id = $2`)
	}
}

func TestAnExpanderIsToldPricesAndChances(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	book := market.Catalogue()
	b.can(store.CapabilityExpander)
	b.observe(2, 20)
	if s := b.standing(book); s == nil || len(s.GetOfferings()) != 0 {
		t.Fatalf("a cluster whose region is not known: %v", s)
	}
	b.change(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, phase, started_at)
		VALUES ($1, $2, 'u', 'n', 'aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'ready', $3)`, b.at)
	dry := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1b", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseOnDemand}
	b.tx(func(tx *store.Tx) error {
		if err := store.LockAvailability(context.Background(), tx); err != nil {
			return err
		}
		m, err := store.LoadAvailability(context.Background(), tx)
		if err != nil {
			return err
		}
		for i := range 4 {
			if err := m.Observe(availability.Event{At: b.at.Add(time.Duration(i-4) * time.Minute), Offering: dry, Kind: availability.KindExhausted}); err != nil {
				return err
			}
		}
		return store.SaveAvailability(context.Background(), tx, m)
	})
	begun := time.Now()
	s := b.standing(book)
	t.Logf("%d offerings in %s", len(s.GetOfferings()), time.Since(begun).Round(time.Millisecond))
	rows := map[string]*agentv1.OfferingPrice{}
	for _, o := range s.GetOfferings() {
		key := strings.Join([]string{o.GetRegion(), o.GetZone(), o.GetInstanceType(), o.GetPurchase()}, "/")
		if rows[key] != nil || o.GetHourNano() <= 0 || o.GetStockOut() < 0 || o.GetStockOut() > 1 || o.GetHazardPerHour() < 0 || o.GetHazardPerHour() > 1 || o.GetRegion() != "us-east-1" {
			t.Fatalf("%s: %v", key, o)
		}
		rows[key] = o
	}
	region, zone := rows["us-east-1//g5.xlarge/on_demand"], rows["us-east-1/us-east-1b/g5.xlarge/on_demand"]
	price := book.Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseOnDemand})
	if region == nil || zone == nil || price.Effective == nil || region.GetHourNano() != int64(*price.Effective) || zone.GetHourNano() != region.GetHourNano() {
		t.Fatalf("region %v, zone %v, price %v", region, zone, price.Effective)
	}
	if zone.GetStockOut() <= region.GetStockOut() {
		t.Errorf("the zone that was seen empty: %v, the region: %v", zone.GetStockOut(), region.GetStockOut())
	}
	if len(s.GetTargets()) != 0 {
		t.Errorf("targets %v that nobody asked for", s.GetTargets())
	}
}

// Spot prices are kept by the cloud's own zones; nodes and their groups go by the names of the tenant's account.
func TestAnExpanderIsToldSpotPricesByTheAccountsNamesOfZones(t *testing.T) {
	t.Parallel()
	b := newPlanBench(t, fleet.ModeEnforce)
	book := market.Catalogue()
	b.can(store.CapabilityExpander)
	b.observe(2, 20)
	b.change(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, phase, started_at)
		VALUES ($1, $2, 'u', 'n', 'aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'ready', $3)`, b.at)
	b.change(`INSERT INTO cloud_account (tenant_id, id, cloud, name, subject, external_id, regions, sealed, next_at, created_by, created_at, zones)
		VALUES ($1, $2, 'aws', 'a', 's', '', '{us-east-1}', '', now(), 'test', now(), '{"us-east-1a": "use1-az2"}')`)
	var rows []market.SpotRow
	for zone, price := range map[string]float64{"use1-az1": 0.4, "use1-az2": 0.3} {
		pool := market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: zone, InstanceType: "g5.xlarge", Product: market.ProductLinux}
		rows = append(rows, spotRow(pool, b.at.Add(-time.Hour), price, 1.006))
	}
	writeSpot(t, b.db, store.SpotWriteOptions{Source: "test", Prices: book}, rows...)
	got := map[string]int64{}
	for _, o := range b.standing(book).GetOfferings() {
		if o.GetInstanceType() == "g5.xlarge" && o.GetPurchase() == "spot" {
			got[o.GetZone()] = o.GetHourNano()
		}
	}
	if got["us-east-1a"] != 300_000_000 || got["use1-az1"] != 400_000_000 || got["use1-az2"] != 0 || got[""] <= 0 {
		t.Errorf("Spot prices by zone: %v", got)
	}
}
