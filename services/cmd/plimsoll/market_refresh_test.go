package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/aws"
	"plimsoll.dev/services/cloud/azure"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/jobs"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// From the wire of a cloud to the price that everybody uses, with the failure in between that clouds have on bad days.
func TestAnAccountIsReadFromTheWireIntoTheBook(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, _ := marketDB(t)
	server := fakecloud.New(fakecloud.World{AWS: fakecloud.AWS{
		Products: []fakecloud.AWSProduct{{Region: "us-east-1", Type: "g5.xlarge", SKU: "A", Price: "1.1"}, {Region: "us-east-1", Type: "g5.2xlarge", SKU: "B", Price: "1.3"}, {Region: "us-east-1", Type: "p5.48xlarge", SKU: "C", Price: "0"}},
		Spot:     []fakecloud.AWSSpot{{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "g5.xlarge", Price: "0.41", At: time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")}},
	}})
	t.Cleanup(server.Close)
	sealer, err := auth.NewSealer(make([]byte, auth.SealKeySize))
	if err != nil {
		t.Fatal(err)
	}
	tenant, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "Harbour", Owner: store.NewUser{Email: "owner@harbour.test", DisplayName: "Owner", PasswordHash: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	const id = "01890000-0000-7000-8000-000000000001"
	err = db.Tenant(ctx, tenant.ID, func(tx *store.Tx) error {
		return store.InsertCloudAccount(ctx, tx, store.CloudAccount{ID: id, Cloud: fleet.CloudAWS, Name: "main", Regions: []string{"us-east-1"}, CreatedBy: "test"},
			sealer.Seal(cloud.AccessPurpose(tenant.ID, id), []byte(`{"cloud": "aws", "regions": ["us-east-1"], "aws": {"role_arn": "arn:aws:iam::123456789012:role/p", "external_id": "x"}}`)))
	})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := refresher(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	worker.Secrets, worker.Log = sealer, slog.New(slog.DiscardHandler)
	worker.Open = func(ctx context.Context, a cloud.Access) (jobs.PriceSource, error) {
		return aws.New(ctx, aws.Config{Access: *a.AWS, Regions: a.Regions, Base: credentials.NewStaticCredentialsProvider("a", "b", ""), Endpoint: server.URL, HTTP: server.Client(),
			Retry: cloud.Retry{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond}})
	}
	server.Fail(fakecloud.Fault{Operation: "GetProducts", From: 2, Times: 4, How: fakecloud.Throttle})
	var out bytes.Buffer
	if err := refreshAccounts(ctx, db, worker, tenant.ID, "", &out); err == nil || !strings.Contains(out.String(), "nothing was changed") {
		t.Errorf("on a bad day: %v, %s", err, out.String())
	}
	book := store.NewPriceBook(db, market.Catalogue())
	if err := book.Reload(ctx); err != nil || book.Book() != market.Catalogue() {
		t.Errorf("a failed refresh changed the book (%v)", err)
	}
	out.Reset()
	for range 3 { // the throttling ends some time
		if err = refreshAccounts(ctx, db, worker, tenant.ID, "main", &out); err == nil {
			break
		}
	}
	if err != nil || !strings.Contains(out.String(), `"on_demand_prices":2`) {
		t.Fatalf("%v, %s", err, out.String())
	}
	if err := book.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	snapshot := market.Catalogue()
	for machine, want := range map[string]string{"g5.xlarge": "1.10", "g5.2xlarge": "1.30", "p5.48xlarge": snapshot.Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "p5.48xlarge", Purchase: fleet.PurchaseOnDemand}).Effective.String()} {
		p := book.Book().Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: machine, Purchase: fleet.PurchaseOnDemand})
		if p.Effective == nil || p.Effective.String() != want {
			t.Errorf("%s: %v, want %s", machine, p.Effective, want)
		}
	}
	out.Reset()
	err = db.Global(ctx, func(tx *store.Tx) error {
		sources, err := store.PriceSources(ctx, tx)
		if err != nil {
			return err
		}
		return printSources(&out, sources, tx.Now.Add(90*time.Minute))
	})
	if text := out.String(); err != nil || !strings.Contains(text, "1h30m0s") || !strings.Contains(text, "not_positive 1") || !strings.Contains(text, "aws-ondemand, in this binary") {
		t.Errorf("%v\n%s", err, text)
	}
	if err := refreshAccounts(ctx, db, worker, tenant.ID, "other", &out); err == nil {
		t.Error("refreshed an account that is not there")
	}
}

func TestAzuresPublicPricesNeedNoAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, _ := marketDB(t)
	server := fakecloud.New(fakecloud.World{Azure: fakecloud.Azure{Prices: []fakecloud.AzurePrice{
		{Region: "eastus", Machine: "Standard_NC24ads_A100_v4", SKU: "A", Price: "3.7"}, {Region: "eastus", Machine: "Standard_NC24ads_A100_v4", SKU: "S", Suffix: " Spot", Price: "0.9"}, {Region: "eastus", Machine: "Standard_ND96isr_H100_v5", SKU: "H", Price: "98"},
	}}})
	t.Cleanup(server.Close)
	source, err := azure.New(azure.Config{Retail: server.URL, HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := refreshPublic(ctx, db, source, []string{"eastus"}, &out); err != nil || out.String() != "azure eastus: 2 on-demand prices, 2 new; 1 Spot prices, 1 new; 0 not believed\n" {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, region := range []string{"nowhere", "x' or 'a' eq 'a"} {
		if err := refreshPublic(ctx, db, source, []string{region}, &out); err == nil {
			t.Errorf("%s: no error", region)
		}
	}
}
