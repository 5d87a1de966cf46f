package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/store"
)

// devFlags of `plimsoll dev`.
type devFlags struct {
	port  int
	data  string
	agent string
	trace string
	spot  string
	days  int
	loads int
	speed float64
	seed  uint64
	demo  bool
	reset bool
	log   string
}

// signIn is who may sign in to a development service. It is made at the first start and kept beside the database.
type signIn struct {
	Email     string `json:"email"`
	Password  string `json:"password"`
	SecretKey []byte `json:"secret_key"`
}

func devCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := devFlags{}
	set := flag.NewFlagSet("plimsoll dev", flag.ContinueOnError)
	set.IntVar(&f.port, "port", 8080, "port of the dashboard and API on 127.0.0.1; 0 picks a free one")
	set.StringVar(&f.data, "data", "", "directory of the database and the sign-in (default .data)")
	set.StringVar(&f.agent, "agent", "", "path of the plimsoll-agent binary (default: beside this one)")
	set.StringVar(&f.trace, "trace", "", "recorded traffic for the chat model: Azure LLM CSV or ServeGen rates, plain or .gz")
	set.StringVar(&f.spot, "spot", "", "recorded Spot prices to import instead of made-up ones: CSV, plain or .gz")
	set.IntVar(&f.days, "days", 14, "days of history to play before going live, 0 to 30")
	set.IntVar(&f.loads, "workloads", replay.DemoWorkloads, fmt.Sprintf("workloads of the demo cluster, %d to %d; a large one comes with fewer -days", replay.DemoWorkloads, replay.MaxDemoWorkloads))
	set.Float64Var(&f.speed, "speed", 1, "how fast the demo cluster's time runs, 1 to 600")
	set.Uint64Var(&f.seed, "seed", 1, "seed of the demo cluster")
	set.BoolVar(&f.demo, "demo", true, "run a demo cluster")
	set.BoolVar(&f.reset, "reset", false, "forget the data first")
	set.StringVar(&f.log, "log", "warn", "log level: debug, info, warn, error")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	if f.days < 0 || f.days > 30 {
		return fleet.Errorf(fleet.CodeInvalid, "-days must be 0 to 30")
	}
	if f.loads < replay.DemoWorkloads || f.loads > replay.MaxDemoWorkloads {
		return fleet.Errorf(fleet.CodeInvalid, "-workloads must be %d to %d", replay.DemoWorkloads, replay.MaxDemoWorkloads)
	}
	if most := 30 * 400 / f.loads; f.days > most && f.loads > demoFewWorkloads {
		return fleet.Errorf(fleet.CodeInvalid, "a demo of %d workloads has at most %d days of history; give -days", f.loads, most)
	}
	if f.speed < 1 || f.speed > 600 {
		return fleet.Errorf(fleet.CodeInvalid, "-speed must be 1 to 600")
	}
	if _, err := openTrace(f.trace); err != nil { // before anything is started
		return err
	}
	log, err := newLog(f.log)
	if err != nil {
		return err
	}
	return runDev(ctx, f, log, stdout)
}

// runDev brings everything up in order, prints where it is, waits for the end, and takes it down in reverse.
func runDev(ctx context.Context, f devFlags, log *slog.Logger, stdout io.Writer) error {
	started := time.Now()
	dir, err := dataDir(f)
	if err != nil {
		return err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if f.reset {
		if err := forget(dir); err != nil {
			return err
		}
	}
	keys, err := loadSignIn(filepath.Join(dir, "sign-in.json"))
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "database ...")
	ownerURL, serviceURL, stopDB, err := devDatabase(ctx, dir)
	if err != nil {
		return err
	}
	defer stopDB()
	if err := store.MigrateUp(ctx, ownerURL); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if err != nil {
		return fleet.Errorf(fleet.CodeUnavailable, "port %d of this machine is taken; choose another with -port", f.port)
	}
	base := "http://" + listener.Addr().String()
	cfg := config{databaseURL: serviceURL, publicURL: base, secretKey: keys.SecretKey, log: log,
		webhookAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}} // a developer's own receivers
	// The parts end in their own order after ctx is over: the agent first, then the doors, then the database.
	parts, stopParts := context.WithCancel(context.WithoutCancel(ctx))
	defer stopParts()
	group, parts := errgroup.WithContext(parts)
	demo := &demoSwitch{}
	var control httpapi.DemoControl // nil without a demo cluster: the API then knows no speed
	if f.demo {
		control = demo
	}
	svc, err := newService(parts, cfg, control)
	if err != nil {
		listener.Close()
		return err
	}
	group.Go(func() error { return svc.runJobs(parts) })
	group.Go(func() error { return svc.runDoor(parts, listener) })
	tenant, err := devTenant(ctx, svc.db, keys)
	if err != nil {
		return errors.Join(err, endParts(stopParts, group))
	}
	if f.spot != "" {
		opt := store.SpotWriteOptions{Source: filepath.Base(f.spot), Prices: market.Catalogue()}
		if err := importFile(ctx, svc.db, f.spot, opt, stdout); err != nil {
			return errors.Join(fmt.Errorf("%s: nothing of it was imported: %w", f.spot, err), endParts(stopParts, group))
		}
	}
	if f.demo {
		err = devDemo(ctx, parts, group, f, svc, tenant, dir, base, demo, stdout)
		if err != nil {
			return errors.Join(err, endParts(stopParts, group))
		}
	}
	fmt.Fprintf(stdout, "\nPlimsoll is up after %.0f s\n\n  URL       %s\n  e-mail    %s\n  password  %s\n\nCtrl-C stops it; the data stays in %s\n",
		time.Since(started).Seconds(), base, keys.Email, keys.Password, dir)
	select {
	case <-ctx.Done():
		fmt.Fprintln(stdout, "\nstopping ...")
	case <-parts.Done(): // a part failed
	}
	return endParts(stopParts, group)
}

func endParts(stop context.CancelFunc, group *errgroup.Group) error {
	stop()
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// dataDir is where the database lives: .data below the working directory, or a directory that the database's account can reach
// when the caller is root and its own is closed to others.
func dataDir(f devFlags) (string, error) {
	dir, err := filepath.Abs(or(f.data, ".data"))
	if err != nil {
		return "", fmt.Errorf("find data directory: %w", err)
	}
	if f.data == "" && os.Geteuid() == 0 && !devdb.Traversable(filepath.Dir(dir)) {
		dir = filepath.Join("/var/tmp", "plimsoll-"+hex.EncodeToString([]byte(filepath.Base(filepath.Dir(dir)))))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database's account must traverse it; secrets in it are 0600
		return "", fmt.Errorf("make data directory: %w", err)
	}
	return dir, nil
}

// forget removes what earlier starts left in the directory, but for the lock that is held.
func forget(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil && e.Name() != "lock" {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("forget the data: %w", err)
	}
	return nil
}

func loadSignIn(path string) (signIn, error) {
	var s signIn
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s)
		if err == nil && len(s.SecretKey) == auth.SealKeySize {
			return s, nil
		}
		return s, fleet.Errorf(fleet.CodeInvalid, "%s is damaged; start again with -reset", path)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("read sign-in: %w", err)
	}
	secret := make([]byte, auth.SealKeySize)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	password := make([]byte, 9)
	_, _ = rand.Read(password)
	s = signIn{Email: "demo@plimsoll.local", Password: base64.RawURLEncoding.EncodeToString(password), SecretKey: secret}
	if data, err = json.Marshal(s); err == nil { //nolint:gosec // kept for the next start, for this account only
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return s, fmt.Errorf("keep sign-in: %w", err)
	}
	return s, nil
}

// devDatabase gives the URLs of a schema owner and of a service role on DATABASE_URL's server or on one started here.
func devDatabase(ctx context.Context, dir string) (owner, service string, stop func(), err error) {
	admin, stop := os.Getenv("DATABASE_URL"), func() {}
	if admin == "" {
		var extra []string
		if p := os.Getenv("PLIMSOLL_PG_BINDIR"); p != "" {
			extra = append(extra, p)
		}
		server, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "pg"), BinDirs: extra, Durable: true})
		if err != nil {
			return "", "", nil, err
		}
		admin, stop = server.URL, server.Stop
	}
	owner, service, err = prepareDatabase(ctx, admin)
	if err != nil {
		stop()
		return "", "", nil, err
	}
	return owner, service, stop, nil
}

const (
	devDatabaseName = "plimsoll"
	devServiceRole  = "plimsoll_dev"
)

// prepareDatabase makes the database and the login of the service, if they are missing.
func prepareDatabase(ctx context.Context, admin string) (owner, service string, err error) {
	u, err := url.Parse(admin)
	if err != nil {
		return "", "", fleet.Errorf(fleet.CodeInvalid, "DATABASE_URL is not a URL such as postgres://user@host:5432/postgres")
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return "", "", fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Close(ctx)
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", devDatabaseName).Scan(&exists); err != nil {
		return "", "", fmt.Errorf("look for the database: %w", err)
	}
	if !exists {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+devDatabaseName); err != nil {
			return "", "", fmt.Errorf("create the database: %w", err)
		}
	}
	// The password only matters on servers that ask for one; the server that dev starts listens on loopback and trusts it.
	_, err = conn.Exec(ctx, `DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'plimsoll_service') THEN CREATE ROLE plimsoll_service NOLOGIN NOSUPERUSER NOBYPASSRLS; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '`+devServiceRole+`') THEN
    CREATE ROLE `+devServiceRole+` LOGIN PASSWORD '`+devServiceRole+`' NOSUPERUSER NOBYPASSRLS IN ROLE plimsoll_service; END IF;
END $$`)
	if err != nil {
		return "", "", fmt.Errorf("create the service's role: %w", err)
	}
	u.Path = "/" + devDatabaseName
	owner = u.String()
	u.User = url.UserPassword(devServiceRole, devServiceRole)
	return owner, u.String(), nil
}

// devTenant makes the tenant of a first start.
func devTenant(ctx context.Context, db *store.DB, s signIn) (fleet.TenantID, error) {
	var tenants []fleet.TenantID
	err := db.Global(ctx, func(tx *store.Tx) error {
		user, err := store.UserByEmail(ctx, tx, s.Email)
		if store.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		tenants, err = store.TenantsOf(ctx, tx, user.ID)
		return err
	})
	if err != nil {
		return "", err
	}
	if len(tenants) > 0 {
		return tenants[0], nil
	}
	hash, err := auth.NewHasher(1).Hash(ctx, s.Password)
	if err != nil {
		return "", err
	}
	t, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "Demo", Owner: store.NewUser{Email: s.Email, DisplayName: "Demo owner", PasswordHash: hash}})
	return t.ID, err
}
