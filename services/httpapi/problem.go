package httpapi

import (
	"encoding/json"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/services/fleet"
)

// writeProblem answers outside huma's operations with the same RFC 9457 body.
func writeProblem(w http.ResponseWriter, _ *http.Request, err error) {
	code, message, _ := explain(err)
	writeProblemStatus(w, statusOf(code), message)
}

func writeProblemStatus(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail})
}

// recoverer answers 500 when a handler panics, and keeps serving.
func (s *Server) recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is only ever panicked with as it is
				panic(v)
			}
			s.deps.Log.Error("handler panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			writeProblem(w, r, fleet.Errorf(fleet.CodeInternal, "internal error"))
		}()
		next.ServeHTTP(w, r)
	})
}

func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'self'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

// metrics of the door. Labels come from closed sets: route patterns, not paths; never a tenant.
type metrics struct {
	duration *prometheus.HistogramVec
	reports  *prometheus.CounterVec
	bytes    prometheus.Counter
	clusters prometheus.Gauge
}

func newMetrics(reg *prometheus.Registry) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plimsoll_httpapi_request_duration_seconds", Help: "Time to answer, by route pattern and status class.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 11), NativeHistogramBucketFactor: 1.2,
		}, []string{"route", "method", "status"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_ingest_reports_total", Help: "Agent reports by what became of them.",
		}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plimsoll_ingest_bytes_total", Help: "Bytes of accepted agent reports after decompression of the transport.",
		}),
		clusters: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plimsoll_clusters_connected", Help: "Agents with an open stream or watch on this process.",
		}),
	}
	reg.MustRegister(m.duration, m.reports, m.bytes, m.clusters)
	return m
}

func (m *metrics) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(ww, r)
		route := chi.RouteContext(r.Context()).RoutePattern()
		if route == "" {
			route = "none"
		}
		status := ww.Status()
		if status == 0 {
			status = http.StatusOK
		}
		m.duration.WithLabelValues(route, r.Method, strconv.Itoa(status/100)+"xx").Observe(time.Since(started).Seconds())
	})
}
