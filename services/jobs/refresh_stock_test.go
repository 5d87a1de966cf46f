package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// stockedSource also holds machines and tells scores.
type stockedSource struct {
	*fakeSource
	capacity []cloud.Capacity
	scores   []PlacementScore
	scoreErr error
}

func (s *stockedSource) CapacityReservations(context.Context) (cloud.List[cloud.Capacity], error) {
	return cloud.List[cloud.Capacity]{Items: s.capacity}, nil
}

func (s *stockedSource) SpotScores(_ context.Context, instanceType string, machines int) ([]PlacementScore, error) {
	s.called("scores %s %d", instanceType, machines)
	return s.scores, s.scoreErr
}

func TestWhatCostsNobodyKnowsWaitsForAPerson(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	from := time.Now().UTC().Truncate(time.Second).AddDate(0, -1, 0)
	to := from.AddDate(1, 0, 0)
	zero, hour := fleet.Money(0), usd(t, "0.5")
	s.source.commitments = []cloud.Commitment{
		{Ref: "ri-known", Kind: cloud.RegionalRI, Region: "us-east-1", InstanceType: "m5.large", QuantityMill: 1000, Upfront: &zero, Recurring: &hour, From: from, To: to},
		{Ref: "ri-no-cost", Kind: cloud.RegionalRI, Region: "us-east-1", InstanceType: "m5.large", QuantityMill: 2000, From: from, To: to},
		{Ref: "sp-no-spend", Kind: cloud.ComputeSP, From: from, To: to},
		{Ref: "ri-broken", Kind: cloud.RegionalRI, Region: "us-east-1", Upfront: &zero, Recurring: &hour, QuantityMill: 1000, From: from, To: to},
		{Ref: "ri-over", Kind: cloud.RegionalRI, Region: "us-east-1", InstanceType: "m5.large", QuantityMill: 1000, From: from.AddDate(-2, 0, 0), To: from},
		{Ref: "cr-block", Kind: cloud.CapacityBlock, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "p5.48xlarge", QuantityMill: 4000, From: from, To: to},
	}
	source := &stockedSource{fakeSource: s.source, capacity: []cloud.Capacity{
		{Ref: "cr-block", Region: "us-east-1", Zone: "us-east-1a", InstanceType: "p5.48xlarge", Total: 4, Available: 1, From: from, To: to, State: "active"},
		{Ref: "cr-open", Region: "us-east-1", Zone: "us-east-1b", InstanceType: "g5.xlarge", Total: 2, Available: 2, State: "active"}}}
	s.worker.Open = func(context.Context, cloud.Access) (PriceSource, error) { return source, nil }
	waiting := func() (refs, reasons []string) {
		s.tx(func(ctx context.Context, tx *store.Tx) error {
			all, err := store.PendingCommitments(ctx, tx)
			for _, p := range all {
				refs, reasons = append(refs, p.Ref), append(reasons, p.Reason)
			}
			return err
		})
		return refs, reasons
	}
	if done := s.must(); done.Commitments != 1 || done.CommitmentsSkipped != 5 || done.Reservations != 2 {
		t.Errorf("%+v", done)
	}
	refs, reasons := waiting()
	if !slices.Equal(refs, []string{"cr-block", "ri-broken", "ri-no-cost", "sp-no-spend"}) || !slices.Equal(reasons, []string{"no_cost", "not_valid", "no_cost", "no_spend"}) {
		t.Fatalf("waiting are %v, because of %v", refs, reasons)
	}
	var stock []store.CapacityStock
	s.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		stock, err = store.CapacityStocks(ctx, tx)
		return err
	})
	if len(stock) != 2 || !stock[0].Block || stock[0].Total != 4 || *stock[0].Available != 1 || stock[1].Block || stock[1].To != nil {
		t.Errorf("stock %+v", stock)
	}

	// A person says what one of them costs: it counts, waits no more, and the next refresh leaves it alone.
	s.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{{Ref: "ri-no-cost", Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "m5.large", Quantity: 2000,
			Recurring: hour, Term: fleet.Interval{From: from, To: to}}}, "api", "user/1")
		return err
	})
	if refs, _ := waiting(); slices.Contains(refs, "ri-no-cost") {
		t.Error("it waits although a person wrote it down")
	}
	s.outdate()
	source.capacity = nil
	s.must()
	if refs, _ := waiting(); !slices.Equal(refs, []string{"cr-block", "ri-broken", "sp-no-spend"}) {
		t.Errorf("after the next refresh %v wait", refs)
	}
	s.tx(func(ctx context.Context, tx *store.Tx) error {
		c, err := store.CommitmentByRef(ctx, tx, "ri-no-cost")
		if c.Source != "api" || c.Recurring != hour {
			t.Errorf("the refresh changed what a person wrote down: %+v", c)
		}
		stock, err2 := store.CapacityStocks(ctx, tx)
		if len(stock) != 0 {
			t.Errorf("reservations that are gone stay: %+v", stock)
		}
		return errors.Join(err, err2)
	})
}

func TestScoresAreAskedOnceADayAndAreNoReasonToFail(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.node("a", "g5.xlarge", fleet.PurchaseSpot, start)
	source := &stockedSource{fakeSource: s.source, scoreErr: fleet.Errorf(fleet.CodeForbidden, "not allowed")}
	s.worker.Open = func(context.Context, cloud.Access) (PriceSource, error) { return source, nil }
	s.must() // without scores
	source.scoreErr, source.scores = nil, []PlacementScore{{Region: "us-east-1", ZoneID: "use1-az1", Score: 9}, {Region: "us-east-1", ZoneID: "use1-az2", Score: 11}}
	for range 3 {
		s.must()
	}
	asked := 0
	for _, c := range source.calls {
		if c == "scores g5.xlarge 1" {
			asked++
		}
	}
	s.tx(func(ctx context.Context, tx *store.Tx) error {
		scores, err := store.PlacementScores(ctx, tx)
		if asked != 2 || len(scores) != 1 || scores[0].Score != 9 || scores[0].ZoneID != "use1-az1" || scores[0].Machines != 1 {
			t.Errorf("asked %d times (one was refused), kept %+v", asked, scores)
		}
		return err
	})
}
