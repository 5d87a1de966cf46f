package store

import (
	"testing"
	"time"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

func TestReservationsAreCandidatesForWhatIsLeftOfThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	at := func(zone, kind string, how fleet.Purchase) fleet.Offering {
		return fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: zone, InstanceType: kind, Purchase: how}
	}
	price, three := fleet.Money(1_000_000_000), int64(3)
	input := func() *capacity.Input {
		return &capacity.Input{Now: now, Candidates: []capacity.Candidate{
			{Offering: at("a", "g5.xlarge", fleet.PurchaseOnDemand), Price: &price, CPUMilli: 4000, GPUCount: 1, StockOutMilli: 700, BackoffUntil: after},
			{Offering: at("a", "g5.xlarge", fleet.PurchaseSpot), Price: &price, HazardMilli: 9},
			{Offering: at("b", "m6i.large", fleet.PurchaseOnDemand), Price: &price}},
			Nodes: []capacity.Node{{Name: "n1", Offering: at("a", "g5.xlarge", fleet.PurchaseReserved)}, {Name: "n2", Offering: at("a", "g5.xlarge", fleet.PurchaseOnDemand)}}}
	}
	stock := func(change func(*CapacityStock)) CapacityStock {
		s := CapacityStock{Ref: "cr-1", Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "a", InstanceType: "g5.xlarge", Total: 4, State: "active"}
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, c := range map[string]struct {
		stocks []CapacityStock
		want   int64 // -1: no candidate
		refs   string
	}{
		"one that runs is in it already":          {[]CapacityStock{stock(nil)}, 3, "cr-1"},
		"fewer than it has where others are":      {[]CapacityStock{stock(func(s *CapacityStock) { s.Available = new(int64) })}, 0, "cr-1"},
		"the account's count may be an old one":   {[]CapacityStock{stock(func(s *CapacityStock) { s.Total, s.Available = 3, &three })}, 2, "cr-1"},
		"two of one type and zone are one pool":   {[]CapacityStock{stock(func(s *CapacityStock) { s.Ref = "cr-2" }), stock(nil)}, 7, "cr-1,cr-2"},
		"one that is told twice counts once":      {[]CapacityStock{stock(nil), stock(nil)}, 3, "cr-1"},
		"not yet":                                 {[]CapacityStock{stock(func(s *CapacityStock) { s.From = &after })}, -1, ""},
		"no more":                                 {[]CapacityStock{stock(func(s *CapacityStock) { s.To = &before })}, -1, ""},
		"cancelled":                               {[]CapacityStock{stock(func(s *CapacityStock) { s.State = "cancelled" })}, -1, ""},
		"where the cluster may not buy":           {[]CapacityStock{stock(func(s *CapacityStock) { s.Zone = "z" })}, -1, ""},
		"a type that the policy does not allow":   {[]CapacityStock{stock(func(s *CapacityStock) { s.InstanceType = "p5.48xlarge" })}, -1, ""},
		"Azure's word for one that is in force":   {[]CapacityStock{stock(func(s *CapacityStock) { s.State = "Succeeded" })}, 3, "cr-1"},
		"nothing reserved":                        {nil, -1, ""},
		"a block whose term is now":               {[]CapacityStock{stock(func(s *CapacityStock) { s.Block, s.From, s.To = true, &before, &after })}, 3, "cr-1"},
		"more in use than it has is none and not": {[]CapacityStock{stock(func(s *CapacityStock) { s.Total = 0 })}, 0, "cr-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input()
			got := withReserved(in, c.stocks, func(o fleet.Offering) availability.Score { return availability.Score{Offering: o} })
			if len(in.Candidates) != 3 {
				t.Fatal("the input was changed")
			}
			if c.want < 0 {
				if len(got) != 3 {
					t.Fatalf("%+v", got)
				}
				return
			}
			if len(got) != 4 || got[1].Offering != at("a", "g5.xlarge", fleet.PurchaseReserved) {
				t.Fatalf("%+v", got)
			}
			if r := got[1]; *r.Stock != c.want || r.Reservation != c.refs || *r.Price != 1 || r.StockOutMilli != 0 || !r.BackoffUntil.IsZero() || r.GPUCount != 1 {
				t.Errorf("%+v, stock %d", r, *r.Stock)
			}
			if *got[0].Price != price {
				t.Error("the price of the one on demand was changed")
			}
		})
	}
}
