package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// A price that was not believed is counted for the operators, told to who runs such machines on Spot, and only to them, until somebody
// decides on it.
func TestQuarantinedPricesAreTold(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, phase, started_at, cloud, region, zone, instance_type, purchase)
SELECT $1, $2, t, t, 'ready', now(), 'aws', 'us-east-1', 'us-east-1a', t, 'spot' FROM unnest('{p3.2xlarge,g5.xlarge}'::text[]) t`, e.tenant, e.cluster)
	e.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, phase, started_at, cloud, region, zone, instance_type, purchase)
VALUES ($1, $2, 'od', 'od', 'ready', now(), 'aws', 'us-east-1', 'us-east-1a', 'g4dn.xlarge', 'on_demand')`, e.tenant, e.cluster)
	ctx := context.Background()
	write := func(zone, machine string, spot, onDemand float64) {
		t.Helper()
		err := e.db.Global(ctx, func(tx *store.Tx) error {
			w, err := store.NewSpotWriter(ctx, tx, store.SpotWriteOptions{Source: "test", Prices: market.Catalogue()})
			if err != nil {
				return err
			}
			row := market.SpotRow{Pool: market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: zone, InstanceType: machine, Product: market.ProductLinux},
				Change: market.SpotChange{At: tx.Now.Add(-time.Hour).Unix(), Spot: market.Listed(spot * 1e9), OnDemand: market.Listed(onDemand * 1e9)}}
			if err := w.Add(ctx, row); err != nil {
				return err
			}
			_, err = w.Close(ctx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write("us-east-1a", "p3.2xlarge", 1.1, 36.08) // not 3.06
	write("us-east-1b", "g5.xlarge", 99, 1.006)   // a zone that the tenant does not run in
	write("us-east-1a", "g4dn.xlarge", 99, 0.526) // runs, but on demand
	write("us-east-1a", "g5.xlarge", 0.4, 1.006)  // believed

	w := &SpotAlerts{DB: e.db, Log: e.log, Open: newSpotGauge()}
	sweep := func() (open []store.Alert) {
		t.Helper()
		if err := w.Work(ctx, &river.Job[SpotAlertsArgs]{}); err != nil {
			t.Fatal(err)
		}
		e.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			open, err = store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Limit: 10})
			return err
		})
		return open
	}
	for range 2 { // once, however often it looks
		open := sweep()
		if len(open) != 1 || open[0].Kind != "price_quarantined" || open[0].Subject != "spot/aws/us-east-1a/p3.2xlarge" {
			t.Fatalf("%+v", open)
		}
	}
	if n := e.number(`SELECT count(*) FROM alert WHERE tenant_id = $1`, e.tenant); n != 1 {
		t.Errorf("%d alerts", n)
	}
	if got := testutil.ToFloat64(w.Open.WithLabelValues("off_on_demand")) + testutil.ToFloat64(w.Open.WithLabelValues("off_catalogue")); got != 3 {
		t.Errorf("the gauge says %v", got)
	}
	err := e.db.Global(ctx, func(tx *store.Tx) error {
		prices, err := store.QuarantinedPrices(ctx, tx, 10)
		for _, q := range prices {
			if err == nil {
				err = store.DecideQuarantined(ctx, tx, q.ID, false)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if open := sweep(); len(open) != 0 {
		t.Errorf("dismissed, but open: %+v", open)
	}
}
