package jobs

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// PriceSource reads one account at a cloud. Each list is complete or an error.
type PriceSource interface {
	InstanceTypes(ctx context.Context, region string) (cloud.List[cloud.InstanceType], error)
	OnDemandPrices(ctx context.Context, region string) (cloud.List[cloud.Price], error)
	SpotPrices(ctx context.Context, region string, since time.Time) (cloud.List[cloud.SpotPrice], error)
	Commitments(ctx context.Context) (cloud.List[cloud.Commitment], error)
	CapacityReservations(ctx context.Context) (cloud.List[cloud.Capacity], error)
}

// SourceOpener makes a PriceSource of an account's access; no call is made before its first list.
type SourceOpener func(ctx context.Context, access cloud.Access) (PriceSource, error)

// noSources refuses, with words that the account then shows.
func noSources(context.Context, cloud.Access) (PriceSource, error) {
	return nil, fleet.Errorf(fleet.CodeUnavailable, "this installation does not read cloud accounts")
}

// RefreshArgs asks to read an account at a cloud.
type RefreshArgs struct {
	Tenant  fleet.TenantID `json:"tenant" river:"unique"`
	Account string         `json:"account" river:"unique"`
}

// Kind implements river.JobArgs.
func (RefreshArgs) Kind() string { return "refresh_market" }

// InsertOpts implements river.JobArgsWithInsertOpts: one job per account waits or runs at a time. A failure is noted with the account,
// which says when to try again; the queue does not.
func (RefreshArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueDeliver, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const (
	// refreshEvery is how long after a refresh an account is read again, give or take a tenth.
	refreshEvery = time.Hour
	// onDemandEvery is how old a region's price list may be before it is read again, by whichever account is next.
	onDemandEvery = 12 * time.Hour
	// spotEvery likewise.
	spotEvery = 50 * time.Minute
	// spotBack is how far back the first look at a region's Spot prices goes; spotOverlap is what later ones read again.
	spotBack    = 7 * 24 * time.Hour
	spotOverlap = 2 * time.Hour
	// refreshDeadline of one account, all regions.
	refreshDeadline = 30 * time.Minute
	// alertAfter failures in a row somebody is told.
	alertAfter = 3
	// The first retry comes after retryFirst, each later one after twice as long, at most after retryMost.
	retryFirst = 2 * time.Minute
	retryMost  = 4 * time.Hour
)

// Refresh reads accounts at clouds. What one reading brings is written in one transaction, all of it or nothing.
type Refresh struct {
	river.WorkerDefaults[RefreshArgs]
	DB      *store.DB
	Secrets Opener
	Open    SourceOpener
	Prices  func() *market.PriceBook
	Log     *slog.Logger
}

// Timeout of one job.
func (*Refresh) Timeout(*river.Job[RefreshArgs]) time.Duration { return refreshDeadline + time.Minute }

// Work implements river.Worker.
func (w *Refresh) Work(ctx context.Context, job *river.Job[RefreshArgs]) error {
	_, err := w.Account(ctx, job.Args.Tenant, job.Args.Account)
	return err
}

// Refreshed counts what a refresh brought.
type Refreshed struct {
	OnDemand           int            `json:"on_demand_prices"`
	OnDemandChanged    int            `json:"on_demand_changed"`
	Doubted            int            `json:"doubted"`
	Spot               int            `json:"spot_prices"`
	SpotChanged        int            `json:"spot_changed"`
	Machines           int            `json:"machines"`
	Commitments        int            `json:"commitments"`
	CommitmentsSkipped int            `json:"commitments_skipped"`
	CommitmentsEnded   int            `json:"commitments_ended"`
	Reservations       int            `json:"capacity_reservations"`
	Skipped            map[string]int `json:"skipped,omitempty"` // rows of all lists, by reason
}

// Account reads one account now, whatever its schedule says, and notes how it went.
func (w *Refresh) Account(ctx context.Context, tenant fleet.TenantID, id string) (Refreshed, error) {
	done, err := w.account(ctx, tenant, id)
	if err == nil {
		w.Log.InfoContext(ctx, "cloud account read", "tenant", tenant, "account", id, "on_demand", done.OnDemand, "spot", done.Spot, "commitments", done.Commitments)
		return done, nil
	}
	w.Log.WarnContext(ctx, "cloud account not read", "tenant", tenant, "account", id, "error", err)
	note, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	failed := w.DB.Tenant(note, tenant, func(tx *store.Tx) error { return noteFailure(note, tx, id, cloud.Problem(err)) })
	return Refreshed{}, errors.Join(err, failed)
}

func (w *Refresh) account(ctx context.Context, tenant fleet.TenantID, id string) (Refreshed, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshDeadline)
	defer cancel()
	var account store.CloudAccount
	var sealed []byte
	var sources []store.PriceSource
	var wish scoreWish
	var now time.Time
	err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		now = tx.Now
		if account, sealed, err = store.LoadCloudAccount(ctx, tx, id); err != nil {
			return err
		}
		if wish, err = loadScoreWish(ctx, tx, account.Cloud); err != nil {
			return err
		}
		sources, err = store.PriceSources(ctx, tx)
		return err
	})
	if err != nil {
		return Refreshed{}, err
	}
	access, err := cloud.OpenAccess(w.Secrets.Open, tenant, account.ID, sealed)
	if err != nil {
		return Refreshed{}, err
	}
	source, err := w.Open(ctx, access)
	if err != nil {
		return Refreshed{}, err
	}
	read, err := readAccount(ctx, source, access, freshness(sources, account.Cloud), now)
	if err != nil {
		return Refreshed{}, err
	}
	read.scores = w.scores(ctx, source, account, wish)
	var done Refreshed
	err = w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		done, err = w.save(ctx, tx, account, read)
		return err
	})
	return done, err
}

// Public reads a region's prices that a cloud shows to everybody, now.
func (w *Refresh) Public(ctx context.Context, c fleet.Cloud, source PublicPrices, region string) (Refreshed, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshDeadline)
	defer cancel()
	r := regionReading{region: region, lists: true, spots: true}
	var err error
	if r.prices, err = source.OnDemandPrices(ctx, region); err != nil {
		return Refreshed{}, err
	}
	if r.spot, err = source.SpotPrices(ctx, region, time.Time{}); err != nil {
		return Refreshed{}, err
	}
	if len(r.prices.Items) == 0 {
		return Refreshed{}, fleet.Errorf(fleet.CodeNotFound, "the cloud lists no prices in %q", region)
	}
	done := Refreshed{Skipped: map[string]int{}}
	err = w.DB.Global(ctx, func(tx *store.Tx) error {
		if err := store.LockPrices(ctx, tx, c); err != nil {
			return err
		}
		return w.saveRegion(ctx, tx, c, &r, map[string]string{}, &done)
	})
	return done, err
}

// PublicPrices is the part of a PriceSource that needs no account at some clouds.
type PublicPrices interface {
	OnDemandPrices(ctx context.Context, region string) (cloud.List[cloud.Price], error)
	SpotPrices(ctx context.Context, region string, since time.Time) (cloud.List[cloud.SpotPrice], error)
}

// reading is what was read of an account, before anything is written.
type reading struct {
	regions     []regionReading
	commitments cloud.List[cloud.Commitment]
	capacity    cloud.List[cloud.Capacity]
	scores      []store.PlacementScore
}

type regionReading struct {
	region       string
	lists        bool // whether the price list was read
	machines     cloud.List[cloud.InstanceType]
	prices       cloud.List[cloud.Price]
	spots        bool // whether Spot prices were read
	spot         cloud.List[cloud.SpotPrice]
	lastSpotRead time.Time
}

// freshness says when each region's lists were read last.
func freshness(sources []store.PriceSource, c fleet.Cloud) func(region, kind string) time.Time {
	at := map[[2]string]time.Time{}
	for _, s := range sources {
		if s.Cloud == c {
			at[[2]string{s.Region, s.Kind}] = s.RefreshedAt
		}
	}
	return func(region, kind string) time.Time { return at[[2]string{region, kind}] }
}

// Kinds of lists that everybody shares.
const (
	listOnDemand = "on_demand"
	listSpot     = "spot"
)

// readAccount reads everything that is due; one list that fails fails all.
func readAccount(ctx context.Context, source PriceSource, access cloud.Access, at func(region, kind string) time.Time, now time.Time) (reading, error) {
	var r reading
	var err error
	for _, region := range access.Regions {
		one := regionReading{region: region, lastSpotRead: at(region, listSpot)}
		if now.Sub(at(region, listOnDemand)) >= onDemandEvery {
			one.lists = true
			if one.machines, err = source.InstanceTypes(ctx, region); err != nil {
				return r, err
			}
			if one.prices, err = source.OnDemandPrices(ctx, region); err != nil {
				return r, err
			}
		}
		if now.Sub(one.lastSpotRead) >= spotEvery {
			one.spots = true
			since := now.Add(-spotBack)
			if last := one.lastSpotRead.Add(-spotOverlap); last.After(since) {
				since = last
			}
			if one.spot, err = source.SpotPrices(ctx, region, since); err != nil {
				return r, err
			}
		}
		r.regions = append(r.regions, one)
	}
	if r.commitments, err = source.Commitments(ctx); err != nil {
		return r, err
	}
	r.capacity, err = source.CapacityReservations(ctx)
	return r, err
}

// save writes a reading. It runs in one transaction with the note that the account was read.
func (w *Refresh) save(ctx context.Context, tx *store.Tx, account store.CloudAccount, r reading) (Refreshed, error) {
	done := Refreshed{Skipped: map[string]int{}}
	if err := store.LockPrices(ctx, tx, account.Cloud); err != nil {
		return done, err
	}
	zones := map[string]string{}
	for i := range r.regions {
		if err := w.saveRegion(ctx, tx, account.Cloud, &r.regions[i], zones, &done); err != nil {
			return done, err
		}
	}
	if err := w.saveCommitments(ctx, tx, account, r.commitments, &done); err != nil {
		return done, err
	}
	if err := w.saveStock(ctx, tx, account, r); err != nil {
		return done, err
	}
	done.Reservations = len(r.capacity.Items)
	count(done.Skipped, r.capacity.Skipped)
	if err := store.CloudAccountRefreshed(ctx, tx, account.ID, done, zones, tx.Now.Add(jittered(refreshEvery))); err != nil {
		return done, err
	}
	return done, tell(ctx, tx, account.ID, 0, "")
}

func count(into map[string]int, skipped map[cloud.SkipReason]int) {
	for reason, n := range skipped {
		into[string(reason)] += n
	}
}

// jittered spreads a wait by a tenth either way, so that accounts made together do not stay together.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5)
}

// retryAfter is how long to wait after so many failures in a row.
func retryAfter(failures int) time.Duration {
	wait := retryFirst
	for range min(failures-1, 20) {
		wait = min(wait*2, retryMost)
	}
	return jittered(wait)
}

// noteFailure keeps the problem with the account. Nothing that was read is written.
func noteFailure(ctx context.Context, tx *store.Tx, id, problem string) error {
	failures, err := store.CloudAccountFailed(ctx, tx, id, problem, retryAfter)
	if err != nil || failures < alertAfter {
		return err
	}
	return tell(ctx, tx, id, failures, problem)
}

// tell opens or resolves the alert about an account that cannot be read.
func tell(ctx context.Context, tx *store.Tx, id string, failures int, problem string) error {
	const kind = "cloud_account_failing"
	subject := "cloud_account/" + id
	var alert store.Alert
	var changed bool
	var err error
	if failures > 0 {
		alert, changed, err = store.OpenAlert(ctx, tx, kind, subject, store.SeverityWarning, tx.Now, map[string]any{"failures": failures, "problem": problem})
	} else {
		alert, changed, err = store.ResolveAlert(ctx, tx, kind, subject, tx.Now)
	}
	if err != nil || !changed {
		return err
	}
	return store.Notify(ctx, tx, store.EventAlert, "", alert.ID)
}

// RefreshSweepArgs asks to look for accounts whose time has come.
type RefreshSweepArgs struct{}

// Kind implements river.JobArgs.
func (RefreshSweepArgs) Kind() string { return "refresh_sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (RefreshSweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

// RefreshSweep enqueues Refresh for accounts that are due. A refresh that died with its process is due still.
type RefreshSweep struct {
	river.WorkerDefaults[RefreshSweepArgs]
	DB *store.DB
}

const (
	refreshSweepEvery = time.Minute
	refreshSweepMost  = 100 // accounts of one tenant at a time
)

// Work implements river.Worker.
func (w *RefreshSweep) Work(ctx context.Context, _ *river.Job[RefreshSweepArgs]) error {
	return enqueueDue(ctx, w.DB, func(ctx context.Context, tx *store.Tx) ([]string, error) {
		return store.DueCloudAccounts(ctx, tx, refreshSweepMost)
	}, func(t fleet.TenantID, id string) river.JobArgs {
		return RefreshArgs{Tenant: t, Account: id}
	})
}
