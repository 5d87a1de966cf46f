package charttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestAutoscalersAreServedOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	off := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce"))
	if n := len(all[*corev1.Service](off)) + len(all[*batchv1.Job](off)); n != 0 {
		t.Errorf("%d objects for autoscalers though nothing is served", n)
	}
	if c := configOf(t, off, "lab-plimsoll-agent"); c.Autoscalers.Expander || c.Autoscalers.KEDA || c.Autoscalers.HPA.Mode != "replicas" {
		t.Errorf("%+v", c.Autoscalers)
	}
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+`
autoscalers: {expander: {enabled: true}, keda: {enabled: true, namespace: scaling}, port: 9500, tls: {existingSecret: agent-tls, clientCertificates: true}}
gpu: {enabled: true}
`)
	service, pod := one[*corev1.Service](t, r), one[*appsv1.Deployment](t, r).Spec.Template
	for k, v := range service.Spec.Selector {
		if pod.Labels[k] != v {
			t.Errorf("the Service selects %s=%s, the pod has %q", k, v, pod.Labels[k])
		}
	}
	for k, v := range one[*appsv1.DaemonSet](t, r).Spec.Template.Labels {
		if k == "app.kubernetes.io/component" && service.Spec.Selector[k] == v {
			t.Error("the Service selects the pods that read GPUs")
		}
	}
	port := func(name string) int32 {
		for _, p := range pod.Spec.Containers[0].Ports {
			if p.Name == name {
				return p.ContainerPort
			}
		}
		return 0
	}
	if p := service.Spec.Ports[0]; p.Port != 9500 || port(p.TargetPort.StrVal) != 9500 {
		t.Errorf("port %d to %s, the container's is %d", p.Port, p.TargetPort.StrVal, port(p.TargetPort.StrVal))
	}
	c := configOf(t, r, "lab-plimsoll-agent").Autoscalers
	mounted, secret := false, ""
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounted = mounted || m.MountPath == "/etc/plimsoll-tls" && m.Name == "tls" && m.ReadOnly
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == "tls" {
			secret = v.Secret.SecretName
		}
	}
	if c.Address != ":9500" || !c.Expander || !c.KEDA || !mounted || secret != "agent-tls" || c.TLS.CertFile != "/etc/plimsoll-tls/tls.crt" || c.TLS.KeyFile != "/etc/plimsoll-tls/tls.key" || c.TLS.ClientCAFile != "/etc/plimsoll-tls/ca.crt" {
		t.Errorf("%+v, mounted %v, secret %q", c, mounted, secret)
	}
	var from []string
	for _, rule := range one[*networkingv1.NetworkPolicy](t, r).Spec.Ingress {
		if rule.Ports[0].Port.IntValue() != 9500 {
			continue
		}
		for _, peer := range rule.From {
			from = append(from, peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
		}
	}
	if !slices.Equal(from, []string{"kube-system", "scaling"}) {
		t.Errorf("the port is open to %v", from)
	}
	if !strings.Contains(r.notes, "lab-plimsoll-agent.plimsoll.svc:9500") {
		t.Errorf("the notes do not say where it is:\n%s", r.notes)
	}
	one := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+"autoscalers: {keda: {enabled: true}}")
	for _, rule := range all[*networkingv1.NetworkPolicy](one)[0].Spec.Ingress {
		if rule.Ports[0].Port.IntValue() == 9402 && len(rule.From) != 1 {
			t.Errorf("KEDA alone: open to %v", rule.From)
		}
	}
}

func TestAutoscalerValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"the expander without TLS":              "autoscalers: {expander: {enabled: true}}",
		"client certificates without a Secret":  "autoscalers: {keda: {enabled: true}, tls: {clientCertificates: true}}",
		"a mode of HPAs that nobody knows":      "autoscalers: {hpa: {mode: fight}}",
		"a headroom beyond what is understood":  "autoscalers: {hpa: {headroomPercent: 5000}}",
		"a key that is none":                    "autoscalers: {expandr: {enabled: true}}",
		"a port that is none":                   "autoscalers: {port: 99999}",
		"a namespace that would match anything": "autoscalers: {keda: {namespace: \"\"}}",
	} {
		if _, err := renderErr(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+values); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
}

// What moves bounds may update HPAs and nothing more, and hands them back when the agent is gone, with an account that goes with it.
func TestBoundsOfHPAsAreMovedAndHandedBack(t *testing.T) {
	t.Parallel()
	const bounds = "autoscalers: {hpa: {mode: bounds}}\n"
	for _, mode := range modes {
		for _, scope := range []string{"", "rbac: {scope: namespaced}\nnamespaces: {include: [llm, batch]}"} {
			r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+bounds+scope)
			jobs := all[*batchv1.Job](r)
			if !slices.Contains(acting, mode) {
				if len(jobs) != 0 {
					t.Errorf("%s %q: a Job though nothing is ever moved", mode, scope)
				}
				continue
			}
			if len(jobs) != 1 {
				t.Fatalf("%s %q: %d Jobs", mode, scope, len(jobs))
			}
			job, spec := jobs[0], jobs[0].Spec.Template.Spec
			if job.Annotations["helm.sh/hook"] != "post-delete" || !slices.Contains(spec.Containers[0].Args, "--hand-back") || spec.ServiceAccountName != job.Name {
				t.Errorf("%+v %+v", job.Annotations, spec)
			}
			if c := configOf(t, r, job.Name); !c.Sources.Kubernetes.Enabled || scope != "" && len(c.Namespaces.Include) != 2 {
				t.Errorf("%+v", c)
			}
			var agent, hook []string
			rules := func(name, annotation string, rs []rbacv1.PolicyRule) {
				for _, rule := range rs {
					if !slices.Contains(rule.Resources, "horizontalpodautoscalers") {
						if annotation != "" {
							t.Errorf("%s: the hook may also %v %v", name, rule.Verbs, rule.Resources)
						}
						continue
					}
					if annotation != "" {
						hook = append(hook, rule.Verbs...)
					} else {
						agent = append(agent, rule.Verbs...)
					}
				}
			}
			for _, x := range all[*rbacv1.ClusterRole](r) {
				rules(x.Name, x.Annotations["helm.sh/hook"], x.Rules)
			}
			for _, x := range all[*rbacv1.Role](r) {
				rules(x.Name, x.Annotations["helm.sh/hook"], x.Rules)
			}
			slices.Sort(agent)
			slices.Sort(hook)
			if got := slices.Compact(agent); !slices.Equal(got, []string{"get", "list", "update", "watch"}) {
				t.Errorf("%s %q: the agent may %v HPAs", mode, scope, got)
			}
			if got := slices.Compact(hook); !slices.Equal(got, []string{"list", "update"}) {
				t.Errorf("%s %q: the hook may %v HPAs", mode, scope, got)
			}
			for _, b := range all[*rbacv1.ClusterRoleBinding](r) {
				if want := map[bool]string{true: job.Name, false: "lab-plimsoll-agent"}[b.Annotations["helm.sh/hook"] != ""]; b.Subjects[0].Name != want {
					t.Errorf("%s is bound to %s", b.Name, b.Subjects[0].Name)
				}
			}
		}
	}
}
