package auth_test

import (
	"bytes"
	"testing"

	"plimsoll.dev/services/auth"
)

func sealer(t *testing.T, keys ...byte) *auth.Sealer {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, auth.SealKeySize))
	}
	s, err := auth.NewSealer(all[0], all[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealedValueOpensForItsPurposeOnly(t *testing.T) {
	t.Parallel()
	s := sealer(t, 1)
	for _, plain := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("secret"), 1000)} {
		sealed := s.Seal("webhook/a", plain)
		if len(plain) > 1 && bytes.Contains(sealed, plain) {
			t.Fatal("sealed value shows the plain one")
		}
		got, err := s.Open("webhook/a", sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %q, %v", got, err)
		}
		if _, err := s.Open("webhook/b", sealed); err == nil {
			t.Error("opened for another purpose")
		}
		if bytes.Equal(sealed, s.Seal("webhook/a", plain)) {
			t.Error("sealing twice gave the same bytes")
		}
	}
}

func TestDamagedSealedValueIsRefused(t *testing.T) {
	t.Parallel()
	s := sealer(t, 1)
	sealed := s.Seal("p", []byte("secret"))
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := s.Open("p", bad); err == nil {
			t.Errorf("opened with byte %d changed", i)
		}
	}
	for n := range sealed {
		if _, err := s.Open("p", sealed[:n]); err == nil {
			t.Errorf("opened when cut to %d bytes", n)
		}
	}
}

func TestSealingKeyCanBeExchanged(t *testing.T) {
	t.Parallel()
	before, during, after := sealer(t, 1), sealer(t, 2, 1), sealer(t, 2)
	old := before.Seal("p", []byte("secret"))
	if got, err := during.Open("p", old); err != nil || string(got) != "secret" {
		t.Fatalf("new key with the old one beside it: %q, %v", got, err)
	}
	if _, err := after.Open("p", old); err == nil {
		t.Error("opened without the old key")
	}
	if got, err := after.Open("p", during.Seal("p", []byte("secret"))); err != nil || string(got) != "secret" {
		t.Errorf("sealed during the exchange: %q, %v", got, err)
	}
}

func TestSealingKeyHasTheRightSize(t *testing.T) {
	t.Parallel()
	good := make([]byte, 32)
	for _, keys := range [][][]byte{{nil}, {make([]byte, 16)}, {make([]byte, 33)}, {good, make([]byte, 31)}} {
		if _, err := auth.NewSealer(keys[0], keys[1:]...); err == nil {
			t.Errorf("took keys of %d", len(keys[len(keys)-1]))
		}
	}
}
