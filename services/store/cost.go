package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

const noWorkload = "00000000-0000-0000-0000-000000000000"

// CostedHour is the costing of one hour, ready to be kept. Version 0 is an hour that is still open: it has rows, but no transfers and no
// frozen prices.
type CostedHour struct {
	Hour        time.Time
	Version     int
	ContentHash []byte
	Weights     map[fleet.Cloud]market.Weights // that split the prices
	Statement   ledger.Statement
	Prices      []NodePrice // by node uid
}

// NodePrice is the price of a node's hour. A nil price is unknown.
type NodePrice struct {
	Node       string       // uid
	List       *fleet.Money // on demand
	Contracted *fleet.Money // before commitments
	Effective  *fleet.Money
	Currency   string
	Source     string
	AsOf       time.Time // since when the price held; zero: unknown
}

// SaveCosting keeps the costing of some hours of a cluster in one go: transfers and frozen prices of closed hours (appended once, the
// same version again adds nothing), the rows of the hours (replaced whole), and the days they lie in (summed up again).
func SaveCosting(ctx context.Context, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) error {
	if len(hours) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	queueHours(batch, tx, cluster, hours)
	queueNodePrices(batch, tx, cluster, hours)
	queueTransfers(batch, tx, cluster, hours)
	queueDetails(batch, tx, cluster, hours)
	queueHourLines(batch, tx, cluster, hours)
	queueCauses(batch, tx, cluster, hours)
	queueDays(batch, tx, cluster, hours)
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("save costing: %w", err)
	}
	return nil
}

func queueHours(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	seen := map[string]bool{}
	for _, h := range hours {
		state := "closed"
		if h.Version == 0 {
			state = "open"
		}
		conflicts, err := json.Marshal(firstConflicts(h.Statement.Conflicts))
		if err != nil {
			conflicts = []byte("[]") // strings and finite numbers: cannot happen
		}
		batch.Queue(`
INSERT INTO cost_hour (tenant_id, cluster_id, hour, state, version, content_hash, closed_at, node_nano, unpriced_node_seconds, node_seconds, conflicts, weights)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant_id, cluster_id, hour) DO UPDATE SET state = excluded.state, version = excluded.version, content_hash = excluded.content_hash,
  closed_at = excluded.closed_at, node_nano = excluded.node_nano, unpriced_node_seconds = excluded.unpriced_node_seconds,
  node_seconds = excluded.node_seconds, conflicts = excluded.conflicts, weights = excluded.weights`,
			tx.Tenant, cluster, h.Hour, state, h.Version, h.ContentHash, tx.Now, h.Statement.NodeCost, h.Statement.UnpricedNodeSeconds,
			h.Statement.NodeSeconds, conflicts, queueWeights(batch, tx, h.Weights, seen))
	}
}

// queueWeights keeps what each version said and returns the versions by cloud.
func queueWeights(batch *pgx.Batch, tx *Tx, weights map[fleet.Cloud]market.Weights, seen map[string]bool) map[string]string {
	versions := make(map[string]string, len(weights))
	for _, cloud := range slices.Sorted(maps.Keys(weights)) {
		w := weights[cloud]
		versions[string(cloud)] = w.Version
		if !seen[w.Version] {
			seen[w.Version] = true
			batch.Queue(`INSERT INTO cost_weights (tenant_id, version, weights) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, tx.Tenant, w.Version, w)
		}
	}
	return versions
}

// maxConflicts is how many contradictions of one hour are kept; their number is in the hour's log line.
const maxConflicts = 50

func firstConflicts(all []ledger.Conflict) []ledger.Conflict {
	if all == nil {
		return []ledger.Conflict{}
	}
	return all[:min(len(all), maxConflicts)]
}

// columns gathers values for INSERT ... SELECT FROM unnest: COPY is refused under row-level security.
type columns[T any] []T

func (c *columns[T]) add(v T) { *c = append(*c, v) }

func queueNodePrices(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	var at columns[time.Time]
	var version columns[int32]
	var node, currency, source columns[string]
	var list, contracted, effective columns[*int64]
	var asOf columns[*time.Time]
	for _, h := range hours {
		if h.Version == 0 {
			continue
		}
		for _, p := range h.Prices {
			at.add(h.Hour)
			version.add(int32(h.Version)) //nolint:gosec // an hour is costed a few times
			node.add(p.Node)
			currency.add(p.Currency)
			source.add(p.Source)
			list.add((*int64)(p.List))
			contracted.add((*int64)(p.Contracted))
			effective.add((*int64)(p.Effective))
			asOf.add(orNull(p.AsOf))
		}
	}
	if len(at) == 0 {
		return
	}
	batch.Queue(`
INSERT INTO node_price (tenant_id, cluster_id, node_uid, hour, version, list_nano, contracted_nano, effective_nano, currency, source, as_of)
SELECT $1::uuid, $2::uuid, * FROM unnest($3::text[], $4::timestamptz[], $5::int[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::timestamptz[])
ON CONFLICT DO NOTHING`, tx.Tenant, cluster, []string(node), []time.Time(at), []int32(version), []*int64(list), []*int64(contracted), []*int64(effective), []string(currency),
		[]string(source), []*time.Time(asOf))
}

func queueTransfers(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	var id, debit, credit, kind, resource, namespace, team, purchase columns[string]
	var workload columns[*string]
	var at columns[time.Time]
	var version columns[int32]
	var amount columns[int64]
	var quantity columns[float64]
	for _, h := range hours {
		if h.Version == 0 {
			continue
		}
		for _, x := range ledger.Transfers(cluster, h.Hour, h.Version, h.Statement) {
			id.add(x.ID)
			debit.add(x.Debit)
			credit.add(x.Credit)
			kind.add(string(x.Row.Kind))
			resource.add(string(x.Row.Resource))
			namespace.add(x.Row.Owner.Namespace)
			team.add(x.Row.Owner.Team)
			purchase.add(string(x.Row.Purchase))
			if w := string(x.Row.Owner.Workload); w != "" {
				workload.add(&w)
			} else {
				workload.add(nil)
			}
			at.add(h.Hour)
			version.add(int32(h.Version)) //nolint:gosec // an hour is costed a few times
			amount.add(int64(x.Amount))
			quantity.add(x.Row.Quantity)
		}
	}
	if len(id) == 0 {
		return
	}
	batch.Queue(`
INSERT INTO cost_transfer (tenant_id, cluster_id, as_of, id, hour, version, debit, credit, kind, resource, workload_id, namespace, team, amount_nano, quantity, purchase)
SELECT $1::uuid, $2::uuid, $3::timestamptz, * FROM unnest($4::uuid[], $5::timestamptz[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[], $11::uuid[], $12::text[], $13::text[],
  $14::bigint[], $15::float8[], $16::text[])
ON CONFLICT (tenant_id, id) DO NOTHING`, tx.Tenant, cluster, tx.Now, []string(id), []time.Time(at), []int32(version), []string(debit), []string(credit),
		[]string(kind), []string(resource), []*string(workload), []string(namespace), []string(team), []int64(amount), []float64(quantity), []string(purchase))
}

func queueHourLines(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	var all, at columns[time.Time]
	var kind, resource, purchase, workload, namespace, team columns[string]
	var amount, list, contracted, carried columns[int64]
	var quantity, unpriced, measured, used columns[float64]
	for _, h := range hours {
		all.add(h.Hour)
		for _, r := range h.Statement.Viewed() {
			at.add(h.Hour)
			kind.add(string(r.Kind))
			resource.add(string(r.Resource))
			purchase.add(string(r.Purchase))
			if r.Owner.Workload != "" {
				workload.add(string(r.Owner.Workload))
			} else {
				workload.add(noWorkload)
			}
			namespace.add(r.Owner.Namespace)
			team.add(r.Owner.Team)
			amount.add(int64(r.Amount))
			quantity.add(r.Quantity)
			unpriced.add(r.Unpriced)
			measured.add(r.Measured)
			used.add(r.Used)
			list.add(int64(r.List))
			contracted.add(int64(r.Contracted))
			carried.add(int64(r.Carried))
		}
	}
	batch.Queue(`DELETE FROM cost_hour_line WHERE tenant_id = $1 AND cluster_id = $2 AND hour = ANY ($3)`, tx.Tenant, cluster, []time.Time(all))
	batch.Queue(`
INSERT INTO cost_hour_line (tenant_id, cluster_id, hour, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used,
  list_nano, contracted_nano, carried_nano)
SELECT $1::uuid, $2::uuid, * FROM unnest($3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::bigint[],
  $11::float8[], $12::float8[], $13::float8[], $14::float8[], $15::bigint[], $16::bigint[], $17::bigint[])`,
		tx.Tenant, cluster, []time.Time(at), []string(kind), []string(resource), []string(purchase), []string(workload), []string(namespace), []string(team),
		[]int64(amount), []float64(quantity), []float64(unpriced), []float64(measured), []float64(used),
		[]int64(list), []int64(contracted), []int64(carried))
}

func queueCauses(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	var all, at columns[time.Time]
	var cause, reason, kind, resource, purchase, workload, namespace, team columns[string]
	var amount columns[int64]
	var quantity columns[float64]
	for _, h := range hours {
		all.add(h.Hour)
		for _, c := range h.Statement.CauseRows() {
			at.add(h.Hour)
			cause.add(string(c.Name))
			reason.add(c.Reason)
			kind.add(string(c.Kind))
			resource.add(string(c.Resource))
			purchase.add(string(c.Purchase))
			if c.Owner.Workload != "" {
				workload.add(string(c.Owner.Workload))
			} else {
				workload.add(noWorkload)
			}
			namespace.add(c.Owner.Namespace)
			team.add(c.Owner.Team)
			amount.add(int64(c.Amount))
			quantity.add(c.Quantity)
		}
	}
	batch.Queue(`DELETE FROM cost_hour_cause WHERE tenant_id = $1 AND cluster_id = $2 AND hour = ANY ($3)`, tx.Tenant, cluster, []time.Time(all))
	if len(at) == 0 {
		return
	}
	batch.Queue(`
INSERT INTO cost_hour_cause (tenant_id, cluster_id, hour, cause, reason, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity)
SELECT $1::uuid, $2::uuid, * FROM unnest($3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::uuid[], $10::text[], $11::text[],
  $12::bigint[], $13::float8[])`,
		tx.Tenant, cluster, []time.Time(at), []string(cause), []string(reason), []string(kind), []string(resource), []string(purchase), []string(workload),
		[]string(namespace), []string(team), []int64(amount), []float64(quantity))
}

func queueDays(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	seen := map[time.Time]bool{}
	for _, h := range hours {
		day := h.Hour.UTC().Truncate(24 * time.Hour)
		if seen[day] {
			continue
		}
		seen[day] = true
		batch.Queue(`DELETE FROM cost_day WHERE tenant_id = $1 AND day = $3::timestamptz::date AND cluster_id = $2`, tx.Tenant, cluster, day)
		batch.Queue(`
INSERT INTO cost_day (tenant_id, cluster_id, day, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used,
  list_nano, contracted_nano, carried_nano)
SELECT tenant_id, cluster_id, $3::timestamptz::date, kind, resource, purchase, workload_id, namespace, team, sum(amount_nano)::bigint, sum(quantity), sum(unpriced),
  sum(measured), sum(used), CASE WHEN count(*) = count(list_nano) THEN sum(list_nano)::bigint END,
  CASE WHEN count(*) = count(contracted_nano) THEN sum(contracted_nano)::bigint END, CASE WHEN count(*) = count(carried_nano) THEN sum(carried_nano)::bigint END
FROM cost_hour_line WHERE tenant_id = $1 AND cluster_id = $2 AND hour >= $3 AND hour < $3::timestamptz + interval '1 day'
GROUP BY tenant_id, cluster_id, kind, resource, purchase, workload_id, namespace, team`, tx.Tenant, cluster, day)
	}
}
