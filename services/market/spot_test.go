package market_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

var spotDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// changesOf makes changes an hour apart; 0 is no Spot. on demand is 10.
func changesOf(spot ...float64) []market.SpotChange {
	out := make([]market.SpotChange, 0, len(spot))
	for i, s := range spot {
		out = append(out, market.SpotChange{At: spotDay.Unix() + int64(i)*3600, Spot: market.Listed(s * 1e9), OnDemand: 10e9})
	}
	return out
}

func TestGuardKeepsImplausiblePricesOut(t *testing.T) {
	t.Parallel()
	steady := changesOf(3, 3.01, 3.02, 3.01, 3, 3.02)
	next := spotDay.Unix() + 100*3600
	at := func(spot, onDemand float64) market.SpotChange {
		return market.SpotChange{At: next, Spot: market.Listed(spot * 1e9), OnDemand: market.Listed(onDemand * 1e9)}
	}
	for _, c := range []struct {
		name   string
		guard  market.Guard
		stored []market.SpotChange
		fresh  market.SpotChange
		want   market.SuspectReason // "": believed
	}{
		{"an ordinary step", market.Guard{}, steady, at(3.4, 10), ""},
		{"up to near on demand, as in a scarce time", market.Guard{}, steady, at(9.9, 10), ""},
		{"no Spot any more", market.Guard{}, steady, at(0, 10), ""},
		{"gone from the list", market.Guard{}, steady, at(0, 0), ""},
		{"five times up is still believed", market.Guard{}, steady, at(15.05, 10), ""},
		{"more than five times up", market.Guard{}, steady, at(15.1, 10), market.SuspectOffHistory},
		{"more than five times down", market.Guard{}, steady, at(0.6, 10), market.SuspectOffHistory},
		{"a steep price that a person vouches for", market.Guard{Trust: true}, steady, at(36, 10), ""},
		{"a new level that a person confirmed", market.Guard{Since: next - 1}, steady, at(36, 10), ""},
		{"on demand leaves its history", market.Guard{}, steady, at(3, 110), market.SuspectOffHistory},
		{"the first price of a pool, deep below on demand", market.Guard{}, nil, at(0.4, 10), market.SuspectOffOnDemand},
		{"a discount of nine tenths is real in some pools", market.Guard{}, nil, at(1, 10), ""},
		{"the first price of a pool, far above on demand", market.Guard{}, nil, at(51, 10), market.SuspectOffOnDemand},
		{"without on demand in the row the catalogue's counts", market.Guard{Catalogue: 3e9}, nil, at(16, 0), market.SuspectOffOnDemand},
		{"the public list that had p3.2xlarge at 36.08 instead of 3.06", market.Guard{Catalogue: 3.06e9}, nil, at(1.1, 36.08), market.SuspectOffCatalogue},
		{"two prices of one second", market.Guard{}, steady, market.SpotChange{At: steady[5].At, Spot: 3.1e9, OnDemand: 10e9}, market.SuspectConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := c.guard.Join(c.stored, []market.SpotChange{c.fresh})
			switch {
			case c.want == "" && (len(j.Suspects) > 0 || j.Added != 1 || j.Changes[len(j.Changes)-1] != c.fresh):
				t.Errorf("not believed: %+v", j)
			case c.want != "" && (len(j.Suspects) != 1 || j.Suspects[0].Reason != c.want || len(j.Changes) != len(c.stored)):
				t.Errorf("want %s: %+v", c.want, j)
			}
		})
	}
}

// The catalogue in the binary is a source of its own: it knows what the wrong public list did not.
func TestTheCatalogueKnowsTheWrongListPrice(t *testing.T) {
	t.Parallel()
	list := market.Catalogue().Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "p3.2xlarge", Purchase: fleet.PurchaseOnDemand}).List
	if list == nil {
		t.Skip("the catalogue does not list p3.2xlarge any more")
	}
	j := market.Guard{Catalogue: market.ListedOf(list)}.Join(nil, []market.SpotChange{{At: spotDay.Unix(), OnDemand: 36.08e9}})
	if len(j.Suspects) != 1 || j.Suspects[0].Reason != market.SuspectOffCatalogue {
		t.Errorf("%+v", j)
	}
}

func TestReadPrice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		price  market.Listed
		reason market.SuspectReason
		bad    bool
	}{
		"":                   {},
		"0.1234":             {price: 123_400_000},
		"36.08":              {price: 36_080_000_000},
		"4.665600":           {price: 4_665_600_000},
		"1.85146063013699":   {price: 1_851_460_630},
		"0.1234567895":       {price: 123_456_790},
		"1e-2":               {price: 10_000_000},
		"0":                  {reason: market.SuspectNotPositive},
		"0.0000000001":       {reason: market.SuspectNotPositive},
		"-0.3":               {reason: market.SuspectNotPositive},
		"NaN":                {reason: market.SuspectNotANumber},
		"-Inf":               {reason: market.SuspectNotANumber},
		"100000.01":          {reason: market.SuspectTooHigh},
		"123456789012345678": {reason: market.SuspectTooHigh},
		"abc":                {bad: true},
		"0x1p-2":             {bad: true},
		"1.":                 {price: 1_000_000_000},
		"1.2.3":              {bad: true},
		"1,5":                {bad: true},
		" 1":                 {bad: true}, //nolint:gocritic // the blank is the point
	} {
		price, reason, err := market.ReadPrice(text)
		if price != want.price || reason != want.reason || (err != nil) != want.bad {
			t.Errorf("%q: %d %q %v, want %+v", text, price, reason, err, want)
		}
	}
}

func drawChanges(t *rapid.T, name string) []market.SpotChange {
	n := rapid.IntRange(0, 60).Draw(t, name)
	out := make([]market.SpotChange, 0, n)
	for range n {
		out = append(out, market.SpotChange{At: spotDay.Unix() + rapid.Int64Range(0, 90).Draw(t, "at"),
			Spot: market.Listed(rapid.SampledFrom([]int64{0, 1, 2, 3, 4, 90}).Draw(t, "spot")), OnDemand: market.Listed(rapid.SampledFrom([]int64{0, 10}).Draw(t, "list"))})
	}
	slices.SortStableFunc(out, func(a, b market.SpotChange) int { return int(a.At - b.At) })
	return out
}

// Whatever is joined: the history stays sorted, a first one has no steps that are none, what was believed before is still true at
// its moment, and joining again changes nothing.
func TestJoinKeepsHistoryTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first, second := drawChanges(t, "first"), drawChanges(t, "second")
		g := market.Guard{}
		a := g.Join(nil, first)
		b := g.Join(a.Changes, second)
		for i := 1; i < len(a.Changes); i++ {
			if p, c := a.Changes[i-1], a.Changes[i]; c.Spot == p.Spot && c.OnDemand == p.OnDemand {
				t.Fatalf("%+v after %+v", c, p)
			}
		}
		for i := 1; i < len(b.Changes); i++ {
			if p, c := b.Changes[i-1], b.Changes[i]; c.At <= p.At {
				t.Fatalf("%+v after %+v", c, p)
			}
		}
		for _, c := range a.Changes {
			if got, ok := market.SpotAt(b.Changes, c.At); !ok || got.Spot != c.Spot || got.OnDemand != c.OnDemand {
				t.Fatalf("at %d it was %+v, now it is %+v", c.At, c, got)
			}
		}
		if again := g.Join(b.Changes, second); again.Added != 0 || !slices.Equal(again.Changes, b.Changes) {
			t.Fatalf("the same again added %d", again.Added)
		}
		if n := len(second); n != b.Added+b.Unchanged+len(b.Suspects) {
			t.Fatalf("%d rows became %d added, %d unchanged, %d suspects", n, b.Added, b.Unchanged, len(b.Suspects))
		}
	})
}

func TestSpotStatistics(t *testing.T) {
	t.Parallel()
	from := spotDay
	// Twelve hours at 2, six at 4, six without Spot; on demand 10.
	changes := []market.SpotChange{{At: from.Unix() - 999, Spot: 2e9, OnDemand: 10e9}, {At: from.Unix() + 12*3600, Spot: 4e9, OnDemand: 10e9}, {At: from.Unix() + 18*3600, OnDemand: 10e9}}
	s := market.SpotStatistics(changes, from, from.Add(24*time.Hour))
	if s.ListedShare != 0.75 || s.Level.String() != "2.666666667" || s.Min.String() != "2.00" || s.Max.String() != "4.00" || s.Last != nil || s.OnDemand.String() != "10.00" {
		t.Errorf("%+v", s)
	}
	// One step, a doubling, in three quarters of a day.
	if *s.Discount < 0.7333 || *s.Discount > 0.7334 || s.ChangesPerDay < 1.333 || s.ChangesPerDay > 1.334 || *s.Volatility < 0.8 || *s.Volatility > 0.801 || *s.JumpProbability < 0.736 || *s.JumpProbability > 0.737 {
		t.Errorf("discount %v, %v changes a day, volatility %v, jumps %v", *s.Discount, s.ChangesPerDay, *s.Volatility, *s.JumpProbability)
	}
	nothing := market.SpotStatistics(nil, from, from.Add(time.Hour))
	if nothing.Level != nil || nothing.Discount != nil || nothing.Volatility != nil || nothing.ListedShare != 0 {
		t.Errorf("of nothing: %+v", nothing)
	}
}

func TestSpotBuckets(t *testing.T) {
	t.Parallel()
	at := func(h int) int64 { return spotDay.Unix() + int64(h)*3600 }
	changes := []market.SpotChange{{At: at(1), Spot: 2e9, OnDemand: 10e9}, {At: at(2), Spot: 4e9, OnDemand: 10e9}, {At: at(7), OnDemand: 10e9}, {At: at(8)}}
	type line struct{ min, avg, max, last, list float64 }
	want := []line{{2, 3.3333, 4, 4, 10}, {4, 4, 4, 0, 10}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}
	got := market.SpotBuckets(changes, spotDay, spotDay.Add(11*time.Hour), 4*time.Hour)
	if len(got) != 3 {
		t.Fatalf("%d buckets", len(got))
	}
	got = market.SpotBuckets(changes, spotDay, spotDay.Add(13*time.Hour), 4*time.Hour)
	for i, b := range got {
		g := line{float64(b.Min) / 1e9, float64(b.Avg/100_000) / 1e4, float64(b.Max) / 1e9, float64(b.Last) / 1e9, float64(b.OnDemand) / 1e9}
		if g != want[i] || !b.At.Equal(spotDay.Add(time.Duration(i)*4*time.Hour)) {
			t.Errorf("bucket %d: %+v, want %+v", i, g, want[i])
		}
	}
}

func TestQuoteSpotPrefersWhatIsFresher(t *testing.T) {
	t.Parallel()
	book := market.Catalogue()
	o := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", InstanceType: "g5.xlarge"}
	catalogue := book.QuoteSpot(o, nil, spotDay.AddDate(5, 0, 0))
	if catalogue.Price == nil || !catalogue.Stale {
		t.Fatalf("the catalogue alone: %+v", catalogue)
	}
	now := catalogue.At.AddDate(0, 6, 0)
	state := func(zone string, price float64, seen time.Time) market.SpotState {
		return market.SpotState{Pool: market.SpotPool{Cloud: o.Cloud, Region: o.Region, Zone: zone, InstanceType: o.InstanceType, Product: market.ProductLinux},
			Change: market.SpotChange{At: seen.Unix() - 100, Spot: market.Listed(price * 1e9)}, SeenAt: seen, Source: "test"}
	}
	fresh, old, ancient := now.Add(-time.Hour), now.AddDate(0, 0, -30), catalogue.At.AddDate(-1, 0, 0)
	for _, c := range []struct {
		name   string
		zone   string
		states []market.SpotState
		now    time.Time
		price  string // "": none
		source string
		stale  bool
	}{
		{"the cheapest zone", "", []market.SpotState{state("us-east-1a", 0.5, fresh), state("us-east-1b", 0.4, fresh)}, now, "0.40", "test", false},
		{"the zone asked for", "us-east-1a", []market.SpotState{state("us-east-1a", 0.5, fresh), state("us-east-1b", 0.4, fresh)}, now, "0.50", "test", false},
		{"fresh before cheap", "", []market.SpotState{state("us-east-1a", 0.5, fresh), state("us-east-1b", 0.1, old)}, now, "0.50", "test", false},
		{"old, but newer than the catalogue", "", []market.SpotState{state("us-east-1a", 0.5, old)}, now, "0.50", "test", true},
		{"older than the catalogue", "", []market.SpotState{state("us-east-1a", 0.5, ancient)}, now, catalogue.Price.String(), catalogue.Source, true},
		{"no Spot there, just heard", "us-east-1a", []market.SpotState{state("us-east-1a", 0, fresh)}, now, "", "test", false},
		{"a moment long past, near which the history is", "", []market.SpotState{state("us-east-1a", 0.5, ancient)}, ancient, "0.50", "test", false},
		{"another machine's price is nobody's", "", []market.SpotState{{Pool: market.SpotPool{Cloud: o.Cloud, Region: o.Region, InstanceType: "g5.2xlarge", Product: market.ProductLinux}, SeenAt: fresh}}, now, catalogue.Price.String(), catalogue.Source, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked := o
			asked.Zone = c.zone
			q := book.QuoteSpot(asked, c.states, c.now)
			price := ""
			if q.Price != nil {
				price = q.Price.String()
			}
			if price != c.price || q.Source != c.source || q.Stale != c.stale {
				t.Errorf("%s from %q, stale %v: want %s from %q, stale %v", price, q.Source, q.Stale, c.price, c.source, c.stale)
			}
		})
	}
}

func TestCheapestSpotRanksPerGPU(t *testing.T) {
	t.Parallel()
	book := market.Catalogue()
	date, _ := time.Parse(time.DateOnly, book.Date())
	now := date.AddDate(1, 0, 0)
	state := func(region, zone, machine string, price float64) market.SpotState {
		return market.SpotState{Pool: market.SpotPool{Cloud: fleet.CloudAWS, Region: region, Zone: zone, InstanceType: machine, Product: market.ProductLinux},
			Change: market.SpotChange{At: now.Unix() - 60, Spot: market.Listed(price * 1e9)}, SeenAt: now, Source: "test"}
	}
	got := book.CheapestSpot([]market.SpotState{
		state("us-east-1", "us-east-1a", "g5.xlarge", 0.30), state("us-east-1", "us-east-1b", "g5.12xlarge", 0.40), state("us-east-1", "us-east-1c", "g5.xlarge", 0),
	}, market.CheapestFilter{Cloud: fleet.CloudAWS, Region: "us-east-1", GPUModel: "A10G", Limit: 3}, now)
	if len(got) != 3 || got[0].Pool.InstanceType != "g5.12xlarge" || got[0].PerGPU.String() != "0.10" || got[1].Pool.Zone != "us-east-1a" || got[2].Quote.Source == "test" {
		t.Errorf("%+v", got)
	}
}

func TestDemoSpotGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	pools := market.DemoSpotPools(market.Catalogue())
	if len(pools) < 40 {
		t.Fatalf("%d pools only", len(pools))
	}
	from, middle, to := spotDay, spotDay.Add(333*time.Hour), spotDay.AddDate(0, 3, 0)
	gone := 0
	for _, p := range pools {
		list := *market.Catalogue().Price(fleet.Offering{Cloud: p.Cloud, Region: p.Region, InstanceType: p.InstanceType, Purchase: fleet.PurchaseOnDemand}).List
		whole := market.DemoSpot(1, p, list, from, to)
		if parts := append(market.DemoSpot(1, p, list, from, middle), market.DemoSpot(1, p, list, middle, to)...); !slices.Equal(whole, parts) {
			t.Fatalf("%v: two parts differ from the whole", p)
		}
		j := market.Guard{Catalogue: market.Listed(list)}.Join(nil, whole)
		if len(j.Suspects) > 0 {
			t.Errorf("%v: the guard does not believe %+v", p, j.Suspects[0])
		}
		s := market.SpotStatistics(j.Changes, from, to)
		if s.Discount == nil || *s.Discount < 0.05 || *s.Discount > 0.85 || s.ListedShare < 0.7 {
			t.Errorf("%v: %+v", p, s)
		}
		for _, c := range j.Changes {
			if c.Spot == 0 {
				gone++
			} else if c.Spot > c.OnDemand {
				t.Errorf("%v above on demand: %+v", p, c)
			}
		}
	}
	if gone == 0 {
		t.Error("Spot is never gone anywhere")
	}
}
