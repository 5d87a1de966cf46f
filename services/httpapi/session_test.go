package httpapi_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

type me struct {
	Kind   string
	User   *struct{ ID, Email string }
	Key    *struct{ ID, Name string }
	Tenant struct{ ID, Name, Currency string }
	Role   string
	Data   time.Time `json:"data_now"`
	Demo   bool
}

func TestPersonSignsInLooksAroundAndSignsOut(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	in := d.call("POST", "/api/v1/auth/login", map[string]string{"email": " Owner@Harbour.test ", "password": testPassword}).want(t, 200)
	set := in.header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Lax", "Path=/", "Expires="} {
		if !strings.Contains(set, part) {
			t.Errorf("cookie %q lacks %s", set, part)
		}
	}
	if strings.Contains(set, "Secure") {
		t.Errorf("cookie %q cannot work without TLS, which this server has not", set)
	}
	cookie := in.cookie()
	var m me
	d.call("GET", "/api/v1/me", nil, "Cookie", cookie).want(t, 200).into(t, &m)
	if m.Kind != "user" || m.User == nil || m.User.Email != "owner@harbour.test" || m.Tenant.ID != string(d.tenant.ID) || m.Tenant.Currency != "USD" || m.Role != "owner" || m.Demo {
		t.Errorf("me: %+v", m)
	}
	if since := time.Since(m.Data); since > time.Minute || since < -time.Minute {
		t.Errorf("without any cluster data_now is %v", m.Data)
	}
	var kept int
	if err := d.owner.QueryRow(context.Background(), "SELECT count(*) FROM web_session WHERE token = $1", strings.TrimPrefix(cookie, "plimsoll_session=")).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	if kept != 0 {
		t.Error("the session's token is kept as it is")
	}
	out := d.call("POST", "/api/v1/auth/logout", nil, "Cookie", cookie).want(t, 204)
	if !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign-out leaves the cookie: %q", out.header.Get("Set-Cookie"))
	}
	d.call("GET", "/api/v1/me", nil, "Cookie", cookie).want(t, 401)
	d.call("POST", "/api/v1/auth/logout", nil, "Cookie", cookie).want(t, 204) // twice is no error
}

func TestDataNowIsTheNewestClusterTime(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	at := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	d.exec("INSERT INTO cluster (tenant_id, id, name, mode, created_at, data_at) VALUES ($1, gen_random_uuid(), 'a', 'observe', now(), $2), ($1, gen_random_uuid(), 'b', 'observe', now(), NULL)", string(d.tenant.ID), at)
	var m me
	d.with(d.key(d.tenant.ID, auth.RoleViewer), "GET", "/api/v1/me", nil).want(t, 200).into(t, &m)
	if !m.Data.Equal(at) {
		t.Errorf("data_now %v, want %v", m.Data, at)
	}
	if m.Kind != "key" || m.Key == nil || m.User != nil || m.Role != "viewer" {
		t.Errorf("me of a key: %+v", m)
	}
}

func TestWrongSignInsLookAllTheSame(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	ctx := context.Background()
	hash, err := testHash()
	if err != nil {
		t.Fatal(err)
	}
	err = d.db.Tenant(ctx, d.tenant.ID, func(tx *store.Tx) error {
		if _, err := store.AddMember(ctx, tx, store.NewUser{Email: "left@harbour.test", PasswordHash: hash}, "viewer"); err != nil {
			return err
		}
		_, err := store.AddMember(ctx, tx, store.NewUser{Email: "elsewhere@harbour.test"}, "viewer") // has no password here
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d.exec("UPDATE user_account SET disabled_at = now() WHERE email = 'left@harbour.test'")
	first := ""
	for name, body := range map[string]map[string]string{
		"wrong password":   {"email": "owner@harbour.test", "password": "wrong horse battery"},
		"unknown address":  {"email": "nobody@harbour.test", "password": testPassword},
		"disabled account": {"email": "left@harbour.test", "password": testPassword},
		"no password":      {"email": "elsewhere@harbour.test", "password": testPassword},
	} {
		got := d.call("POST", "/api/v1/auth/login", body).want(t, 401)
		if got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got a cookie", name)
		}
		if first == "" {
			first = string(got.body)
		}
		if string(got.body) != first {
			t.Errorf("%s: answer %s differs from %s", name, got.body, first)
		}
	}
}

func TestSessionOfBeforeSignInIsWorthNothing(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	const planted = "plimsoll_session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	fresh := d.call("POST", "/api/v1/auth/login", map[string]string{"email": "owner@harbour.test", "password": testPassword}, "Cookie", planted).want(t, 200).cookie()
	if fresh == planted {
		t.Fatal("the planted token became a session")
	}
	d.call("GET", "/api/v1/me", nil, "Cookie", planted).want(t, 401)
	second := d.call("POST", "/api/v1/auth/login", map[string]string{"email": "owner@harbour.test", "password": testPassword}, "Cookie", fresh).want(t, 200).cookie()
	if second == fresh {
		t.Fatal("signing in again kept the token")
	}
	d.call("GET", "/api/v1/me", nil, "Cookie", fresh).want(t, 401)
	d.call("GET", "/api/v1/me", nil, "Cookie", second).want(t, 200)
}

func TestSessionEndsWithItsTimeItsMemberAndItsPassword(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	ctx := context.Background()
	hash, err := testHash()
	if err != nil {
		t.Fatal(err)
	}
	member := func(email string) store.User {
		t.Helper()
		var u store.User
		err := d.db.Tenant(ctx, d.tenant.ID, func(tx *store.Tx) (err error) {
			u, err = store.AddMember(ctx, tx, store.NewUser{Email: email, PasswordHash: hash}, "operator")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, end := range map[string]func(u store.User){
		"disabled": func(u store.User) { d.exec("UPDATE user_account SET disabled_at = now() WHERE id = $1", string(u.ID)) },
		"removed":  func(u store.User) { d.exec("DELETE FROM membership WHERE user_id = $1", string(u.ID)) },
		"password": func(u store.User) {
			d.exec("UPDATE user_account SET password_hash = $2 WHERE id = $1", string(u.ID), hash+"x")
		},
		"expired": func(store.User) { d.exec("UPDATE web_session SET expires_at = now() - interval '1 second'") },
	} {
		u := member(name + "@harbour.test")
		cookie := d.login(u.Email, testPassword)
		d.call("GET", "/api/v1/me", nil, "Cookie", cookie).want(t, 200)
		end(u)
		if got := d.call("GET", "/api/v1/me", nil, "Cookie", cookie); got.status != 401 {
			t.Errorf("%s: still %d", name, got.status)
		}
	}
	u := member("demoted@harbour.test")
	cookie := d.login(u.Email, testPassword)
	d.call("POST", "/api/v1/clusters", map[string]string{"name": "one"}, "Cookie", cookie).want(t, 201)
	d.exec("UPDATE membership SET role = 'viewer' WHERE user_id = $1", string(u.ID))
	d.call("POST", "/api/v1/clusters", map[string]string{"name": "two"}, "Cookie", cookie).want(t, 403)
}

func TestNewPasswordEndsAllOtherSessions(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	here, there := d.login("owner@harbour.test", testPassword), d.login("owner@harbour.test", testPassword)
	change := func(current, next string) answer {
		return d.call("POST", "/api/v1/auth/password", map[string]string{"current": current, "password": next}, "Cookie", here)
	}
	change("wrong horse battery", "another horse battery").want(t, 422)
	change(testPassword, "short").want(t, 422)
	here = change(testPassword, "another horse battery").want(t, 204).cookie()
	d.call("GET", "/api/v1/me", nil, "Cookie", here).want(t, 200)
	d.call("GET", "/api/v1/me", nil, "Cookie", there).want(t, 401)
	d.call("POST", "/api/v1/auth/login", map[string]string{"email": "owner@harbour.test", "password": testPassword}).want(t, 401)
	d.login("owner@harbour.test", "another horse battery")
	d.with(d.key(d.tenant.ID, auth.RoleAdmin), "POST", "/api/v1/auth/password", map[string]string{"current": "a", "password": "another horse battery"}).want(t, 403)
}

func TestManyWrongPasswordsAreSlowedDown(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	try := func(email, password string) answer {
		return d.call("POST", "/api/v1/auth/login", map[string]string{"email": email, "password": password})
	}
	for range 12 { // success is not counted
		try("owner@harbour.test", testPassword).want(t, 200)
	}
	for i := range 10 {
		try([]string{"owner@harbour.test", " OWNER@harbour.test"}[i%2], "wrong horse battery").want(t, 401)
	}
	got := try("owner@harbour.test", testPassword).want(t, 429)
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 1 || after > 301 {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	try("somebody@harbour.test", testPassword).want(t, 401) // another account is not locked out with it
}

func TestPersonOfTwoTenantsChoosesOne(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	second, _ := d.newTenant("Quay", "owner@harbour.test") // the same account
	third, _ := d.newTenant("Pier", "owner@pier.test")
	login := func(tenant fleet.TenantID) answer {
		body := map[string]string{"email": "owner@harbour.test", "password": testPassword}
		if tenant != "" {
			body["tenant_id"] = string(tenant)
		}
		return d.call("POST", "/api/v1/auth/login", body)
	}
	for asked, want := range map[fleet.TenantID]fleet.TenantID{"": d.tenant.ID, second.ID: second.ID} {
		var m me
		login(asked).want(t, 200).into(t, &m)
		if m.Tenant.ID != string(want) {
			t.Errorf("asked for %q, is in %s", asked, m.Tenant.ID)
		}
	}
	login(third.ID).want(t, 403)
}

func TestBadCredentialsAreRefusedNotIgnored(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	good, revoked, expired := d.key(d.tenant.ID, auth.RoleViewer), d.key(d.tenant.ID, auth.RoleViewer), d.key(d.tenant.ID, auth.RoleViewer)
	for token, set := range map[string]string{revoked: "revoked_at", expired: "expires_at"} {
		shown, err := auth.ParseAPIKey(token)
		if err != nil {
			t.Fatal(err)
		}
		d.exec("UPDATE api_key SET "+set+" = now() - interval '1 second' WHERE id = $1", shown.ID)
	}
	never, err := auth.NewAPIKey(d.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := auth.NewAPIKey("11111111-1111-4111-8111-111111111111")
	if err != nil {
		t.Fatal(err)
	}
	agent, _, err := d.keys.Issue(d.tenant.ID, "22222222-2222-4222-8222-222222222222", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	session := d.login("owner@harbour.test", testPassword)
	d.with(good, "GET", "/api/v1/me", nil).want(t, 200)
	d.call("GET", "/api/v1/me", nil, "Authorization", "bearer "+good).want(t, 200)
	for name, header := range map[string]string{
		"revoked": "Bearer " + revoked, "expired": "Bearer " + expired, "never made": "Bearer " + never.Token, "of no tenant": "Bearer " + elsewhere.Token,
		"an agent's token": "Bearer " + agent, "empty": "Bearer ", "basic": "Basic b3duZXI6cGFzcw==", "bare": good, "junk": "Bearer plk_junk",
	} {
		// Beside a good session: whoever sends a key means it.
		for _, path := range []string{"/api/v1/me", "/api/v1/auth/login"} {
			method := map[string]string{"/api/v1/me": http.MethodGet, "/api/v1/auth/login": http.MethodPost}[path]
			got := d.call(method, path, nil, "Authorization", header, "Cookie", session)
			if got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s at %s: %d %s", name, path, got.status, got.body)
			}
			got.problem(t)
		}
	}
}

func TestEachPrincipalHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{requestsPerMinute: 5})
	a, b := d.key(d.tenant.ID, auth.RoleViewer), d.key(d.tenant.ID, auth.RoleViewer)
	for range 5 {
		d.with(a, "GET", "/api/v1/me", nil).want(t, 200)
	}
	got := d.with(a, "GET", "/api/v1/me", nil).want(t, 429)
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	d.with(b, "GET", "/api/v1/me", nil).want(t, 200)
	d.call("GET", "/api/v1/me", nil).want(t, 401)
}

func TestOtherSitesCannotMakeABrowserWrite(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	cookie := d.login("owner@harbour.test", testPassword)
	body := map[string]string{"name": "planted"}
	d.call("POST", "/api/v1/clusters", body, "Cookie", cookie, "Sec-Fetch-Site", "cross-site").want(t, 403)
	d.call("POST", "/api/v1/clusters", body, "Cookie", cookie, "Origin", "https://evil.test").want(t, 403)
	d.call("POST", "/api/v1/clusters", body, "Cookie", cookie, "Sec-Fetch-Site", "same-origin").want(t, 201)
}

func TestBehindTLSCookiesAreSecureAndThePublicOriginIsOurs(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{publicURL: "https://plimsoll.test"})
	in := d.call("POST", "/api/v1/auth/login", map[string]string{"email": "owner@harbour.test", "password": testPassword}, "Origin", "https://plimsoll.test").want(t, 200)
	if !strings.Contains(in.header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("cookie %q", in.header.Get("Set-Cookie"))
	}
	d.call("POST", "/api/v1/auth/logout", nil, "Origin", "https://plimsoll.test.evil.test").want(t, 403)
}
