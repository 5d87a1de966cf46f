package capacity_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

var ruleNow = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// ruleInput is three machines m1 to m3 in zones a, b, a, of which m1 and m2 hold a replica of chat each, and candidates in both zones.
func ruleInput(pods ...capacity.Pod) capacity.Input {
	price := fleet.Money(200_000_000)
	in := capacity.Input{Cluster: "c", Now: ruleNow, DataAt: ruleNow, Mode: fleet.ModeEnforce, Policy: capacity.Policy{CPUOnGPU: true}}
	for i, zone := range []string{"a", "b", "a"} {
		saves := price
		in.Nodes = append(in.Nodes, capacity.Node{UID: fmt.Sprint("u", i+1), Name: fmt.Sprint("m", i+1), Offering: fleet.Offering{Cloud: "aws", Region: "r", Zone: zone, InstanceType: "t", Purchase: fleet.PurchaseOnDemand},
			Phase: fleet.NodeReady, CPUMilli: 8000, MemMiB: 16000, MaxPods: 50, Arch: "amd64", Price: &price, Saves: &saves, StartedAt: ruleNow.Add(-24 * time.Hour)})
	}
	for _, zone := range []string{"a", "b"} {
		p := price
		in.Candidates = append(in.Candidates, capacity.Candidate{Offering: fleet.Offering{Cloud: "aws", Region: "r", Zone: zone, InstanceType: "t", Purchase: fleet.PurchaseOnDemand}, Price: &p, CPUMilli: 8000, MemMiB: 16000, MaxPods: 50, VCPU: 8, Arch: "amd64"})
	}
	in.Pods = append([]capacity.Pod{runs("web/chat-1", "m1"), runs("web/chat-2", "m2")}, pods...)
	return in
}

func runs(name, node string) capacity.Pod {
	return capacity.Pod{UID: name, Name: name, Workload: "web/Deployment/chat", Node: node, Phase: fleet.PodReady, CPUMilli: 1000, MemMiB: 1000, Since: ruleNow.Add(-time.Hour), ReadyAt: ruleNow.Add(-time.Hour)}
}

func waits(name string) capacity.Pod {
	return capacity.Pod{UID: name, Name: name, Workload: "web/Deployment/chat", Phase: fleet.PodPending, CPUMilli: 1000, MemMiB: 1000, Since: ruleNow.Add(-time.Minute)}
}

func in(key string, values ...string) capacity.Requirement {
	return capacity.Requirement{Key: key, Operator: "In", Values: values}
}

func TestAPodGoesWhereItsSpecLetsIt(t *testing.T) {
	t.Parallel()
	chat := []capacity.Requirement{in("app", "chat")}
	everyone := map[string]string{"app": "chat"}
	gpuTaint := capacity.Taint{Key: "gpu", Value: "yes", Effect: "NoSchedule"}
	for name, c := range map[string]struct {
		at     *capacity.Placement
		taints [][]capacity.Taint
		labels []map[string]string
		want   string // cause, and node or zone of the new machine, or what is in the way
	}{
		"nothing asked":           {at: &capacity.Placement{}, want: "room m1"},
		"a zone":                  {at: &capacity.Placement{Selector: []capacity.Requirement{in("topology.kubernetes.io/zone", "b")}}, want: "room m2"},
		"one of two terms":        {at: &capacity.Placement{NodeTerms: [][]capacity.Requirement{{in("disk", "no")}, {in("topology.kubernetes.io/zone", "b")}}}, want: "room m2"},
		"a label of one machine":  {at: &capacity.Placement{Selector: []capacity.Requirement{in("disk", "nvme")}}, labels: []map[string]string{nil, nil, {"disk": "nvme"}}, want: "room m3"},
		"a label nobody has":      {at: &capacity.Placement{Selector: []capacity.Requirement{in("disk", "nvme")}}, want: "fits_nothing [where]"},
		"taints on all":           {at: &capacity.Placement{}, taints: [][]capacity.Taint{{gpuTaint}, {gpuTaint}, {gpuTaint}}, want: "fits_nothing [taint]"},
		"taints that it bears":    {at: &capacity.Placement{Tolerations: []capacity.Toleration{{Key: "gpu", Operator: "Exists"}}}, taints: [][]capacity.Taint{{gpuTaint}, {gpuTaint}, {gpuTaint}}, want: "room m1"},
		"a taint on two of three": {at: &capacity.Placement{}, taints: [][]capacity.Taint{{gpuTaint}, nil, {gpuTaint}}, want: "room m2"},
		"never beside another":    {at: &capacity.Placement{AntiAffinity: []capacity.PodTerm{{Topology: "kubernetes.io/hostname", Selector: chat}}}, want: "room m3"},
		"spread over zones":       {at: &capacity.Placement{Spread: []capacity.TopologySpread{{Topology: "topology.kubernetes.io/zone", MaxSkew: 1, Selector: chat}}}, want: "room m1"},
		"beside another":          {at: &capacity.Placement{Affinity: []capacity.PodTerm{{Topology: "kubernetes.io/hostname", Selector: chat}}}, want: "room m1"},
		"more than was told":      {at: &capacity.Placement{Incomplete: true}, want: "fits_nothing [where]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := ruleInput(waits("web/chat-3"))
			told := &capacity.Told{NodeTaints: c.taints, NodeLabels: c.labels, PodLabels: []map[string]string{everyone, everyone, everyone}, Placements: []*capacity.Placement{nil, nil, c.at}}
			capacity.Rule(&input, told)
			plan, err := capacity.Decide(input, nil)
			if err != nil {
				t.Fatal(err)
			}
			if bad := capacity.Check(input, plan); len(bad) > 0 {
				t.Fatalf("the plan fails its check: %v", bad)
			}
			var got string
			for _, w := range plan.Waiting {
				if got = fmt.Sprint(w.Cause, " ", w.Node); w.Cause == capacity.CauseNothing {
					got = fmt.Sprint(w.Cause, " ", w.Blocked)
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDrainsKeepDisruptionLimits(t *testing.T) {
	t.Parallel()
	labels := []map[string]string{{"app": "chat"}, {"app": "chat"}}
	limit := func(name string, allowed int64) capacity.DisruptionLimit {
		return capacity.DisruptionLimit{Namespace: "web", Name: name, Selector: []capacity.Requirement{in("app", "chat")}, Allowed: allowed}
	}
	for name, c := range map[string]struct {
		limits []capacity.DisruptionLimit
		labels []map[string]string
		moves  int
	}{
		"no limit":                        {nil, labels, 1},
		"one may go":                      {[]capacity.DisruptionLimit{limit("a", 1)}, labels, 1},
		"none may go":                     {[]capacity.DisruptionLimit{limit("a", 0)}, labels, 0},
		"two limits":                      {[]capacity.DisruptionLimit{limit("a", 5), limit("b", 5)}, labels, 0},
		"labels were dropped":             {[]capacity.DisruptionLimit{limit("a", 5)}, nil, 0},
		"a limit of another namespace":    {[]capacity.DisruptionLimit{{Namespace: "other", Name: "a"}}, labels, 1},
		"a limit that selects other pods": {[]capacity.DisruptionLimit{{Namespace: "web", Name: "a", Selector: []capacity.Requirement{in("app", "x")}}}, labels, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := ruleInput()
			capacity.Rule(&input, &capacity.Told{PodLabels: c.labels, Limits: c.limits})
			plan, err := capacity.Decide(input, nil)
			if err != nil {
				t.Fatal(err)
			}
			if bad := capacity.Check(input, plan); len(bad) > 0 {
				t.Fatalf("the plan fails its check: %v", bad)
			}
			moves := 0
			for _, d := range plan.Drain {
				moves += len(d.Moves)
			}
			if moves != c.moves {
				t.Errorf("%d pods move, want %d: %+v", moves, c.moves, plan.Drain)
			}
		})
	}
}
