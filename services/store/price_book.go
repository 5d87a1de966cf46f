package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"plimsoll.dev/services/market"
)

// PriceBook keeps a book of prices that knows what was read from the clouds, on top of the snapshot in the binary. Safe for concurrent use.
type PriceBook struct {
	db      *DB
	base    *market.PriceBook
	current atomic.Pointer[market.PriceBook]
	version time.Time // of the newest list in current; only Reload touches it
}

// NewPriceBook begins with the snapshot alone.
func NewPriceBook(db *DB, base *market.PriceBook) *PriceBook {
	p := &PriceBook{db: db, base: base}
	p.current.Store(base)
	return p
}

// Book gives the newest book. It never changes: whoever works with one keeps it to the end.
func (p *PriceBook) Book() *market.PriceBook { return p.current.Load() }

// Reload looks whether a list was read since, and takes it in. One at a time.
func (p *PriceBook) Reload(ctx context.Context) error {
	return p.db.Global(ctx, func(tx *Tx) error {
		var newest *time.Time
		if err := tx.pgx.QueryRow(ctx, `SELECT max(refreshed_at) FROM price_source WHERE kind = 'on_demand'`).Scan(&newest); err != nil {
			return fmt.Errorf("look for new prices: %w", err)
		}
		if newest == nil || newest.Equal(p.version) {
			return nil
		}
		types, prices, err := loadFresh(ctx, tx)
		if err != nil {
			return err
		}
		p.current.Store(p.base.With(types, prices))
		p.version = *newest
		return nil
	})
}

// reloadEvery is how long a process may speak of older prices than another one.
const reloadEvery = time.Minute

// Run reloads until ctx ends; failed is told of what goes wrong, and the book stays as it was.
func (p *PriceBook) Run(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, reloadEvery)
		if err := p.Reload(once); err != nil && ctx.Err() == nil {
			failed(err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
