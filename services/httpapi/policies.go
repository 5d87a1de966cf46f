package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// PolicyVersion is a saved policy.
type PolicyVersion struct {
	Version   int                 `json:"version" doc:"0: there is none yet"`
	Document  string              `json:"document" doc:"YAML"`
	Mode      fleet.Mode          `json:"mode"`
	CreatedBy string              `json:"created_by"`
	CreatedAt *time.Time          `json:"created_at"`
	Findings  []optimizer.Finding `json:"findings"`
}

type policyAnswer struct {
	ETag string `header:"ETag"`
	Body PolicyVersion
}

// Preset is a policy to start from.
type Preset struct {
	Name     string `json:"name"`
	About    string `json:"about" doc:"one sentence"`
	Document string `json:"document" doc:"YAML"`
}

func (s *Server) registerPolicies() {
	tags := []string{"policies"}
	op(s, huma.Operation{OperationID: "get-policy", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/policy", Summary: "Get a workload's policy", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getPolicy)
	op(s, huma.Operation{OperationID: "list-policy-versions", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/policy/versions", Summary: "List a policy's versions, newest first", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.listPolicyVersions)
	op(s, huma.Operation{OperationID: "put-policy", Method: http.MethodPut, Path: "/api/v1/workloads/{id}/policy", Summary: "Save a new version of a workload's policy", Tags: tags, Errors: []int{404, 409, 422}, MaxBodyBytes: 128 << 10},
		auth.RoleOperator, s.putPolicy)
	op(s, huma.Operation{OperationID: "lint-policy", Method: http.MethodPost, Path: "/api/v1/policies/lint", Summary: "Check a policy without saving it", Tags: tags, MaxBodyBytes: 128 << 10},
		auth.RoleViewer, s.lintPolicy)
	op(s, huma.Operation{OperationID: "list-policy-presets", Method: http.MethodGet, Path: "/api/v1/policies/presets", Summary: "Policies to start from", Tags: tags},
		auth.RoleViewer, s.listPresets)
}

func (s *Server) getPolicy(ctx context.Context, p auth.Principal, in *WorkloadPath) (*policyAnswer, error) {
	var versions []store.PolicyVersion
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if _, err := loadWorkload(ctx, tx, in.ID); err != nil {
			return err
		}
		var err error
		versions, err = store.Policies(ctx, tx, in.ID, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return showPolicy(store.PolicyVersion{}), nil
	}
	return showPolicy(versions[0]), nil
}

func showPolicy(v store.PolicyVersion) *policyAnswer {
	out := &policyAnswer{ETag: `"` + strconv.Itoa(v.Version) + `"`, Body: PolicyVersion{Version: v.Version, Document: v.Document, Mode: v.Mode, CreatedBy: v.CreatedBy, Findings: []optimizer.Finding{}}}
	if v.Version == 0 {
		out.Body.Mode = fleet.ModeObserve
		return out
	}
	out.Body.CreatedAt = &v.CreatedAt
	if _, findings := optimizer.ParsePolicy([]byte(v.Document)); findings != nil {
		out.Body.Findings = findings
	}
	return out
}

func (s *Server) listPolicyVersions(ctx context.Context, p auth.Principal, in *WorkloadPath) (*struct {
	Body struct {
		Items []PolicyVersion `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []PolicyVersion `json:"items"`
		}
	}{}
	out.Body.Items = []PolicyVersion{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if _, err := loadWorkload(ctx, tx, in.ID); err != nil {
			return err
		}
		versions, err := store.Policies(ctx, tx, in.ID, 100)
		for _, v := range versions {
			out.Body.Items = append(out.Body.Items, showPolicy(v).Body)
		}
		return err
	})
	return out, err
}

func (s *Server) putPolicy(ctx context.Context, p auth.Principal, in *struct {
	WorkloadPath
	IfMatch string `header:"If-Match" doc:"the ETag of the version that was edited; without it the newest is replaced"`
	Body    struct {
		Document       string `json:"document" minLength:"1" maxLength:"65536" doc:"YAML"`
		ReplayOverride string `json:"replay_override,omitempty" maxLength:"500" doc:"why a policy that enforces is saved without a replay on the workload's history; kept in the audit log"`
	}
}) (*policyAnswer, error) {
	policy, findings := optimizer.ParsePolicy([]byte(in.Body.Document))
	var wrong []error
	for _, f := range findings {
		if f.Severity == optimizer.SeverityError {
			wrong = append(wrong, &huma.ErrorDetail{Location: strings.TrimSuffix("body.document."+f.Field, "."), Message: f.Message})
		}
	}
	if len(wrong) > 0 {
		return nil, huma.Error422UnprocessableEntity("the policy cannot be used as it is", wrong...)
	}
	var saved store.PolicyVersion
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		expect := w.PolicyVersion
		if in.IfMatch != "" {
			if expect, err = strconv.Atoi(strings.Trim(strings.TrimPrefix(in.IfMatch, "W/"), `"`)); err != nil { // proxies that compress weaken ETags
				return &fleet.Error{Code: fleet.CodeInvalid, Message: "If-Match must be an ETag of this policy", Field: "header.If-Match"}
			}
		}
		replayed, err := replayGate(ctx, tx, &w, in.Body.Document, policy.Mode, strings.TrimSpace(in.Body.ReplayOverride))
		if err != nil {
			return err
		}
		saved, err = store.SavePolicy(ctx, tx, store.PolicyVersion{Workload: in.ID, Document: in.Body.Document, Mode: policy.Mode, CreatedBy: p.Actor()}, expect)
		if err != nil {
			return err
		}
		detail := map[string]string{"version": strconv.Itoa(saved.Version), "mode": string(saved.Mode)}
		if replayed != "" {
			detail["replay"] = replayed
		} else if policy.Mode == fleet.ModeEnforce && in.Body.ReplayOverride != "" {
			detail["replay_override"] = strings.TrimSpace(in.Body.ReplayOverride)
		}
		if err := store.Audit(ctx, tx, p.Actor(), "policy.save", "workload:"+string(in.ID), detail); err != nil {
			return err
		}
		return s.deps.Queue.PlanSoon(ctx, tx, w.Cluster)
	})
	if err != nil {
		return nil, err
	}
	return showPolicy(saved), nil
}

func (s *Server) lintPolicy(_ context.Context, _ auth.Principal, in *struct {
	Body struct {
		Document string `json:"document" maxLength:"65536"`
	}
}) (*struct {
	Body struct {
		Findings []optimizer.Finding `json:"findings"`
		Policy   optimizer.Policy    `json:"policy" doc:"with all defaults filled in"`
	}
}, error) {
	out := &struct {
		Body struct {
			Findings []optimizer.Finding `json:"findings"`
			Policy   optimizer.Policy    `json:"policy" doc:"with all defaults filled in"`
		}
	}{}
	out.Body.Policy, out.Body.Findings = optimizer.ParsePolicy([]byte(in.Body.Document))
	if out.Body.Findings == nil {
		out.Body.Findings = []optimizer.Finding{}
	}
	return out, nil
}

func (s *Server) listPresets(context.Context, auth.Principal, *struct{}) (*struct {
	Body struct {
		Items []Preset `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Preset `json:"items"`
		}
	}{}
	for _, p := range optimizer.Presets() {
		out.Body.Items = append(out.Body.Items, Preset{Name: p.Name, About: p.About, Document: p.YAML})
	}
	return out, nil
}
