package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// APIKey is a machine's way in, without its secret.
type APIKey struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Role       auth.Role     `json:"role" enum:"admin,operator,finance,viewer"`
	Hint       string        `json:"hint" doc:"The last four characters of the key"`
	CreatedBy  *fleet.UserID `json:"created_by" doc:"User id; null when a key made it"`
	CreatedAt  time.Time     `json:"created_at"`
	ExpiresAt  *time.Time    `json:"expires_at" doc:"null: never"`
	LastUsedAt *time.Time    `json:"last_used_at" doc:"To the minute"`
}

func apiKeyOf(k store.APIKey) APIKey {
	return APIKey{ID: k.ID, Name: k.Name, Role: auth.Role(k.Role), Hint: k.Hint, CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt}
}

type apiKeyList struct {
	Body struct {
		Items []APIKey `json:"items"`
	}
}

type newKeyInput struct {
	Body struct {
		Name      string     `json:"name" minLength:"1" maxLength:"100"`
		Role      auth.Role  `json:"role" enum:"admin,operator,finance,viewer"`
		ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Absent: never"`
	}
}

type newKeyOutput struct {
	Body struct {
		APIKey
		Secret string `json:"secret" doc:"The key itself. It is shown this once"`
	}
}

type keyPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Server) registerKeys() {
	op(s, huma.Operation{OperationID: "list-api-keys", Method: http.MethodGet, Path: "/api/v1/api-keys", Summary: "Keys that are not revoked, newest first", Tags: []string{"api-keys"}},
		auth.RoleAdmin, s.listKeys)
	op(s, huma.Operation{OperationID: "create-api-key", Method: http.MethodPost, Path: "/api/v1/api-keys", Summary: "Make a key; its secret is shown once", Tags: []string{"api-keys"},
		DefaultStatus: http.StatusCreated, Errors: []int{http.StatusConflict}}, auth.RoleAdmin, s.createKey)
	op(s, huma.Operation{OperationID: "revoke-api-key", Method: http.MethodDelete, Path: "/api/v1/api-keys/{id}", Summary: "End a key for good, at once", Tags: []string{"api-keys"},
		DefaultStatus: http.StatusNoContent, Errors: []int{http.StatusNotFound}}, auth.RoleAdmin, s.revokeKey)
}

func (s *Server) listKeys(ctx context.Context, p auth.Principal, _ *struct{}) (*apiKeyList, error) {
	out := &apiKeyList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		keys, err := store.APIKeys(ctx, tx)
		out.Body.Items = make([]APIKey, 0, len(keys))
		for _, k := range keys {
			out.Body.Items = append(out.Body.Items, apiKeyOf(k))
		}
		return err
	})
	return out, err
}

func (s *Server) createKey(ctx context.Context, p auth.Principal, in *newKeyInput) (*newKeyOutput, error) {
	name := strings.TrimSpace(in.Body.Name)
	if name == "" {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Field: "body.name", Message: "a key needs a name"}
	}
	secret, err := auth.NewAPIKey(p.Tenant)
	if err != nil {
		return nil, err
	}
	k := store.APIKey{ID: secret.ID, Name: name, Hash: secret.Hash, Hint: secret.Hint, Role: string(in.Body.Role), ExpiresAt: in.Body.ExpiresAt}
	if p.Kind == auth.KindUser {
		by := fleet.UserID(p.ID)
		k.CreatedBy = &by
	}
	out := &newKeyOutput{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if k.ExpiresAt != nil && !k.ExpiresAt.After(tx.Now) {
			return &fleet.Error{Code: fleet.CodeInvalid, Field: "body.expires_at", Message: "this time has passed"}
		}
		k.CreatedAt = tx.Now
		if err := store.CreateAPIKey(ctx, tx, k); err != nil {
			return err
		}
		out.Body.APIKey, out.Body.Secret = apiKeyOf(k), secret.Token
		return store.Audit(ctx, tx, p.Actor(), "api_key.create", "api_key:"+k.ID, map[string]string{"name": k.Name, "role": k.Role})
	})
	return out, err
}

func (s *Server) revokeKey(ctx context.Context, p auth.Principal, in *keyPath) (*struct{}, error) {
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.RevokeAPIKey(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "api_key.revoke", "api_key:"+in.ID, nil)
	})
	return nil, err
}

// signingKeys lets the keyring keep its keys in the store.
type signingKeys struct{ db *store.DB }

// SigningKeys is where agents' signing keys are kept, for auth.NewKeyring.
func SigningKeys(db *store.DB) auth.KeyStore { return signingKeys{db} }

// Rotate implements auth.KeyStore.
func (k signingKeys) Rotate(ctx context.Context, next func(time.Time, []auth.SigningKey) (*auth.SigningKey, error)) ([]auth.SigningKey, error) {
	kept, err := k.db.RotateSigningKeys(ctx, func(now time.Time, have []store.SigningKey) (*store.SigningKey, error) {
		made, err := next(now, signingKeysOf(have))
		if err != nil || made == nil {
			return nil, err
		}
		return &store.SigningKey{ID: made.ID, Public: made.Public, Sealed: made.Sealed, CreatedAt: made.CreatedAt, RetiresAt: made.RetiresAt, ExpiresAt: made.ExpiresAt}, nil
	})
	return signingKeysOf(kept), err
}

func signingKeysOf(keys []store.SigningKey) []auth.SigningKey {
	out := make([]auth.SigningKey, 0, len(keys))
	for _, k := range keys {
		out = append(out, auth.SigningKey{ID: k.ID, Public: k.Public, Sealed: k.Sealed, CreatedAt: k.CreatedAt, RetiresAt: k.RetiresAt, ExpiresAt: k.ExpiresAt})
	}
	return out
}
