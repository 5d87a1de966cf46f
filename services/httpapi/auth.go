package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/httprate"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Me is who makes the request, and where.
type Me struct {
	Kind   auth.Kind `json:"kind" enum:"user,key"`
	User   *MeUser   `json:"user,omitempty" doc:"Absent for an API key"`
	Key    *MeKey    `json:"key,omitempty" doc:"Absent for a person"`
	Tenant MeTenant  `json:"tenant"`
	Role   auth.Role `json:"role" enum:"owner,admin,operator,finance,viewer"`
	// DataNow is what "now" means in time ranges.
	DataNow time.Time `json:"data_now" doc:"The newest data of any cluster of the tenant, else our time"`
	Demo    bool      `json:"demo" doc:"Whether a simulated cluster runs here, whose speed can be set"`
}

// MeUser is the signed-in person.
type MeUser struct {
	ID          fleet.UserID `json:"id"`
	Email       string       `json:"email"`
	DisplayName string       `json:"display_name"`
}

// MeKey is the API key in use.
type MeKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// MeTenant is the tenant that everything is about.
type MeTenant struct {
	ID       fleet.TenantID `json:"id"`
	Name     string         `json:"name"`
	Currency string         `json:"currency"`
	TimeZone string         `json:"time_zone"`
}

type meOutput struct{ Body Me }

type loginInput struct {
	peer
	Body struct {
		Email    string         `json:"email" maxLength:"254" minLength:"3"`
		Password string         `json:"password" maxLength:"1024" minLength:"1"`
		TenantID fleet.TenantID `json:"tenant_id,omitempty" format:"uuid" doc:"Which tenant, for people who belong to several; default the oldest"`
	}
}

// peer learns where a request comes from.
type peer struct{ address string }

// Resolve implements huma.Resolver.
func (p *peer) Resolve(ctx huma.Context) []error {
	p.address = addressOf(ctx.RemoteAddr())
	return nil
}

type loginOutput struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      Me
}

type logoutOutput struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
}

type passwordInput struct {
	peer
	Body struct {
		Current  string `json:"current" maxLength:"1024" minLength:"1"`
		Password string `json:"password" maxLength:"1024" minLength:"1" doc:"10 to 256 characters"`
	}
}

func (s *Server) registerAuth() {
	op(s, huma.Operation{OperationID: "login", Method: http.MethodPost, Path: "/api/v1/auth/login", Summary: "Sign in", Tags: []string{"auth"},
		Errors: []int{http.StatusUnauthorized, http.StatusTooManyRequests}}, public, s.login)
	op(s, huma.Operation{OperationID: "logout", Method: http.MethodPost, Path: "/api/v1/auth/logout", Summary: "Sign out", Tags: []string{"auth"},
		DefaultStatus: http.StatusNoContent}, public, s.logout)
	op(s, huma.Operation{OperationID: "change-password", Method: http.MethodPost, Path: "/api/v1/auth/password", Tags: []string{"auth"},
		Summary: "Change the own password; all other sessions of the person end", DefaultStatus: http.StatusNoContent}, auth.RoleViewer, s.changePassword)
	op(s, huma.Operation{OperationID: "get-me", Method: http.MethodGet, Path: "/api/v1/me", Summary: "Who am I", Tags: []string{"auth"}},
		auth.RoleViewer, func(ctx context.Context, p auth.Principal, _ *struct{}) (*meOutput, error) {
			me, err := s.me(ctx, p)
			return &meOutput{Body: me}, err
		})
	s.registerMembers()
	s.registerAudit()
}

func (s *Server) login(ctx context.Context, _ auth.Principal, in *loginInput) (*loginOutput, error) {
	user, tenants, err := s.checkLogin(ctx, in)
	if err != nil {
		return nil, err
	}
	p := auth.Principal{Kind: auth.KindUser, ID: string(user.ID), Name: user.DisplayName, Tenant: tenants[0]}
	if in.Body.TenantID != "" {
		p.Tenant = ""
		for _, t := range tenants {
			if t == in.Body.TenantID {
				p.Tenant = t
			}
		}
		if p.Tenant == "" {
			return nil, fleet.Errorf(fleet.CodeForbidden, "this account does not belong to that tenant")
		}
	}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		m, err := store.MemberByID(ctx, tx, user.ID)
		if err != nil {
			return err
		}
		p.Role = auth.Role(m.Role)
		return store.Audit(ctx, tx, p.Actor(), "session.open", "user:"+p.ID, map[string]string{"address": in.address})
	})
	if err != nil {
		return nil, err
	}
	out := &loginOutput{}
	if out.Body, err = s.me(ctx, p); err != nil {
		return nil, err
	}
	out.SetCookie, err = s.session.open(ctx, p.Tenant, user)
	return out, err
}

// hashingBound is how long a sign-in may wait for its turn and be checked.
const hashingBound = 10 * time.Second

// checkLogin returns the user behind e-mail and password with his tenants, at least one. A wrong password, an unknown address and a
// disabled account look the same and take the same time.
func (s *Server) checkLogin(ctx context.Context, in *loginInput) (user store.User, tenants []fleet.TenantID, err error) {
	var now time.Time
	err = s.deps.DB.Global(ctx, func(tx *store.Tx) (err error) {
		now = tx.Now
		user, err = store.UserByEmail(ctx, tx, in.Body.Email)
		if store.IsNotFound(err) {
			return nil
		}
		if err == nil {
			tenants, err = store.TenantsOf(ctx, tx, user.ID)
		}
		return err
	})
	if err != nil {
		return user, nil, err
	}
	person := in.address + "/" + strings.ToLower(strings.TrimSpace(in.Body.Email))
	if err := s.throttled(in.address, person, now); err != nil {
		return user, nil, err
	}
	hashing, cancel := context.WithTimeout(ctx, hashingBound)
	defer cancel()
	right, err := s.session.hasher.Verify(hashing, user.PasswordHash, in.Body.Password)
	if err != nil {
		return user, nil, err
	}
	if !right || user.Disabled {
		return user, nil, fleet.Errorf(fleet.CodeUnauthorized, "e-mail address or password is wrong")
	}
	s.session.sources.forgive(httprate.CanonicalizeIP(in.address), now)
	s.session.logins.forgive(person, now)
	if len(tenants) == 0 {
		return user, nil, fleet.Errorf(fleet.CodeForbidden, "this account belongs to no tenant")
	}
	return user, tenants, nil
}

// throttled counts an attempt to sign in and refuses it when there were too many failed ones.
func (s *Server) throttled(address, person string, now time.Time) error {
	wait, ok := s.session.sources.enter(httprate.CanonicalizeIP(address), now)
	if ok {
		if wait, ok = s.session.logins.enter(person, now); ok {
			return nil
		}
	}
	return huma.ErrorWithHeaders(huma.Error429TooManyRequests("too many failed attempts; try again later"),
		http.Header{"Retry-After": {retryAfter(wait)}})
}

func (s *Server) logout(ctx context.Context, p auth.Principal, _ *struct{}) (*logoutOutput, error) {
	if p.Kind == auth.KindUser {
		err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
			return store.Audit(ctx, tx, p.Actor(), "session.end", "user:"+p.ID, nil)
		})
		if err != nil {
			return nil, err
		}
	}
	cookie, err := s.session.end(ctx)
	return &logoutOutput{SetCookie: cookie}, err
}

func (s *Server) changePassword(ctx context.Context, p auth.Principal, in *passwordInput) (*logoutOutput, error) {
	if p.Kind != auth.KindUser {
		return nil, fleet.Errorf(fleet.CodeForbidden, "an API key has no password")
	}
	if err := auth.CheckPassword(in.Body.Password); err != nil {
		return nil, err
	}
	var user store.User
	var now time.Time
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		m, err := store.MemberByID(ctx, tx, fleet.UserID(p.ID))
		user, now = m.User, tx.Now
		return err
	})
	if err != nil {
		return nil, err
	}
	person := in.address + "/" + user.Email
	if err := s.throttled(in.address, person, now); err != nil {
		return nil, err
	}
	hashing, cancel := context.WithTimeout(ctx, hashingBound)
	defer cancel()
	right, err := s.session.hasher.Verify(hashing, user.PasswordHash, in.Body.Current)
	if err != nil {
		return nil, err
	}
	if !right {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Field: "body.current", Message: "this is not the current password"}
	}
	s.session.sources.forgive(httprate.CanonicalizeIP(in.address), now)
	s.session.logins.forgive(person, now)
	if user.PasswordHash, err = s.session.hasher.Hash(hashing, in.Body.Password); err != nil {
		return nil, err
	}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.SetPasswordHash(ctx, tx, user.ID, user.PasswordHash); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "user.password", "user:"+p.ID, nil)
	})
	if err != nil {
		return nil, err
	}
	cookie, err := s.session.open(ctx, p.Tenant, user)
	return &logoutOutput{SetCookie: cookie}, err
}

func (s *Server) me(ctx context.Context, p auth.Principal) (Me, error) {
	me := Me{Kind: p.Kind, Role: p.Role, Demo: s.deps.Demo != nil}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		t, err := store.LoadTenant(ctx, tx)
		if err != nil {
			return err
		}
		me.Tenant = MeTenant{ID: t.ID, Name: t.Name, Currency: t.Currency, TimeZone: t.TimeZone}
		if p.Kind == auth.KindKey {
			me.Key = &MeKey{ID: p.ID, Name: p.Name}
		} else {
			m, err := store.MemberByID(ctx, tx, fleet.UserID(p.ID))
			if err != nil {
				return err
			}
			me.User = &MeUser{ID: m.User.ID, Email: m.User.Email, DisplayName: m.User.DisplayName}
		}
		me.DataNow, err = store.DataNow(ctx, tx)
		return err
	})
	return me, err
}
