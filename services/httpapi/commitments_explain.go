package httpapi

import (
	"context"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// PriceExplained is what the next machine of an offering costs, and why.
type PriceExplained struct {
	Cloud        fleet.Cloud    `json:"cloud"`
	Region       string         `json:"region"`
	Zone         string         `json:"zone,omitempty"`
	InstanceType string         `json:"instance_type"`
	Purchase     fleet.Purchase `json:"purchase"`
	At           time.Time      `json:"at"`
	Quantity     int            `json:"quantity"`
	PerHour      *Money         `json:"per_hour" doc:"of the last of quantity machines, on top of what is already paid; null: unknown"`
	Total        *Money         `json:"total_hour" doc:"of all of them; null: unknown"`
	Stale        bool           `json:"stale" doc:"a price it rests on is old, and may be wrong by now"`
	Parts        []PricePart    `json:"parts" doc:"of the last machine; they add up to per_hour"`
	List         KnownPrice     `json:"list" doc:"on demand"`
	Contracted   KnownPrice     `json:"contracted" doc:"set by the tenant for this purchase option"`
	Spot         KnownPrice     `json:"spot" doc:"of the moment, whatever purchase was asked for"`
	Running      int            `json:"running" doc:"machines of all clusters whose use of commitments was taken off first"`
}

// PricePart is a share of a machine with what it rests on.
type PricePart struct {
	Basis        commitment.Basis    `json:"basis" enum:"commitment,contracted,list,spot,unknown"`
	CommitmentID string              `json:"commitment_id,omitempty"`
	Commitment   string              `json:"commitment,omitempty" doc:"its ref"`
	Resource     commitment.Resource `json:"resource" enum:"machine,vcpu,memory,gpu"`
	Share        float64             `json:"share" doc:"of the machine, or of that resource of it"`
	PerHour      *Money              `json:"per_hour" doc:"0 for what is paid already; null: unknown"`
	LeftMachines *float64            `json:"left_machines" doc:"how many such machines the commitment still covered before this one; null: not from a commitment"`
	LeftSpend    *Money              `json:"left_spend" doc:"of a spend plan before this machine, per hour"`
	Source       string              `json:"source,omitempty"`
	AsOf         *time.Time          `json:"as_of"`
	Stale        bool                `json:"stale"`
}

// KnownPrice is a price with where it came from.
type KnownPrice struct {
	Hour   *Money     `json:"hour" doc:"null: unknown"`
	Source string     `json:"source,omitempty"`
	AsOf   *time.Time `json:"as_of"`
	Stale  bool       `json:"stale"`
}

func (s *Server) explainPrice(ctx context.Context, p auth.Principal, in *struct {
	Cloud        fleet.Cloud    `query:"cloud" enum:"aws,azure,gcp,onprem" required:"true"`
	Region       string         `query:"region" maxLength:"64" required:"true"`
	Zone         string         `query:"zone" maxLength:"64" doc:"empty: any zone; zonal commitments then count for nothing"`
	InstanceType string         `query:"instance_type" minLength:"1" maxLength:"128" required:"true"`
	Purchase     fleet.Purchase `query:"purchase" enum:"on_demand,spot,reserved" default:"on_demand"`
	At           time.Time      `query:"at" doc:"default: the tenant's data now"`
	Quantity     int            `query:"quantity" minimum:"1" maximum:"1000" default:"1"`
}) (*struct{ Body PriceExplained }, error) {
	o := fleet.Offering{Cloud: in.Cloud, Region: in.Region, Zone: in.Zone, InstanceType: in.InstanceType, Purchase: in.Purchase}
	out := &struct{ Body PriceExplained }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		at := in.At.UTC()
		if in.At.IsZero() {
			now, err := store.DataNow(ctx, tx)
			if err != nil {
				return err
			}
			at = now
		}
		prices, err := store.PricesAt(ctx, tx, s.prices(), at, o, asSpot(o))
		if err != nil {
			return err
		}
		seen := fleet.InstanceType{Cloud: o.Cloud, Name: o.InstanceType}
		out.Body = s.showQuote(prices.Marginal(o, seen, in.Quantity), prices.Candidate(o, seen), prices.Refs)
		out.Body.At, out.Body.Spot, out.Body.Running = at, s.showKnown(prices.Spot(o)), prices.Live
		return nil
	})
	return out, err
}

func asSpot(o fleet.Offering) fleet.Offering {
	o.Purchase = fleet.PurchaseSpot
	return o
}

func (s *Server) showQuote(q commitment.Quote, c commitment.Candidate, refs map[string]string) PriceExplained {
	cur, o := s.prices().Currency(), q.Offering
	v := PriceExplained{Cloud: o.Cloud, Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType, Purchase: o.Purchase, Quantity: q.Quantity, PerHour: moneyOrNil(q.PerHour, cur),
		Total: moneyOrNil(q.Total, cur), Stale: q.Stale, Parts: make([]PricePart, 0, len(q.Parts)), List: s.showKnown(c.List), Contracted: s.showKnown(c.Contracted)}
	for _, p := range q.Parts {
		part := PricePart{Basis: p.Basis, CommitmentID: p.Commitment, Commitment: refs[p.Commitment], Resource: p.Resource, Share: float64(p.SharePPM) / 1e6,
			PerHour: moneyOrNil(p.PerHour, cur), Source: p.Source, AsOf: timeOrNil(p.AsOf), Stale: p.Stale}
		if p.Basis == commitment.BasisCommitment {
			machines := float64(p.LeftMilli) / 1000
			part.LeftMachines = &machines
			if p.LeftSpend > 0 {
				spend := s.money(p.LeftSpend)
				part.LeftSpend = &spend
			}
		}
		v.Parts = append(v.Parts, part)
	}
	return v
}

func (s *Server) showKnown(k commitment.Known) KnownPrice {
	return KnownPrice{Hour: moneyOrNil(k.Hour, s.prices().Currency()), Source: k.Source, AsOf: timeOrNil(k.AsOf), Stale: k.Stale}
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}
