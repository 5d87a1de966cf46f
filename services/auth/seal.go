package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// SealKeySize is the size of a sealing key in bytes.
const SealKeySize = 32

// A sealed value is: version (1 byte), key id (4 bytes), nonce (12 bytes), AES-256-GCM ciphertext and tag.
const (
	sealVersion = 1
	sealHeader  = 1 + 4
	sealNonce   = 12
)

// Sealer encrypts small secrets at rest with AES-256-GCM. Safe for concurrent use.
type Sealer struct {
	current sealKey
	all     []sealKey
}

type sealKey struct {
	id   [4]byte
	aead cipher.AEAD
}

// NewSealer seals with key and opens what key or one of old sealed, so that the secret can be exchanged without a stop.
func NewSealer(key []byte, old ...[]byte) (*Sealer, error) {
	s := &Sealer{}
	for i, k := range append([][]byte{key}, old...) {
		if len(k) != SealKeySize {
			return nil, fmt.Errorf("sealing key %d has %d bytes, want %d", i, len(k), SealKeySize)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, fmt.Errorf("sealing key %d: %w", i, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("sealing key %d: %w", i, err)
		}
		sum := sha256.Sum256(append([]byte("plimsoll seal key id\x00"), k...))
		s.all = append(s.all, sealKey{id: [4]byte(sum[:4]), aead: aead})
	}
	s.current = s.all[0]
	return s, nil
}

// KeyID names the key that seals: what it sealed has these bytes after the first.
func (s *Sealer) KeyID() []byte { return s.current.id[:] }

// Seal encrypts plain. The purpose is bound in: only Open with the same purpose gives it back, so that a sealed value cannot be
// moved to another row or another use. Name the use and the row, for example "webhook/<tenant>/<id>".
func (s *Sealer) Seal(purpose string, plain []byte) []byte {
	out := make([]byte, 0, sealHeader+sealNonce+len(plain)+s.current.aead.Overhead())
	out = append(out, sealVersion)
	out = append(out, s.current.id[:]...)
	nonce := make([]byte, sealNonce)
	_, _ = rand.Read(nonce) // never fails: the runtime ends the process instead
	out = append(out, nonce...)
	return s.current.aead.Seal(out, nonce, plain, sealedFor(out[:sealHeader], purpose))
}

// Open decrypts what Seal made. It says nothing about why it cannot.
func (s *Sealer) Open(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < sealHeader+sealNonce || sealed[0] != sealVersion {
		return nil, errNotSealed
	}
	id, nonce := [4]byte(sealed[1:sealHeader]), sealed[sealHeader:sealHeader+sealNonce]
	for _, k := range s.all {
		if k.id != id {
			continue
		}
		if plain, err := k.aead.Open(nil, nonce, sealed[sealHeader+sealNonce:], sealedFor(sealed[:sealHeader], purpose)); err == nil {
			return plain, nil
		}
	}
	return nil, errNotSealed
}

var errNotSealed = errors.New("sealed value cannot be opened: other key, other purpose or damaged")

func sealedFor(header []byte, purpose string) []byte {
	return append(append(make([]byte, 0, len(header)+len(purpose)), header...), purpose...)
}
