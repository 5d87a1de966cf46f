package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Route says which alerts go to a channel. Every route that fits counts; a channel gets an event once.
type Route struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Channel     string         `json:"channel_id"`
	Kinds       []string       `json:"kinds" doc:"empty: all"`
	MinSeverity store.Severity `json:"min_severity" enum:"info,warning,critical"`
	Team        string         `json:"team,omitempty" doc:"empty: all"`
	Resolved    bool           `json:"resolved" doc:"tell when it is over, too"`
	CreatedAt   time.Time      `json:"created_at"`
}

type routeBody struct {
	Name        string         `json:"name" minLength:"1" maxLength:"100"`
	Channel     string         `json:"channel_id" format:"uuid"`
	Kinds       []string       `json:"kinds,omitempty" maxItems:"30" uniqueItems:"true"`
	MinSeverity store.Severity `json:"min_severity,omitempty" enum:"info,warning,critical" doc:"default warning"`
	Team        string         `json:"team,omitempty" maxLength:"253"`
	Resolved    *bool          `json:"resolved,omitempty" doc:"default true"`
}

// Silence keeps alerts from being told for a while. They are opened and shown all the same; what is open still when it ends is told then.
type Silence struct {
	ID        string     `json:"id"`
	Kinds     []string   `json:"kinds" doc:"empty: all"`
	Subject   string     `json:"subject_prefix,omitempty" doc:"what the subject begins with; empty: all"`
	Team      string     `json:"team,omitempty" doc:"empty: all"`
	Reason    string     `json:"reason"`
	From      time.Time  `json:"from"`
	Until     time.Time  `json:"until"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at" doc:"by hand, before until"`
}

// Digest is a summary that a channel gets every day or week, at an hour of the tenant's zone.
type Digest struct {
	Channel string     `json:"channel_id"`
	Every   string     `json:"every" enum:"day,week"`
	Hour    int        `json:"hour"`
	SentFor *time.Time `json:"sent_for" doc:"the end of the period that was told last"`
}

// RoutePath names a route or a silence. Exported because huma passes over embedded types that are not.
type RoutePath struct {
	ID string `path:"id" format:"uuid"`
}

const (
	maxRoutes   = 200
	maxSilences = 500
	maxSilence  = 90 * 24 * time.Hour
)

func (s *Server) registerRoutes() {
	tags := []string{"channels"}
	op(s, huma.Operation{OperationID: "list-routes", Method: http.MethodGet, Path: "/api/v1/notify-routes", Summary: "List which alerts go to which channel", Tags: tags}, auth.RoleViewer, s.listRoutes)
	op(s, huma.Operation{OperationID: "create-route", Method: http.MethodPost, Path: "/api/v1/notify-routes", Summary: "Create a route", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422}}, auth.RoleFinance, s.createRoute)
	op(s, huma.Operation{OperationID: "put-route", Method: http.MethodPut, Path: "/api/v1/notify-routes/{id}", Summary: "Change a route", Tags: tags, Errors: []int{404, 422}}, auth.RoleFinance, s.putRoute)
	op(s, huma.Operation{OperationID: "delete-route", Method: http.MethodDelete, Path: "/api/v1/notify-routes/{id}", Summary: "Delete a route", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleFinance, s.deleteRoute)
	op(s, huma.Operation{OperationID: "list-silences", Method: http.MethodGet, Path: "/api/v1/silences", Summary: "List silences, newest first", Tags: tags}, auth.RoleViewer, s.listSilences)
	op(s, huma.Operation{OperationID: "create-silence", Method: http.MethodPost, Path: "/api/v1/silences", Summary: "Tell nobody of some alerts for a while", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422}}, auth.RoleOperator, s.createSilence)
	op(s, huma.Operation{OperationID: "end-silence", Method: http.MethodPost, Path: "/api/v1/silences/{id}/end", Summary: "End a silence before its time", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleOperator, s.endSilence)
	op(s, huma.Operation{OperationID: "list-digests", Method: http.MethodGet, Path: "/api/v1/digests", Summary: "List digests", Tags: tags}, auth.RoleViewer, s.listDigests)
	op(s, huma.Operation{OperationID: "put-digest", Method: http.MethodPut, Path: "/api/v1/digests/{id}/{every}", Summary: "Send a channel a digest every day or week", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404, 422}}, auth.RoleFinance, s.putDigest)
	op(s, huma.Operation{OperationID: "delete-digest", Method: http.MethodDelete, Path: "/api/v1/digests/{id}/{every}", Summary: "End a digest", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}}, auth.RoleFinance, s.deleteDigest)
}

type routeList struct {
	Body struct {
		Items []Route `json:"items"`
	}
}

func showRoute(r store.Route) Route {
	return Route{ID: r.ID, Name: r.Name, Channel: r.Channel, Kinds: r.Kinds, MinSeverity: r.MinSeverity, Team: r.Team, Resolved: r.Resolved, CreatedAt: r.CreatedAt.UTC()}
}

func (s *Server) listRoutes(ctx context.Context, p auth.Principal, _ *struct{}) (*routeList, error) {
	out := &routeList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		routes, err := store.Routes(ctx, tx)
		out.Body.Items = make([]Route, 0, len(routes))
		for _, r := range routes {
			out.Body.Items = append(out.Body.Items, showRoute(r))
		}
		return err
	})
	return out, err
}

func (s *Server) createRoute(ctx context.Context, p auth.Principal, in *struct{ Body routeBody }) (*struct{ Body Route }, error) {
	return s.saveRoute(ctx, p, "", in.Body, "route.create")
}

func (s *Server) putRoute(ctx context.Context, p auth.Principal, in *struct {
	RoutePath
	Body routeBody
}) (*struct{ Body Route }, error) {
	return s.saveRoute(ctx, p, in.ID, in.Body, "route.change")
}

func (s *Server) saveRoute(ctx context.Context, p auth.Principal, id string, b routeBody, action string) (*struct{ Body Route }, error) {
	r := store.Route{ID: id, Name: b.Name, Channel: b.Channel, Kinds: b.Kinds, MinSeverity: b.MinSeverity, Team: b.Team, Resolved: b.Resolved == nil || *b.Resolved}
	if r.MinSeverity == "" {
		r.MinSeverity = store.SeverityWarning
	}
	if err := checkKinds(r.Kinds); err != nil {
		return nil, err
	}
	out := &struct{ Body Route }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if id == "" {
			all, err := store.Routes(ctx, tx)
			if err != nil {
				return err
			}
			if len(all) >= maxRoutes {
				return fleet.Errorf(fleet.CodeConflict, "a tenant has at most %d routes", maxRoutes)
			}
		}
		saved, err := store.SaveRoute(ctx, tx, r)
		if err != nil {
			return err
		}
		out.Body = showRoute(saved)
		return store.Audit(ctx, tx, p.Actor(), action, "route/"+saved.ID, map[string]string{"name": saved.Name})
	})
	return out, err
}

// checkKinds bounds the kinds of a matcher. A kind that this version does not open is no error: a newer one may.
func checkKinds(kinds []string) error {
	for _, k := range kinds {
		if k == "" || len(k) > 64 {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a kind of alert has 1 to 64 characters", Field: "body.kinds"}
		}
	}
	return nil
}

func (s *Server) deleteRoute(ctx context.Context, p auth.Principal, in *RoutePath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteRoute(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "route.delete", "route/"+in.ID, nil)
	})
}

func showSilence(v store.Silence) Silence {
	return Silence{ID: v.ID, Kinds: v.Kinds, Subject: v.Subject, Team: v.Team, Reason: v.Reason, From: v.From.UTC(), Until: v.Until.UTC(), CreatedBy: v.CreatedBy,
		CreatedAt: v.CreatedAt.UTC(), EndedAt: v.EndedAt}
}

func (s *Server) listSilences(ctx context.Context, p auth.Principal, in *struct {
	All bool `query:"all" doc:"also those that are over"`
}) (*struct {
	Body struct {
		Items []Silence `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Silence `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, err := store.Silences(ctx, tx, in.All, maxSilences)
		out.Body.Items = make([]Silence, 0, len(list))
		for _, v := range list {
			out.Body.Items = append(out.Body.Items, showSilence(v))
		}
		return err
	})
	return out, err
}

func (s *Server) createSilence(ctx context.Context, p auth.Principal, in *struct {
	Body struct {
		Kinds   []string   `json:"kinds,omitempty" maxItems:"30" uniqueItems:"true"`
		Subject string     `json:"subject_prefix,omitempty" maxLength:"300"`
		Team    string     `json:"team,omitempty" maxLength:"253"`
		Reason  string     `json:"reason" minLength:"1" maxLength:"500"`
		From    *time.Time `json:"from,omitempty" doc:"default now"`
		Until   time.Time  `json:"until" doc:"at most 90 days from now"`
	}
}) (*struct{ Body Silence }, error) {
	b := in.Body
	if err := checkKinds(b.Kinds); err != nil {
		return nil, err
	}
	out := &struct{ Body Silence }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		from := tx.Now
		if b.From != nil {
			from = *b.From
		}
		if !b.Until.After(from) || !b.Until.After(tx.Now) || b.Until.Sub(tx.Now) > maxSilence {
			return &fleet.Error{Code: fleet.CodeInvalid, Message: "a silence ends after it begins, in the future, and within 90 days", Field: "body.until"}
		}
		all, err := store.Silences(ctx, tx, false, maxSilences)
		if err != nil {
			return err
		}
		if len(all) >= maxSilences {
			return fleet.Errorf(fleet.CodeConflict, "at most %d silences hold at a time", maxSilences)
		}
		saved, err := store.InsertSilence(ctx, tx, store.Silence{Kinds: b.Kinds, Subject: b.Subject, Team: b.Team, Reason: b.Reason, From: from, Until: b.Until, CreatedBy: p.Name})
		if err != nil {
			return err
		}
		out.Body = showSilence(saved)
		return store.Audit(ctx, tx, p.Actor(), "silence.create", "silence/"+saved.ID, map[string]string{"reason": saved.Reason, "until": saved.Until.UTC().Format(time.RFC3339)})
	})
	return out, err
}

func (s *Server) endSilence(ctx context.Context, p auth.Principal, in *RoutePath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.EndSilence(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "silence.end", "silence/"+in.ID, nil)
	})
}

func (s *Server) listDigests(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Digest `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Digest `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, err := store.Digests(ctx, tx)
		out.Body.Items = make([]Digest, 0, len(list))
		for _, d := range list {
			out.Body.Items = append(out.Body.Items, Digest{Channel: d.Channel, Every: d.Every, Hour: d.Hour, SentFor: d.SentFor})
		}
		return err
	})
	return out, err
}

// DigestPath names a digest. Exported because huma passes over embedded types that are not.
type DigestPath struct {
	ID    string `path:"id" format:"uuid" doc:"of the channel"`
	Every string `path:"every" enum:"day,week"`
}

func (s *Server) putDigest(ctx context.Context, p auth.Principal, in *struct {
	DigestPath
	Body struct {
		Hour int `json:"hour" minimum:"0" maximum:"23" doc:"of the tenant's zone"`
	}
}) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		hook, err := store.LoadWebhook(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if hook.Kind.Pager() {
			return fleet.Errorf(fleet.CodeInvalid, "a pager is not for summaries: it would wake somebody every time")
		}
		if err := store.SaveDigest(ctx, tx, store.Digest{Channel: in.ID, Every: in.Every, Hour: in.Body.Hour}); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "digest.set", "channel/"+in.ID, map[string]string{"every": in.Every})
	})
}

func (s *Server) deleteDigest(ctx context.Context, p auth.Principal, in *DigestPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteDigest(ctx, tx, in.ID, in.Every); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "digest.end", "channel/"+in.ID, map[string]string{"every": in.Every})
	})
}
