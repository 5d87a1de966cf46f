package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
)

// Restatement is an order to let a bill's prices stand in the ledger.
type Restatement struct {
	ID            string
	From, To      time.Time
	Machines      int
	Hours         int         // of machines
	Before, After fleet.Money // of these hours
	Bills         []string
	CreatedBy     string
	CreatedAt     time.Time
	UndoneBy      string
	UndoneAt      *time.Time
	// Waiting hours of clusters are to be costed again; the ledger shows the old version until then.
	Waiting int
}

// RestateFloor is how old an hour may be and still be costed again: of older ones, pods are forgotten.
const RestateFloor = 60 * 24 * time.Hour

// Restate lets what bills have for machines stand for the estimates of their closed hours in [from, to), whole days. Only pairs of which every
// machine and day is closed count; what has no pair stays as it is. The hours are costed again by the next tick, as new versions.
func Restate(ctx context.Context, tx *Tx, from, to time.Time, by string) (Restatement, error) {
	r := Restatement{ID: uuid.NewString(), From: from, To: to, CreatedBy: by, CreatedAt: tx.Now}
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bills ' || $1::text, 0))`, string(tx.Tenant)); err != nil {
		return r, fmt.Errorf("wait to restate: %w", err)
	}
	if err := restatable(ctx, tx, from, to); err != nil {
		return r, err
	}
	rows, err := BillRows(ctx, tx, from, to)
	if err != nil {
		return r, err
	}
	estimates, err := LoadBillEstimates(ctx, tx, from, to, true)
	if err != nil {
		return r, err
	}
	lives, err := nodeLives(ctx, tx, from, to)
	if err != nil {
		return r, err
	}
	type dayKey struct {
		day           time.Time
		cluster, node string
	}
	hours := map[dayKey][]billing.HourCost{}
	for _, h := range estimates.Hours {
		if h.Millis = lives[lifeKey{h.Cluster, h.Node}].millis(h.Hour); h.Millis > 0 {
			k := dayKey{h.Hour.Truncate(24 * time.Hour), h.Cluster, h.Node}
			hours[k] = append(hours[k], h)
		}
	}
	machines := map[string]bool{}
	var prices []billing.HourPrice
	for _, p := range billing.Reconcile(rows, estimates.Machines, estimates.Unused).Pairs {
		if p.Level == billing.LevelCommitment || p.Gap().Sign() == 0 {
			continue
		}
		var mine []billing.HourCost
		for _, n := range p.Nodes {
			mine = append(mine, hours[dayKey{p.Day, n.Cluster, n.UID}]...)
		}
		of, ok := billing.Restate(p.Bill, mine)
		if !ok {
			continue
		}
		for _, h := range mine {
			r.Before = r.Before.Add(h.Cost)
			machines[h.Cluster+"/"+h.Node] = true
		}
		prices = append(prices, of...)
	}
	if len(prices) == 0 {
		return r, fleet.Errorf(fleet.CodeConflict, "nothing to restate: no bill of these days has another amount for a machine of the ledger")
	}
	for _, p := range prices {
		r.After = r.After.Add(p.Cost)
	}
	r.Hours, r.Machines = len(prices), len(machines)
	return r, saveRestatement(ctx, tx, &r, prices)
}

// restatable says whether the span is closed, young enough and not restated yet.
func restatable(ctx context.Context, tx *Tx, from, to time.Time) error {
	now, err := DataNow(ctx, tx)
	if err != nil {
		return err
	}
	if floor := now.Add(-RestateFloor).Truncate(24 * time.Hour).Add(24 * time.Hour); from.Before(floor) {
		return fleet.Errorf(fleet.CodeConflict, "hours before %s cannot be costed again: which pods they had is forgotten after 60 days; the gap stays visible", floor.Format(time.DateOnly))
	}
	var open, before int
	err = tx.pgx.QueryRow(ctx, `
SELECT (SELECT count(*)::int FROM cost_hour WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 AND state = 'open'),
  (SELECT count(*)::int FROM restatement WHERE tenant_id = $1 AND undone_at IS NULL AND from_at < $3 AND to_at > $2)`, tx.Tenant, from, to).Scan(&open, &before)
	switch {
	case err != nil:
		return fmt.Errorf("look at the span: %w", err)
	case open > 0:
		return fleet.Errorf(fleet.CodeConflict, "%d hours of clusters in the span are still open; restate whole days that are over", open)
	case before > 0:
		return fleet.Errorf(fleet.CodeConflict, "a part of the span is restated already; undo that first")
	}
	return nil
}

func saveRestatement(ctx context.Context, tx *Tx, r *Restatement, prices []billing.HourPrice) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT DISTINCT b.id::text FROM bill b JOIN bill_charge c ON c.tenant_id = b.tenant_id AND c.bill_id = b.id
WHERE b.tenant_id = $1 AND b.deleted_at IS NULL AND c.from_at >= $2 AND c.from_at < $3 AND c.kind = 'machine' ORDER BY 1`, tx.Tenant, r.From, r.To)
	if err != nil {
		return fmt.Errorf("load bills: %w", err)
	}
	if r.Bills, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return fmt.Errorf("load bills: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `INSERT INTO restatement (tenant_id, id, from_at, to_at, machines, hours, before_nano, after_nano, bills, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		tx.Tenant, r.ID, r.From, r.To, r.Machines, r.Hours, r.Before, r.After, r.Bills, r.CreatedBy, r.CreatedAt)
	if err != nil {
		return fmt.Errorf("save restatement: %w", err)
	}
	slices.SortFunc(prices, func(a, b billing.HourPrice) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), a.Hour.Compare(b.Hour), cmp.Compare(a.Node, b.Node))
	})
	for at := 0; at < len(prices); at += billInsertRows {
		part := prices[at:min(at+billInsertRows, len(prices))]
		values := make([][]any, len(part))
		for i, p := range part {
			values[i] = []any{string(tx.Tenant), p.Cluster, p.Node, p.Hour, r.ID, int64(p.Price), int64(p.Cost)}
		}
		batch := &pgx.Batch{}
		queueRows(batch, `INSERT INTO bill_price (tenant_id, cluster_id, node_uid, hour, restatement_id, hour_nano, amount_nano)`, "", values)
		if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("save prices of bills: %w", err)
		}
	}
	return touchRestated(ctx, tx, r)
}

// touchRestated has the hours costed again, and counts them.
func touchRestated(ctx context.Context, tx *Tx, r *Restatement) error {
	done, err := tx.pgx.Exec(ctx, `
INSERT INTO cost_touched (tenant_id, cluster_id, hour) SELECT DISTINCT tenant_id, cluster_id, hour FROM bill_price WHERE tenant_id = $1 AND restatement_id = $2 ON CONFLICT DO NOTHING`, tx.Tenant, r.ID)
	if err != nil {
		return fmt.Errorf("have hours costed again: %w", err)
	}
	r.Waiting = int(done.RowsAffected())
	return nil
}

// UndoRestatement lets the frozen prices count again.
func UndoRestatement(ctx context.Context, tx *Tx, id, by string) (Restatement, error) {
	all, err := restatements(ctx, tx, id)
	if err != nil {
		return Restatement{}, err
	}
	if len(all) == 0 {
		return Restatement{}, fleet.Errorf(fleet.CodeNotFound, "no such restatement")
	}
	r := all[0]
	if r.UndoneAt != nil {
		return r, nil
	}
	now, err := DataNow(ctx, tx)
	if err != nil {
		return r, err
	}
	if r.From.Before(now.Add(-RestateFloor)) {
		return r, fleet.Errorf(fleet.CodeConflict, "its hours are older than 60 days and cannot be costed again; versions from before it can be read with as_of")
	}
	if err := touchRestated(ctx, tx, &r); err != nil {
		return r, err
	}
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM bill_price WHERE tenant_id = $1 AND restatement_id = $2`, tx.Tenant, id); err != nil {
		return r, fmt.Errorf("forget prices of bills: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, `UPDATE restatement SET undone_at = $3, undone_by = $4 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id, tx.Now, by); err != nil {
		return r, fmt.Errorf("undo restatement: %w", err)
	}
	r.UndoneAt, r.UndoneBy = &tx.Now, by
	return r, nil
}

// Restatements lists all, the newest first.
func Restatements(ctx context.Context, tx *Tx) ([]Restatement, error) {
	return restatements(ctx, tx, "")
}

func restatements(ctx context.Context, tx *Tx, id string) ([]Restatement, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT r.id::text, r.from_at, r.to_at, r.machines, r.hours, r.before_nano, r.after_nano, r.bills::text[], r.created_by, r.created_at, coalesce(r.undone_by, ''), r.undone_at,
  (SELECT count(*)::int FROM cost_touched t WHERE t.tenant_id = r.tenant_id AND t.hour >= r.from_at AND t.hour < r.to_at)
FROM restatement r WHERE r.tenant_id = $1 AND ($2 = '' OR r.id = nullif($2, '')::uuid) ORDER BY r.created_at DESC, r.id LIMIT 500`, tx.Tenant, id)
	if err != nil {
		return nil, fmt.Errorf("load restatements: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Restatement, err error) {
		err = row.Scan(&r.ID, &r.From, &r.To, &r.Machines, &r.Hours, &r.Before, &r.After, &r.Bills, &r.CreatedBy, &r.CreatedAt, &r.UndoneBy, &r.UndoneAt, &r.Waiting)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("load restatements: %w", err)
	}
	return all, nil
}

type lifeKey struct{ cluster, node string }

// nodeLife is when a machine is billed: from its start to its end, at least as long as its cloud bills.
type nodeLife struct {
	from time.Time
	to   *time.Time
}

// millis of the hour that the ledger counts.
func (l nodeLife) millis(hour time.Time) int64 {
	if l.from.IsZero() {
		return 0
	}
	i := fleet.Interval{From: later(l.from, hour), To: hour.Add(time.Hour)}
	if l.to != nil && l.to.Before(i.To) {
		i.To = *l.to
	}
	if !i.From.Before(i.To) {
		return 0
	}
	return i.To.Sub(i.From).Milliseconds()
}

func nodeLives(ctx context.Context, tx *Tx, from, to time.Time) (map[lifeKey]nodeLife, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT cluster_id::text, uid, started_at, CASE WHEN cloud IN ('aws', 'gcp') AND ended_at >= started_at THEN greatest(ended_at, started_at + interval '1 minute') ELSE ended_at END
FROM node WHERE tenant_id = $1 AND started_at < $3 AND (ended_at IS NULL OR ended_at + interval '1 minute' > $2)`, tx.Tenant, from, to)
	if err != nil {
		return nil, fmt.Errorf("load lives of machines: %w", err)
	}
	lives := map[lifeKey]nodeLife{}
	var k lifeKey
	var l nodeLife
	_, err = pgx.ForEachRow(rows, []any{&k.cluster, &k.node, &l.from, &l.to}, func() error {
		v := nodeLife{from: l.from.UTC()}
		if l.to != nil {
			t := l.to.UTC()
			v.to = &t
		}
		lives[k] = v
		l.to = nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load lives of machines: %w", err)
	}
	return lives, nil
}
