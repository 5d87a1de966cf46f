package httpapi

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CommitmentAdvice says how many more machines of a type to reserve in a region, with the numbers.
type CommitmentAdvice struct {
	Cloud          fleet.Cloud   `json:"cloud"`
	Region         string        `json:"region"`
	InstanceType   string        `json:"instance_type"`
	Buy            int           `json:"buy" doc:"machines to reserve on top of what is owned; 0: none"`
	Owned          int           `json:"owned" doc:"machines of this type that commitments reserve at the span's end"`
	OnDemand       Money         `json:"on_demand_hour"`
	Spot           *Money        `json:"spot_hour" doc:"null: unknown; Spot is then no alternative"`
	Reserved       Money         `json:"reserved_hour" doc:"per machine, amortised"`
	ReservedSource string        `json:"reserved_source" enum:"own,assumed" doc:"own: what the newest commitment of this type costs; assumed: the discount that was asked for"`
	Availability   string        `json:"availability_source" enum:"own_nodes,asked" doc:"own_nodes: how much of a level's time Spot machines carried it"`
	SavingMonth    Money         `json:"saving_month" doc:"mean, 730 hours, if the next month is like the span"`
	Levels         []AdviceLevel `json:"levels" doc:"from the first that is not owned to the first not worth buying; at most 200"`
}

// AdviceLevel weighs one machine: buy while busy x [A p_spot + (1 - A) p_od] > p_reserved.
type AdviceLevel struct {
	Level     int     `json:"level" doc:"the k-th machine of the type"`
	Busy      float64 `json:"busy" doc:"share of the span in which at least that many ran"`
	Available float64 `json:"spot_available" doc:"A, the share of its time in which Spot serves the level"`
	Instead   Money   `json:"instead_hour" doc:"busy x [A p_spot + (1 - A) p_od]"`
	Reserved  Money   `json:"reserved_hour"`
	Buy       bool    `json:"buy"`
}

// CommitmentAdviceAnswer is the advice for all types.
type CommitmentAdviceAnswer struct {
	From        time.Time          `json:"from"`
	To          time.Time          `json:"to"`
	SavingMonth Money              `json:"saving_month"`
	Items       []CommitmentAdvice `json:"items" doc:"largest saving first, then what is nearest to worth it; at most 200"`
}

const maxAdvice = 200

func (s *Server) commitmentRecommendations(ctx context.Context, p auth.Principal, in *struct {
	CommitmentSpan
	Discount     float64 `query:"reserved_discount_percent" minimum:"0" maximum:"95" default:"37" doc:"assumed off the on-demand price for types of which the tenant has no commitment"`
	Availability float64 `query:"spot_availability" minimum:"-1" maximum:"1" default:"-1" doc:"of each Spot machine, 0 to 1; -1: as the tenant's own machines showed"`
}) (*struct{ Body CommitmentAdviceAnswer }, error) {
	var h history
	var needs []need
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		if h, err = s.loadHistory(ctx, tx, in.CommitmentSpan, 30*24*time.Hour); err != nil {
			return err
		}
		needs = s.needs(h, int64(math.Round(in.Discount*1e4)))
		offerings := make([]fleet.Offering, len(needs))
		for i, n := range needs {
			offerings[i] = asSpot(n.offering)
		}
		moment := fleet.Interval{From: h.span.To, To: h.span.To}
		spot, err := store.SpotPricesOver(ctx, tx, s.prices(), moment, offerings)
		if err != nil {
			return err
		}
		for i := range needs {
			needs[i].Spot = spot.Over(offerings[i], moment).Hour
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &struct{ Body CommitmentAdviceAnswer }{Body: CommitmentAdviceAnswer{From: h.span.From, To: h.span.To, Items: []CommitmentAdvice{}}}
	total := fleet.Money(0)
	type weighed struct {
		CommitmentAdvice
		saving, gap fleet.Money
	}
	var all []weighed
	for _, n := range needs {
		source := "own_nodes"
		if in.Availability >= 0 {
			ppm := int64(math.Round(in.Availability * 1e6))
			n.AvailablePPM, source = &ppm, "asked"
		}
		a := commitment.Advise(n.Need)
		if len(a.Levels) == 0 {
			continue
		}
		v := CommitmentAdvice{Cloud: n.offering.Cloud, Region: n.offering.Region, InstanceType: n.offering.InstanceType, Buy: a.Buy, Owned: n.Owned, OnDemand: s.money(n.OnDemand),
			Spot: moneyOrNil(n.Spot, s.prices().Currency()), Reserved: s.money(n.Reserved), ReservedSource: n.source, Availability: source, SavingMonth: s.money(a.SavingHour.MulDiv(730, 1))}
		for _, l := range a.Levels {
			v.Levels = append(v.Levels, AdviceLevel{Level: l.K, Busy: float64(l.BusyMillis) / float64(a.WindowMillis), Available: float64(l.AvailablePPM) / 1e6, Instead: s.money(l.Instead),
				Reserved: s.money(l.Reserved), Buy: l.Buy})
		}
		total = total.Add(a.SavingHour)
		all = append(all, weighed{v, a.SavingHour, a.Levels[0].Reserved - a.Levels[0].Instead})
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Or(cmp.Compare(b.saving, a.saving), cmp.Compare(a.gap, b.gap)) })
	for _, w := range all[:min(len(all), maxAdvice)] {
		out.Body.Items = append(out.Body.Items, w.CommitmentAdvice)
	}
	out.Body.SavingMonth = s.money(total.MulDiv(730, 1))
	return out, nil
}

// need is the history of a type in a region.
type need struct {
	commitment.Need
	offering fleet.Offering
	source   string // of the reserved price
}

// maxNeeds bounds how many types are weighed, those with the most machines first.
const maxNeeds = 500

// needs groups the machines by type and region; types without an on-demand price are left out, since nothing can be weighed.
func (s *Server) needs(h history, discountPPM int64) []need {
	groups := map[fleet.Offering][]commitment.Machine{}
	for _, n := range h.nodes {
		spot := n.Offering.Purchase == fleet.PurchaseSpot
		if !spot && !commitment.Eligible(n.Offering) || n.Offering.Cloud == fleet.CloudOnPrem {
			continue
		}
		k := fleet.Offering{Cloud: n.Offering.Cloud, Region: n.Offering.Region, InstanceType: n.Offering.InstanceType, Purchase: fleet.PurchaseOnDemand}
		groups[k] = append(groups[k], commitment.Machine{Running: n.Life, Spot: spot})
	}
	var out []need
	for o, machines := range groups {
		c := h.prices.Of(o, fleet.InstanceType{}, h.span.To)
		hour := c.List.Hour
		if c.Contracted.Hour != nil {
			hour = c.Contracted.Hour
		}
		if hour == nil {
			continue
		}
		n := need{offering: o, source: "assumed", Need: commitment.Need{Window: h.span, Machines: machines, OnDemand: *hour, Reserved: hour.MulDiv(1_000_000-discountPPM, 1_000_000)}}
		var newest time.Time
		for _, x := range h.plain {
			if count, ok := x.Reserves(o); ok && (x.Term.To.IsZero() || x.Term.To.After(h.span.To)) {
				n.Owned += count
				if x.HourCost() > 0 && x.Term.From.After(newest) {
					newest, n.Reserved, n.source = x.Term.From, x.HourCost().MulDiv(1, int64(count)), "own"
				}
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b need) int {
		x, y := a.offering, b.offering
		return cmp.Or(cmp.Compare(len(b.Machines), len(a.Machines)), cmp.Compare(x.Cloud, y.Cloud), cmp.Compare(x.Region, y.Region), cmp.Compare(x.InstanceType, y.InstanceType))
	})
	return out[:min(len(out), maxNeeds)]
}
