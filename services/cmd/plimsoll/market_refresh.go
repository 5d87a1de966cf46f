package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud/azure"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/jobs"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// marketRefresh reads the cloud accounts of a tenant now, or the prices that Azure shows to everybody.
func marketRefresh(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll market refresh", flag.ContinueOnError)
	tenant := set.String("tenant", "", "id of the tenant whose accounts are read; needs PLIMSOLL_SECRET_KEY too")
	account := set.String("account", "", "id or name of one of its accounts (default: all)")
	regions := set.String("azure-regions", "", "read Azure's public prices of these regions, separated by commas, without an account")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	if (*tenant == "") == (*regions == "") {
		return fleet.Errorf(fleet.CodeInvalid, "say -tenant or -azure-regions")
	}
	if *regions != "" {
		db, err := openMarket(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		list := strings.Split(*regions, ",")
		source, err := azure.New(azure.Config{Regions: list})
		if err != nil {
			return err
		}
		return refreshPublic(ctx, db, source, list, stdout)
	}
	cfg, err := configFromEnv()
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, cfg.databaseURL, store.Options{MaxConns: 4})
	if err != nil {
		return err
	}
	defer db.Close()
	sealer, err := auth.NewSealer(cfg.secretKey, cfg.oldKeys...)
	if err != nil {
		return err
	}
	worker, err := refresher(ctx, db)
	if err != nil {
		return err
	}
	worker.Secrets, worker.Open, worker.Log = sealer, cfg.clouds.Open, cfg.log
	return refreshAccounts(ctx, db, worker, fleet.TenantID(*tenant), *account, stdout)
}

func refresher(ctx context.Context, db *store.DB) (*jobs.Refresh, error) {
	prices := store.NewPriceBook(db, market.Catalogue())
	if err := prices.Reload(ctx); err != nil {
		return nil, err
	}
	return &jobs.Refresh{DB: db, Prices: prices.Book}, nil
}

func refreshAccounts(ctx context.Context, db *store.DB, worker *jobs.Refresh, tenant fleet.TenantID, which string, stdout io.Writer) error {
	var accounts []store.CloudAccount
	err := db.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		accounts, err = store.CloudAccounts(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	found, failed := 0, 0
	for _, a := range accounts {
		if which != "" && a.ID != which && a.Name != which {
			continue
		}
		found++
		done, err := worker.Account(ctx, tenant, a.ID)
		if err != nil {
			failed++
			fmt.Fprintf(stdout, "%s (%s): nothing was changed: %v\n", a.Name, a.Cloud, err)
			continue
		}
		text, err := json.Marshal(done)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		fmt.Fprintf(stdout, "%s (%s): %s\n", a.Name, a.Cloud, text)
	}
	switch {
	case found == 0:
		return fleet.Errorf(fleet.CodeNotFound, "the tenant has no such cloud account")
	case failed > 0:
		return fmt.Errorf("%d of %d accounts were not read", failed, found)
	}
	return nil
}

func refreshPublic(ctx context.Context, db *store.DB, source jobs.PublicPrices, regions []string, stdout io.Writer) error {
	worker, err := refresher(ctx, db)
	if err != nil {
		return err
	}
	var failed []error
	for _, region := range regions {
		region = strings.TrimSpace(region)
		done, err := worker.Public(ctx, fleet.CloudAzure, source, region)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(stdout, "azure %s: %d on-demand prices, %d new; %d Spot prices, %d new; %d not believed\n", region, done.OnDemand, done.OnDemandChanged, done.Spot, done.SpotChanged, done.Doubted)
	}
	return errors.Join(failed...)
}

// marketSources says how fresh each list of prices is.
func marketSources(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if err := parse(flag.NewFlagSet("plimsoll market sources", flag.ContinueOnError), args, stderr, 0); err != nil {
		return err
	}
	db, err := openMarket(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var sources []store.PriceSource
	var now time.Time
	err = db.Global(ctx, func(tx *store.Tx) (err error) {
		now = tx.Now
		sources, err = store.PriceSources(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return printSources(stdout, sources, now)
}

func printSources(out io.Writer, sources []store.PriceSource, now time.Time) error {
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "cloud\tregion\tkind\tage\tlisted\tchanged\tnot believed\twithout a price or left out\tsource")
	for _, s := range sources {
		var skipped []string
		for _, reason := range slices.Sorted(maps.Keys(s.Skipped)) {
			skipped = append(skipped, fmt.Sprintf("%s %d", reason, s.Skipped[reason]))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", s.Cloud, s.Region, s.Kind, now.Sub(s.RefreshedAt).Round(time.Minute), s.Listed, s.Changed, len(s.Doubted), strings.Join(skipped, ", "), s.Source)
	}
	book := market.Catalogue()
	for _, s := range book.Sources() {
		fmt.Fprintf(tw, "%s\tall\t%s\t%s\t\t\t\t\t%s, in this binary\n", s.Cloud, s.Kind, s.Date, s.Name)
	}
	return tw.Flush()
}
