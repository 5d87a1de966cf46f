package httpapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/go-chi/httprate"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

const (
	maxForwards       = 16               // entries of X-Forwarded-For that are read
	enrolmentsAMinute = 60               // of one address, unless configured: an estate's agents may start at once behind one address
	strangersAMinute  = 120              // requests with a credential that is not ours, of one address
	unaryBodyDeadline = 30 * time.Second // for the body of an agent's call, which is read before it is known who calls
)

// clientAddress puts the address of the client where the connection's is, when the request came through proxies that are trusted to
// tell it. Each proxy adds the address it heard from to the end of X-Forwarded-For, so the client is the last one that is none of ours;
// what stands before it anybody can write.
func (s *Server) clientAddress(next http.Handler) http.Handler {
	if len(s.cfg.TrustedProxies) == 0 {
		return next
	}
	trusted := func(a netip.Addr) bool {
		for _, p := range s.cfg.TrustedProxies {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddr(addressOf(r.RemoteAddr))
		if err == nil && trusted(from.Unmap()) {
			if client, ok := forwarded(r.Header.Values("X-Forwarded-For"), trusted); ok {
				copied := *r
				copied.RemoteAddr = net.JoinHostPort(client.String(), "0")
				r = &copied
			}
		}
		next.ServeHTTP(w, r)
	})
}

// forwarded is the last address that is not trusted, or the first of a chain of only trusted ones.
func forwarded(headers []string, trusted func(netip.Addr) bool) (client netip.Addr, ok bool) {
	chain := strings.Split(strings.Join(headers, ","), ",")
	for i := len(chain) - 1; i >= max(0, len(chain)-maxForwards); i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(chain[i]))
		if err != nil {
			return client, ok // written by nobody we trust
		}
		if client, ok = a.Unmap(), true; !trusted(client) {
			return client, true
		}
	}
	return client, ok
}

// sourceOf is what requests are counted by while nobody signed in: the address, of IPv6 the network that one site has.
func sourceOf(remote string) string { return httprate.CanonicalizeIP(addressOf(remote)) }

// guardCalls bounds how often one address may try to enrol, and how long the body of a call may take: both come before it is known
// who calls.
func (s *Server) guardCalls(next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	perMinute := s.cfg.EnrolmentsPerMinute
	if perMinute == 0 {
		perMinute = enrolmentsAMinute
	}
	limited := httprate.LimitBy(perMinute, time.Minute,
		func(r *http.Request) (string, error) { return sourceOf(r.RemoteAddr), nil },
		httprate.WithLimitHandler(func(w http.ResponseWriter, r *http.Request) {
			_ = refuse.Write(w, r, connect.NewError(connect.CodeResourceExhausted, errors.New("too many enrolments from this address; try again later")))
		}))(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case agentv1connect.AgentServiceEnrolProcedure:
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unaryBodyDeadline))
			limited.ServeHTTP(w, r)
			return
		case agentv1connect.AgentServicePushProcedure, agentv1connect.AgentServiceRefreshProcedure:
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unaryBodyDeadline))
		}
		next.ServeHTTP(w, r)
	})
}

// strange answers a source that tried too many credentials; false lets it go on.
func (s *Server) strange(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") == "" {
		return false
	}
	if wait, over := s.session.strangers.over(sourceOf(r.RemoteAddr), time.Now()); over {
		w.Header().Set("Retry-After", retryAfter(wait))
		writeProblem(w, r, fleet.Errorf(fleet.CodeRateLimited, "too many requests with a credential that is not valid; try again later"))
		return true
	}
	return false
}
