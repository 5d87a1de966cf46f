package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// SpotWriter puts prices into the history: what is new is kept, what was known changes nothing, what the guard does not believe
// is quarantined. Everything happens in the transaction it was made in; one writer works at a time.
type SpotWriter struct {
	tx      *Tx
	opt     SpotWriteOptions
	pools   map[market.SpotPool]*pendingPool
	current *pendingPool // the pool of the row before
	waiting int
	result  SpotWritten
}

// SpotWriteOptions say where prices come from.
type SpotWriteOptions struct {
	Source string            // kept with the prices
	Trust  bool              // see market.Guard
	Prices *market.PriceBook // whose on-demand prices the guard compares with; nil: none
}

// SpotWritten counts what became of rows.
type SpotWritten struct {
	Rows        int
	Added       int // changes that were not known
	Unchanged   int // rows that said what was known
	Quarantined int // rows that the guard kept out
	Doubts      int // of these, not known before
	NewPools    int
	Chunks      int // written
}

// pendingPool is a row of the dictionary with what waits to be written.
type pendingPool struct {
	id         int32 // 0: new
	state      market.SpotState
	guardSince *time.Time
	fresh      []market.SpotChange
	doubted    []market.SpotRow // rows that can be no prices
	heard      int64            // newest time of a row, Unix seconds
}

const (
	// spotWriterLock lets one writer work at a time: any constant that nothing else here uses.
	spotWriterLock = 7_041_776_002
	// Rows that wait at most before they are written, 40 bytes each. Files that are sorted by pool never need more than one round.
	maxSpotWaiting = 2_000_000
	// How far before a new change the stored history is read: the guard's level comes from there.
	spotGuardMonths = 3
	spotBlock       = 500 // pools at a time
)

// NewSpotWriter waits for its turn and reads the dictionary of pools.
func NewSpotWriter(ctx context.Context, tx *Tx, opt SpotWriteOptions) (*SpotWriter, error) {
	if opt.Source == "" || len(opt.Source) > 200 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "name the source in at most 200 bytes")
	}
	w := &SpotWriter{tx: tx, opt: opt, pools: map[market.SpotPool]*pendingPool{}}
	if _, err := tx.pgx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(spotWriterLock)); err != nil {
		return nil, fmt.Errorf("wait to write Spot prices: %w", err)
	}
	rows, err := tx.pgx.Query(ctx, `SELECT `+spotPoolColumns+`, p.guard_since FROM spot_pool p`)
	if err != nil {
		return nil, fmt.Errorf("load Spot pools: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		p := &pendingPool{}
		if err := rows.Scan(append(spotFields(&p.id, &p.state), &p.guardSince)...); err != nil {
			return nil, fmt.Errorf("load Spot pools: %w", err)
		}
		w.pools[p.state.Pool] = p
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load Spot pools: %w", err)
	}
	return w, nil
}

// maxSpotAhead is how far in the future a price may begin: clocks differ, but a year that is wrong is an error.
const maxSpotAhead = 24 * time.Hour

// Add takes one row. Rows may come in any order; those of one pool side by side are fastest.
func (w *SpotWriter) Add(ctx context.Context, r market.SpotRow) error {
	if r.Change.At > w.tx.Now.Add(maxSpotAhead).Unix() {
		return fleet.Errorf(fleet.CodeInvalid, "%s is in the future", r.Change.Time().Format(time.RFC3339))
	}
	p := w.current
	if p == nil || p.state.Pool != r.Pool {
		if p = w.pools[r.Pool]; p == nil {
			p = &pendingPool{state: market.SpotState{Pool: r.Pool}}
			w.pools[r.Pool] = p
		}
		w.current = p
	}
	w.result.Rows++
	w.waiting++
	if r.Reason != "" {
		p.doubted = append(p.doubted, r)
	} else {
		p.fresh = append(p.fresh, r.Change)
		p.heard = max(p.heard, r.Change.At)
	}
	if w.waiting >= maxSpotWaiting {
		return w.flush(ctx)
	}
	return nil
}

// Close writes what waits and says what became of all rows. The transaction is still to be committed.
func (w *SpotWriter) Close(ctx context.Context) (SpotWritten, error) {
	err := w.flush(ctx)
	return w.result, err
}

func (w *SpotWriter) flush(ctx context.Context) error {
	var due []*pendingPool
	for _, p := range w.pools {
		if len(p.fresh)+len(p.doubted) > 0 {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b *pendingPool) int { return a.state.Pool.Compare(b.state.Pool) })
	for block := range slices.Chunk(due, spotBlock) {
		if err := w.write(ctx, block); err != nil {
			return err
		}
	}
	w.waiting = 0
	return nil
}

// write joins the waiting changes of some pools with what is stored.
func (w *SpotWriter) write(ctx context.Context, pools []*pendingPool) error {
	stored, err := w.stored(ctx, pools)
	if err != nil {
		return err
	}
	joined := make([]market.Joined, len(pools))
	for i, p := range pools {
		guard := market.Guard{Trust: w.opt.Trust, Catalogue: w.listPrice(p.state.Pool)}
		if p.guardSince != nil {
			guard.Since = p.guardSince.Unix()
		}
		joined[i] = guard.Join(stored[p.id], p.fresh)
		w.result.Added += joined[i].Added
		w.result.Unchanged += joined[i].Unchanged
	}
	if err := w.savePools(ctx, pools, stored, joined); err != nil {
		return err
	}
	var batch pgx.Batch
	for i, p := range pools {
		for _, r := range p.doubted {
			w.quarantine(&batch, p.state.Pool, r.Change.At, r.SpotText, r.OnDemandText, market.Suspect{Reason: r.Reason})
		}
		for _, s := range joined[i].Suspects {
			w.quarantine(&batch, p.state.Pool, s.Change.At, listedText(s.Change.Spot), listedText(s.Change.OnDemand), s)
		}
		if err := w.saveChunks(&batch, p.id, stored[p.id], joined[i].Changes); err != nil {
			return fmt.Errorf("pack Spot prices of %s %s %s: %w", p.state.Pool.InstanceType, p.state.Pool.Region, p.state.Pool.Zone, err)
		}
		p.fresh, p.doubted = nil, nil
	}
	if err := w.tx.pgx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("save Spot prices: %w", err)
	}
	return nil
}

// listPrice is what the catalogue lists on demand.
func (w *SpotWriter) listPrice(p market.SpotPool) market.Listed {
	if w.opt.Prices == nil || p.Product != market.ProductLinux {
		return 0
	}
	return market.ListedOf(w.opt.Prices.Price(fleet.Offering{Cloud: p.Cloud, Region: p.Region, InstanceType: p.InstanceType, Purchase: fleet.PurchaseOnDemand}).List)
}

// stored reads the changes of pools, from so far before their first new one as the guard looks back.
func (w *SpotWriter) stored(ctx context.Context, pools []*pendingPool) (map[int32][]market.SpotChange, error) {
	var ids []int32
	first := w.tx.Now.Unix()
	for _, p := range pools {
		if p.id == 0 {
			continue
		}
		ids = append(ids, p.id)
		for _, c := range p.fresh {
			first = min(first, c.At)
		}
	}
	out := make(map[int32][]market.SpotChange, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := w.tx.pgx.Query(ctx, `
SELECT c.pool_id, c.month, c.body FROM spot_chunk c WHERE c.pool_id = ANY($1) AND c.month >= coalesce(
  (SELECT max(b.month) FROM spot_chunk b WHERE b.pool_id = c.pool_id AND b.month < $2), $2) ORDER BY c.pool_id, c.month`,
		ids, monthOf(first).AddDate(0, -spotGuardMonths, 0))
	if err != nil {
		return nil, fmt.Errorf("load Spot history: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int32
		var month time.Time
		var body []byte
		if err := rows.Scan(&id, &month, &body); err != nil {
			return nil, fmt.Errorf("load Spot history: %w", err)
		}
		if out[id], err = unpackSpot(month.UTC(), body, out[id]); err != nil {
			return nil, fmt.Errorf("load Spot prices of pool %d in %s: %w", id, month.Format("2006-01"), err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load Spot history: %w", err)
	}
	return out, nil
}

// savePools brings the dictionary up to date: new pools get their id, known ones their newest state.
func (w *SpotWriter) savePools(ctx context.Context, pools []*pendingPool, stored map[int32][]market.SpotChange, joined []market.Joined) error {
	var batch pgx.Batch
	for i, p := range pools {
		if len(joined[i].Changes) == 0 {
			continue
		}
		newest, delta := joined[i].Changes[len(joined[i].Changes)-1], len(joined[i].Changes)-len(stored[p.id])
		heard := time.Unix(p.heard, 0).UTC()
		moved := p.id == 0 || newest != p.state.Change || delta != 0
		if !moved && !heard.After(p.state.SeenAt) {
			continue
		}
		if heard.After(p.state.SeenAt) {
			p.state.SeenAt, p.state.Source = heard, w.opt.Source
		}
		p.state.Change = newest
		args := []any{newest.Time(), newest.Spot.Money(), newest.OnDemand.Money(), p.state.SeenAt, p.state.Source, delta}
		if p.id != 0 {
			batch.Queue(`UPDATE spot_pool SET at = $2, spot_nano = $3, on_demand_nano = $4, seen_at = $5, source = $6, changes = changes + $7 WHERE id = $1`,
				append([]any{p.id}, args...)...)
			continue
		}
		k := p.state.Pool
		w.result.NewPools++
		batch.Queue(`INSERT INTO spot_pool (cloud, region, zone, instance_type, product, at, spot_nano, on_demand_nano, seen_at, source, changes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id`, append([]any{k.Cloud, k.Region, k.Zone, k.InstanceType, k.Product}, args...)...).
			QueryRow(func(row pgx.Row) error { return row.Scan(&p.id) })
	}
	if err := w.tx.pgx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("save Spot pools: %w", err)
	}
	return nil
}

// saveChunks writes the months that differ.
func (w *SpotWriter) saveChunks(batch *pgx.Batch, pool int32, old, now []market.SpotChange) error {
	for len(old) > 0 || len(now) > 0 {
		var month time.Time
		if len(old) == 0 || len(now) > 0 && now[0].At < old[0].At {
			month = monthOf(now[0].At)
		} else {
			month = monthOf(old[0].At)
		}
		end := month.AddDate(0, 1, 0).Unix()
		was, is := before(old, end), before(now, end)
		old, now = old[len(was):], now[len(is):]
		switch {
		case slices.Equal(was, is):
			continue
		case len(is) == 0:
			batch.Queue(`DELETE FROM spot_chunk WHERE pool_id = $1 AND month = $2`, pool, month)
		default:
			body, err := packSpot(month, is)
			if err != nil {
				return err
			}
			batch.Queue(`INSERT INTO spot_chunk (pool_id, month, body) VALUES ($1, $2, $3) ON CONFLICT (pool_id, month) DO UPDATE SET body = excluded.body`, pool, month, body)
		}
		w.result.Chunks++
	}
	return nil
}

// before is the part of sorted changes before a moment.
func before(changes []market.SpotChange, end int64) []market.SpotChange {
	n := 0
	for n < len(changes) && changes[n].At < end {
		n++
	}
	return changes[:n]
}

// quarantine keeps a price that is not believed; the same one is kept once.
func (w *SpotWriter) quarantine(batch *pgx.Batch, p market.SpotPool, at int64, spot, onDemand string, s market.Suspect) {
	w.result.Quarantined++
	batch.Queue(`INSERT INTO spot_quarantine (cloud, region, zone, instance_type, product, at, spot, on_demand, expected_nano, reason, source, found_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT ON CONSTRAINT spot_quarantine_key DO NOTHING`,
		p.Cloud, p.Region, p.Zone, p.InstanceType, p.Product, time.Unix(at, 0).UTC(), spot, onDemand, s.Expected.Money(), s.Reason, w.opt.Source, w.tx.Now).
		Exec(func(tag pgconn.CommandTag) error {
			w.result.Doubts += int(tag.RowsAffected())
			return nil
		})
}

func listedText(l market.Listed) string {
	if m := l.Money(); m != nil {
		return m.String()
	}
	return ""
}
