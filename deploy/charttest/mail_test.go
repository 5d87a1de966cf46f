package charttest

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// mailEnv returns the PLIMSOLL_SMTP_ environment of a pod; what comes from a Secret is written secret/key.
func mailEnv(t *testing.T, pod corev1.PodSpec) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range pod.Containers[0].Env {
		if !strings.HasPrefix(e.Name, "PLIMSOLL_SMTP_") {
			continue
		}
		if _, twice := env[e.Name]; twice {
			t.Errorf("%s is set twice", e.Name)
		}
		env[e.Name] = e.Value
		if e.ValueFrom != nil {
			env[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
	}
	return env
}

func TestMailServerOfTheService(t *testing.T) {
	t.Parallel()
	const base = "PLIMSOLL_SMTP_"
	for name, c := range map[string]struct {
		values string
		want   map[string]string
	}{
		"none by default": {"", map[string]string{}},
		"a relay without a sign-in needs no Secret": {"smtp: {host: relay.mail.svc, tls: none, from: alerts@example.com}",
			map[string]string{base + "HOST": "relay.mail.svc", base + "TLS": "none", base + "FROM": "alerts@example.com"}},
		"the password comes from the service's Secret": {`smtp: {host: smtp.example.com, from: "Plimsoll <alerts@example.com>", user: alerts}`,
			map[string]string{base + "HOST": "smtp.example.com", base + "TLS": "starttls", base + "FROM": "Plimsoll <alerts@example.com>",
				base + "USER": "alerts", base + "PASSWORD": "plimsoll/PLIMSOLL_SMTP_PASSWORD"}},
		"or from a Secret of its own": {"smtp: {host: smtp.example.com, port: 2465, tls: tls, from: alerts@example.com, user: '007', passwordSecret: mail}",
			map[string]string{base + "HOST": "smtp.example.com", base + "PORT": "2465", base + "TLS": "tls", base + "FROM": "alerts@example.com",
				base + "USER": "007", base + "PASSWORD": "mail/PLIMSOLL_SMTP_PASSWORD"}},
		"without a host nothing of it is told": {"smtp: {from: alerts@example.com, user: alerts}", map[string]string{}},
		"tls forgotten by reused values is the service's default": {"smtp: {host: smtp.example.com, tls: null, from: alerts@example.com}",
			map[string]string{base + "HOST": "smtp.example.com", base + "TLS": "", base + "FROM": "alerts@example.com"}},
		"values of a release before mail came still render": {"smtp: null", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, "plimsoll", serviceValues+c.values)
			for _, d := range all[*appsv1.Deployment](r) {
				if got := mailEnv(t, d.Spec.Template.Spec); !maps.Equal(got, c.want) {
					t.Errorf("%s: %v, want %v", d.Name, got, c.want)
				}
			}
			if got := mailEnv(t, one[*batchv1.Job](t, r).Spec.Template.Spec); len(got) != 0 {
				t.Errorf("the migration knows the mail server: %v", got)
			}
		})
	}
}

func TestMailSchemaRefuses(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"a host without a sender":           "smtp: {host: smtp.example.com}",
		"a sender that is no address":       "smtp: {host: smtp.example.com, from: alerts}",
		"a sender of two lines":             `smtp: {host: smtp.example.com, from: "a\nBcc: b <a@example.com>"}`,
		"a host with a port":                "smtp: {host: 'smtp.example.com:587', from: alerts@example.com}",
		"a URL for a host":                  "smtp: {host: 'smtp://smtp.example.com', from: alerts@example.com}",
		"a port past the last":              "smtp: {host: smtp.example.com, from: alerts@example.com, port: 65536}",
		"a port as text":                    "smtp: {host: smtp.example.com, from: alerts@example.com, port: '587'}",
		"another word for TLS":              "smtp: {host: smtp.example.com, from: alerts@example.com, tls: ssl}",
		"a password over no TLS":            "smtp: {host: smtp.example.com, from: alerts@example.com, tls: none, user: alerts}",
		"a password in the values":          "smtp: {host: smtp.example.com, from: alerts@example.com, user: alerts, password: secret}",
		"a Secret for nobody":               "smtp: {host: smtp.example.com, from: alerts@example.com, passwordSecret: mail}",
		"a Secret whose name cannot be one": "smtp: {host: smtp.example.com, from: alerts@example.com, user: alerts, passwordSecret: Mail_1}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := renderErr(t, "plimsoll", serviceValues+values); err == nil {
				t.Error("accepted")
			} else if !strings.Contains(err.Error(), "schema") {
				t.Errorf("refused, but not by the schema: %v", err)
			}
		})
	}
}
