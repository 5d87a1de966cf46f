package market_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// figure shows what may be unknown.
func figure(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func TestCatalogueKnowsTraits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cloud                          fleet.Cloud
		name                           string
		netMbps, diskGiB, linkGB, gbps int64 // -1: unknown
		link                           market.Link
		fabric                         market.Fabric
		mig                            string // the smallest profile; "": cannot be split
	}{
		{fleet.CloudAWS, "p5.48xlarge", 3_200_000, 28_312, 900, 3200, market.LinkNVSwitch, market.FabricEFA, "1g.10gb"},
		{fleet.CloudAWS, "p4d.24xlarge", 400_000, 7450, 600, 400, market.LinkNVSwitch, market.FabricEFA, "1g.5gb"},
		{fleet.CloudAWS, "g5.xlarge", 2500, 232, -1, -1, market.LinkNone, market.FabricNone, ""},
		{fleet.CloudAWS, "g5.48xlarge", 100_000, 7078, -1, 100, market.LinkPCIe, market.FabricEFA, ""},
		{fleet.CloudAzure, "Standard_ND96isr_H100_v5", 80_000, -1, 900, 3200, market.LinkNVSwitch, market.FabricInfiniBand, "1g.10gb"},
		{fleet.CloudAzure, "Standard_NC96ads_A100_v4", 80_000, 3576, -1, -1, "", market.FabricNone, "1g.10gb"},
		{fleet.CloudGCP, "a3-highgpu-8g", 1_000_000, 6000, 900, 800, market.LinkNVSwitch, market.FabricGPUDirect, "1g.10gb"},
		{fleet.CloudGCP, "g2-standard-96", 100_000, 0, -1, -1, market.LinkPCIe, market.FabricNone, ""},
		{fleet.CloudGCP, "g4-standard-384", 400_000, 0, -1, -1, market.LinkPCIe, market.FabricNone, "1g.24gb"},
	} {
		m, ok := market.Catalogue().Machine(c.cloud, c.name)
		if !ok {
			t.Errorf("%s is not in the catalogue", c.name)
			continue
		}
		got := []int64{figure(m.NetworkMbps), figure(m.LocalDiskGiB), figure(m.LinkGBps), figure(m.FabricGbps)}
		if want := []int64{c.netMbps, c.diskGiB, c.linkGB, c.gbps}; !slices.Equal(got, want) || m.Link != c.link || m.Fabric != c.fabric {
			t.Errorf("%s: %v %s %s, want %v %s %s", c.name, got, m.Link, m.Fabric, want, c.link, c.fabric)
		}
		profiles, known := market.Catalogue().MIG(m.GPUModel)
		if !known || c.mig == "" && len(profiles) > 0 || c.mig != "" && (len(profiles) == 0 || profiles[0].Name != c.mig) {
			t.Errorf("%s: MIG %v, %t, want %q", c.name, profiles, known, c.mig)
		}
	}
	if _, known := market.Catalogue().MIG("NEW-GPU"); known {
		t.Error("a model that nobody told about is said to be known")
	}
	if _, ok := market.Catalogue().Machine(fleet.CloudAWS, "p9.huge"); ok {
		t.Error("a type that nobody told about is known")
	}
}

func TestSearchByTraitsLeavesOutWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	b := market.Catalogue()
	for name, c := range map[string]struct {
		filter market.Filter
		fits   func(market.Machine) bool
	}{
		"GPUs that can be split": {market.Filter{MIG: true}, func(m market.Machine) bool { p, _ := b.MIG(m.GPUModel); return m.GPUCount > 0 && len(p) > 0 }},
		"a fast network":         {market.Filter{MinNetworkMbps: 400_000}, func(m market.Machine) bool { return figure(m.NetworkMbps) >= 400_000 }},
		"a large disk":           {market.Filter{MinLocalDiskGiB: 3000}, func(m market.Machine) bool { return figure(m.LocalDiskGiB) >= 3000 }},
		"one fabric":             {market.Filter{Fabric: market.FabricInfiniBand}, func(m market.Machine) bool { return m.Fabric == market.FabricInfiniBand }},
		"any fabric":             {market.Filter{Fabric: market.FabricAny}, func(m market.Machine) bool { return m.Fabric != "" && m.Fabric != market.FabricNone }},
	} {
		c.filter.Limit = 1000
		hits, total := b.Search(c.filter)
		if total == 0 || total > 1000 {
			t.Errorf("%s: %d hits", name, total)
		}
		for _, h := range hits {
			if !c.fits(h.Type) {
				t.Errorf("%s: %s does not fit", name, h.Type.Name)
			}
		}
	}
}

func TestARegionWithoutAPriceIsShownAsSuch(t *testing.T) {
	t.Parallel()
	b := market.Catalogue()
	hits, total := b.Search(market.Filter{Text: "p4d.24xlarge", Region: "us-west-2"})
	if total != 1 || hits[0].Price.List != nil || hits[0].Price.Effective != nil || hits[0].Price.Source != "" {
		t.Fatalf("p4d in us-west-2: %d hits, %+v", total, hits)
	}
	if hits, _ := b.Search(market.Filter{Text: "p4d.24xlarge"}); len(hits) != 1 || hits[0].Price.Effective == nil {
		t.Errorf("a region without a price won over one with a price: %+v", hits)
	}
	if sold, priced := b.RegionCount(fleet.CloudAWS, "p4d.24xlarge"); sold <= priced || priced < 1 {
		t.Errorf("sold in %d regions, priced in %d", sold, priced)
	}
	coverage := b.Coverage()
	if len(coverage) != 3 || coverage[0].Cloud != fleet.CloudAWS || !slices.Equal(coverage[0].Priced, []string{"us-east-1", "us-gov-east-1", "us-gov-west-1"}) ||
		len(coverage[0].Unpriced) < 30 || len(coverage[1].Priced) != 57 || len(coverage[2].Priced) != 43 {
		t.Errorf("coverage = %+v", coverage)
	}
	if p := b.Price(fleet.Offering{Cloud: fleet.CloudAzure, Region: "francecentral", InstanceType: "Standard_NC24ads_A100_v4", Purchase: fleet.PurchaseOnDemand}); p.Effective == nil {
		t.Error("Azure's France has no price")
	}
}

// A price that the generator doubted is unknown everywhere, and none is left that it should have doubted.
func TestDoubtedPricesAreNeverUsed(t *testing.T) {
	t.Parallel()
	b := market.Catalogue()
	doubts := slices.DeleteFunc(b.Doubts(fleet.CloudGCP, "g2-standard-96"), func(d market.Doubt) bool { return d.Region != "us-east5" })
	if len(doubts) != 1 || doubts[0].Hour != usd(t, "0.90128") || doubts[0].Reason != "off_peers" || b.DoubtCount() < 8 {
		t.Fatalf("doubts = %+v", doubts)
	}
	p := b.Price(fleet.Offering{Cloud: fleet.CloudGCP, Region: "us-east5", InstanceType: "g2-standard-96", Purchase: fleet.PurchaseSpot})
	if p.Effective != nil || p.List == nil {
		t.Errorf("the doubted price is %v, the list price %v", p.Effective, p.List)
	}
	for _, o := range b.CheapestSpot(nil, market.CheapestFilter{Cloud: fleet.CloudGCP, Region: "us-east5", Limit: 1000}, seen) {
		if strings.HasPrefix(o.Pool.InstanceType, "g2-") {
			t.Errorf("%s is offered at %s", o.Pool.InstanceType, o.Quote.Price)
		}
	}
	for _, cov := range b.Coverage() {
		for _, region := range cov.Priced {
			hits, _ := b.Search(market.Filter{Cloud: cov.Cloud, Region: region, Purchase: fleet.PurchaseSpot, Limit: 1000})
			for _, h := range hits {
				if s, l := h.Price.Effective, h.Price.List; s != nil && l != nil && (*s > *l || s.MulDiv(20, 1) < *l) {
					t.Errorf("%s %s: Spot %s against %s on demand", h.Type.Name, region, s, l)
				}
			}
		}
	}
}

func TestPeersNeedCompany(t *testing.T) {
	t.Parallel()
	b := market.Catalogue()
	if level, ok := b.Peers(fleet.CloudGCP, "g2-standard-96", "nowhere-1"); !ok || level < usd(t, "7") || level > usd(t, "11") {
		t.Errorf("g2-standard-96 elsewhere: %s, %t", level, ok)
	}
	if level, ok := b.Peers(fleet.CloudAWS, "p5.48xlarge", "us-west-2"); !ok || level < usd(t, "55") || level > usd(t, "67") {
		t.Errorf("p5.48xlarge elsewhere: %s, %t", level, ok)
	}
	if _, ok := b.Peers(fleet.CloudAWS, "p6-b200.48xlarge", "us-east-1"); !ok {
		t.Error("p6 has no other region")
	}
	if _, ok := b.Peers(fleet.CloudAWS, "p9.huge", "us-west-2"); ok {
		t.Error("a type that nobody knows has peers")
	}
}

// What a cloud told of a machine counts; what it did not tell stays as the snapshot has it.
func TestToldTraitsComeBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	told := int64(123)
	b := market.Catalogue().With([]market.Machine{{InstanceType: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: "g5.xlarge", CPUMilli: 1, MemMiB: 1}, Traits: market.Traits{LocalDiskGiB: &told}}}, nil)
	m, _ := b.Machine(fleet.CloudAWS, "g5.xlarge")
	if figure(m.LocalDiskGiB) != 123 || figure(m.NetworkMbps) != 2500 || m.CPUMilli != 4000 {
		t.Errorf("g5.xlarge = %+v", m)
	}
	if before, _ := market.Catalogue().Machine(fleet.CloudAWS, "g5.xlarge"); figure(before.LocalDiskGiB) != 232 {
		t.Error("the snapshot itself has changed")
	}
}

func TestAllocatableFollowsEachCloudsRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cloud          fleet.Cloud
		name           string
		cpu, mem, pods int64 // -1: unknown
	}{
		{fleet.CloudAWS, "m5.large", 1930, 8192 - 255 - 11*29 - 100, 29},
		{fleet.CloudAWS, "p5.48xlarge", 192_000 - 550, 2_097_152 - 255 - 11*100 - 100, 100},
		{fleet.CloudAWS, "p6-b200.48xlarge", 192_000 - 550, -1, -1}, // nobody told how many addresses it has
		{fleet.CloudAzure, "Standard_D4s_v5", 3860, 16_384 - 16_384/4 - 100, 250},
		{fleet.CloudAzure, "Standard_ND96isr_H100_v5", 96_000 - 740 - 320, -2, 250},
		{fleet.CloudGCP, "e2-standard-4", 3920, 16_384 - 2662 - 100, 110},    // 25 % of 4 GiB, 20 % of 4, 10 % of 8
		{fleet.CloudGCP, "n2-standard-16", 15_890, 65_536 - 5611 - 100, 110}, // and 6 % of 48
		{fleet.CloudGCP, "e2-medium", 940, 4096 - 1024 - 100, 110},
	} {
		m, ok := market.Catalogue().Machine(c.cloud, c.name)
		if !ok {
			t.Errorf("%s is not in the catalogue", c.name)
			continue
		}
		a := m.Allocatable()
		if c.mem == -2 {
			c.mem = m.MemMiB - 4816 - 100 // 20 MB for 250 pods and 50 more
		}
		if got, want := []int64{figure(a.CPUMilli), figure(a.MemMiB), figure(a.MaxPods)}, []int64{c.cpu, c.mem, c.pods}; !slices.Equal(got, want) || a.Rule == "" {
			t.Errorf("%s (%s): %v, want %v", c.name, a.Rule, got, want)
		}
	}
	if a := (market.Machine{InstanceType: fleet.InstanceType{Cloud: "basement", CPUMilli: 1000, MemMiB: 1024}}).Allocatable(); a != (market.Allocatable{}) {
		t.Errorf("a cloud without a rule: %+v", a)
	}
}

func TestAllocatableNeverExceedsTheMachineAndGrowsWithIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.Int64Range(1, 1000).Draw(t, "pods")
		m := market.Machine{Traits: market.Traits{AddressPods: &pods}}
		m.Cloud = rapid.SampledFrom([]fleet.Cloud{fleet.CloudAWS, fleet.CloudAzure, fleet.CloudGCP}).Draw(t, "cloud")
		m.CPUMilli, m.MemMiB = rapid.Int64Range(1, 10_000_000).Draw(t, "cpu"), rapid.Int64Range(1, 1<<30).Draw(t, "mem")
		larger := m
		larger.CPUMilli += rapid.Int64Range(0, 100_000).Draw(t, "more")
		larger.MemMiB += rapid.Int64Range(1024, 100_000).Draw(t, "more")
		a, b := m.Allocatable(), larger.Allocatable()
		if *a.CPUMilli < 0 || *a.CPUMilli > m.CPUMilli || *a.MemMiB < 0 || *a.MemMiB > m.MemMiB || *b.CPUMilli < *a.CPUMilli || *b.MemMiB < *a.MemMiB {
			t.Fatalf("%+v leaves %d and %d, larger %d and %d", m, *a.CPUMilli, *a.MemMiB, *b.CPUMilli, *b.MemMiB)
		}
	})
}
