package charttest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// rules returns every rule of a release, and fails if a role is bound to
// anybody but the agent's service account.
func rules(t *testing.T, r release) (out []rbacv1.PolicyRule) {
	t.Helper()
	for _, role := range all[*rbacv1.ClusterRole](r) {
		out = append(out, role.Rules...)
	}
	for _, role := range all[*rbacv1.Role](r) {
		out = append(out, role.Rules...)
	}
	var subjects []rbacv1.Subject
	for _, b := range all[*rbacv1.ClusterRoleBinding](r) {
		subjects = append(subjects, b.Subjects...)
	}
	for _, b := range all[*rbacv1.RoleBinding](r) {
		subjects = append(subjects, b.Subjects...)
	}
	account := one[*corev1.ServiceAccount](t, r)
	for _, s := range subjects {
		if s.Kind != "ServiceAccount" || s.Name != account.Name || s.Namespace != account.Namespace {
			t.Errorf("bound to %+v", s)
		}
	}
	if len(out) == 0 || len(subjects) == 0 {
		t.Fatal("no rules or no bindings")
	}
	return out
}

func TestReadOnlyModesHoldNoWriteVerb(t *testing.T) {
	t.Parallel()
	for _, mode := range readOnly {
		for _, more := range []string{"", "rbac: {scope: namespaced}\nnamespaces: {include: [llm]}", "sources: {kubernetes: {metricsAPI: true}}"} {
			r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+more)
			for _, rule := range rules(t, r) {
				for _, verb := range rule.Verbs {
					if !slices.Contains(reads, verb) {
						t.Errorf("%s %q: %v on %v %v", mode, more, verb, rule.APIGroups, rule.Resources)
					}
				}
			}
		}
	}
}

// TestActingModesWriteScaleAndNothingElse lists every write that approve and
// enforce may do; one more or one less fails.
func TestActingModesWriteScaleAndNothingElse(t *testing.T) {
	t.Parallel()
	want := []string{
		"patch apps/deployments/scale", "patch apps/statefulsets/scale",
		"patch leaderworkerset.x-k8s.io/leaderworkersets/scale",
		"update apps/deployments/scale", "update apps/statefulsets/scale", "update leaderworkerset.x-k8s.io/leaderworkersets/scale",
	}
	for _, mode := range acting {
		for _, more := range []string{"", "rbac: {scope: namespaced}\nnamespaces: {include: [llm]}"} {
			var got []string
			for _, rule := range rules(t, render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+more)) {
				for _, verb := range rule.Verbs {
					for _, group := range rule.APIGroups {
						for _, resource := range rule.Resources {
							if !slices.Contains(reads, verb) {
								got = append(got, verb+" "+group+"/"+resource)
							}
						}
					}
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s %q writes\n%v, want\n%v", mode, more, got, want)
			}
		}
	}
}

// TestReadsAreListed lists what every mode reads; one more or one less fails.
func TestReadsAreListed(t *testing.T) {
	t.Parallel()
	inNamespaces := []string{"apps/daemonsets", "apps/deployments", "apps/replicasets", "apps/statefulsets", "autoscaling/horizontalpodautoscalers", "batch/jobs",
		"core/pods", "leaderworkerset.x-k8s.io/leaderworkersets", "policy/poddisruptionbudgets"}
	for more, want := range map[string][]string{
		"": append([]string{"core/events", "core/nodes", "karpenter.sh/nodeclaims"}, inNamespaces...),
		"rbac: {scope: namespaced}\nnamespaces: {include: [llm]}": append([]string{"core/nodes", "karpenter.sh/nodeclaims"}, inNamespaces...),
	} {
		for _, mode := range readOnly {
			var got []string
			for _, rule := range rules(t, render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+more)) {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						got = append(got, cmp.Or(group, "core")+"/"+resource)
					}
				}
			}
			slices.Sort(got)
			if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
				t.Errorf("%s %q reads\n%v, want\n%v", mode, more, got, want)
			}
		}
	}
}

func TestNoModeReadsSecretsOrUsesWildcards(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for _, rule := range rules(t, render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode))) {
			for _, s := range slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources) {
				if strings.Contains(s, "*") || s == "secrets" || strings.Contains(s, "eviction") {
					t.Errorf("%s: %+v", mode, rule)
				}
			}
		}
	}
}

func TestNamespacedScopeGrantsWorkloadsOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+"rbac: {scope: namespaced}\nnamespaces: {include: [llm, batch]}")
	var in []string
	for _, role := range all[*rbacv1.Role](r) {
		in = append(in, role.Namespace)
	}
	if want := []string{"llm", "batch"}; !slices.Equal(in, want) {
		t.Errorf("roles in %v, want %v", in, want)
	}
	for _, rule := range one[*rbacv1.ClusterRole](t, r).Rules {
		for _, resource := range rule.Resources {
			if resource != "nodes" && resource != "nodeclaims" {
				t.Errorf("cluster-wide %s", resource)
			}
		}
	}
}

func TestRBACAndServiceAccountOfYourOwn(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+"rbac: {create: false}\nserviceAccount: {create: false, name: mine}")
	if n := len(all[*rbacv1.ClusterRole](r)) + len(all[*corev1.ServiceAccount](r)); n != 0 {
		t.Errorf("%d objects made", n)
	}
	if got := one[*appsv1.Deployment](t, r).Spec.Template.Spec.ServiceAccountName; got != "mine" {
		t.Errorf("service account %q", got)
	}
}
