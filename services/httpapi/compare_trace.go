package httpapi

import (
	"context"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// TraceLine is what a workload bore of one machine and resource in an hour.
type TraceLine struct {
	NodeUID  string  `json:"node_uid" doc:"empty: the hour is open, or was closed before machines were told apart"`
	Node     string  `json:"node" doc:"name, as long as the machine is known"`
	Resource string  `json:"resource" enum:"cpu,memory,gpu,commitment"`
	Purchase string  `json:"purchase"`
	Amount   Money   `json:"amount"`
	Quantity float64 `json:"quantity" doc:"core-hours, GiB-hours or GPU-hours"`
}

// TracePod is a pod that held something in an hour.
type TracePod struct {
	UID      string     `json:"uid"`
	Name     string     `json:"name"`
	Node     string     `json:"node"`
	From     time.Time  `json:"from"`
	To       *time.Time `json:"to" doc:"null: still there"`
	ReadyAt  *time.Time `json:"ready_at"`
	Hours    float64    `json:"hours" doc:"pod-hours within this hour"`
	CPUMilli int64      `json:"cpu_milli"`
	MemMiB   int64      `json:"mem_mib"`
	GPUMilli int64      `json:"gpu_milli"`
}

// CostTrace is one workload's hour, down to what was decided.
type CostTrace struct {
	WorkloadID fleet.WorkloadID `json:"workload_id"`
	ClusterID  fleet.ClusterID  `json:"cluster_id"`
	Key        string           `json:"key"`
	Hour       time.Time        `json:"hour"`
	State      string           `json:"state" enum:"open,closed," doc:"empty: not costed"`
	Version    int              `json:"version"`
	AsOf       *time.Time       `json:"as_of" doc:"when this version of the hour was made; null while it is open"`
	Total      Money            `json:"total" doc:"the sum of the lines"`
	Lines      []TraceLine      `json:"lines"`
	Pods       []TracePod       `json:"pods" doc:"at most 500"`
	Decisions  []Decision       `json:"decisions" doc:"the one in force when the hour began, then those of the hour"`
}

func (s *Server) getCostTrace(ctx context.Context, p auth.Principal, in *struct {
	Workload fleet.WorkloadID `query:"workload" required:"true" format:"uuid"`
	Hour     time.Time        `query:"hour" required:"true" doc:"a full hour"`
}) (*struct{ Body CostTrace }, error) {
	hour := in.Hour.UTC()
	if !hour.Equal(hour.Truncate(time.Hour)) {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "an hour begins at a full hour", Field: "query.hour"}
	}
	out := &struct{ Body CostTrace }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		t, err := store.TraceCost(ctx, tx, in.Workload, hour)
		if err != nil {
			return err
		}
		now, err := store.DataNow(ctx, tx)
		if err != nil {
			return err
		}
		out.Body = s.showTrace(t, hour, now)
		out.Body.WorkloadID = in.Workload
		return nil
	})
	return out, err
}

func (s *Server) showTrace(t store.CostTrace, hour, now time.Time) CostTrace {
	v := CostTrace{ClusterID: t.Cluster, Key: t.Key, Hour: hour, State: t.State, Version: t.Version, AsOf: t.AsOf,
		Lines: make([]TraceLine, 0, len(t.Lines)), Pods: make([]TracePod, 0, len(t.Pods)), Decisions: make([]Decision, 0, len(t.Decisions))}
	var total fleet.Money
	for _, l := range t.Lines {
		total = total.Add(l.Amount)
		v.Lines = append(v.Lines, TraceLine{NodeUID: l.Node, Node: t.Nodes[l.Node], Resource: string(l.Resource), Purchase: string(l.Purchase), Amount: s.money(l.Amount), Quantity: l.Quantity})
	}
	v.Total = s.money(total)
	end := hour.Add(time.Hour)
	if now.Before(end) {
		end = now
	}
	for _, p := range t.Pods {
		from, to := p.From, end
		if from.Before(hour) {
			from = hour
		}
		if p.To != nil && p.To.Before(to) {
			to = *p.To
		}
		v.Pods = append(v.Pods, TracePod{UID: p.UID, Name: p.Name, Node: p.Node, From: p.From, To: p.To, ReadyAt: p.ReadyAt, Hours: max(to.Sub(from).Hours(), 0), CPUMilli: p.CPUMilli, MemMiB: p.MemMiB, GPUMilli: p.GPUMilli})
	}
	for _, d := range t.Decisions {
		v.Decisions = append(v.Decisions, s.showDecision(d))
	}
	return v
}

// CostHour is one hour of a workload.
type CostHour struct {
	Hour     time.Time `json:"hour"`
	Amount   Money     `json:"amount"`
	Quantity float64   `json:"quantity" doc:"GPU-hours, or core-hours of a workload without GPUs"`
	Ups      int       `json:"ups" doc:"applied in this hour"`
	Downs    int       `json:"downs"`
}

// CostHours are the hours of a workload.
type CostHours struct {
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to"`
	Total Money      `json:"total"`
	Items []CostHour `json:"items" doc:"oldest first; hours without a cost are not listed"`
}

func (s *Server) getCostHours(ctx context.Context, p auth.Principal, in *struct {
	Workload fleet.WorkloadID `query:"workload" required:"true" format:"uuid"`
	From     time.Time        `query:"from" required:"true"`
	To       time.Time        `query:"to" required:"true" doc:"exclusive; at most 31 days after from"`
}) (*struct{ Body CostHours }, error) {
	span, err := wholeSpan(in.From, in.To, "query.from")
	if err != nil {
		return nil, err
	}
	if span.To.Sub(span.From) > maxCostHours {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "at most 31 days by hour", Field: "query.from"}
	}
	out := &struct{ Body CostHours }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		hours, err := store.CostHours(ctx, tx, in.Workload, span.From, span.To)
		if err != nil {
			return err
		}
		var total fleet.Money
		out.Body = CostHours{From: span.From, To: span.To, Items: make([]CostHour, 0, len(hours))}
		for _, h := range hours {
			total = total.Add(h.Amount)
			out.Body.Items = append(out.Body.Items, CostHour{Hour: h.Hour, Amount: s.money(h.Amount), Quantity: h.Quantity, Ups: h.Ups, Downs: h.Downs})
		}
		out.Body.Total = s.money(total)
		return nil
	})
	return out, err
}
