package charttest

import (
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// NodePools and NodeOverlays may be written in approve and enforce mode where that is asked for, by the agent and, when it is gone, by the
// hook that hands them back; nowhere else, and never machines.
func TestKarpenterIsSteeredOnlyWhereItIsAskedForAndHandedBack(t *testing.T) {
	t.Parallel()
	const on = "autoscalers: {karpenter: {enabled: true, own: [gpu, '*']}}\n"
	for _, mode := range modes {
		for _, asked := range []string{"", on} {
			for _, scope := range []string{"", "rbac: {scope: namespaced}\nnamespaces: {include: [llm]}"} {
				r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+asked+scope)
				want := asked != "" && slices.Contains(acting, mode)
				agent, hook := 0, 0
				for _, role := range all[*rbacv1.ClusterRole](r) {
					for _, rule := range role.Rules {
						if slices.Contains(rule.Resources, "nodeclaims") && slices.ContainsFunc(rule.Verbs, func(v string) bool { return v != "get" && v != "list" && v != "watch" }) {
							t.Errorf("%s %q: %s may %v NodeClaims", mode, scope, role.Name, rule.Verbs)
						}
						if !slices.Contains(rule.Resources, "nodepools") {
							continue
						}
						if role.Annotations["helm.sh/hook"] == "post-delete" {
							hook++
						} else {
							agent++
						}
					}
				}
				if (agent == 1) != want || (hook == 1) != want {
					t.Errorf("%s %q %q: %d rules of the agent, %d of the hook", mode, asked, scope, agent, hook)
				}
				jobs := all[*batchv1.Job](r)
				if (len(jobs) == 1) != want {
					t.Errorf("%s %q %q: %d Jobs", mode, asked, scope, len(jobs))
				}
				for _, job := range jobs {
					if c := configOf(t, r, job.Name); !c.Sources.Kubernetes.Enabled {
						t.Errorf("%+v", c)
					}
				}
			}
		}
	}
}
