package devdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Database is a fresh, migrated database of one test.
type Database struct {
	OwnerURL   string // superuser and owner of the schema
	ServiceURL string // the role the service runs under
	Server     *Server
}

var shared struct {
	sync.Mutex
	server   *Server
	admin    string // URL of the maintenance database
	template string
}

// Migrate is how a template gets its schema; store.MigrateUp fits. Passed in so that this package needs no store.
type Migrate func(ctx context.Context, ownerURL string) error

// ForTest returns a database of the test's own, cloned from a template that is migrated once per test process (75 to 95 ms
// each). The server is DATABASE_URL's, or one started for this process. Without any Postgres the test fails: a suite that
// silently skips its database tests proves nothing.
func ForTest(t testing.TB, migrate Migrate) Database {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	shared.Lock()
	defer shared.Unlock()
	if shared.template == "" {
		if err := prepare(ctx, migrate); err != nil {
			t.Fatalf("prepare test database: %v", err)
		}
	}
	name := "t_" + random()
	if err := execute(ctx, shared.admin, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, shared.template)); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	admin := shared.admin
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = execute(ctx, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	return Database{OwnerURL: withDB(admin, name, ""), ServiceURL: withDB(admin, name, serviceUser), Server: shared.server}
}

const serviceUser = "plimsoll_test_service"

func prepare(ctx context.Context, migrate Migrate) error {
	shared.admin = os.Getenv("DATABASE_URL")
	if shared.admin == "" {
		dir, err := os.MkdirTemp(tempRoot(), "plimsoll-test-")
		if err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // an unprivileged account must traverse it
			return err
		}
		s, err := Start(ctx, Config{Dir: filepath.Join(dir, "pg")})
		if err != nil {
			return err
		}
		shared.server, shared.admin = s, s.URL
	}
	template := "tpl_" + random()
	if err := execute(ctx, shared.admin, "CREATE DATABASE "+template); err != nil {
		return err
	}
	if err := migrate(ctx, withDB(shared.admin, template, "")); err != nil {
		return err
	}
	// Several test processes share one server: making the role twice is no error.
	err := execute(ctx, shared.admin, `DO $$ BEGIN CREATE ROLE `+serviceUser+` LOGIN PASSWORD 'test' IN ROLE plimsoll_service;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	if err != nil {
		return err
	}
	shared.template = template
	return nil
}

// Cleanup stops the server that ForTest started and removes its files. Call it at the end of TestMain.
func Cleanup() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return
	}
	shared.server.Stop()
	_ = os.RemoveAll(filepath.Dir(shared.server.cmd.Dir))
	shared.server, shared.template, shared.admin = nil, "", ""
}

// tempRoot is a directory that an unprivileged account can traverse.
func tempRoot() string {
	if os.Geteuid() == 0 {
		return "/var/tmp"
	}
	return ""
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func withDB(base, database, user string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.Path = "/" + database
	if user != "" {
		u.User = url.UserPassword(user, "test")
	}
	return u.String()
}

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b)
	return strings.ToLower(hex.EncodeToString(b))
}
