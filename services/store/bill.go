package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
)

// Bill is an imported file without its charges.
type Bill struct {
	ID          string
	Name        string
	Format      billing.Format
	Hash        string
	Bytes       int64
	Lines       int64
	Charges     int
	Currency    string
	From, To    time.Time // of the charges
	Billed      billing.Amount
	Effective   billing.Amount
	List        billing.Amount
	NoEffective int64
	NoList      int64
	Rounded     int64
	Unread      []string
	Periods     []billing.Period
	CreatedBy   string
	CreatedAt   time.Time
}

// BillMode says what to do with bills that hold a billing period of the same account already.
type BillMode string

// Modes of an import.
const (
	BillNew     BillMode = "new"     // refuse
	BillAdd     BillMode = "add"     // keep both: a provider may write a month in parts
	BillReplace BillMode = "replace" // the new file stands for them
)

// Bounds of what a tenant keeps.
const (
	maxBills       = 2_000
	maxBillRows    = 3_000_000 // that one comparison reads
	billInsertRows = 8_192     // sent at a time
)

const billColumns = `id::text, name, format, content_hash, bytes, lines, charges, currency, from_at, to_at, billed::text, effective::text, list::text, no_effective, no_list, rounded, unread, periods,
  created_by, created_at`

// SaveBill keeps a file that was read, all of it or nothing. The same content again changes nothing and returns the bill that is there.
func SaveBill(ctx context.Context, tx *Tx, name string, f billing.File, mode BillMode, by string) (b Bill, known bool, replaced []Bill, err error) {
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bills ' || $1::text, 0))`, string(tx.Tenant)); err != nil {
		return b, false, nil, fmt.Errorf("wait to import a bill: %w", err)
	}
	all, err := Bills(ctx, tx)
	if err != nil {
		return b, false, nil, err
	}
	if len(all) >= maxBills {
		return b, false, nil, fleet.Errorf(fleet.CodeTooLarge, "there are %d bills already; delete some", len(all))
	}
	var same []Bill
	for _, old := range all {
		if old.Hash == f.Hash {
			return old, true, nil, nil
		}
		if shares(old.Periods, f.Periods) {
			same = append(same, old)
		}
	}
	if len(same) > 0 && mode != BillAdd && mode != BillReplace {
		return b, false, nil, fleet.Errorf(fleet.CodeConflict, "the bill %q has the same billing period of an account already; import this one as a replacement of it, or as a part beside it", same[0].Name)
	}
	id := uuid.NewString()
	if mode == BillReplace {
		for _, old := range same {
			if p, ok := notIn(old.Periods, f.Periods); ok {
				return b, false, nil, fleet.Errorf(fleet.CodeConflict, "the bill %q also has %s of account %q, which this file has not; delete it first if it is wrong", old.Name, p.From.Format(time.DateOnly), p.Account)
			}
			if err := deleteBill(ctx, tx, old.ID, by, &id); err != nil {
				return b, false, nil, err
			}
		}
		replaced = same
	}
	b = Bill{ID: id, Name: name, Format: f.Format, Hash: f.Hash, Bytes: f.Bytes, Lines: int64(f.Lines), Charges: len(f.Rows), Currency: f.Currency, From: f.From, To: f.To, Billed: f.Billed, Effective: f.Effect, List: f.List,
		NoEffective: int64(f.NoEffective), NoList: int64(f.NoList), Rounded: int64(f.Rounded), Unread: noNilList(f.Unknown), Periods: noNilList(f.Periods), CreatedBy: by, CreatedAt: tx.Now}
	periods, err := json.Marshal(b.Periods)
	if err != nil {
		return b, false, nil, fmt.Errorf("encode periods: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `
INSERT INTO bill (tenant_id, id, name, format, content_hash, bytes, lines, charges, currency, from_at, to_at, billed, effective, list, no_effective, no_list, rounded, unread, periods, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::numeric, $13::text::numeric, $14::text::numeric, $15, $16, $17, $18, $19, $20, $21)`,
		tx.Tenant, id, name, b.Format, b.Hash, b.Bytes, b.Lines, b.Charges, b.Currency, b.From, b.To, b.Billed.String(), b.Effective.String(), b.List.String(), b.NoEffective, b.NoList, b.Rounded, b.Unread,
		periods, by, tx.Now)
	if err != nil {
		return b, false, nil, fmt.Errorf("save bill: %w", err)
	}
	return b, false, replaced, saveCharges(ctx, tx, id, f.Rows)
}

func saveCharges(ctx context.Context, tx *Tx, id string, all []billing.Row) error {
	for at := 0; at < len(all); at += billInsertRows {
		part := all[at:min(at+billInsertRows, len(all))]
		rows := make([][]any, len(part))
		for i := range part {
			r := &part[i]
			rows[i] = []any{string(tx.Tenant), id, at + i, r.Provider, string(r.Cloud), r.Account, r.SubAccount, string(r.Category), r.Correction, string(r.Kind), r.Service, r.Region, r.Zone, r.Resource,
				r.ResourceName, r.InstanceType, string(r.Purchase), r.Commitment, r.Status, r.SKU, r.Unit, r.Invoice, r.Description, r.From, r.To, r.PeriodFrom, r.PeriodTo, r.Lines, r.FirstLine,
				r.Billed.String(), r.Effective.String(), r.List.String(), r.Quantity.String(), r.Hours.String(), r.NoEffective, r.NoList, r.NoHours}
			for c, v := range rows[i] {
				if s, ok := v.(string); ok {
					rows[i][c] = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
				}
			}
		}
		batch := &pgx.Batch{}
		queueRows(batch, `INSERT INTO bill_charge (tenant_id, bill_id, n, provider, cloud, account, sub_account, category, correction, kind, service, region, zone, resource, resource_name, instance_type,
  purchase, commitment, status, sku, unit, invoice, description, from_at, to_at, period_from, period_to, lines, first_line, billed, effective, list, quantity, hours, no_effective, no_list, no_hours)`, "", rows)
		if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("save charges: %w", err)
		}
	}
	return nil
}

// shares says whether two files have an account's billing period in common, or a part of one.
func shares(a, b []billing.Period) bool {
	for _, p := range a {
		if overlaps(p, b) {
			return true
		}
	}
	return false
}

// notIn is a period of a that b has nothing of.
func notIn(a, b []billing.Period) (billing.Period, bool) {
	for _, p := range a {
		if !overlaps(p, b) {
			return p, true
		}
	}
	return billing.Period{}, false
}

func overlaps(p billing.Period, all []billing.Period) bool {
	for _, q := range all {
		if p.Provider == q.Provider && p.Account == q.Account && p.From.Before(q.To) && q.From.Before(p.To) {
			return true
		}
	}
	return false
}

// noNilList keeps lists out of being NULL.
func noNilList[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Bills lists the bills that count, the newest import first.
func Bills(ctx context.Context, tx *Tx) ([]Bill, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+billColumns+` FROM bill WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY created_at DESC, id`, tx.Tenant)
	if err != nil {
		return nil, fmt.Errorf("load bills: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanBill)
	if err != nil {
		return nil, fmt.Errorf("load bills: %w", err)
	}
	return all, nil
}

// LoadBill finds one that counts.
func LoadBill(ctx context.Context, tx *Tx, id string) (Bill, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT `+billColumns+` FROM bill WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id)
	if err != nil {
		return Bill{}, fmt.Errorf("load bill: %w", err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, scanBill)
	if err != nil {
		return Bill{}, notFound(err, "bill")
	}
	return b, nil
}

func scanBill(row pgx.CollectableRow) (b Bill, err error) {
	var periods []byte
	var billed, effective, list string
	err = row.Scan(&b.ID, &b.Name, &b.Format, &b.Hash, &b.Bytes, &b.Lines, &b.Charges, &b.Currency, &b.From, &b.To, &billed, &effective, &list, &b.NoEffective, &b.NoList, &b.Rounded, &b.Unread, &periods,
		&b.CreatedBy, &b.CreatedAt)
	if err != nil {
		return b, err
	}
	if err := scanAmounts([]string{billed, effective, list}, &b.Billed, &b.Effective, &b.List); err != nil {
		return b, err
	}
	return b, json.Unmarshal(periods, &b.Periods)
}

func scanAmounts(texts []string, to ...*billing.Amount) (err error) {
	for i, a := range to {
		if *a, err = billing.ParseSum(texts[i]); err != nil {
			return err
		}
	}
	return nil
}

// DeleteBill takes a bill out of all comparisons. One whose prices stand in the ledger stays until that is undone.
func DeleteBill(ctx context.Context, tx *Tx, id, by string) error {
	return deleteBill(ctx, tx, id, by, nil)
}

func deleteBill(ctx context.Context, tx *Tx, id, by string, replacement *string) error {
	var used int
	err := tx.pgx.QueryRow(ctx, `SELECT count(*)::int FROM restatement WHERE tenant_id = $1 AND undone_at IS NULL AND $2::uuid = ANY (bills)`, tx.Tenant, id).Scan(&used)
	if err != nil {
		return fmt.Errorf("look for restatements: %w", err)
	}
	if used > 0 {
		return fleet.Errorf(fleet.CodeConflict, "hours in the ledger have the prices of this bill; undo the restatement first")
	}
	done, err := tx.pgx.Exec(ctx, `UPDATE bill SET deleted_at = $3, deleted_by = $4, replaced_by = $5 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`, tx.Tenant, id, tx.Now, by, replacement)
	if err != nil {
		return fmt.Errorf("delete bill: %w", err)
	}
	if done.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such bill")
	}
	return nil
}

// BillRows reads the charges that begin in [from, to) of all bills that count.
func BillRows(ctx context.Context, tx *Tx, from, to time.Time) ([]billing.Row, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT c.provider, c.cloud, c.account, c.sub_account, c.category, c.correction, c.kind, c.service, c.region, c.zone, c.resource, c.resource_name, c.instance_type, c.purchase, c.commitment, c.status, c.sku,
  c.unit, c.invoice, c.description, c.from_at, c.to_at, c.period_from, c.period_to, c.lines, c.first_line, c.billed::text, c.effective::text, c.list::text, c.quantity::text, c.hours::text,
  c.no_effective, c.no_list, c.no_hours
FROM bill_charge c JOIN bill b ON b.tenant_id = c.tenant_id AND b.id = c.bill_id AND b.deleted_at IS NULL
WHERE c.tenant_id = $1 AND c.from_at >= $2 AND c.from_at < $3 ORDER BY c.from_at, c.bill_id, c.n LIMIT $4`, tx.Tenant, from, to, maxBillRows+1)
	if err != nil {
		return nil, fmt.Errorf("load charges: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanCharge)
	switch {
	case err != nil:
		return nil, fmt.Errorf("load charges: %w", err)
	case len(all) > maxBillRows:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "the span holds more than %d charges; ask for less", maxBillRows)
	}
	return all, nil
}

func scanCharge(row pgx.CollectableRow) (r billing.Row, err error) {
	var billed, effective, list, quantity, hours string
	err = row.Scan(&r.Provider, &r.Cloud, &r.Account, &r.SubAccount, &r.Category, &r.Correction, &r.Kind, &r.Service, &r.Region, &r.Zone, &r.Resource, &r.ResourceName, &r.InstanceType, &r.Purchase, &r.Commitment,
		&r.Status, &r.SKU, &r.Unit, &r.Invoice, &r.Description, &r.From, &r.To, &r.PeriodFrom, &r.PeriodTo, &r.Lines, &r.FirstLine, &billed, &effective, &list, &quantity, &hours, &r.NoEffective, &r.NoList, &r.NoHours)
	if err != nil {
		return r, err
	}
	return r, scanAmounts([]string{billed, effective, list, quantity, hours}, &r.Billed, &r.Effective, &r.List, &r.Quantity, &r.Hours)
}
