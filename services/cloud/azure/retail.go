package azure

import (
	"context"
	"strings"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// item is a row of the retail prices, as far as it is read.
type item struct {
	Currency   string     `json:"currencyCode"`
	MinUnits   float64    `json:"tierMinimumUnits"`
	Retail     *float64   `json:"retailPrice"`
	Region     string     `json:"armRegionName"`
	From       time.Time  `json:"effectiveStartDate"`
	Until      *time.Time `json:"effectiveEndDate"`
	MeterID    string     `json:"meterId"`
	SKU        string     `json:"skuId"`
	Product    string     `json:"productName"`
	SKUName    string     `json:"skuName"`
	Unit       string     `json:"unitOfMeasure"`
	Type       string     `json:"type"`
	Primary    bool       `json:"isPrimaryMeterRegion"`
	Machine    string     `json:"armSkuName"`
	SavingPlan []struct {
		Retail *float64 `json:"retailPrice"`
		Term   string   `json:"term"`
	} `json:"savingsPlan"`
}

const currency = "USD"

func retailQuery(region, more string) string {
	return query("/api/retail/prices", "2023-01-01-preview", "currencyCode", "'"+currency+"'",
		"$filter", "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '"+region+"' "+more)
}

// items reads the retail prices of a region's machines, whole.
func (s *Source) items(ctx context.Context, region string, each func(*item)) error {
	if strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || region == "" { // it stands in a filter
		return fleet.Errorf(fleet.CodeInvalid, "%.40q is no region of Azure", region)
	}
	return s.list(ctx, "list Azure prices of "+region, func(ctx context.Context) error {
		first, rows := retailQuery(region, ""), 0
		return cloud.Pages(ctx, func(link string) (string, error) {
			var page struct {
				Items        []item
				NextPageLink string
				Count        int
			}
			if err := s.retail.Get(ctx, or(link, first), &page); err != nil {
				return "", err
			}
			if page.Count != len(page.Items) {
				return "", fleet.Errorf(fleet.CodeUnavailable, "a page of the price list says %d rows and has %d", page.Count, len(page.Items))
			}
			for i := range page.Items {
				each(&page.Items[i])
			}
			rows += len(page.Items)
			return page.NextPageLink, cloud.Room(rows)
		})
	})
}

// Kinds of rows. Spot and Low Priority are told by the name of the SKU only.
const (
	kindForeign = iota
	kindOnDemand
	kindSpot
)

// kind says whether the row is what a plain Linux machine of the region costs an hour.
func (i *item) kind(region string) int {
	switch {
	case i.Type != "Consumption" || i.Region != region || i.Unit != "1 Hour" || i.MinUnits != 0 || i.Machine == "" || i.Until != nil || !i.Primary,
		strings.Contains(i.Product, "Windows"), strings.Contains(i.Product, "Cloud Services"), strings.Contains(i.Product, "CloudServices"),
		strings.Contains(i.Product, "Dedicated Host"), strings.Contains(i.SKUName, "Low Priority"):
		return kindForeign
	case strings.HasSuffix(i.SKUName, " Spot"):
		return kindSpot
	}
	return kindOnDemand
}

func (i *item) hour() (*fleet.Money, cloud.SkipReason) {
	if i.Currency != currency {
		return nil, cloud.SkipCurrency
	}
	return cloud.HourFromFloat(i.Retail)
}

// OnDemandPrices lists what Linux machines of a region cost on demand. It needs no account.
func (s *Source) OnDemandPrices(ctx context.Context, region string) (cloud.List[cloud.Price], error) {
	var out cloud.List[cloud.Price]
	err := s.items(ctx, region, func(i *item) { readPrice(&out, i, region) })
	if err != nil {
		return cloud.List[cloud.Price]{}, err
	}
	cloud.Settle(&out)
	return out, nil
}

func readPrice(out *cloud.List[cloud.Price], i *item, region string) {
	switch i.kind(region) {
	case kindForeign:
		out.Skip(cloud.SkipForeign)
	case kindOnDemand:
		p := cloud.Price{Offering: fleet.Offering{Cloud: fleet.CloudAzure, Region: region, InstanceType: i.Machine, Purchase: fleet.PurchaseOnDemand}, ID: i.SKU + "/" + i.MeterID, From: i.From.UTC()}
		var reason cloud.SkipReason
		p.Hour, reason = i.hour()
		out.Note(reason)
		out.Items = append(out.Items, p)
	}
}

// SpotPrices lists the Spot price of each machine of a region, with the moment since when it holds. Azure publishes the present only, one
// price for all zones; what changed before since is told all the same, since it still holds. It needs no account.
func (s *Source) SpotPrices(ctx context.Context, region string, _ time.Time) (cloud.List[cloud.SpotPrice], error) {
	var out cloud.List[cloud.SpotPrice]
	err := s.items(ctx, region, func(i *item) { readSpot(&out, i, region) })
	if err != nil {
		return cloud.List[cloud.SpotPrice]{}, err
	}
	cloud.SettleSpot(&out)
	return out, nil
}

func readSpot(out *cloud.List[cloud.SpotPrice], i *item, region string) {
	switch i.kind(region) {
	case kindForeign:
		out.Skip(cloud.SkipForeign)
	case kindSpot:
		p := cloud.SpotPrice{Region: region, InstanceType: i.Machine, At: i.From.UTC(), ID: i.SKU + "/" + i.MeterID}
		if i.From.IsZero() {
			out.Skip(cloud.SkipUnknown)
			return
		}
		var reason cloud.SkipReason
		p.Hour, reason = i.hour()
		if p.Hour != nil {
			p.Text = p.Hour.String()
		}
		out.Note(reason)
		out.Items = append(out.Items, p)
	}
}
