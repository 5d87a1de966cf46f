package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// sourceNames are who said a price, as it is shown with it.
var sourceNames = map[fleet.Cloud]string{fleet.CloudAWS: "aws price list", fleet.CloudAzure: "azure retail prices", fleet.CloudGCP: "gcp billing catalogue"}

func (w *Refresh) saveRegion(ctx context.Context, tx *store.Tx, c fleet.Cloud, r *regionReading, zones map[string]string, done *Refreshed) error {
	if r.lists {
		if err := w.saveList(ctx, tx, c, r, done); err != nil {
			return fmt.Errorf("prices of %s %s: %w", c, r.region, err)
		}
	}
	if r.spots {
		if err := w.saveSpot(ctx, tx, c, r, zones, done); err != nil {
			return fmt.Errorf("prices of Spot machines of %s %s: %w", c, r.region, err)
		}
	}
	return nil
}

const (
	// A list that has lost more than half of at least so many prices is not believed: it was cut without saying so.
	believableFrom = 20
	// A price this many times off the one before, or off the snapshot, either way, is not believed.
	doubtFactor = 5
)

// saveList keeps the machines and on-demand prices of a region: changes only.
func (w *Refresh) saveList(ctx context.Context, tx *store.Tx, c fleet.Cloud, r *regionReading, done *Refreshed) error {
	known, err := store.ListedPrices(ctx, tx, c, r.region)
	if err != nil {
		return err
	}
	priced := 0
	for _, p := range r.prices.Items {
		if p.Hour != nil {
			priced++
		}
	}
	if len(known) >= believableFrom && priced < len(known)/2 {
		return fleet.Errorf(fleet.CodeUnavailable, "the cloud's list has %d prices where %d were known; it is not believed, and the old ones stay", priced, len(known))
	}
	source := store.PriceSource{Cloud: c, Region: r.region, Kind: listOnDemand, Source: sourceNames[c], Skipped: map[string]int{}, Listed: priced}
	count(source.Skipped, r.prices.Skipped)
	snapshot := w.Prices()
	var news []store.NewListPrice
	var seen []string
	for _, p := range r.prices.Items {
		if p.Hour == nil {
			continue
		}
		was, ok := known[p.Offering.InstanceType]
		expected := was.Hour
		if !ok {
			if listed := snapshot.Price(p.Offering).List; listed != nil {
				expected = *listed
			} else if peers, enough := snapshot.Peers(c, p.Offering.InstanceType, r.region); enough {
				expected = peers // a region that was never priced: what others ask
			}
		}
		switch {
		case ok && was.Hour == *p.Hour:
			seen = append(seen, p.Offering.InstanceType)
			continue
		case expected > 0 && (*p.Hour > expected.MulDiv(doubtFactor, 1) || p.Hour.MulDiv(doubtFactor, 1) < expected):
			source.Doubted = append(source.Doubted, store.DoubtedPrice{InstanceType: p.Offering.InstanceType, Hour: p.Hour.String(), Expected: expected.String()})
			continue
		}
		news = append(news, store.NewListPrice{ID: p.ID, ListPrice: market.ListPrice{Cloud: c, Region: r.region, InstanceType: p.Offering.InstanceType, From: begins(p.From, was.From, tx.Now), Hour: *p.Hour, Source: source.Source}})
	}
	source.Changed = len(news)
	if err := store.AddListPrices(ctx, tx, news); err != nil {
		return err
	}
	if err := store.SeenListPrices(ctx, tx, c, r.region, seen); err != nil {
		return err
	}
	if err := store.SaveMachineTypes(ctx, tx, machineTypes(r.machines.Items)); err != nil {
		return err
	}
	done.OnDemand += priced
	done.OnDemandChanged += len(news)
	done.Doubted += len(source.Doubted)
	done.Machines += len(r.machines.Items)
	count(done.Skipped, r.prices.Skipped)
	count(done.Skipped, r.machines.Skipped)
	return store.SavePriceSource(ctx, tx, source)
}

// begins is since when a price holds: what the cloud says where that lies after the price before and not ahead of us, else now.
func begins(from, last, now time.Time) time.Time {
	if from.IsZero() || !from.After(last) || from.After(now) {
		return now
	}
	return from.UTC()
}

func machineTypes(items []cloud.InstanceType) []store.MachineType {
	out := make([]store.MachineType, len(items))
	told := func(n int64) *int64 {
		if n <= 0 {
			return nil
		}
		return &n
	}
	for i, t := range items {
		m := market.Machine{InstanceType: t.InstanceType, Traits: market.Traits{NetworkMbps: told(t.NetworkMbps), Fabric: market.Fabric(t.Interconnect),
			FabricGbps: told(t.FabricGbps), AddressPods: told(t.AddressPods)}}
		if t.LocalDiskTold {
			gib := t.LocalDiskGB * 1_000_000_000 >> 30
			m.LocalDiskGiB = &gib
		}
		if t.GPUCount == 1 {
			m.Link = market.LinkNone
		}
		out[i] = store.MachineType{Machine: m, GPUName: t.GPUName}
	}
	return out
}

// saveSpot puts Spot prices into the history. The list is complete, so each pool's newest price also holds now.
func (w *Refresh) saveSpot(ctx context.Context, tx *store.Tx, c fleet.Cloud, r *regionReading, zones map[string]string, done *Refreshed) error {
	writer, err := store.NewSpotWriter(ctx, tx, store.SpotWriteOptions{Source: sourceNames[c], Prices: w.Prices()})
	if err != nil {
		return err
	}
	listed, err := store.ListedPrices(ctx, tx, c, r.region)
	if err != nil {
		return err
	}
	source := store.PriceSource{Cloud: c, Region: r.region, Kind: listSpot, Source: sourceNames[c], Skipped: map[string]int{}}
	count(source.Skipped, r.spot.Skipped)
	count(done.Skipped, r.spot.Skipped)
	for i, p := range r.spot.Items {
		if p.ZoneID != "" {
			zones[p.Zone] = p.ZoneID
		}
		row := spotRow(c, p)
		if l, ok := listed[p.InstanceType]; ok {
			row.Change.OnDemand = market.ListedOf(&l.Hour)
		}
		if p.At.After(tx.Now) { // the cloud's clock is ahead of ours
			row.Change.At = tx.Now.Unix()
		}
		if p.Hour != nil {
			source.Listed++
		} else if row.Reason == "" {
			continue // the cloud lists none
		}
		if err := writer.Add(ctx, row); err != nil {
			return err
		}
		last := i+1 == len(r.spot.Items) || r.spot.Items[i+1].InstanceType != p.InstanceType || r.spot.Items[i+1].Zone != p.Zone
		if last && row.Reason == "" && row.Change.At < tx.Now.Unix() {
			row.Change.At = tx.Now.Unix()
			if err := writer.Add(ctx, row); err != nil {
				return err
			}
		}
	}
	written, err := writer.Close(ctx)
	if err != nil {
		return err
	}
	source.Changed = written.Added
	done.Spot += source.Listed
	done.SpotChanged += written.Added
	done.Doubted += written.Doubts
	return store.SavePriceSource(ctx, tx, source)
}

// spotRow is a price as the history keeps it: under the zone's id where there is one, since AWS shuffles names per account.
func spotRow(c fleet.Cloud, p cloud.SpotPrice) market.SpotRow {
	zone := p.ZoneID
	if zone == "" {
		zone = p.Zone
	}
	row := market.SpotRow{Pool: market.SpotPool{Cloud: c, Region: p.Region, Zone: zone, InstanceType: p.InstanceType, Product: market.ProductLinux},
		Change: market.SpotChange{At: p.At.Unix(), Spot: market.ListedOf(p.Hour)}}
	if p.Hour == nil && p.Text != "" {
		row.SpotText = p.Text
		if _, row.Reason, _ = market.ReadPrice(p.Text); row.Reason == "" {
			row.Reason = market.SuspectNotANumber
		}
	}
	return row
}

// saveCommitments keeps what the account has bought, where all of its cost is known. What people wrote down themselves is theirs: it is
// never changed. What the account had and does not list any more ends now.
func (w *Refresh) saveCommitments(ctx context.Context, tx *store.Tx, account store.CloudAccount, list cloud.List[cloud.Commitment], done *Refreshed) error {
	count(done.Skipped, list.Skipped)
	known, err := store.Commitments(ctx, tx, time.Time{}, time.Time{})
	if err != nil {
		return err
	}
	source := "cloud/" + account.ID
	byRef := map[string]store.Commitment{}
	for _, k := range known {
		byRef[k.Ref] = k
	}
	book := w.Prices()
	var all []commitment.Commitment
	listed := map[string]bool{}
	for _, item := range list.Items {
		listed[item.Ref] = true
		was, ok := byRef[item.Ref]
		item.Rates = fewRates(item.Rates, account.Cloud, book)
		c, usable := toCommitment(item)
		if ok && was.Source != source || !usable || c.Validate() != nil {
			done.CommitmentsSkipped++
			continue
		}
		c.Owner = was.Owner // the tenant's word
		done.Commitments++
		all = append(all, c)
	}
	for _, ref := range slices.Sorted(maps.Keys(byRef)) {
		k := byRef[ref]
		if k.Source != source || listed[ref] || !k.Term.To.IsZero() && !k.Term.To.After(tx.Now) {
			continue
		}
		done.CommitmentsEnded++
		all = append(all, cutShort(k.Commitment, tx.Now))
	}
	if len(all) == 0 {
		return nil
	}
	_, err = store.ImportCommitments(ctx, tx, all, source, "cloud account "+account.Name)
	return err
}

// cutShort ends a term at now; an hour of what has run costs the same as before.
func cutShort(c commitment.Commitment, now time.Time) commitment.Commitment {
	if whole := c.Term.To.Sub(c.Term.From).Milliseconds(); !c.Term.To.IsZero() && whole > 0 {
		c.Upfront = c.Upfront.MulDiv(max(now.Sub(c.Term.From).Milliseconds(), 0), whole)
	}
	c.Term.To = now
	if !now.After(c.Term.From) {
		c.Term.To = c.Term.From.Add(time.Second)
	}
	return c
}

// maxPlanRates is what a commitment may hold. A plan has one for each of some 1,000 types in each region.
const maxPlanRates = 5_000

// fewRates keeps those of machines with GPUs where a plan has more rates than a commitment may hold, then others in their order. What is
// left out counts as not covered.
func fewRates(rates []cloud.Rate, c fleet.Cloud, book *market.PriceBook) []cloud.Rate {
	if len(rates) <= maxPlanRates {
		return rates
	}
	gpus := func(r cloud.Rate) int {
		t, _ := book.InstanceType(c, r.InstanceType)
		return min(t.GPUCount, 1)
	}
	out := slices.Clone(rates)
	slices.SortStableFunc(out, func(a, b cloud.Rate) int { return gpus(b) - gpus(a) })
	return out[:maxPlanRates]
}

// toCommitment translates; false when what it costs is not known, since nothing must look free that is not.
func toCommitment(c cloud.Commitment) (commitment.Commitment, bool) {
	out := commitment.Commitment{Ref: c.Ref, Kind: commitment.Kind(c.Kind), Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType, Family: c.Family, Resource: commitment.Resource(c.Resource),
		GPUModel: c.GPUModel, Quantity: c.QuantityMill, Flexible: c.Flexible, Term: fleet.Interval{From: c.From, To: c.To}}
	switch {
	case out.Kind.Spend():
		if c.Spend == nil {
			return out, false
		}
		out.Spend, out.Resource = *c.Spend, ""
		for _, r := range c.Rates {
			out.Rates = append(out.Rates, commitment.Rate{InstanceType: r.InstanceType, Region: r.Region, Hour: &r.Hour})
		}
	case c.Kind == cloud.CapacityReservation: // costs the on-demand price of its machines
	case c.Upfront == nil || c.Recurring == nil:
		return out, false
	default:
		out.Upfront, out.Recurring = *c.Upfront, *c.Recurring
	}
	return out, true
}
