package market_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

func usd(t *testing.T, s string) fleet.Money {
	t.Helper()
	m, err := fleet.ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCatalogueKnowsPublishedPrices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		offering  fleet.Offering
		list      string // "": unknown
		effective string
	}{
		{"eight H100 on demand cost what AWS lists", fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "p5.48xlarge", Purchase: fleet.PurchaseOnDemand}, "55.04", "55.04"},
		{"a Spot machine has the list price beside its own", fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseSpot}, "1.006", "0.41246"},
		{"Google's Spot price is its own", fleet.Offering{Cloud: fleet.CloudGCP, Region: "us-central1", InstanceType: "a2-highgpu-1g", Purchase: fleet.PurchaseSpot}, "3.673385", "1.92802"},
		{"Azure's Spot price is unknown, not zero", fleet.Offering{Cloud: fleet.CloudAzure, Region: "eastus", InstanceType: "Standard_ND96isr_H100_v5", Purchase: fleet.PurchaseSpot}, "98.32", ""},
		{"a reserved machine's price only its contract knows", fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "p5.48xlarge", Purchase: fleet.PurchaseReserved}, "55.04", ""},
		{"another region is unknown, not the nearest", fleet.Offering{Cloud: fleet.CloudAWS, Region: "mars-1", InstanceType: "p5.48xlarge", Purchase: fleet.PurchaseOnDemand}, "", ""},
		{"an unknown type has no price", fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "p9.huge", Purchase: fleet.PurchaseOnDemand}, "", ""},
		{"the same name in another cloud has no price", fleet.Offering{Cloud: fleet.CloudGCP, Region: "us-east-1", InstanceType: "p5.48xlarge", Purchase: fleet.PurchaseOnDemand}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := market.Catalogue().Price(c.offering)
			for field, pair := range map[string]struct {
				got  *fleet.Money
				want string
			}{"list": {p.List, c.list}, "effective": {p.Effective, c.effective}} {
				switch {
				case pair.want == "" && pair.got != nil:
					t.Errorf("%s = %s, want unknown", field, pair.got)
				case pair.want != "" && (pair.got == nil || *pair.got != usd(t, pair.want)):
					t.Errorf("%s = %v, want %s", field, pair.got, pair.want)
				}
			}
			if c.list != "" && (p.Source == "" || p.Valid.From.IsZero() || p.Currency != "USD") {
				t.Errorf("price without its source, date or currency: %+v", p)
			}
		})
	}
}

func TestCatalogueNamesItsSources(t *testing.T) {
	t.Parallel()
	b := market.Catalogue()
	if b.Date() != "2026-07-30" {
		t.Errorf("date = %s", b.Date())
	}
	for _, s := range b.Sources() {
		if licences := []string{"Apache-2.0", "MIT", "facts"}; !slices.Contains(licences, s.Licence) || s.Origin == "" || s.Date == "" {
			t.Errorf("source %+v lacks licence, origin or date", s)
		}
	}
	it, ok := b.InstanceType(fleet.CloudAWS, "p5.48xlarge")
	want := fleet.InstanceType{Cloud: "aws", Name: "p5.48xlarge", Arch: "amd64", CPUMilli: 192000, MemMiB: 2097152, GPUModel: "H100", GPUCount: 8, GPUMemoryMiB: 81920}
	if !ok || it != want {
		t.Errorf("p5.48xlarge = %+v", it)
	}
}

func TestSearchFindsTheCheapestEightBigGPUs(t *testing.T) {
	t.Parallel()
	hits, total := market.Catalogue().Search(market.Filter{MinGPUs: 8, MinGPUMemoryMiB: 80 << 10})
	if total < 8 || len(hits) != total {
		t.Fatalf("%d hits of %d", len(hits), total)
	}
	if got := hits[0].Type; got.GPUCount < 8 || got.GPUMemoryMiB < 80<<10 {
		t.Errorf("first hit %+v does not fit", got)
	}
	for i := 1; i < len(hits); i++ {
		a, c := hits[i-1].Price.Effective, hits[i].Price.Effective
		if a == nil && c != nil || a != nil && c != nil && *a > *c {
			t.Errorf("hit %d is cheaper than the one before", i)
		}
	}
	if hits, total := market.Catalogue().Search(market.Filter{Text: "h100", Cloud: fleet.CloudAWS}); total != 2 || hits[0].Type.Name != "p5.4xlarge" {
		t.Errorf("text search: %d hits, %+v", total, hits)
	}
	if _, total := market.Catalogue().Search(market.Filter{Region: "mars-1"}); total != 0 {
		t.Errorf("a region nobody knows has %d hits", total)
	}
	if hits, total := market.Catalogue().Search(market.Filter{Limit: 3}); len(hits) != 3 || total < 2000 {
		t.Errorf("limit: %d of %d", len(hits), total)
	}
}

// The GPUs of a GPU machine carry most of its price; the split loses nothing.
func TestWeightsGiveGPUsTheirShare(t *testing.T) {
	t.Parallel()
	b := market.Catalogue()
	price := usd(t, "55.04")
	cpu, memory, gpu := b.Weights(fleet.CloudAWS).Split(price, 192000, 2097152, "H100", 8)
	if cpu+memory+gpu != price {
		t.Errorf("split loses %s", price-cpu-memory-gpu)
	}
	if share := gpu.Float() / price.Float(); share < 0.6 || share > 0.9 {
		t.Errorf("GPU share of 8 H100 = %.2f", share)
	}
	if w := b.Weights("basement"); w.CPUHour <= 0 || w.GPU("H100") <= 0 || w.GPU("NEW-GPU") <= 0 {
		t.Errorf("weights of an unknown cloud: %+v", w)
	}
	golden := market.Weights{CPUHour: usd(t, "30"), GiBHour: usd(t, "10"), GPUHour: map[fleet.GPUModel]fleet.Money{"X": usd(t, "30")}}
	cpu, memory, gpu = golden.Split(usd(t, "35"), 1000, 1024, "X", 1)
	if cpu != usd(t, "15") || memory != usd(t, "5") || gpu != usd(t, "15") {
		t.Errorf("a node of 35 with prices 30/10/30 splits %s/%s/%s, want 15/5/15", cpu, memory, gpu)
	}
	if cpu, _, _ := (market.Weights{}).Split(price, 0, 0, "", 0); cpu != price {
		t.Errorf("without weights the price went to %s", cpu)
	}
}

func TestReplicaHour(t *testing.T) {
	t.Parallel()
	it, _ := market.Catalogue().InstanceType(fleet.CloudAWS, "g5.xlarge")
	w := market.Catalogue().Weights(fleet.CloudAWS)
	price := usd(t, "1.006")
	whole := market.ReplicaHour(&price, it, w, it.CPUMilli, it.MemMiB, 1000)
	if whole == nil || *whole != price {
		t.Errorf("a replica as large as its machine costs %v, want %s", whole, price)
	}
	half := market.ReplicaHour(&price, it, w, it.CPUMilli/2, it.MemMiB/2, 500)
	if half == nil || max(*half-price/2, price/2-*half) > 3 { // each of three resources may round
		t.Errorf("half a machine costs %v", half)
	}
	if market.ReplicaHour(nil, it, w, 1000, 1024, 1000) != nil {
		t.Error("a replica on a machine without a price has one")
	}
}

func TestParseRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	head := "plimsoll-catalogue\t2\tUSD\nS\taws\ton_demand\tx\t2026-01-01\tMIT\there\nR\taws\tr1\n"
	good := head + "T\taws\ta\tamd64\t1000\t1024\nP\t0\t0.5\t-\n"
	if _, err := market.Parse([]byte(good)); err != nil {
		t.Fatalf("a good catalogue: %v", err)
	}
	for name, text := range map[string]string{
		"nothing":                 "",
		"a later format":          "plimsoll-catalogue\t3\tUSD\n",
		"no types":                head,
		"an unknown line":         good + "X\t1\n",
		"a price of zero":         head + "T\taws\ta\tamd64\t1000\t1024\nP\t0\t0\t-\n",
		"a negative price":        head + "T\taws\ta\tamd64\t1000\t1024\nP\t0\t-1\t-\n",
		"a price of NaN":          head + "T\taws\ta\tamd64\t1000\t1024\nP\t0\tNaN\t-\n",
		"a region out of range":   head + "T\taws\ta\tamd64\t1000\t1024\nP\t1\t1\t-\n",
		"another cloud's region":  head + "T\tgcp\ta\tamd64\t1000\t1024\nP\t0\t1\t-\n",
		"a price before its type": head + "P\t0\t1\t-\n",
		"a type twice":            good + "T\taws\ta\tamd64\t1000\t1024\n",
		"types out of order":      head + "T\taws\tb\tamd64\t1000\t1024\nT\taws\ta\tamd64\t1000\t1024\n",
		"no memory":               head + "T\taws\ta\tamd64\t1000\t0\n",
		"absurd cores":            head + "T\taws\ta\tamd64\t99999999999\t1024\n",
		"two prices in a region":  good + "P\t0\t0.6\t-\n",
		"offered where priced":    good + "O\t0\n",
		"traits before a type":    head + "N\t-\t-\t-\t-\t-\t-\t-\n",
		"a negative disk":         good + "N\t-\t-1\t-\t-\t-\t-\t-\n",
		"a network of nothing":    good + "N\t0\t-\t-\t-\t-\t-\t-\n",
		"an unknown link":         good + "N\t-\t-\tstring\t-\t-\t-\t-\n",
		"an unknown fabric":       good + "N\t-\t-\t-\t-\ttin\t-\t-\n",
		"profiles of nothing":     good + "M\t\tnone\n",
		"a profile too often":     good + "M\tX\t1g.5gb:8\n",
		"no profiles unsaid":      good + "M\tX\t \n",
		"profiles twice":          good + "M\tX\tnone\nM\tX\tnone\n",
		"a doubt without figures": good + "Q\t0\tspot\t-\t1\toff_peers\n",
		"a doubt of what":         good + "Q\t0\treserved\t1\t1\toff_peers\n",
		"a bad date":              strings.Replace(good, "2026-01-01", "soon", 1),
	} {
		if _, err := market.Parse([]byte(text)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	book := market.Catalogue()
	for b.Loop() {
		book.Search(market.Filter{MinGPUs: 8, MinGPUMemoryMiB: 80 << 10})
	}
}
