package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Workload is a workload as lists and its page show it.
type Workload struct {
	ID            fleet.WorkloadID     `json:"id"`
	ClusterID     fleet.ClusterID      `json:"cluster_id"`
	ClusterName   string               `json:"cluster_name"`
	Key           string               `json:"key" example:"chat/Deployment/llm"`
	Namespace     string               `json:"namespace"`
	Kind          string               `json:"kind"`
	Name          string               `json:"name"`
	Team          string               `json:"team"`
	Class         string               `json:"class" enum:"gold,standard,economy"`
	Labels        map[string]string    `json:"labels"`
	CPUMilli      int64                `json:"cpu_milli" doc:"requested by one replica"`
	MemMiB        int64                `json:"mem_mib"`
	GPUMilli      int64                `json:"gpu_milli"`
	Replicas      int                  `json:"replicas" doc:"asked for"`
	Ready         int                  `json:"ready"`
	Starting      int                  `json:"starting"`
	Draining      int                  `json:"draining"`
	Scalable      bool                 `json:"scalable"`
	Preflight     []string             `json:"preflight" doc:"findings that make automation risky"`
	Mode          *fleet.Mode          `json:"mode" doc:"the stricter of cluster and policy; null without a policy"`
	PolicyVersion int                  `json:"policy_version" doc:"0 without a policy"`
	Min           *int                 `json:"min"`
	Max           *int                 `json:"max"`
	Signals       map[string]SignalNow `json:"signals"`
	LastDecision  *LastDecision        `json:"last_decision"`
	CostHour      *Money               `json:"cost_hour" doc:"of all replicas asked for, at what machines like the one most of them run on cost now, with what commitments cover at its amortised price; null when unknown"`
	ReplicaHour   *Money               `json:"replica_hour" doc:"what one more replica costs per hour on top of what is paid already, as the planner reckons; null when unknown"`
	Writers       []Writer             `json:"writers" doc:"other controllers that wrote spec.replicas lately"`
	DataAt        *time.Time           `json:"data_at"`
	GoneAt        *time.Time           `json:"gone_at"`
}

// SignalNow is the newest reading of a signal.
type SignalNow struct {
	Value      float64     `json:"value"`
	AgeSeconds float64     `json:"age_seconds" doc:"against the cluster's newest data"`
	Truth      fleet.Truth `json:"truth" enum:"fresh,stale,missing,conflicting"`
}

// LastDecision is the newest decision in short.
type LastDecision struct {
	ID      fleet.DecisionID `json:"id"`
	At      time.Time        `json:"at"`
	Outcome string           `json:"outcome"`
	Binding string           `json:"binding"`
	Target  int              `json:"target"`
	State   string           `json:"state"`
}

// Writer is another controller seen writing the replica count.
type Writer struct {
	Manager string    `json:"manager"`
	Object  string    `json:"object"`
	Field   string    `json:"field"`
	At      time.Time `json:"at"`
}

type workloadList struct {
	Body struct {
		Items      []Workload `json:"items"`
		NextCursor string     `json:"next_cursor,omitempty"`
	}
}

type workloadCursor struct {
	Key string           `json:"k"`
	ID  fleet.WorkloadID `json:"i"`
}

// WorkloadPath names a workload. Exported because huma passes over embedded types that are not.
type WorkloadPath struct {
	ID fleet.WorkloadID `path:"id" format:"uuid"`
}

func (s *Server) registerWorkloads() {
	op(s, huma.Operation{OperationID: "list-workloads", Method: http.MethodGet, Path: "/api/v1/workloads", Summary: "List workloads", Tags: []string{"workloads"}},
		auth.RoleViewer, s.listWorkloads)
	op(s, huma.Operation{OperationID: "get-workload", Method: http.MethodGet, Path: "/api/v1/workloads/{id}", Summary: "Get a workload", Tags: []string{"workloads"}, Errors: []int{404}},
		auth.RoleViewer, s.getWorkload)
	op(s, huma.Operation{OperationID: "get-workload-timeline", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/timeline", Summary: "Demand, replicas, latency and decisions over time", Tags: []string{"workloads"}, Errors: []int{404}},
		auth.RoleViewer, s.getTimeline)
}

func (s *Server) listWorkloads(ctx context.Context, p auth.Principal, in *struct {
	Cluster   fleet.ClusterID `query:"cluster" format:"uuid"`
	Namespace string          `query:"namespace" maxLength:"253"`
	Team      string          `query:"team" maxLength:"253"`
	Query     string          `query:"q" maxLength:"253" doc:"part of the key"`
	Gone      bool            `query:"gone" doc:"also those no longer in their cluster"`
	Cursor    string          `query:"cursor" maxLength:"1024"`
	Limit     int             `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*workloadList, error) {
	f := store.WorkloadFilter{Cluster: in.Cluster, Namespace: in.Namespace, Team: in.Team, Query: in.Query, Gone: in.Gone, Limit: in.Limit + 1}
	if in.Cursor != "" {
		var c workloadCursor
		if err := decodeCursor(in.Cursor, &c); err != nil {
			return nil, err
		}
		if err := cursorID(string(c.ID)); err != nil {
			return nil, err
		}
		f.AfterKey, f.AfterID = c.Key, c.ID
	}
	out := &workloadList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		rows, err := store.Workloads(ctx, tx, f)
		if err != nil {
			return err
		}
		if len(rows) > in.Limit {
			rows = rows[:in.Limit]
			last := rows[len(rows)-1]
			out.Body.NextCursor = encodeCursor(workloadCursor{last.Key, last.ID})
		}
		out.Body.Items, err = s.showWorkloads(ctx, tx, rows)
		return err
	})
	return out, err
}

func (s *Server) getWorkload(ctx context.Context, p auth.Principal, in *WorkloadPath) (*struct{ Body Workload }, error) {
	out := &struct{ Body Workload }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		row, err := loadWorkload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		shown, err := s.showWorkloads(ctx, tx, []store.WorkloadRow{row})
		if err != nil {
			return err
		}
		out.Body = shown[0]
		writers, err := store.Writers(ctx, tx, row.Cluster, row.Key)
		for _, w := range writers {
			out.Body.Writers = append(out.Body.Writers, Writer(w))
		}
		return err
	})
	return out, err
}

func loadWorkload(ctx context.Context, tx *store.Tx, id fleet.WorkloadID) (store.WorkloadRow, error) {
	rows, err := store.Workloads(ctx, tx, store.WorkloadFilter{ID: id, Gone: true, Limit: 1})
	if err != nil {
		return store.WorkloadRow{}, err
	}
	if len(rows) == 0 {
		return store.WorkloadRow{}, fleet.Errorf(fleet.CodeNotFound, "no such workload")
	}
	return rows[0], nil
}

// showWorkloads adds the newest signals and prices to rows.
func (s *Server) showWorkloads(ctx context.Context, tx *store.Tx, rows []store.WorkloadRow) ([]Workload, error) {
	seen := map[fleet.ClusterID]bool{}
	var clusters []fleet.ClusterID
	ids := make([]fleet.WorkloadID, 0, len(rows))
	for _, r := range rows {
		ids = append(ids, r.ID)
		if !seen[r.Cluster] {
			seen[r.Cluster] = true
			clusters = append(clusters, r.Cluster)
		}
	}
	observed, err := store.LatestObservations(ctx, tx, clusters)
	if err != nil {
		return nil, err
	}
	hosts, err := store.Hosts(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, err
	}
	prices, err := store.PricesAt(ctx, tx, s.prices(), now, store.Offerings(hosts)...)
	if err != nil {
		return nil, err
	}
	out := make([]Workload, 0, len(rows))
	for _, r := range rows {
		w := s.showWorkload(r, observed[r.Cluster][r.Key])
		if host, ok := hosts[r.ID]; ok {
			if one := prices.LiveReplica(r.Cluster, host, r.CPUMilli, r.MemMiB, r.GPUMilli); one != nil {
				w.CostHour = moneyOrNil(ptr(one.MulDiv(int64(w.Replicas), 1)), s.prices().Currency())
			}
			w.ReplicaHour = moneyOrNil(prices.NextReplica(host, r.CPUMilli, r.MemMiB, r.GPUMilli), s.prices().Currency())
		}
		out = append(out, w)
	}
	return out, nil
}

func ptr[T any](v T) *T { return &v }

func (s *Server) showWorkload(r store.WorkloadRow, o *agentv1.WorkloadObservation) Workload {
	w := Workload{ID: r.ID, ClusterID: r.Cluster, ClusterName: r.ClusterName, Key: r.Key, Namespace: r.Namespace, Kind: r.Kind, Name: r.Name,
		Team: r.Team, Class: r.Class, Labels: r.Labels, CPUMilli: r.CPUMilli, MemMiB: r.MemMiB, GPUMilli: r.GPUMilli, Replicas: r.Replicas,
		Scalable: r.Scalable, Preflight: r.Preflight, PolicyVersion: r.PolicyVersion, Signals: map[string]SignalNow{}, Writers: []Writer{},
		DataAt: r.DataAt, GoneAt: r.GoneAt}
	maxAge := 45 * time.Second
	if r.PolicyVersion > 0 {
		policy, _ := s.deps.DB.ParsePolicy(r.PolicyDoc)
		mode := fleet.Stricter(r.ClusterMode, policy.Mode)
		w.Mode, w.Min, w.Max = &mode, &policy.Min, &policy.Max
		maxAge = time.Duration(policy.MaxSignalAgeSeconds) * time.Second
	}
	if r.LastID != nil {
		w.LastDecision = &LastDecision{ID: *r.LastID, At: *r.LastAt, Outcome: *r.LastOutcome, Binding: *r.LastBinding, Target: *r.LastTarget, State: *r.LastState}
	}
	if o == nil || r.DataAt == nil || r.GoneAt != nil {
		return w
	}
	w.Replicas, w.Ready, w.Starting, w.Draining = int(o.GetReplicas()), int(o.GetReady()), int(o.GetStarting()), int(o.GetDraining())
	for _, sig := range o.GetSignals() {
		at := time.UnixMilli(sig.GetAtMs())
		known := fleet.Signal{Conflicting: sig.GetConflicting(), Samples: []fleet.Sample{{At: at, Value: sig.GetValue()}}}
		w.Signals[sig.GetName()] = SignalNow{Value: sig.GetValue(), AgeSeconds: r.DataAt.Sub(at).Seconds(), Truth: known.Truth(*r.DataAt, maxAge)}
	}
	return w
}

// Timeline is a workload's history for its charts.
type Timeline struct {
	From        time.Time             `json:"from"`
	To          time.Time             `json:"to"`
	StepSeconds int                   `json:"step_seconds"`
	Points      []store.TimelinePoint `json:"points"`
	Decisions   []TimelineDecision    `json:"decisions" doc:"scale-ups and scale-downs, and capped holds; newest 500"`
}

// TimelineDecision marks a decision in the charts.
type TimelineDecision struct {
	ID      fleet.DecisionID `json:"id"`
	At      time.Time        `json:"at"`
	Outcome string           `json:"outcome"`
	From    int              `json:"from"`
	Target  int              `json:"target"`
	Needed  int              `json:"needed"`
	Binding string           `json:"binding"`
	State   string           `json:"state"`
}

func (s *Server) getTimeline(ctx context.Context, p auth.Principal, in *struct {
	WorkloadPath
	From time.Time `query:"from" doc:"default: 24 hours before to"`
	To   time.Time `query:"to" doc:"default: the cluster's newest data"`
}) (*struct{ Body Timeline }, error) {
	out := &struct{ Body Timeline }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		from, to, err := window(in.From, in.To, w.DataAt, tx.Now, 24*time.Hour, 400*24*time.Hour)
		if err != nil {
			return err
		}
		res := store.ResolutionFor(to.Sub(from))
		points, err := store.Timeline(ctx, tx, in.ID, from, to, res)
		if err != nil {
			return err
		}
		rows, err := store.Decisions(ctx, tx, store.DecisionFilter{Workload: in.ID, From: from, To: to, Limit: 500,
			Outcomes: []string{string(optimizer.OutcomeUp), string(optimizer.OutcomeDown)}, Capped: true})
		if err != nil {
			return err
		}
		out.Body = Timeline{From: from, To: to, StepSeconds: int(res.Step.Seconds()), Points: points, Decisions: make([]TimelineDecision, 0, len(rows))}
		for _, d := range rows {
			out.Body.Decisions = append(out.Body.Decisions, TimelineDecision{ID: d.ID, At: d.At, Outcome: d.Outcome, From: d.From, Target: d.Target,
				Needed: d.Needed, Binding: d.Binding, State: d.State})
		}
		return nil
	})
	return out, err
}

// window settles a time range: to defaults to the newest data, from to span before it; a range that is empty or longer than
// limit is refused.
func window(from, to time.Time, dataAt *time.Time, now time.Time, span, limit time.Duration) (time.Time, time.Time, error) {
	if to.IsZero() {
		to = now
		if dataAt != nil {
			to = dataAt.Add(time.Second)
		}
	}
	if from.IsZero() {
		from = to.Add(-span)
	}
	switch {
	case !from.Before(to):
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: "from must be before to", Field: "query.from"}
	case to.Sub(from) > limit:
		return from, to, &fleet.Error{Code: fleet.CodeInvalid, Message: "the range is too long", Field: "query.from"}
	}
	return from.UTC(), to.UTC(), nil
}
