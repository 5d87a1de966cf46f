package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

func TestMain(m *testing.M) {
	code := m.Run()
	devdb.Cleanup()
	os.Exit(code)
}

const testPassword = "correct horse battery"

// testHash hashes the password once: it is slow on purpose.
var testHash = sync.OnceValues(func() (string, error) { return auth.NewHasher(1).Hash(context.Background(), testPassword) })

// door is a server on a database of its own, with one tenant.
type door struct {
	t      *testing.T
	db     *store.DB
	owner  *pgx.Conn // superuser: sees everything, for arranging and for looking behind
	url    string
	keys   *auth.Keyring
	sealer *auth.Sealer
	tenant store.Tenant
	user   store.User
}

type doorOptions struct {
	requestsPerMinute int
	demo              httpapi.DemoControl
	dashboard         fs.FS
	queue             httpapi.Queue
	publicURL         string
	trustedProxies    []netip.Prefix
	clouds            httpapi.CloudChecker
}

func openDoor(t *testing.T, opt doorOptions) *door {
	t.Helper()
	ctx := context.Background()
	d := &door{t: t}
	database := devdb.ForTest(t, store.MigrateUp)
	var err error
	if d.db, err = store.Open(ctx, database.ServiceURL, store.Options{MaxConns: 6}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.db.Close)
	if d.owner, err = pgx.Connect(ctx, database.OwnerURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.owner.Close(ctx) })
	if d.sealer, err = auth.NewSealer(make([]byte, auth.SealKeySize)); err != nil {
		t.Fatal(err)
	}
	if d.keys, err = auth.NewKeyring(ctx, httpapi.SigningKeys(d.db), d.sealer); err != nil {
		t.Fatal(err)
	}
	server := httpapi.New(httpapi.Config{Version: "test", PublicURL: opt.publicURL, Dashboard: opt.dashboard, RequestsPerMinute: opt.requestsPerMinute, TrustedProxies: opt.trustedProxies}, httpapi.Deps{
		DB: d.db, Keys: d.keys, Sealer: d.sealer, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: prometheus.NewRegistry(), Demo: opt.demo, Queue: opt.queue, Clouds: opt.clouds,
	})
	listener := httptest.NewServer(server.Handler())
	d.url = listener.URL
	t.Cleanup(func() { server.Close(); listener.Close() })
	d.tenant, d.user = d.newTenant("Harbour", "owner@harbour.test")
	return d
}

func (d *door) newTenant(name, email string) (store.Tenant, store.User) {
	d.t.Helper()
	hash, err := testHash()
	if err != nil {
		d.t.Fatal(err)
	}
	tenant, user, err := d.db.CreateTenant(context.Background(), store.NewTenant{Name: name, Owner: store.NewUser{Email: email, DisplayName: name + " owner", PasswordHash: hash}})
	if err != nil {
		d.t.Fatal(err)
	}
	return tenant, user
}

// key makes an API key of a role.
func (d *door) key(tenant fleet.TenantID, role auth.Role) string {
	d.t.Helper()
	secret, err := auth.NewAPIKey(tenant)
	if err != nil {
		d.t.Fatal(err)
	}
	err = d.db.Tenant(context.Background(), tenant, func(tx *store.Tx) error {
		return store.CreateAPIKey(context.Background(), tx, store.APIKey{ID: secret.ID, Name: "test " + string(role), Hash: secret.Hash, Hint: secret.Hint, Role: string(role)})
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return secret.Token
}

// exec runs SQL as the owner of the schema.
func (d *door) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.owner.Exec(context.Background(), sql, args...); err != nil {
		d.t.Fatal(err)
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into reads the body as JSON.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// want stops the test unless the status is right; a refusal has to be a problem.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	a.problem(t)
	return a
}

// problem checks that a refusal is an RFC 9457 problem.
func (a answer) problem(t *testing.T) {
	t.Helper()
	if a.status < 400 {
		return
	}
	var p struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(a.body, &p); err != nil || p.Status != a.status || p.Title == "" || p.Detail == "" || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("status %d is not a problem: %s %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if bytes.Contains(a.body, []byte("SQLSTATE")) || bytes.Contains(a.body, []byte("pgx")) {
		t.Errorf("shows internals: %s", a.body)
	}
}

func (a answer) cookie() string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "plimsoll_session" {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// call makes a request. body is JSON text, or marshalled unless nil; headers come in pairs.
func (d *door) call(method, path string, body any, headers ...string) answer {
	d.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			d.t.Fatal(err)
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, d.url+path, r)
	if err != nil {
		d.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, text}
}

// with calls with an API key.
func (d *door) with(key, method, path string, body any) answer {
	d.t.Helper()
	return d.call(method, path, body, "Authorization", "Bearer "+key)
}

// login signs in and returns the cookie.
func (d *door) login(email, password string) string {
	d.t.Helper()
	c := d.call("POST", "/api/v1/auth/login", map[string]string{"email": email, "password": password}).want(d.t, 200).cookie()
	if c == "" {
		d.t.Fatal("no session cookie")
	}
	return c
}
