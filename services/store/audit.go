package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// AuditEntry is one line of a tenant's audit log. Hash covers the entry and PrevHash, so that no entry can be changed or taken out
// of the middle without breaking the chain.
type AuditEntry struct {
	Seq      int64
	At       time.Time
	Actor    string // user:<id>, key:<id>, agent:<cluster>, system
	Action   string // "cluster.create"
	Object   string // "cluster:<id>"
	Detail   map[string]string
	PrevHash []byte
	Hash     []byte
}

// auditZero stands before the first entry.
var auditZero = make([]byte, sha256.Size)

// Audit appends to the tenant's log in the transaction of the change itself. It takes the tenant's row lock until the transaction
// ends, so call it last. Detail holds what a person needs to understand the change; never a secret.
func Audit(ctx context.Context, tx *Tx, actor, action, object string, detail map[string]string) error {
	var locked string
	err := tx.pgx.QueryRow(ctx, "SELECT tenant_id::text FROM tenant WHERE tenant_id = $1 FOR UPDATE", tx.Tenant).Scan(&locked)
	if err != nil {
		return notFound(err, "tenant")
	}
	e := AuditEntry{Seq: 1, At: tx.Now, Actor: plainText(actor), Action: plainText(action), Object: plainText(object),
		Detail: make(map[string]string, len(detail)), PrevHash: auditZero}
	for k, v := range detail {
		e.Detail[plainText(k)] = plainText(v)
	}
	rows, err := tx.pgx.Query(ctx, "SELECT seq, hash FROM audit_log WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1", tx.Tenant)
	if err != nil {
		return fmt.Errorf("read end of audit log: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&e.Seq, &e.PrevHash}, func() error { e.Seq++; return nil })
	if err != nil {
		return fmt.Errorf("read end of audit log: %w", err)
	}
	e.Hash = e.digest(tx.Tenant)
	body, err := json.Marshal(e.Detail)
	if err != nil {
		return fmt.Errorf("encode audit detail: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `
INSERT INTO audit_log (tenant_id, seq, at, actor, action, object, detail, prev_hash, hash)
VALUES (@tenant, @seq, @at, @actor, @action, @object, @detail, @prev, @hash)`, pgx.NamedArgs{
		"tenant": tx.Tenant, "seq": e.Seq, "at": e.At, "actor": e.Actor, "action": e.Action, "object": e.Object,
		"detail": body, "prev": e.PrevHash, "hash": e.Hash,
	})
	if err != nil {
		return fmt.Errorf("append to audit log: %w", err)
	}
	return nil
}

// plainText makes a string that Postgres gives back as it was, so that its hash stays right.
func plainText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// digest hashes the entry with each part's length before it, so that no two different entries read the same.
func (e AuditEntry) digest(tenant fleet.TenantID) []byte {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	var n [8]byte
	part([]byte("plimsoll audit 1"))
	part([]byte(tenant))
	binary.BigEndian.PutUint64(n[:], uint64(e.Seq)) //nolint:gosec // a bit pattern
	part(n[:])
	binary.BigEndian.PutUint64(n[:], uint64(e.At.UnixMicro()))
	part(n[:])
	part([]byte(e.Actor))
	part([]byte(e.Action))
	part([]byte(e.Object))
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		part([]byte(k))
		part([]byte(e.Detail[k]))
	}
	part(e.PrevHash)
	return h.Sum(nil)
}

// AuditLog lists entries, newest first. before is the sequence number of the last entry seen, 0 for the first page.
func AuditLog(ctx context.Context, tx *Tx, before int64, limit int) ([]AuditEntry, error) {
	rows, err := tx.pgx.Query(ctx, auditColumns+` AND (@before::bigint = 0 OR seq < @before) ORDER BY seq DESC LIMIT @limit`,
		pgx.NamedArgs{"tenant": tx.Tenant, "before": before, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return scanAudit(rows)
}

const auditColumns = "SELECT seq, at, actor, action, object, detail, prev_hash, hash FROM audit_log WHERE tenant_id = @tenant"

func scanAudit(rows pgx.Rows) ([]AuditEntry, error) {
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e AuditEntry, err error) {
		var detail []byte
		if err := row.Scan(&e.Seq, &e.At, &e.Actor, &e.Action, &e.Object, &detail, &e.PrevHash, &e.Hash); err != nil {
			return e, err
		}
		e.At = e.At.UTC()
		return e, json.Unmarshal(detail, &e.Detail)
	})
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return entries, nil
}

// AuditCheck is the result of VerifyAudit.
type AuditCheck struct {
	Entries int64
	// BrokenAt is the first entry that is missing or not as it was written; 0 when the chain holds.
	BrokenAt int64
	// Head is the hash of the last entry. Kept elsewhere, it also proves that nothing was cut off the end.
	Head []byte
}

const auditPage = 1000

// VerifyAudit walks the whole chain from the first entry.
func VerifyAudit(ctx context.Context, tx *Tx) (AuditCheck, error) {
	check := AuditCheck{Head: auditZero}
	for {
		rows, err := tx.pgx.Query(ctx, auditColumns+" AND seq > @after ORDER BY seq LIMIT @limit",
			pgx.NamedArgs{"tenant": tx.Tenant, "after": check.Entries, "limit": auditPage})
		if err != nil {
			return check, fmt.Errorf("read audit log: %w", err)
		}
		page, err := scanAudit(rows)
		if err != nil {
			return check, err
		}
		for _, e := range page {
			if e.Seq != check.Entries+1 || !bytes.Equal(e.PrevHash, check.Head) || !bytes.Equal(e.Hash, e.digest(tx.Tenant)) {
				check.BrokenAt = check.Entries + 1
				return check, nil
			}
			check.Entries, check.Head = e.Seq, e.Hash
		}
		if len(page) < auditPage {
			return check, nil
		}
	}
}
