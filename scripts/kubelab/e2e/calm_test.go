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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// agentNext is the same agent as a build of another version.
var agentNext = os.Getenv("PLIMSOLL_AGENT_NEXT")

// calm is how long nothing may move after something was replaced: longer than
// a plan lives, a signal counts as fresh and a node may be silent.
const calm = 60 * time.Second

// TestNothingMoves replaces everything that Plimsoll is made of and stands on,
// one after the other, under a steady load, and counts replicas, pods and
// nodes before and for a minute after: no restart, no upgrade and no uninstall
// moves any of them.
func TestNothingMoves(t *testing.T) {
	if agentNext == "" {
		t.Fatal("PLIMSOLL_AGENT_NEXT is not set: run scripts/e2e-kube")
	}
	c := startCluster(t)
	c.addNodes(t)
	c.deploy(t, 1)
	l := serveLoad(t, c)
	s := startService(t)
	token := s.enrolmentToken(t)
	a := installAgent(t, c, installRights(t, c, s.url), token)
	a.start(t)
	w := s.workload(t)
	s.setPolicy(t, w, policy)
	l.set(60, 10)
	c.waitReplicas(t, patience, 6)

	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the whole control plane, the service and the agent at once", func(t *testing.T) {
			before := c.standing(t)
			a.running.kill()
			s.serve.kill()
			s.worker.kill()
			c.lab.stop()
			c.startLab(t)
			s.startServe(t)
			s.startWorker(t)
			a.start(t)
			c.nothingMoves(t, before)
			c.stillScales(t, l, s)
		}},
		{"the control plane alone, with the agent and the service running", func(t *testing.T) {
			before := c.standing(t)
			c.lab.stop()
			c.startLab(t)
			c.nothingMoves(t, before)
			if !a.running.alive() {
				t.Fatal(a.running.tail())
			}
			c.stillScales(t, l, s)
		}},
		{"the agent by another version, started before the old one is gone", func(t *testing.T) {
			before, old := c.standing(t), s.agentVersion(t)
			a.bin = agentNext
			early := a.launch(t)
			<-early.done // the old one holds the state directory: one writer at a time
			if !strings.Contains(early.tail(), "another agent is using the state directory") {
				t.Error(early.tail())
			}
			a.running.stop()
			a.start(t)
			within(t, patience, "the service knows the new version", func() (bool, string) {
				now := s.agentVersion(t)
				return now != old && now == "next", now
			})
			c.nothingMoves(t, before)
			c.stillScales(t, l, s)
		}},
		{"Plimsoll by nothing: uninstalled, it leaves what runs", func(t *testing.T) {
			before := c.standing(t)
			a.running.stop()
			cmd := exec.Command(a.bin, "-config", filepath.Join(a.dir, "agent.yaml"), "-hand-back")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s.worker.stop()
			s.serve.stop()
			// what helm uninstall takes with it
			if err := c.kube.CoreV1().ServiceAccounts(agentNamespace).Delete(t.Context(), "plimsoll-agent", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			l.set(5, 1) // the load falls, and nobody is left who would follow it
			c.nothingMoves(t, before)
		}},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("%s\n%s", a.running.tail(), s.worker.tail())
		}
	}
}

// standing is what may not move: the count that is asked for, how often the
// Deployment was written, and each pod and node by its UID.
type standing struct {
	replicas    int32
	generation  int64
	pods, nodes []string
}

func (c *cluster) standing(t *testing.T) standing {
	t.Helper()
	now, err := c.look(t)
	if err != nil {
		t.Fatal(err)
	}
	if now.replicas == 0 || len(now.pods) != int(now.replicas) || len(now.nodes) == 0 {
		t.Fatalf("nothing to keep: %+v", now)
	}
	return now
}

func (c *cluster) look(t *testing.T) (standing, error) {
	t.Helper()
	d, err := c.deployment(t.Context())
	if err != nil {
		return standing{}, err
	}
	out := standing{replicas: *d.Spec.Replicas, generation: d.Generation}
	pods, err := c.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return out, err
	}
	for _, p := range pods.Items {
		out.pods = append(out.pods, string(p.UID))
	}
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return out, err
	}
	for _, n := range nodes.Items {
		out.nodes = append(out.nodes, string(n.UID))
	}
	slices.Sort(out.pods)
	slices.Sort(out.nodes)
	return out, nil
}

// nothingMoves watches for a while. It fails too where the API server answers
// so seldom that something could have moved and come back.
func (c *cluster) nothingMoves(t *testing.T, before standing) {
	t.Helper()
	looks := 0
	never(t, calm, "something moves", func() (bool, string) {
		now, err := c.look(t)
		if err != nil {
			return false, err.Error()
		}
		looks++
		moved := now.replicas != before.replicas || now.generation != before.generation || !slices.Equal(now.pods, before.pods) || !slices.Equal(now.nodes, before.nodes)
		return moved, fmt.Sprintf("before %+v, now %+v", before, now)
	})
	if looks < 100 {
		t.Errorf("only %d looks in %s", looks, calm)
	}
	t.Logf("CALM %s: %d replicas, %d pods and %d nodes as before in %d looks over %s", t.Name(), before.replicas, len(before.pods), len(before.nodes), looks, calm)
}

// stillScales shows that calm is no paralysis: two replicas more are had, and
// the load before brings the count back.
func (c *cluster) stillScales(t *testing.T, l *load, s *service) {
	t.Helper()
	l.set(80, 10)
	c.waitReplicas(t, patience, 8)
	l.set(60, 10)
	c.waitReplicas(t, patience, 6)
	within(t, patience, "steady again", func() (bool, string) { return s.newestHolds() })
}

// newestHolds says whether the newest decision is to change nothing.
func (s *service) newestHolds() (bool, string) {
	all, err := s.decisions()
	if err != nil || len(all) == 0 {
		return false, fmt.Sprintf("%d decisions, %v", len(all), err)
	}
	return all[0].Outcome == "hold", fmt.Sprintf("%+v", all[0])
}

// agentVersion is that of the agent as the service shows it.
func (s *service) agentVersion(t *testing.T) string {
	t.Helper()
	var cluster struct {
		AgentVersion string `json:"agent_version"`
	}
	s.call(t, http.MethodGet, "/clusters/"+s.cluster, nil, &cluster)
	return cluster.AgentVersion
}
