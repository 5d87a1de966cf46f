package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"plimsoll.dev/agent/uplink"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveHealth answers /healthz, /readyz and /metrics until the returned function is called. An empty address serves nothing.
func serveHealth(ctx context.Context, address string, a *agent, up *uplink.Uplink, log *slog.Logger) (func(), error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metricsAddress: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), exporter{a, up})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		// Ready means that the cluster is read; a service that is away is no reason to restart the agent.
		if a.collect.Counters().Reads == 0 {
			http.Error(w, "the cluster was not read yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health server ended", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-done
	}, nil
}

// exporter turns the counters of the rooms into metrics when they are scraped.
type exporter struct {
	agent *agent
	up    *uplink.Uplink
}

var (
	descConnected = desc("uplink_connected", "1 while the service answers.")
	descAcked     = desc("uplink_acked_seq", "Newest report that the service has.")
	descRejected  = desc("uplink_rejected_total", "Reports that the service will never store.")
	descSessions  = desc("uplink_sessions_total", "Connections that reached the service.")
	descPending   = desc("spool_pending_reports", "Reports that wait on disk.")
	descBytes     = desc("spool_bytes", "Size of the spool on disk.")
	descDropped   = desc("spool_dropped_total", "Reports given up, by kind.", "kind")
	descPolls     = desc("collect_polls_total", "Times that the sources were asked.")
	descReports   = desc("collect_reports_total", "Reports made, by kind.", "kind")
	descErrors    = desc("collect_source_errors_total", "Failed calls of a source.", "source")
	descUnsent    = desc("collect_unsent_total", "Reports that the spool refused.")
	descGen       = desc("act_generation", "Generation of the newest plan begun here.")
	descFrozen    = desc("act_frozen", "1 while nothing may change.")
	descTargets   = desc("serve_targets", "Workloads whose wanted replicas are known here.")
	descOffers    = desc("serve_offerings", "Offerings whose effective price is known here.")
	descAsked     = desc("serve_asked_workloads", "Workloads that KEDA asked about.")
	descIgnored   = desc("serve_ignored_total", "Counts of the service that neither a plan set nor the cluster had.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("plimsoll_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (e exporter) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(e, ch) }

// Collect implements prometheus.Collector.
func (e exporter) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	st, sp, c := e.up.Status(), e.agent.spool.Stats(), e.agent.collect.Counters()
	gauge(descConnected, number(st.Connected))
	gauge(descAcked, float64(st.AckedSeq))
	counter(descRejected, st.Rejected)
	counter(descSessions, st.Sessions)
	gauge(descPending, float64(sp.Pending))
	gauge(descBytes, float64(sp.Bytes))
	for kind, name := range kindNames {
		counter(descDropped, sp.Dropped[kind], name)
	}
	counter(descPolls, c.Polls)
	for name, n := range map[string]uint64{"observation": c.Observations, "frame": c.Frames, "inventory": c.Inventories, "event": c.Events} {
		counter(descReports, n, name)
	}
	for source, n := range c.SourceErrors {
		counter(descErrors, n, source)
	}
	counter(descUnsent, c.Unsent)
	gauge(descGen, float64(e.agent.actor.Generation()))
	gauge(descFrozen, number(e.agent.actor.Frozen()))
	b := e.agent.board.Counts()
	gauge(descTargets, float64(b.Targets))
	gauge(descOffers, float64(b.Offerings))
	gauge(descAsked, float64(b.Asked))
	counter(descIgnored, b.Ignored)
}

var kindNames = map[uplink.Kind]string{
	uplink.KindFrame: "frame", uplink.KindObservation: "observation", uplink.KindInventory: "inventory",
	uplink.KindEvents: "events", uplink.KindResults: "results", uplink.KindTombstone: "corrupt",
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
