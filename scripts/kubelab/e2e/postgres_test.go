package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// newDatabase returns two URLs of a fresh database: of the schema's owner, and
// of the service's role, which owns nothing.
func newDatabase(t *testing.T) (owner, service string) {
	t.Helper()
	admin := startPostgres(t)
	sql(t, admin, "CREATE DATABASE plimsoll")
	sql(t, admin, "CREATE ROLE plimsoll_service NOLOGIN NOSUPERUSER NOBYPASSRLS")
	sql(t, admin, "CREATE ROLE plimsoll_app LOGIN PASSWORD 'e2e' IN ROLE plimsoll_service")
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/plimsoll"
	owner = u.String()
	u.User = url.UserPassword("plimsoll_app", "e2e")
	return owner, u.String()
}

// startPostgres runs a throw-away server and returns its superuser's URL.
func startPostgres(t *testing.T) string {
	t.Helper()
	bin := postgresBin(t)
	dir, err := os.MkdirTemp("/var/tmp", "plimsoll-e2e-") // traversable, unlike a home directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // Postgres refuses to run as root
		attr.Credential = unprivileged(t)
		if err := os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "jit=off")
	server.Dir, server.SysProcAttr = dir, &syscall.SysProcAttr{Credential: attr.Credential}
	p := start(t, "postgres", server)
	admin := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	within(t, time.Minute, "postgres answers", func() (bool, string) {
		if !p.alive() {
			t.Fatal(p.tail())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprint(conn.Close(ctx) == nil)
	})
	return admin
}

func postgresBin(t *testing.T) string {
	t.Helper()
	candidates := []string{os.Getenv("PLIMSOLL_PG_BINDIR")}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(initdb))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		found, _ := filepath.Glob(pattern)
		candidates = append(candidates, found...)
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir
		}
	}
	t.Fatal("no Postgres: install postgresql, or set PLIMSOLL_PG_BINDIR")
	return ""
}

func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} { // initdb needs an entry in passwd
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Fatal("neither user postgres nor nobody: run as an unprivileged user")
	return nil
}

func sql(t *testing.T, url, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // it also runs in cleanups
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
