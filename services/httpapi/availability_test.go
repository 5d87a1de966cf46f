package httpapi_test

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

type supply struct {
	Zone         string     `json:"zone"`
	InstanceType string     `json:"instance_type"`
	Now          float64    `json:"p_available_now"`
	Hour         float64    `json:"p_available_next_hour"`
	Survives     float64    `json:"p_survives_next_hour"`
	Seconds      float64    `json:"expected_seconds_to_capacity"`
	Backoff      *time.Time `json:"backoff_until"`
	PriorShare   float64    `json:"prior_share"`
	Evidence     struct {
		StockOuts float64 `json:"stock_outs"`
	} `json:"evidence"`
	Placement *httpapi.PlacementNote `json:"placement"`
}

func TestAvailability(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleViewer)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	d.exec("INSERT INTO cluster (tenant_id, id, name, mode, created_at, data_at) VALUES ($1, gen_random_uuid(), 'a', 'observe', now(), $2)", string(d.tenant.ID), now)
	good := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseSpot}
	dry := good
	dry.Zone = "us-east-1b"
	var cluster string
	if err := d.owner.QueryRow(context.Background(), "SELECT id::text FROM cluster WHERE tenant_id = $1", string(d.tenant.ID)).Scan(&cluster); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	err := d.db.Tenant(ctx, d.tenant.ID, func(tx *store.Tx) error {
		if err := store.LockAvailability(ctx, tx); err != nil {
			return err
		}
		seen := []store.Sighting{
			{Source: "1", Event: availability.Event{At: now.Add(-time.Minute), Offering: good, Kind: availability.KindHad}},
			{Source: "2", Event: availability.Event{At: now.Add(-time.Minute), Offering: dry, Kind: availability.KindExhausted}},
		}
		fresh, err := store.AddSightings(ctx, tx, fleet.ClusterID(cluster), append(seen, seen...))
		if err != nil {
			return err
		}
		if len(fresh) != 2 {
			t.Errorf("%d sightings are new, want 2", len(fresh))
		}
		m, err := store.LoadAvailability(ctx, tx)
		if err != nil {
			return err
		}
		for _, s := range fresh {
			if err := m.Observe(s.Event); err != nil {
				return err
			}
		}
		return store.SaveAvailability(ctx, tx, m)
	})
	if err != nil {
		t.Fatal(err)
	}

	var list struct {
		DataNow time.Time `json:"data_now"`
		Total   int       `json:"total"`
		Items   []supply  `json:"items"`
	}
	d.with(key, "GET", "/api/v1/availability?instance_type=g5.xlarge", nil).want(t, 200).into(t, &list)
	if list.Total != 2 || !list.DataNow.Equal(now) {
		t.Fatalf("list: %+v", list)
	}
	a, b := list.Items[0], list.Items[1]
	if a.Zone != "us-east-1a" || !(a.Now > 0.8 && b.Now < 0.2 && a.Seconds < b.Seconds) || a.Backoff != nil || b.Backoff == nil || b.Evidence.StockOuts < 0.9 {
		t.Errorf("had %+v, stock-out %+v", a, b)
	}
	if !b.Backoff.Equal(now.Add(time.Minute)) {
		t.Errorf("back-off until %v", b.Backoff)
	}
	// The cloud's own score is kept under its id of the zone, and found by the account's name.
	d.exec(`INSERT INTO cloud_account (tenant_id, id, cloud, name, subject, external_id, regions, sealed, zones, next_at, created_by, created_at)
VALUES ($1, gen_random_uuid(), 'aws', 'a', 's', 'x', '{us-east-1}', '\\x00', '{"us-east-1b": "use1-az4"}', now(), 'test', now())`, string(d.tenant.ID))
	if err := d.db.Tenant(ctx, d.tenant.ID, func(tx *store.Tx) error {
		return store.SavePlacementScores(ctx, tx, []store.PlacementScore{{Cloud: fleet.CloudAWS, Region: "us-east-1", ZoneID: "use1-az4", InstanceType: "g5.xlarge", Machines: 2, Score: 3}})
	}); err != nil {
		t.Fatal(err)
	}
	d.with(key, "GET", "/api/v1/availability?instance_type=g5.xlarge", nil).want(t, 200).into(t, &list)
	if a, b := list.Items[0], list.Items[1]; a.Placement != nil || b.Placement == nil || b.Placement.Score != 3 || b.Placement.Machines != 2 {
		t.Errorf("placement scores: %+v, %+v", a.Placement, b.Placement)
	}
	for name, path := range map[string]string{"another region": "?region=eu-west-1", "another type": "?instance_type=p5.48xlarge", "on demand": "?purchase=on_demand"} {
		d.with(key, "GET", "/api/v1/availability"+path, nil).want(t, 200).into(t, &list)
		if list.Total != 0 || len(list.Items) != 0 {
			t.Errorf("%s: %+v", name, list)
		}
	}
	d.with(key, "GET", "/api/v1/availability?cloud=aws&region=eu-west-1&zone=eu-west-1a&instance_type=p5.48xlarge&purchase=spot", nil).want(t, 200).into(t, &list)
	if list.Total != 1 || list.Items[0].PriorShare != 1 {
		t.Errorf("an offering that nobody tried: %+v", list)
	}

	var history struct {
		Items []struct {
			At        time.Time `json:"at"`
			Had       int       `json:"had"`
			StockOuts int       `json:"stock_outs"`
		} `json:"items"`
	}
	d.with(key, "GET", "/api/v1/availability/history?cloud=aws&region=us-east-1&zone=us-east-1b&instance_type=g5.xlarge", nil).want(t, 200).into(t, &history)
	if len(history.Items) != 1 || history.Items[0].StockOuts != 1 || history.Items[0].Had != 0 || !history.Items[0].At.Equal(now.Add(-time.Hour)) {
		t.Errorf("history: %+v", history)
	}

	var ladder struct {
		Seconds float64  `json:"expected_seconds_to_capacity"`
		Hour    float64  `json:"p_within_hour"`
		Rungs   []supply `json:"rungs"`
	}
	d.with(key, "GET", "/api/v1/availability/ladder?rung=aws/us-east-1/us-east-1b/g5.xlarge/spot&rung=aws/us-east-1/us-east-1a/g5.xlarge/on-demand", nil).want(t, 200).into(t, &ladder)
	if len(ladder.Rungs) != 2 || ladder.Seconds <= 0 || ladder.Seconds > 600 || ladder.Hour < 0.9 {
		t.Errorf("ladder: %+v", ladder)
	}

	for _, path := range map[string]string{"no rung": "/ladder", "half a rung": "/ladder?rung=aws/us-east-1", "unknown purchase": "/ladder?rung=aws/r/z/t/maybe",
		"unknown cloud": "?cloud=moon", "history without a zone": "/history?cloud=aws&region=us-east-1&instance_type=m5.large",
		"too many steps": "/history?cloud=aws&region=r&zone=z&instance_type=t&step_seconds=60&from=2020-01-01T00:00:00Z"} {
		d.with(key, "GET", "/api/v1/availability"+path, nil).want(t, 422).problem(t)
	}
	d.call("GET", "/api/v1/availability", nil).want(t, 401)
	other, _ := d.newTenant("Elsewhere", "owner@elsewhere.test")
	d.with(d.key(other.ID, auth.RoleViewer), "GET", "/api/v1/availability", nil).want(t, 200).into(t, &list)
	if list.Total != 0 {
		t.Errorf("another tenant sees %+v", list)
	}
}
