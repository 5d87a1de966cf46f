package store_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

var (
	spotDay  = time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC)
	spotZone = market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g5.xlarge", Product: market.ProductLinux}
)

func spotRow(p market.SpotPool, at time.Time, spot, onDemand float64) market.SpotRow {
	return market.SpotRow{Pool: p, Change: market.SpotChange{At: at.Unix(), Spot: market.Listed(spot * 1e9), OnDemand: market.Listed(onDemand * 1e9)}}
}

func global(t *testing.T, db *store.DB, fn func(context.Context, *store.Tx) error) {
	t.Helper()
	ctx := context.Background()
	if err := db.Global(ctx, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

func writeSpot(t *testing.T, db *store.DB, opt store.SpotWriteOptions, rows ...market.SpotRow) (out store.SpotWritten) {
	t.Helper()
	global(t, db, func(ctx context.Context, tx *store.Tx) error {
		w, err := store.NewSpotWriter(ctx, tx, opt)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := w.Add(ctx, r); err != nil {
				return err
			}
		}
		out, err = w.Close(ctx)
		return err
	})
	return out
}

// priceAt is the Spot price of a moment in nano-units, -1 when nothing is known; both ways of asking must agree.
func priceAt(t *testing.T, db *store.DB, p market.SpotPool, at time.Time) (price int64) {
	t.Helper()
	global(t, db, func(ctx context.Context, tx *store.Tx) error {
		one, ok, err := store.SpotPriceAt(ctx, tx, p, at)
		if err != nil {
			return err
		}
		many, err := store.SpotStates(ctx, tx, store.SpotFilter{Cloud: p.Cloud, Region: p.Region, Zone: p.Zone, InstanceTypes: []string{p.InstanceType}, Product: p.Product}, at)
		if err != nil {
			return err
		}
		if ok != (len(many) == 1) || ok && !reflect.DeepEqual(one, many[0]) {
			t.Errorf("at %v: alone %+v, among others %+v", at, one, many)
		}
		price = -1
		if ok {
			price = int64(one.Change.Spot)
		}
		return nil
	})
	return price
}

func TestSpotPriceAtAnyMoment(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	// A month in between has no change at all, and one begins with one at its first second.
	march, may := time.Date(2026, 3, 31, 23, 59, 59, 0, time.UTC), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	writeSpot(t, db, store.SpotWriteOptions{Source: "test"},
		spotRow(spotZone, march, 0.4, 1), spotRow(spotZone, spotDay, 0.5, 1), spotRow(spotZone, may, 0.3, 1), spotRow(spotZone, may.AddDate(0, 0, 9), 0, 1))
	for _, c := range []struct {
		name string
		at   time.Time
		want int64
	}{
		{"before anything was known", spotDay.Add(-time.Second), -1},
		{"at the first change", spotDay, 500_000_000},
		{"a month after it", spotDay.AddDate(0, 1, 0), 500_000_000},
		{"in the month of a change, before it", march.Add(-time.Second), 500_000_000},
		{"in the last second of a month", march, 400_000_000},
		{"in a month without changes", may.Add(-time.Second), 400_000_000},
		{"in the first second of a month", may, 300_000_000},
		{"after Spot was gone", may.AddDate(0, 0, 10), 0},
	} {
		if got := priceAt(t, db, spotZone, c.at); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	other := spotZone
	other.Zone = "us-east-1b"
	if got := priceAt(t, db, other, may); got != -1 {
		t.Errorf("of another zone: %d", got)
	}
	global(t, db, func(ctx context.Context, tx *store.Tx) error {
		series, err := store.SpotHistory(ctx, tx, store.SpotFilter{}, may.AddDate(0, 0, -5), may.AddDate(0, 0, 2))
		if err != nil || len(series) != 1 || len(series[0].Changes) != 2 || !series[0].Changes[0].Time().Equal(march) {
			t.Errorf("history over a month's end: %+v, %v", series, err)
		}
		markets, err := store.SpotMarkets(ctx, tx, fleet.CloudAWS)
		if err != nil || len(markets) != 1 || markets[0].Zones[0] != "us-east-1a" || !markets[0].SeenAt.Equal(may.AddDate(0, 0, 9)) {
			t.Errorf("markets: %+v, %v", markets, err)
		}
		return nil
	})
}

func TestWritingTheSameAgainChangesNothing(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	opt := store.SpotWriteOptions{Source: "test"}
	rows := []market.SpotRow{spotRow(spotZone, spotDay, 0.5, 1), spotRow(spotZone, spotDay.AddDate(0, 0, 1), 0.5, 1), spotRow(spotZone, spotDay.AddDate(0, 0, 30), 0.6, 1),
		{Pool: spotZone, Change: market.SpotChange{At: spotDay.Unix()}, Reason: market.SuspectNotPositive, SpotText: "-1"}}
	if w := writeSpot(t, db, opt, rows...); w != (store.SpotWritten{Rows: 4, Added: 2, Unchanged: 1, Quarantined: 1, Doubts: 1, NewPools: 1, Chunks: 2}) {
		t.Errorf("%+v", w)
	}
	before := spotRows(t, db)
	if w := writeSpot(t, db, opt, rows...); w != (store.SpotWritten{Rows: 4, Unchanged: 3, Quarantined: 1}) {
		t.Errorf("%+v", w)
	}
	if after := spotRows(t, db); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	// What lies between known changes is added, and the rest stays true.
	writeSpot(t, db, opt, spotRow(spotZone, spotDay.AddDate(0, 0, 15), 0.55, 1), spotRow(spotZone, spotDay.AddDate(0, 0, -100), 0.7, 1))
	for day, want := range map[int]int64{-101: -1, -100: 700_000_000, -1: 700_000_000, 0: 500_000_000, 14: 500_000_000, 15: 550_000_000, 29: 550_000_000, 30: 600_000_000, 99: 600_000_000} {
		if got := priceAt(t, db, spotZone, spotDay.AddDate(0, 0, day)); got != want {
			t.Errorf("day %d: %d, want %d", day, got, want)
		}
	}
}

// spotRows is everything that is kept, with the row versions: an update that changes nothing shows too.
func spotRows(t *testing.T, db *store.DB) (text string) {
	t.Helper()
	global(t, db, func(ctx context.Context, tx *store.Tx) error {
		return tx.PGX().QueryRow(ctx, `SELECT (SELECT string_agg(p::text || ctid || xmin, E'\n' ORDER BY id) FROM spot_pool p) || (SELECT string_agg(c::text || ctid || xmin, E'\n' ORDER BY pool_id, month) FROM spot_chunk c)
  || (SELECT string_agg(q::text || ctid || xmin, E'\n' ORDER BY id) FROM spot_quarantine q)`).Scan(&text)
	})
	return text
}

func TestAQuarantinedPriceIsNeverUsedUntilAPersonSaysSo(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	opt := store.SpotWriteOptions{Source: "test", Prices: market.Catalogue()}
	var rows []market.SpotRow
	for i := range 10 {
		rows = append(rows, spotRow(spotZone, spotDay.Add(time.Duration(i)*time.Hour), 0.4+float64(i)/100, 1.006))
	}
	writeSpot(t, db, opt, rows...)
	jump, after := spotDay.Add(20*time.Hour), spotDay.Add(21*time.Hour)
	w := writeSpot(t, db, opt, spotRow(spotZone, jump, 0.05, 1.006), spotRow(spotZone, after, 0.051, 1.006), spotRow(spotZone, spotDay, 0.41, 1.006))
	if w.Added != 0 || w.Doubts != 3 {
		t.Fatalf("%+v", w)
	}
	if got := priceAt(t, db, spotZone, after); got != 490_000_000 {
		t.Errorf("the price after is %d", got)
	}
	var prices []store.QuarantinedPrice
	list := func() {
		global(t, db, func(ctx context.Context, tx *store.Tx) (err error) {
			prices, err = store.QuarantinedPrices(ctx, tx, 10)
			return err
		})
	}
	list()
	byReason := map[market.SuspectReason][]store.QuarantinedPrice{}
	for _, q := range prices {
		byReason[q.Reason] = append(byReason[q.Reason], q)
	}
	if len(byReason[market.SuspectOffHistory]) != 2 || len(byReason[market.SuspectConflict]) != 1 {
		t.Fatalf("%+v", prices)
	}
	decide := func(id int64, accept bool) error {
		return db.Global(context.Background(), func(tx *store.Tx) error { return store.DecideQuarantined(context.Background(), tx, id, accept) })
	}
	if err := decide(byReason[market.SuspectConflict][0].ID, true); !hasCode(err, fleet.CodeConflict) {
		t.Errorf("a contradiction was accepted: %v", err)
	}
	if err := decide(byReason[market.SuspectConflict][0].ID, false); err != nil {
		t.Error(err)
	}
	for _, q := range byReason[market.SuspectOffHistory] {
		if q.At.Equal(jump) {
			if err := decide(q.ID, true); err != nil {
				t.Fatal(err)
			}
			if err := decide(q.ID, true); !hasCode(err, fleet.CodeConflict) {
				t.Errorf("decided twice: %v", err)
			}
		}
	}
	if got := priceAt(t, db, spotZone, after); got != 50_000_000 {
		t.Errorf("accepted, but the price is %d", got)
	}
	// The level is new: what follows it is believed, also when it comes again.
	if w := writeSpot(t, db, opt, spotRow(spotZone, after, 0.051, 1.006)); w.Added != 1 {
		t.Errorf("%+v", w)
	}
	if err := decide(999_999, false); !hasCode(err, fleet.CodeNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

func hasCode(err error, code fleet.Code) bool {
	var coded *fleet.Error
	return errors.As(err, &coded) && coded.Code == code
}

func TestWritingRefusesTheFuture(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	err := db.Global(ctx, func(tx *store.Tx) error {
		w, err := store.NewSpotWriter(ctx, tx, store.SpotWriteOptions{Source: "test"})
		if err != nil {
			return err
		}
		return w.Add(ctx, spotRow(spotZone, tx.Now.AddDate(1, 0, 0), 0.5, 1))
	})
	if !hasCode(err, fleet.CodeInvalid) {
		t.Errorf("%v", err)
	}
}

func TestOldMonthsGoAndThePriceAtTheEdgeStays(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	month := func(back int) time.Time { return spotDay.AddDate(0, -back, 0) }
	retired := spotZone
	retired.InstanceType = "p2.xlarge"
	azure := market.SpotPool{Cloud: fleet.CloudAzure, Region: "eastus", InstanceType: "Standard_NC6", Product: market.ProductLinux}
	writeSpot(t, db, store.SpotWriteOptions{Source: "test"},
		spotRow(spotZone, month(60), 0.9, 1), spotRow(spotZone, month(40), 0.8, 1), spotRow(spotZone, month(30), 0.7, 1), spotRow(spotZone, month(2), 0.6, 1), spotRow(spotZone, month(0), 0.5, 1),
		spotRow(retired, month(50), 0.4, 1), spotRow(retired, month(45), 0.3, 1),
		spotRow(azure, month(60), 0.4, 1), spotRow(azure, month(58), 0.35, 1)) // its cloud was not heard about later
	prune := func(years int) (gone int) {
		global(t, db, func(ctx context.Context, tx *store.Tx) (err error) {
			gone, _, err = store.PruneSpot(ctx, tx, years)
			return err
		})
		return gone
	}
	if gone := prune(0); gone != 0 {
		t.Fatalf("without a limit %d months went", gone)
	}
	if gone := prune(3); gone != 3 { // the oldest of the pool, and both of the retired one
		t.Errorf("%d months went, want 3", gone)
	}
	for _, c := range []struct {
		name string
		pool market.SpotPool
		at   time.Time
		want int64
	}{
		{"at the edge the month before it still answers", spotZone, month(36), 800_000_000},
		{"within what is kept", spotZone, month(3), 700_000_000},
		{"before what is kept", spotZone, month(59), -1},
		{"a pool nobody was heard about for longer is forgotten", retired, month(1), -1},
		{"another cloud's history is as old as its own end", azure, month(59), 400_000_000},
	} {
		if got := priceAt(t, db, c.pool, c.at); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	global(t, db, func(ctx context.Context, tx *store.Tx) error {
		stock, err := store.Spot(ctx, tx)
		if stock.Pools != 2 || stock.Changes != 6 {
			t.Errorf("%d pools, %d changes are kept, want 2 and 6", stock.Pools, stock.Changes)
		}
		return err
	})
	if gone := prune(3); gone != 0 {
		t.Errorf("the second time %d months went", gone)
	}
}
