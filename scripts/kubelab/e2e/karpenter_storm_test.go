package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKarpenterStorm takes all Spot machines of the cheapest GPU away at once
// while their type is nowhere to be had and one zone has nothing at all, and
// twice as many pods are asked for. It measures how long pods wait until they
// run, with hand-tuned pools and with ours. What has run out shows as failed
// launches first and is known three seconds later, as with a cloud provider
// that remembers them; the planner is told then too.
func TestKarpenterStorm(t *testing.T) {
	const before, after = 24, 64
	slow := map[string]time.Duration{}
	for _, way := range []string{"hand-tuned", "plimsoll"} {
		t.Run(way, func(t *testing.T) {
			l := startKarpenterLab(t, "storm-"+way, builtIn())
			var pods []replica
			for i := range before {
				pods = append(pods, replica{name: fmt.Sprintf("p%03d", i), cpu: 3000, mem: 9000, gpus: 1, spot: true})
			}
			l.demand(t, pods, way == "hand-tuned")
			steer := func(out ...dry) {
				if way == "plimsoll" {
					l.applied(t, l.carryOut(t, l.plan(t, out...)))
				}
			}
			if way == "hand-tuned" {
				l.apply(t, tunedPools(l.offers))
			}
			steer()
			l.allRun(t, 2*time.Minute, before)

			storm := []dry{{Zone: "us-east-1a"}}
			for _, size := range []string{"xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge"} {
				storm = append(storm, dry{InstanceType: "g4dn." + size, CapacityType: "spot"})
			}
			l.dryUp(t, storm...)
			begin := time.Now()
			taken := 0
			for _, c := range l.list(t, nodeClaims, "") {
				taken++
				if err := l.objects.Resource(nodeClaims).Delete(t.Context(), c.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			l.scale(t, "w-p000", after)
			known := false
			waits := l.waits(t, begin, 3*time.Minute, after, func(since time.Duration) {
				if !known && since > 3*time.Second {
					known = true
					hidden := slices.Clone(storm)
					for i := range hidden {
						hidden[i].Hidden = true
					}
					l.dryUp(t, hidden...)
					steer(storm...)
				}
			})
			slices.Sort(waits)
			slow[way] = waits[len(waits)*95/100]
			cost, machines := l.cost(t)
			t.Logf("KARPENTER storm %-10s %d machines taken, %d pods wait: p50 %.1f s, p95 %.1f s, all after %.1f s; then $%.2f/h on %d machines",
				way, taken, len(waits), waits[len(waits)/2].Seconds(), slow[way].Seconds(), waits[len(waits)-1].Seconds(), cost, machines)
		})
	}
	if ours, theirs := slow["plimsoll"], slow["hand-tuned"]; !t.Failed() {
		t.Logf("KARPENTER storm p95 until capacity: ours %.1f s, Karpenter's own ladder %.1f s", ours.Seconds(), theirs.Seconds())
		if ours >= theirs {
			t.Errorf("p95 until capacity: ours %s, Karpenter's own ladder %s", ours, theirs)
		}
	}
}

// waits is how long each pod that was made since begin took until it was
// ready, once n run.
func (l *karpenterLab) waits(t *testing.T, begin time.Time, d time.Duration, n int, each func(time.Duration)) []time.Duration {
	t.Helper()
	ready := map[string]time.Duration{}
	for time.Since(begin) < d {
		each(time.Since(begin))
		running, all := 0, l.pods(t)
		for _, p := range all {
			ok := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if !ok {
				continue
			}
			running++
			if _, seen := ready[p.Name]; !seen && p.CreationTimestamp.Time.After(begin.Add(-time.Second)) {
				ready[p.Name] = time.Since(begin)
			}
		}
		if running == n && len(all) == n && len(l.list(t, nodeClaims, "")) > 0 && l.leaving(t) == 0 {
			var out []time.Duration
			for _, w := range ready {
				out = append(out, w)
			}
			return out
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("not all of %d pods run within %s", n, d)
	return nil
}

// leaving counts machines on their way out.
func (l *karpenterLab) leaving(t *testing.T) int {
	t.Helper()
	n := 0
	for _, c := range l.list(t, nodeClaims, "") {
		if c.GetDeletionTimestamp() != nil {
			n++
		}
	}
	return n
}
