package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// Anomaly is a day of a scope that cost other than expected, with what makes the difference and what was decided that day.
type Anomaly struct {
	ID           string                  `json:"id"`
	Scope        string                  `json:"scope" enum:"tenant,cluster,team,namespace,workload"`
	Key          string                  `json:"key" doc:"id or name; empty for the tenant"`
	Name         string                  `json:"name"`
	Day          string                  `json:"day" format:"date" doc:"UTC"`
	Direction    ledger.Direction        `json:"direction" enum:"up,down"`
	Actual       Money                   `json:"actual"`
	Expected     Money                   `json:"expected" doc:"by the 42 days before: the median level, times what this day of the week costs"`
	Low          Money                   `json:"low" doc:"from low to high nothing is remarkable"`
	High         Money                   `json:"high"`
	Score        float64                 `json:"score" doc:"robust standard deviations away from expected"`
	Days         int                     `json:"learned_from_days"`
	Contributors []store.AnomalyPart     `json:"contributors" doc:"against the mean of the same day of the week before: price, quantity and mix add up to delta"`
	Decisions    []store.AnomalyDecision `json:"decisions" doc:"of that day, on workloads that contribute, largest first"`
	FoundAt      time.Time               `json:"found_at"`
	AckedBy      string                  `json:"acknowledged_by,omitempty"`
	AckedAt      *time.Time              `json:"acknowledged_at"`
	Note         string                  `json:"note,omitempty"`
}

func (s *Server) registerAnomalies() {
	tags := []string{"anomalies"}
	op(s, huma.Operation{OperationID: "list-anomalies", Method: http.MethodGet, Path: "/api/v1/anomalies", Summary: "List days that cost other than expected, newest first", Tags: tags}, auth.RoleViewer, s.listAnomalies)
	op(s, huma.Operation{OperationID: "get-anomaly", Method: http.MethodGet, Path: "/api/v1/anomalies/{id}", Summary: "Get an anomaly", Tags: tags, Errors: []int{404}}, auth.RoleViewer, s.getAnomaly)
	op(s, huma.Operation{OperationID: "acknowledge-anomaly", Method: http.MethodPost, Path: "/api/v1/anomalies/{id}/acknowledge", Summary: "Note that somebody has seen it", Tags: tags, Errors: []int{404}}, auth.RoleOperator, s.ackAnomaly)
}

func (s *Server) showAnomaly(a store.Anomaly) (Anomaly, error) {
	v := Anomaly{ID: a.ID, Scope: a.Scope, Key: a.Key, Name: a.Name, Day: a.Day.UTC().Format(time.DateOnly), Direction: a.Direction, Actual: s.money(a.Actual), Expected: s.money(a.Expected),
		Low: s.money(a.Low), High: s.money(a.High), Score: a.Score, Days: a.Days, FoundAt: a.FoundAt.UTC(), AckedBy: a.AckedBy, AckedAt: a.AckedAt, Note: a.Note}
	if err := json.Unmarshal(a.Contributors, &v.Contributors); err != nil {
		return v, fmt.Errorf("read contributors: %w", err)
	}
	if err := json.Unmarshal(a.Decisions, &v.Decisions); err != nil {
		return v, fmt.Errorf("read decisions: %w", err)
	}
	return v, nil
}

func (s *Server) listAnomalies(ctx context.Context, p auth.Principal, in *struct {
	Open   bool      `query:"open" doc:"only those that nobody acknowledged"`
	Scope  string    `query:"scope" enum:"tenant,cluster,team,namespace,workload"`
	From   time.Time `query:"from" doc:"of which day on"`
	Cursor string    `query:"cursor" maxLength:"200"`
	Limit  int       `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*struct {
	Body struct {
		Items      []Anomaly `json:"items"`
		NextCursor string    `json:"next_cursor,omitempty"`
		LookedTo   string    `json:"looked_over_to,omitempty" format:"date" doc:"the newest day that was looked over; empty: none yet"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items      []Anomaly `json:"items"`
			NextCursor string    `json:"next_cursor,omitempty"`
			LookedTo   string    `json:"looked_over_to,omitempty" format:"date" doc:"the newest day that was looked over; empty: none yet"`
		}
	}{}
	after, err := positionOf(in.Cursor)
	if err != nil {
		return nil, err
	}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		day, err := store.AnomalyDay(ctx, tx)
		if err != nil {
			return err
		}
		if day != nil {
			out.Body.LookedTo = day.UTC().Format(time.DateOnly)
		}
		list, err := store.Anomalies(ctx, tx, store.AnomalyFilter{Open: in.Open, Scope: in.Scope, From: in.From, After: after, Limit: in.Limit + 1})
		if err != nil {
			return err
		}
		if len(list) > in.Limit {
			list = list[:in.Limit]
			last := list[len(list)-1]
			out.Body.NextCursor = encodeCursor(store.Position{At: last.Day, ID: last.ID})
		}
		out.Body.Items = make([]Anomaly, 0, len(list))
		for _, a := range list {
			v, err := s.showAnomaly(a)
			if err != nil {
				return err
			}
			out.Body.Items = append(out.Body.Items, v)
		}
		return nil
	})
	return out, err
}

func (s *Server) getAnomaly(ctx context.Context, p auth.Principal, in *RoutePath) (*struct{ Body Anomaly }, error) {
	out := &struct{ Body Anomaly }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		a, err := store.LoadAnomaly(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		out.Body, err = s.showAnomaly(a)
		return err
	})
	return out, err
}

func (s *Server) ackAnomaly(ctx context.Context, p auth.Principal, in *struct {
	RoutePath
	Body struct {
		Note string `json:"note,omitempty" maxLength:"1000"`
	}
}) (*struct{ Body Anomaly }, error) {
	out := &struct{ Body Anomaly }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.AckAnomaly(ctx, tx, in.ID, p.Name, in.Body.Note); err != nil {
			return err
		}
		a, err := store.LoadAnomaly(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if out.Body, err = s.showAnomaly(a); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "anomaly.acknowledge", "anomaly/"+in.ID, map[string]string{"note": in.Body.Note})
	})
	return out, err
}
