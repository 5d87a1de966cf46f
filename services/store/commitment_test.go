package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Two imports of the same file at the same moment: one adds, the other finds nothing to do.
func TestCommitmentsImportedAtTheSameMomentAreThereOnce(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	tenant := fleet.TenantID(uuid.NewString())
	term := fleet.Interval{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	hour := fleet.Money(60_000_000)
	all := []commitment.Commitment{
		{Ref: "ri", Kind: commitment.KindRegionalRI, Region: "r", InstanceType: "m5.large", Quantity: 1000, Recurring: 5, Term: term},
		{Ref: "sp", Kind: commitment.KindComputeSP, Spend: 5, Term: term, Rates: []commitment.Rate{{Family: "m5", Hour: &hour}}},
	}
	var mu sync.Mutex
	var sum store.Import
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			err := db.Tenant(ctx, tenant, func(tx *store.Tx) error {
				done, err := store.ImportCommitments(ctx, tx, all, "csv", "test")
				mu.Lock()
				defer mu.Unlock()
				sum.Added, sum.Changed, sum.Unchanged = sum.Added+done.Added, sum.Changed+done.Changed, sum.Unchanged+done.Unchanged
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if sum != (store.Import{Added: 2, Unchanged: 6}) {
		t.Errorf("%+v", sum)
	}
	for _, c := range []struct {
		who  fleet.TenantID
		want int
	}{{tenant, 2}, {fleet.TenantID(uuid.NewString()), 0}} {
		err := db.Tenant(ctx, c.who, func(tx *store.Tx) error {
			found, err := store.Commitments(ctx, tx, term.From, term.To)
			if len(found) != c.want {
				t.Errorf("%d commitments, want %d", len(found), c.want)
			}
			if c.want > 0 && (len(found[1].Rates) != 1 || *found[1].Rates[0].Hour != hour || !found[0].Term.To.Equal(term.To)) {
				t.Errorf("came back as %+v", found)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A claim that is there stays as it is, whatever is said later.
func TestClaimsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	hour := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	claim := commitment.Claim{Cluster: fleet.ClusterID(uuid.NewString()), Node: "n", Commitment: uuid.NewString(), Resource: commitment.ResourceMachine, Units: 7, Taken: 7, Amount: 100}
	err := db.Tenant(ctx, fleet.TenantID(uuid.NewString()), func(tx *store.Tx) error {
		for _, amount := range []fleet.Money{100, 200} {
			claim.Amount = amount
			if err := store.SaveClaims(ctx, tx, hour, []commitment.Claim{claim}); err != nil {
				return err
			}
		}
		found, err := store.Claims(ctx, tx, hour, hour.Add(time.Hour))
		if c := found[hour].Claims; len(c) != 1 || c[0].Amount != 100 || c[0].Node != "n" {
			t.Errorf("%+v", found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
