package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// reservedOffers are the built-in offers and three machines that are paid
// already.
func reservedOffers() []offer {
	offers := builtIn()
	for _, o := range offers {
		if o.name == "g5.xlarge" && o.zone == "us-east-1b" && o.way == "on-demand" {
			o.way, o.reservation, o.count, o.price = "reserved", "cr-g5", 3, 0.000001
			return append(offers, o)
		}
	}
	return nil
}

// TestKarpenterSteered is a day of one cluster whose machines Plimsoll steers.
// The steps build on each other.
func TestKarpenterSteered(t *testing.T) {
	l := startKarpenterLab(t, "steered", reservedOffers())
	var pods []replica
	add := func(n int, r replica) {
		for range n {
			r.name = fmt.Sprintf("p%03d", len(pods))
			pods = append(pods, r)
		}
	}
	add(16, replica{cpu: 3000, mem: 9000, gpus: 1, spot: true})
	add(8, replica{cpu: 3000, mem: 11000, gpus: 1, models: []string{"A10"}})
	add(4, replica{cpu: 7000, mem: 20000, gpus: 1, models: []string{"T4"}, spot: true})
	add(12, replica{cpu: 1500, mem: 3000, spot: true})
	l.demand(t, pods, false)
	n := len(pods)
	step := func(name string, f func(*testing.T)) {
		if !t.Run(name, f) {
			t.FailNow()
		}
	}
	step("all pods run, and what is paid already is used first", func(t *testing.T) {
		l.applied(t, l.carryOut(t, l.plan(t)))
		l.allRun(t, 2*time.Minute, n)
		if got := l.count(t, "karpenter.sh/capacity-type", "reserved"); got != 3 {
			t.Errorf("%d of 3 reserved machines are used", got)
		}
	})
	step("a plan that changes nothing changes nothing", func(t *testing.T) {
		before := l.generations(t)
		l.applied(t, l.carryOut(t, l.plan(t)))
		again := l.generations(t)
		out := l.carryOut(t, l.plan(t))
		for _, r := range out {
			if r.Outcome != "already" {
				t.Errorf("%s: %s", r.ActionID, r.Outcome)
			}
		}
		if third := l.generations(t); !equal(again, third) {
			t.Errorf("specs were written again: %v, before %v, first %v", third, again, before)
		}
	})
	step("an old plan is refused, also by an agent that lost its disk", func(t *testing.T) {
		before := l.generations(t)
		b, err := os.ReadFile(filepath.Join(l.dir, "plan-1.json"))
		if err != nil {
			t.Fatal(err)
		}
		late := filepath.Join(l.dir, "late.json")
		if err := os.WriteFile(late, bytes.Replace(b, []byte(`"capacity-1"`), []byte(`"late"`), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		l.refused(t, l.carryOut(t, late), "stale_generation")
		if err := os.RemoveAll(filepath.Join(l.dir, "agent")); err != nil {
			t.Fatal(err)
		}
		for _, r := range l.carryOut(t, late) {
			if r.ErrorCode != "stale_generation" && r.Outcome != "already" && r.Outcome != "refused" {
				t.Errorf("%s: %s %s", r.ActionID, r.Outcome, r.ErrorCode)
			}
		}
		if after := l.generations(t); !within1(before, after) {
			t.Errorf("an old plan changed %v to %v", before, after)
		}
	})
	step("an agent that dies in the middle does nothing twice, and the next plan finishes", func(t *testing.T) {
		l.scale(t, "w-p000", 24)
		n += 8
		plan := l.plan(t)
		l.killInTheMiddle(t, plan)
		out := l.carryOut(t, plan)
		l.applied(t, l.carryOut(t, l.plan(t)))
		l.allRun(t, 2*time.Minute, n)
		if over := l.overLimits(t); over != "" {
			t.Errorf("bought twice: %s", over)
		}
		t.Logf("KARPENTER after kill -9 in the middle of a plan: %d actions answered from the journal, %d pods run", len(out), n)
	})
	step("Spot dries up: on demand instead, and what runs stays", func(t *testing.T) {
		before, placed := l.names2(t), map[string]bool{}
		for _, node := range l.placed(t) {
			placed[node] = true
		}
		out := dry{CapacityType: "spot"}
		l.dryUp(t, out)
		l.scale(t, "w-p000", 30)
		n += 6
		begin := time.Now()
		l.converge(t, 2*time.Minute, n, out)
		t.Logf("KARPENTER Spot dried up: %d pods run %.1f s after", n, time.Since(begin).Seconds())
		for name := range before {
			if !l.names2(t)[name] && placed[name] {
				t.Errorf("machine %s went with its pods", name)
			}
		}
		l.dryUp(t)
	})
	step("a zone is taken away: replaced in the others, within the PDBs", func(t *testing.T) {
		zone := l.busiest(t)
		gone := dry{Zone: zone, Hidden: true}
		l.dryUp(t, gone)
		begin := time.Now()
		l.lost = zone
		l.applied(t, l.carryOut(t, l.plan(t, dry{Zone: zone})))
		l.lost = ""
		taken := 0
		for _, c := range l.list(t, nodeClaims, "") {
			if c.GetLabels()["topology.kubernetes.io/zone"] == zone {
				taken++
				if err := l.objects.Resource(nodeClaims).Delete(t.Context(), c.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		broken := ""
		within(t, 3*time.Minute, "nothing is left in the zone and all pods run", func() (bool, string) {
			if b := l.pdbBroken(t); b != "" {
				broken = b
			}
			left := l.count(t, "topology.kubernetes.io/zone", zone)
			running, all := l.running(t)
			return left == 0 && running == n && all == n, fmt.Sprintf("%d machines left in %s, %d of %d pods run", left, zone, running, n)
		})
		if broken != "" {
			t.Errorf("a PDB was broken: %s", broken)
		}
		t.Logf("KARPENTER zone %s with %d machines taken away: all %d pods run elsewhere %.1f s after, no PDB broken", zone, taken, n, time.Since(begin).Seconds())
		l.dryUp(t)
	})
	step("back to Spot, but only when it saves more than the moves cost", func(t *testing.T) {
		l.emptyGo(t)
		out := dry{CapacityType: "spot"}
		l.dryUp(t, out)
		l.scale(t, "w-p000", 36)
		n += 6
		l.converge(t, 2*time.Minute, n, out)
		l.dryUp(t) // Spot is back
		l.emptyGo(t)
		before, machines := l.cost(t)
		l.moveCost = "1000"
		l.applied(t, l.carryOut(t, l.plan(t)))
		if open := l.opened(t); open != nil {
			t.Errorf("pools %v are open for consolidation though moves cost more than they save", open)
		}
		l.moveCost = ""
		l.applied(t, l.carryOut(t, l.plan(t)))
		open := l.opened(t)
		if open == nil {
			t.Fatalf("no pool is open for consolidation at $%.2f/h", before)
		}
		broken := ""
		within(t, 2*time.Minute, fmt.Sprintf("cheaper, %v open", open), func() (bool, string) {
			if b := l.pdbBroken(t); b != "" {
				broken = b
			}
			cost, left := l.cost(t)
			running, _ := l.running(t)
			return cost < before-0.1 && running == n, fmt.Sprintf("$%.2f/h on %d machines, before $%.2f/h on %d, %d of %d pods run", cost, left, before, machines, running, n)
		})
		if broken != "" {
			t.Errorf("a PDB was broken: %s", broken)
		}
		cost, _ := l.cost(t)
		t.Logf("KARPENTER back to Spot: $%.2f/h after $%.2f/h, no PDB broken", cost, before)
	})
	step("a pool edited by hand is left to whoever edited it, and both are named", func(t *testing.T) {
		name := l.names(t, nodePools)[0]
		begin := time.Now()
		l.edit(t, name)
		c := l.conflict(t, l.carryOut(t, l.plan(t)), name)
		if !slices.Contains(c.Writers, "kubectl-edit") || !slices.Contains(c.Writers, "plimsoll-agent") {
			t.Errorf("writers are %v", c.Writers)
		}
		if w := l.weight(t, name); w != 55 {
			t.Errorf("the weight that was set by hand is %d now", w)
		}
		t.Logf("KARPENTER another writer found %.1f s after it wrote: %s", time.Since(begin).Seconds(), c.Error)
	})
	step("told to own it we take it back twice and then stop fighting", func(t *testing.T) {
		name := l.names(t, nodePools)[0]
		l.writeAgent(t, name)
		begin := time.Now()
		for range 2 {
			l.applied(t, l.carryOut(t, l.plan(t)))
			if w := l.weight(t, name); w == 55 {
				t.Fatal("not taken back")
			}
			l.edit(t, name)
		}
		c := l.conflict(t, l.carryOut(t, l.plan(t)), name)
		if took := time.Since(begin); !strings.Contains(c.Error, "we stop") || took > 2*time.Minute {
			t.Errorf("after %s: %s", took, c.Error)
		}
		if w := l.weight(t, name); w != 55 {
			t.Errorf("weight %d", w)
		}
		t.Logf("KARPENTER two controllers fighting: stopped after %.1f s", time.Since(begin).Seconds())
		l.writeAgent(t, "")
	})
	step("uninstalled: prices are as before, no machine goes, no pod moves", func(t *testing.T) {
		l.moveCost = "1000" // no consolidation is under way; the pool that is fought over stays as it is
		l.carryOut(t, l.plan(t))
		l.still(t)
		machines, placed := l.names2(t), l.placed(t)
		cmd := exec.Command(agentBin, "-config", l.agent, "-hand-back")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if left := append(l.names(t, nodePools), l.names(t, nodeOverlays)...); left != nil {
			t.Errorf("still ours: %v", left)
		}
		never(t, 45*time.Second, "a machine goes or a pod moves", func() (bool, string) {
			now, at := l.names2(t), l.placed(t)
			for name := range machines {
				if !now[name] {
					return true, "machine " + name + " went"
				}
			}
			return !equal(placed, at), "a pod moved"
		})
		t.Logf("KARPENTER uninstalled: %d machines and %d pods as before after 45 s", len(machines), len(placed))
	})
}

// still waits until no machine has come or gone for twenty seconds.
func (l *karpenterLab) still(t *testing.T) {
	t.Helper()
	last, since := "", time.Now()
	within(t, 2*time.Minute, "no machine comes or goes", func() (bool, string) {
		now := ""
		for _, c := range l.list(t, nodeClaims, "") {
			now += c.GetName() + " "
		}
		now += fmt.Sprint(l.leaving(t))
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 20*time.Second && l.leaving(t) == 0, fmt.Sprintf("for %.0f s", time.Since(since).Seconds())
	})
}

// emptyGo waits until machines without pods are gone.
func (l *karpenterLab) emptyGo(t *testing.T) {
	t.Helper()
	within(t, 2*time.Minute, "empty machines go", func() (bool, string) {
		busy := map[string]bool{}
		for _, node := range l.placed(t) {
			busy[node] = true
		}
		return len(l.nodes(t)) <= len(busy), fmt.Sprintf("%d machines, %d with pods", len(l.nodes(t)), len(busy))
	})
}

// converge plans again every eight seconds, as the service would, until all
// pods run.
func (l *karpenterLab) converge(t *testing.T, d time.Duration, n int, out ...dry) {
	t.Helper()
	for begin := time.Now(); ; {
		l.applied(t, l.carryOut(t, l.plan(t, out...)))
		for look := time.Now(); time.Since(look) < 8*time.Second; time.Sleep(200 * time.Millisecond) {
			if running, all := l.running(t); running == n && all == n {
				return
			}
		}
		if time.Since(begin) > d {
			running, _ := l.running(t)
			t.Fatalf("not within %s: %d of %d pods run", d, running, n)
		}
	}
}

// applied fails for each action that was not carried out.
func (l *karpenterLab) applied(t *testing.T, out []outcome) {
	t.Helper()
	for _, r := range out {
		if r.PlanID == fmt.Sprintf("capacity-%d", l.gen) && r.Outcome != "applied" && r.Outcome != "already" && r.ErrorCode != "precondition" {
			t.Errorf("%s %s: %s %s", r.ActionID, r.Outcome, r.ErrorCode, r.Error)
		}
	}
}

func (l *karpenterLab) refused(t *testing.T, out []outcome, code string) {
	t.Helper()
	if len(out) == 0 {
		t.Error("no answer")
	}
	for _, r := range out {
		if r.Outcome != "refused" || r.ErrorCode != code {
			t.Errorf("%s: %s %s", r.ActionID, r.Outcome, r.ErrorCode)
		}
	}
}

func (l *karpenterLab) conflict(t *testing.T, out []outcome, pool string) outcome {
	t.Helper()
	for _, r := range out {
		if r.ActionID == "pool/"+pool && r.ErrorCode == "conflict" {
			return r
		}
	}
	t.Fatalf("no conflict about %s in %d results", pool, len(out))
	return outcome{}
}

// generations counts how often the spec of each object of ours was written.
func (l *karpenterLab) generations(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, u := range append(l.list(t, nodePools, "plimsoll.dev/managed=true"), l.list(t, nodeOverlays, "plimsoll.dev/managed=true")...) {
		out[u.GetKind()+"/"+u.GetName()] = fmt.Sprint(u.GetGeneration())
	}
	return out
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if a[k] != b[k] {
			return false
		}
	}
	return true
}

// within1 says whether everything that was there is there, unchanged.
func within1(before, after map[string]string) bool {
	for k := range before {
		if before[k] != after[k] {
			return false
		}
	}
	return true
}

func (l *karpenterLab) count(t *testing.T, label, value string) int {
	t.Helper()
	n := 0
	for _, node := range l.nodes(t) {
		if node.Labels[label] == value {
			n++
		}
	}
	return n
}

// names2 are the machines that are not on their way out.
func (l *karpenterLab) names2(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, n := range l.nodes(t) {
		if n.DeletionTimestamp == nil {
			out[n.Name] = true
		}
	}
	return out
}

// placed is where each pod runs.
func (l *karpenterLab) placed(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range l.pods(t) {
		out[p.Name] = p.Spec.NodeName
	}
	return out
}

func (l *karpenterLab) scale(t *testing.T, deployment string, to int32) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to)
	if _, err := l.kube.AppsV1().Deployments(namespace).Patch(t.Context(), deployment, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, 30*time.Second, "scaled", func() (bool, string) {
		have := 0
		for _, p := range l.pods(t) {
			if p.Labels["app"] == deployment {
				have++
			}
		}
		return have == int(to), fmt.Sprint(have)
	})
}

// killInTheMiddle lets the agent apply a plan and kills it when it has begun
// to change something.
func (l *karpenterLab) killInTheMiddle(t *testing.T, plan string) {
	t.Helper()
	cmd := exec.Command(agentBin, "-config", l.agent, "-apply", plan)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(l.dir, "agent", "act.log")
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(journal)
		at := bytes.LastIndex(b, []byte(`"begin"`))
		if at >= 0 && bytes.Contains(b[at:], fmt.Appendf(nil, `"plan":"capacity-%d"`, l.gen)) && bytes.Contains(b[at:], []byte(`"acting"`)) {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// overLimits names a pool of ours with more machines than its limit.
func (l *karpenterLab) overLimits(t *testing.T) string {
	t.Helper()
	for _, u := range l.list(t, nodePools, "plimsoll.dev/managed=true") {
		limit, ok, _ := unstructured.NestedString(u.Object, "spec", "limits", "nodes")
		have := l.count(t, "karpenter.sh/nodepool", u.GetName())
		if ok && fmt.Sprint(have) > limit && len(fmt.Sprint(have)) >= len(limit) {
			return fmt.Sprintf("%s has %d machines, its limit is %s", u.GetName(), have, limit)
		}
	}
	return ""
}

// busiest is the zone with most machines.
func (l *karpenterLab) busiest(t *testing.T) string {
	t.Helper()
	count, best := map[string]int{}, ""
	for _, n := range l.nodes(t) {
		z := n.Labels["topology.kubernetes.io/zone"]
		if count[z]++; count[z] > count[best] {
			best = z
		}
	}
	return best
}

// pdbBroken names a PDB with fewer healthy pods than it wants.
func (l *karpenterLab) pdbBroken(t *testing.T) string {
	t.Helper()
	list, err := l.kube.PolicyV1().PodDisruptionBudgets(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Status.ObservedGeneration > 0 && p.Status.CurrentHealthy < p.Status.DesiredHealthy {
			return fmt.Sprintf("%s: %d healthy, %d wanted", p.Name, p.Status.CurrentHealthy, p.Status.DesiredHealthy)
		}
	}
	return ""
}

// opened are the pools in which Karpenter may consolidate for money.
func (l *karpenterLab) opened(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, u := range l.list(t, nodePools, "plimsoll.dev/managed=true") {
		if p, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidationPolicy"); p != "WhenEmpty" {
			out = append(out, u.GetName())
		}
	}
	return out
}

// edit changes a pool's weight as a person with kubectl does.
func (l *karpenterLab) edit(t *testing.T, pool string) {
	t.Helper()
	u, err := l.objects.Resource(nodePools).Get(t.Context(), pool, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(u.Object, int64(55), "spec", "weight"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.objects.Resource(nodePools).Update(t.Context(), u, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
}

func (l *karpenterLab) weight(t *testing.T, pool string) int64 {
	t.Helper()
	u, err := l.objects.Resource(nodePools).Get(t.Context(), pool, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight")
	return w
}
