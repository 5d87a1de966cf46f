package httpapi

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	Seq    int64             `json:"seq"`
	At     time.Time         `json:"at"`
	Actor  string            `json:"actor" doc:"user:<id>, key:<id>, agent:<cluster id> or system"`
	Action string            `json:"action"`
	Object string            `json:"object"`
	Detail map[string]string `json:"detail"`
	Hash   string            `json:"hash" doc:"SHA-256 over this entry and the hash of the one before"`
}

type auditQuery struct {
	Cursor string `query:"cursor" maxLength:"100"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

type auditList struct {
	Body struct {
		Items      []AuditEntry `json:"items"`
		NextCursor string       `json:"next_cursor,omitempty"`
	}
}

type auditCheckOutput struct {
	Body struct {
		Entries  int64  `json:"entries" doc:"Entries whose hashes are right"`
		Intact   bool   `json:"intact"`
		BrokenAt *int64 `json:"broken_at" doc:"The first entry that is missing or changed; null when the chain holds"`
		Head     string `json:"head" doc:"Hash of the last right entry: kept elsewhere, it also proves that nothing was cut off"`
	}
}

func (s *Server) registerAudit() {
	op(s, huma.Operation{OperationID: "list-audit", Method: http.MethodGet, Path: "/api/v1/audit", Summary: "Who changed what, newest first", Tags: []string{"audit"}},
		auth.RoleAdmin, s.listAudit)
	op(s, huma.Operation{OperationID: "verify-audit", Method: http.MethodGet, Path: "/api/v1/audit/verification", Summary: "Walk the hash chain of the whole log", Tags: []string{"audit"}},
		auth.RoleAdmin, s.verifyAudit)
}

func (s *Server) listAudit(ctx context.Context, p auth.Principal, in *auditQuery) (*auditList, error) {
	var before int64
	if in.Cursor != "" {
		if err := decodeCursor(in.Cursor, &before); err != nil {
			return nil, err
		}
	}
	out := &auditList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		entries, err := store.AuditLog(ctx, tx, before, in.Limit)
		out.Body.Items = make([]AuditEntry, 0, len(entries))
		for _, e := range entries {
			out.Body.Items = append(out.Body.Items, AuditEntry{Seq: e.Seq, At: e.At, Actor: e.Actor, Action: e.Action, Object: e.Object, Detail: e.Detail, Hash: hex.EncodeToString(e.Hash)})
		}
		if n := len(entries); n == in.Limit && entries[n-1].Seq > 1 {
			out.Body.NextCursor = encodeCursor(entries[n-1].Seq)
		}
		return err
	})
	return out, err
}

func (s *Server) verifyAudit(ctx context.Context, p auth.Principal, _ *struct{}) (*auditCheckOutput, error) {
	out := &auditCheckOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		check, err := store.VerifyAudit(ctx, tx)
		out.Body.Entries, out.Body.Intact, out.Body.Head = check.Entries, check.BrokenAt == 0, hex.EncodeToString(check.Head)
		if check.BrokenAt != 0 {
			out.Body.BrokenAt = &check.BrokenAt
		}
		return err
	})
	return out, err
}
