package lab

import (
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

const probes = `kind,nodes,cloud,campaign_start,zone,device,gap_seconds,offset_seconds,duration_seconds,value
availability,1-node,aws,2023-02-15,us-west-2a,v100_1,195,0,60,1
availability,1-node,aws,2023-02-15,us-west-2b,v100_1,195,0,120,1
preemption,1-node,aws,2023-02-15,us-west-2a,v100_1,195,0,60,1
availability,1-node,aws,2023-02-15,us-west-2a,v100_1,195,60,60,0
availability,1-node,aws,2022-10-26,us-west-2a,v100_1,195,0,60,1
`

const changes = `timestamp,cloud,region,zone,instance_type,spot_price,ondemand_price
2023-02-14T00:00:00Z,aws,us-west-2,usw2-az1,p3.2xlarge,0.918,3.06
2023-02-14T00:00:00Z,aws,us-west-2,usw2-az2,p3.2xlarge,,3.06
2023-02-14T00:00:00Z,aws,us-west-2,usw2-az3,p3.2xlarge,1.53,3.06
2023-02-14T00:00:00Z,aws,us-west-2,usw2-az1,g5.xlarge,1,2
2023-02-15T00:01:00Z,aws,us-west-2,usw2-az1,p3.2xlarge,1.224,3.06
2023-02-15T00:01:30Z,aws,us-west-2,usw2-az3,p3.2xlarge,,3.06
`

func TestProbesAndPricesBecomeAMarket(t *testing.T) {
	t.Parallel()
	zones, err := ReadSpotRuns(strings.NewReader(probes), "2023-02-15", "v100_1")
	if err != nil {
		t.Fatal(err)
	}
	prices, err := ReadSpotPrices(strings.NewReader(changes), "p3.2xlarge")
	if err != nil {
		t.Fatal(err)
	}
	m, err := RecordedMarket(zones, prices, MarketWindow{Name: "two", PriceFrom: time.Date(2023, 2, 15, 0, 0, 0, 0, time.UTC), Slots: 8, Depth: 5})
	if err != nil {
		t.Fatal(err)
	}
	// The zone without any price is not paired: us-west-2a is az1, us-west-2b is az3.
	want := []struct {
		name         string
		price, stock []int32
	}{
		{"on-demand", []int32{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6}, nil},
		{"us-west-2a", []int32{3e5, 3e5, 3e5, 3e5, 4e5, 4e5, 4e5, 4e5}, []int32{5, 5, 5, 5, 0, 0, 0, 0}},
		{"us-west-2b", []int32{5e5, 5e5, 5e5, 5e5, 5e5, 5e5, 1e6, 1e6}, []int32{5, 5, 5, 5, 5, 5, 0, 0}},
	}
	for i, w := range want {
		p := m.Pools[i]
		if p.Name != w.name {
			t.Fatalf("pool %d is %s; want %s", i, p.Name, w.name)
		}
		for s := range w.price {
			if p.Price[s] != w.price[s] || (w.stock != nil && p.Stock[s] != w.stock[s]) {
				t.Errorf("%s, slot %d: price %d, stock %d; want %d, %v", p.Name, s, p.Price[s], p.Stock[s], w.price[s], w.stock)
			}
		}
	}
	if _, err := RecordedMarket(zones, prices, MarketWindow{Name: "long", Slots: 9, Depth: 5}); err == nil {
		t.Error("a window longer than the probes: no error")
	}
}

func TestBadMarketFilesAreRefusedWithTheirRow(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, from, to, want string }{
		{"a negative value", "v100_1,195,60,60,0", "v100_1,195,60,60,-1", "row 5: value"},
		{"runs that overlap", "v100_1,195,60,60,0", "v100_1,195,30,60,0", "row 5: a run"},
		{"an empty run", "v100_1,195,60,60,0", "v100_1,195,60,0,0", "row 5: a run"},
		{"another column", "value\n", "machines\n", "row 1: the columns"},
		{"a field too many", "195,60,60,0\n", "195,60,60,0,7\n", "row 5"},
	}
	for _, tc := range tests {
		if _, err := ReadSpotRuns(strings.NewReader(strings.Replace(probes, tc.from, tc.to, 1)), "2023-02-15", "v100_1"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", tc.name, err, tc.want)
		}
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"a price that is no number", "0.918", "NaN", "row 2: prices"},
		{"a negative price", "0.918", "-1", "row 2: prices"},
		{"a price of fifty times on demand", "0.918", "153", "row 2: prices"},
		{"times that fall", "2023-02-15T00:01:00Z", "2023-02-13T00:01:00Z", "row 6"},
		{"a time that is none", "2023-02-15T00:01:00Z", "yesterday", "row 6: timestamp"},
	} {
		if _, err := ReadSpotPrices(strings.NewReader(strings.Replace(changes, tc.from, tc.to, 1)), "p3.2xlarge"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", tc.name, err, tc.want)
		}
	}
	if _, err := ReadSpotRuns(strings.NewReader(""), "x", "y"); err == nil {
		t.Error("an empty file: no error")
	}
}

func TestGeneratedMarketsAreTheSameTwiceAndHaveHolesAndPrices(t *testing.T) {
	t.Parallel()
	a, err := GeneratedMarket("a", SlotsPerDay, 3)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := GeneratedMarket("a", SlotsPerDay, 3)
	other, _ := GeneratedMarket("a", SlotsPerDay, 4)
	same, holes := true, 0
	for i := range a.Pools {
		for s := range a.Pools[i].Price {
			if a.Pools[i].Price[s] != b.Pools[i].Price[s] || a.Pools[i].Stock[s] != b.Pools[i].Stock[s] {
				t.Fatalf("pool %d, slot %d differs between two of one seed", i, s)
			}
			same = same && a.Pools[i].Stock[s] == other.Pools[i].Stock[s]
			if a.Pools[i].Purchase == fleet.PurchaseSpot && a.Pools[i].Stock[s] == 0 {
				holes++
			}
		}
	}
	if same || holes == 0 || holes > 4*SlotsPerDay {
		t.Errorf("another seed gives the same market: %v; %d slots of 6 zones without stock", same, holes)
	}
	for _, bad := range []*Market{
		{Name: "nothing"},
		{Name: "short", Pools: []Pool{OnDemand(3)}},
		{Name: "silent", Pools: []Pool{OnDemand(10)}, Silent: 2},
		{Name: "free", Pools: []Pool{{Name: "x", Purchase: "gift", Price: make([]int32, 10), Stock: make([]int32, 10)}}},
	} {
		if bad.Check(10) == nil {
			t.Errorf("market %s: no error", bad.Name)
		}
	}
}
