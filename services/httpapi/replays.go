package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// Bounds of a replay's window: two hours to four weeks, which is as long as raw telemetry is kept, less two days.
const (
	shortestReplay = 2 * time.Hour
	longestReplay  = 28 * 24 * time.Hour
	defaultReplay  = 7 * 24 * time.Hour
)

// replayQueue is what the job queue must be able to do for replays; jobs.Enqueuer is.
type replayQueue interface {
	ReplaySoon(ctx context.Context, tx *store.Tx, id string) error
}

// Replay is a replay of a policy on a workload's own history.
type Replay struct {
	ID             string           `json:"id" format:"uuid"`
	WorkloadID     fleet.WorkloadID `json:"workload_id" format:"uuid"`
	WorkloadKey    string           `json:"workload_key"`
	Document       string           `json:"document" doc:"the proposed policy, YAML"`
	CurrentVersion int              `json:"current_version" doc:"of the policy in force when it was asked for; 0: none"`
	From           time.Time        `json:"from"`
	To             time.Time        `json:"to"`
	Baselines      []string         `json:"baselines"`
	State          string           `json:"state" enum:"queued,running,done,failed,cancelled"`
	Progress       float64          `json:"progress" doc:"0 to 1"`
	Problem        string           `json:"problem" doc:"why it failed"`
	Usable         bool             `json:"usable" doc:"its document may be enforced: it is done and the proposed policy could be played"`
	CreatedBy      string           `json:"created_by"`
	CreatedAt      time.Time        `json:"created_at"`
	FinishedAt     *time.Time       `json:"finished_at"`
	Result         *ReplayResult    `json:"result,omitempty" doc:"of one that is done; not in lists"`
}

// ReplayResult is what a replay found.
type ReplayResult struct {
	Basis       string        `json:"basis" enum:"tokens,requests" doc:"what the demand was computed from"`
	Bucket      int           `json:"bucket_seconds" doc:"grain of the history; what happens within a bucket is not seen"`
	Covered     float64       `json:"covered_ratio" doc:"share of the time of which anybody said anything; over the rest the last known demand is held"`
	LongestGap  int           `json:"longest_gap_seconds"`
	JudgedFrom  time.Time     `json:"judged_from" doc:"what lies before was only learned from"`
	JudgedTo    time.Time     `json:"judged_to"`
	Start       int           `json:"start_seconds" doc:"until a replica serves"`
	Batch       float64       `json:"requests_per_replica"`
	Mean        float64       `json:"mean_replicas" doc:"demand, in replicas in use"`
	Peak        float64       `json:"peak_replicas"`
	Bound       *float64      `json:"bound_replica_hours" doc:"the least that serving everybody on time can cost; null: not known, see no_bound"`
	BoundCost   *Money        `json:"bound_cost"`
	NoBound     string        `json:"no_bound,omitempty" doc:"peak_above_max, peak_too_large, or words"`
	ReplicaHour *Money        `json:"replica_hour" doc:"at today's price; null: not known"`
	Rows        []ReplayRow   `json:"rows"`
	Points      []ReplayPoint `json:"points"`
}

// ReplayRow is how one policy fared; its numbers are null where it could not be played.
type ReplayRow struct {
	Policy      string             `json:"policy"`
	Kind        string             `json:"kind" enum:"current,proposed,baseline"`
	Problem     string             `json:"problem,omitempty" doc:"why it could not be played"`
	Paid        *float64           `json:"paid_replica_hours"`
	Ratio       *float64           `json:"cost_ratio" doc:"over the bound; null without one"`
	Cost        *Money             `json:"cost"`
	Late        *float64           `json:"late_ratio" doc:"requests that wait over 5 s"`
	Timeouts    *float64           `json:"timeout_ratio" doc:"requests that wait over 60 s"`
	Thrash      *float64           `json:"thrash_cycles_per_hour"`
	Over        *float64           `json:"over_provision_ratio"`
	Under       *float64           `json:"under_provision_ratio"`
	Utilisation *float64           `json:"utilisation"`
	Most        *int               `json:"most_replicas"`
	Assumed     []fleet.SignalName `json:"assumed_signals" doc:"signals of the policy that a replay takes as the share of a replica's batch in use"`
}

// ReplayPoint is one step of the timeline.
type ReplayPoint struct {
	At       time.Time `json:"at"`
	Demand   float64   `json:"demand" doc:"replicas in use, mean"`
	Peak     float64   `json:"demand_peak"`
	Known    float64   `json:"known_ratio" doc:"share of the step of which anybody said anything"`
	Current  *float64  `json:"current" doc:"ready replicas of the policy in force; null without one"`
	Proposed *float64  `json:"proposed"`
}

// ReplayPath names a replay.
type ReplayPath struct {
	ID string `path:"id" format:"uuid"`
}

func (s *Server) registerReplays() {
	s.registerRollouts()
	tags := []string{"replays"}
	op(s, huma.Operation{OperationID: "create-replay", Method: http.MethodPost, Path: "/api/v1/replays", Summary: "Replay a policy on a workload's own history", Tags: tags,
		DefaultStatus: http.StatusCreated, Errors: []int{404, 422, 429, 503}, MaxBodyBytes: 128 << 10}, auth.RoleOperator, s.createReplay)
	op(s, huma.Operation{OperationID: "list-replays", Method: http.MethodGet, Path: "/api/v1/replays", Summary: "List replays, newest first", Tags: tags},
		auth.RoleViewer, s.listReplays)
	op(s, huma.Operation{OperationID: "get-replay", Method: http.MethodGet, Path: "/api/v1/replays/{id}", Summary: "Get a replay with its result", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.getReplay)
	op(s, huma.Operation{OperationID: "cancel-replay", Method: http.MethodPost, Path: "/api/v1/replays/{id}/cancel", Summary: "Stop a replay that is not done", Tags: tags, Errors: []int{404, 409}},
		auth.RoleOperator, s.cancelReplay)
}

// defaultBaselines are played where none are named: what most fleets run today.
var defaultBaselines = []string{"hpa-70", "hpa-70+queue", "keda-inflight-70", "static-peak"}

func (s *Server) createReplay(ctx context.Context, p auth.Principal, in *struct {
	Body struct {
		WorkloadID         fleet.WorkloadID `json:"workload_id" format:"uuid"`
		Document           string           `json:"document,omitempty" maxLength:"65536" doc:"the proposed policy, YAML; this or preset, neither: the policy in force"`
		Preset             string           `json:"preset,omitempty" maxLength:"64"`
		From               *time.Time       `json:"from,omitempty" doc:"default: seven days before to"`
		To                 *time.Time       `json:"to,omitempty" doc:"default: the cluster's newest data"`
		Baselines          []string         `json:"baselines,omitempty" maxItems:"8" doc:"names as plimsoll replay policies lists them; default: hpa-70, hpa-70+queue, keda-inflight-70, static-peak"`
		RequestsPerReplica float64          `json:"requests_per_replica,omitempty" minimum:"0" maximum:"100000" doc:"that one replica serves at once; default: as the policy says"`
		StartSeconds       int              `json:"start_seconds,omitempty" minimum:"0" maximum:"3600" doc:"until a replica serves; default: as the policy says, as measured, or 180"`
	}
}) (*struct{ Body Replay }, error) {
	queue, ok := s.deps.Queue.(replayQueue)
	if !ok {
		return nil, fleet.Errorf(fleet.CodeUnavailable, "this process cannot queue replays")
	}
	b := &in.Body
	if len(b.Baselines) == 0 {
		b.Baselines = defaultBaselines
	}
	if _, err := lab.Named(b.Baselines); err != nil {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: err.Error(), Field: "body.baselines"}
	}
	out := &struct{ Body Replay }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, b.WorkloadID)
		if err != nil {
			return err
		}
		document, err := proposedDocument(b.Document, b.Preset, w.PolicyDoc)
		if err != nil {
			return err
		}
		var given [2]time.Time
		for i, t := range []*time.Time{b.From, b.To} {
			if t != nil {
				given[i] = *t
			}
		}
		from, to, err := window(given[0], given[1], w.DataAt, tx.Now, defaultReplay, longestReplay)
		if err != nil {
			return err
		}
		if to.Sub(from) < shortestReplay {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a replay needs two hours of history at least", Field: "body.from"}
		}
		id, err := store.CreateReplay(ctx, tx, store.Replay{Workload: w.ID, Document: document, CurrentVersion: w.PolicyVersion, From: from.Truncate(time.Minute), To: to.Truncate(time.Minute),
			Options: store.ReplayOptions{Baselines: b.Baselines, RequestsPerReplica: b.RequestsPerReplica, StartSeconds: b.StartSeconds}, CreatedBy: p.Actor()})
		if err != nil {
			return err
		}
		if err := store.Audit(ctx, tx, p.Actor(), "replay.create", "workload:"+string(w.ID), map[string]string{"replay": id}); err != nil {
			return err
		}
		row, err := store.ReplayOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if out.Body, err = s.showReplay(row); err != nil {
			return err
		}
		return queue.ReplaySoon(ctx, tx, id)
	})
	return out, err
}

// proposedDocument is the document itself, a preset's, or that in force, and must be without errors.
func proposedDocument(document, preset, current string) (string, error) {
	refuse := func(field, format string, args ...any) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: fmt.Sprintf(format, args...), Field: "body." + field}
	}
	switch {
	case document != "" && preset != "":
		return "", refuse("preset", "give a document or a preset, not both")
	case preset != "":
		presets := optimizer.Presets()
		i := slices.IndexFunc(presets, func(p optimizer.Preset) bool { return p.Name == preset })
		if i < 0 {
			return "", refuse("preset", "there is no preset %q", preset)
		}
		document = presets[i].YAML
	case document == "" && current == "":
		return "", refuse("document", "the workload has no policy yet: give a document or a preset")
	case document == "":
		document = current
	}
	_, findings := optimizer.ParsePolicy([]byte(document))
	for _, f := range findings {
		if f.Severity == optimizer.SeverityError {
			return "", refuse("document", "the policy cannot be used as it is: %s: %s", f.Field, f.Message)
		}
	}
	return document, nil
}

func (s *Server) listReplays(ctx context.Context, p auth.Principal, in *struct {
	Workload fleet.WorkloadID `query:"workload" format:"uuid"`
	Cursor   string           `query:"cursor" maxLength:"1024"`
	Limit    int              `query:"limit" minimum:"1" maximum:"100" default:"50"`
}) (*struct {
	Body struct {
		Items      []Replay `json:"items"`
		NextCursor string   `json:"next_cursor,omitempty"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items      []Replay `json:"items"`
			NextCursor string   `json:"next_cursor,omitempty"`
		}
	}{}
	out.Body.Items = []Replay{}
	var after store.ReplayCursor
	if in.Cursor != "" {
		if err := decodeCursor(in.Cursor, &after); err != nil {
			return nil, err
		}
		if err := cursorID(after.ID); err != nil {
			return nil, err
		}
	}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		rows, err := store.Replays(ctx, tx, in.Workload, after, in.Limit+1)
		if err != nil {
			return err
		}
		if len(rows) > in.Limit {
			rows = rows[:in.Limit]
			last := rows[len(rows)-1]
			out.Body.NextCursor = encodeCursor(store.ReplayCursor{At: last.CreatedAt, ID: last.ID})
		}
		for _, r := range rows {
			shown, err := s.showReplay(r)
			if err != nil {
				return err
			}
			out.Body.Items = append(out.Body.Items, shown)
		}
		return nil
	})
	return out, err
}

func (s *Server) getReplay(ctx context.Context, p auth.Principal, in *ReplayPath) (*struct{ Body Replay }, error) {
	out := &struct{ Body Replay }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		row, err := store.ReplayOf(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		out.Body, err = s.showReplay(row)
		return err
	})
	return out, err
}

func (s *Server) cancelReplay(ctx context.Context, p auth.Principal, in *ReplayPath) (*struct{ Body Replay }, error) {
	out := &struct{ Body Replay }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		ended, err := store.CancelReplay(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		row, err := store.ReplayOf(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if !ended {
			return fleet.Errorf(fleet.CodeConflict, "the replay is over already: it is %s", row.State)
		}
		if err := store.Audit(ctx, tx, p.Actor(), "replay.cancel", "workload:"+string(row.Workload), map[string]string{"replay": row.ID}); err != nil {
			return err
		}
		out.Body, err = s.showReplay(row)
		return err
	})
	return out, err
}

func (s *Server) showReplay(r store.Replay) (Replay, error) {
	out := Replay{ID: r.ID, WorkloadID: r.Workload, WorkloadKey: r.WorkloadKey, Document: r.Document, CurrentVersion: r.CurrentVersion, From: r.From.UTC(), To: r.To.UTC(),
		Baselines: r.Options.Baselines, State: r.State, Progress: float64(r.Progress), Problem: r.Problem, Usable: r.Usable, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), FinishedAt: r.FinishedAt}
	if len(r.Result) == 0 {
		return out, nil
	}
	var found lab.HistoryReport
	if err := json.Unmarshal(r.Result, &found); err != nil {
		return out, fmt.Errorf("read the result of replay %s: %w", r.ID, err)
	}
	result := s.showReport(&found)
	out.Result = &result
	return out, nil
}

func (s *Server) showReport(f *lab.HistoryReport) ReplayResult {
	currency := s.prices().Currency()
	out := ReplayResult{Basis: f.Basis, Bucket: f.Bucket, Covered: f.Covered, LongestGap: f.LongestGap, JudgedFrom: f.JudgedFrom.UTC(), JudgedTo: f.JudgedTo.UTC(), Start: f.Start, Batch: f.Batch,
		Mean: f.Mean, Peak: f.PeakDemand, BoundCost: moneyOrNil(f.BoundCost, currency), NoBound: f.NoBound, ReplicaHour: moneyOrNil(f.ReplicaHour, currency),
		Rows: make([]ReplayRow, 0, len(f.Rows)), Points: make([]ReplayPoint, 0, len(f.Points))}
	if f.Bound > 0 {
		out.Bound = &f.Bound
	}
	for i := range f.Rows {
		r := &f.Rows[i]
		row := ReplayRow{Policy: r.Policy, Kind: r.Kind, Problem: r.Problem, Assumed: r.Assumed}
		if row.Assumed == nil {
			row.Assumed = []fleet.SignalName{}
		}
		if r.Problem == "" {
			row.Paid, row.Late, row.Timeouts, row.Thrash, row.Over, row.Under = &r.Paid, &r.Late, &r.Timeouts, &r.Thrash, &r.Over, &r.Under
			row.Utilisation, row.Most, row.Cost = &r.Utilisation, &r.Most, moneyOrNil(r.Cost, currency)
			if r.Ratio > 0 {
				row.Ratio = &r.Ratio
			}
		}
		out.Rows = append(out.Rows, row)
	}
	for _, p := range f.Points {
		p.At = p.At.UTC()
		out.Points = append(out.Points, ReplayPoint(p))
	}
	return out
}

// replayGate refuses a policy that enforces and was never replayed: it needs a finished replay of this very document on the workload's own
// history, or a reason that is written into the audit log. A document that is in force already passes. It returns the replay, empty with a reason.
func replayGate(ctx context.Context, tx *store.Tx, w *store.WorkloadRow, document string, mode fleet.Mode, reason string) (string, error) {
	if mode != fleet.ModeEnforce || document == w.PolicyDoc {
		return "", nil
	}
	id, err := store.Replayed(ctx, tx, w.ID, document)
	if err != nil || id != "" || reason != "" {
		return id, err
	}
	return "", &fleet.Error{Code: fleet.CodeConflict, Field: "body.replay_override",
		Message: "a policy that enforces must have been replayed on this workload's history, word for word, within 30 days: replay it (POST /api/v1/replays), or give a reason in replay_override"}
}
