package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestHPABounds: a workload with an HPA of its own, whose bounds the agent moves instead of the count. The real HPA
// controller brings the count between them; both are one writer, not two; and its owner gets the bounds back.
func TestHPABounds(t *testing.T) {
	c := startCluster(t)
	c.addNodes(t)
	c.deploy(t, 1)
	l := serveLoad(t, c)
	s := startService(t)
	token := s.enrolmentToken(t)
	files := render(t, "plimsoll-agent", agentNamespace, fmt.Sprintf(`
endpoint: %s
clusterName: lab
mode: enforce
enrolment: {existingSecret: unused}
namespaces: {include: [%s]}
intervals: {sampleSeconds: 1, frameSeconds: 5, inventoryResyncSeconds: 10}
autoscalers: {hpa: {mode: bounds, headroomPercent: 0}}
sources:
  podMetrics: [{selector: app=vllm, port: %d, path: /metrics, mapping: {queue_length: "vllm:num_requests_waiting"}}]
`, s.url, namespace, metricsPort))
	c.namespace(t, agentNamespace, nil)
	c.apply(t, files["serviceaccount.yaml"], files["rbac.yaml"])
	var m corev1.ConfigMap
	if err := sigsyaml.Unmarshal([]byte(files["configmap.yaml"]), &m); err != nil {
		t.Fatal(err)
	}
	c.ownHPA(t, 1, 7)
	a := installAgent(t, c, m.Data["agent.yaml"], token)
	a.start(t)
	w := s.workload(t)
	s.setPolicy(t, w, policy)

	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"moves the bounds up, and the HPA follows", func(t *testing.T) {
			l.set(50, 10)
			c.waitBounds(t, 5, 5)
			c.waitReplicas(t, 60*time.Second, 5) // an HPA looks every 15 s
			s.applied(t, "scale_up", 5)
		}},
		{"is no other writer than the HPA", func(t *testing.T) {
			if there, who := s.writer(w, "HorizontalPodAutoscaler/owned"); there {
				t.Fatalf("the HPA is shown as another controller: %s", who)
			}
			never(t, 10*time.Second, "a write under a steady load", c.changed(t, 5))
		}},
		{"does not pass what the HPA's owner allows", func(t *testing.T) {
			l.set(80, 10) // eight, where the owner allows seven
			within(t, patience, "refused", func() (bool, string) { return s.refused("forbidden") })
			c.waitBounds(t, 5, 5)
		}},
		{"moves them down", func(t *testing.T) {
			l.set(20, 10)
			c.waitBounds(t, 2, 2)
			c.waitReplicas(t, 60*time.Second, 2)
		}},
		{"gives them back", func(t *testing.T) {
			a.running.stop()
			p := launch(t, "hand-back", exec.Command(agentBin, "--config", filepath.Join(a.dir, "agent.yaml"), "--hand-back"))
			<-p.done
			if !p.cmd.ProcessState.Success() {
				t.Fatal(p.tail())
			}
			c.waitBounds(t, 1, 7)
			h, err := c.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "owned", metav1.GetOptions{})
			if err != nil || len(h.Labels)+len(h.Annotations) != 0 {
				t.Fatalf("traces are left: %v %v, %v", h.Labels, h.Annotations, err)
			}
			never(t, 20*time.Second, "a change by the restored bounds", c.changed(t, 2))
		}},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("%s\n%s", a.running.tail(), s.worker.tail())
		}
	}
}

// ownHPA makes an HPA on CPU, which this cluster does not measure: it acts outside its bounds only.
func (c *cluster) ownHPA(t *testing.T, lowest, highest int32) {
	t.Helper()
	use := int32(50)
	_, err := c.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "owned"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload},
			MinReplicas:    &lowest, MaxReplicas: highest,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &use},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) waitBounds(t *testing.T, lowest, highest int32) {
	t.Helper()
	within(t, patience, fmt.Sprintf("bounds %d to %d", lowest, highest), func() (bool, string) {
		h, err := c.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "owned", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return *h.Spec.MinReplicas == lowest && h.Spec.MaxReplicas == highest, fmt.Sprintf("%d to %d", *h.Spec.MinReplicas, h.Spec.MaxReplicas)
	})
}

// refused says whether the agent refused one of the newest decisions with a code.
func (s *service) refused(code string) (bool, string) {
	list, err := s.decisions()
	if err != nil {
		return false, err.Error()
	}
	for _, d := range list {
		if d.ResultCode != nil && *d.ResultCode == code {
			return true, code
		}
	}
	return false, fmt.Sprintf("%+v", list[:min(len(list), 3)])
}
