package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/jobs"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

func TestOldKeysFromTheEnvironment(t *testing.T) {
	t.Parallel()
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	text := func(k []byte) string { return base64.StdEncoding.EncodeToString(k) }
	for name, c := range map[string]struct {
		text string
		want [][]byte
		says string
	}{
		"none":                       {"", nil, ""},
		"two, with spaces and lines": {" " + text(one) + ",\n" + text(two) + ",", [][]byte{one, two}, ""},
		"one that is too short":      {text(one) + "," + text(two[:16]), nil, "key 2 is not 32 bytes"},
		"a word":                     {"hunter2", nil, "key 1 is not 32 bytes"},
		"too many":                   {strings.Repeat(text(one)+",", 17), nil, "more than 16"},
	} {
		got, err := readOldKeys(c.text)
		if c.says == "" && (err != nil || len(got) != len(c.want)) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %d keys, %v", name, len(got), err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error quotes the key", name)
		}
		for i := range got {
			if c.says == "" && !bytes.Equal(got[i], c.want[i]) {
				t.Errorf("%s: key %d differs", name, i+1)
			}
		}
	}
}

func TestSecretsResealSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, _ := marketDB(t)
	tenant, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "t", Owner: store.NewUser{Email: "o@example.com", DisplayName: "o", PasswordHash: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	sealer := func(keys ...byte) *auth.Sealer {
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
	id := uuid.NewString()
	err = db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error {
		return store.InsertWebhook(ctx, tx, store.Webhook{ID: id, Name: "w", URL: "https://example.com", SealedSecret: sealer(1).Seal(notify.SecretPurpose(tenant.ID, id), []byte("s"))})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		keys   []byte
		fails  bool
		saying string
	}{
		{"without the old key nothing is touched", []byte{2}, true, "1 that no given key opens"},
		{"with it the value is sealed anew", []byte{2, 1}, false, "1 sealed anew now"},
		{"then the old key is needed no more", []byte{2}, false, "1 with the key in force already"},
	} {
		var out bytes.Buffer
		err := reseal(ctx, &jobs.Reseal{DB: db, Secrets: sealer(step.keys...), Log: slog.New(slog.DiscardHandler)}, &out)
		if (err != nil) != step.fails || !strings.Contains(out.String(), step.saying) {
			t.Errorf("%s: %q, %v", step.name, out.String(), err)
		}
	}
}
