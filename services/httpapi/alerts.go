package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

// Alert is a state that somebody should know of. The text is made by whoever shows it, from kind and detail.
type Alert struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind" doc:"budget_threshold, unknown_price, ..."`
	Subject    string          `json:"subject"`
	Severity   store.Severity  `json:"severity" enum:"info,warning,critical"`
	OpenedAt   time.Time       `json:"opened_at"`
	ResolvedAt *time.Time      `json:"resolved_at"`
	Detail     json.RawMessage `json:"detail"`
	// Told is what became of its opening and its end.
	Told []AlertTold `json:"told"`
}

// AlertTold is what became of a change of an alert's state.
type AlertTold struct {
	Event    string     `json:"event" enum:"alert.opened,alert.resolved"`
	State    string     `json:"state" enum:"pending,silenced,told,dropped" doc:"silenced: told when the silence ends and the alert is open still; dropped: over before anybody was told"`
	Channels int        `json:"channels" doc:"that were told"`
	Silence  string     `json:"silence_id,omitempty"`
	At       *time.Time `json:"at"`
}

func (s *Server) registerAlerts() {
	op(s, huma.Operation{OperationID: "list-alerts", Method: http.MethodGet, Path: "/api/v1/alerts", Summary: "List alerts, newest first", Tags: []string{"alerts"}},
		auth.RoleViewer, s.listAlerts)
	s.registerAnomalies()
}

func (s *Server) listAlerts(ctx context.Context, p auth.Principal, in *struct {
	Open   bool   `query:"open" doc:"only those that are not resolved"`
	Kind   string `query:"kind" maxLength:"100"`
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*struct {
	Body struct {
		Items      []Alert `json:"items"`
		NextCursor string  `json:"next_cursor,omitempty"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items      []Alert `json:"items"`
			NextCursor string  `json:"next_cursor,omitempty"`
		}
	}{}
	after, err := positionOf(in.Cursor)
	if err != nil {
		return nil, err
	}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: in.Open, Kind: in.Kind, After: after, Limit: in.Limit + 1})
		if len(list) > in.Limit {
			list = list[:in.Limit]
			last := list[len(list)-1]
			out.Body.NextCursor = encodeCursor(store.Position{At: last.OpenedAt, ID: last.ID})
		}
		if err != nil {
			return err
		}
		ids, at := make([]string, len(list)), map[string]int{}
		out.Body.Items = make([]Alert, 0, len(list))
		for i, a := range list {
			ids[i], at[a.ID] = a.ID, i
			out.Body.Items = append(out.Body.Items, Alert{ID: a.ID, Kind: a.Kind, Subject: a.Subject, Severity: a.Severity, OpenedAt: a.OpenedAt.UTC(),
				ResolvedAt: a.ResolvedAt, Detail: a.Detail, Told: []AlertTold{}})
		}
		stories, err := store.AlertStories(ctx, tx, ids)
		for _, story := range stories {
			a := &out.Body.Items[at[story.Alert]]
			a.Told = append(a.Told, AlertTold{Event: story.Event, State: story.State, Channels: story.Channels, Silence: story.Silence, At: story.ToldAt})
		}
		return err
	})
	return out, err
}
