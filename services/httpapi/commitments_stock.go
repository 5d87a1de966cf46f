package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// PendingCommitment is one that a cloud lists, but that counts for nothing until a person adds what is missing: nothing may look free that
// is not. Write it down with its ref and its cost (create-commitment, or an import); it is pending no more then.
type PendingCommitment struct {
	Reason      string           `json:"reason" enum:"no_cost,no_spend,not_valid" doc:"no_cost: the cloud does not say what it costs; no_spend: nor what the plan commits to; not_valid: what it says makes no commitment"`
	Problem     string           `json:"problem,omitempty" doc:"of one that is not valid"`
	AccountID   string           `json:"account_id" format:"uuid"`
	AccountName string           `json:"account_name"`
	SeenAt      time.Time        `json:"seen_at"`
	Record      CommitmentRecord `json:"record" doc:"what the cloud says, as an import reads it; its cost is to be added"`
}

// ReservedStock is a number of machines that a cloud holds for an account.
type ReservedStock struct {
	Ref          string      `json:"ref"`
	AccountID    string      `json:"account_id" format:"uuid"`
	Cloud        fleet.Cloud `json:"cloud"`
	Region       string      `json:"region"`
	Zone         string      `json:"zone,omitempty" doc:"as the account names it"`
	InstanceType string      `json:"instance_type"`
	Machines     int64       `json:"machines"`
	Available    *int64      `json:"available" doc:"not in use, when the account was read; null: not told"`
	Block        bool        `json:"block" doc:"paid in advance for its term"`
	StartsAt     *time.Time  `json:"starts_at"`
	EndsAt       *time.Time  `json:"ends_at" doc:"null: until cancelled"`
	State        string      `json:"state" doc:"the cloud's word"`
	SeenAt       time.Time   `json:"seen_at"`
}

func (s *Server) registerCommitmentStock() {
	tags := []string{"commitments"}
	op(s, huma.Operation{OperationID: "list-pending-commitments", Method: http.MethodGet, Path: "/api/v1/commitments/pending", Summary: "Commitments of cloud accounts that wait for their cost", Tags: tags},
		auth.RoleViewer, s.listPendingCommitments)
	op(s, huma.Operation{OperationID: "list-capacity-reservations", Method: http.MethodGet, Path: "/api/v1/capacity-reservations", Summary: "Machines that clouds hold for the tenant's accounts", Tags: tags},
		auth.RoleViewer, s.listCapacityReservations)
}

func (s *Server) listPendingCommitments(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []PendingCommitment `json:"items" doc:"by ref"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []PendingCommitment `json:"items" doc:"by ref"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.PendingCommitments(ctx, tx)
		out.Body.Items = make([]PendingCommitment, 0, len(all))
		for _, c := range all {
			out.Body.Items = append(out.Body.Items, PendingCommitment{Reason: c.Reason, Problem: c.Problem, AccountID: c.AccountID, AccountName: c.AccountName, SeenAt: c.SeenAt.UTC(), Record: recordOf(c.Commitment)})
		}
		return err
	})
	return out, err
}

// recordOf is a commitment as an import reads it, without its cost.
func recordOf(c commitment.Commitment) CommitmentRecord {
	r := CommitmentRecord{Ref: c.Ref, Kind: c.Kind, Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType, Family: c.Family, Resource: string(c.Resource), GPUModel: string(c.GPUModel),
		StartsAt: c.Term.From.UTC().Format(time.RFC3339)}
	if !c.Term.To.IsZero() {
		r.EndsAt = c.Term.To.UTC().Format(time.RFC3339)
	}
	unit := int64(1000)
	if c.Resource == commitment.ResourceMemory {
		unit = 1024
	}
	if c.Quantity > 0 {
		r.Quantity = strconv.FormatFloat(float64(c.Quantity)/float64(unit), 'f', -1, 64)
	}
	return r
}

func (s *Server) listCapacityReservations(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []ReservedStock `json:"items" doc:"by cloud, region, zone and type"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []ReservedStock `json:"items" doc:"by cloud, region, zone and type"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.CapacityStocks(ctx, tx)
		out.Body.Items = make([]ReservedStock, 0, len(all))
		for _, c := range all {
			out.Body.Items = append(out.Body.Items, ReservedStock{Ref: c.Ref, AccountID: c.AccountID, Cloud: c.Cloud, Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType, Machines: c.Total,
				Available: c.Available, Block: c.Block, StartsAt: c.From, EndsAt: c.To, State: c.State, SeenAt: c.SeenAt.UTC()})
		}
		return err
	})
	return out, err
}
