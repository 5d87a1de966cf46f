package store_test

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// AWS names zones differently in every account, so prices that were read from it are kept under the zone's id. What a tenant runs goes by
// its own names: its accounts tell which is which, and only its own do.
func TestPricesUnderAZonesIDAreFoundByTheTenantsNameOfIt(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	first, _ := newTenant(t, db, "mine@harbour.test")
	second, _ := newTenant(t, db, "other@harbour.test")
	mine, other := first.ID, second.ID
	for _, tenant := range []fleet.TenantID{mine, other} {
		err := db.Tenant(ctx, tenant, func(tx *store.Tx) error {
			if _, err := tx.PGX().Exec(ctx, `INSERT INTO cluster (tenant_id, id, name, mode, created_at) VALUES ($1, gen_random_uuid(), 'c', 'observe', now())`, tenant); err != nil {
				return err
			}
			_, err := tx.PGX().Exec(ctx, `INSERT INTO node (tenant_id, cluster_id, uid, name, phase, started_at, cloud, region, zone, instance_type, purchase)
SELECT $1, id, 'n', 'n', 'ready', now(), 'aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'spot' FROM cluster WHERE tenant_id = $1`, tenant)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := db.Tenant(ctx, mine, func(tx *store.Tx) error {
		const id = "01890000-0000-7000-8000-000000000001"
		a := store.CloudAccount{ID: id, Cloud: fleet.CloudAWS, Name: "main", Regions: []string{"us-east-1"}, CreatedBy: "test"}
		if err := store.InsertCloudAccount(ctx, tx, a, []byte("sealed")); err != nil {
			return err
		}
		return store.CloudAccountRefreshed(ctx, tx, id, map[string]int{}, map[string]string{"us-east-1a": "use1-az6"}, tx.Now.Add(time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Global(ctx, func(tx *store.Tx) error {
		w, err := store.NewSpotWriter(ctx, tx, store.SpotWriteOptions{Source: "test"})
		if err != nil {
			return err
		}
		pool := market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "use1-az6", InstanceType: "g5.xlarge", Product: market.ProductLinux}
		for i, spot := range []market.Listed{400_000_000, 90_000_000_000} { // the second is not believed
			if err := w.Add(ctx, market.SpotRow{Pool: pool, Change: market.SpotChange{At: tx.Now.Add(time.Duration(i-3) * time.Hour).Unix(), Spot: spot, OnDemand: 1_000_000_000}}); err != nil {
				return err
			}
		}
		_, err = w.Close(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[fleet.TenantID]int{mine: 1, other: 0} {
		err := db.Tenant(ctx, tenant, func(tx *store.Tx) error {
			ratios, err := store.SpotRatios(ctx, tx)
			if err != nil {
				return err
			}
			doubts, err := store.QuarantinedInUse(ctx, tx, tx.Now.Add(-time.Hour), 10)
			if err != nil {
				return err
			}
			zones, err := store.ZoneIDs(ctx, tx)
			if len(ratios) != want || want == 1 && (ratios[0].Ratio != 0.4 || ratios[0].Offering.Zone != "us-east-1a") || len(doubts) != want || len(zones) != want {
				t.Errorf("%d ratios (%+v), %d doubts, %d zones; want %d of each", len(ratios), ratios, len(doubts), len(zones), want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
