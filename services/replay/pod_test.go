package replay

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

// lives records when each pod was first seen in each phase, and each node.
type lives struct {
	pods  map[string]map[fleet.PodPhase]time.Duration
	order map[string][]fleet.PodPhase
}

func watch(t *testing.T, w *World, d time.Duration) lives {
	t.Helper()
	l := lives{map[string]map[fleet.PodPhase]time.Duration{}, map[string][]fleet.PodPhase{}}
	began, revision := w.Now(), int64(0)
	for w.Now().Before(began.Add(d)) {
		if err := w.Step(); err != nil {
			t.Fatal(err)
		}
		c := w.Changes(revision)
		revision = c.Revision
		for _, p := range c.Pods {
			if l.pods[p.Name] == nil {
				l.pods[p.Name] = map[fleet.PodPhase]time.Duration{}
			}
			if _, seen := l.pods[p.Name][p.Phase]; !seen {
				l.pods[p.Name][p.Phase] = w.Now().Sub(began)
				l.order[p.Name] = append(l.order[p.Name], p.Phase)
			}
		}
	}
	return l
}

func TestColdStartGoesPhaseByPhase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 1, TokensIn: 900, TokensOut: 210}, nil))
	if _, _, err := w.Scale(llm, 3); err != nil {
		t.Fatal(err)
	}
	fresh := w.pods[2].Name
	cold := watch(t, w, 8*time.Minute)
	want := []fleet.PodPhase{fleet.PodPending, fleet.PodPulling, fleet.PodLoading, fleet.PodReady}
	if got := cold.order[fresh]; len(got) != 4 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Fatalf("phases %v", got)
	}
	took := cold.pods[fresh][fleet.PodReady]
	if took < 110*time.Second || took > 330*time.Second { // 60 + 90 + 60 s, each +- a fifth
		t.Errorf("a cold start of %v", took)
	}
	// The node stays a while and holds the image: the next replica there only loads.
	if _, _, err := w.Scale(llm, 2); err != nil {
		t.Fatal(err)
	}
	advance(t, w, 2*time.Minute)
	if _, _, err := w.Scale(llm, 3); err != nil {
		t.Fatal(err)
	}
	second := w.pods[2].Name
	warm := watch(t, w, 3*time.Minute)
	if _, pulled := warm.pods[second][fleet.PodPulling]; pulled || warm.pods[second][fleet.PodReady] == 0 || warm.pods[second][fleet.PodReady] > took-60*time.Second {
		t.Errorf("on a warm node: %v", warm.pods[second])
	}
}

func TestFreshReplicaServesLessAtFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 1, TokensIn: 900, TokensOut: 210}, nil))
	l := w.byKey[llm]
	advance(t, w, 5*time.Second)
	if l.ready != 2 || l.eff < 1 || l.eff > 1.2 {
		t.Errorf("right after the start %d ready replicas count as %.2f", l.ready, l.eff)
	}
	advance(t, w, 2*time.Minute)
	if l.eff != 2 {
		t.Errorf("two minutes later they count as %.2f", l.eff)
	}
}

func TestScaleDownDrainsAndFreesTheMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 2, TokensIn: 900, TokensOut: 210}, func(c *Config) { c.Workloads[0].Replicas = 3 }))
	advance(t, w, 2*time.Minute)
	if _, _, err := w.Scale(llm, 1); err != nil {
		t.Fatal(err)
	}
	if st := state(w, llm); st.Replicas != 1 || st.Draining != 2 || st.Ready != 1 {
		t.Errorf("right after: %d asked, %d draining, %d ready", st.Replicas, st.Draining, st.Ready)
	}
	advance(t, w, time.Minute)
	if st := state(w, llm); st.Draining != 0 {
		t.Errorf("%d still drain after a minute", st.Draining)
	}
	if c := w.byKey[llm].Count; c.Requeued != 0 {
		t.Errorf("a gentle drain lost %d requests", c.Requeued)
	}
	advance(t, w, 8*time.Minute)
	if len(w.nodes) != 3 {
		t.Errorf("%d nodes; empty ones stay for ten minutes", len(w.nodes))
	}
	advance(t, w, 3*time.Minute)
	if len(w.nodes) != 1 {
		t.Errorf("%d nodes; the empty ones should be gone", len(w.nodes))
	}
	ended := 0
	for _, n := range w.Changes(0).Nodes {
		if n.Phase == fleet.NodeTerminated && !n.EndedAt.IsZero() {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("%d ended nodes are told", ended)
	}
	advance(t, w, 2*time.Hour)
	if n := len(w.Changes(0).Nodes); n != 1 {
		t.Errorf("%d nodes are remembered two hours later", n)
	}
}

func TestPoolKeepsItsFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{}, func(c *Config) { c.Pools[0].MinNodes, c.Workloads[0].Replicas = 2, 0 }))
	advance(t, w, time.Hour)
	if len(w.nodes) != 2 {
		t.Errorf("%d nodes, the floor is 2", len(w.nodes))
	}
}

func TestInterruptionGivesNoticeAndReplacesBeforeTheLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 1, TokensIn: 900, TokensOut: 210}, func(c *Config) {
		c.Pools[0].Purchase, c.Pools[0].HazardPerHour = fleet.PurchaseSpot, 0.7
	}))
	for len(w.events) == 0 {
		if err := w.Step(); err != nil {
			t.Fatal(err)
		}
		if w.Now().After(start.Add(24 * time.Hour)) {
			t.Fatal("no interruption in a day at 0.7 an hour")
		}
	}
	notice := w.events[0]
	if notice.Kind != "interruption_notice" {
		t.Fatalf("first event: %+v", notice)
	}
	st := state(w, llm)
	if st.Draining != 1 || st.Starting+st.Ready != 2 {
		t.Errorf("at the notice: %d draining, %d starting, %d ready", st.Draining, st.Starting, st.Ready)
	}
	advance(t, w, 2*time.Minute+5*time.Second)
	lost := false
	for _, e := range w.events {
		if e.Kind == "node_lost" && e.Object == notice.Object {
			lost = true
			if d := e.At.Sub(notice.At); d != 2*time.Minute {
				t.Errorf("lost %v after the notice", d)
			}
		}
	}
	if !lost {
		t.Error("the node was not lost")
	}
	checkBooks(t, w)
}

func TestLongWorkOfALostReplicaWaitsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{Rate: 0.01}, func(c *Config) {
		c.Pools[0].Purchase, c.Pools[0].HazardPerHour = fleet.PurchaseSpot, 0.5
		c.Workloads[0].Service = Service{Slots: 1, Seconds: 1500}
	}))
	advance(t, w, 48*time.Hour)
	checkBooks(t, w)
	if c := w.byKey[llm].Count; c.Requeued == 0 || c.TimedOut != 0 {
		t.Errorf("two days of losses: %+v", c)
	}
}

func TestNextPoolIsUsedWhenTheFirstHasNoStock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{}, func(c *Config) {
		spot := c.Pools[0]
		spot.Name, spot.Purchase, spot.StockOutsPerWeek, spot.StockOutSeconds = "spot", fleet.PurchaseSpot, 168, 40_000 // always
		c.Pools = append(c.Pools, spot)
		c.Workloads[0].Pools, c.Workloads[0].Replicas = []string{"spot", "gpu"}, 0
	}))
	advance(t, w, 5*time.Minute)
	if _, _, err := w.Scale(llm, 2); err != nil {
		t.Fatal(err)
	}
	advance(t, w, 10*time.Minute)
	for _, n := range w.nodes {
		if n.PoolName != "gpu" {
			t.Errorf("a node of pool %s, which has no stock", n.PoolName)
		}
	}
	failures := map[string]bool{}
	for _, e := range w.events {
		if e.Kind == "capacity_failure" {
			failures[e.Message] = true
		}
	}
	if len(failures) != 2 {
		t.Errorf("both zones of the first pool fail once: %v", failures)
	}
	if st := state(w, llm); st.Ready != 2 {
		t.Errorf("%d ready", st.Ready)
	}
}

func TestPodsWaitWhenNoMachineIsToBeHad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{}, func(c *Config) { c.Pools[0].MaxNodes = 2 }))
	if _, _, err := w.Scale(llm, 4); err != nil {
		t.Fatal(err)
	}
	advance(t, w, 10*time.Minute)
	st := state(w, llm)
	if st.Ready != 2 || st.Starting != 2 || len(w.nodes) != 2 {
		t.Errorf("ready %d, starting %d, nodes %d", st.Ready, st.Starting, len(w.nodes))
	}
	told := 0
	for _, e := range w.events {
		if e.Kind == "failed_scheduling" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("failed_scheduling was said %d times, want once per pod", told)
	}
}

func TestPackingFillsAMachineBeforeAskingForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{}, func(c *Config) {
		c.Pools[0].Type = fleet.InstanceType{Name: "g6.12xlarge", CPUMilli: 48000, MemMiB: 196608, GPUModel: "L4", GPUCount: 4, GPUMemoryMiB: 22888}
		c.Workloads[0].Replicas = 9
	}))
	if len(w.nodes) != 3 {
		t.Errorf("nine replicas on %d machines of four GPUs", len(w.nodes))
	}
	if _, _, err := w.Scale(llm, 4); err != nil {
		t.Fatal(err)
	}
	advance(t, w, 15*time.Minute)
	if len(w.nodes) != 1 {
		t.Errorf("four replicas left, on %d machines: the emptiest should be emptied first", len(w.nodes))
	}
}
