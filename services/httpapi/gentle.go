package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func (s *Server) registerGentle() {
	op(s, huma.Operation{OperationID: "list-checkpoints", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/checkpoints", Summary: "Pods that were told to save their work before they were evicted, and how that went", Tags: []string{"capacity"}, Errors: []int{404}},
		auth.RoleViewer, s.listCheckpoints)
}

// CheckpointCall is a pod that was told to save its work.
type CheckpointCall struct {
	ID       string    `json:"id" doc:"what the pod was told: the same however often it was asked"`
	At       time.Time `json:"at" doc:"data time; asked first"`
	Pod      string    `json:"pod" doc:"namespace/name"`
	Workload string    `json:"workload" doc:"key; empty: none"`
	Node     string    `json:"node"`
	Cause    string    `json:"cause" enum:"interruption,rebalance,consolidation,plan" doc:"interruption: the cloud takes the machine back; rebalance: it says that it may; consolidation: another controller lets it go; plan: a plan does"`
	Outcome  string    `json:"outcome" enum:"done,late,failed,refused" doc:"done: it says that it saved its work; late: it did not say so in time; failed: it could not, or was not reached; refused: what it declares may not be called"`
	TookMS   int64     `json:"took_ms"`
	Tries    int       `json:"tries"`
	Detail   string    `json:"detail"`
}

type listCheckpointsInput struct {
	ID       fleet.ClusterID `path:"id" format:"uuid"`
	Workload string          `query:"workload" maxLength:"512" doc:"key namespace/Kind/name; empty: all"`
	Limit    int             `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

type checkpointList struct {
	Body struct {
		Items []CheckpointCall `json:"items" doc:"newest first"`
		Told  bool             `json:"told" doc:"the agent tells pods before they are evicted"`
	}
}

func (s *Server) listCheckpoints(ctx context.Context, p auth.Principal, q *listCheckpointsInput) (*checkpointList, error) {
	out := &checkpointList{}
	out.Body.Items = []CheckpointCall{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		c, err := store.ClusterByID(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		for _, can := range c.Capabilities {
			out.Body.Told = out.Body.Told || can == store.CapabilityDrain
		}
		list, err := store.CheckpointCalls(ctx, tx, q.ID, q.Workload, q.Limit)
		if err != nil {
			return err
		}
		for _, c := range list {
			out.Body.Items = append(out.Body.Items, CheckpointCall{ID: c.ID, At: c.At, Pod: c.Pod, Workload: c.Workload, Node: c.Node, Cause: c.Cause, Outcome: c.Outcome, TookMS: c.Took.Milliseconds(), Tries: c.Tries, Detail: c.Detail})
		}
		return nil
	})
	return out, err
}

// PlannedWarm is room that a plan keeps ready.
type PlannedWarm struct {
	Rule         string         `json:"rule"`
	How          string         `json:"how" enum:"fixed,growth"`
	Want         int64          `json:"want" doc:"machines"`
	Ready        int64          `json:"ready" doc:"empty and ready"`
	Starting     int64          `json:"starting"`
	Add          int64          `json:"add"`
	Short        int64          `json:"short" doc:"that are missing and not added"`
	Why          string         `json:"why" doc:"of short: cap, action_rate, no_offering, hourly_max"`
	Hour         Money          `json:"hour" doc:"what they cost per hour, those to be added counted"`
	Unpriced     int64          `json:"unpriced" doc:"of them, whose price nobody knows; not in hour"`
	SavesSeconds int64          `json:"saves_seconds" doc:"that a pod waits less: the start of a machine, the slow tenth; 0: unknown"`
	Growth       *PlannedGrowth `json:"growth" doc:"of how growth; null: not measured"`
	Types        []string       `json:"types"`
	GPUs         int64          `json:"gpus" doc:"of one machine"`
	Placeholders bool           `json:"placeholders" doc:"the agent keeps the room by placeholder pods; false: empty machines are left running"`
}

// PlannedGrowth is what demand grew by while a machine starts.
type PlannedGrowth struct {
	GPUs    int64 `json:"gpus" doc:"at the rule's quantile"`
	Samples int   `json:"samples" doc:"moments of the last week that were looked at; 0: nothing is known"`
	Seconds int64 `json:"seconds" doc:"within which"`
}

func warmViews(list []capacity.WarmNote, currency string) []PlannedWarm {
	out := []PlannedWarm{}
	for _, n := range list {
		w := PlannedWarm{Rule: n.Rule, How: n.How, Want: n.Want, Ready: n.Ready, Starting: n.Starting, Add: n.Add, Short: n.Short, Why: n.Why, Hour: money(n.Hour, currency), Unpriced: n.Unpriced,
			SavesSeconds: n.SavesSec, Types: n.Types, GPUs: n.GPUs, Placeholders: n.Placeholders}
		if n.Grows != nil {
			w.Growth = &PlannedGrowth{GPUs: n.Grows.GPUs, Samples: n.Grows.Samples, Seconds: n.Grows.Seconds}
		}
		out = append(out, w)
	}
	return out
}

// WarmPool is machines of one shape that are kept ready.
type WarmPool struct {
	Name          string         `json:"name" pattern:"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"`
	GPUModel      fleet.GPUModel `json:"gpu_model,omitempty" maxLength:"100" doc:"empty: by instance types only"`
	GPUs          int64          `json:"gpus,omitempty" minimum:"0" maximum:"1024" doc:"of one machine; 0: any number"`
	InstanceTypes []string       `json:"instance_types,omitempty" maxItems:"100"`
	How           string         `json:"how" enum:"fixed,growth" doc:"fixed: count machines; growth: what the demand for the model grows by while a machine starts, at a quantile of what it did in the last week"`
	Count         int64          `json:"count" minimum:"0" maximum:"1000" doc:"fixed: machines; growth: at most so many"`
	Least         int64          `json:"least,omitempty" minimum:"0" maximum:"1000" doc:"growth: at least so many, also while nothing is known"`
	QuantMilli    int64          `json:"quantile,omitempty" minimum:"0" maximum:"999" doc:"growth: thousandths; default 950"`
	Spot          bool           `json:"spot,omitempty" doc:"may be Spot"`
	HourlyMax     string         `json:"hourly_max,omitempty" maxLength:"30" doc:"decimal; that they may cost together; empty: no cap of its own"`
}

func warmRules(in []WarmPool) ([]capacity.WarmRule, error) {
	var out []capacity.WarmRule
	for _, w := range in {
		r := capacity.WarmRule{Name: w.Name, GPUModel: w.GPUModel, GPUs: w.GPUs, InstanceTypes: w.InstanceTypes, How: w.How, Count: w.Count, Least: w.Least, QuantMilli: w.QuantMilli, Spot: w.Spot}
		if w.HourlyMax != "" {
			m, err := fleet.ParseMoney(w.HourlyMax)
			if err != nil {
				return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "hourly_max of a warm pool is no amount such as 12.50", Field: "body.policy.warm", Err: err}
			}
			r.HourlyMax = &m
		}
		out = append(out, r)
	}
	return out, nil
}

func warmPoolsOf(in []capacity.WarmRule) []WarmPool {
	var out []WarmPool
	for _, r := range in {
		w := WarmPool{Name: r.Name, GPUModel: r.GPUModel, GPUs: r.GPUs, InstanceTypes: r.InstanceTypes, How: r.How, Count: r.Count, Least: r.Least, QuantMilli: r.QuantMilli, Spot: r.Spot}
		if r.HourlyMax != nil {
			w.HourlyMax = r.HourlyMax.String()
		}
		out = append(out, w)
	}
	return out
}
