package aws

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

const (
	serviceCode = "AmazonEC2"
	currency    = "USD"
)

// The products that are a plain Linux machine, on demand.
var plainLinux = map[string]string{"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand"}

// OnDemandPrices lists what Linux machines of a region cost on demand.
func (s *Source) OnDemandPrices(ctx context.Context, region string) (cloud.List[cloud.Price], error) {
	filters := []pricingtypes.Filter{match("regionCode", region)}
	for _, field := range []string{"operatingSystem", "tenancy", "preInstalledSw", "capacitystatus", "marketoption"} {
		filters = append(filters, match(field, plainLinux[field]))
	}
	var out cloud.List[cloud.Price]
	err := s.list(ctx, "list AWS prices of "+region, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			page, err := s.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String(serviceCode), FormatVersion: aws.String("aws_v1"),
				Filters: filters, MaxResults: aws.Int32(100), NextToken: optional(token)})
			if err != nil {
				return "", err
			}
			for _, text := range page.PriceList {
				if err := readProduct(&out, []byte(text), region); err != nil {
					return "", err
				}
			}
			return aws.ToString(page.NextToken), cloud.Room(len(out.Items))
		})
	})
	if err != nil {
		return cloud.List[cloud.Price]{}, err
	}
	cloud.Settle(&out)
	return out, nil
}

func match(field, value string) pricingtypes.Filter {
	return pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: aws.String(field), Value: aws.String(value)}
}

// product is an item of the price list, as far as it is read.
type product struct {
	Product struct {
		SKU        string            `json:"sku"`
		Family     string            `json:"productFamily"`
		Attributes map[string]string `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			EffectiveDate time.Time `json:"effectiveDate"`
			Dimensions    map[string]struct {
				RateCode     string            `json:"rateCode"`
				Unit         string            `json:"unit"`
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// readProduct adds the prices of one item. What is no JSON is an error of the whole list: it was cut.
func readProduct(out *cloud.List[cloud.Price], text []byte, region string) error {
	var p product
	if err := json.Unmarshal(text, &p); err != nil {
		return &fleet.Error{Code: fleet.CodeUnavailable, Message: "an item of the price list cannot be read", Err: err}
	}
	a := p.Product.Attributes
	offering := fleet.Offering{Cloud: fleet.CloudAWS, Region: region, InstanceType: a["instanceType"], Purchase: fleet.PurchaseOnDemand}
	switch {
	case a["instanceType"] == "" || a["regionCode"] != "" && a["regionCode"] != region:
		out.Skip(cloud.SkipForeign)
		return nil
	case p.Product.Family != "Compute Instance" && p.Product.Family != "Compute Instance (bare metal)":
		out.Skip(cloud.SkipForeign)
		return nil
	}
	for field, want := range plainLinux {
		if got, told := a[field]; told && got != want {
			out.Skip(cloud.SkipForeign)
			return nil
		}
	}
	found := false
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.Dimensions {
			if d.Unit != "Hrs" {
				continue
			}
			found = true
			row := cloud.Price{Offering: offering, ID: d.RateCode, From: term.EffectiveDate}
			reason := cloud.SkipCurrency
			if text, ok := d.PricePerUnit[currency]; ok {
				row.Hour, reason = cloud.ReadHour(text)
			} else if len(d.PricePerUnit) == 0 {
				reason = cloud.SkipMissing
			}
			out.Note(reason)
			out.Items = append(out.Items, row)
		}
	}
	if !found {
		out.Skip(cloud.SkipMissing)
		out.Items = append(out.Items, cloud.Price{Offering: offering, ID: p.Product.SKU})
	}
	return nil
}

// SpotPrices lists what Linux machines of a region cost as Spot from since on, the state then included.
func (s *Source) SpotPrices(ctx context.Context, region string, since time.Time) (cloud.List[cloud.SpotPrice], error) {
	var out cloud.List[cloud.SpotPrice]
	err := s.list(ctx, "list AWS Spot prices of "+region, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			page, err := s.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{StartTime: aws.Time(since), ProductDescriptions: linux,
				MaxResults: aws.Int32(1000), NextToken: optional(token)}, in(region))
			if err != nil {
				return "", err
			}
			readSpot(&out, page.SpotPriceHistory, region)
			return aws.ToString(page.NextToken), cloud.Room(len(out.Items))
		})
	})
	if err != nil {
		return cloud.List[cloud.SpotPrice]{}, err
	}
	cloud.SettleSpot(&out)
	return out, nil
}

// linux is one product under two names.
var linux = []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}

func readSpot(out *cloud.List[cloud.SpotPrice], rows []types.SpotPrice, region string) {
	for _, r := range rows {
		if !slices.Contains(linux, string(r.ProductDescription)) {
			out.Skip(cloud.SkipForeign)
			continue
		}
		if r.Timestamp == nil || r.InstanceType == "" || aws.ToString(r.AvailabilityZone) == "" {
			out.Skip(cloud.SkipUnknown)
			continue
		}
		row := cloud.SpotPrice{Region: region, Zone: *r.AvailabilityZone, ZoneID: aws.ToString(r.AvailabilityZoneId), InstanceType: string(r.InstanceType),
			At: r.Timestamp.UTC(), Text: aws.ToString(r.SpotPrice)}
		var reason cloud.SkipReason
		row.Hour, reason = cloud.ReadHour(row.Text)
		out.Note(reason)
		out.Items = append(out.Items, row)
	}
}

// Score says how likely a number of Spot machines can be had somewhere, 1 to 10, by Amazon's own estimate.
type Score struct {
	Region string
	ZoneID string // empty: the region as a whole
	Score  int
}

// PlacementScores asks for the scores of count machines of any of the types, zone by zone. Amazon allows few such questions a day.
func (s *Source) PlacementScores(ctx context.Context, instanceTypes []string, count int) ([]Score, error) {
	if count < 1 || count > 2_000_000_000 || len(instanceTypes) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "ask for at least one machine of at least one type")
	}
	var out []Score
	err := s.list(ctx, "ask AWS for placement scores", func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			page, err := s.ec2.GetSpotPlacementScores(ctx, &ec2.GetSpotPlacementScoresInput{TargetCapacity: aws.Int32(int32(count)), InstanceTypes: instanceTypes, //nolint:gosec // bounded above
				RegionNames: s.cfg.Regions, SingleAvailabilityZone: aws.Bool(true), MaxResults: aws.Int32(30), NextToken: optional(token)})
			if err != nil {
				return "", err
			}
			for _, r := range page.SpotPlacementScores {
				if n := int(aws.ToInt32(r.Score)); n >= 1 && n <= 10 {
					out = append(out, Score{Region: aws.ToString(r.Region), ZoneID: aws.ToString(r.AvailabilityZoneId), Score: n})
				}
			}
			return aws.ToString(page.NextToken), cloud.Room(len(out))
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
