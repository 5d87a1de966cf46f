package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
)

// Bounds of uploads in parts.
const (
	BillPartBytes    = 8 << 20 // of each part but the last
	MaxBillUpload    = 1 << 30 // of the file as it is sent
	maxBillUploads   = 4       // that a tenant may have open
	billUploadLiving = 24 * time.Hour
)

// BillUpload is a bill that comes in parts.
type BillUpload struct {
	ID        string
	Key       string // SHA-256 of the file as it is sent, in hexadecimal digits
	Name      string
	Format    billing.Format
	Mode      BillMode
	Bytes     int64
	PartBytes int64
	Bill      string // once it is finished
	Here      []int  // parts that have arrived, in order
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Parts is how many parts the file has.
func (u *BillUpload) Parts() int { return int((u.Bytes + u.PartBytes - 1) / u.PartBytes) }

// size of a part.
func (u *BillUpload) size(n int) int64 { return min(u.PartBytes, u.Bytes-int64(n)*u.PartBytes) }

// StartBillUpload begins an upload, or finds the one of the same file that began already.
func StartBillUpload(ctx context.Context, tx *Tx, u BillUpload) (BillUpload, error) {
	if err := PruneBillUploads(ctx, tx); err != nil {
		return u, err
	}
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bills ' || $1::text, 0))`, string(tx.Tenant)); err != nil {
		return u, fmt.Errorf("wait to begin an upload: %w", err)
	}
	var id string
	var open int
	err := tx.pgx.QueryRow(ctx, `SELECT coalesce((SELECT id::text FROM bill_upload WHERE tenant_id = $1 AND key = $2), ''), (SELECT count(*)::int FROM bill_upload WHERE tenant_id = $1 AND bill_id IS NULL)`,
		tx.Tenant, u.Key).Scan(&id, &open)
	switch {
	case err != nil:
		return u, fmt.Errorf("look for uploads: %w", err)
	case id != "":
		old, err := LoadBillUpload(ctx, tx, id)
		if err == nil && old.Bytes != u.Bytes {
			err = fleet.Errorf(fleet.CodeConflict, "an upload with this sha256 has %d bytes, not %d", old.Bytes, u.Bytes)
		}
		return old, err
	case open >= maxBillUploads:
		return u, fleet.Errorf(fleet.CodeConflict, "%d uploads are open already; finish or abandon one", open)
	}
	u.ID, u.PartBytes, u.CreatedAt, u.ExpiresAt, u.Here = uuid.NewString(), BillPartBytes, tx.Now, tx.Now.Add(billUploadLiving), []int{}
	_, err = tx.pgx.Exec(ctx, `INSERT INTO bill_upload (tenant_id, id, key, name, format, mode, bytes, part_bytes, created_by, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		tx.Tenant, u.ID, u.Key, u.Name, string(u.Format), string(u.Mode), u.Bytes, u.PartBytes, u.CreatedBy, u.CreatedAt, u.ExpiresAt)
	if err != nil {
		return u, fmt.Errorf("begin an upload: %w", err)
	}
	return u, nil
}

// LoadBillUpload finds one that has not expired.
func LoadBillUpload(ctx context.Context, tx *Tx, id string) (u BillUpload, err error) {
	var bill *string
	err = tx.pgx.QueryRow(ctx, `
SELECT id::text, key, name, format, mode, bytes, part_bytes, bill_id::text, created_by, created_at, expires_at,
  coalesce((SELECT array_agg(n ORDER BY n) FROM bill_upload_part p WHERE p.tenant_id = u.tenant_id AND p.upload_id = u.id), '{}')
FROM bill_upload u WHERE tenant_id = $1 AND id = $2 AND expires_at > $3`, tx.Tenant, id, tx.Now).Scan(&u.ID, &u.Key, &u.Name, &u.Format, &u.Mode, &u.Bytes, &u.PartBytes, &bill, &u.CreatedBy, &u.CreatedAt, &u.ExpiresAt, &u.Here)
	if err != nil {
		return u, notFound(err, "upload")
	}
	if bill != nil {
		u.Bill = *bill
	}
	return u, nil
}

// SaveBillPart keeps a part; the same one again changes nothing, another in its place is refused.
func SaveBillPart(ctx context.Context, tx *Tx, id string, n int, payload []byte) error {
	u, err := LoadBillUpload(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case u.Bill != "":
		return nil
	case n < 0 || n >= u.Parts():
		return fleet.Errorf(fleet.CodeInvalid, "the upload has parts 0 to %d", u.Parts()-1)
	case int64(len(payload)) != u.size(n):
		return fleet.Errorf(fleet.CodeInvalid, "part %d has %d bytes, want %d", n, len(payload), u.size(n))
	}
	sum := sha256.Sum256(payload)
	hash := hex.EncodeToString(sum[:])
	done, err := tx.pgx.Exec(ctx, `
INSERT INTO bill_upload_part (tenant_id, upload_id, n, hash, payload) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, upload_id, n) DO UPDATE SET hash = bill_upload_part.hash WHERE bill_upload_part.hash = excluded.hash`, tx.Tenant, id, n, hash, payload)
	if err != nil {
		return fmt.Errorf("save part: %w", err)
	}
	if done.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeConflict, "part %d is here already with other content; the file has changed since: begin again", n)
	}
	return nil
}

// FinishBillUpload says which bill an upload became, and lets its parts go.
func FinishBillUpload(ctx context.Context, tx *Tx, id, bill string) error {
	if _, err := tx.pgx.Exec(ctx, `UPDATE bill_upload SET bill_id = $3 WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id, bill); err != nil {
		return fmt.Errorf("finish upload: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM bill_upload_part WHERE tenant_id = $1 AND upload_id = $2`, tx.Tenant, id); err != nil {
		return fmt.Errorf("finish upload: %w", err)
	}
	return nil
}

// DeleteBillUpload abandons one.
func DeleteBillUpload(ctx context.Context, tx *Tx, id string) error {
	done, err := tx.pgx.Exec(ctx, `DELETE FROM bill_upload WHERE tenant_id = $1 AND id = $2 AND bill_id IS NULL`, tx.Tenant, id)
	if err != nil {
		return fmt.Errorf("abandon upload: %w", err)
	}
	if done.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such open upload")
	}
	return nil
}

// PruneBillUploads deletes those whose day is over.
func PruneBillUploads(ctx context.Context, tx *Tx) error {
	if _, err := tx.pgx.Exec(ctx, `DELETE FROM bill_upload WHERE tenant_id = $1 AND expires_at <= $2`, tx.Tenant, tx.Now); err != nil {
		return fmt.Errorf("delete old uploads: %w", err)
	}
	return nil
}

// BillUploadReader reads an upload's parts one after the other, each in a transaction of its own: it holds one part at a time. Its end is an error when
// the whole has not the hash that was announced.
func BillUploadReader(ctx context.Context, db *DB, tenant fleet.TenantID, u BillUpload) io.Reader {
	return &billParts{ctx: ctx, db: db, tenant: tenant, u: u}
}

// billParts is an io.Reader of one call, so that it may hold that call's context.
type billParts struct {
	ctx    context.Context //nolint:containedctx // a reader for one import
	db     *DB
	tenant fleet.TenantID
	u      BillUpload
	next   int
	part   []byte
	sum    [sha256.Size]byte
	hash   interface {
		io.Writer
		Sum([]byte) []byte
	}
}

// Read implements io.Reader.
func (p *billParts) Read(b []byte) (int, error) {
	if p.hash == nil {
		p.hash = sha256.New()
	}
	for len(p.part) == 0 {
		if p.next >= p.u.Parts() {
			if hex.EncodeToString(p.hash.Sum(p.sum[:0])) != p.u.Key {
				return 0, fleet.Errorf(fleet.CodeInvalid, "the parts together are not the file that was announced: their SHA-256 is another")
			}
			return 0, io.EOF
		}
		err := p.db.Tenant(p.ctx, p.tenant, func(tx *Tx) error {
			return tx.pgx.QueryRow(p.ctx, `SELECT payload FROM bill_upload_part WHERE tenant_id = $1 AND upload_id = $2 AND n = $3`, tx.Tenant, p.u.ID, p.next).Scan(&p.part)
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return 0, fleet.Errorf(fleet.CodeConflict, "part %d is missing", p.next)
		case err != nil:
			return 0, fmt.Errorf("load part: %w", err)
		}
		_, _ = p.hash.Write(p.part) // a hash takes everything
		p.next++
	}
	n := copy(b, p.part)
	p.part = p.part[n:]
	return n, nil
}
