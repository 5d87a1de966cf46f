package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/jobs"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// service is the wired product: one database, the doors on it.
type service struct {
	cfg      config
	db       *store.DB
	keys     *auth.Keyring
	registry *prometheus.Registry
	sealer   *auth.Sealer
	queue    *jobs.Enqueuer
	prices   *store.PriceBook
	clouds   clouds
	door     *httpapi.Server // made by runDoor's caller
}

// newService connects and wires; nothing runs before runDoor and runJobs. demo is nil outside dev.
func newService(ctx context.Context, cfg config, demo httpapi.DemoControl) (*service, error) {
	db, err := store.Open(ctx, cfg.databaseURL, store.Options{MaxConns: 40})
	if err != nil {
		return nil, err
	}
	s := &service{cfg: cfg, db: db, registry: prometheus.NewRegistry(), prices: store.NewPriceBook(db, market.Catalogue()), clouds: cfg.clouds}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.sealer, err = auth.NewSealer(cfg.secretKey, cfg.oldKeys...); err != nil {
		return nil, err
	}
	if s.keys, err = auth.NewKeyring(ctx, httpapi.SigningKeys(db), s.sealer); err != nil {
		return nil, err
	}
	if s.queue, err = jobs.NewEnqueuer(db, cfg.log); err != nil {
		return nil, err
	}
	dashboard, err := dashboardFiles()
	if err != nil {
		return nil, err
	}
	s.door = httpapi.New(httpapi.Config{Version: version(), PublicURL: cfg.publicURL, Dashboard: dashboard, TrustedProxies: cfg.trustedProxies, EnrolmentsPerMinute: cfg.enrolments}, httpapi.Deps{
		DB: db, Queue: s.queue, Keys: s.keys, Sealer: s.sealer, Log: cfg.log, Registry: s.registry, Demo: demo,
		Addresses: notify.New(notify.Config{Allow: cfg.webhookAllow}), Prices: s.prices.Book, Clouds: s.clouds,
	})
	return s, nil
}

// runDoor serves HTTP until ctx ends: streams are told first, requests get ten seconds.
func (s *service) runDoor(ctx context.Context, listener net.Listener) error {
	server := httpapi.NewHTTPServer(s.door.Handler())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error { return s.door.Run(ctx) })
	group.Go(func() error { return s.runPrices(ctx) })
	group.Go(func() error {
		return s.keys.Run(ctx, func(err error) { s.cfg.log.Error("signing keys were not reloaded", "error", err) })
	})
	group.Go(func() error {
		<-ctx.Done()
		s.door.Close()
		soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(soft); err != nil {
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}

// runPrices keeps the book of prices as fresh as what was read from the clouds. One runs per process.
func (s *service) runPrices(ctx context.Context) error {
	return s.prices.Run(ctx, func(err error) { s.cfg.log.Error("prices were not reloaded", "error", err) })
}

// runJobs works on the queue until ctx ends.
func (s *service) runJobs(ctx context.Context) error {
	client, err := jobs.New(jobs.Config{SpotKeepYears: s.cfg.spotKeepYears, PublicURL: s.cfg.publicURL}, jobs.Deps{
		DB: s.db, Prices: s.prices.Book, Secrets: s.sealer, Log: s.cfg.log, Registry: s.registry,
		Sources: s.clouds.Open,
		Groups:  s.clouds.OpenGroups,
		Sender:  notify.New(notify.Config{Allow: s.cfg.webhookAllow, Agent: "Plimsoll/" + version()}),
		Mailer:  s.cfg.mailer,
	})
	if err != nil {
		return err
	}
	return client.Run(ctx)
}

func serveCommand(ctx context.Context, args []string, _, stderr io.Writer) error {
	if err := parse(flag.NewFlagSet("plimsoll serve", flag.ContinueOnError), args, stderr, 0); err != nil {
		return err
	}
	cfg, err := configFromEnv()
	if err != nil {
		return err
	}
	s, err := newService(ctx, cfg, nil)
	if err != nil {
		return err
	}
	defer s.db.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return fleet.Errorf(fleet.CodeUnavailable, "cannot listen on %s: %v", cfg.listen, err)
	}
	cfg.log.Info("serving", "listen", listener.Addr().String(), "version", version())
	return s.runDoor(ctx, listener)
}

// workerCommand runs the jobs, with health and metrics on PLIMSOLL_LISTEN.
func workerCommand(ctx context.Context, args []string, _, stderr io.Writer) error {
	if err := parse(flag.NewFlagSet("plimsoll worker", flag.ContinueOnError), args, stderr, 0); err != nil {
		return err
	}
	cfg, err := configFromEnv()
	if err != nil {
		return err
	}
	s, err := newService(ctx, cfg, nil)
	if err != nil {
		return err
	}
	defer s.db.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return fleet.Errorf(fleet.CodeUnavailable, "cannot listen on %s: %v", cfg.listen, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.runJobs(ctx) })
	group.Go(func() error { return s.runPrices(ctx) })
	server := httpapi.NewHTTPServer(s.door.Health())
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve health: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	cfg.log.Info("working", "listen", listener.Addr().String(), "version", version())
	return group.Wait()
}

// dashboardFiles are the built web files inside this binary, or those in PLIMSOLL_DASHBOARD_DIR; nil when there are none.
func dashboardFiles() (fs.FS, error) {
	if dir := os.Getenv("PLIMSOLL_DASHBOARD_DIR"); dir != "" {
		return os.DirFS(dir), nil
	}
	files, err := fs.Sub(dashboard, "dashboard")
	if err != nil {
		return nil, fmt.Errorf("read dashboard files: %w", err)
	}
	if _, err := fs.Stat(files, "index.html"); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, nil
}
