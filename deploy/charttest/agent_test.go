package charttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

const agentValues = `
endpoint: https://plimsoll.example.com
clusterName: prod
enrolment: {token: once}
mode: %s
`

var (
	readOnly = []string{"observe", "recommend"}
	acting   = []string{"approve", "enforce"}
	modes    = slices.Concat(readOnly, acting)
	reads    = []string{"get", "list", "watch"}
)

func TestEveryModeAndGPUSourceRenders(t *testing.T) {
	t.Parallel()
	everything := `
rbac: {scope: %s}
namespaces: {include: [llm, batch]}
caBundle: {existingConfigMap: corp-ca}
controller: {podDisruptionBudget: {enabled: true}, podLabels: {a: b}, podAnnotations: {c: d}, extraEnv: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]}
gpu: {enabled: true, runtimeClassName: nvidia, dcgm: {mode: %s}}
metrics: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}
sources: {podMetrics: [{selector: app=vllm, port: 8000, preset: vllm}, {annotation: plimsoll.dev/scrape=true, preset: vllm}]}
`
	for _, mode := range modes {
		for _, scope := range []string{"cluster", "namespaced"} {
			for _, dcgm := range []string{"exporter-scrape", "hostengine", "embedded"} {
				t.Run(mode+" "+scope+" "+dcgm, func(t *testing.T) {
					t.Parallel()
					r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)+fmt.Sprintf(everything, scope, dcgm))
					want := []string{
						"ClusterRole", "ClusterRoleBinding", "ConfigMap", "ConfigMap", "DaemonSet", "Deployment", "NetworkPolicy",
						"PersistentVolumeClaim", "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "Secret", "ServiceAccount",
					}
					if scope == "namespaced" { // a role and its binding in each of two namespaces
						want = slices.Insert(want, 11, "Role", "Role", "RoleBinding", "RoleBinding")
					}
					if got := kinds(r); !slices.Equal(got, want) {
						t.Errorf("%v, want %v", got, want)
					}
				})
			}
		}
	}
}

// agentConfig is the agent's configuration file as the agent reads it.
type agentConfig struct {
	Endpoint, TokenFile, StateDir, ClusterName, Mode, MetricsAddress string
	Namespaces                                                       struct{ Include, Exclude []string }
	Intervals                                                        struct{ SampleSeconds, FrameSeconds, InventoryResyncSeconds int }
	Spool                                                            struct{ MaxBytes int64 }
	Uplink                                                           struct{ Transport string }
	Limits                                                           struct {
		MaxReplicas, MaxReplicasPerWorkload, MaxActionsPerMinute int
		Freeze                                                   bool
	}
	Autoscalers struct {
		Address        string
		Expander, KEDA bool
		TLS            struct{ CertFile, KeyFile, ClientCAFile string }
		HPA            struct {
			Mode            string
			HeadroomPercent int
		}
		Karpenter struct {
			Enabled bool
			Own     []string
		}
	}
	Sources struct {
		Kubernetes struct{ Enabled, MetricsAPI bool }
		PodMetrics []struct {
			Namespace, Selector, Annotation, Path, Preset string
			Port                                          int
			Mapping                                       map[string]string
		}
		DCGMExporter []struct{ URL string } `json:"dcgmExporter"`
		DCGM         struct{ Mode, Address string }
	}
}

func configOf(t *testing.T, r release, name string) (c agentConfig) {
	t.Helper()
	for _, m := range all[*corev1.ConfigMap](r) {
		if m.Name == name {
			if err := sigsyaml.UnmarshalStrict([]byte(m.Data["agent.yaml"]), &c); err != nil {
				t.Fatalf("%v\n%s", err, m.Data["agent.yaml"])
			}
			return c
		}
	}
	t.Fatalf("no ConfigMap %s", name)
	return c
}

func TestConfigurationFollowsValues(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+`
transport: push
state: {spoolMaxBytes: 104857600}
limits: {maxReplicas: 40, freeze: true}
intervals: {sampleSeconds: 5}
namespaces: {include: [llm]}
sources: {podMetrics: [{selector: app=vllm, port: 8000, path: /metrics, mapping: {queue_length: "vllm:num_requests_waiting"}}]}
`)
	c := configOf(t, r, "lab-plimsoll-agent")
	pod := one[*appsv1.Deployment](t, r).Spec.Template.Spec
	mounted := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	for name, ok := range map[string]bool{
		"endpoint":   c.Endpoint == "https://plimsoll.example.com",
		"transport":  c.Uplink.Transport == "push",
		"mode":       c.Mode == "enforce" && c.ClusterName == "prod",
		"spool":      c.Spool.MaxBytes == 104857600,
		"limits":     c.Limits.MaxReplicas == 40 && c.Limits.Freeze && c.Limits.MaxReplicasPerWorkload == 100 && c.Limits.MaxActionsPerMinute == 30,
		"intervals":  c.Intervals.SampleSeconds == 5 && c.Intervals.FrameSeconds == 60,
		"namespaces": slices.Equal(c.Namespaces.Include, []string{"llm"}) && slices.Equal(c.Namespaces.Exclude, []string{"kube-system"}),
		"signals":    len(c.Sources.PodMetrics) == 1 && c.Sources.PodMetrics[0].Mapping["queue_length"] == "vllm:num_requests_waiting",
		"token file": c.TokenFile == "/var/run/secrets/plimsoll/token" && mounted["/var/run/secrets/plimsoll"] == "enrolment",
		"state":      mounted[c.StateDir] == "state",
		"args":       slices.Equal(pod.Containers[0].Args, []string{"--config", "/etc/plimsoll/agent.yaml", "--role", "controller"}),
		"config":     mounted["/etc/plimsoll"] == "config",
		"secret":     one[*corev1.Secret](t, r).StringData["token"] == "once",
	} {
		if !ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestChangedConfigurationRestartsThePod(t *testing.T) {
	t.Parallel()
	sum := func(more string) string {
		r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "observe")+more)
		return one[*appsv1.Deployment](t, r).Spec.Template.Annotations["checksum/config"]
	}
	if a, b := sum(""), sum("limits: {freeze: true}"); a == "" || a == b {
		t.Errorf("checksums %q and %q", a, b)
	}
}

// TestEveryPodCarriesTheInstallID: without it the second pod's enrolment is
// refused, because a token belongs to the installation that used it first.
func TestEveryPodCarriesTheInstallID(t *testing.T) {
	t.Parallel()
	for values, tokenIn := range map[string]string{
		"":                                    "lab-plimsoll-agent-enrolment",
		"enrolment: {existingSecret: sealed}": "sealed",
		"enrolment: {installID: " + strings.Repeat("a", 32) + "}": "lab-plimsoll-agent-enrolment",
	} {
		r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "observe")+"gpu: {enabled: true}\n"+values)
		made := one[*corev1.Secret](t, r).StringData
		if id := made["install-id"]; len(id) != 32 || strings.Contains(values, "installID") && id != strings.Repeat("a", 32) {
			t.Errorf("%q: install id %q", values, id)
		}
		if _, copied := made["token"]; copied && tokenIn == "sealed" {
			t.Errorf("%q: the token is copied beside the given Secret", values)
		}
		for _, pod := range []corev1.PodSpec{one[*appsv1.Deployment](t, r).Spec.Template.Spec, one[*appsv1.DaemonSet](t, r).Spec.Template.Spec} {
			if got := volume(t, pod, "enrolment").Secret.SecretName; got != tokenIn {
				t.Errorf("%q: token in %q, want %q", values, got, tokenIn)
			}
			if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == "install" && m.MountPath == "/var/lib/plimsoll/install_id" && m.SubPath == "install-id"
			}) {
				t.Errorf("%q: no install id in %v", values, pod.Containers[0].VolumeMounts)
			}
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	for more, claim := range map[string]string{
		"": "lab-plimsoll-agent", "state: {persistence: {existingClaim: old}}": "old", "state: {persistence: {enabled: false}}": "",
	} {
		r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "observe")+more)
		v := volume(t, one[*appsv1.Deployment](t, r).Spec.Template.Spec, "state")
		got := ""
		if v.PersistentVolumeClaim != nil {
			got = v.PersistentVolumeClaim.ClaimName
		}
		if got != claim {
			t.Errorf("%q: claim %q, want %q", more, got, claim)
		}
		if made := len(all[*corev1.PersistentVolumeClaim](r)); made != map[bool]int{true: 1}[more == ""] {
			t.Errorf("%q: %d claims made", more, made)
		}
	}
}

func volume(t *testing.T, pod corev1.PodSpec, name string) corev1.Volume {
	t.Helper()
	for _, v := range pod.Volumes {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no volume %s", name)
	return corev1.Volume{}
}

// restricted is the part of the restricted pod security standard that a pod
// spec of ours can break.
func restricted(pod corev1.PodSpec) (broken []string) {
	is := func(what string, ok bool) {
		if !ok {
			broken = append(broken, what)
		}
	}
	s := pod.SecurityContext
	is("runAsNonRoot", s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot && (s.RunAsUser == nil || *s.RunAsUser > 0))
	is("seccomp", s != nil && s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault)
	is("host namespaces", !pod.HostNetwork && !pod.HostPID && !pod.HostIPC)
	for _, v := range pod.Volumes {
		is("hostPath "+v.Name, v.HostPath == nil)
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		is("security context", s != nil)
		if s == nil {
			continue
		}
		is("escalation", s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation)
		is("capabilities", s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0)
		is("read-only root", s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem)
		is("privileged", s.Privileged == nil || !*s.Privileged)
	}
	return broken
}

func TestPodsMeetTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	for _, dcgm := range []string{"exporter-scrape", "hostengine", "embedded"} {
		r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+"gpu: {enabled: true, dcgm: {mode: "+dcgm+"}}")
		if broken := restricted(one[*appsv1.Deployment](t, r).Spec.Template.Spec); broken != nil {
			t.Errorf("controller: %v", broken)
		}
		if broken := restricted(one[*appsv1.DaemonSet](t, r).Spec.Template.Spec); broken != nil {
			t.Errorf("node, %s: %v", dcgm, broken)
		}
	}
	// profiling is the one exception, and it is asked for by name
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "observe")+"gpu: {enabled: true, dcgm: {mode: embedded, profiling: true}}")
	if broken := restricted(one[*appsv1.DaemonSet](t, r).Spec.Template.Spec); broken == nil {
		t.Error("the check does not see SYS_ADMIN")
	}
	if broken := restricted(one[*appsv1.Deployment](t, r).Spec.Template.Spec); broken != nil {
		t.Errorf("profiling reaches the controller: %v", broken)
	}
}

func TestNodeRole(t *testing.T) {
	t.Parallel()
	for dcgm, want := range map[string]string{
		"mode: exporter-scrape, exporterPort: 9500":  "http://${NODE_IP}:9500/metrics",
		"mode: hostengine":                           "hostengine ${NODE_IP}:5555",
		"mode: hostengine, address: \"engine:5556\"": "hostengine engine:5556",
		"mode: embedded":                             "embedded ",
	} {
		r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")+"gpu: {enabled: true, dcgm: {"+dcgm+"}}")
		c := configOf(t, r, "lab-plimsoll-agent-node")
		got := c.Sources.DCGM.Mode + " " + c.Sources.DCGM.Address
		if len(c.Sources.DCGMExporter) == 1 {
			got = c.Sources.DCGMExporter[0].URL
		}
		if got != want {
			t.Errorf("%s: %q, want %q", dcgm, got, want)
		}
		pod := one[*appsv1.DaemonSet](t, r).Spec.Template.Spec
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Error("the node role holds a token for the API")
		}
		if !slices.Contains(pod.Containers[0].Args, "node") || c.Sources.Kubernetes.Enabled {
			t.Errorf("args %v, config %+v", pod.Containers[0].Args, c)
		}
	}
	if n := len(all[*appsv1.DaemonSet](render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce")))); n != 0 {
		t.Error("a DaemonSet without gpu.enabled")
	}
}

func TestNetworkPolicyOpensTheConfiguredPortsOnly(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll-agent", `
endpoint: https://plimsoll.example.com:8443
clusterName: prod
sources: {podMetrics: [{selector: app=vllm, port: 8000, mapping: {queue_length: q}}]}
gpu: {enabled: true}
`)
	p := one[*networkingv1.NetworkPolicy](t, r)
	var out []int
	for _, rule := range p.Spec.Egress {
		if len(rule.Ports) == 0 {
			t.Error("a rule for every port")
		}
		for _, port := range rule.Ports {
			out = append(out, port.Port.IntValue())
		}
	}
	if want := []int{53, 53, 8443, 443, 6443, 8000, 9400}; !slices.Equal(out, want) {
		t.Errorf("egress to %v, want %v", out, want)
	}
	if in := p.Spec.Ingress; len(in) != 1 || len(in[0].Ports) != 1 || in[0].Ports[0].Port.IntValue() != 9401 {
		t.Errorf("ingress %+v", in)
	}
	off := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "observe")+"networkPolicy: {enabled: false}")
	if len(all[*networkingv1.NetworkPolicy](off)) != 0 {
		t.Error("a policy although it is off")
	}
}

func TestOneAgentAtATime(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, "enforce"))
	d := one[*appsv1.Deployment](t, r)
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("%d replicas, %s", *d.Spec.Replicas, d.Spec.Strategy.Type)
	}
	if len(all[*policyv1.PodDisruptionBudget](r)) != 0 {
		t.Error("a disruption budget nobody asked for")
	}
}

func TestNotesSayWhatTheModeMayDo(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"observe": "cannot change anything", "enforce": "may change the replicas"} {
		if notes := render(t, "plimsoll-agent", fmt.Sprintf(agentValues, mode)).notes; !strings.Contains(notes, want) {
			t.Errorf("%s: %s", mode, notes)
		}
	}
}

func TestAgentSchemaRefuses(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"no endpoint":                         "clusterName: prod",
		"no cluster name":                     "endpoint: https://x.example.com",
		"an endpoint that is no URL":          "endpoint: x.example.com\nclusterName: prod",
		"an unknown mode":                     fmt.Sprintf(agentValues, "autopilot"),
		"an unknown key":                      fmt.Sprintf(agentValues, "observe") + "replicaCount: 2",
		"an unknown nested key":               fmt.Sprintf(agentValues, "observe") + "limits: {maxReplica: 3}",
		"a negative limit":                    fmt.Sprintf(agentValues, "observe") + "limits: {maxReplicas: -1}",
		"an unknown DCGM mode":                fmt.Sprintf(agentValues, "observe") + "gpu: {dcgm: {mode: auto}}",
		"profiling without embedded DCGM":     fmt.Sprintf(agentValues, "observe") + "gpu: {dcgm: {mode: hostengine, profiling: true}}",
		"namespaced scope without namespaces": fmt.Sprintf(agentValues, "observe") + "rbac: {scope: namespaced}",
		"an unknown scope":                    fmt.Sprintf(agentValues, "observe") + "rbac: {scope: all}",
		"a namespace that is no DNS label":    fmt.Sprintf(agentValues, "observe") + "namespaces: {include: [Bad_Name]}",
		"a signal source without a port":      fmt.Sprintf(agentValues, "observe") + "sources: {podMetrics: [{selector: a=b, mapping: {queue_length: r}}]}",
		"a signal source without a mapping":   fmt.Sprintf(agentValues, "observe") + "sources: {podMetrics: [{selector: a=b, port: 1}]}",
		"a signal source that picks no pods":  fmt.Sprintf(agentValues, "observe") + "sources: {podMetrics: [{port: 1, mapping: {queue_length: r}}]}",
		"a signal that cannot be one":         fmt.Sprintf(agentValues, "observe") + "sources: {podMetrics: [{selector: a=b, port: 1, mapping: {Queue-Length: r}}]}",
		"an unknown preset":                   fmt.Sprintf(agentValues, "observe") + "sources: {podMetrics: [{selector: a=b, port: 1, preset: tgi}]}",
		"an unknown transport":                fmt.Sprintf(agentValues, "observe") + "transport: smoke-signals",
		"a port out of range":                 fmt.Sprintf(agentValues, "observe") + "metrics: {port: 70000}",
		"a digest that is none":               fmt.Sprintf(agentValues, "observe") + "image: {digest: latest}",
		"a spool too small to be one":         fmt.Sprintf(agentValues, "observe") + "state: {spoolMaxBytes: 1}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := renderErr(t, "plimsoll-agent", values); err == nil {
				t.Error("accepted")
			} else if !strings.Contains(err.Error(), "schema") {
				t.Errorf("refused, but not by the schema: %v", err)
			}
		})
	}
}
