// Package httpapi is the door for people and agents: REST under /api/v1, the agents' Connect service, live events, health,
// metrics and the dashboard's files. It checks who asks, maps errors once, and leaves deciding to others. It never imports jobs.
package httpapi

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// Config of the door.
type Config struct {
	Version string
	// PublicURL is how people reach the dashboard, for links and cookies: https makes cookies Secure.
	PublicURL string
	// Dashboard holds the built web files; nil serves a page that says how to build them.
	Dashboard fs.FS
	// MaxReportBytes bounds one agent message after decompression. Default 4 MiB.
	MaxReportBytes int
	// SendDeadline is how long an agent or a live dashboard may take nothing of what it is sent. Default 20 s.
	SendDeadline time.Duration
	// RequestsPerMinute bounds what one principal may ask of the REST API. Default 2400.
	RequestsPerMinute int
	// EnrolmentsPerMinute bounds how often one address may try to enrol an agent. Default 60.
	EnrolmentsPerMinute int
	// TrustedProxies are the networks whose proxies say in X-Forwarded-For for whom they ask. Default none: the address of the
	// connection counts, and behind a proxy all people share one.
	TrustedProxies []netip.Prefix
}

// Queue puts work into the job queue in the caller's transaction. jobs implements it.
type Queue interface {
	// PlanSoon asks for a decision on the cluster. Asking twice is harmless: the second decision is no news.
	PlanSoon(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID) error
	// CompactSoon asks for roll-ups of the cluster's dirty blocks.
	CompactSoon(ctx context.Context, tx *store.Tx, cluster fleet.ClusterID) error
	// DeliverSoon asks for a webhook delivery.
	DeliverSoon(ctx context.Context, tx *store.Tx, deliveryID string) error
	// CheckBudgetsSoon asks to hold the tenant's budgets against its costs.
	CheckBudgetsSoon(ctx context.Context, tx *store.Tx) error
}

// Deps are the rooms behind the door.
type Deps struct {
	DB     *store.DB
	Queue  Queue
	Keys   *auth.Keyring // signs and checks agent tokens
	Sealer *auth.Sealer  // seals webhook secrets at rest
	// Addresses says which webhook addresses are allowed; nil: public https only.
	Addresses AddressChecker
	// Prices is the newest book; nil: the snapshot in the binary.
	Prices func() *market.PriceBook
	// Clouds tries the access to cloud accounts; nil: this process cannot.
	Clouds   CloudChecker
	Log      *slog.Logger
	Registry *prometheus.Registry
	// Demo is the control of a simulated cluster; nil outside `plimsoll dev`.
	Demo DemoControl
}

// DemoControl changes how fast a simulated cluster's time runs.
type DemoControl interface {
	Speed() float64
	SetSpeed(speed float64) error
}

// Server answers HTTP/1.1 and HTTP/2 on one port.
type Server struct {
	cfg           Config
	deps          Deps
	router        chi.Router
	api           huma.API
	broker        *broker
	metrics       *metrics
	session       *sessions
	prices        func() *market.PriceBook // the newest book; whoever works with one keeps it to the end
	exports       chan struct{}            // a place for each export that runs
	previews      chan struct{}            // a place for each preview of a capacity policy that is computed
	listeners     atomic.Int64             // dashboards with an open event stream
	conversations atomic.Int64             // agents with an open stream or watch
	closing       context.Context          // ends when the process shuts down: long-lived handlers must watch it
	close         context.CancelFunc
}

// New builds the server. Close ends its streams and background work.
func New(cfg Config, deps Deps) *Server {
	if cfg.MaxReportBytes == 0 {
		cfg.MaxReportBytes = 4 << 20
	}
	if cfg.SendDeadline == 0 {
		cfg.SendDeadline = 20 * time.Second
	}
	if deps.Prices == nil {
		deps.Prices = market.Catalogue
	}
	s := &Server{cfg: cfg, deps: deps, router: chi.NewRouter(), metrics: newMetrics(deps.Registry), broker: newBroker(), prices: deps.Prices}
	s.exports, s.previews = make(chan struct{}, exportsAtOnce), make(chan struct{}, previewsAtOnce)
	s.closing, s.close = context.WithCancel(context.Background())
	s.session = newSessions(deps.DB, strings.HasPrefix(cfg.PublicURL, "https://"))
	s.router.Use(s.clientAddress, middleware.RequestID, s.recoverer, s.metrics.observe, securityHeaders)
	s.router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, fleet.Errorf(fleet.CodeNotFound, "there is nothing at %s", r.URL.Path))
	})
	s.router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		writeProblemStatus(w, http.StatusMethodNotAllowed, r.Method+" is not supported at "+r.URL.Path)
	})
	s.router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	s.router.Get("/readyz", s.ready)
	s.router.Handle("/metrics", promhttp.HandlerFor(deps.Registry, promhttp.HandlerOpts{Registry: deps.Registry}))
	s.mountAgentDoor()
	s.router.Group(func(r chi.Router) {
		r.Use(s.crossOrigin(), s.session.load, s.identify, s.limit())
		r.Get("/api/v1/events", s.events)
		s.mountOpenCost(r)
		s.api = humachi.New(r, apiConfig(cfg.Version))
		s.register()
	})
	s.mountDashboard()
	return s
}

// Handler is what an http.Server serves.
func (s *Server) Handler() http.Handler { return s.router }

// Health answers /healthz, /readyz and /metrics only: the door of a process that serves nothing else.
func (s *Server) Health() http.Handler {
	r := chi.NewRouter()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r.Handle(path, s.router)
	}
	return r
}

// NewHTTPServer serves HTTP/1.1 and HTTP/2, also without TLS, on one port. It has no read or write timeout, since streams last for
// days; headers have one, and every handler bounds itself.
func NewHTTPServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		// A stream may be silent for minutes; pings tell a quiet agent from a dead one.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}}
}

// OpenAPI returns the document of the REST API as YAML. It needs no database: operations are registered, not called.
func OpenAPI() ([]byte, error) {
	s := New(Config{Version: "1"}, Deps{Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	defer s.Close()
	return s.api.OpenAPI().YAML()
}

// Close ends streams and background work; the http.Server's Shutdown does not end streams by itself.
func (s *Server) Close() { s.close() }

// register adds every REST operation: one method per noun, one file each.
func (s *Server) register() {
	s.registerAuth()
	s.registerKeys()
	s.registerClusters()
	s.registerWorkloads()
	s.registerForecast()
	s.registerHints()
	s.registerTunings()
	s.registerPolicies()
	s.registerReplays()
	s.registerDecisions()
	s.registerOverview()
	s.registerCost()
	s.registerCalendar()
	s.registerCompare()
	s.registerUnits()
	s.registerStatements()
	s.registerSavings()
	s.registerFocus()
	s.registerBills()
	s.registerBudgets()
	s.registerWebhooks()
	s.registerAlerts()
	s.registerCatalog()
	s.registerCloudAccounts()
	s.registerCommitments()
	s.registerSpot()
	s.registerAvailability()
	s.registerCapacity()
	s.registerCloudGroups()
	s.registerGentle()
	s.registerKarpenter()
	s.registerServices()
	s.registerCapacityRollouts()
	s.registerCompliance()
	s.registerCapacityDefault()
	s.registerDemo()
}

func apiConfig(version string) huma.Config {
	cfg := huma.DefaultConfig("Plimsoll API", version)
	cfg.Info.Description = "Cost-aware autoscaling of GPU workloads. Errors are RFC 9457 problems; times are UTC RFC 3339; money is a decimal string with its currency."
	cfg.CreateHooks = nil // no $schema links in answers
	cfg.DocsPath = ""     // the built-in page loads scripts from elsewhere
	cfg.OpenAPIPath = "/api/v1/openapi"
	cfg.SchemasPath = ""
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"session": {Type: "apiKey", In: "cookie", Name: sessionCookie},
		"apiKey":  {Type: "http", Scheme: "bearer", Description: "An API key of the tenant"},
	}
	return cfg
}

// schemaName tells the optimizer's types from those of the same name here.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if strings.HasSuffix(t.PkgPath(), "/optimizer") {
		return "Optimizer" + name
	}
	return name
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := s.deps.DB.Ping(ctx); err != nil {
		writeProblem(w, r, fleet.Errorf(fleet.CodeUnavailable, "the database does not answer"))
		return
	}
	_, _ = w.Write([]byte("ready\n"))
}

type principalKey struct{}

// who returns the principal that identify put into the context; the zero Principal when nobody signed in.
func who(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal)
	return p
}

// public marks an operation that needs no sign-in.
const public auth.Role = ""

// op registers one operation: need is the least role, public for none. fn gets the principal, whose Tenant is the only tenant it
// may touch; errors with a fleet.Code become problems, all others are logged and shown as "internal error".
func op[I, O any](s *Server, o huma.Operation, need auth.Role, fn func(context.Context, auth.Principal, *I) (*O, error)) {
	if need != public {
		o.Security = []map[string][]string{{"session": {}}, {"apiKey": {}}}
		o.Errors = append(o.Errors, http.StatusUnauthorized, http.StatusForbidden)
		o.Middlewares = append(huma.Middlewares{s.allow(need)}, o.Middlewares...)
	}
	huma.Register(s.api, o, func(ctx context.Context, in *I) (*O, error) {
		p := who(ctx)
		out, err := fn(ctx, p, in)
		if err != nil {
			return nil, s.problem(ctx, o.OperationID, err)
		}
		return out, nil
	})
}

// problem maps an error to a status, once for the whole API.
func (s *Server) problem(ctx context.Context, operation string, err error) error {
	var status huma.StatusError
	if errors.As(err, &status) {
		return err
	}
	code, message, field := explain(err)
	if code == fleet.CodeInternal && ctx.Err() == nil {
		s.deps.Log.Error("request failed", "operation", operation, "tenant", who(ctx).Tenant, "error", err)
	}
	if field != "" {
		return huma.NewError(statusOf(code), message, &huma.ErrorDetail{Location: field, Message: message})
	}
	return huma.NewError(statusOf(code), message)
}

// explain gives what may be shown of an error.
func explain(err error) (code fleet.Code, message, field string) {
	var coded *fleet.Error
	if errors.As(err, &coded) {
		return coded.Code, coded.Message, coded.Field
	}
	return fleet.CodeInternal, "internal error", ""
}

func statusOf(code fleet.Code) int {
	switch code {
	case fleet.CodeInvalid:
		return http.StatusUnprocessableEntity
	case fleet.CodeNotFound:
		return http.StatusNotFound
	case fleet.CodeConflict:
		return http.StatusConflict
	case fleet.CodeForbidden:
		return http.StatusForbidden
	case fleet.CodeUnauthorized:
		return http.StatusUnauthorized
	case fleet.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case fleet.CodeRateLimited:
		return http.StatusTooManyRequests
	case fleet.CodeUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
