package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// MaxCommitments is how many a tenant may have at a time.
const MaxCommitments = 10_000

// Commitment is a purchase with who wrote it down.
type Commitment struct {
	commitment.Commitment
	Source    string // api, csv or json
	CreatedBy string
	CreatedAt time.Time
	ChangedAt time.Time
}

const commitmentColumns = `id::text, ref, kind, region, zone, instance_type, family, resource, gpu_model, quantity, upfront_nano, recurring_nano, spend_nano,
  discount_ppm, rates, ratios, flexible, starts_at, ends_at, owner, source, created_by, created_at, changed_at`

// Commitments lists what runs at some time in [from, to), by ref; zero times do not limit.
func Commitments(ctx context.Context, tx *Tx, from, to time.Time) ([]Commitment, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT `+commitmentColumns+` FROM commitment WHERE tenant_id = $1 AND deleted_at IS NULL
  AND ($2::timestamptz IS NULL OR ends_at IS NULL OR ends_at > $2) AND ($3::timestamptz IS NULL OR starts_at < $3) ORDER BY ref`, tx.Tenant, orNull(from), orNull(to))
	if err != nil {
		return nil, fmt.Errorf("load commitments: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanCommitment)
	if err != nil {
		return nil, fmt.Errorf("load commitments: %w", err)
	}
	return all, nil
}

// LoadCommitment finds one.
func LoadCommitment(ctx context.Context, tx *Tx, id string) (Commitment, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+commitmentColumns+` FROM commitment WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id)
	if err != nil {
		return Commitment{}, fmt.Errorf("load commitment: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCommitment)
	if err != nil {
		return Commitment{}, notFound(err, "commitment")
	}
	return c, nil
}

// CommitmentByRef finds one by its ref.
func CommitmentByRef(ctx context.Context, tx *Tx, ref string) (Commitment, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+commitmentColumns+` FROM commitment WHERE tenant_id = $1 AND ref = $2 AND deleted_at IS NULL`, tx.Tenant, ref)
	if err != nil {
		return Commitment{}, fmt.Errorf("load commitment: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCommitment)
	if err != nil {
		return Commitment{}, notFound(err, "commitment")
	}
	return c, nil
}

// Contracts are a tenant's own prices as commitments look at them.
func Contracts(own []TenantPrice) []commitment.Contract {
	out := make([]commitment.Contract, len(own))
	for i, t := range own {
		out[i] = commitment.Contract{Cloud: t.Cloud, Region: t.Region, InstanceType: t.InstanceType, Purchase: t.Purchase, ValidFrom: t.ValidFrom, Hour: t.Hour}
	}
	return out
}

func scanCommitment(row pgx.CollectableRow) (c Commitment, err error) {
	var rates, ratios []byte
	var ends *time.Time
	err = row.Scan(&c.ID, &c.Ref, &c.Kind, &c.Region, &c.Zone, &c.InstanceType, &c.Family, &c.Resource, &c.GPUModel, &c.Quantity, &c.Upfront, &c.Recurring, &c.Spend,
		&c.DiscountPPM, &rates, &ratios, &c.Flexible, &c.Term.From, &ends, &c.Owner, &c.Source, &c.CreatedBy, &c.CreatedAt, &c.ChangedAt)
	if err != nil {
		return c, err
	}
	c.Term.To = orZero(ends)
	return c, errors.Join(json.Unmarshal(rates, &c.Rates), json.Unmarshal(ratios, &c.Ratios))
}

// Import is what an import did.
type Import struct{ Added, Changed, Unchanged int }

// ImportCommitments adds commitments and changes those whose ref is known with other content, all or none of them. The same import again
// changes nothing. It takes a lock per tenant, so that two imports follow each other.
func ImportCommitments(ctx context.Context, tx *Tx, all []commitment.Commitment, source, by string) (Import, error) {
	var done Import
	if err := LockCommitments(ctx, tx); err != nil {
		return done, err
	}
	known, err := Commitments(ctx, tx, time.Time{}, time.Time{})
	if err != nil {
		return done, err
	}
	byRef := make(map[string]Commitment, len(known))
	for _, c := range known {
		byRef[c.Ref] = c
	}
	batch := &pgx.Batch{}
	for _, c := range all {
		rates, err := json.Marshal(noNil(c.Rates))
		if err != nil {
			return done, fmt.Errorf("encode rates: %w", err)
		}
		ratios, err := json.Marshal(noNil(c.Ratios))
		if err != nil {
			return done, fmt.Errorf("encode ratios: %w", err)
		}
		was, ok := byRef[c.Ref]
		switch {
		case ok && same(was.Commitment, c):
			done.Unchanged++
			continue
		case ok:
			done.Changed++
			c.ID = was.ID
		default:
			done.Added++
			c.ID = uuid.Must(uuid.NewV7()).String()
		}
		batch.Queue(`
INSERT INTO commitment (tenant_id, id, ref, kind, region, zone, instance_type, family, resource, gpu_model, quantity, upfront_nano, recurring_nano, spend_nano,
  discount_ppm, rates, ratios, flexible, starts_at, ends_at, owner, source, created_by, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $24)
ON CONFLICT (tenant_id, id) DO UPDATE SET kind = excluded.kind, region = excluded.region, zone = excluded.zone, instance_type = excluded.instance_type,
  family = excluded.family, resource = excluded.resource, gpu_model = excluded.gpu_model, quantity = excluded.quantity, upfront_nano = excluded.upfront_nano,
  recurring_nano = excluded.recurring_nano, spend_nano = excluded.spend_nano, discount_ppm = excluded.discount_ppm, rates = excluded.rates, ratios = excluded.ratios,
  flexible = excluded.flexible, starts_at = excluded.starts_at, ends_at = excluded.ends_at, owner = excluded.owner, source = excluded.source, changed_at = excluded.changed_at`,
			tx.Tenant, c.ID, c.Ref, c.Kind, c.Region, c.Zone, c.InstanceType, c.Family, c.Resource, c.GPUModel, c.Quantity, c.Upfront, c.Recurring, c.Spend,
			c.DiscountPPM, rates, ratios, c.Flexible, c.Term.From, orNull(c.Term.To), c.Owner, source, by, tx.Now)
	}
	if len(known)+done.Added > MaxCommitments {
		return Import{}, fleet.Errorf(fleet.CodeConflict, "a tenant has at most %d commitments", MaxCommitments)
	}
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return Import{}, fmt.Errorf("save commitments: %w", err)
	}
	return done, nil
}

// same says whether two commitments say the same, whatever their ids.
func same(a, b commitment.Commitment) bool {
	b.ID = a.ID
	a.Rates, a.Ratios, b.Rates, b.Ratios = noNil(a.Rates), noNil(a.Ratios), noNil(b.Rates), noNil(b.Ratios)
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func noNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// DeleteCommitment takes one out of everything that is not costed yet.
func DeleteCommitment(ctx context.Context, tx *Tx, id string) error {
	tag, err := tx.pgx.Exec(ctx, `UPDATE commitment SET deleted_at = $3 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id, tx.Now)
	if err != nil {
		return fmt.Errorf("delete commitment: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such commitment")
	}
	return nil
}

// LockCommitments makes this transaction the only one of the tenant that changes or claims commitments.
func LockCommitments(ctx context.Context, tx *Tx) error {
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('commitments ' || $1::text, 0))`, string(tx.Tenant)); err != nil {
		return fmt.Errorf("lock commitments: %w", err)
	}
	return nil
}

// MaxNodeLives bounds how many machines one answer looks at.
const MaxNodeLives = 200_000

// FirstMachine is the hour in which the first machine began that anybody told of, over all clusters; zero: none has. Costs begin there too.
func FirstMachine(ctx context.Context, tx *Tx) (time.Time, error) {
	var at *time.Time
	if err := tx.pgx.QueryRow(ctx, `SELECT date_trunc('hour', min(started_at), 'UTC') FROM node WHERE tenant_id = $1`, tx.Tenant).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("load the first machine: %w", err)
	}
	return orZero(at), nil
}

// NodeLives lists the machines of all clusters that ran at some time in [from, to), by start. What a cluster that has fallen silent still had
// counts for two hours after its newest data: then nobody knows. A life is what is billed: ledger.LeastBilled at least. More than MaxNodeLives
// is an error.
func NodeLives(ctx context.Context, tx *Tx, from, to time.Time) ([]commitment.Node, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT n.cluster_id::text, n.uid, n.cloud, n.region, n.zone, n.instance_type, n.purchase, n.cpu_milli, n.mem_mib, n.gpu_model, n.gpu_count, n.gpu_memory_mib,
  n.started_at, coalesce(n.ended_at, c.data_at + interval '2 hours')
FROM node n JOIN cluster c ON c.tenant_id = n.tenant_id AND c.id = n.cluster_id
WHERE n.tenant_id = $1 AND n.started_at < $3 AND (n.ended_at + interval '1 minute' > $2 OR n.ended_at IS NULL AND (c.data_at IS NULL OR c.data_at + interval '2 hours' > $2))
ORDER BY n.started_at, n.cluster_id, n.uid LIMIT $4`, tx.Tenant, from, to, MaxNodeLives+1)
	if err != nil {
		return nil, fmt.Errorf("load nodes: %w", err)
	}
	lives, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n commitment.Node, err error) {
		var ended *time.Time
		o := &n.Offering
		err = row.Scan(&n.Cluster, &n.UID, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &n.Machine.CPUMilli, &n.Machine.MemMiB, &n.Machine.GPUModel,
			&n.Machine.GPUCount, &n.Machine.GPUMemoryMiB, &n.Life.From, &ended)
		n.Life.From, n.Life.To = n.Life.From.UTC(), orZero(ended)
		n.Machine.Cloud, n.Machine.Name = o.Cloud, o.InstanceType
		if least := n.Life.From.Add(ledger.LeastBilled(o.Cloud)); ended != nil && !n.Life.To.Before(n.Life.From) && n.Life.To.Before(least) {
			n.Life.To = least
		}
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("load nodes: %w", err)
	}
	lives = slices.DeleteFunc(lives, func(n commitment.Node) bool { return !n.Life.To.IsZero() && !n.Life.To.After(from) })
	if len(lives) > MaxNodeLives {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "more than %d machines ran in this time; ask for less of it", MaxNodeLives)
	}
	return lives, nil
}

// HourClaims is what is settled of an hour: what its machines took of commitments, and which clusters have closed it.
type HourClaims struct {
	Claims []commitment.Claim
	Closed []fleet.ClusterID
}

// Claims lists what is settled of the hours in [from, to). The caller holds LockCommitments.
func Claims(ctx context.Context, tx *Tx, from, to time.Time) (map[time.Time]HourClaims, error) {
	out := map[time.Time]HourClaims{}
	batch := &pgx.Batch{}
	batch.Queue(`
SELECT hour, cluster_id::text, node_uid, commitment_id::text, resource, units, taken, amount_nano FROM commitment_claim
WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 ORDER BY hour, cluster_id, node_uid, commitment_id, resource`, tx.Tenant, from, to).Query(func(rows pgx.Rows) error {
		var hour time.Time
		var c commitment.Claim
		_, err := pgx.ForEachRow(rows, []any{&hour, &c.Cluster, &c.Node, &c.Commitment, &c.Resource, &c.Units, &c.Taken, &c.Amount}, func() error {
			h := out[hour.UTC()]
			h.Claims = append(h.Claims, c)
			out[hour.UTC()] = h
			return nil
		})
		return err
	})
	batch.Queue(`SELECT hour, cluster_id::text FROM cost_hour WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 AND state = 'closed' ORDER BY hour, cluster_id`,
		tx.Tenant, from, to).Query(func(rows pgx.Rows) error {
		var hour time.Time
		var id fleet.ClusterID
		_, err := pgx.ForEachRow(rows, []any{&hour, &id}, func() error {
			h := out[hour.UTC()]
			h.Closed = append(h.Closed, id)
			out[hour.UTC()] = h
			return nil
		})
		return err
	})
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("load claims: %w", err)
	}
	return out, nil
}

// NoCluster stands where a cost belongs to the tenant and to no cluster of it.
const NoCluster = fleet.ClusterID("00000000-0000-0000-0000-000000000000")

// SaveClaims keeps what the closed hours of a cluster took of commitments. A claim that is there already stays as it is.
func SaveClaims(ctx context.Context, tx *Tx, hour time.Time, claims []commitment.Claim) error {
	if len(claims) == 0 {
		return nil
	}
	var cluster, node, id, resource columns[string]
	var units, taken, amount columns[int64]
	for _, c := range claims {
		cluster.add(string(c.Cluster))
		node.add(c.Node)
		id.add(c.Commitment)
		resource.add(string(c.Resource))
		units.add(c.Units)
		taken.add(c.Taken)
		amount.add(int64(c.Amount))
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO commitment_claim (tenant_id, hour, cluster_id, node_uid, commitment_id, resource, units, taken, amount_nano)
SELECT $1::uuid, $2::timestamptz, * FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[]) ON CONFLICT DO NOTHING`,
		tx.Tenant, hour, []string(cluster), []string(node), []string(id), []string(resource), []int64(units), []int64(taken), []int64(amount))
	if err != nil {
		return fmt.Errorf("save claims: %w", err)
	}
	return nil
}

// HourStates tells how the hours of a cluster in [from, to) stand.
func HourStates(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from, to time.Time) (map[time.Time]HourState, error) {
	in := &CostInput{Hours: map[time.Time]HourState{}}
	rows, err := tx.pgx.Query(ctx, `SELECT hour, state, version, content_hash, weights FROM cost_hour WHERE tenant_id = $1 AND cluster_id = $2 AND hour >= $3 AND hour < $4`, tx.Tenant, cluster, from, to)
	if err != nil {
		return nil, fmt.Errorf("load hours: %w", err)
	}
	defer rows.Close()
	if err := in.readHours(rows); err != nil {
		return nil, fmt.Errorf("load hours: %w", err)
	}
	return in.Hours, nil
}
