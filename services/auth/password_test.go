package auth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
)

func TestPasswordIsRightOrWrong(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := auth.NewHasher(2)
	stored, err := h.Hash(ctx, "correct horse 电池")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("stored as %q", stored)
	}
	again, err := h.Hash(ctx, "correct horse 电池")
	if err != nil || again == stored {
		t.Errorf("same hash twice, or %v", err)
	}
	for password, want := range map[string]bool{"correct horse 电池": true, "correct horse": false, "": false, "Correct horse 电池": false} {
		got, err := h.Verify(ctx, stored, password)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", password, got, err)
		}
	}
}

func TestAbsentAccountHasNoRightPassword(t *testing.T) {
	t.Parallel()
	h := auth.NewHasher(1)
	for _, password := range []string{"", "x", strings.Repeat("\x00", 32)} {
		if ok, err := h.Verify(context.Background(), "", password); ok || err != nil {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
	}
}

func TestStoredHashOutOfBoundsIsAnError(t *testing.T) {
	t.Parallel()
	h := auth.NewHasher(1)
	const salt, key = "$c2FsdHNhbHRzYWx0", "$a2V5a2V5a2V5a2V5a2V5a2V5"
	for name, stored := range map[string]string{
		"not PHC":         "secret",
		"other algorithm": "$argon2i$v=19$m=19456,t=2,p=1" + salt + key,
		"other version":   "$argon2id$v=16$m=19456,t=2,p=1" + salt + key,
		"too much memory": "$argon2id$v=19$m=4194304,t=2,p=1" + salt + key,
		"too little":      "$argon2id$v=19$m=4,t=2,p=1" + salt + key,
		"no passes":       "$argon2id$v=19$m=19456,t=0,p=1" + salt + key,
		"many passes":     "$argon2id$v=19$m=19456,t=4000000,p=1" + salt + key,
		"no lanes":        "$argon2id$v=19$m=19456,t=2,p=0" + salt + key,
		"short key":       "$argon2id$v=19$m=19456,t=2,p=1" + salt + "$a2V5",
		"no salt":         "$argon2id$v=19$m=19456,t=2,p=1$" + key,
		"not base64":      "$argon2id$v=19$m=19456,t=2,p=1$!!!!!!!!!!!!" + key,
	} {
		if ok, err := h.Verify(context.Background(), stored, "secret"); ok || err == nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func TestHashingGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h := auth.NewHasher(1)
	var wg sync.WaitGroup
	for range 4 { // whoever finds the one slot taken must not wait past the end of the context
		wg.Go(func() {
			_, err := h.Hash(ctx, "correct horse")
			var coded *fleet.Error
			if err != nil && (!errors.As(err, &coded) || coded.Code != fleet.CodeUnavailable) {
				t.Errorf("gave up with %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := h.Hash(context.Background(), "correct horse"); err != nil {
		t.Errorf("the slot was not given back: %v", err)
	}
}

func TestPasswordRules(t *testing.T) {
	t.Parallel()
	for password, ok := range map[string]bool{
		"": false, "short": false, "123456789": false, "1234567890": true, "电池电池电池电池电池": true, "\xff234567890": false,
		strings.Repeat("a", 256): true, strings.Repeat("a", 257): false,
	} {
		if err := auth.CheckPassword(password); (err == nil) != ok {
			t.Errorf("%q: %v", password, err)
		}
	}
}
