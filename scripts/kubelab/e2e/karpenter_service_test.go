package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// told is what the service says of Karpenter.
type told struct {
	Version int
	Stopped string
	Pools   []string
	Orders  []toldOrder
}

type toldOrder struct {
	ID, State, Kind string
	Generation      int
}

// toldAction is an object of an order.
type toldAction struct {
	ActionID string `json:"action_id"`
	Outcome  string
	Code     string
	Detail   string
	Writers  []string
}

func (s *service) karpenter(t *testing.T) (k told) {
	t.Helper()
	s.call(t, http.MethodGet, "/clusters/"+s.cluster+"/karpenter", nil, &k)
	return k
}

func (s *service) steer(t *testing.T, version int, on bool, more ...map[string]any) {
	t.Helper()
	settings := map[string]any{"enabled": on, "class_group": "karpenter.kwok.sh", "class_kind": "KWOKNodeClass", "class_name": "default"}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/karpenter", map[string]any{"version": version, "settings": settings}, nil)
}

// settled waits until an order that names these objects, in this or a later one than since, has an answer for each of them.
func (s *service) settled(t *testing.T, d time.Duration, what string, since int, ok func(toldAction) bool, ids ...string) {
	t.Helper()
	within(t, d, what, func() (bool, string) {
		k := s.karpenter(t)
		last := ""
		for _, o := range k.Orders {
			if o.Generation <= since {
				continue
			}
			var one struct{ Actions []toldAction }
			if err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/karpenter/orders/"+o.ID, nil, &one); err != nil {
				return false, err.Error()
			}
			found := map[string]bool{}
			for _, a := range one.Actions {
				if k := slices.IndexFunc(ids, func(id string) bool { return strings.HasPrefix(a.ActionID, id) }); k >= 0 {
					last = fmt.Sprintf("%s %s %s %s", a.ActionID, a.Outcome, a.Code, a.Detail)
					found[ids[k]] = found[ids[k]] || ok(a)
				}
			}
			if len(found) == len(ids) && !slices.Contains(slices.Collect(maps.Values(found)), false) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("stopped %q, %d orders, %s", k.Stopped, len(k.Orders), last)
	})
}

func (k told) newest() int {
	n := 0
	for _, o := range k.Orders {
		n = max(n, o.Generation)
	}
	return n
}

// seed is a machine of the cluster from before, that takes no pods: it says in
// which cloud and region the cluster is.
func (l *karpenterLab) seed(t *testing.T) {
	t.Helper()
	size := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110")}
	_, err := l.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "seed", Labels: map[string]string{"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a",
			"node.kubernetes.io/instance-type": "c6i.large", "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/hostname": "seed", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-00000000000000001", Taints: []corev1.Taint{{Key: "lab", Value: "seed", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestServiceSteersKarpenter lets the service plan a cluster's machines, its
// agent tell a real Karpenter, and the answers come back: nothing is handed
// over by hand.
func TestServiceSteersKarpenter(t *testing.T) {
	l := startKarpenterLab(t, "service", paidOffers())
	l.seed(t)
	s := startService(t)
	token := filepath.Join(l.dir, "token")
	if err := os.WriteFile(token, []byte(s.enrolmentToken(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("endpoint: %s\ntokenFile: %s\nclusterName: lab\nstateDir: %s\nmode: enforce\nmetricsAddress: 127.0.0.1:%d\nintervals: {sampleSeconds: 1, frameSeconds: 5, inventoryResyncSeconds: 10}\n"+
		"sources: {kubernetes: {enabled: true, kubeconfig: %s}}\nautoscalers: {karpenter: {enabled: true, own: ['*']}}\n", s.url, token, filepath.Join(l.dir, "agent"), freePort(t), filepath.Join(l.dir, "admin.kubeconfig"))
	if err := os.WriteFile(l.agent, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/capacity-policy", map[string]any{"version": 0, "rollout_override": "the cluster is new", "policy": map[string]any{
		"instance_types": []string{"c6i.large", "c6i.xlarge", "c6i.2xlarge", "m6i.large", "m6i.xlarge", "m6i.2xlarge"}, "zones": []string{"us-east-1a"}}}, nil)
	agent := launch(t, "agent-service", exec.Command(agentBin, "--config", l.agent, "--role", "controller"), "POD_NAME=plimsoll-agent-0")
	t.Cleanup(agent.stop)
	var pods []replica
	for i := range 12 {
		pods = append(pods, replica{name: fmt.Sprintf("p%03d", i), cpu: 1500, mem: 2500, spot: true})
	}
	l.demand(t, pods, false)
	within(t, 2*time.Minute, "nothing is in the way but the switch", func() (bool, string) {
		if !agent.alive() {
			t.Fatal(agent.tail())
		}
		k := s.karpenter(t)
		return k.Stopped == "off", k.Stopped
	})
	if n := len(l.names(t, nodePools)); n != 0 {
		t.Fatalf("%d pools before anybody switched it on", n)
	}
	begin := time.Now()
	s.steer(t, 0, true)
	l.allRun(t, 3*time.Minute, len(pods))
	cost, machines := l.cost(t)
	for _, n := range l.nodes(t) {
		if pool := n.Labels["karpenter.sh/nodepool"]; n.Name != "seed" && !strings.HasPrefix(pool, "plimsoll-") {
			t.Errorf("machine %s is of the pool %q", n.Name, pool)
		}
	}
	within(t, time.Minute, "an order is recorded as applied", func() (bool, string) {
		k := s.karpenter(t)
		return slices.ContainsFunc(k.Orders, func(o toldOrder) bool { return o.State == "applied" }), fmt.Sprintf("%+v", k)
	})
	if over := l.overLimits(t); over != "" {
		t.Errorf("bought twice: %s", over)
	}
	t.Logf("KARPENTER told by the service: %d pods run %.1f s after it was switched on, on %d machines for $%.2f/h", len(pods), time.Since(begin).Seconds(), machines, cost)

	name := l.names(t, nodePools)[0]
	l.edit(t, name)
	l.scale(t, "w-p000", 20)
	within(t, 3*time.Minute, "the service names both writers of a pool", func() (bool, string) {
		k := s.karpenter(t)
		for _, o := range k.Orders {
			var one struct{ Actions []toldAction }
			if err := s.try(http.MethodGet, "/clusters/"+s.cluster+"/karpenter/orders/"+o.ID, nil, &one); err != nil {
				return false, err.Error()
			}
			for _, a := range one.Actions {
				if a.ActionID == "pool/"+name && a.Code == "conflict" && slices.Contains(a.Writers, "kubectl-edit") && slices.Contains(a.Writers, "plimsoll-agent") {
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("%d orders", len(k.Orders))
	})
	if w := l.weight(t, name); w != 55 {
		t.Errorf("the weight that was set by hand is %d now", w)
	}
	l.allRun(t, 3*time.Minute, 20)
	l.owned(t, s)

	s.steer(t, s.karpenter(t).Version, false)
	l.scale(t, "w-p000", 0)
	within(t, 3*time.Minute, "empty machines go", func() (bool, string) {
		n := len(l.nodes(t))
		return n <= 1, fmt.Sprintf("%d machines", n)
	})
	within(t, 2*time.Minute, "handed back", func() (bool, string) {
		left := l.names(t, nodePools)
		if len(left) == 0 {
			return true, ""
		}
		if err := s.try(http.MethodPost, "/clusters/"+s.cluster+"/karpenter/hand-back", nil, nil); err != nil {
			return false, err.Error()
		}
		return false, fmt.Sprintf("%v left", left)
	})
	if left := l.names(t, nodeOverlays); left != nil {
		t.Errorf("prices are still told: %v", left)
	}
	l.asItWas(t)
	t.Log("KARPENTER handed back: no pool or price of ours is left, and the pool of others says what it said before")
}

// paidOffers are the built-in offers and two machines of a reservation.
func paidOffers() []offer {
	offers := builtIn()
	for _, o := range offers {
		if o.name == "m6i.2xlarge" && o.zone == "us-east-1a" && o.way == "on-demand" {
			o.way, o.reservation, o.count, o.price = "reserved", "cr-m6i", 2, 0.000001
			return append(offers, o)
		}
	}
	return nil
}

// theirs is a NodePool of somebody else, wide and first.
const theirs = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  weight: 100
  limits: {cpu: "1000"}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 600s, budgets: [{nodes: "20%"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m6i.4xlarge]}
`

// owned tells the service to take over a pool that somebody else made, to tell prices, and by which label reservations are named; then more pods come.
func (l *karpenterLab) owned(t *testing.T, s *service) {
	t.Helper()
	l.apply(t, theirs)
	sql(t, s.owner, `INSERT INTO cloud_account (tenant_id, id, cloud, name, subject, external_id, regions, sealed, next_at, created_by, created_at)
SELECT tenant_id, '0190b0e0-0000-7000-8000-0000000000a1', 'aws', 'reserved', 'role', '', '{us-east-1}', '', now() + interval '1 day', 'test', now() FROM cluster WHERE id = '`+s.cluster+`'`)
	sql(t, s.owner, `INSERT INTO capacity_stock (tenant_id, account_id, ref, cloud, region, zone, instance_type, total, available, block, state, seen_at)
SELECT tenant_id, '0190b0e0-0000-7000-8000-0000000000a1', 'cr-m6i', 'aws', 'us-east-1', 'us-east-1a', 'm6i.2xlarge', 2, 2, false, 'active', now() FROM cluster WHERE id = '`+s.cluster+`'`)
	k := s.karpenter(t)
	begin := time.Now()
	s.steer(t, k.Version, true, map[string]any{"own": []string{"general"}, "prices": true, "reservation_key": reservationLabel})
	done := func(a toldAction) bool { return a.Outcome == "applied" || a.Outcome == "already" }
	s.settled(t, 90*time.Second, "the pool of others is taken over, and prices are told", k.newest(), done, "pool/general", "overlay/plimsoll-")
	took := time.Since(begin)
	u, err := l.objects.Resource(nodePools).Get(t.Context(), "general", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cpu, _, _ := unstructured.NestedString(u.Object, "spec", "limits", "cpu")
	if w := l.weight(t, "general"); w != 1 || cpu != "1000" || !strings.Contains(u.GetAnnotations()["plimsoll.dev/before"], `"spec.weight":100`) {
		t.Errorf("weight %d, limit %s, kept %s", w, cpu, u.GetAnnotations()["plimsoll.dev/before"])
	}
	prices := l.list(t, nodeOverlays, "plimsoll.dev/managed=true")
	within(t, 30*time.Second, "Karpenter takes the prices", func() (bool, string) {
		prices = l.list(t, nodeOverlays, "plimsoll.dev/managed=true")
		ready := 0
		for _, o := range prices {
			if strings.Contains(fmt.Sprint(o.Object["status"]), "status:True") {
				ready++
			}
		}
		return ready == len(prices) && ready > 0, fmt.Sprintf("%d of %d", ready, len(prices))
	})
	before := l.names2(t)
	l.scale(t, "w-p000", 30)
	l.allRun(t, 2*time.Minute, 30)
	reserved, others := 0, 0
	for _, n := range l.nodes(t) {
		if n.Labels["karpenter.sh/nodepool"] == "general" {
			others++
		}
		if n.Labels["karpenter.sh/capacity-type"] == "reserved" && n.Labels[reservationLabel] == "cr-m6i" {
			reserved++
		}
	}
	if others > 0 {
		t.Errorf("%d machines were bought through the pool that was taken over", others)
	}
	if reserved == 0 {
		t.Errorf("no reserved machine among %d new ones", len(l.nodes(t))-len(before))
	}
	t.Logf("KARPENTER told by the service: a pool of others taken over and %d prices told %.1f s after it was asked for; 10 more pods run on %d of 2 reserved machines, none of that pool", len(prices), took.Seconds(), reserved)
}

// asItWas checks that the pool of others says what it said before.
func (l *karpenterLab) asItWas(t *testing.T) {
	t.Helper()
	u, err := l.objects.Resource(nodePools).Get(t.Context(), "general", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the pool of others is gone: %v", err)
	}
	policy, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidationPolicy")
	after, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidateAfter")
	cpu, _, _ := unstructured.NestedString(u.Object, "spec", "limits", "cpu")
	if w := l.weight(t, "general"); w != 100 || policy != "WhenEmptyOrUnderutilized" || after != "600s" || cpu != "1000" || u.GetLabels()["plimsoll.dev/managed"] != "" || len(u.GetAnnotations()["plimsoll.dev/before"]) > 0 {
		t.Errorf("weight %d, %s after %s, limit %s, labels %v, annotations %v", w, policy, after, cpu, u.GetLabels(), u.GetAnnotations())
	}
	for _, m := range u.GetManagedFields() {
		if m.Manager == "plimsoll-agent" {
			t.Errorf("its owner's next change would conflict with ours: %s", m.FieldsV1.GetRawString())
		}
	}
	l.apply(t, strings.Replace(theirs, "weight: 100", "weight: 90", 1)) // whoever made it changes it as before
	if w := l.weight(t, "general"); w != 90 {
		t.Errorf("weight %d", w)
	}
}
