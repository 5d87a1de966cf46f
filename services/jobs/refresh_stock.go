package jobs

import (
	"context"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// PlacementScorer is a PriceSource whose cloud estimates how likely a request for Spot machines is granted.
type PlacementScorer interface {
	// SpotScores of a number of machines of one type, by the cloud's ids of zones; 1 to 10.
	SpotScores(ctx context.Context, instanceType string, machines int) ([]PlacementScore, error)
}

// PlacementScore of a zone.
type PlacementScore struct {
	Region string
	ZoneID string // empty: the region as a whole
	Score  int
}

const (
	// scoreEvery is how old scores may be before they are asked for again: the cloud allows few such questions a day.
	scoreEvery = 20 * time.Hour
	// scoreTypes is how many types one account asks about.
	scoreTypes = 5
)

// scoreWish is what is worth asking for.
type scoreWish struct {
	types   []string
	running map[string]int
}

func loadScoreWish(ctx context.Context, tx *store.Tx, c fleet.Cloud) (w scoreWish, err error) {
	known, err := store.PlacementScores(ctx, tx)
	if err != nil {
		return w, err
	}
	for _, k := range known {
		if k.Cloud == c && tx.Now.Sub(k.SeenAt) < scoreEvery {
			return w, nil
		}
	}
	w.types, w.running, err = store.SpotTypesInUse(ctx, tx, c, scoreTypes)
	return w, err
}

// scores asks for what is wished. An account that may not ask keeps all its prices: the problem is logged, and the scores are left out.
func (w *Refresh) scores(ctx context.Context, source PriceSource, account store.CloudAccount, wish scoreWish) (out []store.PlacementScore) {
	scorer, ok := source.(PlacementScorer)
	if !ok {
		return nil
	}
	for _, name := range wish.types {
		machines := max(wish.running[name], 1)
		scores, err := scorer.SpotScores(ctx, name, machines)
		if err != nil {
			w.Log.InfoContext(ctx, "placement scores not read", "account", account.ID, "instance_type", name, "error", err)
			return out
		}
		for _, s := range scores {
			if s.Score >= 1 && s.Score <= 10 {
				out = append(out, store.PlacementScore{Cloud: account.Cloud, Region: s.Region, ZoneID: s.ZoneID, InstanceType: name, Machines: int64(machines), Score: s.Score})
			}
		}
	}
	return out
}

// saveStock keeps what the account holds of reserved capacity, and which of its commitments wait for a person to say what they cost.
func (w *Refresh) saveStock(ctx context.Context, tx *store.Tx, account store.CloudAccount, r reading) error {
	kinds := map[string]cloud.CommitmentKind{}
	for _, c := range r.commitments.Items {
		kinds[c.Ref] = c.Kind
	}
	stock := make([]store.CapacityStock, 0, len(r.capacity.Items))
	for _, c := range r.capacity.Items {
		s := store.CapacityStock{Ref: c.Ref, Cloud: account.Cloud, Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType, Total: int64(max(c.Total, 0)),
			Block: kinds[c.Ref] == cloud.CapacityBlock, State: c.State, From: timeOrNil(c.From), To: timeOrNil(c.To)}
		if c.Available >= 0 {
			n := int64(c.Available)
			s.Available = &n
		}
		stock = append(stock, s)
	}
	pending, err := w.pending(ctx, tx, account, r.commitments.Items)
	if err != nil {
		return err
	}
	if err := store.SaveAccountStock(ctx, tx, account.ID, stock, pending); err != nil {
		return err
	}
	if len(r.scores) == 0 {
		return nil
	}
	return store.SavePlacementScores(ctx, tx, r.scores)
}

// pending says of what an account has bought, and what counts for nothing, why so. What people wrote down themselves waits for nobody.
func (w *Refresh) pending(ctx context.Context, tx *store.Tx, account store.CloudAccount, items []cloud.Commitment) ([]store.PendingCommitment, error) {
	known, err := store.Commitments(ctx, tx, time.Time{}, time.Time{})
	if err != nil {
		return nil, err
	}
	theirs := map[string]bool{}
	for _, k := range known {
		theirs[k.Ref] = k.Source != "cloud/"+account.ID
	}
	var out []store.PendingCommitment
	for _, item := range items {
		if theirs[item.Ref] || !item.To.IsZero() && !item.To.After(tx.Now) {
			continue
		}
		item.Rates = fewRates(item.Rates, account.Cloud, w.Prices())
		c, usable := toCommitment(item)
		p := store.PendingCommitment{Commitment: c, AccountID: account.ID}
		problem := c.Validate()
		switch {
		case usable && problem == nil:
			continue
		case !usable && c.Kind.Spend():
			p.Reason = store.PendingNoSpend
		case !usable:
			p.Reason = store.PendingNoCost
		default:
			p.Reason, p.Problem = store.PendingNotValid, problem.Error()
		}
		if p.Resource == commitment.ResourceMachine {
			p.Resource = ""
		}
		out = append(out, p)
	}
	return out, nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
