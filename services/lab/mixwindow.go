package lab

import (
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// The recorded market of the board: which probes, which machine type, which zones.
const (
	MarketCampaign = "2023-02-15" // of the probes: nine zones of one GPU, 45.5 days
	MarketDevice   = "v100_1"
	MarketType     = "p3.2xlarge" // the same machine in the price history
	MarketDepth    = 16           // replicas that a zone has for one service while its probe finds one
	MarketSilent   = 0.2          // share of losses without notice
	MarketWindows  = 3            // weeks that a board plays
	trainDays      = 22.75        // the first half of the campaign is for training, the second for the test
)

// left out of the nine: seven zones are the board's, without the two that have the least.
var leftOut = []string{"us-east-1a", "us-east-1d"}

// RecordedMarkets are the windows of the board for a trace. A trace without history is played against three weeks of the first half of the
// campaign, at the prices of those weeks (2023, February and March); one with history against three weeks of the second half, with as much before
// them as the trace has history, at prices from 2023-10-01 on, four weeks apart. So whatever was tuned on the former has seen neither load, losses
// nor prices of the latter.
func RecordedMarkets(t *Trace, zones []SpotZone, prices []PriceSeries, depth int, seed uint64) ([]*Market, error) {
	kept := []SpotZone{}
	for _, z := range zones {
		if !slices.Contains(leftOut, z.Zone) {
			kept = append(kept, z)
		}
	}
	if len(kept) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "no probes of %s in the campaign of %s", MarketDevice, MarketCampaign)
	}
	const day, week = 86400, 7 * 86400
	out := []*Market{}
	for k := range MarketWindows {
		w := MarketWindow{Slots: t.Slots(), Depth: depth, Silent: MarketSilent, Seed: seed}
		began, err := time.Parse(time.DateOnly, MarketCampaign)
		if err != nil {
			return nil, err
		}
		if t.From == 0 {
			w.Offset = k * week
			w.PriceFrom = began.Add(time.Duration(w.Offset) * time.Second)
			w.Name = fmt.Sprintf("train week %d", k+1)
			if float64(w.Offset+t.Slots()*SlotSeconds) > trainDays*day {
				return nil, fleet.Errorf(fleet.CodeInvalid, "trace %s: its %d slots from day %d on are more than the training half of the probes", t.Name, t.Slots(), w.Offset/day)
			}
		} else {
			w.Offset = int(trainDays*day) + k*week - t.From*SlotSeconds
			w.PriceFrom = time.Date(2023, 10, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, 28*k)
			w.Name = fmt.Sprintf("test week %d", k+1)
		}
		m, err := RecordedMarket(kept, prices, w)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// GeneratedMarkets are the windows of the built-in set: as many invented markets, whose zones have so many times the usual stock.
func GeneratedMarkets(t *Trace, times int, seed uint64) ([]*Market, error) {
	if times < 1 || times > 100 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "%d times the stock; want 1 to 100", times)
	}
	out := []*Market{}
	for k := range MarketWindows {
		m, err := GeneratedMarket(fmt.Sprintf("market %d", k+1), t.Slots(), seed+uint64(k))
		if err != nil {
			return nil, err
		}
		for i := range m.Pools {
			if m.Pools[i].Purchase == fleet.PurchaseSpot {
				for s := range m.Pools[i].Stock {
					m.Pools[i].Stock[s] *= int32(times)
				}
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// Only returns the judged span of a trace that starts with it, without what comes after: the load that a training run may see.
func (t *Trace) Only() *Trace {
	c := *t
	c.Rho, c.Requests = t.Rho[:t.To], t.Requests[:t.To]
	return &c
}
