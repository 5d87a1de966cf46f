package main

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// demoMarketPast is how much Spot history the demo makes up at its first start.
const demoMarketPast = 120 * 24 * time.Hour

// demoMarket keeps made-up Spot prices up to the demo's time while ctx lasts. A database that holds other prices gets none.
func demoMarket(ctx context.Context, svc *service, tenant fleet.TenantID, seed uint64) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := extendDemoMarket(ctx, svc.db, tenant, seed); err != nil && ctx.Err() == nil {
			svc.cfg.log.Warn("the demo's Spot prices stay as they are", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func extendDemoMarket(ctx context.Context, db *store.DB, tenant fleet.TenantID, seed uint64) error {
	var to time.Time
	err := db.Tenant(ctx, tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		// A demo's time may run ahead; prices of more than a day ahead are refused like any source's.
		to = now.UTC()
		if tx.Now.After(to) {
			to = tx.Now
		}
		if limit := tx.Now.Add(23 * time.Hour); to.After(limit) {
			to = limit
		}
		return err
	})
	if err != nil {
		return err
	}
	book := market.Catalogue()
	return db.Global(ctx, func(tx *store.Tx) error {
		stock, err := store.Spot(ctx, tx)
		if err != nil {
			return err
		}
		states, err := store.SpotStates(ctx, tx, store.SpotFilter{}, to)
		if err != nil {
			return err
		}
		seen := map[market.SpotPool]time.Time{}
		for _, s := range states {
			if s.Source == market.DemoSpotSource {
				seen[s.Pool] = s.SeenAt.Add(time.Second)
			}
		}
		if stock.Pools > 0 && len(seen) == 0 {
			return nil
		}
		w, err := store.NewSpotWriter(ctx, tx, store.SpotWriteOptions{Source: market.DemoSpotSource, Trust: true})
		if err != nil {
			return err
		}
		for _, p := range market.DemoSpotPools(book) {
			from, ok := seen[p]
			if !ok {
				from = to.Add(-demoMarketPast)
			}
			list := book.Price(fleet.Offering{Cloud: p.Cloud, Region: p.Region, InstanceType: p.InstanceType, Purchase: fleet.PurchaseOnDemand}).List
			for _, c := range market.DemoSpot(seed, p, *list, from, to) {
				if err := w.Add(ctx, market.SpotRow{Pool: p, Change: c}); err != nil {
					return fmt.Errorf("make up Spot prices: %w", err)
				}
			}
		}
		_, err = w.Close(ctx)
		return err
	})
}
