package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func (s *Server) registerCapacity() {
	tags := []string{"capacity"}
	missing := []int{http.StatusNotFound}
	op(s, huma.Operation{OperationID: "get-capacity-plan", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/capacity-plan", Summary: "What the cluster's machines should become: the newest plan, or an older one", Tags: tags, Errors: missing,
		Description: "Machines to add with what else was considered and the ladder to climb when one cannot be had, machines to drain with what each saves and costs, and the cost before and after. A plan is a proposal; it never exceeds a cap, and is empty while the inventory is stale."},
		auth.RoleViewer, s.getCapacityPlan)
	op(s, huma.Operation{OperationID: "list-capacity-plans", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/capacity-plans", Summary: "Plans that said something new, newest first", Tags: tags, Errors: missing}, auth.RoleViewer, s.listCapacityPlans)
	op(s, huma.Operation{OperationID: "get-capacity-map", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/capacity-map", Summary: "What runs where, and why each machine stays or goes", Tags: tags, Errors: missing,
		Description: "The inventory that the newest plan was made from, by pool and name."}, auth.RoleViewer, s.getCapacityMap)
	op(s, huma.Operation{OperationID: "list-pending-pods", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/pending-pods", Summary: "Pods that are not ready, why, and when they may be", Tags: tags, Errors: missing}, auth.RoleViewer, s.listPendingPods)
	op(s, huma.Operation{OperationID: "list-conflicts", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/conflicts", Summary: "Who else writes the replicas of workloads and the sizes of groups, and how often they fight", Tags: tags, Errors: missing}, auth.RoleViewer, s.listConflicts)
	op(s, huma.Operation{OperationID: "get-capacity-policy", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/capacity-policy", Summary: "Caps and taste of the cluster's capacity plans", Tags: tags, Errors: missing}, auth.RoleViewer, s.getCapacityPolicy)
	op(s, huma.Operation{OperationID: "set-capacity-policy", Method: http.MethodPut, Path: "/api/v1/clusters/{id}/capacity-policy", Summary: "Change it; version is the one that was read", Tags: tags, Errors: []int{404, 409, 422}}, auth.RoleOperator, s.setCapacityPolicy)
}

type capacityPlanInput struct {
	ID   fleet.ClusterID `path:"id" format:"uuid"`
	Plan string          `query:"plan" format:"uuid" doc:"empty: the newest"`
}

// withCapacity reads the newest plan, or one by id. A cluster without a plan is an answer, not an error.
func (s *Server) withCapacity(ctx context.Context, p auth.Principal, cluster fleet.ClusterID, plan string, fn func(*store.Tx, *store.CapacityPlanHead, *capacity.Plan) error) error {
	return s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ClusterExists(ctx, tx, cluster); err != nil {
			return err
		}
		h, c, err := store.CapacityPlan(ctx, tx, cluster, plan)
		if store.IsNotFound(err) && plan == "" {
			return fn(tx, nil, nil)
		}
		if err != nil {
			return err
		}
		return fn(tx, &h, c)
	})
}

func (s *Server) getCapacityPlan(ctx context.Context, p auth.Principal, q *capacityPlanInput) (*struct{ Body CapacityPlanAnswer }, error) {
	out := &struct{ Body CapacityPlanAnswer }{}
	err := s.withCapacity(ctx, p, q.ID, q.Plan, func(tx *store.Tx, h *store.CapacityPlanHead, plan *capacity.Plan) error {
		if h == nil {
			return nil
		}
		policy, err := store.CapacityPolicyOf(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		full := s.capacityPlanOf(*h, plan, tx.Now)
		full.PolicyVersion = policy.Version
		out.Body.Plan = &full
		return nil
	})
	return out, err
}

type capacityPlansInput struct {
	ID     fleet.ClusterID `path:"id" format:"uuid"`
	Cursor string          `query:"cursor" maxLength:"1000" doc:"next_cursor of the page before"`
	Limit  int             `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type capacityPlansOutput struct {
	Body struct {
		Items      []CapacityPlanSummary `json:"items"`
		NextCursor string                `json:"next_cursor,omitempty"`
	}
}

func (s *Server) listCapacityPlans(ctx context.Context, p auth.Principal, q *capacityPlansInput) (*capacityPlansOutput, error) {
	before := ""
	if q.Cursor != "" {
		if err := decodeCursor(q.Cursor, &before); err != nil {
			return nil, err
		}
		if err := cursorID(before); err != nil {
			return nil, err
		}
	}
	out := &capacityPlansOutput{}
	out.Body.Items = []CapacityPlanSummary{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.ClusterExists(ctx, tx, q.ID); err != nil {
			return err
		}
		list, err := store.CapacityPlans(ctx, tx, q.ID, before, q.Limit)
		if err != nil {
			return err
		}
		for _, h := range list {
			out.Body.Items = append(out.Body.Items, capacitySummary(h, s.prices().Currency()))
		}
		if n := len(list); n == q.Limit {
			out.Body.NextCursor = encodeCursor(list[n-1].ID)
		}
		return nil
	})
	return out, err
}

type clusterOnly struct {
	ID fleet.ClusterID `path:"id" format:"uuid"`
}

func (s *Server) getCapacityMap(ctx context.Context, p auth.Principal, q *clusterOnly) (*struct{ Body CapacityMap }, error) {
	out := &struct{ Body CapacityMap }{CapacityMap{Nodes: []CapacityNode{}, Fleet: []GPUFleet{}}}
	err := s.withCapacity(ctx, p, q.ID, "", func(tx *store.Tx, h *store.CapacityPlanHead, plan *capacity.Plan) error {
		if h == nil {
			return nil
		}
		in, err := store.CapacityPlanInput(ctx, tx, q.ID, h.ID)
		if err != nil {
			return err
		}
		groups, err := store.GPUGroupsOf(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		s.capacityMap(&out.Body, in, plan, groups)
		at := h.At.UTC()
		out.Body.At = &at
		return nil
	})
	return out, err
}

func (s *Server) listPendingPods(ctx context.Context, p auth.Principal, q *clusterOnly) (*struct{ Body PendingPods }, error) {
	out := &struct{ Body PendingPods }{PendingPods{Items: []PendingPod{}}}
	err := s.withCapacity(ctx, p, q.ID, "", func(_ *store.Tx, h *store.CapacityPlanHead, plan *capacity.Plan) error {
		if h == nil {
			return nil
		}
		at := h.At.UTC()
		out.Body.At, out.Body.Held = &at, holdsOf(plan.Held)
		out.Body.LongWaiting, out.Body.OldestSeconds = plan.LongWaiting, plan.OldestWait
		for _, w := range plan.Waiting {
			out.Body.Items = append(out.Body.Items, pendingPodOf(w, plan))
		}
		return nil
	})
	return out, err
}

// FieldConflict is a workload whose replicas others write as well.
type FieldConflict struct {
	WorkloadID  fleet.WorkloadID `json:"workload_id"`
	Workload    string           `json:"workload" doc:"namespace/Kind/name"`
	Field       string           `json:"field" doc:"spec.replicas"`
	Writers     []FieldWriter    `json:"writers" doc:"of the last day, newest first; Plimsoll is not among them"`
	Mode        string           `json:"mode" doc:"of Plimsoll's policy; empty: none"`
	Yields      bool             `json:"yields" doc:"the newest decision left the replicas to the other writer"`
	Applied     int              `json:"applied" doc:"replicas that Plimsoll set in the last day"`
	Overwritten int              `json:"overwritten" doc:"of those, how often somebody else had changed what Plimsoll had set before"`
	Refused     int              `json:"refused" doc:"by the agent, since somebody else had changed it"`
	FightsHour  float64          `json:"fights_per_hour" doc:"overwritten and refused over the last day"`
	LastAt      *time.Time       `json:"last_at" doc:"of the newest such change; null: none"`
}

// FieldWriter is a controller that writes a field.
type FieldWriter struct {
	Manager string    `json:"manager"`
	Object  string    `json:"object"`
	Field   string    `json:"field"`
	At      time.Time `json:"at"`
}

type conflictList struct {
	Body struct {
		At     *time.Time      `json:"at" doc:"null: the cluster never reported"`
		Items  []FieldConflict `json:"items"`
		Groups []GroupConflict `json:"groups" doc:"groups of machines at clouds that others write as well, those that are fought over most first"`
	}
}

func (s *Server) listConflicts(ctx context.Context, p auth.Principal, q *clusterOnly) (*conflictList, error) {
	out := &conflictList{}
	out.Body.Items, out.Body.Groups = []FieldConflict{}, []GroupConflict{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, at, err := store.Conflicts(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		if !at.IsZero() {
			out.Body.At = &at
		}
		for _, c := range list {
			f := FieldConflict{WorkloadID: c.Workload, Workload: c.Key, Field: "spec.replicas", Writers: []FieldWriter{}, Mode: c.Mode, Yields: c.Yields,
				Applied: c.Applied, Overwritten: c.Overwritten, Refused: c.Refused, FightsHour: float64(c.Overwritten+c.Refused) / 24, LastAt: c.LastAt}
			for _, w := range c.Writers {
				f.Writers = append(f.Writers, FieldWriter{Manager: w.Manager, Object: w.Object, Field: w.Field, At: w.At})
			}
			out.Body.Items = append(out.Body.Items, f)
		}
		groups, err := store.GroupConflicts(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		for i := range groups {
			g, err := groupConflictView(&groups[i])
			if err != nil {
				return err
			}
			out.Body.Groups = append(out.Body.Groups, g)
		}
		return nil
	})
	return out, err
}

// CapacityPolicyDoc is a cluster's policy of capacity plans. Whatever is left out is the default.
type CapacityPolicyDoc struct {
	MaxNodes      int64                   `json:"max_nodes,omitempty" minimum:"0" maximum:"10000" doc:"0: no cap"`
	MaxGPUs       int64                   `json:"max_gpus,omitempty" minimum:"0" maximum:"1000000" doc:"0: no cap"`
	HourlyMax     string                  `json:"hourly_max,omitempty" maxLength:"30" doc:"decimal; machines together, per hour; empty: no cap"`
	DailyMax      string                  `json:"daily_max,omitempty" maxLength:"30" doc:"decimal; empty: no cap"`
	NoSpot        bool                    `json:"no_spot,omitempty"`
	SpotUnlabeled bool                    `json:"spot_unlabeled,omitempty" doc:"pods that say nothing about Spot, and of which none runs there, may"`
	CPUOnGPU      bool                    `json:"cpu_on_gpu,omitempty" doc:"pods without GPUs may use machines with GPUs"`
	InstanceTypes []string                `json:"instance_types,omitempty" maxItems:"500" doc:"empty: all"`
	Zones         []string                `json:"zones,omitempty" maxItems:"50" doc:"empty: where the cluster has machines"`
	InsureMilli   int64                   `json:"insure_milli,omitempty" minimum:"0" maximum:"1000" doc:"thousandths of the machines in use that shall survive the loss of the largest Spot pool, by machines on demand beside it; default 0: none"`
	Equivalent    []capacity.Equivalence  `json:"equivalent,omitempty" maxItems:"100" doc:"pods that run on model for also run on model use within their SLO"`
	MaxActions    int                     `json:"max_actions,omitempty" minimum:"0" maximum:"1000" doc:"machines added or drained by one plan; default 20"`
	HorizonHours  int64                   `json:"horizon_hours,omitempty" minimum:"0" maximum:"720" doc:"within which a change must pay; default 6"`
	MoveCost      string                  `json:"move_cost,omitempty" maxLength:"30" doc:"decimal; of one pod that moves; default 0.02"`
	MinAgeSec     int64                   `json:"min_age_sec,omitempty" minimum:"0" maximum:"86400" doc:"a younger machine is left alone; default 600"`
	RampSec       int64                   `json:"ramp_sec,omitempty" minimum:"0" maximum:"86400" doc:"a pod that is ready for less is left alone; default 300"`
	MaxMovedMilli int64                   `json:"max_moved_milli,omitempty" minimum:"0" maximum:"1000" doc:"thousandths of a workload's replicas that one plan moves, one at least; default 250"`
	MaxStockOut   int64                   `json:"max_stock_out,omitempty" minimum:"0" maximum:"1000" doc:"an offering with a higher chance to be out, in thousandths, is not bought; default 900"`
	StaleSec      int64                   `json:"stale_sec,omitempty" minimum:"0" maximum:"86400" doc:"an older inventory leads to no action; default 300"`
	WaitingSec    int64                   `json:"waiting_sec,omitempty" minimum:"0" maximum:"86400" doc:"a pod that waits longer is alerted about; default 300"`
	Freeze        []capacity.FreezeWindow `json:"freeze,omitempty" maxItems:"50" doc:"windows of the week in which nothing is changed"`
	Warm          []WarmPool              `json:"warm,omitempty" maxItems:"50" doc:"machines that are kept ready; their names differ"`
	GPUDriver     string                  `json:"gpu_driver,omitempty" maxLength:"40" doc:"version of the NVIDIA driver in the image that new machines with GPUs boot, such as 550.54.14; empty: unknown, unless machines of the type run"`
	GPUCUDA       string                  `json:"gpu_cuda,omitempty" maxLength:"40" doc:"newest CUDA that this driver runs; empty: by NVIDIA's table"`
	GPUNeeds      []capacity.GPUNeed      `json:"gpu_needs,omitempty" maxItems:"200" doc:"least driver, CUDA and compute capability of workloads that say nothing themselves; workload is a key, a beginning of one that ends with a slash, or empty for all; the first that matches holds"`
	Pools         *NodePoolRules          `json:"node_pools,omitempty" doc:"what the NodePools that are made from plans put on their machines, and how Karpenter may end them; where Karpenter carries plans out"`
	Rules         *NodeRules              `json:"node_rules,omitempty" doc:"what machines must be; they are checked and reported, and none goes because of them"`
}

// NodeRules are what machines must be beside what may be bought.
type NodeRules struct {
	MaxAgeHours int64    `json:"max_age_hours,omitempty" minimum:"0" maximum:"87600" doc:"a machine that runs for longer is reported; 0: no limit"`
	Labels      []string `json:"labels,omitempty" maxItems:"50" doc:"key or key=value that each machine must have"`
	GPUTaints   []string `json:"gpu_taints,omitempty" maxItems:"50" doc:"key or key=value:effect that each machine with GPUs must have"`
	MinDriver   int64    `json:"min_driver,omitempty" minimum:"0" maximum:"100000" doc:"major version of the NVIDIA driver; 0: no limit"`
	SameDriver  bool     `json:"same_driver,omitempty" doc:"machines of one GPU model have one major version of the driver"`
}

// NodePoolRules are what the NodePools that are made from plans put on their machines. NodePools that others made are left as they are.
type NodePoolRules struct {
	Labels         map[string]string `json:"labels,omitempty" doc:"at most 50; none of kubernetes.io, k8s.io, karpenter.sh, plimsoll.dev, nor of what clouds and drivers write"`
	Taints         []string          `json:"taints,omitempty" maxItems:"20" doc:"key=value:effect or key:effect, NoSchedule or NoExecute; pods that do not tolerate them get no machine of these pools"`
	StartupTaints  []string          `json:"startup_taints,omitempty" maxItems:"20" doc:"that something on the machine takes away once it is ready; also PreferNoSchedule"`
	ExpireAfterHrs int64             `json:"expire_after_hours,omitempty" minimum:"0" maximum:"87600" doc:"Karpenter ends a machine of that age, whatever its budgets say; 0: never"`
	TerminationSec int64             `json:"termination_grace_sec,omitempty" minimum:"0" maximum:"604800" doc:"how long a machine that goes may drain before its pods are ended, PodDisruptionBudgets or not; 0: as long as they take"`
	DriftBudget    string            `json:"drift_budget,omitempty" maxLength:"10" doc:"machines of a pool that Karpenter may replace at once because they differ from it, 3 or 10%; empty: none"`
	EmptyBudget    string            `json:"empty_budget,omitempty" maxLength:"10" doc:"empty machines of a pool that it may end at once, 3 or 10%; empty: all"`
}

type capacityPolicyOutput struct {
	Body struct {
		Policy    CapacityPolicyDoc `json:"policy"`
		Version   int               `json:"version" doc:"of the cluster's own policy; 0: it never had one"`
		Inherited bool              `json:"inherited" doc:"the cluster has no policy of its own: policy is the tenant's default, or the built-in defaults where that has none"`
		Default   int               `json:"default_version" doc:"of the tenant's default where that holds; 0: it does not, or the tenant has none"`
		UpdatedBy string            `json:"updated_by" doc:"of the one that holds; empty: nobody"`
		UpdatedAt *time.Time        `json:"updated_at"`
	}
}

type setCapacityPolicyInput struct {
	ID   fleet.ClusterID `path:"id" format:"uuid"`
	Body struct {
		Policy   CapacityPolicyDoc `json:"policy"`
		Version  int               `json:"version" minimum:"0" doc:"of the cluster's own policy that was read; 0: it never had one"`
		Override string            `json:"rollout_override,omitempty" maxLength:"500" doc:"why it is in force at once, without a rollout, on a cluster that enforces; kept in the audit log"`
	}
}

func (s *Server) getCapacityPolicy(ctx context.Context, p auth.Principal, q *clusterOnly) (*capacityPolicyOutput, error) {
	out := &capacityPolicyOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return capacityPolicy(ctx, tx, q.ID, out)
	})
	return out, err
}

func capacityPolicy(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID, out *capacityPolicyOutput) error {
	if err := store.ClusterExists(ctx, tx, cluster); err != nil {
		return err
	}
	policy, err := store.CapacityPolicyOf(ctx, tx, cluster)
	if err != nil {
		return err
	}
	out.Body.Policy, out.Body.Version, out.Body.UpdatedBy = policyDocOf(policy.Policy), policy.Version, policy.UpdatedBy
	out.Body.Inherited, out.Body.Default = policy.Inherits, policy.Default
	if !policy.UpdatedAt.IsZero() {
		out.Body.UpdatedAt = &policy.UpdatedAt
	}
	return nil
}

func (s *Server) setCapacityPolicy(ctx context.Context, p auth.Principal, q *setCapacityPolicyInput) (*capacityPolicyOutput, error) {
	policy, err := q.Body.Policy.policy()
	if err != nil {
		return nil, err
	}
	out := &capacityPolicyOutput{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		c, err := store.ClusterByID(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		why := strings.TrimSpace(q.Body.Override)
		if c.Mode == fleet.ModeEnforce && why == "" {
			return &fleet.Error{Code: fleet.CodeConflict, Field: "body.rollout_override",
				Message: "this cluster enforces: roll the policy out in steps (POST /api/v1/capacity-rollouts), or give a reason in rollout_override"}
		}
		if err := store.SetCapacityPolicy(ctx, tx, q.ID, policy, q.Body.Version, p.Actor()); err != nil {
			return err
		}
		detail := q.Body.Policy.audit()
		if why != "" {
			detail["rollout_override"] = why
		}
		if err := store.Audit(ctx, tx, p.Actor(), "capacity_policy.set", "cluster:"+string(q.ID), detail); err != nil {
			return err
		}
		return capacityPolicy(ctx, tx, q.ID, out)
	})
	return out, err
}

func (d *CapacityPolicyDoc) policy() (capacity.Policy, error) {
	p := capacity.Policy{MaxNodes: d.MaxNodes, MaxGPUs: d.MaxGPUs, NoSpot: d.NoSpot, SpotUnlabeled: d.SpotUnlabeled, CPUOnGPU: d.CPUOnGPU, InstanceTypes: d.InstanceTypes, Zones: d.Zones,
		Equivalent: d.Equivalent, MaxActions: d.MaxActions, HorizonHours: d.HorizonHours, MinAgeSec: d.MinAgeSec, RampSec: d.RampSec, MaxMovedMilli: d.MaxMovedMilli,
		MaxStockOut: d.MaxStockOut, StaleSec: d.StaleSec, WaitingSec: d.WaitingSec, Freeze: d.Freeze, Rules: (*capacity.NodeRules)(d.Rules)}
	for _, m := range []struct {
		field, text string
		to          **fleet.Money
	}{{"hourly_max", d.HourlyMax, &p.HourlyMax}, {"daily_max", d.DailyMax, &p.DailyMax}, {"move_cost", d.MoveCost, &p.MoveCost}} {
		if m.text == "" {
			continue
		}
		v, err := fleet.ParseMoney(m.text)
		if err != nil {
			return p, &fleet.Error{Code: fleet.CodeInvalid, Message: m.field + " is no amount such as 12.50", Field: "body.policy." + m.field, Err: err}
		}
		*m.to = &v
	}
	p.Pools = (*capacity.PoolRules)(d.Pools)
	p.InsureMilli, p.GPUDriver, p.GPUCUDA, p.GPUNeeds = d.InsureMilli, d.GPUDriver, d.GPUCUDA, d.GPUNeeds
	warm, err := warmRules(d.Warm)
	if err != nil {
		return p, err
	}
	p.Warm = warm
	err = p.Validate()
	var coded *fleet.Error
	if errors.As(err, &coded) && len(coded.Field) > len("body.") {
		coded.Field = "body.policy." + coded.Field[len("body."):]
	}
	return p, err
}

func policyDocOf(p capacity.Policy) CapacityPolicyDoc {
	text := func(m *fleet.Money) string {
		if m == nil {
			return ""
		}
		return m.String()
	}
	return CapacityPolicyDoc{MaxNodes: p.MaxNodes, MaxGPUs: p.MaxGPUs, HourlyMax: text(p.HourlyMax), DailyMax: text(p.DailyMax), NoSpot: p.NoSpot, SpotUnlabeled: p.SpotUnlabeled, InsureMilli: p.InsureMilli,
		CPUOnGPU: p.CPUOnGPU, InstanceTypes: p.InstanceTypes, Zones: p.Zones, Equivalent: p.Equivalent, MaxActions: p.MaxActions, HorizonHours: p.HorizonHours, MoveCost: text(p.MoveCost),
		MinAgeSec: p.MinAgeSec, RampSec: p.RampSec, MaxMovedMilli: p.MaxMovedMilli, MaxStockOut: p.MaxStockOut, StaleSec: p.StaleSec, WaitingSec: p.WaitingSec, Freeze: p.Freeze, Rules: (*NodeRules)(p.Rules),
		Warm: warmPoolsOf(p.Warm), Pools: (*NodePoolRules)(p.Pools), GPUDriver: p.GPUDriver, GPUCUDA: p.GPUCUDA, GPUNeeds: p.GPUNeeds}
}
