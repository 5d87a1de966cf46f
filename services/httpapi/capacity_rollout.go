package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	// previewSearch is how long the two plans of a preview may search.
	previewSearch = 8 * time.Second
	// previewsAtOnce bounds the previews that this process computes at once.
	previewsAtOnce = 2
)

// CapacityRollout is a capacity policy on its way to be that of its clusters.
type CapacityRollout struct {
	Default        bool                   `json:"default" doc:"of the tenant's default: done, it is the default, and no cluster gets a policy of its own"`
	DefaultVersion int                    `json:"default_version" doc:"of the default before; 0: there was none, or it is no rollout of the default"`
	ID             string                 `json:"id" format:"uuid"`
	State          capacity.RolloutState  `json:"state" enum:"shadow,canary,done,rolled_back,cancelled,superseded"`
	Step           int                    `json:"step" doc:"of shares, from 0, in the canary"`
	Shares         []float64              `json:"shares" doc:"0 to 1: of the clusters, and of the machines of each, that a step reaches; one at least"`
	ShadowSeconds  int64                  `json:"shadow_seconds"`
	StageSeconds   int64                  `json:"stage_seconds" doc:"that each step is watched for"`
	Hourly         int                    `json:"hourly" doc:"machines of a cluster that may come or go within an hour under it; after that the policy before finds machines for pods, and nothing else changes"`
	CostOver       float64                `json:"cost_over" doc:"0.2: 20 % above what was promised are still well"`
	Paused         bool                   `json:"paused" doc:"no step is taken; guards still take it back"`
	Policy         CapacityPolicyDoc      `json:"policy" doc:"proposed"`
	Clusters       []CapacityRolloutPart  `json:"clusters" doc:"in the order in which they are reached"`
	Outcome        string                 `json:"outcome" doc:"why it ended: unplaced, disruption, failed, interruptions, slow, cost, late, errors, leaves_pods, nothing_told, policy_changed, clusters_gone, or words"`
	OutcomeID      string                 `json:"outcome_cluster_id" doc:"the cluster that ended it; empty: none"`
	Seq            int                    `json:"seq" doc:"of its newest step"`
	CreatedBy      string                 `json:"created_by"`
	CreatedAt      time.Time              `json:"created_at"`
	StageAt        time.Time              `json:"stage_at" doc:"by our clock: when the step was taken"`
	LookedAt       *time.Time             `json:"looked_at" doc:"null: not yet"`
	FinishedAt     *time.Time             `json:"finished_at"`
	Steps          []CapacityRolloutEvent `json:"steps,omitempty" doc:"oldest first; only of a single rollout"`
}

// CapacityRolloutPart is a cluster of a rollout.
type CapacityRolloutPart struct {
	ClusterID      fleet.ClusterID     `json:"cluster_id" format:"uuid"`
	Cluster        string              `json:"cluster"`
	InForce        bool                `json:"in_force" doc:"the proposed policy is, on the share of the step"`
	Base           CapacityPolicyDoc   `json:"base" doc:"the policy before"`
	BaseVersion    int                 `json:"base_version" doc:"0: none; the defaults"`
	WatchedSeconds int64               `json:"watched_seconds" doc:"of this step, with everything told"`
	SilentSeconds  int64               `json:"silent_seconds" doc:"of this step, with something missing; at twice the step the rollout is taken back"`
	Passed         string              `json:"passed" doc:"the guard that the newest look passed; empty: none"`
	CostLimit      *Money              `json:"cost_limit" doc:"per hour, that the cost guard holds against; null: not known"`
	Before         *CapacitySigns      `json:"before" doc:"before it was in force; null: it is not yet"`
	After          *CapacitySigns      `json:"after" doc:"of the newest look; null: none told everything"`
	Shadow         *CapacityComparison `json:"shadow" doc:"planned beside the policy in force; null: not yet"`
}

// CapacitySigns are what a rollout is watched by.
type CapacitySigns struct {
	LongWaiting   int64    `json:"long_waiting" doc:"pods without a machine for longer than the policy allows"`
	Breached      int64    `json:"disruption_breached" doc:"PodDisruptionBudgets with fewer healthy pods than they want"`
	Cost          *Money   `json:"cost" doc:"per hour: machines of a known price"`
	Unpriced      int64    `json:"unpriced"`
	ReadySeconds  *float64 `json:"ready_seconds" doc:"from a pod's creation to ready, the slow tenth; null: too few to tell"`
	Started       int64    `json:"started" doc:"machines that came"`
	Failed        int64    `json:"failed" doc:"that could not be had"`
	Interruptions int64    `json:"interruptions"`
	NodeHours     float64  `json:"machine_hours"`
	Late          *float64 `json:"late_ratio" doc:"null: nobody said"`
	Errors        *float64 `json:"error_ratio"`
}

// CapacityComparison holds a policy's plan against that of the policy in force, both from the same inventory.
type CapacityComparison struct {
	Cost      Money               `json:"cost" doc:"per hour, now"`
	InForce   CapacityPlanSum     `json:"in_force"`
	Proposed  CapacityPlanSum     `json:"proposed"`
	Offerings []CapacityOfferDiff `json:"offerings" doc:"that differ, at most 100"`
}

// CapacityPlanSum is a plan in numbers.
type CapacityPlanSum struct {
	After      Money    `json:"after" doc:"per hour"`
	Adds       int      `json:"adds"`
	Drains     int      `json:"drains"`
	Moves      int      `json:"moves" doc:"pods"`
	Left       int      `json:"left" doc:"pods that no machine is found for"`
	Machines   int      `json:"machines" doc:"afterwards"`
	Spot       int      `json:"spot" doc:"of them"`
	Hazard     float64  `json:"interruptions_per_hour" doc:"expected, of all machines together"`
	StockOut   float64  `json:"p_stock_out" doc:"0 to 1: the highest chance that one of its purchases fails"`
	Unpriced   int      `json:"unpriced" doc:"machines whose price nobody knows; in no sum"`
	Held       []string `json:"held"`
	Incomplete bool     `json:"incomplete" doc:"the search was ended early"`
}

// CapacityOfferDiff is how many machines of an offering there are now and would be.
type CapacityOfferDiff struct {
	Offering PlannedOffering `json:"offering"`
	Now      int             `json:"now"`
	InForce  int             `json:"in_force"`
	Proposed int             `json:"proposed"`
}

// CapacityRolloutEvent is a step that was taken.
type CapacityRolloutEvent struct {
	Seq     int       `json:"seq"`
	At      time.Time `json:"at"`
	What    string    `json:"what" enum:"shadow,canary,done,rolled_back,cancelled,superseded,paused,resumed"`
	Step    int       `json:"step"`
	Actor   string    `json:"actor"`
	Outcome string    `json:"outcome"`
}

func (s *Server) registerCapacityRollouts() {
	tags := []string{"capacity"}
	op(s, huma.Operation{OperationID: "preview-capacity-policy", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/capacity-policy/preview", Summary: "What a plan would be under a policy, beside that of the policy in force; nothing is saved", Tags: tags,
		Errors: []int{404, 422, 503}}, auth.RoleViewer, s.previewCapacityPolicy)
	op(s, huma.Operation{OperationID: "create-capacity-rollout", Method: http.MethodPost, Path: "/api/v1/capacity-rollouts", Summary: "Bring a capacity policy into force in steps: shadow, canary on a growing share, done", Tags: tags,
		DefaultStatus: http.StatusCreated, Errors: []int{404, 409, 422},
		Description: "First it is planned beside the policy in force. Then it is in force on a share of the clusters and of the machines of each, step by step, while what waits, what fails, what it costs and how late requests are is held against what was before. A guard that is passed takes it back, with an alert; so does silence. A frozen cluster stays as it is."},
		auth.RoleOperator, s.createCapacityRollout)
	op(s, huma.Operation{OperationID: "list-capacity-rollouts", Method: http.MethodGet, Path: "/api/v1/capacity-rollouts", Summary: "Rollouts of capacity policies, newest first", Tags: tags}, auth.RoleViewer, s.listCapacityRollouts)
	op(s, huma.Operation{OperationID: "get-capacity-rollout", Method: http.MethodGet, Path: "/api/v1/capacity-rollouts/{id}", Summary: "One rollout with its steps", Tags: tags, Errors: []int{404}}, auth.RoleViewer, s.getCapacityRollout)
	for _, a := range []struct{ id, summary string }{
		{"promote", "Take the next step now, without waiting"}, {"pause", "Take no more steps; guards still take it back"}, {"resume", "Go on"}, {"rollback", "End it: the policy before is in force again"},
	} {
		op(s, huma.Operation{OperationID: a.id + "-capacity-rollout", Method: http.MethodPost, Path: "/api/v1/capacity-rollouts/{id}/" + a.id, Summary: a.summary, Tags: tags, Errors: []int{404, 409}}, auth.RoleOperator,
			func(ctx context.Context, p auth.Principal, in *capacityRolloutAct) (*struct{ Body CapacityRollout }, error) {
				return s.actOnCapacityRollout(ctx, p, in, a.id)
			})
	}
}

func (s *Server) previewCapacityPolicy(ctx context.Context, _ auth.Principal, in *struct {
	ID   fleet.ClusterID `path:"id" format:"uuid"`
	Body struct {
		Policy CapacityPolicyDoc `json:"policy"`
	}
}) (*struct {
	Body struct {
		Comparison *CapacityComparison `json:"comparison" doc:"null: the cluster never reported"`
	}
}, error) {
	policy, err := in.Body.Policy.policy()
	if err != nil {
		return nil, err
	}
	select {
	case s.previews <- struct{}{}:
		defer func() { <-s.previews }()
	default:
		return nil, fleet.Errorf(fleet.CodeUnavailable, "other previews are being computed; try again in a few seconds")
	}
	out := &struct {
		Body struct {
			Comparison *CapacityComparison `json:"comparison" doc:"null: the cluster never reported"`
		}
	}{}
	var base, proposed *capacity.Input
	if err := s.deps.DB.Tenant(ctx, who(ctx).Tenant, func(tx *store.Tx) (err error) {
		if err := store.ValidCapacityPolicy(policy); err != nil {
			return err
		}
		book := s.prices()
		if base, err = store.LoadCapacityInput(ctx, tx, book, in.ID); err != nil || base == nil {
			return err
		}
		proposed, err = store.LoadCapacityInputUnder(ctx, tx, book, in.ID, policy)
		return err
	}); err != nil || base == nil {
		return out, err
	}
	started := time.Now()
	c, err := capacity.Compare(*base, *proposed, func() bool { return ctx.Err() != nil || time.Since(started) > previewSearch })
	if err != nil {
		return nil, err
	}
	out.Body.Comparison = s.comparisonView(c)
	return out, nil
}

func (s *Server) createCapacityRollout(ctx context.Context, p auth.Principal, in *struct {
	Body struct {
		Clusters      []fleet.ClusterID `json:"clusters,omitempty" maxItems:"200" doc:"in the order in which they are reached; each must be in enforce. Empty with default"`
		Default       bool              `json:"default,omitempty" doc:"to the clusters that take the tenant's default and enforce, by name; done, it is the default, and those that do not enforce take it as well"`
		Policy        CapacityPolicyDoc `json:"policy"`
		Version       *int              `json:"version,omitempty" minimum:"0" doc:"of the policy that was read, of a rollout to one cluster; of the default that was read, with default"`
		Shares        []float64         `json:"shares,omitempty" maxItems:"10" doc:"0 to 1, rising, the last 1. Default 0.1, 0.5, 1"`
		ShadowSeconds int64             `json:"shadow_seconds,omitempty" minimum:"60" maximum:"604800" default:"1800"`
		StageSeconds  int64             `json:"stage_seconds,omitempty" minimum:"300" maximum:"604800" default:"3600"`
		Hourly        int               `json:"hourly,omitempty" minimum:"1" maximum:"1000" default:"10"`
		CostOver      *float64          `json:"cost_over,omitempty" minimum:"0" maximum:"10" doc:"default 0.2: 20 % above what was promised"`
	}
}) (*struct{ Body CapacityRollout }, error) {
	policy, err := in.Body.Policy.policy()
	if err != nil {
		return nil, err
	}
	r := store.CapacityRollout{Document: policy, Hourly: in.Body.Hourly, CreatedBy: p.Actor()}
	r.ShadowSec, r.StageSec, r.CostOver = in.Body.ShadowSeconds, in.Body.StageSeconds, 200
	if in.Body.CostOver != nil {
		r.CostOver = int64(*in.Body.CostOver*1000 + 0.5)
	}
	if len(in.Body.Shares) == 0 {
		r.Shares = []int64{100, 500, 1000}
	}
	for _, share := range in.Body.Shares {
		if !(share > 0 && share <= 1) {
			return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "shares are above 0 and 1 at most", Field: "body.shares"}
		}
		r.Shares = append(r.Shares, int64(share*1000+0.5))
	}
	seen := map[fleet.ClusterID]int{}
	if in.Body.Version != nil && len(in.Body.Clusters) == 1 {
		seen[in.Body.Clusters[0]] = *in.Body.Version
	}
	if in.Body.Default == (len(in.Body.Clusters) > 0) {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "a rollout is to 1 to 200 clusters by id, or to the default", Field: "body.clusters"}
	}
	out := &struct{ Body CapacityRollout }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		clusters := in.Body.Clusters
		if in.Body.Default {
			if clusters, r.Default, err = defaultRollout(ctx, tx, in.Body.Version); err != nil {
				return err
			}
		}
		for _, id := range clusters {
			c, err := store.ClusterByID(ctx, tx, id)
			if err != nil {
				return err
			}
			if c.Mode != fleet.ModeEnforce {
				return fleet.Errorf(fleet.CodeConflict, "cluster %s does not enforce, so nothing acts on its plans: save the policy there", c.Name)
			}
		}
		id, err := store.CreateCapacityRollout(ctx, tx, r, clusters, seen)
		if err != nil {
			return err
		}
		detail := in.Body.Policy.audit()
		detail["rollout"] = id
		if err := store.Audit(ctx, tx, p.Actor(), "capacity_rollout.shadow", "capacity_rollout:"+id, detail); err != nil {
			return err
		}
		return s.loadCapacityRollout(ctx, tx, id, &out.Body)
	})
	return out, err
}

func (s *Server) loadCapacityRollout(ctx context.Context, tx *store.Tx, id string, out *CapacityRollout) error {
	r, err := store.CapacityRolloutOf(ctx, tx, id, false)
	if err != nil {
		return err
	}
	*out = s.capacityRolloutView(&r)
	steps, err := store.CapacitySteps(ctx, tx, id)
	for _, e := range steps {
		out.Steps = append(out.Steps, CapacityRolloutEvent{Seq: e.Seq, At: e.At.UTC(), What: e.What, Step: e.Step, Actor: e.Actor, Outcome: e.Outcome})
	}
	return err
}

func (s *Server) listCapacityRollouts(ctx context.Context, p auth.Principal, in *struct {
	Cluster fleet.ClusterID `query:"cluster" format:"uuid" doc:"empty: of all clusters"`
	Limit   int             `query:"limit" minimum:"1" maximum:"100" default:"20"`
}) (*struct {
	Body struct {
		Items []CapacityRollout `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []CapacityRollout `json:"items"`
		}
	}{}
	out.Body.Items = []CapacityRollout{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if in.Cluster != "" {
			if err := store.ClusterExists(ctx, tx, in.Cluster); err != nil {
				return err
			}
		}
		list, err := store.CapacityRollouts(ctx, tx, in.Cluster, in.Limit)
		for i := range list {
			out.Body.Items = append(out.Body.Items, s.capacityRolloutView(&list[i]))
		}
		return err
	})
	return out, err
}

func (s *Server) getCapacityRollout(ctx context.Context, p auth.Principal, in *struct {
	ID string `path:"id" format:"uuid"`
}) (*struct{ Body CapacityRollout }, error) {
	out := &struct{ Body CapacityRollout }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return s.loadCapacityRollout(ctx, tx, in.ID, &out.Body)
	})
	return out, err
}

type capacityRolloutAct struct {
	ID   string `path:"id" format:"uuid"`
	Body struct {
		Seq    *int   `json:"seq,omitempty" doc:"of the newest step that was read: nothing is done if another was taken meanwhile"`
		Reason string `json:"reason,omitempty" maxLength:"500" doc:"of a rollback; kept with it and in the audit log"`
	}
}

// actOnCapacityRollout does a person's word: the state decides under the rollout's lock, so that two at once are one.
func (s *Server) actOnCapacityRollout(ctx context.Context, p auth.Principal, in *capacityRolloutAct, what string) (*struct{ Body CapacityRollout }, error) {
	out := &struct{ Body CapacityRollout }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		r, err := store.CapacityRolloutOf(ctx, tx, in.ID, true)
		if err != nil {
			return err
		}
		if !r.Open() {
			return fleet.Errorf(fleet.CodeConflict, "the rollout is over already: it is %s", r.State)
		}
		if in.Body.Seq != nil && *in.Body.Seq != r.Seq {
			return fleet.Errorf(fleet.CodeConflict, "the rollout has moved meanwhile: load it again")
		}
		note := ""
		switch what {
		case "pause", "resume":
			if r.Paused == (what == "pause") {
				return s.loadCapacityRollout(ctx, tx, in.ID, &out.Body)
			}
			r.Paused, note = what == "pause", what+"d"
		case "rollback":
			why := strings.TrimSpace(in.Body.Reason)
			if why == "" {
				why = "by " + p.Actor()
			}
			r.End(why)
		default:
			if r.Paused {
				return fleet.Errorf(fleet.CodeConflict, "the rollout is paused: resume it first")
			}
			seen := make([]capacity.Sight, len(r.Parts))
			for i := range r.Parts {
				if seen[i], err = store.CapacitySight(ctx, tx, &r, i); err != nil {
					return err
				}
				if seen[i].Version != r.Parts[i].BaseVersion {
					return fleet.Errorf(fleet.CodeConflict, "the policy of cluster %s was changed meanwhile", r.Bases[i].Name)
				}
			}
			if !r.Advance(seen) {
				return fleet.Errorf(fleet.CodeConflict, "a cluster that the next step reaches is frozen, does not enforce, or has told nothing new since the last step")
			}
		}
		if err := store.SaveCapacityRollout(ctx, tx, &r, true, note, p.Actor()); err != nil {
			return err
		}
		return s.loadCapacityRollout(ctx, tx, in.ID, &out.Body)
	})
	return out, err
}

func (s *Server) capacityRolloutView(r *store.CapacityRollout) CapacityRollout {
	v := CapacityRollout{ID: r.ID, State: r.State, Step: r.Step, ShadowSeconds: r.ShadowSec, StageSeconds: r.StageSec, Hourly: r.Hourly, CostOver: float64(r.CostOver) / 1000, Paused: r.Paused,
		Policy: policyDocOf(r.Document), Clusters: []CapacityRolloutPart{}, Outcome: r.Outcome, OutcomeID: string(r.Where), Seq: r.Seq, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), StageAt: r.StageAt.UTC(),
		LookedAt: r.LookedAt, FinishedAt: r.FinishedAt}
	if v.Default = r.Default != nil; v.Default {
		v.DefaultVersion = *r.Default
	}
	for _, share := range r.Shares {
		v.Shares = append(v.Shares, float64(share)/1000)
	}
	reach, _ := r.Reach()
	for i := range r.Parts {
		p := &r.Parts[i]
		part := CapacityRolloutPart{ClusterID: p.Cluster, Cluster: r.Bases[i].Name, InForce: i < reach, Base: policyDocOf(r.Bases[i].Policy), BaseVersion: p.BaseVersion, WatchedSeconds: p.Watched, SilentSeconds: p.Silent,
			Passed: p.BadWhat, Before: s.signsView(p.Before), After: s.signsView(p.After), Shadow: s.comparisonView(p.Shadow)}
		if limit, known := r.CostLimit(p); known {
			part.CostLimit = moneyOrNil(&limit, s.prices().Currency())
		}
		v.Clusters = append(v.Clusters, part)
	}
	return v
}

func (s *Server) signsView(x *capacity.Signs) *CapacitySigns {
	if x == nil {
		return nil
	}
	return &CapacitySigns{LongWaiting: x.LongWaiting, Breached: x.Breached, Cost: moneyOrNil(x.Cost, s.prices().Currency()), Unpriced: x.Unpriced, ReadySeconds: x.ReadySec, Started: x.Started, Failed: x.Failed,
		Interruptions: x.Interruptions, NodeHours: x.NodeHours, Late: x.Late, Errors: x.Errors}
}

func (s *Server) comparisonView(c *capacity.Comparison) *CapacityComparison {
	if c == nil {
		return nil
	}
	currency := s.prices().Currency()
	sum := func(p *capacity.PlanSum) CapacityPlanSum {
		return CapacityPlanSum{After: money(p.After, currency), Adds: p.Adds, Drains: p.Drains, Moves: p.Moves, Left: p.Left, Machines: p.Machines, Spot: p.Spot, Hazard: float64(p.Hazard) / 1000,
			StockOut: float64(p.StockOut) / 1000, Unpriced: p.Unpriced, Held: holdsOf(p.Held), Incomplete: p.Incomplete}
	}
	v := &CapacityComparison{Cost: money(c.Cost, currency), InForce: sum(&c.Base), Proposed: sum(&c.Proposed), Offerings: []CapacityOfferDiff{}}
	for _, d := range c.Offerings {
		v.Offerings = append(v.Offerings, CapacityOfferDiff{Offering: offeringView(d.Offering), Now: d.Now, InForce: d.Base, Proposed: d.Proposed})
	}
	return v
}
