package main

import (
	"errors"
	"fmt"
	"log/slog"
	"sort"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/collect"
	"plimsoll.dev/agent/serve"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"
)

// parts is what the configuration asks for.
type parts struct {
	sources  []collect.Source // the first one is the cluster
	actuator act.Actuator     // nil: nothing can be changed
	rest     *rest.Config     // nil: no Kubernetes
	kube     *collect.Kube    // nil: the same
	hello    *agentv1.Hello
	closers  []func()
}

func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
}

func (p *parts) can(capabilities ...string) {
	p.hello.Capabilities = append(p.hello.Capabilities, capabilities...)
	sort.Strings(p.hello.Capabilities)
}

// build makes sources and actuator. The node role reads GPUs only.
func build(cfg Config, role, node, version string, board *serve.Board, log *slog.Logger) (*parts, error) {
	p := &parts{hello: &agentv1.Hello{}}
	if role == "controller" {
		switch {
		case cfg.Sources.Sim.URL != "":
			p.sources = append(p.sources, collect.NewSim(cfg.Sources.Sim.URL))
			p.actuator = act.NewSim(cfg.Sources.Sim.URL)
			p.can("sim", "scale")
		case cfg.Sources.Kubernetes.Enabled:
			if err := p.kubernetes(cfg, version, board, log); err != nil {
				p.close()
				return nil, err
			}
		default:
			return nil, errors.New("no cluster to read: enable sources.kubernetes or set sources.sim.url")
		}
	}
	if role == "controller" && cfg.Autoscalers.KEDA {
		p.can("keda")
	}
	if role == "controller" && cfg.Autoscalers.Expander {
		p.can("expander")
	}
	if role == "controller" && cfg.Autoscalers.Karpenter.Enabled {
		p.can("karpenter")
	}
	if role == "controller" && cfg.Drain.Enabled {
		p.can("drain")
	}
	if role == "controller" && cfg.WarmPools.Enabled {
		p.can("warm")
	}
	if role == "node" && cfg.Sources.PodResources.Socket != "" && (len(cfg.Sources.DCGMExporter) > 0 || cfg.Sources.DCGM.Mode != "off") {
		if err := p.podResources(cfg, node, version, log); err != nil {
			return nil, err
		}
	}
	if err := p.gpus(cfg); err != nil {
		p.close()
		return nil, err
	}
	if len(p.sources) == 0 {
		return nil, errors.New("nothing to read: the node role needs sources.dcgmExporter or sources.dcgm")
	}
	return p, nil
}

func (p *parts) kubernetes(cfg Config, version string, board *serve.Board, log *slog.Logger) error {
	klog.SetSlogLogger(log)
	rc, err := restConfig(cfg.Sources.Kubernetes.Kubeconfig, version)
	if err != nil {
		return err
	}
	p.rest = rc
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	others, err := dynamic.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	source, err := collect.NewKube(client, collect.KubeConfig{Include: cfg.Namespaces.Include, Exclude: cfg.Namespaces.Exclude, FieldManager: act.FieldManager, Dynamic: others, Steered: steered(cfg, board)})
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	p.closers = append(p.closers, source.Close)
	p.sources, p.kube = append(p.sources, source), source
	if v, err := client.Discovery().ServerVersion(); err == nil {
		p.hello.KubernetesVersion = v.GitVersion
	} else {
		log.Warn("the version of Kubernetes is not known yet", "error", err)
	}
	if p.actuator, err = act.NewKube(rc); err != nil {
		return err
	}
	p.can("scale")
	if cfg.Sources.Kubernetes.MetricsAPI {
		mc, err := metricsclient.NewForConfig(rc)
		if err != nil {
			return fmt.Errorf("metrics API: %w", err)
		}
		p.sources = append(p.sources, collect.NewMetricsAPI(mc, cfg.Namespaces.Include))
		p.can("metrics_api")
	}
	if len(cfg.Sources.PodMetrics) > 0 {
		targets, err := scrapeTargets(cfg.Sources.PodMetrics)
		if err != nil {
			return err
		}
		p.sources = append(p.sources, collect.NewPodMetrics(targets))
		p.can("pod_metrics")
	}
	return nil
}

// podResources makes the first source of the node role: who holds which GPU.
func (p *parts) podResources(cfg Config, node, version string, log *slog.Logger) error {
	rc, err := restConfig(cfg.Sources.Kubernetes.Kubeconfig, version)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	source, err := collect.NewNodePods(node, cfg.Sources.PodResources.Socket, client, log)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, source.Close)
	p.sources = append(p.sources, source)
	return nil
}

func (p *parts) gpus(cfg Config) error {
	if len(cfg.Sources.DCGMExporter) > 0 {
		var urls []string
		for _, e := range cfg.Sources.DCGMExporter {
			urls = append(urls, e.URL)
		}
		p.sources = append(p.sources, collect.NewDCGMExporter(urls))
		p.can("dcgm_exporter")
	}
	if cfg.Sources.DCGM.Mode != "off" {
		source, stop, err := collect.NewDCGM(collect.DCGMConfig{Address: cfg.Sources.DCGM.Address})
		if err != nil {
			return err
		}
		p.closers = append(p.closers, stop)
		p.sources = append(p.sources, source)
		p.can("dcgm")
	}
	return nil
}

func restConfig(kubeconfig, version string) (*rest.Config, error) {
	var rc *rest.Config
	var err error
	if kubeconfig == "" {
		rc, err = rest.InClusterConfig()
	} else {
		rc, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubernetes access: %w", err)
	}
	rc.UserAgent = "plimsoll-agent/" + version
	rc.QPS, rc.Burst = 20, 40
	return rc, nil
}

// scrapeTargets turns the file's entries into the collector's. A mapping wins over the preset's rule for the same signal.
func scrapeTargets(in []PodMetrics) ([]collect.ScrapeTarget, error) {
	var out []collect.ScrapeTarget
	for _, p := range in {
		selector, err := labels.Parse(p.Selector)
		if err != nil {
			return nil, fmt.Errorf("pod metrics selector: %w", err)
		}
		t := collect.ScrapeTarget{Namespace: p.Namespace, Selector: selector, Annotation: p.Annotation, Port: p.Port, Path: p.Path}
		t.Rules = collect.Mapping(p.Mapping)
		if p.Preset == "vllm" {
			for _, r := range collect.VLLM() {
				if _, mapped := p.Mapping[r.Signal]; !mapped {
					t.Rules = append(t.Rules, r)
				}
			}
		}
		out = append(out, t)
	}
	return out, nil
}
