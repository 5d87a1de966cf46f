package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/serve"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Autoscalers are those that the cluster runs besides this agent, and how it works with them. Of the controller role only.
type Autoscalers struct {
	Address  string   `json:"address"`  // host:port of the gRPC server for Cluster Autoscaler and KEDA; default :9402
	Expander bool     `json:"expander"` // answer Cluster Autoscaler's --expander=grpc
	KEDA     bool     `json:"keda"`     // answer KEDA's triggers external and external-push
	TLS      ServeTLS `json:"tls"`      // Cluster Autoscaler accepts nothing else
	HPA      HPA      `json:"hpa"`      // workloads that a HorizontalPodAutoscaler owns

	Karpenter Karpenter `json:"karpenter"` // machines
}

// ServeTLS names PEM files, read anew for each connection.
type ServeTLS struct {
	CertFile     string `json:"certFile"`
	KeyFile      string `json:"keyFile"`
	ClientCAFile string `json:"clientCAFile"` // empty: clients need no certificate
}

// HPA says what is done about a workload's HorizontalPodAutoscaler.
type HPA struct {
	Mode            string `json:"mode"`            // replicas (default): write the count all the same; bounds: move minReplicas and maxReplicas
	HeadroomPercent *int   `json:"headroomPercent"` // of bounds: room above the count that the HPA keeps for itself; default 50
}

const (
	hpaReplicas     = "replicas"
	hpaBounds       = "bounds"
	defaultHeadroom = 50
	handBackTime    = 2 * time.Minute
)

func (a Autoscalers) withDefaults() Autoscalers {
	if a.Address == "" {
		a.Address = ":9402"
	}
	if a.HPA.Mode == "" {
		a.HPA.Mode = hpaReplicas
	}
	if a.HPA.HeadroomPercent == nil {
		n := defaultHeadroom
		a.HPA.HeadroomPercent = &n
	}
	return a
}

func (a Autoscalers) faults(kubernetes bool) []error {
	var out []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Errorf("autoscalers."+format, args...))
		}
	}
	_, _, err := net.SplitHostPort(a.Address)
	fault(err != nil, "address must be host:port, not %q", a.Address)
	fault(!oneOf(a.HPA.Mode, hpaReplicas, hpaBounds), "hpa.mode must be replicas or bounds, not %q", a.HPA.Mode)
	fault(*a.HPA.HeadroomPercent < 0 || *a.HPA.HeadroomPercent > 1000, "hpa.headroomPercent must be 0 to 1000, not %d", *a.HPA.HeadroomPercent)
	fault(a.HPA.Mode == hpaBounds && !kubernetes, "hpa.mode bounds needs sources.kubernetes")
	fault((a.TLS.CertFile == "") != (a.TLS.KeyFile == ""), "tls needs both certFile and keyFile")
	fault(a.TLS.ClientCAFile != "" && a.TLS.CertFile == "", "tls.clientCAFile needs certFile and keyFile")
	for _, f := range []string{a.TLS.CertFile, a.TLS.KeyFile, a.TLS.ClientCAFile} {
		fault(f != "" && !filepath.IsAbs(f), "tls: %q must be an absolute path", f)
	}
	return append(out, a.Karpenter.faults(kubernetes)...)
}

func (a Autoscalers) served() bool { return a.Expander || a.KEDA }

// steered says whether an HPA gets its orders from here: KEDA's when KEDA asks for the count, others when their bounds are moved.
func steered(cfg Config, board *serve.Board) func(*autoscalingv2.HorizontalPodAutoscaler) bool {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		if act.OfKEDA(h) {
			return cfg.Autoscalers.KEDA && board.Asked(h.Namespace+"/"+h.Spec.ScaleTargetRef.Kind+"/"+h.Spec.ScaleTargetRef.Name)
		}
		return cfg.Autoscalers.HPA.Mode == hpaBounds
	}
}

// route puts the ways of other autoscalers before the actuator. rc is nil where there is no Kubernetes.
func route(cfg Config, direct act.Actuator, rc *rest.Config, board *serve.Board) (act.Actuator, error) {
	a := cfg.Autoscalers
	if direct == nil || (!a.KEDA && a.HPA.Mode != hpaBounds) {
		return direct, nil
	}
	var to act.Board
	if a.KEDA {
		to = board
	}
	if rc == nil {
		return act.NewRoute(direct, nil, false, to), nil
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	hpa := act.NewHPA(client.AutoscalingV2(), direct, *a.HPA.HeadroomPercent)
	return act.NewRoute(direct, hpa, a.HPA.Mode == hpaBounds, to), nil
}

// serveAutoscalers answers Cluster Autoscaler and KEDA until the returned function is called.
func serveAutoscalers(ctx context.Context, cfg Config, board *serve.Board, actor *act.Actor, journal *act.Journal, nowMS int64, log *slog.Logger) (stop func(), err error) {
	a := cfg.Autoscalers
	if !a.served() {
		return func() {}, nil
	}
	board.Restore(journal.RecentlySet(nowMS - restoreMS))
	gate := func() (bool, string) {
		mode := actor.Mode()
		return mode == "enforce" || mode == "approve", fmt.Sprintf("the agent is in %s mode and steers nothing", mode)
	}
	server, err := serve.Serve(ctx, serve.Config{Address: a.Address, Expander: a.Expander, KEDA: a.KEDA, MaxReplicas: cfg.Limits.MaxReplicasPerWorkload,
		TLS: serve.TLS{CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile, ClientCAFile: a.TLS.ClientCAFile}}, board, gate, log)
	if err != nil {
		return nil, err
	}
	return server.Stop, nil
}

// restoreMS: counts set longer ago are not taken up again after a restart.
const restoreMS = 10 * 60_000

// Standing implements uplink.Handler.
func (a *agent) Standing(s *agentv1.Standing) {
	if err := a.board.Put(s); err != nil {
		a.log.Warn("what the service says holds now was not taken", "error", err)
	}
}

// handBack gives every HPA the bounds back that its owner gave it, and Karpenter what it had. It is run once, when the agent is uninstalled.
func handBack(ctx context.Context, cfg Config, log *slog.Logger) error {
	if !cfg.Sources.Kubernetes.Enabled {
		return errors.New("there is no cluster to hand anything back to: sources.kubernetes is not enabled")
	}
	rc, err := restConfig(cfg.Sources.Kubernetes.Kubeconfig, buildVersion())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, handBackTime)
	defer cancel()
	if cfg.Autoscalers.HPA.Mode == hpaBounds || !cfg.Autoscalers.Karpenter.Enabled && !cfg.Drain.Enabled && !cfg.WarmPools.Enabled {
		var n int
		n, err = act.NewHPA(client.AutoscalingV2(), nil, 0).HandBack(ctx, cfg.Namespaces.Include)
		log.Info("handed back", "horizontal_pod_autoscalers", n)
	}
	k, kerr := provisioner(cfg, rc)
	if k != nil {
		var n int
		n, kerr = k.HandBack(ctx)
		log.Info("handed back", "nodepools_and_nodeoverlays", n)
	}
	return errors.Join(err, kerr, handBackRoom(ctx, cfg, client, log))
}
