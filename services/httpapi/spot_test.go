package httpapi_test

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

func TestSpotPrices(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	viewer := d.key(d.tenant.ID, auth.RoleViewer)
	ctx := context.Background()
	now := time.Now().UTC().Truncate(time.Second)
	ago := func(h int) int64 { return now.Add(-time.Duration(h) * time.Hour).Unix() }
	err := d.db.Global(ctx, func(tx *store.Tx) error {
		w, err := store.NewSpotWriter(ctx, tx, store.SpotWriteOptions{Source: "test", Prices: market.Catalogue()})
		if err != nil {
			return err
		}
		add := func(zone, machine string, at int64, spot, list float64) {
			p := market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: zone, InstanceType: machine, Product: market.ProductLinux}
			if err == nil {
				err = w.Add(ctx, market.SpotRow{Pool: p, Change: market.SpotChange{At: at, Spot: market.Listed(spot * 1e9), OnDemand: market.Listed(list * 1e9)}})
			}
		}
		add("us-east-1a", "g5.xlarge", ago(48), 0.40, 1.006)
		add("us-east-1a", "g5.xlarge", ago(12), 0.50, 1.006)
		add("us-east-1b", "g5.xlarge", ago(20), 0.30, 0)
		add("us-east-1c", "g5.xlarge", ago(20), 0, 1.006)
		add("us-east-1a", "g5.12xlarge", ago(20), 0.80, 5.672)
		add("us-east-1a", "g5.2xlarge", ago(20), 36.08, 1.212)
		if err != nil {
			return err
		}
		_, err = w.Close(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) answer { return d.with(viewer, "GET", "/api/v1/prices/spot"+path, nil) }

	var history httpapi.SpotHistory
	get("?region=us-east-1&instance_type=g5.xlarge&from="+now.Add(-24*time.Hour).Format(time.RFC3339)+"&to="+now.Format(time.RFC3339)+"&step=43200").want(t, 200).into(t, &history)
	if len(history.Series) != 3 || history.StepSeconds != 43200 || history.Machine == nil || history.Machine.GPUModel != "A10G" || history.CatalogueOnDemand == nil {
		t.Fatalf("%+v", history)
	}
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	for zone, want := range []string{"0.40 0.40 1.006 0.50 0.50 1.006", "0.30 0.30 1.006 0.30 0.30 1.006", "- - 1.006 - - 1.006"} {
		got, s := "", history.Series[zone]
		for _, p := range s.Points {
			got += " " + text(p.Avg) + " " + text(p.Last) + " " + text(p.OnDemand)
		}
		if got[1:] != want && zone < 2 {
			t.Errorf("%s: %s, want %s", s.Pool.Zone, got[1:], want)
		}
		if s.Newest.Stale {
			t.Errorf("%s is stale", s.Pool.Zone)
		}
	}
	if b := history.Series[2]; b.Newest.Price != nil {
		t.Errorf("no Spot in zone c, but %+v", b.Newest)
	}

	var cheapest struct{ Items []httpapi.SpotOffer }
	get("/cheapest?region=us-east-1&cloud=aws&gpu_model=A10G&limit=3").want(t, 200).into(t, &cheapest)
	order := ""
	for _, o := range cheapest.Items {
		order += o.Pool.InstanceType + " " + o.Pool.Zone + " " + o.PerGPU.Amount + "; "
	}
	if len(cheapest.Items) != 3 || order[:len("g5.12xlarge us-east-1a 0.20; g5.xlarge us-east-1b 0.30; ")] != "g5.12xlarge us-east-1a 0.20; g5.xlarge us-east-1b 0.30; " {
		t.Errorf("cheapest: %s", order)
	}
	cheapest.Items = nil
	get("/cheapest?region=us-east-1&gpu_model=A10G&instance_type=g5.xlarge&at="+now.Add(-30*time.Hour).Format(time.RFC3339)).want(t, 200).into(t, &cheapest)
	if len(cheapest.Items) != 1 || cheapest.Items[0].Quote.Price.Amount != "0.40" {
		t.Errorf("30 hours ago: %+v", cheapest.Items)
	}

	var stats struct {
		Total int
		Items []httpapi.SpotPoolStats
	}
	get("/stats?gpu_model=A10G").want(t, 200).into(t, &stats)
	if stats.Total != 4 || stats.Items[0].Pool.InstanceType != "g5.12xlarge" || stats.Items[0].PerGPU.Amount != "0.20" || stats.Items[3].Level != nil || stats.Items[1].Discount == nil {
		t.Errorf("stats: %+v", stats)
	}
	get("/stats?gpu_model=NOBODY-9000").want(t, 200).into(t, &stats)
	if len(stats.Items) != 0 {
		t.Errorf("an unknown GPU has %d pools", len(stats.Items))
	}

	var markets struct{ Items []httpapi.SpotMarket }
	get("/markets?cloud=aws").want(t, 200).into(t, &markets)
	if len(markets.Items) != 2 || markets.Items[1].InstanceType != "g5.xlarge" || len(markets.Items[1].Zones) != 3 {
		t.Errorf("markets: %+v", markets)
	}

	if m := markets.Items[1]; m.Stale || !m.SpotListed || !m.LastAt.Equal(time.Unix(ago(12), 0)) {
		t.Errorf("the newest change is %s, stale: %t", m.LastAt, m.Stale)
	}
	var data struct{ Items []httpapi.SpotCloudData }
	get("/data").want(t, 200).into(t, &data)
	if len(data.Items) != 1 || data.Items[0].Cloud != fleet.CloudAWS || !data.Items[0].FirstAt.Equal(time.Unix(ago(48), 0)) || !data.Items[0].LastAt.Equal(time.Unix(ago(12), 0)) ||
		data.Items[0].Pools != 4 || data.Items[0].Changes != 5 || data.Items[0].Stale {
		t.Errorf("the data reaches %+v", data.Items)
	}

	var quarantine struct{ Items []httpapi.QuarantinedPrice }
	get("/quarantine").want(t, 200).into(t, &quarantine)
	if len(quarantine.Items) != 1 || quarantine.Items[0].Spot != "36.08" || quarantine.Items[0].Reason != market.SuspectOffOnDemand || quarantine.Items[0].Expected.Amount != "1.212" {
		t.Errorf("quarantine: %+v", quarantine)
	}

	for name, path := range map[string]string{
		"a machine must be named":      "?region=us-east-1",
		"time runs forwards":           "?instance_type=g5.xlarge&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
		"not a million points":         "?instance_type=g5.xlarge&from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&step=60",
		"not a century":                "?instance_type=g5.xlarge&from=1926-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
		"statistics of twelve years":   "/stats?from=2014-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
		"a cloud that nobody knows":    "/cheapest?cloud=moon",
		"more than anybody can read":   "/cheapest?limit=100000",
		"a negative number of seconds": "?instance_type=g5.xlarge&step=-5",
	} {
		if got := get(path); got.status != 422 {
			t.Errorf("%s: status %d: %s", name, got.status, got.body)
		}
	}
	if got := d.call("GET", "/api/v1/prices/spot/cheapest", nil); got.status != 401 {
		t.Errorf("without signing in: %d", got.status)
	}
}
