package auth_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
)

const clusterA fleet.ClusterID = "7d1f0a6c-2b0e-4f6e-9a53-5d2e1c0b9a77"

// memoryKeys is a KeyStore whose clock is data.
type memoryKeys struct {
	mu   sync.Mutex
	now  time.Time
	keys []auth.SigningKey
	err  error
}

func (m *memoryKeys) Rotate(_ context.Context, next func(time.Time, []auth.SigningKey) (*auth.SigningKey, error)) ([]auth.SigningKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	m.keys = slices.DeleteFunc(m.keys, func(k auth.SigningKey) bool { return !k.ExpiresAt.After(m.now) })
	k, err := next(m.now, slices.Clone(m.keys))
	if err != nil {
		return nil, err
	}
	if k != nil {
		m.keys = append(m.keys, *k)
	}
	return slices.Clone(m.keys), nil
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func keyring(t *testing.T, store auth.KeyStore, s *auth.Sealer) *auth.Keyring {
	t.Helper()
	k, err := auth.NewKeyring(context.Background(), store, s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issue(t *testing.T, k *auth.Keyring, now time.Time) (string, time.Time) {
	t.Helper()
	token, expires, err := k.Issue(tenantA, clusterA, now)
	if err != nil {
		t.Fatal(err)
	}
	return token, expires
}

func kid(t *testing.T, token string) string {
	t.Helper()
	parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	id, _ := parsed.Header["kid"].(string)
	return id
}

func TestAgentTokenNamesTenantAndCluster(t *testing.T) {
	t.Parallel()
	k := keyring(t, &memoryKeys{now: start}, sealer(t, 1))
	token, expires := issue(t, k, start)
	p, err := k.Verify(token, start.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Principal{Kind: auth.KindAgent, ID: string(clusterA), Name: "agent", Tenant: tenantA, Cluster: clusterA}
	if p != want || p.Actor() != "agent:"+string(clusterA) {
		t.Errorf("principal %+v", p)
	}
	if !expires.Equal(start.Add(auth.TokenTTL)) {
		t.Errorf("expires %v", expires)
	}
	if p.Role.Allows(auth.RoleViewer) {
		t.Error("an agent may use the people's API")
	}
}

func TestForgedAndForeignTokensAreRefused(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{now: start}
	k := keyring(t, store, sealer(t, 1))
	good, _ := issue(t, k, start)
	id, public := store.keys[0].ID, store.keys[0].Public
	claims := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{"iss": "plimsoll", "aud": "plimsoll-agent", "tid": string(tenantA), "sub": string(clusterA),
			"iat": start.Unix(), "exp": start.Add(time.Hour).Unix()}
		if change != nil {
			change(c)
		}
		return c
	}
	sign := func(method jwt.SigningMethod, key any, header string, c jwt.MapClaims) string {
		token := jwt.NewWithClaims(method, c)
		token.Header["kid"] = header
		s, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seed, err := sealer(t, 1).Open("signing key/"+id, store.keys[0].Sealed)
	if err != nil {
		t.Fatal(err)
	}
	ours := ed25519.NewKeyFromSeed(seed)
	_, foreign, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Verify(sign(jwt.SigningMethodEdDSA, ours, id, claims(nil)), start); err != nil {
		t.Fatalf("the baseline of this test is refused: %v", err)
	}
	cases := map[string]string{
		"none":                      sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, id, claims(nil)),
		"HS256 with the public key": sign(jwt.SigningMethodHS256, []byte(public), id, claims(nil)),
		"foreign key, our kid":      sign(jwt.SigningMethodEdDSA, foreign, id, claims(nil)),
		"our key, foreign kid":      sign(jwt.SigningMethodEdDSA, ours, "0000000000000000", claims(nil)),
		"our key, no kid":           sign(jwt.SigningMethodEdDSA, ours, "", claims(nil)),
		"expired":                   sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { c["exp"] = start.Add(-time.Minute).Unix() })),
		"no expiry":                 sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { delete(c, "exp") })),
		"from the future":           sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { c["iat"] = start.Add(time.Hour).Unix() })),
		"other issuer":              sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { c["iss"] = "other" })),
		"other audience":            sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { c["aud"] = "other" })),
		"no tenant":                 sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { delete(c, "tid") })),
		"tenant not a UUID":         sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { c["tid"] = "'; DROP TABLE tenant" })),
		"no cluster":                sign(jwt.SigningMethodEdDSA, ours, id, claims(func(c jwt.MapClaims) { delete(c, "sub") })),
		"payload exchanged":         exchange(good, sign(jwt.SigningMethodEdDSA, foreign, id, claims(func(c jwt.MapClaims) { c["sub"] = string(tenantA) }))),
		"cut":                       good[:len(good)-2],
		"empty":                     "",
		"an API key":                "plk_x",
		"huge":                      strings.Repeat("a", 1<<20),
	}
	for name, token := range cases {
		p, err := k.Verify(token, start)
		var coded *fleet.Error
		if !errors.As(err, &coded) || coded.Code != fleet.CodeUnauthorized || p != (auth.Principal{}) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// exchange puts the claims of one token under the signature of another.
func exchange(signed, claims string) string {
	a, b := strings.Split(signed, "."), strings.Split(claims, ".")
	return a[0] + "." + b[1] + "." + a[2]
}

func TestTokenEndsWithItsTime(t *testing.T) {
	t.Parallel()
	k := keyring(t, &memoryKeys{now: start}, sealer(t, 1))
	token, expires := issue(t, k, start)
	if _, err := k.Verify(token, expires.Add(-time.Second)); err != nil {
		t.Errorf("a second before the end: %v", err)
	}
	if _, err := k.Verify(token, expires.Add(time.Minute)); err == nil {
		t.Error("accepted a minute after the end")
	}
}

func TestKeysRotateWithoutRefusingAnyLiveToken(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{now: start}
	signer, checker := keyring(t, store, sealer(t, 1)), keyring(t, store, sealer(t, 1))
	type live struct {
		token   string
		expires time.Time
	}
	var tokens []live
	kids := map[string]bool{}
	for now := start; now.Before(start.Add(100 * 24 * time.Hour)); now = now.Add(20 * time.Minute) {
		store.mu.Lock()
		store.now = now
		store.mu.Unlock()
		// The two replicas reload at different moments.
		if err := signer.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		token, expires := issue(t, signer, now)
		tokens = append(tokens, live{token, expires})
		kids[kid(t, token)] = true
		for _, l := range tokens {
			if _, err := checker.Verify(l.token, now); err != nil {
				t.Fatalf("at %v a token that ends at %v is refused by the other replica: %v", now, l.expires, err)
			}
		}
		if err := checker.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		tokens = slices.DeleteFunc(tokens, func(l live) bool { return l.expires.Before(now.Add(20 * time.Minute)) })
	}
	if len(kids) != 4 {
		t.Errorf("%d keys signed in 100 days, want 4", len(kids))
	}
	if len(store.keys) > 2 {
		t.Errorf("%d keys are kept", len(store.keys))
	}
}

func TestReplicasStartingAtOnceShareOneKey(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{now: start}
	rings := make([]*auth.Keyring, 8)
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			var err error
			if rings[i], err = auth.NewKeyring(context.Background(), store, sealer(t, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(store.keys) != 1 {
		t.Fatalf("%d keys were made", len(store.keys))
	}
	for i, from := range rings {
		token, _ := issue(t, from, start)
		for j, to := range rings {
			if _, err := to.Verify(token, start); err != nil {
				t.Errorf("token of replica %d at replica %d: %v", i, j, err)
			}
		}
	}
}

func TestAnExpiredKeyVerifiesNoMore(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{now: start}
	k := keyring(t, store, sealer(t, 1))
	gone := store.keys[0].ExpiresAt
	// A token that would live longer than its key: only a stolen key makes one.
	seed, err := sealer(t, 1).Open("signing key/"+store.keys[0].ID, store.keys[0].Sealed)
	if err != nil {
		t.Fatal(err)
	}
	long := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "plimsoll", "aud": "plimsoll-agent", "tid": string(tenantA),
		"sub": string(clusterA), "exp": gone.Add(time.Hour).Unix()})
	long.Header["kid"] = store.keys[0].ID
	token, err := long.SignedString(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Verify(token, gone.Add(-time.Second)); err != nil {
		t.Errorf("just before the key's end: %v", err)
	}
	if _, err := k.Verify(token, gone); err == nil {
		t.Error("accepted after the key's end")
	}
	if _, _, err := k.Issue(tenantA, clusterA, gone); err == nil {
		t.Error("signed with an expired key")
	}
}

func TestKeySealedWithALostSecretStillVerifies(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{now: start}
	token, _ := issue(t, keyring(t, store, sealer(t, 1)), start)
	k := keyring(t, store, sealer(t, 2))
	if len(store.keys) != 2 {
		t.Fatalf("%d keys, want a new one beside the one that cannot be opened", len(store.keys))
	}
	if _, err := k.Verify(token, start); err != nil {
		t.Errorf("token of the old secret: %v", err)
	}
	fresh, _ := issue(t, k, start)
	if kid(t, fresh) == kid(t, token) {
		t.Error("signed with a key that cannot be opened")
	}
}

func TestFailedReloadKeepsTheKeysInHand(t *testing.T) {
	t.Parallel()
	store := &memoryKeys{now: start}
	k := keyring(t, store, sealer(t, 1))
	token, _ := issue(t, k, start)
	store.err = errors.New("database away")
	if err := k.Reload(context.Background()); err == nil {
		t.Error("reload hides its error")
	}
	if _, err := k.Verify(token, start); err != nil {
		t.Errorf("keys were lost: %v", err)
	}
	if _, err := auth.NewKeyring(context.Background(), store, sealer(t, 1)); err == nil {
		t.Error("started without keys")
	}
}
