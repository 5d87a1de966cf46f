package lab

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// SpotRun is a span in which a probe of a zone gave the same answer.
type SpotRun struct {
	Offset, Seconds int
	Value           int // machines that were to be had
}

// SpotZone is the availability of one zone as it was probed.
type SpotZone struct {
	Zone, Region string
	Runs         []SpotRun
}

// PriceStep is a Spot price from a moment on, in millionths of the on-demand price; -1: none is published.
type PriceStep struct {
	At    time.Time
	Ratio int32
}

// PriceSeries is the Spot price of one machine type in one zone.
type PriceSeries struct {
	Zone, Region string
	Steps        []PriceStep
}

var (
	spotColumns  = []string{"kind", "nodes", "cloud", "campaign_start", "zone", "device", "gap_seconds", "offset_seconds", "duration_seconds", "value"}
	priceColumns = []string{"timestamp", "cloud", "region", "zone", "instance_type", "spot_price", "ondemand_price"}
)

const (
	maxMarketRows  = 5_000_000
	maxMarketZones = 2_000
)

// ReadSpotRuns reads the run-length encoded probes of one device in one campaign. Anything malformed is refused with its row (the header is row 1).
func ReadSpotRuns(r io.Reader, campaign, device string) ([]SpotZone, error) {
	zones := map[string]*SpotZone{}
	err := marketRows(r, spotColumns, func(row int, f []string) error {
		if f[0] != "availability" || f[3] != campaign || f[5] != device {
			return nil
		}
		var n [3]int
		for i, high := range []int{maxOffset, maxOffset, maxReplicas} {
			v, err := strconv.Atoi(f[7+i])
			if err != nil || v < 0 || v > high {
				return fleet.Errorf(fleet.CodeInvalid, "row %d: %s is %q; want a whole number from 0 to %d", row, spotColumns[7+i], f[7+i], high)
			}
			n[i] = v
		}
		if len(f[4]) < 3 {
			return fleet.Errorf(fleet.CodeInvalid, "row %d: zone is %q", row, f[4])
		}
		z := zones[f[4]]
		if z == nil {
			if len(zones) >= maxMarketZones {
				return fleet.Errorf(fleet.CodeTooLarge, "row %d: more than %d zones", row, maxMarketZones)
			}
			z = &SpotZone{Zone: f[4], Region: strings.TrimRight(f[4][:len(f[4])-1], "-")}
			zones[f[4]] = z
		}
		end := 0
		if k := len(z.Runs); k > 0 {
			end = z.Runs[k-1].Offset + z.Runs[k-1].Seconds
		}
		if n[0] < end || n[1] == 0 {
			return fleet.Errorf(fleet.CodeInvalid, "row %d: a run of %d s from %d in %s, after one that ends at %d; want them in order, none empty", row, n[1], n[0], f[4], end)
		}
		z.Runs = append(z.Runs, SpotRun{n[0], n[1], n[2]})
		return nil
	})
	out := make([]SpotZone, 0, len(zones))
	for _, z := range zones {
		out = append(out, *z)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Zone < out[j].Zone })
	return out, err
}

// ReadSpotPrices reads price changes of one machine type. A row without a Spot price says that none is published from then on.
func ReadSpotPrices(r io.Reader, instanceType string) ([]PriceSeries, error) {
	zones := map[string]*PriceSeries{}
	err := marketRows(r, priceColumns, func(row int, f []string) error {
		if f[4] != instanceType {
			return nil
		}
		at, err := time.Parse(time.RFC3339, f[0])
		if err != nil {
			return fleet.Errorf(fleet.CodeInvalid, "row %d: timestamp is %q", row, f[0])
		}
		ratio := int32(-1)
		if f[5] != "" && f[6] != "" {
			spot, e1 := strconv.ParseFloat(f[5], 64)
			full, e2 := strconv.ParseFloat(f[6], 64)
			v := spot / full
			if e1 != nil || e2 != nil || !(v > 0 && v <= maxPrice/FullPrice) {
				return fleet.Errorf(fleet.CodeInvalid, "row %d: prices %q and %q", row, f[5], f[6])
			}
			ratio = int32(math.Round(v * FullPrice))
		}
		z := zones[f[2]+"/"+f[3]]
		if z == nil {
			if len(zones) >= maxMarketZones {
				return fleet.Errorf(fleet.CodeTooLarge, "row %d: more than %d zones", row, maxMarketZones)
			}
			z = &PriceSeries{Zone: f[3], Region: f[2]}
			zones[f[2]+"/"+f[3]] = z
		}
		if k := len(z.Steps); k > 0 && !at.After(z.Steps[k-1].At) {
			return fleet.Errorf(fleet.CodeInvalid, "row %d: %s in %s after %s; want rising times", row, f[0], f[3], z.Steps[k-1].At.Format(time.RFC3339))
		}
		z.Steps = append(z.Steps, PriceStep{at, ratio})
		return nil
	})
	out := make([]PriceSeries, 0, len(zones))
	for _, z := range zones {
		out = append(out, *z)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Region < out[j].Region || (out[i].Region == out[j].Region && out[i].Zone < out[j].Zone)
	})
	return out, err
}

func marketRows(r io.Reader, columns []string, each func(row int, f []string) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	in.FieldsPerRecord = len(columns)
	for row := 1; ; row++ {
		f, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			if row == 1 {
				return fleet.Errorf(fleet.CodeInvalid, "the file is empty; want the columns %v", columns)
			}
			return nil
		case err != nil:
			return fleet.Errorf(fleet.CodeInvalid, "row %d: %v", row, err)
		case row > maxMarketRows:
			return fleet.Errorf(fleet.CodeTooLarge, "more than %d rows", maxMarketRows)
		case row == 1:
			if !slices.Equal(f, columns) {
				return fleet.Errorf(fleet.CodeInvalid, "row 1: the columns are %v; want %v", f, columns)
			}
			continue
		}
		if err := each(row, f); err != nil {
			return err
		}
	}
}

// MarketWindow says which part of a campaign is replayed at which prices.
type MarketWindow struct {
	Name      string
	Offset    int       // seconds into the campaign
	PriceFrom time.Time // the price of the first slot is that of this moment
	Slots     int
	Depth     int     // replicas that a zone has while its probe finds one
	Silent    float64 // share of losses without notice
	Seed      uint64
}

// RecordedMarket joins probes and prices into a market with an on-demand pool. Account-specific zone names cannot be joined to zone ids, so
// within a region the zones of both sides are paired in order. A zone without a published price has no stock; a hole in the probes has none either.
func RecordedMarket(zones []SpotZone, prices []PriceSeries, w MarketWindow) (*Market, error) {
	if w.Slots < 1 || w.Slots > maxSlots || w.Depth < 1 || w.Depth > maxReplicas || w.Offset < 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "market %s: %d slots from %d s, depth %d", w.Name, w.Slots, w.Offset, w.Depth)
	}
	m := &Market{Name: w.Name, Pools: []Pool{OnDemand(w.Slots)}, Silent: w.Silent, Seed: w.Seed}
	used := map[string]int{}
	for _, z := range zones {
		if n := len(z.Runs); n == 0 || z.Runs[n-1].Offset+z.Runs[n-1].Seconds < w.Offset+w.Slots*SlotSeconds {
			return nil, fleet.Errorf(fleet.CodeInvalid, "market %s: the probes of %s end before the window does", w.Name, z.Zone)
		}
		series := priced(prices, z.Region)
		k := used[z.Region]
		used[z.Region]++
		if k >= len(series) {
			return nil, fleet.Errorf(fleet.CodeInvalid, "market %s: %d zones of %s with prices, more are needed", w.Name, len(series), z.Region)
		}
		m.Pools = append(m.Pools, recordedPool(z, series[k], w))
	}
	return m, m.Check(w.Slots)
}

// priced are the series of a region that ever publish a price.
func priced(prices []PriceSeries, region string) []PriceSeries {
	out := []PriceSeries{}
	for _, p := range prices {
		if p.Region == region && slices.ContainsFunc(p.Steps, func(s PriceStep) bool { return s.Ratio >= 0 }) {
			out = append(out, p)
		}
	}
	return out
}

func recordedPool(z SpotZone, series PriceSeries, w MarketWindow) Pool {
	p := Pool{Name: z.Zone, Region: z.Region, Purchase: fleet.PurchaseSpot, Price: make([]int32, w.Slots), Stock: make([]int32, w.Slots)}
	run, step := 0, -1
	for s := range w.Slots {
		at := w.Offset + s*SlotSeconds
		for run < len(z.Runs) && z.Runs[run].Offset+z.Runs[run].Seconds <= at {
			run++
		}
		now := w.PriceFrom.Add(time.Duration(s) * SlotSeconds * time.Second)
		for step+1 < len(series.Steps) && !series.Steps[step+1].At.After(now) {
			step++
		}
		p.Price[s] = FullPrice
		if step < 0 || series.Steps[step].Ratio < 0 {
			continue
		}
		p.Price[s] = series.Steps[step].Ratio
		if run < len(z.Runs) && z.Runs[run].Offset <= at {
			p.Stock[s] = int32(z.Runs[run].Value * w.Depth) //nolint:gosec // both are bounded by maxReplicas; Market.Check refuses more
		}
	}
	return p
}
