package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// rolled is a rollout of a capacity policy as the API shows it.
type rolled struct {
	ID, State, Outcome string
	Steps              []struct{ What, Actor string }
}

func (r *rolled) words() string {
	var out []string
	for _, s := range r.Steps {
		out = append(out, s.What)
	}
	return strings.Join(out, " ")
}

// TestCapacityCanary: a capacity policy allows only machines that have run out. In its canary pods that come find none; the service is killed with -9,
// comes back, takes the policy back by itself, once, and a real Karpenter, told by the agent, brings machines of the policy before.
func TestCapacityCanary(t *testing.T) {
	l := startKarpenterLab(t, "canary", builtIn())
	l.seed(t)
	s := startService(t)
	token := filepath.Join(l.dir, "token")
	if err := os.WriteFile(token, []byte(s.enrolmentToken(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("endpoint: %s\ntokenFile: %s\nclusterName: lab\nstateDir: %s\nmode: enforce\nmetricsAddress: 127.0.0.1:%d\nintervals: {sampleSeconds: 1, frameSeconds: 5, inventoryResyncSeconds: 10}\n"+
		"sources: {kubernetes: {enabled: true, kubeconfig: %s}}\nautoscalers: {karpenter: {enabled: true}}\n", s.url, token, filepath.Join(l.dir, "agent"), freePort(t), filepath.Join(l.dir, "admin.kubeconfig"))
	if err := os.WriteFile(l.agent, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := func(types ...string) map[string]any {
		return map[string]any{"instance_types": types, "zones": []string{"us-east-1a"}, "no_spot": true, "waiting_sec": 15}
	}
	s.call(t, http.MethodPut, "/clusters/"+s.cluster+"/capacity-policy", map[string]any{"version": 0, "rollout_override": "the cluster is new", "policy": policy("c6i.large", "c6i.xlarge")}, nil)
	agent := launch(t, "agent-canary", exec.Command(agentBin, "--config", l.agent, "--role", "controller"), "POD_NAME=plimsoll-agent-0")
	t.Cleanup(agent.stop)
	within(t, time.Minute, "nothing is in the way but the switch", func() (bool, string) {
		if !agent.alive() {
			t.Fatal(agent.tail())
		}
		k := s.karpenter(t)
		return k.Stopped == "off", k.Stopped
	})
	s.steer(t, 0, true)
	var pods []replica
	for i := range 4 {
		pods = append(pods, replica{name: fmt.Sprintf("p%03d", i), cpu: 1500, mem: 2500})
	}
	l.demand(t, pods, false)
	l.allRun(t, time.Minute, len(pods))

	// The proposed policy's machines have run out, which nobody knows yet.
	l.dryUp(t, dry{InstanceType: "m6i.large"}, dry{InstanceType: "m6i.xlarge"})
	begin := time.Now()
	var r rolled
	s.call(t, http.MethodPost, "/capacity-rollouts", map[string]any{"clusters": []string{s.cluster}, "policy": policy("m6i.large", "m6i.xlarge"), "shares": []float64{1}, "shadow_seconds": 60, "stage_seconds": 300}, &r)
	within(t, 45*time.Second, "a person takes the first step early", func() (bool, string) {
		err := s.try(http.MethodPost, "/capacity-rollouts/"+r.ID+"/promote", map[string]any{}, nil)
		return err == nil, fmt.Sprint(err)
	})
	within(t, 45*time.Second, "the pools are those of the proposed policy", func() (bool, string) {
		open := ""
		for _, u := range l.list(t, nodePools, "plimsoll.dev/managed=true") {
			if u.GetName() == "plimsoll-rest" {
				open = fmt.Sprint(u.Object["spec"])
			}
		}
		return strings.Contains(open, "m6i.") && !strings.Contains(open, "c6i."), open
	})
	l.scale(t, "w-p000", 8)
	waiting := func() (n int) {
		for _, p := range l.pods(t) {
			if p.Spec.NodeName == "" && p.Status.Phase == corev1.PodPending {
				n++
			}
		}
		return n
	}
	within(t, 20*time.Second, "pods find no machine", func() (bool, string) { return waiting() == 4, fmt.Sprintf("%d wait", waiting()) })
	left := waiting()
	s.serve.kill()
	s.worker.kill()
	s.startServe(t)
	s.startWorker(t)
	within(t, 2*time.Minute, "the policy is taken back by itself", func() (bool, string) {
		if err := s.try(http.MethodGet, "/capacity-rollouts/"+r.ID, nil, &r); err != nil {
			return false, err.Error()
		}
		return r.State == "rolled_back", fmt.Sprintf("%s %s, %d pods wait", r.State, r.Outcome, waiting())
	})
	back := time.Since(begin)
	if !slices.Contains([]string{"unplaced", "failed"}, r.Outcome) {
		t.Errorf("taken back because of %q", r.Outcome)
	}
	l.allRun(t, 90*time.Second, 8)
	healed := time.Since(begin)
	for _, n := range l.nodes(t) {
		if !strings.HasPrefix(n.Labels["node.kubernetes.io/instance-type"], "c6i.") {
			t.Errorf("%s is a %s", n.Name, n.Labels["node.kubernetes.io/instance-type"])
		}
	}
	s.call(t, http.MethodGet, "/capacity-rollouts/"+r.ID, nil, &r)
	if got := r.words(); got != "shadow canary rolled_back" {
		t.Errorf("its steps are %q", got)
	}
	var own struct {
		Version int
		Policy  struct {
			InstanceTypes []string `json:"instance_types"`
		}
	}
	s.call(t, http.MethodGet, "/clusters/"+s.cluster+"/capacity-policy", nil, &own)
	if own.Version != 1 || !slices.Equal(own.Policy.InstanceTypes, []string{"c6i.large", "c6i.xlarge"}) {
		t.Errorf("the policy in force is %+v", own)
	}
	t.Logf("CANARY of a capacity policy: %d of 8 pods found no machine; taken back by itself (%s) %.0f s after it was proposed, over a kill -9 of both halves of the service; all pods run after %.0f s", left, r.Outcome, back.Seconds(), healed.Seconds())
}
