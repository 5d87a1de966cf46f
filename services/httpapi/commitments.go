package httpapi

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CommitmentRecord is a purchase as an import reads it. All values are text; amounts are plain decimals in the catalogue's currency.
type CommitmentRecord struct {
	Ref          string          `json:"ref" minLength:"1" maxLength:"256" doc:"the provider's id, or your own; unique"`
	Kind         commitment.Kind `json:"kind" enum:"aws_capacity_block,aws_capacity_reservation,aws_zonal_ri,aws_regional_ri,aws_ec2_instance_sp,aws_compute_sp,azure_reservation,azure_savings_plan,gcp_resource_cud,gcp_flexible_cud"`
	Region       string          `json:"region,omitempty" maxLength:"64"`
	Zone         string          `json:"zone,omitempty" maxLength:"64"`
	InstanceType string          `json:"instance_type,omitempty" maxLength:"128"`
	Family       string          `json:"family,omitempty" maxLength:"64" doc:"m5 of an EC2 Instance Savings Plan, n2 of a resource commitment"`
	Resource     string          `json:"resource,omitempty" enum:"vcpu,memory,gpu" doc:"of a Google resource commitment"`
	GPUModel     string          `json:"gpu_model,omitempty" maxLength:"64"`
	Quantity     string          `json:"quantity,omitempty" maxLength:"24" doc:"machines, vCPUs, GiB or GPUs"`
	Upfront      string          `json:"upfront,omitempty" maxLength:"24" doc:"once, for the whole term"`
	Recurring    string          `json:"recurring_hour,omitempty" maxLength:"24" doc:"per hour, of the whole quantity"`
	Spend        string          `json:"hourly_commitment,omitempty" maxLength:"24" doc:"of a spend plan, at discounted rates"`
	Discount     string          `json:"discount_percent,omitempty" maxLength:"24" doc:"of a spend plan, off the on-demand price, where no rate says otherwise"`
	Rates        string          `json:"rates,omitempty" maxLength:"262144" example:"p5.48xlarge@us-east-1=60.10; m5.*=28%" doc:"of a spend plan"`
	Ratios       string          `json:"ratios,omitempty" maxLength:"262144" example:"Standard_D2s_v3=1; Standard_D4s_v3=2" doc:"of an Azure reservation with instance size flexibility"`
	Flexible     string          `json:"size_flexible,omitempty" enum:"true,false" doc:"of a regional RI; default: as the family is sold"`
	StartsAt     string          `json:"starts_at" maxLength:"40" doc:"date or time, UTC"`
	EndsAt       string          `json:"ends_at,omitempty" maxLength:"40" doc:"date or time, exclusive; only a capacity reservation may lack it"`
	Owner        string          `json:"owner,omitempty" maxLength:"253" doc:"team that bears what is unused"`
	Currency     string          `json:"currency,omitempty" maxLength:"3"`
}

// Commitment is a purchase with how it stands.
type Commitment struct {
	ID           string              `json:"id" format:"uuid"`
	Ref          string              `json:"ref"`
	Kind         commitment.Kind     `json:"kind"`
	Cloud        fleet.Cloud         `json:"cloud"`
	Region       string              `json:"region,omitempty"`
	Zone         string              `json:"zone,omitempty"`
	InstanceType string              `json:"instance_type,omitempty"`
	Family       string              `json:"family,omitempty"`
	Resource     commitment.Resource `json:"resource" enum:"machine,vcpu,memory,gpu" doc:"what quantity counts"`
	GPUModel     fleet.GPUModel      `json:"gpu_model,omitempty"`
	Quantity     float64             `json:"quantity" doc:"machines, vCPUs, GiB or GPUs; 0 of a spend plan"`
	Upfront      Money               `json:"upfront"`
	Recurring    Money               `json:"recurring_hour"`
	Spend        *Money              `json:"hourly_commitment" doc:"null: no spend plan"`
	HourCost     Money               `json:"hour_cost" doc:"amortised: upfront over the term, plus what is paid per hour"`
	Rates        int                 `json:"rates" doc:"how many rates it has"`
	StartsAt     time.Time           `json:"starts_at"`
	EndsAt       *time.Time          `json:"ends_at" doc:"exclusive; null: until cancelled"`
	State        string              `json:"state" enum:"upcoming,active,expired"`
	Owner        string              `json:"owner,omitempty"`
	Source       string              `json:"source" enum:"api,csv,json"`
	CreatedBy    string              `json:"created_by"`
	CreatedAt    time.Time           `json:"created_at"`
	ChangedAt    time.Time           `json:"changed_at"`
}

// CommitmentImport is what an import did.
type CommitmentImport struct {
	Added     int `json:"added"`
	Changed   int `json:"changed" doc:"their ref was known with other content"`
	Unchanged int `json:"unchanged"`
}

func (s *Server) registerCommitments() {
	tags := []string{"commitments"}
	op(s, huma.Operation{OperationID: "list-commitments", Method: http.MethodGet, Path: "/api/v1/commitments", Summary: "List reservations, plans and committed use", Tags: tags},
		auth.RoleViewer, s.listCommitments)
	op(s, huma.Operation{OperationID: "create-commitment", Method: http.MethodPost, Path: "/api/v1/commitments", Summary: "Write down a commitment; the same again has no effect", Tags: tags,
		DefaultStatus: http.StatusCreated, Errors: []int{409, 422}, MaxBodyBytes: 1 << 20}, auth.RoleFinance, s.createCommitment)
	op(s, huma.Operation{OperationID: "import-commitments", Method: http.MethodPost, Path: "/api/v1/commitments/import", Summary: "Import commitments from CSV or JSON, all or none", Tags: tags,
		Errors: []int{409, 413, 415, 422}, MaxBodyBytes: commitment.MaxImportBytes, SkipValidateBody: true, RequestBody: importBody()}, auth.RoleFinance, s.importCommitments)
	op(s, huma.Operation{OperationID: "get-commitment", Method: http.MethodGet, Path: "/api/v1/commitments/{id}", Summary: "Get a commitment", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getCommitment)
	op(s, huma.Operation{OperationID: "delete-commitment", Method: http.MethodDelete, Path: "/api/v1/commitments/{id}", Summary: "Take a commitment out of everything that is not costed yet", Tags: tags,
		DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleFinance, s.deleteCommitment)
	op(s, huma.Operation{OperationID: "commitment-utilisation", Method: http.MethodGet, Path: "/api/v1/commitments/utilisation", Summary: "What of the commitments is used and unused", Tags: tags,
		Errors: []int{413, 422}}, auth.RoleViewer, s.commitmentUtilisation)
	op(s, huma.Operation{OperationID: "commitment-coverage", Method: http.MethodGet, Path: "/api/v1/commitments/coverage", Summary: "What share of eligible usage commitments cover", Tags: tags,
		Errors: []int{413, 422}}, auth.RoleViewer, s.commitmentCoverage)
	s.registerCommitmentSeries()
	s.registerCommitmentStock()
	op(s, huma.Operation{OperationID: "commitment-expiries", Method: http.MethodGet, Path: "/api/v1/commitments/expiries", Summary: "What ends when", Tags: tags},
		auth.RoleViewer, s.commitmentExpiries)
	op(s, huma.Operation{OperationID: "commitment-recommendations", Method: http.MethodGet, Path: "/api/v1/commitments/recommendations", Summary: "What to reserve, by the tenant's own history", Tags: tags,
		Errors: []int{413, 422}}, auth.RoleViewer, s.commitmentRecommendations)
	op(s, huma.Operation{OperationID: "explain-price", Method: http.MethodGet, Path: "/api/v1/prices/explain", Summary: "What the next machine of an offering costs, part by part", Tags: []string{"prices"},
		Errors: []int{422}}, auth.RoleViewer, s.explainPrice)
}

// importBody documents that an import is a file as it is.
func importBody() *huma.RequestBody {
	file := func(what string) *huma.MediaType {
		return &huma.MediaType{Schema: &huma.Schema{Type: "string", Description: what}}
	}
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"text/csv":         file("A first row with column names, then a row per commitment; columns are the fields of CommitmentRecord, in any order"),
		"application/json": {Schema: &huma.Schema{Type: "array", Items: &huma.Schema{Type: "object", AdditionalProperties: true}, Description: "Objects with the fields of CommitmentRecord; numbers may stand for text"}},
	}}
}

func (s *Server) listCommitments(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Commitment `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Commitment `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		all, err := store.Commitments(ctx, tx, time.Time{}, time.Time{})
		out.Body.Items = make([]Commitment, 0, len(all))
		for _, c := range all {
			out.Body.Items = append(out.Body.Items, s.showCommitment(c, now))
		}
		return err
	})
	return out, err
}

// CommitmentPath names a commitment. Exported because huma passes over embedded types that are not.
type CommitmentPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Server) getCommitment(ctx context.Context, p auth.Principal, in *CommitmentPath) (*struct{ Body Commitment }, error) {
	out := &struct{ Body Commitment }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		c, err := store.LoadCommitment(ctx, tx, in.ID)
		out.Body = s.showCommitment(c, now)
		return err
	})
	return out, err
}

func (s *Server) createCommitment(ctx context.Context, p auth.Principal, in *struct{ Body CommitmentRecord }) (*struct{ Body Commitment }, error) {
	b := in.Body
	c, err := commitment.Record{Ref: b.Ref, Kind: string(b.Kind), Region: b.Region, Zone: b.Zone, InstanceType: b.InstanceType, Family: b.Family, Resource: b.Resource,
		GPUModel: b.GPUModel, Quantity: b.Quantity, Upfront: b.Upfront, Recurring: b.Recurring, Spend: b.Spend, Discount: b.Discount, Rates: b.Rates, Ratios: b.Ratios,
		Flexible: b.Flexible, StartsAt: b.StartsAt, EndsAt: b.EndsAt, Owner: b.Owner, Currency: b.Currency}.Commitment(s.prices().Currency())
	if err != nil {
		return nil, inBody(err)
	}
	out := &struct{ Body Commitment }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		done, err := store.ImportCommitments(ctx, tx, []commitment.Commitment{c}, "api", p.Actor())
		if err != nil {
			return err
		}
		if done.Changed > 0 {
			return &fleet.Error{Code: fleet.CodeConflict, Message: "a commitment of this ref exists with other content; import it to change it", Field: "body.ref"}
		}
		saved, err := store.CommitmentByRef(ctx, tx, c.Ref)
		if err != nil {
			return err
		}
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		out.Body = s.showCommitment(saved, now)
		if done.Added == 0 {
			return nil
		}
		return store.Audit(ctx, tx, p.Actor(), "commitment.create", "commitment/"+saved.ID, map[string]string{"ref": c.Ref, "kind": string(c.Kind)})
	})
	return out, err
}

// inBody puts the field of an error under the body.
func inBody(err error) error {
	var coded *fleet.Error
	if errors.As(err, &coded) && coded.Field != "" {
		e := *coded
		e.Message, e.Field = coded.Field+": "+coded.Message, "body."+coded.Field
		return &e
	}
	return err
}

func (s *Server) importCommitments(ctx context.Context, p auth.Principal, in *struct {
	ContentType string `header:"Content-Type"`
	RawBody     []byte
}) (*struct{ Body CommitmentImport }, error) {
	media, _, _ := mime.ParseMediaType(in.ContentType)
	var all []commitment.Commitment
	var err error
	source := ""
	switch media {
	case "text/csv":
		source = "csv"
		all, err = commitment.ReadCSV(in.RawBody, s.prices().Currency())
	case "application/json":
		source = "json"
		all, err = commitment.ReadJSON(in.RawBody, s.prices().Currency())
	default:
		return nil, huma.Error415UnsupportedMediaType("an import is text/csv or application/json")
	}
	if err != nil {
		return nil, err
	}
	out := &struct{ Body CommitmentImport }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		done, err := store.ImportCommitments(ctx, tx, all, source, p.Actor())
		if err != nil {
			return err
		}
		out.Body = CommitmentImport(done)
		if done.Added+done.Changed == 0 {
			return nil
		}
		return store.Audit(ctx, tx, p.Actor(), "commitment.import", "commitments", map[string]string{"format": source, "added": strconv.Itoa(done.Added), "changed": strconv.Itoa(done.Changed)})
	})
	return out, err
}

func (s *Server) deleteCommitment(ctx context.Context, p auth.Principal, in *CommitmentPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		c, err := store.LoadCommitment(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if err := store.DeleteCommitment(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "commitment.delete", "commitment/"+in.ID, map[string]string{"ref": c.Ref, "kind": string(c.Kind)})
	})
}

func (s *Server) showCommitment(c store.Commitment, now time.Time) Commitment {
	v := Commitment{ID: c.ID, Ref: c.Ref, Kind: c.Kind, Cloud: c.Kind.Cloud(), Region: c.Region, Zone: c.Zone, InstanceType: c.InstanceType, Family: c.Family,
		Resource: c.Resource, GPUModel: c.GPUModel, Quantity: float64(c.Quantity) / 1000, Upfront: s.money(c.Upfront), Recurring: s.money(c.Recurring), HourCost: s.money(c.HourCost()),
		Rates: len(c.Rates), StartsAt: c.Term.From.UTC(), State: "active", Owner: c.Owner, Source: c.Source, CreatedBy: c.CreatedBy, CreatedAt: c.CreatedAt.UTC(), ChangedAt: c.ChangedAt.UTC()}
	if c.Resource == "" {
		v.Resource = commitment.ResourceMachine
	}
	if c.Resource == commitment.ResourceMemory {
		v.Quantity = float64(c.Quantity) / 1024
	}
	if c.Kind.Spend() {
		m := s.money(c.Spend)
		v.Spend = &m
	}
	if !c.Term.To.IsZero() {
		v.EndsAt = ptr(c.Term.To.UTC())
	}
	switch {
	case now.Before(c.Term.From):
		v.State = "upcoming"
	case !c.Term.To.IsZero() && !now.Before(c.Term.To):
		v.State = "expired"
	}
	return v
}
