package collect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
)

// MetricsAPI reads CPU and memory use of pods from metrics.k8s.io.
type MetricsAPI struct {
	client     versioned.Interface
	namespaces []string // empty string: all
}

// NewMetricsAPI makes the source; no namespace means all.
func NewMetricsAPI(client versioned.Interface, namespaces []string) *MetricsAPI {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &MetricsAPI{client: client, namespaces: namespaces}
}

// Name implements Source.
func (m *MetricsAPI) Name() string { return "metrics_api" }

// Collect implements Source.
func (m *MetricsAPI) Collect(ctx context.Context, in Input) (Batch, error) {
	use := map[string]*metricsv1beta1.PodMetrics{}
	for _, ns := range m.namespaces {
		list, err := m.client.MetricsV1beta1().PodMetricses(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return Batch{}, fmt.Errorf("read metrics.k8s.io: %w", err)
		}
		for i := range list.Items {
			use[list.Items[i].Namespace+"/"+list.Items[i].Name] = &list.Items[i]
		}
	}
	g := newGather()
	for _, p := range in.Pods {
		got := map[string]float64{}
		want := []string{SignalCPU, SignalMemory}
		if p.CPUMilli > 0 {
			want = append(want, SignalCPURatio)
		}
		if u := use[p.Namespace+"/"+p.Name]; u != nil {
			cpu, mem := sumUsage(u)
			got[SignalCPU], got[SignalMemory] = cpu, mem
			if p.CPUMilli > 0 {
				got[SignalCPURatio] = cpu * 1000 / float64(p.CPUMilli)
			}
		}
		g.pod(p, want, got)
	}
	return Batch{Workloads: g.signals(in.NowMS)}, nil
}

// sumUsage adds up the containers: cores and MiB.
func sumUsage(u *metricsv1beta1.PodMetrics) (cores, memMiB float64) {
	for _, c := range u.Containers {
		cores += float64(c.Usage.Cpu().MilliValue()) / 1000
		mem := c.Usage[corev1.ResourceMemory]
		memMiB += float64(mem.Value()) / (1 << 20)
	}
	return cores, memMiB
}
