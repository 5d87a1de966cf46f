package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// fakeSource is an account whose lists are scripted.
type fakeSource struct {
	mu          sync.Mutex                   // guards all
	prices      map[string]map[string]string // region -> machine -> price per hour; "" is unknown
	spot        []cloud.SpotPrice
	commitments []cloud.Commitment
	nextErr     error // of the last list
	calls       []string
}

func (f *fakeSource) called(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeSource) InstanceTypes(_ context.Context, region string) (cloud.List[cloud.InstanceType], error) {
	f.called("machines %s", region)
	return cloud.List[cloud.InstanceType]{Items: []cloud.InstanceType{{InstanceType: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: "new9.8xlarge", Arch: "amd64", CPUMilli: 32_000, MemMiB: 131_072, GPUModel: "H100", GPUCount: 1, GPUMemoryMiB: 81_920}}}}, nil
}

func (f *fakeSource) OnDemandPrices(_ context.Context, region string) (cloud.List[cloud.Price], error) {
	f.called("prices %s", region)
	f.mu.Lock()
	defer f.mu.Unlock()
	var out cloud.List[cloud.Price]
	for machine, text := range f.prices[region] {
		hour, reason := cloud.ReadHour(text)
		out.Note(reason)
		out.Items = append(out.Items, cloud.Price{Offering: fleet.Offering{Cloud: fleet.CloudAWS, Region: region, InstanceType: machine, Purchase: fleet.PurchaseOnDemand}, Hour: hour, ID: "sku-" + machine})
	}
	cloud.Settle(&out)
	return out, nil
}

func (f *fakeSource) SpotPrices(_ context.Context, region string, since time.Time) (cloud.List[cloud.SpotPrice], error) {
	f.called("spot %s since %s ago", region, time.Since(since).Round(time.Hour))
	return cloud.List[cloud.SpotPrice]{Items: f.spot}, nil
}

func (f *fakeSource) Commitments(context.Context) (cloud.List[cloud.Commitment], error) {
	f.called("commitments")
	return cloud.List[cloud.Commitment]{Items: f.commitments}, nil
}

func (f *fakeSource) CapacityReservations(context.Context) (cloud.List[cloud.Capacity], error) {
	f.called("capacity")
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloud.List[cloud.Capacity]{}, f.nextErr
}

// shop is an estate with an account at a scripted cloud.
type shop struct {
	*estate
	source  *fakeSource
	worker  *Refresh
	sealer  *auth.Sealer
	account string
}

func openShop(t *testing.T) *shop {
	t.Helper()
	sealer, err := auth.NewSealer(make([]byte, auth.SealKeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{estate: newEstate(t), sealer: sealer, source: &fakeSource{prices: map[string]map[string]string{
		"us-east-1": {"g5.xlarge": "1.1", "new9.8xlarge": "7", "zero.large": "0"}, "eu-west-1": {"g5.xlarge": "1.3"}}}}
	s.worker = &Refresh{DB: s.db, Secrets: sealer, Prices: market.Catalogue, Log: s.log, Open: func(_ context.Context, a cloud.Access) (PriceSource, error) {
		if a.AWS == nil || a.AWS.RoleARN == "" {
			return nil, fleet.Errorf(fleet.CodeInvalid, "no role came out of the seal")
		}
		return s.source, nil
	}}
	s.account = s.add("main", "us-east-1", "eu-west-1")
	return s
}

func (s *shop) add(name string, regions ...string) string {
	s.t.Helper()
	id := uuid.NewString()
	plain, err := json.Marshal(cloud.Access{Cloud: fleet.CloudAWS, Regions: regions, AWS: &cloud.AWSAccess{RoleARN: "arn:aws:iam::123456789012:role/p", ExternalID: "x"}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.tx(func(ctx context.Context, tx *store.Tx) error {
		return store.InsertCloudAccount(ctx, tx, store.CloudAccount{ID: id, Cloud: fleet.CloudAWS, Name: name, Regions: regions, CreatedBy: "test"}, s.sealer.Seal(cloud.AccessPurpose(s.tenant, id), plain))
	})
	return id
}

func (s *shop) refresh() (Refreshed, error) {
	s.t.Helper()
	return s.worker.Account(context.Background(), s.tenant, s.account)
}

func (s *shop) must() Refreshed {
	s.t.Helper()
	done, err := s.refresh()
	if err != nil {
		s.t.Fatal(err)
	}
	return done
}

// outdate makes all lists due again.
func (s *shop) outdate() {
	s.exec(`UPDATE price_source SET refreshed_at = refreshed_at - interval '13 hours'`)
}

func (s *shop) load() (a store.CloudAccount) {
	s.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		a, _, err = store.LoadCloudAccount(ctx, tx, s.account)
		return err
	})
	return a
}

// rows counts everything that refreshes write, apart from notes with the account.
func (s *shop) rows() string {
	var counts []string
	for _, table := range []string{"price_list", "machine_type", "price_source", "spot_pool", "spot_chunk", "spot_quarantine", "commitment"} {
		counts = append(counts, fmt.Sprintf("%s %d", table, s.number(`SELECT count(*) FROM `+table)))
	}
	return strings.Join(counts, ", ")
}

func spotPrice(zone, id, machine string, age time.Duration, hour string) cloud.SpotPrice {
	p := cloud.SpotPrice{Region: "us-east-1", Zone: zone, ZoneID: id, InstanceType: machine, At: time.Now().Add(-age).UTC(), Text: hour}
	p.Hour, _ = cloud.ReadHour(hour)
	return p
}

func TestARefreshBringsPricesMachinesSpotAndCommitments(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.source.spot = []cloud.SpotPrice{spotPrice("us-east-1a", "use1-az4", "g5.xlarge", 30*time.Hour, "0.40"), spotPrice("us-east-1a", "use1-az4", "g5.xlarge", 20*time.Hour, "0.41")}
	paid, hourly := fleet.Money(876_000_000_000), fleet.Money(100_000_000)
	year := fleet.Interval{From: time.Now().AddDate(0, -1, 0).UTC().Truncate(time.Second), To: time.Now().AddDate(0, 11, 0).UTC().Truncate(time.Second)}
	s.source.commitments = []cloud.Commitment{
		{Ref: "ri-1", Kind: cloud.RegionalRI, Region: "us-east-1", InstanceType: "g5.xlarge", Resource: "machine", QuantityMill: 2000, Upfront: &paid, Recurring: &hourly, From: year.From, To: year.To},
		{Ref: "ri-unknown-cost", Kind: cloud.RegionalRI, Region: "us-east-1", InstanceType: "g5.xlarge", Resource: "machine", QuantityMill: 2000, From: year.From, To: year.To},
		{Ref: "cr-1", Kind: cloud.CapacityReservation, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g5.xlarge", Resource: "machine", QuantityMill: 1000, From: year.From},
	}
	done := s.must()
	if done.OnDemand != 3 || done.OnDemandChanged != 3 || done.Machines != 2 || done.Spot != 4 || done.Commitments != 2 || done.CommitmentsSkipped != 1 || done.Skipped["not_positive"] != 1 {
		t.Errorf("%+v", done)
	}
	books := store.NewPriceBook(s.db, market.Catalogue())
	if err := books.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	for o, want := range map[fleet.Offering]fleet.Money{
		{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseOnDemand}:    1_100_000_000,
		{Cloud: fleet.CloudAWS, Region: "eu-west-1", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseOnDemand}:    1_300_000_000,
		{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "new9.8xlarge", Purchase: fleet.PurchaseOnDemand}: 7_000_000_000,
	} {
		if got := books.Book().Price(o).Effective; got == nil || *got != want {
			t.Errorf("%s in %s: %v, want %s", o.InstanceType, o.Region, got, want)
		}
	}
	var states []store.SpotSeries
	var zones map[string]string
	var all []store.Commitment
	s.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if states, err = store.SpotHistory(ctx, tx, store.SpotFilter{Cloud: fleet.CloudAWS}, tx.Now.AddDate(0, 0, -7), tx.Now); err != nil {
			return err
		}
		if zones, err = store.ZoneIDs(ctx, tx); err != nil {
			return err
		}
		all, err = store.Commitments(ctx, tx, time.Time{}, time.Time{})
		return err
	})
	if len(states) != 1 || states[0].State.Pool.Zone != "use1-az4" || len(states[0].Changes) != 2 || states[0].State.Stale(time.Now()) {
		t.Errorf("Spot history: %+v", states)
	}
	if zones["us-east-1a"] != "use1-az4" {
		t.Errorf("zones: %v", zones)
	}
	if len(all) != 2 || all[1].Ref != "ri-1" || all[1].Upfront != paid || all[1].Source != "cloud/"+s.account {
		t.Errorf("commitments: %+v", all)
	}
	a := s.load()
	if a.State != "ok" || a.Problem != "" || a.RefreshedAt == nil || a.NextAt.Sub(*a.RefreshedAt) < 54*time.Minute || a.NextAt.Sub(*a.RefreshedAt) > 66*time.Minute {
		t.Errorf("account: %+v", a)
	}
}

func TestAFailedRefreshLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.must()
	before := s.rows()
	s.outdate()
	s.source.prices["us-east-1"]["g5.xlarge"] = "1.2"
	s.source.nextErr = fleet.Errorf(fleet.CodeForbidden, "the credentials lack a permission: UnauthorizedOperation")
	if _, err := s.refresh(); err == nil {
		t.Fatal("no error")
	}
	if after := s.rows(); after != before {
		t.Errorf("before: %s\nafter:  %s", before, after)
	}
	a := s.load()
	if a.State != "failing" || a.Failures != 1 || a.Problem != "the credentials lack a permission: UnauthorizedOperation" || a.RefreshedAt == nil {
		t.Errorf("account: %+v", a)
	}
	if wait := a.NextAt.Sub(*a.TriedAt); wait < time.Minute || wait > 3*time.Minute {
		t.Errorf("tries again after %s", wait)
	}
	for range 2 {
		if _, err := s.refresh(); err == nil {
			t.Fatal("no error")
		}
	}
	const open = `SELECT count(*) FROM alert WHERE tenant_id = $1 AND kind = 'cloud_account_failing' AND resolved_at IS NULL`
	if n := s.number(open, s.tenant); n != 1 {
		t.Errorf("%d alerts after three failures", n)
	}
	s.source.nextErr = nil
	if done := s.must(); done.OnDemandChanged != 1 {
		t.Errorf("after the failure: %+v", done)
	}
	if a := s.load(); a.State != "ok" || a.Failures != 0 || s.number(open, s.tenant) != 0 {
		t.Errorf("account: %+v", a)
	}
}

func TestARefreshThatFailsWhileWritingIsRolledBackAsAWhole(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for i := range 30 {
		s.source.prices["eu-west-1"][fmt.Sprintf("t%d.large", i)] = "1"
	}
	s.must()
	before := s.rows()
	s.outdate()
	s.source.prices["us-east-1"]["g5.xlarge"] = "1.2" // the first region changes, the second has lost most of its list
	s.source.prices["eu-west-1"] = map[string]string{"g5.xlarge": "1.4"}
	_, err := s.refresh()
	if err == nil || !strings.Contains(cloud.Problem(err), "is not believed") {
		t.Fatalf("error: %v", err)
	}
	if after := s.rows(); after != before {
		t.Errorf("before: %s\nafter:  %s", before, after)
	}
	if n := s.number(`SELECT count(*) FROM price_list WHERE hour_nano = 1200000000`); n != 0 {
		t.Error("a price of the broken refresh was kept")
	}
}

func TestOnlyChangesAreKeptAndWildPricesAreNotUsed(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.must()
	s.outdate()
	if done := s.must(); done.OnDemand != 3 || done.OnDemandChanged != 0 {
		t.Errorf("the same list again: %+v", done)
	}
	s.outdate()
	s.source.prices["us-east-1"] = map[string]string{"g5.xlarge": "1.2", "new9.8xlarge": "70", "p5.48xlarge": "5.504", "zero.large": "-1"}
	done := s.must()
	if done.OnDemandChanged != 1 || done.Doubted != 2 {
		t.Errorf("%+v", done)
	}
	var sources []store.PriceSource
	s.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		sources, err = store.PriceSources(ctx, tx)
		return err
	})
	for _, src := range sources {
		if src.Region == "us-east-1" && src.Kind == listOnDemand && (len(src.Doubted) != 2 || src.Doubted[0].InstanceType != "new9.8xlarge" || src.Doubted[0].Expected != "7.00" || src.Listed != 3) {
			t.Errorf("source: %+v", src)
		}
	}
	books := store.NewPriceBook(s.db, market.Catalogue())
	if err := books.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	price := func(b *market.PriceBook, machine string) string {
		return b.Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: machine, Purchase: fleet.PurchaseOnDemand}).Effective.String()
	}
	if got := price(books.Book(), "g5.xlarge") + " " + price(books.Book().At(time.Now().Add(-time.Hour)), "g5.xlarge") + " " + price(books.Book(), "new9.8xlarge"); got != "1.20 1.10 7.00" {
		t.Errorf("prices: %s", got)
	}
}

func TestListsThatAreFreshAreNotReadAgain(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.must()
	s.source.calls = nil
	s.account = s.add("second", "us-east-1", "ap-south-1")
	s.must()
	if got := strings.Join(s.source.calls, ", "); got != "machines ap-south-1, prices ap-south-1, spot ap-south-1 since 168h0m0s ago, commitments, capacity" {
		t.Errorf("calls: %s", got)
	}
	s.exec(`UPDATE price_source SET refreshed_at = refreshed_at - interval '1 hour' WHERE region = 'us-east-1'`)
	s.source.calls = nil
	s.must()
	if got := strings.Join(s.source.calls, ", "); got != "spot us-east-1 since 3h0m0s ago, commitments, capacity" {
		t.Errorf("calls an hour later: %s", got)
	}
}

func TestWhatPeopleWroteDownIsTheirs(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	nothing, hourly, up := fleet.Money(0), fleet.Money(500_000_000), fleet.Money(1_200_000_000_000)
	from, to := time.Now().AddDate(0, -6, 0).UTC().Truncate(time.Second), time.Now().AddDate(0, 6, 0).UTC().Truncate(time.Second)
	own := commitment.Commitment{Ref: "ri-own", Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "g5.xlarge", Quantity: 1000, Recurring: 1, Term: fleet.Interval{From: from, To: to}}
	s.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{own}, "api", "user:1")
		return err
	})
	ri := func(ref string, upfront *fleet.Money) cloud.Commitment {
		return cloud.Commitment{Ref: ref, Kind: cloud.RegionalRI, Region: "us-east-1", InstanceType: "g5.xlarge", Resource: "machine", QuantityMill: 1000, Upfront: upfront, Recurring: &hourly, From: from, To: to}
	}
	s.source.commitments = []cloud.Commitment{ri("ri-own", &nothing), ri("ri-a", &nothing), ri("ri-b", &up)}
	if done := s.must(); done.Commitments != 2 || done.CommitmentsSkipped != 1 {
		t.Errorf("%+v", done)
	}
	s.exec(`UPDATE commitment SET owner = 'red' WHERE tenant_id = $1 AND ref = 'ri-a'`, s.tenant)
	s.source.commitments = []cloud.Commitment{ri("ri-own", &nothing), ri("ri-a", &nothing)} // ri-b was sold
	if done := s.must(); done.CommitmentsEnded != 1 {
		t.Errorf("%+v", done)
	}
	if done := s.must(); done.CommitmentsEnded != 0 {
		t.Errorf("ended twice: %+v", done)
	}
	byRef := map[string]store.Commitment{}
	s.tx(func(ctx context.Context, tx *store.Tx) error {
		all, err := store.Commitments(ctx, tx, time.Time{}, time.Time{})
		for _, c := range all {
			byRef[c.Ref] = c
		}
		return err
	})
	if c := byRef["ri-own"]; c.Recurring != 1 || c.Source != "api" {
		t.Errorf("ri-own: %+v", c)
	}
	if c := byRef["ri-a"]; c.Owner != "red" {
		t.Errorf("ri-a lost its owner: %+v", c)
	}
	b := byRef["ri-b"]
	if b.Term.To.After(time.Now()) || b.Upfront >= up/2+up/50 || b.Upfront <= up/2-up/50 {
		t.Errorf("ri-b: until %s, %s of %s", b.Term.To, b.Upfront, up)
	}
	hour := fleet.Interval{From: from.Add(time.Hour), To: from.Add(2 * time.Hour)}
	whole := commitment.Commitment{Kind: b.Kind, Upfront: up, Recurring: hourly, Term: fleet.Interval{From: from, To: to}}
	if got, want := b.Bought(hour), whole.Bought(hour); got-want > 1000 || want-got > 1000 {
		t.Errorf("an hour that has run costs %s, was %s", got, want)
	}
}

func TestDueAccountsAreReadByTheQueue(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	read := make(chan struct{}, 8)
	opener := func(ctx context.Context, a cloud.Access) (PriceSource, error) {
		read <- struct{}{}
		return s.worker.Open(ctx, a)
	}
	client, err := New(Config{SweepEvery: time.Hour}, Deps{DB: s.db, Prices: market.Catalogue, Secrets: s.sealer, Sources: opener, Log: s.log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx) }()
	select {
	case <-read:
	case <-ctx.Done():
		t.Fatal("the account was not read")
	}
	stop() // running jobs end before Run does
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if a := s.load(); a.State != "ok" {
		t.Errorf("account: %+v", a)
	}
}

func TestWaitsBetweenFailuresGrowAndEnd(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for failures := 1; failures < 1000; failures++ {
		wait := retryAfter(failures)
		if wait < retryFirst*9/10 || wait > retryMost*11/10 {
			t.Fatalf("after %d failures: %s", failures, wait)
		}
		if failures < 6 && wait < last {
			t.Errorf("after %d failures %s, before %s", failures, wait, last)
		}
		last = wait
	}
}

func TestAPlanWithTooManyRatesKeepsThoseOfGPUs(t *testing.T) {
	t.Parallel()
	var rates []cloud.Rate
	for i := range maxPlanRates + 10 {
		rates = append(rates, cloud.Rate{Region: "us-east-1", InstanceType: fmt.Sprintf("cpu%d.large", i), Hour: 1})
	}
	rates = append(rates, cloud.Rate{Region: "us-east-1", InstanceType: "p5.48xlarge", Hour: 2})
	got := fewRates(rates, fleet.CloudAWS, market.Catalogue())
	if len(got) != maxPlanRates || got[0].InstanceType != "p5.48xlarge" || got[1].InstanceType != "cpu0.large" || rates[0].InstanceType != "cpu0.large" {
		t.Errorf("%d rates, first %+v", len(got), got[:2])
	}
	spend := fleet.Money(1)
	c, ok := toCommitment(cloud.Commitment{Ref: "sp", Kind: cloud.ComputeSP, Spend: &spend, Rates: got, From: start, To: start.AddDate(1, 0, 0)})
	if err := c.Validate(); !ok || err != nil {
		t.Errorf("%t %v", ok, err)
	}
}
