package charttest

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

const serviceValues = `
publicURL: https://plimsoll.example.com
existingSecret: plimsoll
`

func TestServiceRenders(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll", serviceValues)
	if want := []string{"Deployment", "Deployment", "Job", "PodDisruptionBudget", "Service"}; !slices.Equal(kinds(r), want) {
		t.Errorf("%v, want %v", kinds(r), want)
	}
	full := render(t, "plimsoll", serviceValues+`
ingress: {enabled: true, host: plimsoll.example.com, tlsSecret: tls, className: nginx}
metrics: {podMonitor: {enabled: true}}
extraEnv: [{name: OTEL_SERVICE_NAME, value: plimsoll}]
`)
	if host := one[*networkingv1.Ingress](t, full).Spec.Rules[0].Host; host != "plimsoll.example.com" {
		t.Errorf("ingress host %q", host)
	}
	if len(full.objects) != len(r.objects)+2 {
		t.Errorf("%v", kinds(full))
	}
}

// secretKeys returns the environment that a pod takes from the Secret.
func secretKeys(pod corev1.PodSpec) (keys []string) {
	for _, e := range pod.Containers[0].Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == "plimsoll" {
			keys = append(keys, e.Name)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestOnlyTheMigrationHoldsTheOwnersURL: row-level security binds the service
// only as long as it cannot connect as the owner.
func TestOnlyTheMigrationHoldsTheOwnersURL(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll", serviceValues)
	args := map[string]bool{}
	for _, d := range all[*appsv1.Deployment](r) {
		pod := d.Spec.Template.Spec
		args[pod.Containers[0].Args[0]] = true
		if got, want := secretKeys(pod), []string{"PLIMSOLL_DATABASE_URL", "PLIMSOLL_SECRET_KEY"}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", d.Name, got, want)
		}
		if broken := restricted(pod); broken != nil {
			t.Errorf("%s: %v", d.Name, broken)
		}
	}
	if !args["serve"] || !args["worker"] {
		t.Errorf("commands %v", args)
	}
	job := one[*batchv1.Job](t, r)
	if got, want := secretKeys(job.Spec.Template.Spec), []string{"PLIMSOLL_MIGRATE_DATABASE_URL"}; !slices.Equal(got, want) {
		t.Errorf("migrate: %v, want %v", got, want)
	}
	if broken := restricted(job.Spec.Template.Spec); broken != nil {
		t.Errorf("migrate: %v", broken)
	}
	if hook := job.Annotations["helm.sh/hook"]; hook != "pre-install,pre-upgrade" {
		t.Errorf("migrations run at %q", hook)
	}
}

func TestServiceReachesOnlyServePods(t *testing.T) {
	t.Parallel()
	r := render(t, "plimsoll", serviceValues)
	selector := one[*corev1.Service](t, r).Spec.Selector
	var reached []string
	for _, d := range all[*appsv1.Deployment](r) {
		match := true
		for k, v := range selector {
			match = match && d.Spec.Template.Labels[k] == v
		}
		if match {
			reached = append(reached, d.Spec.Template.Spec.Containers[0].Args[0])
		}
	}
	if !slices.Equal(reached, []string{"serve"}) {
		t.Errorf("the Service reaches %v", reached)
	}
}

func TestServiceSchemaRefuses(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"no secret":              "publicURL: https://x.example.com",
		"no public URL":          "existingSecret: plimsoll",
		"a database URL in text": serviceValues + "databaseURL: postgres://x",
		"no replicas":            serviceValues + "worker: {replicas: 0}",
		"ingress without a host": serviceValues + "ingress: {enabled: true}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := renderErr(t, "plimsoll", values); err == nil {
				t.Error("accepted")
			} else if !strings.Contains(err.Error(), "schema") {
				t.Errorf("refused, but not by the schema: %v", err)
			}
		})
	}
}

// TestOldSecretKeysAreTakenOnlyWhileAKeyChanges: a Secret without them must not keep pods from starting.
func TestOldSecretKeysAreTakenOnlyWhileAKeyChanges(t *testing.T) {
	t.Parallel()
	for _, d := range all[*appsv1.Deployment](render(t, "plimsoll", serviceValues+"\noldSecretKeys: true\n")) {
		want := []string{"PLIMSOLL_DATABASE_URL", "PLIMSOLL_SECRET_KEY", "PLIMSOLL_SECRET_KEYS_OLD"}
		if got := secretKeys(d.Spec.Template.Spec); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", d.Name, got, want)
		}
	}
}
