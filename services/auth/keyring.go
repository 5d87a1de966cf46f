package auth

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
)

// Lives of keys and tokens. A key signs for KeySigns and then verifies until the last token it signed is over.
const (
	TokenTTL  = time.Hour
	KeySigns  = 30 * 24 * time.Hour
	keyLinger = 24 * time.Hour
	// A successor is made this long before the newest key retires.
	keyOverlap = 24 * time.Hour
	// A new key does not sign before all replicas had time to reload (they do every ReloadEvery), unless there is no other.
	keySettles = 5 * time.Minute
	// ReloadEvery is how often Run looks for keys that other replicas made.
	ReloadEvery = time.Minute
	reloadBound = 20 * time.Second
	clockLeeway = 30 * time.Second
	maxTokenLen = 2048
)

const (
	tokenIssuer   = "plimsoll"
	tokenAudience = "plimsoll-agent"
)

// SigningKey is an Ed25519 key as it is kept: the private half sealed.
type SigningKey struct {
	ID        string // "kid" in the token's header
	Public    ed25519.PublicKey
	Sealed    []byte
	CreatedAt time.Time
	RetiresAt time.Time // signs no more
	ExpiresAt time.Time // verifies no more
}

// KeyStore keeps signing keys. Rotate runs next under a lock that all replicas share, with all keys that are not expired, keeps the
// key that next returns (nil: none), drops expired ones, and returns what is there afterwards.
type KeyStore interface {
	Rotate(ctx context.Context, next func(now time.Time, have []SigningKey) (*SigningKey, error)) ([]SigningKey, error)
}

// Keyring signs and checks the JWTs of agents. Safe for concurrent use; Issue and Verify do no I/O.
type Keyring struct {
	store  KeyStore
	sealer *Sealer

	mu   sync.RWMutex
	keys []ringKey // guarded by mu; newest first
}

type ringKey struct {
	SigningKey
	private ed25519.PrivateKey // nil when it was sealed with a secret that we do not have: verifies only
}

// NewKeyring loads the keys and makes the first one if there is none. Several replicas may start at once.
func NewKeyring(ctx context.Context, store KeyStore, sealer *Sealer) (*Keyring, error) {
	k := &Keyring{store: store, sealer: sealer}
	if err := k.Reload(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Run reloads and rotates until ctx ends. report gets errors; the keys in hand stay in use meanwhile.
func (k *Keyring) Run(ctx context.Context, report func(error)) error {
	tick := time.NewTicker(ReloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := k.Reload(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
	}
}

// Reload reads all keys, and makes a new one when none that we can sign with lasts much longer.
func (k *Keyring) Reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reloadBound)
	defer cancel()
	kept, err := k.store.Rotate(ctx, k.next)
	if err != nil {
		return fmt.Errorf("load signing keys: %w", err)
	}
	keys := make([]ringKey, 0, len(kept))
	for _, s := range kept {
		r := ringKey{SigningKey: s}
		if len(s.Public) != ed25519.PublicKeySize {
			return fmt.Errorf("signing key %s: public half has %d bytes", s.ID, len(s.Public))
		}
		if seed, err := k.sealer.Open(SigningKeyPurpose(s.ID), s.Sealed); err == nil && len(seed) == ed25519.SeedSize {
			if private := ed25519.NewKeyFromSeed(seed); s.Public.Equal(private.Public()) {
				r.private = private
			}
		}
		keys = append(keys, r)
	}
	slices.SortFunc(keys, func(a, b ringKey) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = keys
	return nil
}

// next makes a key when no key that we can sign with lasts longer than the overlap.
func (k *Keyring) next(now time.Time, have []SigningKey) (*SigningKey, error) {
	for _, s := range have {
		_, err := k.sealer.Open(SigningKeyPurpose(s.ID), s.Sealed)
		if err == nil && s.RetiresAt.Sub(now) > keyOverlap {
			return nil, nil
		}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make signing key: %w", err)
	}
	raw := make([]byte, 8)
	_, _ = rand.Read(raw)
	id := hex.EncodeToString(raw)
	return &SigningKey{
		ID: id, Public: public, Sealed: k.sealer.Seal(SigningKeyPurpose(id), private.Seed()),
		CreatedAt: now, RetiresAt: now.Add(KeySigns), ExpiresAt: now.Add(KeySigns + keyLinger),
	}, nil
}

// SigningKeyPurpose is what the private half of a signing key is sealed for.
func SigningKeyPurpose(kid string) string { return "signing key/" + kid }

// signer picks the newest key that signs and that all replicas know; without one, the newest that signs.
func (k *Keyring) signer(now time.Time) (ringKey, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var fresh *ringKey
	for i := range k.keys {
		s := &k.keys[i]
		if s.private == nil || !now.Before(s.RetiresAt) {
			continue
		}
		if now.Sub(s.CreatedAt) >= keySettles {
			return *s, true
		}
		if fresh == nil {
			fresh = s
		}
	}
	if fresh == nil {
		return ringKey{}, false
	}
	return *fresh, true
}

type agentClaims struct {
	Tenant string `json:"tid"`
	jwt.RegisteredClaims
}

// Issue signs a token for the agent of a cluster and says when it ends.
func (k *Keyring) Issue(tenant fleet.TenantID, cluster fleet.ClusterID, now time.Time) (token string, expires time.Time, err error) {
	s, ok := k.signer(now)
	if !ok {
		return "", time.Time{}, fleet.Errorf(fleet.CodeUnavailable, "no signing key at this moment")
	}
	expires = now.Add(TokenTTL).Truncate(time.Second)
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, agentClaims{Tenant: string(tenant), RegisteredClaims: jwt.RegisteredClaims{
		ID: uuid.NewString(), Subject: string(cluster), Issuer: tokenIssuer, Audience: jwt.ClaimStrings{tokenAudience},
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
	}})
	t.Header["kid"] = s.ID
	token, err = t.SignedString(s.private)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign token: %w", err)
	}
	return token, expires, nil
}

// Verify checks a token at now and says whose it is. Every refusal is unauthorized; the reason is in the cause, for the log.
func (k *Keyring) Verify(token string, now time.Time) (Principal, error) {
	claims, err := k.parse(token, now)
	if err != nil {
		return Principal{}, &fleet.Error{Code: fleet.CodeUnauthorized, Message: "the token is not valid", Err: err}
	}
	return Principal{
		Kind: KindAgent, ID: claims.Subject, Name: "agent", Tenant: fleet.TenantID(claims.Tenant), Cluster: fleet.ClusterID(claims.Subject),
	}, nil
}

func (k *Keyring) parse(token string, now time.Time) (*agentClaims, error) {
	if len(token) > maxTokenLen {
		return nil, errors.New("token is too long")
	}
	claims := &agentClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) { return k.verifier(t, now) },
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(tokenIssuer), jwt.WithAudience(tokenAudience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(clockLeeway), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return nil, err
	}
	for _, id := range []string{claims.Tenant, claims.Subject} {
		if u, err := uuid.Parse(id); err != nil || u.String() != id {
			return nil, errors.New("token names no tenant or cluster")
		}
	}
	return claims, nil
}

func (k *Keyring) verifier(t *jwt.Token, now time.Time) (ed25519.PublicKey, error) {
	kid, _ := t.Header["kid"].(string)
	k.mu.RLock()
	defer k.mu.RUnlock()
	for i := range k.keys {
		if k.keys[i].ID == kid && now.Before(k.keys[i].ExpiresAt) {
			return k.keys[i].Public, nil
		}
	}
	return nil, errors.New("token was signed with a key that is not known")
}
