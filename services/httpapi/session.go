package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// sessionCookie holds the session's token of a signed-in person.
const sessionCookie = "plimsoll_session"

// sessionLife is how long a person stays signed in.
const sessionLife = 24 * time.Hour

// Keys of what a session holds.
const (
	sessionUser   = "user"
	sessionTenant = "tenant"
	sessionStamp  = "stamp" // of the password it was opened with: a new password ends all other sessions
)

// sessions signs people in and out, and knows who is behind a cookie.
type sessions struct {
	manager *scs.SessionManager
	hasher  *auth.Hasher
	logins  *throttle // failed attempts by address and e-mail
	sources *throttle // failed attempts by address
	// strangers counts requests with a credential that is not ours, by address.
	strangers *throttle
	secure    bool
}

func newSessions(db *store.DB, secure bool) *sessions {
	m := scs.New()
	m.Store = db.Sessions()
	m.Lifetime = sessionLife
	return &sessions{
		manager: m, secure: secure, hasher: auth.NewHasher(runtime.GOMAXPROCS(0)),
		logins: newThrottle(10, 5*time.Minute), sources: newThrottle(100, 5*time.Minute),
		strangers: newThrottle(strangersAMinute, time.Minute),
	}
}

// load reads the session behind the cookie. An unknown or expired one is as good as none.
func (s *sessions) load(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Cookie")
		w.Header().Set("Cache-Control", "no-store")
		token := ""
		if c, err := r.Cookie(sessionCookie); err == nil {
			token = c.Value
		}
		ctx, err := s.manager.Load(r.Context(), token)
		if err != nil {
			writeProblem(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// open starts a new session under a new token, whatever the request came with, and returns its cookie.
func (s *sessions) open(ctx context.Context, tenant fleet.TenantID, u store.User) (http.Cookie, error) {
	if err := s.manager.RenewToken(ctx); err != nil {
		return http.Cookie{}, err
	}
	s.manager.Put(ctx, sessionUser, string(u.ID))
	s.manager.Put(ctx, sessionTenant, string(tenant))
	s.manager.Put(ctx, sessionStamp, passwordStamp(u))
	token, expires, err := s.manager.Commit(ctx)
	if err != nil {
		return http.Cookie{}, err
	}
	return s.cookie(token, expires), nil
}

// end closes the session and returns a cookie that takes the browser's away.
func (s *sessions) end(ctx context.Context) (http.Cookie, error) {
	if err := s.manager.Destroy(ctx); err != nil {
		return http.Cookie{}, err
	}
	c := s.cookie("", time.Unix(1, 0)) //nolint:gosec // as any cookie of ours; this one only takes the other away
	c.MaxAge = -1
	return c, nil
}

func (s *sessions) cookie(token string, expires time.Time) http.Cookie {
	return http.Cookie{Name: sessionCookie, Value: token, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode, Expires: expires.UTC()} //nolint:gosec // Secure wherever people reach us over TLS; without it the cookie could not come back
}

func passwordStamp(u store.User) string {
	sum := sha256.Sum256([]byte(u.PasswordHash))
	return hex.EncodeToString(sum[:8])
}

// identify puts the principal into the context: whoever the API key in the Authorization header belongs to, else whoever signed in. A
// wrong key is refused here; without any credential the request goes on as nobody.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.strange(w, r) {
			return
		}
		p, err := s.principal(r)
		if err != nil {
			code, _, _ := explain(err)
			switch code {
			case fleet.CodeUnauthorized:
				s.session.strangers.enter(sourceOf(r.RemoteAddr), time.Now())
				w.Header().Set("WWW-Authenticate", `Bearer realm="plimsoll"`)
			case fleet.CodeInternal:
				s.deps.Log.Error("identify failed", "error", err)
			}
			writeProblem(w, r, err)
			return
		}
		if p.Tenant != "" {
			r = r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) principal(r *http.Request) (auth.Principal, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return auth.Principal{}, fleet.Errorf(fleet.CodeUnauthorized, "this is no way to sign in here: send a session cookie or Bearer with an API key")
		}
		return s.keyPrincipal(r.Context(), strings.TrimSpace(token))
	}
	return s.sessionPrincipal(r.Context())
}

func (s *Server) keyPrincipal(ctx context.Context, token string) (auth.Principal, error) {
	shown, err := auth.ParseAPIKey(token)
	if err != nil {
		return auth.Principal{}, err
	}
	var p auth.Principal
	err = s.deps.DB.Tenant(ctx, shown.Tenant, func(tx *store.Tx) error {
		k, err := store.APIKeyByID(ctx, tx, shown.ID)
		if err != nil && !store.IsNotFound(err) {
			return err
		}
		if err != nil || !shown.Matches(k.Hash) || k.RevokedAt != nil || (k.ExpiresAt != nil && !tx.Now.Before(*k.ExpiresAt)) {
			return fleet.Errorf(fleet.CodeUnauthorized, "the API key is not valid, was revoked or expired")
		}
		p = auth.Principal{Kind: auth.KindKey, ID: k.ID, Name: k.Name, Tenant: tx.Tenant, Role: auth.Role(k.Role)}
		return store.TouchAPIKey(ctx, tx, k.ID)
	})
	return p, err
}

// sessionPrincipal reads the member afresh for each request: a changed role, a removed member and a new password count at once.
func (s *Server) sessionPrincipal(ctx context.Context) (auth.Principal, error) {
	m := s.session.manager
	user, tenant := fleet.UserID(m.GetString(ctx, sessionUser)), fleet.TenantID(m.GetString(ctx, sessionTenant))
	if user == "" || tenant == "" {
		return auth.Principal{}, nil
	}
	var member store.Member
	err := s.deps.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		member, err = store.MemberByID(ctx, tx, user)
		return err
	})
	if store.IsNotFound(err) {
		return auth.Principal{}, nil
	}
	if err != nil {
		return auth.Principal{}, err
	}
	if member.User.Disabled || m.GetString(ctx, sessionStamp) != passwordStamp(member.User) {
		return auth.Principal{}, nil
	}
	return auth.Principal{Kind: auth.KindUser, ID: string(user), Name: member.User.DisplayName, Tenant: tenant, Role: auth.Role(member.Role)}, nil
}

// allow lets only principals with the role pass. It stands before anything of the request is read.
func (s *Server) allow(need auth.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		switch p := who(ctx.Context()); {
		case p.Tenant == "":
			_ = huma.WriteErr(s.api, ctx, http.StatusUnauthorized, "sign in, or send an API key")
		case !p.Role.Allows(need):
			_ = huma.WriteErr(s.api, ctx, http.StatusForbidden, "this needs the role "+string(need))
		default:
			next(ctx)
		}
	}
}

// crossOrigin refuses what another site makes a browser send. Requests without browser headers pass: they carry no cookie by
// themselves.
func (s *Server) crossOrigin() func(http.Handler) http.Handler {
	c := http.NewCrossOriginProtection()
	if origin := strings.TrimRight(s.cfg.PublicURL, "/"); origin != "" {
		if err := c.AddTrustedOrigin(origin); err != nil {
			s.deps.Log.Warn("public URL is not an origin", "url", origin, "error", err)
		}
	}
	c.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, fleet.Errorf(fleet.CodeForbidden, "the request comes from another site"))
	}))
	return c.Handler
}

// addressOf is the peer's address without its port.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
