package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// What the clusters saw of Spot reaches the plan: where a launch was refused and nothing runs is left alone, where something runs is full, and an
// untried pool is asked for one machine before more follow.
func TestNewsOfSpotReachThePlan(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	now := time.Now().UTC().Truncate(time.Second)
	e.exec(`UPDATE cluster SET last_seen_at = now(), data_at = $3, mode = 'recommend' WHERE tenant_id = $1 AND id = $2`, e.tenant, e.cluster, now)
	for _, z := range []string{"a", "b", "c"} {
		e.machine("n"+z, "m5.xlarge", "us-east-1"+z, 4000, 16_000, now)
		e.replica("api-"+z, "n"+z, "ready", 3000, 2000, 0, now)
	}
	e.exec(`UPDATE node SET purchase = 'spot', started_at = $3 WHERE tenant_id = $1 AND cluster_id = $2 AND name = 'nb'`, e.tenant, e.cluster, now.Add(-24*time.Hour))
	spot := func(kind, zone string, age time.Duration) {
		e.exec(`INSERT INTO availability_event (tenant_id, source, cluster_id, at, cloud, region, zone, instance_type, purchase, kind, machines, of_machines)
VALUES ($1, $2, $3, $4, 'aws', 'us-east-1', $5, 'm5.xlarge', 'spot', $6, 1, 1)`, e.tenant, fmt.Sprint(kind, zone, age), e.cluster, now.Add(-age), "us-east-1"+zone, kind)
	}
	spot("exhausted", "a", time.Minute)
	spot("exhausted", "b", 2*time.Minute)
	if err := e.db.Global(context.Background(), func(tx *store.Tx) error {
		w, err := store.NewSpotWriter(context.Background(), tx, store.SpotWriteOptions{Source: "test", Trust: true})
		if err != nil {
			return err
		}
		for _, z := range []string{"a", "b", "c"} {
			pool := market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1" + z, InstanceType: "m5.xlarge", Product: market.ProductLinux}
			c := market.SpotChange{At: now.Add(-24 * time.Hour).Unix(), OnDemand: market.Listed(usd(t, "0.192")), Spot: market.Listed(usd(t, "0.07"))}
			if err := w.Add(context.Background(), market.SpotRow{Pool: pool, Change: c}); err != nil {
				return err
			}
		}
		_, err = w.Close(context.Background())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var in *capacity.Input
	e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		in, err = store.LoadCapacityInput(ctx, tx, market.Catalogue(), e.cluster)
		return err
	})
	seen := map[string]bool{}
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if c.Offering.Purchase != fleet.PurchaseSpot || c.Offering.InstanceType != "m5.xlarge" {
			continue
		}
		seen[c.Offering.Zone] = true
		ask := int64(-1)
		if c.Ask != nil {
			ask = *c.Ask
		}
		wait := time.Duration(0)
		if !c.BackoffUntil.IsZero() {
			wait = c.BackoffUntil.Sub(now).Round(time.Minute)
		}
		switch c.Offering.Zone {
		case "us-east-1a": // two machines on demand stand in for Spot: it is asked again after twenty minutes instead of four hours
			if wait != 19*time.Minute || c.HazardMilli != 30 {
				t.Errorf("%s is left alone for %v, hazard %d", c.Offering.Zone, wait, c.HazardMilli)
			}
		case "us-east-1b":
			if wait != 0 || ask != 0 {
				t.Errorf("%s has one and is full: wait %v, ask %d", c.Offering.Zone, wait, ask)
			}
		case "us-east-1c":
			if wait != 0 || ask != 1 || c.HazardMilli != 0 {
				t.Errorf("%s was never tried: wait %v, ask %d, hazard %d", c.Offering.Zone, wait, ask, c.HazardMilli)
			}
		}
	}
	if len(seen) != 3 {
		t.Fatalf("candidates of Spot in %v", seen)
	}
}
