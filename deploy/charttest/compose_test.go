package charttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

var required = []string{"POSTGRES_PASSWORD=p", "PLIMSOLL_APP_PASSWORD=a", "PLIMSOLL_SECRET_KEY=k"}

func compose(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"testdata/docker-compose.yml"}, cli.WithEnv(env), cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

func TestComposeStartsInOrder(t *testing.T) {
	t.Parallel()
	p, err := compose(t, required...)
	if err != nil {
		t.Fatal(err)
	}
	names := p.ServiceNames()
	slices.Sort(names)
	if want := []string{"migrate", "postgres", "service", "worker"}; !slices.Equal(names, want) {
		t.Errorf("services %v, want %v", names, want)
	}
	if got := p.Services["migrate"].DependsOn["postgres"].Condition; got != types.ServiceConditionHealthy {
		t.Errorf("migrate waits for postgres %q", got)
	}
	for _, name := range []string{"service", "worker"} {
		if got := p.Services[name].DependsOn["migrate"].Condition; got != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s waits for migrate %q", name, got)
		}
		env := p.Services[name].Environment
		if env["PLIMSOLL_DATABASE_URL"] == nil || env["PLIMSOLL_SECRET_KEY"] == nil {
			t.Errorf("%s: environment %v", name, env)
		}
		if env["PLIMSOLL_MIGRATE_DATABASE_URL"] != nil {
			t.Errorf("%s holds the schema owner's URL", name)
		}
	}
	for name, want := range map[string]string{"migrate": "migrate up", "service": "serve", "worker": "worker"} {
		if got := strings.Join(p.Services[name].Command, " "); got != want {
			t.Errorf("%s runs %q, want %q", name, got, want)
		}
	}
	for _, port := range p.Services["service"].Ports {
		if port.HostIP != "127.0.0.1" {
			t.Errorf("port %s is open to %q", port.Published, port.HostIP)
		}
	}
}

func TestComposeRefusesToStartWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	for i := range required {
		name, _, _ := strings.Cut(required[i], "=")
		env := slices.Delete(slices.Clone(required), i, i+1)
		if _, err := compose(t, env...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestComposePassesTheMailServerOn(t *testing.T) {
	t.Parallel()
	set := map[string]string{"PLIMSOLL_SMTP_HOST": "smtp.example.com", "PLIMSOLL_SMTP_PORT": "465", "PLIMSOLL_SMTP_TLS": "tls", "PLIMSOLL_SMTP_FROM": "alerts@example.com",
		"PLIMSOLL_SMTP_USER": "alerts", "PLIMSOLL_SMTP_PASSWORD": "secret", "PLIMSOLL_WEBHOOK_ALLOW": "10.1.0.0/16"}
	env := slices.Clone(required)
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	with, err := compose(t, env...)
	if err != nil {
		t.Fatal(err)
	}
	without, err := compose(t, required...)
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"service", "worker"} {
		for name, want := range set {
			if got := with.Services[service].Environment[name]; got == nil || *got != want {
				t.Errorf("%s: %s is not passed on", service, name)
			}
			if got := without.Services[service].Environment[name]; got == nil || *got != "" {
				t.Errorf("%s: %s is not empty where it is not set", service, name)
			}
		}
	}
}
