package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"plimsoll.dev/services/fleet"
)

// Cost of one argon2id hash: 19 MiB and two passes, the least that OWASP names; one lane because a server hashes many at once.
const (
	argonMemoryKiB = 19 * 1024
	argonPasses    = 2
	argonLanes     = 1
	argonSalt      = 16
	argonKey       = 32
)

// Bounds of parameters in a stored hash, so that a damaged row cannot take the memory of the machine.
const (
	argonMaxMemoryKiB = 256 * 1024
	argonMaxPasses    = 16
	argonMaxLanes     = 8
)

// Password lengths in characters. The upper bound keeps a request from hashing a book.
const (
	MinPassword = 10
	MaxPassword = 256
)

// CheckPassword says whether a new password may be used.
func CheckPassword(password string) error {
	n := utf8.RuneCountInString(password)
	if n < MinPassword || n > MaxPassword || !utf8.ValidString(password) {
		return &fleet.Error{Code: fleet.CodeInvalid, Field: "body.password",
			Message: fmt.Sprintf("a password has %d to %d characters", MinPassword, MaxPassword)}
	}
	return nil
}

// Hasher hashes and checks passwords, only so many at a time: each takes 19 MiB and a core for tens of milliseconds.
type Hasher struct {
	slots chan struct{}
	decoy string // a hash that no password has, for accounts that do not exist
}

// NewHasher allows concurrent hashes at a time; less than one is one.
func NewHasher(concurrent int) *Hasher {
	h := &Hasher{slots: make(chan struct{}, max(1, concurrent))}
	h.decoy = phc(make([]byte, argonSalt), make([]byte, argonKey))
	return h
}

// Hash returns the PHC string of a password.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails: the runtime ends the process instead
	return phc(salt, argon2.IDKey([]byte(password), salt, argonPasses, argonMemoryKiB, argonLanes, argonKey)), nil
}

// Verify says whether password is the one behind stored. An empty stored hash (no such account, no password) costs the same time
// and is never right, so that answers do not tell which e-mail addresses have accounts.
func (h *Hasher) Verify(ctx context.Context, stored, password string) (bool, error) {
	absent := stored == ""
	if absent {
		stored = h.decoy
	}
	p, err := parsePHC(stored)
	if err != nil {
		return false, fmt.Errorf("stored password hash: %w", err)
	}
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	key := argon2.IDKey([]byte(password), p.salt, p.passes, p.memoryKiB, p.lanes, uint32(len(p.key))) //nolint:gosec // bounded by parsePHC
	return subtle.ConstantTimeCompare(key, p.key) == 1 && !absent, nil
}

func (h *Hasher) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &fleet.Error{Code: fleet.CodeUnavailable, Message: "too many sign-ins at this moment", Err: ctx.Err()}
	}
}

func (h *Hasher) leave() { <-h.slots }

func phc(salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemoryKiB, argonPasses, argonLanes,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

type argonParams struct {
	memoryKiB, passes uint32
	lanes             uint8
	salt, key         []byte
}

var errPHC = errors.New("not an argon2id PHC string within bounds")

func parsePHC(s string) (p argonParams, err error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, errPHC
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memoryKiB, &p.passes, &p.lanes); err != nil {
		return p, errPHC
	}
	if p.memoryKiB < 8*uint32(p.lanes) || p.memoryKiB > argonMaxMemoryKiB || p.passes < 1 || p.passes > argonMaxPasses || p.lanes < 1 || p.lanes > argonMaxLanes {
		return p, errPHC
	}
	p.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil || len(p.salt) < 8 || len(p.salt) > 64 {
		return p, errPHC
	}
	p.key, err = base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(p.key) < 16 || len(p.key) > 64 {
		return p, errPHC
	}
	return p, nil
}
