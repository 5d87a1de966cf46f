package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
)

// Purchase is what was paid for a commitment in an hour that closed.
type Purchase struct {
	Commitment string
	Upfront    fleet.Money // paid in this hour, for the whole term
	Recurring  fleet.Money
	Bought     fleet.Money // amortised; what is used and unused of it in the hour adds up to this
	Millis     int64       // of the term within the hour
	Quantity   int64       // as the commitment's
	Team       string
	AsOf       time.Time // our clock, when the hour closed
}

// SavePurchases keeps what was paid in an hour. What is there already stays as it is.
func SavePurchases(ctx context.Context, tx *Tx, hour time.Time, all []Purchase) error {
	if len(all) == 0 {
		return nil
	}
	var id, team columns[string]
	var upfront, recurring, bought, ms, quantity columns[int64]
	for _, p := range all {
		id.add(p.Commitment)
		team.add(p.Team)
		upfront.add(int64(p.Upfront))
		recurring.add(int64(p.Recurring))
		bought.add(int64(p.Bought))
		ms.add(p.Millis)
		quantity.add(p.Quantity)
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO commitment_purchase (tenant_id, hour, as_of, commitment_id, upfront_nano, recurring_nano, bought_nano, millis, quantity, team)
SELECT $1::uuid, $2::timestamptz, $3::timestamptz, * FROM unnest($4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[]) ON CONFLICT DO NOTHING`,
		tx.Tenant, hour, tx.Now, []string(id), []int64(upfront), []int64(recurring), []int64(bought), []int64(ms), []int64(quantity), []string(team))
	if err != nil {
		return fmt.Errorf("save purchases: %w", err)
	}
	return nil
}

// Purchases lists what was paid in the hours in [from, to), by hour and commitment.
func Purchases(ctx context.Context, tx *Tx, from, to time.Time) (map[time.Time]map[string]Purchase, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT hour, commitment_id::text, upfront_nano, recurring_nano, bought_nano, millis, quantity, team, as_of FROM commitment_purchase
WHERE tenant_id = $1 AND hour >= $2 AND hour < $3`, tx.Tenant, from, to)
	if err != nil {
		return nil, fmt.Errorf("load purchases: %w", err)
	}
	out := map[time.Time]map[string]Purchase{}
	var hour time.Time
	var p Purchase
	_, err = pgx.ForEachRow(rows, []any{&hour, &p.Commitment, &p.Upfront, &p.Recurring, &p.Bought, &p.Millis, &p.Quantity, &p.Team, &p.AsOf}, func() error {
		hour = hour.UTC()
		if out[hour] == nil {
			out[hour] = map[string]Purchase{}
		}
		out[hour][p.Commitment] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load purchases: %w", err)
	}
	return out, nil
}

// Release is what of a claim a machine's hour does not cost any more.
type Release struct {
	Cluster    fleet.ClusterID
	Node       string
	Commitment string
	Resource   commitment.Resource
	Amount     fleet.Money
}

// Releases lists those of the hours in [from, to), by hour.
func Releases(ctx context.Context, tx *Tx, from, to time.Time) (map[time.Time][]Release, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT hour, cluster_id::text, node_uid, commitment_id::text, resource, amount_nano FROM commitment_release
WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 ORDER BY hour, cluster_id, node_uid, commitment_id, resource`, tx.Tenant, from, to)
	if err != nil {
		return nil, fmt.Errorf("load releases: %w", err)
	}
	out := map[time.Time][]Release{}
	var hour time.Time
	var r Release
	_, err = pgx.ForEachRow(rows, []any{&hour, &r.Cluster, &r.Node, &r.Commitment, &r.Resource, &r.Amount}, func() error {
		out[hour.UTC()] = append(out[hour.UTC()], r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load releases: %w", err)
	}
	return out, nil
}

// SaveReleases replaces those of a cluster's hour.
func SaveReleases(ctx context.Context, tx *Tx, cluster fleet.ClusterID, hour time.Time, all []Release) error {
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM commitment_release WHERE tenant_id = $1 AND hour = $2 AND cluster_id = $3`, tx.Tenant, hour, cluster); err != nil {
		return fmt.Errorf("forget releases: %w", err)
	}
	var node, id, resource columns[string]
	var amount columns[int64]
	for _, r := range all {
		node.add(r.Node)
		id.add(r.Commitment)
		resource.add(string(r.Resource))
		amount.add(int64(r.Amount))
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO commitment_release (tenant_id, hour, cluster_id, node_uid, commitment_id, resource, amount_nano)
SELECT $1::uuid, $2::timestamptz, $3::uuid, * FROM unnest($4::text[], $5::uuid[], $6::text[], $7::bigint[])`, tx.Tenant, hour, cluster, []string(node), []string(id), []string(resource), []int64(amount))
	if err != nil {
		return fmt.Errorf("save releases: %w", err)
	}
	return nil
}

// UnusedLines lists what the closed hours in [from, to) have as unused of commitments, by hour and commitment.
func UnusedLines(ctx context.Context, tx *Tx, from, to time.Time) (map[time.Time]map[string]ledger.CostLine, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT t.hour, t.credit, t.purchase, t.team, t.amount_nano, t.quantity FROM cost_transfer t JOIN cost_hour h USING (tenant_id, cluster_id, hour, version)
WHERE t.tenant_id = $1 AND t.cluster_id = $2 AND t.hour >= $3 AND t.hour < $4 AND t.kind = 'commitment_unused'`, tx.Tenant, NoCluster, from, to)
	if err != nil {
		return nil, fmt.Errorf("load unused commitments: %w", err)
	}
	out := map[time.Time]map[string]ledger.CostLine{}
	var hour time.Time
	var credit string
	l := ledger.CostLine{Row: ledger.Row{Kind: ledger.KindUnused, Resource: ledger.ResourceCommitment}}
	_, err = pgx.ForEachRow(rows, []any{&hour, &credit, &l.Purchase, &l.Owner.Team, &l.Amount, &l.Quantity}, func() error {
		hour = hour.UTC()
		if out[hour] == nil {
			out[hour] = map[string]ledger.CostLine{}
		}
		l.Node = strings.TrimPrefix(credit, "commitment/")
		out[hour][l.Node] = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load unused commitments: %w", err)
	}
	return out, nil
}

// purchases hands on what was paid for commitments in the closed hours of the span, by commitment and hour. Of hours that closed before payments were
// kept, those that used a commitment or left it unused have what it costs by its terms of today.
func (e FocusExport) purchases(ctx context.Context, tx *Tx, account focus.Account, bought map[string]focus.Commitment) error {
	terms, err := e.terms(ctx, tx)
	if err != nil {
		return err
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT c.id::text, c.starts_at, c.ends_at, h.hour, p.upfront_nano, p.recurring_nano, p.millis, p.quantity, p.team, p.as_of
FROM (
  SELECT commitment_id, hour FROM commitment_purchase WHERE tenant_id = $1 AND hour >= $2 AND hour < $3
  UNION SELECT commitment_id, hour FROM commitment_claim WHERE tenant_id = $1 AND hour >= $2 AND hour < $3
  UNION SELECT substr(t.credit, 12)::uuid, t.hour FROM cost_transfer t JOIN cost_hour v USING (tenant_id, cluster_id, hour, version)
  WHERE t.tenant_id = $1 AND t.cluster_id = $4 AND t.hour >= $2 AND t.hour < $3 AND t.kind = 'commitment_unused'
) h
JOIN commitment c ON c.tenant_id = $1 AND c.id = h.commitment_id
LEFT JOIN commitment_purchase p ON p.tenant_id = $1 AND p.hour = h.hour AND p.commitment_id = h.commitment_id
ORDER BY c.ref, c.id, h.hour`, tx.Tenant, e.From, e.To, NoCluster)
	if err != nil {
		return fmt.Errorf("load purchases: %w", err)
	}
	var l paidLine
	into := []any{&l.id, &l.from, &l.to, &l.hour, &l.upfront, &l.recurring, &l.millis, &l.quantity, &l.team, &l.asOf}
	_, err = pgx.ForEachRow(rows, into, func() error {
		c := terms[l.id]
		p, upfront := l.purchase(&c)
		p.Account, p.Commitment = account, commitmentOf(bought, l.id)
		if p.Amount > 0 && p.Millis > 0 {
			if err := e.Purchase(p); err != nil {
				return err
			}
		}
		if upfront > 0 && l.to != nil {
			p.Upfront, p.Amount, p.Millis = true, upfront, l.to.Sub(l.from).Milliseconds()
			return e.Purchase(p)
		}
		return nil
	})
	return err
}

// paidLine is a commitment's hour with what was kept of its payment; nil: nothing.
type paidLine struct {
	id                 string
	from               time.Time
	to                 *time.Time
	hour               time.Time
	upfront, recurring *fleet.Money
	millis, quantity   *int64
	team               *string
	asOf               *time.Time
}

// purchase is what was paid in the hour; c is what the commitment says today.
func (l *paidLine) purchase(c *Commitment) (p focus.Purchase, upfront fleet.Money) {
	p.Hour = l.hour.UTC()
	if l.recurring != nil {
		p.Team, p.AsOf, p.Millis, p.Quantity, p.Amount = *l.team, *l.asOf, *l.millis, *l.quantity, *l.recurring
		return p, *l.upfront
	}
	span := fleet.Interval{From: p.Hour, To: p.Hour.Add(time.Hour)}
	upfront, p.Amount = c.Paid(span)
	p.Team, p.AsOf, p.Millis, p.Quantity = c.Owner, c.ChangedAt, int64(c.Active(span)/time.Millisecond), c.Quantity
	return p, upfront
}

// terms are what commitments say today, by id, those that are deleted too.
func (e FocusExport) terms(ctx context.Context, tx *Tx) (map[string]Commitment, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+commitmentColumns+` FROM commitment WHERE tenant_id = $1 AND starts_at < $3 AND (ends_at IS NULL OR ends_at > $2)`, tx.Tenant, e.From, e.To)
	if err != nil {
		return nil, fmt.Errorf("load commitments: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanCommitment)
	if err != nil {
		return nil, fmt.Errorf("load commitments: %w", err)
	}
	out := make(map[string]Commitment, len(all))
	for _, c := range all {
		out[c.ID] = c
	}
	return out, nil
}
