package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// CloudChecker tries each thing that an account must allow.
type CloudChecker interface {
	Check(ctx context.Context, access cloud.Access) ([]cloud.Check, error)
}

// CloudAccount is an account at a cloud that Plimsoll reads. What it takes to get in is never shown.
type CloudAccount struct {
	ID          string          `json:"id"`
	Cloud       fleet.Cloud     `json:"cloud" enum:"aws,azure,gcp"`
	Name        string          `json:"name"`
	Subject     string          `json:"subject" doc:"the role, application or service account that is used"`
	ExternalID  string          `json:"external_id,omitempty" doc:"AWS: what the role's trust policy must ask for"`
	Regions     []string        `json:"regions"`
	State       string          `json:"state" enum:"new,ok,failing"`
	Failures    int             `json:"failures" doc:"in a row"`
	Problem     string          `json:"problem,omitempty" doc:"of the newest failure"`
	RefreshedAt *time.Time      `json:"refreshed_at" doc:"of the newest complete reading"`
	AgeSeconds  *int64          `json:"age_seconds" doc:"of the newest complete reading"`
	Stale       bool            `json:"stale" doc:"nothing complete was read for more than three hours"`
	NextAt      time.Time       `json:"next_at"`
	Outcome     json.RawMessage `json:"outcome" doc:"counts of the newest complete reading"`
	CreatedBy   string          `json:"created_by"`
	CreatedAt   time.Time       `json:"created_at"`
}

// CloudCheck is the outcome of trying one thing.
type CloudCheck struct {
	Name    string `json:"name" doc:"in the cloud's words"`
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

// CloudChecks is the outcome of trying an account.
type CloudChecks struct {
	OK     bool         `json:"ok"`
	Checks []CloudCheck `json:"checks"`
}

// PriceSource says how fresh a list of prices is.
type PriceSource struct {
	Cloud       fleet.Cloud          `json:"cloud"`
	Region      string               `json:"region"`
	Kind        string               `json:"kind" enum:"on_demand,spot"`
	Source      string               `json:"source"`
	RefreshedAt time.Time            `json:"refreshed_at"`
	AgeSeconds  int64                `json:"age_seconds"`
	Stale       bool                 `json:"stale" doc:"older than 26 hours"`
	Listed      int                  `json:"listed" doc:"rows with a price"`
	Changed     int                  `json:"changed" doc:"of these, new prices"`
	Skipped     map[string]int       `json:"skipped" doc:"rows left out or without a price, by reason"`
	Doubted     []store.DoubtedPrice `json:"doubted" doc:"prices that were not believed and are not used, at most a hundred"`
}

// CloudAccountPath names an account. Exported because huma passes over embedded types that are not.
type CloudAccountPath struct {
	ID string `path:"id" format:"uuid"`
}

// AWSRole is a role in the tenant's account that trusts ours with the account's external id.
type AWSRole struct {
	RoleARN string `json:"role_arn" maxLength:"600" example:"arn:aws:iam::123456789012:role/plimsoll"`
}

// AzureApplication is an application in the tenant's directory that may read the subscription.
type AzureApplication struct {
	DirectoryID    string `json:"directory_id" maxLength:"36"`
	ClientID       string `json:"client_id" maxLength:"36"`
	ClientSecret   string `json:"client_secret,omitempty" maxLength:"512" doc:"without one, the installation's own federated token is used, where the operator allows it"`
	SubscriptionID string `json:"subscription_id" maxLength:"36"`
}

// GCPServiceAccount may read the project.
type GCPServiceAccount struct {
	ProjectID      string `json:"project_id" maxLength:"30"`
	Key            string `json:"key,omitempty" maxLength:"16384" doc:"the JSON key file"`
	ServiceAccount string `json:"service_account,omitempty" maxLength:"200" doc:"to be impersonated instead, where the operator allows it"`
}

type newCloudAccount struct {
	Body struct {
		Name    string             `json:"name" minLength:"1" maxLength:"100"`
		Cloud   fleet.Cloud        `json:"cloud" enum:"aws,azure,gcp"`
		Regions []string           `json:"regions" minItems:"1" maxItems:"40"`
		AWS     *AWSRole           `json:"aws,omitempty"`
		Azure   *AzureApplication  `json:"azure,omitempty"`
		GCP     *GCPServiceAccount `json:"gcp,omitempty"`
	}
}

// access is what the person wrote, with the external id that is ours.
func (in *newCloudAccount) access(id string) cloud.Access {
	b := in.Body
	a := cloud.Access{Cloud: b.Cloud, Regions: b.Regions}
	if b.AWS != nil {
		a.AWS = &cloud.AWSAccess{RoleARN: b.AWS.RoleARN, ExternalID: "plimsoll-" + id}
	}
	if b.Azure != nil {
		a.Azure = &cloud.AzureAccess{DirectoryID: b.Azure.DirectoryID, ClientID: b.Azure.ClientID, ClientSecret: b.Azure.ClientSecret, SubscriptionID: b.Azure.SubscriptionID}
	}
	if b.GCP != nil {
		a.GCP = &cloud.GCPAccess{ProjectID: b.GCP.ProjectID, Key: b.GCP.Key, ServiceAccount: b.GCP.ServiceAccount}
	}
	return a
}

const (
	maxCloudAccounts = 50
	// An account is read hourly and a price list twice a day: after these, something is wrong.
	accountStale = 3 * time.Hour
	pricesStale  = 26 * time.Hour
	// checkDeadline bounds trying an account while a person waits.
	checkDeadline = time.Minute
)

func (s *Server) registerCloudAccounts() {
	tags := []string{"cloud accounts"}
	op(s, huma.Operation{OperationID: "list-cloud-accounts", Method: http.MethodGet, Path: "/api/v1/cloud-accounts", Summary: "List cloud accounts and how fresh each is", Tags: tags},
		auth.RoleViewer, s.listCloudAccounts)
	op(s, huma.Operation{OperationID: "create-cloud-account", Method: http.MethodPost, Path: "/api/v1/cloud-accounts", Summary: "Add a cloud account; it is read within a minute", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422}},
		auth.RoleAdmin, s.createCloudAccount)
	op(s, huma.Operation{OperationID: "delete-cloud-account", Method: http.MethodDelete, Path: "/api/v1/cloud-accounts/{id}", Summary: "Forget a cloud account; prices and commitments that came from it stay", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}},
		auth.RoleAdmin, s.deleteCloudAccount)
	op(s, huma.Operation{OperationID: "validate-cloud-account", Method: http.MethodPost, Path: "/api/v1/cloud-accounts/{id}/validate", Summary: "Try each thing that the account must allow", Tags: tags, Errors: []int{404, 503}},
		auth.RoleAdmin, s.validateCloudAccount)
	op(s, huma.Operation{OperationID: "refresh-cloud-account", Method: http.MethodPost, Path: "/api/v1/cloud-accounts/{id}/refresh", Summary: "Read the account within a minute instead of at its time", Tags: tags, DefaultStatus: http.StatusAccepted, Errors: []int{404}},
		auth.RoleAdmin, s.refreshCloudAccount)
	op(s, huma.Operation{OperationID: "list-price-sources", Method: http.MethodGet, Path: "/api/v1/price-sources", Summary: "How fresh each list of prices is", Tags: []string{"prices"}},
		auth.RoleViewer, s.listPriceSources)
}

func (s *Server) listCloudAccounts(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []CloudAccount `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []CloudAccount `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.CloudAccounts(ctx, tx)
		out.Body.Items = make([]CloudAccount, 0, len(all))
		for _, a := range all {
			out.Body.Items = append(out.Body.Items, showCloudAccount(a, tx.Now))
		}
		return err
	})
	return out, err
}

func showCloudAccount(a store.CloudAccount, now time.Time) CloudAccount {
	v := CloudAccount{ID: a.ID, Cloud: a.Cloud, Name: a.Name, Subject: a.Subject, ExternalID: a.ExternalID, Regions: a.Regions, State: a.State, Failures: a.Failures, Problem: a.Problem,
		RefreshedAt: a.RefreshedAt, NextAt: a.NextAt.UTC(), Outcome: a.Outcome, CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt.UTC()}
	if len(v.Outcome) == 0 {
		v.Outcome = json.RawMessage("{}")
	}
	since := a.CreatedAt
	if a.RefreshedAt != nil {
		since = *a.RefreshedAt
		age := int64(now.Sub(since).Seconds())
		v.AgeSeconds = &age
	}
	v.Stale = now.Sub(since) > accountStale
	return v
}

func (s *Server) createCloudAccount(ctx context.Context, p auth.Principal, in *newCloudAccount) (*struct{ Body CloudAccount }, error) {
	id := uuid.Must(uuid.NewV7()).String()
	access := in.access(id)
	if err := access.Validate(); err != nil {
		return nil, inBody(err)
	}
	plain, err := json.Marshal(access)
	if err != nil {
		return nil, fmt.Errorf("encode access: %w", err)
	}
	account := store.CloudAccount{ID: id, Cloud: access.Cloud, Name: in.Body.Name, Subject: access.Subject(), Regions: access.Regions, CreatedBy: p.Actor()}
	if access.AWS != nil {
		account.ExternalID = access.AWS.ExternalID
	}
	out := &struct{ Body CloudAccount }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.CloudAccounts(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) >= maxCloudAccounts {
			return fleet.Errorf(fleet.CodeConflict, "a tenant has at most %d cloud accounts", maxCloudAccounts)
		}
		if err := store.InsertCloudAccount(ctx, tx, account, s.deps.Sealer.Seal(cloud.AccessPurpose(p.Tenant, id), plain)); err != nil {
			return err
		}
		account, _, err = store.LoadCloudAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		out.Body = showCloudAccount(account, tx.Now)
		return store.Audit(ctx, tx, p.Actor(), "cloud_account.create", "cloud_account/"+id, map[string]string{"name": account.Name, "cloud": string(account.Cloud), "subject": account.Subject})
	})
	return out, err
}

func (s *Server) deleteCloudAccount(ctx context.Context, p auth.Principal, in *CloudAccountPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteCloudAccount(ctx, tx, in.ID); err != nil {
			return err
		}
		if _, _, err := store.ResolveAlert(ctx, tx, "cloud_account_failing", "cloud_account/"+in.ID, tx.Now); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "cloud_account.delete", "cloud_account/"+in.ID, nil)
	})
}

func (s *Server) refreshCloudAccount(ctx context.Context, p auth.Principal, in *CloudAccountPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return store.RefreshCloudAccountSoon(ctx, tx, in.ID)
	})
}

func (s *Server) validateCloudAccount(ctx context.Context, p auth.Principal, in *CloudAccountPath) (*struct{ Body CloudChecks }, error) {
	if s.deps.Clouds == nil {
		return nil, fleet.Errorf(fleet.CodeUnavailable, "this installation does not read cloud accounts")
	}
	var sealed []byte
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		_, sealed, err = store.LoadCloudAccount(ctx, tx, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	access, err := cloud.OpenAccess(s.deps.Sealer.Open, p.Tenant, in.ID, sealed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	out := &struct{ Body CloudChecks }{Body: CloudChecks{OK: true}}
	checks, err := s.deps.Clouds.Check(ctx, access)
	if err != nil { // what it takes to get in is not even of the right kind
		checks = []cloud.Check{{Name: "sign in", Problem: cloud.Problem(err)}}
	}
	out.Body.Checks = make([]CloudCheck, 0, len(checks))
	for _, c := range checks {
		out.Body.OK = out.Body.OK && c.Problem == ""
		out.Body.Checks = append(out.Body.Checks, CloudCheck{Name: c.Name, OK: c.Problem == "", Problem: c.Problem})
	}
	return out, nil
}

func (s *Server) listPriceSources(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []PriceSource `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []PriceSource `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.PriceSources(ctx, tx)
		out.Body.Items = make([]PriceSource, 0, len(all))
		for _, v := range all {
			age := tx.Now.Sub(v.RefreshedAt)
			out.Body.Items = append(out.Body.Items, PriceSource{Cloud: v.Cloud, Region: v.Region, Kind: v.Kind, Source: v.Source, RefreshedAt: v.RefreshedAt.UTC(), AgeSeconds: int64(age.Seconds()),
				Stale: age > pricesStale, Listed: v.Listed, Changed: v.Changed, Skipped: v.Skipped, Doubted: v.Doubted})
		}
		return err
	})
	return out, err
}
