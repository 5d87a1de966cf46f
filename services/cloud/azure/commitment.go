package azure

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

var (
	reservations = query("/providers/Microsoft.Capacity/reservations", "2022-11-01")
	savingsPlans = query("/providers/Microsoft.BillingBenefits/savingsPlans", "2022-11-01")
)

// reservation is a purchase of machines ahead. Azure does not tell here what it cost.
type reservation struct {
	ID       string
	SKU      struct{ Name string }
	Location string
	Props    struct {
		Type        string    `json:"reservedResourceType"`
		Flexibility string    `json:"instanceFlexibility"`
		Quantity    int64     `json:"quantity"`
		State       string    `json:"provisioningState"`
		From        time.Time `json:"effectiveDateTime"`
		To          time.Time `json:"expiryDateTime"`
	} `json:"properties"`
}

// plan is a savings plan.
type plan struct {
	ID    string
	SKU   struct{ Name string }
	Props struct {
		State      string    `json:"provisioningState"`
		Term       string    `json:"term"`
		From       time.Time `json:"effectiveDateTime"`
		To         time.Time `json:"expiryDateTime"`
		Commitment struct {
			Grain    string      `json:"grain"`
			Currency string      `json:"currencyCode"`
			Amount   json.Number `json:"amount"`
		} `json:"commitment"`
	} `json:"properties"`
}

// Commitments lists reservations of machines and compute savings plans that the application may see. What a savings plan charges comes
// from the retail prices of the account's regions.
func (s *Source) Commitments(ctx context.Context) (cloud.List[cloud.Commitment], error) {
	var out cloud.List[cloud.Commitment]
	add := func(c cloud.Commitment, reason cloud.SkipReason) {
		if reason == "" {
			out.Items = append(out.Items, c)
		} else {
			out.Skip(reason)
		}
	}
	err := s.list(ctx, "list Azure reservations", func(ctx context.Context) error {
		return pages(ctx, &s.manager, reservations, func(r *reservation) { add(r.commitment()) })
	})
	if err != nil {
		return cloud.List[cloud.Commitment]{}, err
	}
	terms := map[string][]int{} // of plans found, by the retail list's word
	err = s.list(ctx, "list Azure savings plans", func(ctx context.Context) error {
		return pages(ctx, &s.manager, savingsPlans, func(p *plan) {
			c, reason := p.commitment()
			add(c, reason)
			if term := map[string]string{"P1Y": "1 Year", "P3Y": "3 Years"}[p.Props.Term]; reason == "" && term != "" {
				terms[term] = append(terms[term], len(out.Items)-1)
			}
		})
	})
	if err != nil {
		return cloud.List[cloud.Commitment]{}, err
	}
	if len(terms) > 0 {
		for _, region := range s.cfg.Regions {
			err := s.items(ctx, region, func(i *item) {
				if i.kind(region) != kindOnDemand || i.Currency != currency {
					return
				}
				for _, p := range i.SavingPlan {
					hour, _ := cloud.HourFromFloat(p.Retail)
					for _, n := range terms[p.Term] {
						if hour != nil {
							out.Items[n].Rates = append(out.Items[n].Rates, cloud.Rate{Region: region, InstanceType: i.Machine, Hour: *hour})
						}
					}
				}
			})
			if err != nil {
				return cloud.List[cloud.Commitment]{}, err
			}
		}
	}
	for i := range out.Items {
		cloud.SortRates(out.Items[i].Rates)
	}
	cloud.SettleCommitments(&out)
	return out, nil
}

func (r *reservation) commitment() (cloud.Commitment, cloud.SkipReason) {
	c := cloud.Commitment{Ref: r.ID, Kind: cloud.AzureReservation, Region: r.Location, InstanceType: r.SKU.Name, Resource: "machine", QuantityMill: r.Props.Quantity * 1000,
		From: r.Props.From.UTC(), To: r.Props.To.UTC(), State: r.Props.State}
	switch {
	case r.Props.Type != "VirtualMachines" || r.Props.State != "Succeeded":
		return c, cloud.SkipForeign
	case c.Ref == "" || c.Region == "" || c.InstanceType == "" || r.Props.Quantity <= 0 || r.Props.Quantity > 100_000 || c.From.IsZero() || c.To.IsZero():
		return c, cloud.SkipUnknown
	}
	flexible := r.Props.Flexibility == "On"
	c.Flexible = &flexible
	return c, ""
}

func (p *plan) commitment() (cloud.Commitment, cloud.SkipReason) {
	c := cloud.Commitment{Ref: p.ID, Kind: cloud.AzureSP, From: p.Props.From.UTC(), To: p.Props.To.UTC(), State: p.Props.State}
	switch {
	case p.SKU.Name != "Compute_Savings_Plan" || p.Props.State != "Succeeded":
		return c, cloud.SkipForeign
	case c.Ref == "" || p.Props.Commitment.Grain != "Hourly" || c.From.IsZero() || c.To.IsZero():
		return c, cloud.SkipUnknown
	case p.Props.Commitment.Currency != currency:
		return c, cloud.SkipCurrency
	}
	var reason cloud.SkipReason
	c.Spend, reason = cloud.ReadHour(p.Props.Commitment.Amount.String())
	return c, reason
}

// group holds capacity reservations.
type group struct{ ID, Location string }

// held is a capacity reservation of a group.
type held struct {
	ID       string
	Location string
	Zones    []string
	SKU      struct {
		Name     string
		Capacity int
	}
	Props struct {
		State    string                `json:"provisioningState"`
		Created  *time.Time            `json:"timeCreated"`
		Machines []struct{ ID string } `json:"virtualMachinesAssociated"`
	} `json:"properties"`
}

func (s *Source) groups() string {
	return query("/subscriptions/"+s.cfg.Access.SubscriptionID+"/providers/Microsoft.Compute/capacityReservationGroups", "2024-07-01")
}

// CapacityReservations lists what the subscription's reservations hold now, in the account's regions.
func (s *Source) CapacityReservations(ctx context.Context) (cloud.List[cloud.Capacity], error) {
	var out cloud.List[cloud.Capacity]
	err := s.list(ctx, "list Azure capacity reservations", func(ctx context.Context) error {
		var groups []group
		if err := pages(ctx, &s.manager, s.groups(), func(g *group) { groups = append(groups, *g) }); err != nil {
			return err
		}
		for _, g := range groups {
			if !slices.ContainsFunc(s.cfg.Regions, func(r string) bool { return strings.EqualFold(r, g.Location) }) {
				out.Skip(cloud.SkipForeign)
				continue
			}
			if !strings.HasPrefix(g.ID, "/subscriptions/") {
				return fleet.Errorf(fleet.CodeUnavailable, "a capacity reservation group has no id")
			}
			err := pages(ctx, &s.manager, query(g.ID+"/capacityReservations", "2024-07-01"), func(h *held) {
				if c, reason := h.capacity(); reason == "" {
					out.Items = append(out.Items, c)
				} else {
					out.Skip(reason)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return cloud.List[cloud.Capacity]{}, err
	}
	cloud.SettleCapacity(&out)
	return out, nil
}

func (h *held) capacity() (cloud.Capacity, cloud.SkipReason) {
	c := cloud.Capacity{Ref: h.ID, Region: strings.ToLower(h.Location), InstanceType: h.SKU.Name, Total: h.SKU.Capacity, Available: h.SKU.Capacity - len(h.Props.Machines), State: h.Props.State}
	if c.Ref == "" || c.InstanceType == "" || c.Total < 0 || len(h.Zones) > 1 {
		return c, cloud.SkipUnknown
	}
	if len(h.Zones) == 1 {
		c.Zone = c.Region + "-" + h.Zones[0] // as Kubernetes labels nodes
	}
	c.Available = max(c.Available, 0)
	if h.Props.Created != nil {
		c.From = h.Props.Created.UTC()
	}
	return c, ""
}
