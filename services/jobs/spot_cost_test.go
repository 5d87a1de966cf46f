package jobs

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// spot writes down Spot prices of m5.large in us-east-1a.
func (e *estate) spot(prices map[time.Duration]string) { e.t.Helper(); e.spotOf("m5.large", prices) }

func (e *estate) spotOf(machine string, prices map[time.Duration]string) {
	e.t.Helper()
	pool := market.SpotPool{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: machine, Product: market.ProductLinux}
	err := e.db.Global(context.Background(), func(tx *store.Tx) error {
		w, err := store.NewSpotWriter(context.Background(), tx, store.SpotWriteOptions{Source: "test", Trust: true})
		if err != nil {
			return err
		}
		for after, price := range prices {
			c := market.SpotChange{At: start.Add(after).Unix(), OnDemand: market.Listed(usd(e.t, "0.096"))}
			if price != "" {
				c.Spot = market.Listed(usd(e.t, price))
			}
			if err := w.Add(context.Background(), market.SpotRow{Pool: pool, Change: c}); err != nil {
				return err
			}
		}
		_, err = w.Close(context.Background())
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) zonedSpot(uid string, from time.Time) {
	e.t.Helper()
	e.node(uid, "m5.large", fleet.PurchaseSpot, from)
	e.exec(`UPDATE node SET zone = 'us-east-1a' WHERE tenant_id = $1 AND uid = $2`, e.tenant, uid)
}

// frozen is the newest price of a node's hour with its source, and when the price began.
func (e *estate) frozen(uid string, hour time.Time) (price fleet.Money, source string, asOf time.Time) {
	e.t.Helper()
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		var p *int64
		var at *time.Time
		err := tx.PGX().QueryRow(ctx, `SELECT effective_nano, source, as_of FROM node_price WHERE tenant_id = $1 AND node_uid = $2 AND hour = $3 ORDER BY version DESC LIMIT 1`,
			e.tenant, uid, hour).Scan(&p, &source, &at)
		if p == nil {
			price = -1
		} else {
			price = fleet.Money(*p)
		}
		if at != nil {
			asOf = at.UTC()
		}
		return err
	})
	return price, source, asOf
}

func TestASpotHourCostsTheMeanOfItsPricesAndStaysThatWay(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spot(map[time.Duration]string{-time.Hour: "0.03", 15 * time.Minute: "0.05", 90 * time.Minute: "0.04"})
	e.zonedSpot("whole", start)
	e.zonedSpot("late", start.Add(30*time.Minute)) // saw one price only
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	want := func(uid string, hour time.Duration, price string, since time.Duration) {
		t.Helper()
		got, source, asOf := e.frozen(uid, start.Add(hour))
		if got != usd(t, price) || source != "test" || !asOf.Equal(start.Add(since)) {
			t.Errorf("%s, hour %v: %s (%s, since %v), want %s", uid, hour, got, source, asOf, price)
		}
	}
	want("whole", 0, "0.045", 15*time.Minute) // a quarter at 0.03, the rest at 0.05
	want("late", 0, "0.05", 15*time.Minute)
	want("whole", time.Hour, "0.045", 90*time.Minute) // half and half of 0.05 and 0.04
	e.wantClosed("first hour", start, "", "0.07")     // half an hour of the second machine

	e.spot(map[time.Duration]string{20 * time.Minute: "0.09"}) // a source knew more
	e.zonedSpot("unseen", start)                               // reported late, so costed at what is known by now
	if err := e.closer.CatchUp(context.Background(), CloseHourArgs{Tenant: e.tenant, Cluster: e.cluster, Since: start}); err != nil {
		t.Fatal(err)
	}
	want("whole", 0, "0.045", 15*time.Minute)
	want("unseen", 0, "0.071666667", 20*time.Minute) // (15 x 0.03 + 5 x 0.05 + 40 x 0.09) / 60
	e.wantClosed("after the history was completed", start, "", "0.141666667")
}

func TestASpotHourWithoutHistoryHasThePriceBooks(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.zonedSpot("a", start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	listed := market.Catalogue().Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "m5.large", Purchase: fleet.PurchaseSpot})
	if got, source, _ := e.frozen("a", start); listed.Effective == nil || got != *listed.Effective || source != listed.Source {
		t.Errorf("%s (%s), want %v (%s)", got, source, listed.Effective, listed.Source)
	}
}

func TestASpotHourWithAnUnknownPartHasNoPrice(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.spot(map[time.Duration]string{-time.Hour: "0.03", 30 * time.Minute: ""}) // no Spot from then on
	e.zonedSpot("a", start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	if got, _, _ := e.frozen("a", start); got != -1 {
		t.Errorf("%s, want none", got)
	}
}

func TestASpotHourIsPricedAsSoonAsSomebodyKnows(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("a", "x9.large", fleet.PurchaseSpot, start)
	e.dataAt(start.Add(90 * time.Minute))
	e.catchUp()
	if got, _, _ := e.frozen("a", start); got != -1 {
		t.Errorf("%s, want none", got)
	}
	e.spotOf("x9.large", map[time.Duration]string{-time.Hour: "0.03", 30 * time.Minute: "0.05"})
	if err := e.closer.CatchUp(context.Background(), CloseHourArgs{Tenant: e.tenant, Cluster: e.cluster, Since: start}); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := e.frozen("a", start); got != usd(t, "0.04") {
		t.Errorf("%s, want 0.04 once it is known", got)
	}
}
