package aws

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans"
	plantypes "github.com/aws/aws-sdk-go-v2/service/savingsplans/types"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Commitments lists the account's active Reserved Instances, capacity reservations and Savings Plans in its regions.
func (s *Source) Commitments(ctx context.Context) (cloud.List[cloud.Commitment], error) {
	var out cloud.List[cloud.Commitment]
	for _, region := range s.cfg.Regions {
		err := s.list(ctx, "list AWS Reserved Instances of "+region, func(ctx context.Context) error {
			answer, err := s.ec2.DescribeReservedInstances(ctx, activeReservations(), in(region))
			if err != nil {
				return err
			}
			for i := range answer.ReservedInstances {
				if c, reason := reserved(&answer.ReservedInstances[i], region); reason == "" {
					out.Items = append(out.Items, c)
				} else {
					out.Skip(reason)
				}
			}
			return nil
		})
		if err != nil {
			return cloud.List[cloud.Commitment]{}, err
		}
		err = s.reservations(ctx, region, func(r *types.CapacityReservation) {
			if c, reason := capacityCommitment(r, region); reason == "" {
				out.Items = append(out.Items, c)
			} else {
				out.Skip(reason)
			}
		})
		if err != nil {
			return cloud.List[cloud.Commitment]{}, err
		}
	}
	if err := s.savingsPlans(ctx, &out); err != nil {
		return cloud.List[cloud.Commitment]{}, err
	}
	cloud.SettleCommitments(&out)
	return out, nil
}

// CapacityReservations lists what the account's reservations hold now.
func (s *Source) CapacityReservations(ctx context.Context) (cloud.List[cloud.Capacity], error) {
	var out cloud.List[cloud.Capacity]
	for _, region := range s.cfg.Regions {
		err := s.reservations(ctx, region, func(r *types.CapacityReservation) {
			if aws.ToString(r.CapacityReservationId) == "" || aws.ToString(r.InstanceType) == "" || aws.ToInt32(r.TotalInstanceCount) < aws.ToInt32(r.AvailableInstanceCount) {
				out.Skip(cloud.SkipUnknown)
				return
			}
			out.Items = append(out.Items, cloud.Capacity{Ref: *r.CapacityReservationId, Region: region, Zone: aws.ToString(r.AvailabilityZone), InstanceType: *r.InstanceType,
				Total: int(aws.ToInt32(r.TotalInstanceCount)), Available: int(max(aws.ToInt32(r.AvailableInstanceCount), 0)), From: began(r), To: moment(r.EndDate), State: string(r.State)})
		})
		if err != nil {
			return cloud.List[cloud.Capacity]{}, err
		}
	}
	cloud.SettleCapacity(&out)
	return out, nil
}

func (s *Source) reservations(ctx context.Context, region string, each func(*types.CapacityReservation)) error {
	return s.list(ctx, "list AWS capacity reservations of "+region, func(ctx context.Context) error {
		rows := 0
		return cloud.Pages(ctx, func(token string) (string, error) {
			page, err := s.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{
				Filters:    []types.Filter{{Name: aws.String("state"), Values: []string{"active", "scheduled"}}},
				MaxResults: aws.Int32(100), NextToken: optional(token)}, in(region))
			if err != nil {
				return "", err
			}
			for i := range page.CapacityReservations {
				each(&page.CapacityReservations[i])
			}
			rows += len(page.CapacityReservations)
			return aws.ToString(page.NextToken), cloud.Room(rows)
		})
	})
}

// activeReservations asks for what is paid for now. The call has no pages.
func activeReservations() *ec2.DescribeReservedInstancesInput {
	return &ec2.DescribeReservedInstancesInput{Filters: []types.Filter{{Name: aws.String("state"), Values: []string{"active"}}}}
}

func reserved(r *types.ReservedInstances, region string) (cloud.Commitment, cloud.SkipReason) {
	count := int64(aws.ToInt32(r.InstanceCount))
	c := cloud.Commitment{Ref: aws.ToString(r.ReservedInstancesId), Kind: cloud.RegionalRI, Region: region, InstanceType: string(r.InstanceType), Resource: "machine",
		QuantityMill: count * 1000, From: moment(r.Start), To: moment(r.End), State: string(r.State)}
	switch {
	case r.ProductDescription != types.RIProductDescriptionLinuxUnix && r.ProductDescription != types.RIProductDescriptionLinuxUnixAmazonVpc || r.InstanceTenancy != types.TenancyDefault:
		return c, cloud.SkipForeign
	case c.Ref == "" || c.InstanceType == "" || count <= 0 || c.From.IsZero() || c.To.IsZero():
		return c, cloud.SkipUnknown
	case r.CurrencyCode != types.CurrencyCodeValuesUsd:
		return c, cloud.SkipCurrency
	}
	switch r.Scope {
	case types.ScopeAvailabilityZone:
		c.Kind, c.Zone = cloud.ZonalRI, aws.ToString(r.AvailabilityZone)
	case types.ScopeRegional:
	default:
		return c, cloud.SkipUnknown
	}
	// Amounts are of one machine.
	upfront, reason := fromFloat32(r.FixedPrice)
	if reason != "" {
		return c, reason
	}
	hourly := fleet.Money(0)
	for _, charge := range r.RecurringCharges {
		if charge.Frequency != types.RecurringChargeFrequencyHourly || charge.Amount == nil {
			return c, cloud.SkipUnknown
		}
		m, reason := cloud.ReadAmount(strconv.FormatFloat(*charge.Amount, 'f', -1, 64))
		if reason != "" || m < 0 || m > cloud.MaxHour {
			return c, cloud.SkipMalformed
		}
		hourly = hourly.Add(m)
	}
	all, rate := upfront.MulDiv(count, 1), hourly.MulDiv(count, 1)
	c.Upfront, c.Recurring = &all, &rate
	return c, ""
}

// maxUpfront of one machine keeps products of it in range.
const maxUpfront = fleet.Money(10_000_000 * fleet.NanosPerUnit)

func fromFloat32(f *float32) (fleet.Money, cloud.SkipReason) {
	if f == nil {
		return 0, cloud.SkipMissing
	}
	m, reason := cloud.ReadAmount(strconv.FormatFloat(float64(*f), 'f', -1, 32)) // the decimal that was written, not its neighbour
	if reason == "" && (m < 0 || m > maxUpfront) {
		reason = cloud.SkipMalformed
	}
	return m, reason
}

func capacityCommitment(r *types.CapacityReservation, region string) (cloud.Commitment, cloud.SkipReason) {
	c := cloud.Commitment{Ref: aws.ToString(r.CapacityReservationId), Kind: cloud.CapacityReservation, Region: region, Zone: aws.ToString(r.AvailabilityZone),
		InstanceType: aws.ToString(r.InstanceType), Resource: "machine", QuantityMill: int64(aws.ToInt32(r.TotalInstanceCount)) * 1000, From: began(r), To: moment(r.EndDate), State: string(r.State)}
	switch {
	case r.InstancePlatform != types.CapacityReservationInstancePlatformLinuxUnix || r.Tenancy != types.CapacityReservationTenancyDefault:
		return c, cloud.SkipForeign
	case c.Ref == "" || c.InstanceType == "" || c.Zone == "" || c.QuantityMill <= 0 || c.From.IsZero():
		return c, cloud.SkipUnknown
	}
	switch r.ReservationType {
	case types.CapacityReservationTypeDefault, "":
	case types.CapacityReservationTypeCapacityBlock:
		c.Kind = cloud.CapacityBlock
	default:
		return c, cloud.SkipUnknown
	}
	return c, ""
}

func began(r *types.CapacityReservation) time.Time {
	if r.StartDate != nil {
		return r.StartDate.UTC()
	}
	return moment(r.CreateDate)
}

func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func (s *Source) savingsPlans(ctx context.Context, out *cloud.List[cloud.Commitment]) error {
	return s.list(ctx, "list AWS Savings Plans", func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			page, err := s.plans.DescribeSavingsPlans(ctx, &savingsplans.DescribeSavingsPlansInput{States: []plantypes.SavingsPlanState{plantypes.SavingsPlanStateActive},
				MaxResults: aws.Int32(100), NextToken: optional(token)})
			if err != nil {
				return "", err
			}
			for i := range page.SavingsPlans {
				c, reason := plan(&page.SavingsPlans[i])
				if reason != "" {
					out.Skip(reason)
					continue
				}
				if c.Rates, err = s.rates(ctx, c.Ref, out); err != nil {
					return "", err
				}
				out.Items = append(out.Items, c)
			}
			return aws.ToString(page.NextToken), cloud.Room(len(out.Items))
		})
	})
}

func plan(p *plantypes.SavingsPlan) (cloud.Commitment, cloud.SkipReason) {
	c := cloud.Commitment{Ref: aws.ToString(p.SavingsPlanId), Region: aws.ToString(p.Region), Family: aws.ToString(p.Ec2InstanceFamily), State: string(p.State)}
	switch p.SavingsPlanType {
	case plantypes.SavingsPlanTypeCompute:
		c.Kind, c.Region = cloud.ComputeSP, ""
	case plantypes.SavingsPlanTypeEc2Instance:
		c.Kind = cloud.InstanceSP
	default:
		return c, cloud.SkipForeign
	}
	if p.Currency != plantypes.CurrencyCodeUsd {
		return c, cloud.SkipCurrency
	}
	from, errFrom := time.Parse(time.RFC3339, aws.ToString(p.Start))
	to, errTo := time.Parse(time.RFC3339, aws.ToString(p.End))
	if c.Ref == "" || errFrom != nil || errTo != nil {
		return c, cloud.SkipUnknown
	}
	c.From, c.To = from.UTC(), to.UTC()
	spend, reason := cloud.ReadHour(aws.ToString(p.Commitment))
	c.Spend = spend
	return c, reason
}

// rates lists what a plan charges for plain Linux machines in the account's regions.
func (s *Source) rates(ctx context.Context, id string, out *cloud.List[cloud.Commitment]) ([]cloud.Rate, error) {
	filter := func(name plantypes.SavingsPlanRateFilterName, values ...string) plantypes.SavingsPlanRateFilter {
		return plantypes.SavingsPlanRateFilter{Name: name, Values: values}
	}
	filters := []plantypes.SavingsPlanRateFilter{
		filter(plantypes.SavingsPlanRateFilterNameRegion, s.cfg.Regions...), filter(plantypes.SavingsPlanRateFilterNameProductDescription, linux[0]),
		filter(plantypes.SavingsPlanRateFilterNameTenancy, "shared"), filter(plantypes.SavingsPlanRateFilterNameServiceCode, serviceCode),
	}
	var rates []cloud.Rate
	err := cloud.Pages(ctx, func(token string) (string, error) {
		page, err := s.plans.DescribeSavingsPlanRates(ctx, &savingsplans.DescribeSavingsPlanRatesInput{SavingsPlanId: aws.String(id), Filters: filters, MaxResults: aws.Int32(1000), NextToken: optional(token)})
		if err != nil {
			return "", err
		}
		for i := range page.SearchResults {
			if r, reason := rate(&page.SearchResults[i]); reason == "" {
				rates = append(rates, r)
			} else {
				out.Skip(reason)
			}
		}
		return aws.ToString(page.NextToken), cloud.Room(len(rates))
	})
	if err != nil {
		return nil, err
	}
	cloud.SortRates(rates)
	return rates, nil
}

func rate(r *plantypes.SavingsPlanRate) (cloud.Rate, cloud.SkipReason) {
	p := map[plantypes.SavingsPlanRatePropertyKey]string{}
	for _, q := range r.Properties {
		p[q.Name] = aws.ToString(q.Value)
	}
	out := cloud.Rate{Region: p[plantypes.SavingsPlanRatePropertyKeyRegion], InstanceType: p[plantypes.SavingsPlanRatePropertyKeyInstanceType]}
	switch {
	case r.ServiceCode != plantypes.SavingsPlanRateServiceCodeEc2 || r.Unit != plantypes.SavingsPlanRateUnitHours || p[plantypes.SavingsPlanRatePropertyKeyProductDescription] != linux[0] || p[plantypes.SavingsPlanRatePropertyKeyTenancy] != "shared":
		return out, cloud.SkipForeign
	case out.Region == "" || out.InstanceType == "":
		return out, cloud.SkipUnknown
	case r.Currency != plantypes.CurrencyCodeUsd:
		return out, cloud.SkipCurrency
	}
	hour, reason := cloud.ReadHour(aws.ToString(r.Rate))
	if hour != nil {
		out.Hour = *hour
	}
	return out, reason
}
