package market_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

var (
	before = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	seen   = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
)

func listPrice(region, name string, from time.Time, hour fleet.Money) market.ListPrice {
	return market.ListPrice{Cloud: fleet.CloudAWS, Region: region, InstanceType: name, From: from, Hour: hour, Source: "aws price list", SeenAt: seen}
}

func offering(region, name string, p fleet.Purchase) fleet.Offering {
	return fleet.Offering{Cloud: fleet.CloudAWS, Region: region, InstanceType: name, Purchase: p}
}

func TestWhatTheCloudSaidComesBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	snapshot := market.Catalogue()
	book := snapshot.With([]market.Machine{{InstanceType: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: "zz9.large", Arch: "amd64", CPUMilli: 2000, MemMiB: 4096}}}, []market.ListPrice{
		listPrice("us-east-1", "g5.xlarge", before, 1_100_000_000), listPrice("us-east-1", "g5.xlarge", before.AddDate(0, 0, 10), 1_200_000_000),
		listPrice("eu-west-9", "g5.xlarge", before, 1_500_000_000), listPrice("us-east-1", "zz9.large", before, 90_000_000), listPrice("us-east-1", "never.heard", before, 1), listPrice("us-east-1", "m5.large", before, 0),
	})
	for _, c := range []struct {
		name string
		at   time.Time
		o    fleet.Offering
		want fleet.Money // 0: as the snapshot says
	}{
		{"the newest price counts now", time.Time{}, offering("us-east-1", "g5.xlarge", fleet.PurchaseOnDemand), 1_200_000_000},
		{"the one in force counted then", before.AddDate(0, 0, 3), offering("us-east-1", "g5.xlarge", fleet.PurchaseOnDemand), 1_100_000_000},
		{"before all of them the oldest does", before.AddDate(-1, 0, 0), offering("us-east-1", "g5.xlarge", fleet.PurchaseOnDemand), 1_100_000_000},
		{"a region that the snapshot lacks", time.Time{}, offering("eu-west-9", "g5.xlarge", fleet.PurchaseOnDemand), 1_500_000_000},
		{"a machine that the snapshot lacks", time.Time{}, offering("us-east-1", "zz9.large", fleet.PurchaseOnDemand), 90_000_000},
		{"a price of zero is none", time.Time{}, offering("us-east-1", "m5.large", fleet.PurchaseOnDemand), 0},
		{"others stay as they are", time.Time{}, offering("us-east-1", "p5.48xlarge", fleet.PurchaseOnDemand), 0},
	} {
		b := book
		if !c.at.IsZero() {
			b = book.At(c.at)
		}
		got, want := b.Price(c.o), snapshot.Price(c.o)
		if c.want != 0 {
			want.Effective = &c.want
		}
		if got.Effective == nil || *got.Effective != *want.Effective || got.List == nil || *got.List != *got.Effective {
			t.Errorf("%s: %v, want %v", c.name, got.Effective, want.Effective)
		}
		if fresh := got.Source == "aws price list 2026-11-30"; fresh != (c.want != 0) {
			t.Errorf("%s: source %q", c.name, got.Source)
		}
	}
	if p := book.Price(offering("us-east-1", "never.heard", fleet.PurchaseOnDemand)); p.Effective != nil {
		t.Errorf("a machine of unknown size has a price: %v", p.Effective)
	}
	if p := snapshot.Price(offering("eu-west-9", "g5.xlarge", fleet.PurchaseOnDemand)); p.Effective != nil {
		t.Error("the snapshot itself changed")
	}
	if hits, _ := book.Search(market.Filter{Text: "zz9", Region: "us-east-1"}); len(hits) != 1 || *hits[0].Price.Effective != 90_000_000 {
		t.Errorf("search: %+v", hits)
	}
	if n, oldest := book.Fresh(fleet.CloudAWS); n != 3 || !oldest.Equal(seen) {
		t.Errorf("%d fresh prices, oldest %s", n, oldest)
	}
}

func TestSpotKeepsItsPriceAndGetsTheFreshListPrice(t *testing.T) {
	t.Parallel()
	snapshot := market.Catalogue()
	book := snapshot.With(nil, []market.ListPrice{listPrice("us-east-1", "g5.xlarge", before, 1_100_000_000)})
	o := offering("us-east-1", "g5.xlarge", fleet.PurchaseSpot)
	got, was := book.Price(o), snapshot.Price(o)
	if was.Effective == nil || *got.Effective != *was.Effective || got.Source != was.Source || *got.List != 1_100_000_000 {
		t.Errorf("%+v, was %+v", got, was)
	}
}

func TestAHistoryGivesTheSamePricesInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		var history []market.ListPrice
		for i := range n {
			history = append(history, listPrice("us-east-1", "g5.xlarge", before.AddDate(0, 0, 2*i), fleet.Money(1_000_000_000+i)))
		}
		mixed := rapid.Permutation(history).Draw(t, "mixed")
		book := market.Catalogue().With(nil, mixed)
		day := rapid.IntRange(-3, 2*n+3).Draw(t, "day")
		want := history[min(max(day/2, 0), n-1)].Hour
		if day < 0 {
			want = history[0].Hour
		}
		if got := book.At(before.AddDate(0, 0, day)).Price(offering("us-east-1", "g5.xlarge", fleet.PurchaseOnDemand)).Effective; *got != want {
			t.Fatalf("day %d: %s, want %s", day, got, want)
		}
	})
}
