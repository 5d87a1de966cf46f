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
)

// Tuning is what one night's replay of a workload's own history found.
type Tuning struct {
	ID            string       `json:"id" format:"uuid"`
	At            time.Time    `json:"at" doc:"data time of the end of the history"`
	MadeAt        time.Time    `json:"made_at"`
	PolicyVersion int          `json:"policy_version"`
	State         string       `json:"state" enum:"proposed,kept,refused,dismissed,failed" doc:"refused: nothing can be said, see reason"`
	Reason        string       `json:"reason" doc:"cheaper_on_time, none_on_time (one notch more careful), cheapest_on_time, too_little_history, not_confirmed (by the held-out days), most_careful, nothing_was_served, history_unusable, document, replays_busy, too_slow"`
	Words         string       `json:"words" doc:"of history_unusable"`
	Days          float64      `json:"days" doc:"of history that there are"`
	DaysNeeded    float64      `json:"days_needed"`
	Objective     float64      `json:"objective" doc:"share of requests that may be late"`
	Limit         float64      `json:"limit" doc:"that a setting may leave late on the days it is chosen by"`
	Current       float64      `json:"current" doc:"aim_share in force"`
	Proposed      *float64     `json:"proposed"`
	ChosenOn      *TuneSpan    `json:"chosen_on"`
	HeldOut       *TuneSpan    `json:"held_out" doc:"days that had no part in the choice"`
	Tried         []TunedValue `json:"tried"`
	Held          []TunedValue `json:"held" doc:"on the held-out days: the current setting, then the proposed"`
	Document      string       `json:"document" doc:"the proposed policy: roll it out with POST /api/v1/workloads/{id}/rollouts, or save it; empty: none"`
	ReplayID      *string      `json:"replay_id" doc:"of the proposed policy"`
	RolloutID     *string      `json:"rollout_id" doc:"that began by itself, since the policy says tuning: apply"`
	TookSeconds   float64      `json:"took_seconds"`
	DismissedBy   string       `json:"dismissed_by"`
}

// TuneSpan is a part of a history.
type TuneSpan struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// TunedValue is how a setting of aim_share fared.
type TunedValue struct {
	Aim      float64 `json:"aim_share"`
	Hours    float64 `json:"replica_hours"`
	Cost     *Money  `json:"cost" doc:"at what a replica costs now; null: not known"`
	Late     float64 `json:"late_ratio"`
	Timeouts float64 `json:"timeout_ratio"`
	OnTime   bool    `json:"on_time"`
}

// TuningList is a workload's tunings, and whether it is tuned at all.
type TuningList struct {
	Items  []Tuning `json:"items" doc:"newest first"`
	Tuning string   `json:"tuning" enum:"none,off,propose,apply" doc:"none: the policy in force has no slo rule"`
}

// TuningPath names a tuning. Exported because huma passes over embedded types that are not.
type TuningPath struct {
	ID     fleet.WorkloadID `path:"id" format:"uuid"`
	Tuning string           `path:"tuning" format:"uuid"`
}

func (s *Server) registerTunings() {
	tags := []string{"policies"}
	op(s, huma.Operation{OperationID: "list-workload-tunings", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/tunings", Summary: "What nightly tuning found on a workload's own history, newest first", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.listTunings)
	op(s, huma.Operation{OperationID: "dismiss-workload-tuning", Method: http.MethodPost, Path: "/api/v1/workloads/{id}/tunings/{tuning}/dismiss", Summary: "Say that a proposal is not wanted", Tags: tags,
		DefaultStatus: http.StatusNoContent, Errors: []int{404, 409}}, auth.RoleOperator, s.dismissTuning)
}

func (s *Server) listTunings(ctx context.Context, p auth.Principal, in *WorkloadPath) (*struct{ Body TuningList }, error) {
	out := &struct{ Body TuningList }{Body: TuningList{Items: []Tuning{}, Tuning: "none"}}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if policy, findings := s.deps.DB.ParsePolicy(w.PolicyDoc); w.PolicyVersion > 0 && policy.SLO != nil && !optimizer.HasErrors(findings) {
			if out.Body.Tuning = policy.SLO.Tuning; out.Body.Tuning == "" {
				out.Body.Tuning = optimizer.TuningPropose
			}
		}
		list, err := store.Tunings(ctx, tx, in.ID, 30)
		for i := range list {
			out.Body.Items = append(out.Body.Items, showTuning(&list[i], s.prices().Currency()))
		}
		return err
	})
	return out, err
}

func showTuning(t *store.Tuning, currency string) Tuning {
	r := &t.Result
	span := func(s *store.TuneSpan) *TuneSpan {
		if s == nil {
			return nil
		}
		return &TuneSpan{s.From.UTC(), s.To.UTC()}
	}
	values := func(list []store.TuneTried) []TunedValue {
		out := []TunedValue{}
		for _, v := range list {
			out = append(out, TunedValue{Aim: v.Aim, Hours: v.Paid, Cost: moneyOrNil(v.Cost, currency), Late: v.Late, Timeouts: v.Timeouts, OnTime: v.OnTime})
		}
		return out
	}
	out := Tuning{ID: t.ID, At: t.At, MadeAt: t.MadeAt, PolicyVersion: t.PolicyVersion, State: t.State, Reason: t.Reason, Words: r.Words, Days: r.Days, DaysNeeded: r.Need, Objective: r.Objective, Limit: r.Limit,
		Current: r.Current, ChosenOn: span(r.Chosen), HeldOut: span(r.Held), Tried: values(r.Tried), Held: values(r.Out), Document: t.Document, ReplayID: t.ReplayID, RolloutID: t.RolloutID,
		TookSeconds: t.Took.Seconds(), DismissedBy: t.DismissedBy}
	if r.Proposed > 0 {
		out.Proposed = &r.Proposed
	}
	return out
}

func (s *Server) dismissTuning(ctx context.Context, p auth.Principal, in *TuningPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DismissTuning(ctx, tx, in.ID, in.Tuning, p.Name); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "tuning.dismiss", "workload:"+string(in.ID), map[string]string{"tuning": in.Tuning})
	})
}
