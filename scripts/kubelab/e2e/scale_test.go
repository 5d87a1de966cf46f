package e2e

import (
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policy asks for one replica per ten waiting requests and holds nothing back:
// damping has its own tests, here the way to the cluster is tested.
const policy = `
mode: enforce
min: 1
max: 8
target_ratio:
- {signal: queue_length, type: average_value, target: 10}
filter: {window_seconds: -1, outlier_mad: -1}
up: {cooldown_seconds: -1, stabilisation_seconds: -1, steps: [{type: pods, value: 100, period_seconds: 1}]}
down: {cooldown_seconds: -1, stabilisation_seconds: -1, steps: [{type: percent, value: 100, period_seconds: 1}]}
flap: {cycles_per_hour: -1}
max_signal_age_seconds: 15
plan_ttl_seconds: 20
`

// patience is how long a change of load may take to arrive as ready replicas.
const patience = 45 * time.Second

// TestAgent is one installation, taken through a day: the steps build on each
// other and stop at the first that fails.
func TestAgent(t *testing.T) {
	c := startCluster(t)
	c.addNodes(t)
	c.deploy(t, 1)
	l := serveLoad(t, c)
	s := startService(t)
	token := s.enrolmentToken(t)
	a := installAgent(t, c, installRights(t, c, s.url), token)
	a.start(t)
	w := s.workload(t)
	s.setPolicy(t, w, policy)

	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"scales up to the need", func(t *testing.T) {
			l.set(60, 10)
			c.waitReplicas(t, patience, 6)
			s.applied(t, "scale_up", 6)
		}},
		{"stops at the policy's maximum", func(t *testing.T) {
			l.set(500, 10)
			c.waitReplicas(t, patience, 8)
			never(t, 5*time.Second, "another write", c.changed(t, 8))
		}},
		{"holds under a steady load", func(t *testing.T) {
			l.set(60, 10)
			c.waitReplicas(t, patience, 6)
			never(t, 15*time.Second, "a write under a steady load", c.changed(t, 6))
		}},
		{"holds when the pods fall silent", func(t *testing.T) {
			l.setSilent(true)
			never(t, 25*time.Second, "a write without a signal", c.changed(t, 6))
			l.setSilent(false)
		}},
		{"scales down with the load", func(t *testing.T) {
			l.set(15, 2)
			c.waitReplicas(t, patience, 2)
			s.applied(t, "scale_down", 2)
		}},
		{"is killed, comes back with its identity and catches up", func(t *testing.T) {
			a.running.kill()
			l.set(40, 5)
			never(t, 8*time.Second, "a write without an agent", c.changed(t, 2))
			a.write(t, "token", []byte("spent")) // an enrolment token counts once: the identity must have been kept
			a.start(t)
			c.waitReplicas(t, patience, 4)
		}},
		{"does nothing while the service is away, and catches up", func(t *testing.T) {
			s.serve.kill()
			l.set(70, 5)
			never(t, 25*time.Second, "a write without the service", c.changed(t, 4)) // longer than a plan lives
			if !a.running.alive() {
				t.Fatal(a.running.tail())
			}
			s.startServe(t)
			c.waitReplicas(t, patience, 7)
		}},
		{"reports another autoscaler and yields to it", func(t *testing.T) {
			c.fightingHPA(t, 3)
			c.waitReplicas(t, 90*time.Second, 3) // an HPA looks every 15 s
			within(t, patience, "conflict reported", func() (bool, string) { return s.held("conflict") })
			within(t, patience, "the other is named", func() (bool, string) { return s.writer(w, "HorizontalPodAutoscaler/fighter") })
			never(t, 20*time.Second, "a write against the other", c.changed(t, 3))
		}},
		{"takes the field over when the other is gone and it is told to", func(t *testing.T) {
			err := c.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Delete(t.Context(), "fighter", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// without this it would wait until the other has been quiet for ten minutes
			s.setPolicy(t, w, policy+"own_replicas: true\n")
			c.waitReplicas(t, patience, 7)
		}},
		{"loses its disk, enrols again and goes on", func(t *testing.T) {
			a.loseDisk(t)
			a.write(t, "token", []byte(token)) // the same installation may use it again
			a.start(t)
			l.set(40, 5)
			c.waitReplicas(t, patience, 4)
		}},
		{"changes nothing when it is frozen on the spot", func(t *testing.T) {
			a.running.stop()
			a.edit(t, func(m map[string]any) { m["limits"].(map[string]any)["freeze"] = true })
			a.start(t)
			l.set(70, 5)
			never(t, 15*time.Second, "a write of a frozen agent", c.changed(t, 4))
		}},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("%s\n%s", a.running.tail(), s.worker.tail())
		}
	}
}

// fightingHPA makes an HPA that wants n replicas and no others. It needs no
// metrics: outside its bounds an HPA acts without looking at any.
func (c *cluster) fightingHPA(t *testing.T, n int32) {
	t.Helper()
	use := int32(50)
	_, err := c.kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "fighter"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload},
			MinReplicas:    &n, MaxReplicas: n,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &use},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// key is how the agent names the workload.
var key = fmt.Sprintf("%s/Deployment/%s", namespace, workload)
