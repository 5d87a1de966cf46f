package charttest

import (
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// Evictions, cordons and Deployments are allowed in approve and enforce mode where that is asked for, and nowhere else; an uninstall undoes them.
func TestMachinesAreLetGoAndRoomIsKeptOnlyWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	may := func(rules []rbacv1.PolicyRule, resource, verb string) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
		})
	}
	for _, mode := range modes {
		for asked, more := range map[string]string{"": "", "drain": "drain: {enabled: true, checkpointPorts: [8123]}\n", "told": "drain: {enabled: true, annotations: true}\n", "warm": "warmPools: {enabled: true, max: 7}\n"} {
			r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+more)
			acts := slices.Contains(acting, mode)
			var agent, hook, own, ownHook []rbacv1.PolicyRule
			for _, role := range all[*rbacv1.ClusterRole](r) {
				if role.Annotations["helm.sh/hook"] != "" {
					hook = append(hook, role.Rules...)
				} else {
					agent = append(agent, role.Rules...)
				}
			}
			for _, role := range all[*rbacv1.Role](r) {
				if role.Annotations["helm.sh/hook"] != "" {
					ownHook = append(ownHook, role.Rules...)
				} else {
					own = append(own, role.Rules...)
				}
			}
			drains, told, warm := acts && (asked == "drain" || asked == "told"), acts && asked == "told", acts && asked == "warm"
			for what, x := range map[string][2]bool{
				"evict":                     {may(agent, "pods/eviction", "create"), drains},
				"cordon":                    {may(agent, "nodes", "patch"), drains},
				"uncordon on uninstall":     {may(hook, "nodes", "patch"), drains},
				"patch pods":                {may(agent, "pods", "patch"), told},
				"delete pods":               {may(agent, "pods", "delete"), false},
				"make deployments":          {may(own, "deployments", "create"), warm},
				"make deployments anywhere": {may(agent, "deployments", "create"), false},
				"delete them on uninstall":  {may(ownHook, "deployments", "delete"), warm},
			} {
				if x[0] != x[1] {
					t.Errorf("%s %q: may %s: %v, want %v", mode, asked, what, x[0], x[1])
				}
			}
			if n := len(all[*schedulingv1.PriorityClass](r)); (n == 1) != warm {
				t.Errorf("%s %q: %d priority classes", mode, asked, n)
			}
			for _, c := range all[*schedulingv1.PriorityClass](r) {
				if c.Value >= 0 || c.PreemptionPolicy == nil || *c.PreemptionPolicy != corev1.PreemptNever {
					t.Errorf("placeholders may take the place of others: %+v", c)
				}
			}
			if n := len(all[*batchv1.Job](r)); (n == 1) != (drains || warm) {
				t.Errorf("%s %q: %d Jobs", mode, asked, n)
			}
			for _, m := range all[*corev1.ConfigMap](r) {
				var c struct {
					Drain     struct{ Enabled bool }
					WarmPools struct {
						Enabled                  bool
						Namespace, PriorityClass string
						Max                      int
					}
				}
				if err := sigsyaml.Unmarshal([]byte(m.Data["agent.yaml"]), &c); err != nil {
					t.Fatal(err)
				}
				if m.Data["agent.yaml"] != "" && m.Labels["app.kubernetes.io/component"] != "node" && (c.Drain.Enabled != drains || c.WarmPools.Enabled != warm || warm && (c.WarmPools.Max != 7 || c.WarmPools.Namespace == "" || c.WarmPools.PriorityClass == "")) {
					t.Errorf("%s %q: %s says %+v", mode, asked, m.Name, c)
				}
			}
			opened := false
			for _, p := range all[*networkingv1.NetworkPolicy](r) {
				for _, e := range p.Spec.Egress {
					opened = opened || slices.ContainsFunc(e.Ports, func(x networkingv1.NetworkPolicyPort) bool { return x.Port.IntValue() == 8123 })
				}
			}
			if opened != (acts && asked == "drain") {
				t.Errorf("%s %q: the port of checkpoints is open: %v", mode, asked, opened)
			}
		}
	}
	if _, err := renderErr(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+"drain: {enabled: true}\nrbac: {scope: namespaced}\nnamespaces: {include: [llm]}"); err == nil {
		t.Error("drains are rendered for an agent that sees some namespaces only")
	}
}
