package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Supply is how likely one offering is to be had and to be kept: one cell of a heat map of types by zones.
type Supply struct {
	Cloud             fleet.Cloud    `json:"cloud"`
	Region            string         `json:"region"`
	Zone              string         `json:"zone"`
	InstanceType      string         `json:"instance_type"`
	Purchase          fleet.Purchase `json:"purchase" enum:"on_demand,spot,reserved"`
	AvailableNow      float64        `json:"p_available_now" doc:"0 to 1: an attempt now gets a machine"`
	AvailableNextHour float64        `json:"p_available_next_hour" doc:"0 to 1: at some moment of the next hour an attempt gets a machine"`
	SurvivesNextHour  float64        `json:"p_survives_next_hour" doc:"0 to 1: a machine of it still runs in an hour"`
	Hazard            float64        `json:"hazard" doc:"interruptions per machine-hour over the next hour"`
	ExpectedSeconds   float64        `json:"expected_seconds_to_capacity" doc:"mean time to a machine without its boot; 86400: not within a day"`
	BackoffUntil      *time.Time     `json:"backoff_until" doc:"an attempt before then is not worth its trouble; null: none"`
	PriorShare        float64        `json:"prior_share" doc:"0 to 1: how much of the estimate is not from the offering's own evidence"`
	Evidence          SupplyEvidence `json:"evidence"`
	PriceRatio        *float64       `json:"price_ratio" doc:"Spot over on-demand price; null: unknown"`
	Placement         *PlacementNote `json:"placement" doc:"what the cloud itself estimates for Spot machines there; it is shown beside the model and is no part of it; null: nobody asked within a week"`
}

// PlacementNote is a cloud's own score for a number of Spot machines.
type PlacementNote struct {
	Score    int       `json:"score" minimum:"1" maximum:"10" doc:"10: a request is highly likely to be granted"`
	Machines int64     `json:"machines" doc:"how many were asked for"`
	SeenAt   time.Time `json:"seen_at"`
}

// SupplyEvidence is what is left of an offering's own counts; they halve every three days.
type SupplyEvidence struct {
	Attempts      float64    `json:"attempts"`
	StockOuts     float64    `json:"stock_outs"`
	Interruptions float64    `json:"interruptions" doc:"in whole pools: the loss of two of four machines is one half"`
	ObservedHours float64    `json:"observed_hours"`
	Failures      int        `json:"failures_in_a_row"`
	LastSeen      *time.Time `json:"last_seen" doc:"data time; null: never"`
}

// SupplyStep is what was seen of an offering in one step of time.
type SupplyStep struct {
	At            time.Time `json:"at" doc:"beginning of the step"`
	Had           int       `json:"had" doc:"machines that appeared"`
	StockOuts     int       `json:"stock_outs"`
	Notices       int       `json:"notices" doc:"machines under notice"`
	Lost          int       `json:"lost" doc:"machines taken without a notice"`
	EndedPeaceful int       `json:"given_back" doc:"machines that ended without the cloud's doing"`
}

type offeringQuery struct {
	Cloud        fleet.Cloud    `query:"cloud" enum:"aws,azure,gcp" doc:"empty: all"`
	Region       string         `query:"region" maxLength:"64" doc:"empty: all"`
	Zone         string         `query:"zone" maxLength:"64" doc:"empty: all"`
	InstanceType string         `query:"instance_type" maxLength:"128" doc:"empty: all"`
	Purchase     fleet.Purchase `query:"purchase" enum:"on_demand,spot,reserved" doc:"empty: all"`
}

// whole tells whether the query names one offering.
func (q offeringQuery) whole() bool {
	return q.Cloud != "" && q.Region != "" && q.Zone != "" && q.InstanceType != "" && q.Purchase != ""
}

func (q offeringQuery) offering() fleet.Offering {
	return fleet.Offering{Cloud: q.Cloud, Region: q.Region, Zone: q.Zone, InstanceType: q.InstanceType, Purchase: q.Purchase}
}

func (q offeringQuery) takes(o fleet.Offering) bool {
	return (q.Cloud == "" || q.Cloud == o.Cloud) && (q.Region == "" || q.Region == o.Region) && (q.Zone == "" || q.Zone == o.Zone) &&
		(q.InstanceType == "" || q.InstanceType == o.InstanceType) && (q.Purchase == "" || q.Purchase == o.Purchase)
}

const (
	maxSupply      = 2000
	maxSupplySteps = 2000
	maxLadder      = 64
)

func (s *Server) registerAvailability() {
	tags := []string{"availability"}
	op(s, huma.Operation{OperationID: "list-availability", Method: http.MethodGet, Path: "/api/v1/availability", Summary: "How likely offerings are to be had and kept",
		Description: "All offerings that the tenant has tried or run, by cloud, region, type, zone and purchase. A query that names one offering whole gets it also if nobody has tried it: from its region, type and the published bands.", Tags: tags},
		auth.RoleViewer, s.listAvailability)
	op(s, huma.Operation{OperationID: "availability-history", Method: http.MethodGet, Path: "/api/v1/availability/history", Summary: "What was seen of one offering over time", Tags: tags, Errors: []int{422}},
		auth.RoleViewer, s.availabilityHistory)
	op(s, huma.Operation{OperationID: "availability-ladder", Method: http.MethodGet, Path: "/api/v1/availability/ladder", Summary: "Expected time until a ladder of offerings gives a machine", Tags: tags, Errors: []int{422}},
		auth.RoleViewer, s.availabilityLadder)
}

// SupplyList is the answer for the heat map.
type SupplyList struct {
	DataNow   time.Time `json:"data_now" doc:"the moment the scores are for"`
	BandsDate string    `json:"bands_date" format:"date" doc:"of the published interruption bands behind the prior"`
	Total     int       `json:"total"`
	Items     []Supply  `json:"items" doc:"at most 2000"`
}

func (s *Server) listAvailability(ctx context.Context, p auth.Principal, q *offeringQuery) (*struct{ Body SupplyList }, error) {
	out := &struct{ Body SupplyList }{SupplyList{BandsDate: availability.BandsDate(), Items: []Supply{}}}
	err := s.withSupply(ctx, p, func(m *availability.Model, now time.Time, told placements) error {
		out.Body.DataNow = now
		found := m.Offerings()
		known := false
		for _, o := range found {
			if !q.takes(o) {
				continue
			}
			known = true
			out.Body.Total++
			if len(out.Body.Items) < maxSupply {
				out.Body.Items = append(out.Body.Items, told.supplyOf(m, o, now))
			}
		}
		if !known && q.whole() {
			out.Body.Total, out.Body.Items = 1, []Supply{told.supplyOf(m, q.offering(), now)}
		}
		return nil
	})
	return out, err
}

func (s *Server) withSupply(ctx context.Context, p auth.Principal, fn func(*availability.Model, time.Time, placements) error) error {
	return s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		m, err := store.LoadAvailability(ctx, tx)
		if err != nil {
			return err
		}
		told := placements{scores: map[placementKey]store.PlacementScore{}}
		scores, err := store.PlacementScores(ctx, tx)
		if err != nil {
			return err
		}
		for _, x := range scores {
			told.scores[placementKey{x.Cloud, x.Region, x.ZoneID, x.InstanceType}] = x
		}
		if len(scores) > 0 {
			if told.zones, err = store.ZoneIDs(ctx, tx); err != nil {
				return err
			}
		}
		return fn(m, now, told)
	})
}

// placements are scores that clouds told, by their ids of zones.
type placements struct {
	scores map[placementKey]store.PlacementScore
	zones  map[string]string // ids by the account's names
}

type placementKey struct {
	cloud              fleet.Cloud
	region, zone, name string
}

// of an offering: its zone's, else its region's.
func (p placements) of(o fleet.Offering) *PlacementNote {
	if o.Purchase != fleet.PurchaseSpot {
		return nil
	}
	zone := o.Zone
	if id, ok := p.zones[zone]; ok {
		zone = id
	}
	for _, z := range []string{zone, ""} {
		if x, ok := p.scores[placementKey{o.Cloud, o.Region, z, o.InstanceType}]; ok {
			return &PlacementNote{Score: x.Score, Machines: x.Machines, SeenAt: x.SeenAt.UTC()}
		}
	}
	return nil
}

func (p placements) supplyOf(m *availability.Model, o fleet.Offering, now time.Time) Supply {
	v := supplyOf(m, o, now)
	v.Placement = p.of(o)
	return v
}

func supplyOf(m *availability.Model, o fleet.Offering, now time.Time) Supply {
	x := m.Score(o, now)
	v := Supply{Cloud: o.Cloud, Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType, Purchase: o.Purchase,
		AvailableNow: x.AvailableNow, AvailableNextHour: x.AvailableNextHour, SurvivesNextHour: x.SurvivesNextHour, Hazard: x.Hazard,
		ExpectedSeconds: m.ExpectedWait([]fleet.Offering{o}, now).Expected.Seconds(), PriorShare: x.PriorShare,
		Evidence: SupplyEvidence{Attempts: x.Attempts, StockOuts: x.StockOuts, Interruptions: x.Interruptions, ObservedHours: x.ObservedHours, Failures: x.Failures}}
	if !x.BackoffUntil.IsZero() {
		at := x.BackoffUntil.UTC()
		v.BackoffUntil = &at
	}
	if !x.LastSeen.IsZero() {
		at := x.LastSeen.UTC()
		v.Evidence.LastSeen = &at
	}
	if x.PriceRatio > 0 {
		v.PriceRatio = &x.PriceRatio
	}
	return v
}

type supplyHistory struct {
	Step  int          `json:"step_seconds"`
	From  time.Time    `json:"from"`
	To    time.Time    `json:"to"`
	Items []SupplyStep `json:"items" doc:"steps without any event are left out"`
}

func (s *Server) availabilityHistory(ctx context.Context, p auth.Principal, in *struct {
	Cloud        fleet.Cloud    `query:"cloud" enum:"aws,azure,gcp" required:"true"`
	Region       string         `query:"region" maxLength:"64" required:"true"`
	Zone         string         `query:"zone" maxLength:"64" required:"true"`
	InstanceType string         `query:"instance_type" maxLength:"128" required:"true"`
	Purchase     fleet.Purchase `query:"purchase" enum:"on_demand,spot,reserved" default:"spot"`
	From         time.Time      `query:"from" doc:"default: a week before to"`
	To           time.Time      `query:"to" doc:"default: data now"`
	Step         int            `query:"step_seconds" minimum:"60" maximum:"604800" default:"3600"`
}) (*struct{ Body supplyHistory }, error) {
	out := &struct{ Body supplyHistory }{supplyHistory{Step: in.Step, Items: []SupplyStep{}}}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		from, to := in.From.UTC(), in.To.UTC()
		if in.To.IsZero() {
			to = now.Add(time.Second)
		}
		if in.From.IsZero() {
			from = to.Add(-7 * 24 * time.Hour)
		}
		step := time.Duration(in.Step) * time.Second
		if !from.Before(to) || to.Sub(from) > maxSupplySteps*step {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "from must be before to, and the range at most 2000 steps", Field: "query.from"}
		}
		out.Body.From, out.Body.To = from, to
		o := fleet.Offering{Cloud: in.Cloud, Region: in.Region, Zone: in.Zone, InstanceType: in.InstanceType, Purchase: in.Purchase}
		counts, err := store.AvailabilityHistory(ctx, tx, o, from, to, step)
		for _, c := range counts {
			out.Body.Items = append(out.Body.Items, SupplyStep{c.At.UTC(), c.Had, c.Exhausted, c.Notices, c.Lost, c.Ended})
		}
		return err
	})
	return out, err
}

// SupplyWait is the answer for a ladder.
type SupplyWait struct {
	DataNow         time.Time `json:"data_now"`
	ExpectedSeconds float64   `json:"expected_seconds_to_capacity" doc:"mean, without boot; 86400: not within a day"`
	WithinHour      float64   `json:"p_within_hour"`
	FirstPass       float64   `json:"p_first_pass" doc:"chance that one of the rungs gives a machine at once"`
	Rungs           []Supply  `json:"rungs"`
}

func (s *Server) availabilityLadder(ctx context.Context, p auth.Principal, in *struct {
	Rung []string `query:"rung,explode" minItems:"1" maxItems:"64" required:"true" doc:"cloud/region/zone/instance_type/purchase, in the order of trying; repeat the parameter" example:"[\"aws/us-east-1/us-east-1a/g5.xlarge/spot\"]"`
}) (*struct{ Body SupplyWait }, error) {
	ladder := make([]fleet.Offering, 0, len(in.Rung))
	for _, r := range in.Rung[:min(len(in.Rung), maxLadder)] {
		parts := strings.Split(r, "/")
		bad := &fleet.Error{Code: fleet.CodeInvalid, Message: "a rung must be cloud/region/zone/instance_type/purchase", Field: "query.rung"}
		if len(parts) != 5 || len(r) > 400 || parts[0] == "" || parts[1] == "" || parts[2] == "" || parts[3] == "" {
			return nil, bad
		}
		purchase, err := fleet.ParsePurchase(parts[4])
		if err != nil {
			return nil, bad
		}
		ladder = append(ladder, fleet.Offering{Cloud: fleet.Cloud(parts[0]), Region: parts[1], Zone: parts[2], InstanceType: parts[3], Purchase: purchase})
	}
	out := &struct{ Body SupplyWait }{}
	err := s.withSupply(ctx, p, func(m *availability.Model, now time.Time, told placements) error {
		w := m.ExpectedWait(ladder, now)
		out.Body = SupplyWait{DataNow: now, ExpectedSeconds: w.Expected.Seconds(), WithinHour: w.WithinHour, FirstPass: w.First, Rungs: []Supply{}}
		for _, o := range ladder {
			out.Body.Rungs = append(out.Body.Rungs, told.supplyOf(m, o, now))
		}
		return nil
	})
	return out, err
}
