package auth_test

import (
	"strings"
	"testing"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
)

const tenantA fleet.TenantID = "0b8f7a4e-51b2-4c61-8f5e-0a4c6a1f3d10"

func TestAPIKeyLeadsToItsTenantAndRow(t *testing.T) {
	t.Parallel()
	secret, err := auth.NewAPIKey(tenantA)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := auth.ParseAPIKey(secret.Token)
	if err != nil {
		t.Fatal(err)
	}
	if shown.Tenant != tenantA || shown.ID != secret.ID || !shown.Matches(secret.Hash) {
		t.Errorf("shown %+v for %+v", shown, secret)
	}
	if !strings.HasSuffix(secret.Token, secret.Hint) || len(secret.Hint) != 4 {
		t.Errorf("hint %q of %q", secret.Hint, secret.Token)
	}
	other, err := auth.NewAPIKey(tenantA)
	if err != nil {
		t.Fatal(err)
	}
	if other.Token == secret.Token || other.ID == secret.ID || shown.Matches(other.Hash) || shown.Matches(nil) {
		t.Error("two keys are not told apart")
	}
}

func TestKeysAndEnrolmentTokensDoNotStandInForEachOther(t *testing.T) {
	t.Parallel()
	key, err := auth.NewAPIKey(tenantA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.ParseEnrolmentToken(key.Token); err == nil {
		t.Error("an API key was read as an enrolment token")
	}
	relabelled := "ple_" + strings.TrimPrefix(key.Token, "plk_")
	shown, err := auth.ParseEnrolmentToken(relabelled)
	if err != nil {
		t.Fatal(err)
	}
	if shown.Matches(key.Hash) || shown.ID == key.ID {
		t.Error("a relabelled API key matches as an enrolment token")
	}
}

func TestMalformedKeysAreUnauthorized(t *testing.T) {
	t.Parallel()
	good, err := auth.NewAPIKey(tenantA)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"empty":                 "",
		"prefix only":           "plk_",
		"one character short":   good.Token[:len(good.Token)-1],
		"one character long":    good.Token + "a",
		"upper case":            strings.ToUpper(good.Token),
		"no tenant":             "plk_" + strings.Repeat("0", 32) + good.Token[36:],
		"tenant not hex":        "plk_" + strings.Repeat("z", 32) + good.Token[36:],
		"secret not base32":     good.Token[:len(good.Token)-1] + "1",
		"other separator":       good.Token[:36] + "-" + good.Token[37:],
		"spare bits of base32":  good.Token[:len(good.Token)-1] + "b",
		"a JWT":                 "eyJhbGciOiJub25lIn0.e30.",
		"newline in the secret": good.Token[:40] + "\n" + good.Token[41:],
	}
	for name, token := range cases {
		if shown, err := auth.ParseAPIKey(token); err == nil {
			t.Errorf("%s: took %q as %+v", name, token, shown)
		}
	}
	if _, err := auth.NewAPIKey("nobody"); err == nil {
		t.Error("made a key for no tenant")
	}
}

func FuzzParseAPIKey(f *testing.F) {
	good, err := auth.NewAPIKey(tenantA)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.Token)
	f.Add("plk_" + strings.Repeat("0", 32) + "_" + strings.Repeat("a", 52))
	f.Fuzz(func(t *testing.T, token string) {
		shown, err := auth.ParseAPIKey(token)
		if err == nil && (len(shown.Tenant) != 36 || len(shown.ID) != 36 || token != strings.ToValidUTF8(token, "")) {
			t.Errorf("took %q as %+v", token, shown)
		}
	})
}
