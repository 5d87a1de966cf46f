package gcp

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// computeEngine is the id of the service whose SKUs are read.
const computeEngine = "6F81-5844-456A"

const currency = "USD"

func skuList(token string, max int) string {
	q := url.Values{"pageSize": {strconv.Itoa(max)}, "currencyCode": {currency}}
	if token != "" {
		q.Set("pageToken", token)
	}
	return "/v1/services/" + computeEngine + "/skus?" + q.Encode()
}

// sku is a row of the billing catalogue, as far as it is read.
type sku struct {
	ID          string `json:"skuId"`
	Description string `json:"description"`
	Category    struct {
		Family string `json:"resourceFamily"`
		Group  string `json:"resourceGroup"`
		Usage  string `json:"usageType"`
	} `json:"category"`
	Regions []string `json:"serviceRegions"`
	Pricing []struct {
		From       time.Time `json:"effectiveTime"`
		Expression struct {
			Unit  string `json:"usageUnit"`
			Rates []struct {
				Start float64 `json:"startUsageAmount"`
				Price struct {
					Currency string      `json:"currencyCode"`
					Units    json.Number `json:"units"`
					Nanos    int64       `json:"nanos"`
				} `json:"unitPrice"`
			} `json:"tieredRates"`
		} `json:"pricingExpression"`
	} `json:"pricingInfo"`
}

// rate reads a flat price per unit.
func (k *sku) rate(unit string) (*fleet.Money, time.Time, cloud.SkipReason) {
	if len(k.Pricing) == 0 {
		return nil, time.Time{}, cloud.SkipMissing
	}
	p := k.Pricing[len(k.Pricing)-1] // the newest
	rates := p.Expression.Rates
	switch {
	case p.Expression.Unit != unit:
		return nil, time.Time{}, cloud.SkipUnknown
	case len(rates) == 0:
		return nil, time.Time{}, cloud.SkipMissing
	case len(rates) > 1 || rates[0].Start != 0:
		return nil, time.Time{}, cloud.SkipUnknown
	case rates[0].Price.Currency != currency:
		return nil, time.Time{}, cloud.SkipCurrency
	}
	units, err := strconv.ParseInt(or(rates[0].Price.Units.String(), "0"), 10, 64)
	nanos := rates[0].Price.Nanos
	switch {
	case err != nil || units > int64(cloud.MaxHour)/fleet.NanosPerUnit || units < -int64(cloud.MaxHour)/fleet.NanosPerUnit || nanos >= fleet.NanosPerUnit || nanos <= -fleet.NanosPerUnit:
		return nil, time.Time{}, cloud.SkipMalformed
	case units*fleet.NanosPerUnit+nanos <= 0:
		return nil, time.Time{}, cloud.SkipNotPositive
	}
	m := fleet.Money(units*fleet.NanosPerUnit + nanos)
	return &m, p.From.UTC(), ""
}

// catalogue reads all SKUs once; a failure is not kept.
func (s *Source) catalogue(ctx context.Context) ([]sku, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skus != nil {
		return s.skus, nil
	}
	all := []sku{}
	err := s.list(ctx, "list Google prices", func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			var page struct {
				Skus          []sku
				NextPageToken string
			}
			if err := s.billing.Get(ctx, skuList(token, 5000), &page); err != nil {
				return "", err
			}
			for _, k := range page.Skus {
				if k.Category.Usage == "OnDemand" || k.Category.Usage == "Preemptible" {
					all = append(all, k)
				}
			}
			return page.NextPageToken, cloud.Room(len(all))
		})
	})
	if err != nil {
		return nil, err
	}
	s.skus = all
	return all, nil
}

// series of machines by the words with which descriptions of their cores and memory begin. A series that is not here has no price.
var series = map[string]struct{ core, ram string }{
	"n1": {"N1 Predefined Instance Core", "N1 Predefined Instance Ram"}, "n2": {"N2 Instance Core", "N2 Instance Ram"}, "n2d": {"N2D AMD Instance Core", "N2D AMD Instance Ram"},
	"n4": {"N4 Instance Core", "N4 Instance Ram"}, "e2": {"E2 Instance Core", "E2 Instance Ram"}, "t2d": {"T2D AMD Instance Core", "T2D AMD Instance Ram"},
	"c2": {"Compute optimized Core", "Compute optimized Ram"}, "c2d": {"C2D AMD Instance Core", "C2D AMD Instance Ram"}, "c3": {"C3 Instance Core", "C3 Instance Ram"}, "c3d": {"C3D Instance Core", "C3D Instance Ram"},
	"c4": {"C4 Instance Core", "C4 Instance Ram"}, "a2": {"A2 Instance Core", "A2 Instance Ram"}, "g2": {"G2 Instance Core", "G2 Instance Ram"}, "g4": {"G4 Instance Core", "G4 Instance Ram"},
	"a3": {"A3 Instance Core", "A3 Instance Ram"}, "a3-mega": {"A3Plus Instance Core", "A3Plus Instance Ram"}, "a3-ultra": {"A3Ultra Instance Core", "A3Ultra Instance Ram"},
}

// accelerators by the words with which descriptions of theirs begin.
var accelerators = map[string]string{
	"nvidia-tesla-t4": "Nvidia Tesla T4 GPU", "nvidia-l4": "Nvidia L4 GPU", "nvidia-tesla-v100": "Nvidia Tesla V100 GPU", "nvidia-tesla-p100": "Nvidia Tesla P100 GPU", "nvidia-tesla-p4": "Nvidia Tesla P4 GPU",
	"nvidia-tesla-a100": "Nvidia Tesla A100 GPU", "nvidia-a100-80gb": "Nvidia Tesla A100 80GB GPU", "nvidia-h100-80gb": "Nvidia H100 80GB GPU", "nvidia-h100-mega-80gb": "Nvidia H100 80GB Mega GPU",
	"nvidia-h200-141gb": "Nvidia H200 141GB GPU",
}

const (
	localSSD = "SSD backed Local Storage"
	// A month of storage has 730 hours: https://cloud.google.com/compute/disks-image-pricing.
	monthHours = 730
)

// part is one thing that a machine's price is made of.
type part struct {
	begins string // of the description of its SKU
	unit   string
	num    int64 // of its units per hour, over den
	den    int64
}

// parts of a machine's price; none when the series is not known.
func (m *machine) parts() []part {
	name, _, _ := strings.Cut(m.Name, "-")
	for _, special := range []string{"a3-mega", "a3-ultra"} {
		if strings.HasPrefix(m.Name, special) {
			name = special
		}
	}
	words, ok := series[name]
	if !ok || m.shared { // a shared core is billed by a fraction that the API does not tell
		return nil
	}
	out := []part{{words.core, "h", m.CPUMilli, 1000}, {words.ram, "GiBy.h", m.MemMiB, 1024}}
	if m.GPUCount > 0 {
		gpu, ok := accelerators[m.GPUName]
		if !ok {
			return nil
		}
		out = append(out, part{gpu, "h", int64(m.GPUCount), 1})
	}
	if m.ssdGiB > 0 {
		out = append(out, part{localSSD, "GiBy.mo", m.ssdGiB, monthHours})
	}
	return out
}

// shelf is the SKUs of one region and way of buying, by the beginning of their description.
type shelf map[string][]*sku

// ways of buying, as descriptions say them: what stands before a core's or a memory's words, and after an accelerator's or a disk's.
var ways = map[fleet.Purchase]struct{ usage, before, after, disk string }{
	fleet.PurchaseOnDemand: {"OnDemand", "", " running in", ""},
	fleet.PurchaseSpot:     {"Preemptible", "Spot Preemptible ", " attached to Spot Preemptible VMs running in", " attached to Spot Preemptible VMs"},
}

func stock(all []sku, region string, purchase fleet.Purchase) shelf {
	out := shelf{}
	way := ways[purchase]
	add := func(k *sku, begins, description string) {
		if strings.HasPrefix(k.Description, description) {
			out[begins] = append(out[begins], k)
		}
	}
	for i := range all {
		k := &all[i]
		if k.Category.Usage != way.usage || !slices.Contains(k.Regions, region) {
			continue
		}
		for _, words := range series {
			add(k, words.core, way.before+words.core+" running in")
			add(k, words.ram, way.before+words.ram+" running in")
		}
		for _, gpu := range accelerators {
			add(k, gpu, gpu+way.after)
		}
		if disk := localSSD + way.disk; k.Description == disk || strings.HasPrefix(k.Description, disk+" in ") {
			out[localSSD] = append(out[localSSD], k)
		}
	}
	return out
}

// hour sums a machine's parts. Two SKUs for one part with different prices leave it unknown.
func (sh shelf) hour(m *machine) (hour *fleet.Money, id string, from time.Time, reason cloud.SkipReason) {
	parts := m.parts()
	if parts == nil {
		return nil, "", from, cloud.SkipUnknown
	}
	sum := fleet.Money(0)
	var ids []string
	for _, p := range parts {
		var one *fleet.Money
		for _, k := range sh[p.begins] {
			rate, since, why := k.rate(p.unit)
			switch {
			case why != "":
				return nil, k.ID, from, why
			case one != nil && *one != *rate:
				return nil, k.ID, from, cloud.SkipConflict
			}
			one = rate
			ids = append(ids, k.ID)
			if since.After(from) {
				from = since
			}
		}
		if one == nil {
			return nil, "", from, cloud.SkipMissing
		}
		sum = sum.Add(one.MulDiv(p.num, p.den))
	}
	if sum <= 0 || sum > cloud.MaxHour {
		return nil, strings.Join(ids, "+"), from, cloud.SkipMalformed
	}
	return &sum, strings.Join(ids, "+"), from, ""
}

// priced lists a region's machines with their price in one way of buying.
func (s *Source) priced(ctx context.Context, region string, purchase fleet.Purchase, each func(m *machine, hour *fleet.Money, id string, from time.Time, reason cloud.SkipReason)) error {
	machines, err := s.machines(ctx, region)
	if err != nil {
		return err
	}
	all, err := s.catalogue(ctx)
	if err != nil {
		return err
	}
	sh := stock(all, region, purchase)
	for i := range machines.Items {
		hour, id, from, reason := sh.hour(&machines.Items[i])
		each(&machines.Items[i], hour, id, from, reason)
	}
	return nil
}

// OnDemandPrices lists what the machines of a region cost on demand.
func (s *Source) OnDemandPrices(ctx context.Context, region string) (cloud.List[cloud.Price], error) {
	var out cloud.List[cloud.Price]
	err := s.priced(ctx, region, fleet.PurchaseOnDemand, func(m *machine, hour *fleet.Money, id string, from time.Time, reason cloud.SkipReason) {
		out.Note(reason)
		out.Items = append(out.Items, cloud.Price{Offering: fleet.Offering{Cloud: fleet.CloudGCP, Region: region, InstanceType: m.Name, Purchase: fleet.PurchaseOnDemand}, Hour: hour, ID: id, From: from})
	})
	if err != nil {
		return cloud.List[cloud.Price]{}, err
	}
	cloud.Settle(&out)
	return out, nil
}

// SpotPrices lists what the machines of a region cost as Spot, with the moment since when the price holds. Google has one price for all
// zones of a region and publishes the present only.
func (s *Source) SpotPrices(ctx context.Context, region string, _ time.Time) (cloud.List[cloud.SpotPrice], error) {
	var out cloud.List[cloud.SpotPrice]
	err := s.priced(ctx, region, fleet.PurchaseSpot, func(m *machine, hour *fleet.Money, id string, from time.Time, reason cloud.SkipReason) {
		out.Note(reason)
		if hour == nil {
			return // no Spot, or not one whose parts are known: there is no moment to tell it of
		}
		out.Items = append(out.Items, cloud.SpotPrice{Region: region, InstanceType: m.Name, At: from, Hour: hour, Text: hour.String(), ID: id})
	})
	if err != nil {
		return cloud.List[cloud.SpotPrice]{}, err
	}
	cloud.SettleSpot(&out)
	return out, nil
}
