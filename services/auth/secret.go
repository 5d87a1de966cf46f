package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
)

// Prefixes tell people and secret scanners what a string is.
const (
	apiKeyPrefix    = "plk_"
	enrolmentPrefix = "ple_"
)

const secretBytes = 32

var secretText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Secret is a new API key or enrolment token. Token is shown once; ID and Hash are kept.
type Secret struct {
	Token string
	ID    string // UUID, derived from the secret so that the token needs no third part
	Hash  []byte // SHA-256; 32 random bytes need no slow hash
	Hint  string // the last four characters, for people
}

// NewAPIKey makes a key of the tenant: "plk_<tenant>_<secret>".
func NewAPIKey(tenant fleet.TenantID) (Secret, error) { return newSecret(apiKeyPrefix, tenant) }

// NewEnrolmentToken makes a token that lets one agent into the tenant: "ple_<tenant>_<secret>".
func NewEnrolmentToken(tenant fleet.TenantID) (Secret, error) {
	return newSecret(enrolmentPrefix, tenant)
}

func newSecret(prefix string, tenant fleet.TenantID) (Secret, error) {
	id, err := uuid.Parse(string(tenant))
	if err != nil {
		return Secret{}, fleet.Errorf(fleet.CodeInvalid, "tenant id is not a UUID")
	}
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails: the runtime ends the process instead
	token := prefix + hex.EncodeToString(id[:]) + "_" + secretText.EncodeToString(raw)
	hash := secretHash(prefix, raw)
	return Secret{Token: token, ID: secretID(prefix, raw), Hash: hash[:], Hint: token[len(token)-4:]}, nil
}

// Presented is a key or token that somebody showed, well-formed but not checked yet.
type Presented struct {
	Tenant fleet.TenantID // where to look it up
	ID     string         // which row to compare with
	hash   [sha256.Size]byte
}

// Matches compares with the kept hash in constant time.
func (p Presented) Matches(hash []byte) bool {
	return subtle.ConstantTimeCompare(p.hash[:], hash) == 1
}

// ParseAPIKey reads an API key. A malformed one is unauthorized.
func ParseAPIKey(token string) (Presented, error) { return parseSecret(apiKeyPrefix, token) }

// ParseEnrolmentToken reads an enrolment token. A malformed one is unauthorized.
func ParseEnrolmentToken(token string) (Presented, error) {
	return parseSecret(enrolmentPrefix, token)
}

func parseSecret(prefix, token string) (Presented, error) {
	refused := fleet.Errorf(fleet.CodeUnauthorized, "the key or token is not valid")
	const tenantLen = 32
	want := len(prefix) + tenantLen + 1 + secretText.EncodedLen(secretBytes)
	if len(token) != want || !strings.HasPrefix(token, prefix) || token[len(prefix)+tenantLen] != '_' {
		return Presented{}, refused
	}
	tenant, err := hex.DecodeString(token[len(prefix) : len(prefix)+tenantLen])
	if err != nil {
		return Presented{}, refused
	}
	raw, err := secretText.DecodeString(token[len(prefix)+tenantLen+1:])
	if err != nil || len(raw) != secretBytes || secretText.EncodeToString(raw) != token[len(prefix)+tenantLen+1:] {
		return Presented{}, refused
	}
	id, err := uuid.FromBytes(tenant)
	if err != nil || id == uuid.Nil {
		return Presented{}, refused
	}
	return Presented{Tenant: fleet.TenantID(id.String()), ID: secretID(prefix, raw), hash: secretHash(prefix, raw)}, nil
}

func secretHash(prefix string, raw []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(prefix), raw...))
}

// secretID is a UUID of version 8 over the secret: unguessable without it, and it gives nothing of it away.
func secretID(prefix string, raw []byte) string {
	sum := sha256.Sum256(append([]byte("plimsoll id "+prefix), raw...))
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
