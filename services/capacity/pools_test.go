package capacity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

func TestRulesOfPoolsThatHaveNoMeaningAreRefusedByTheirField(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 51 {
		many[fmt.Sprint("k", i)] = "v"
	}
	for name, c := range map[string]struct {
		rules capacity.PoolRules
		field string
	}{
		"a key with a space":               {capacity.PoolRules{Labels: map[string]string{"a b": "c"}}, "labels"},
		"no key":                           {capacity.PoolRules{Labels: map[string]string{"": "c"}}, "labels"},
		"a key that is too long":           {capacity.PoolRules{Labels: map[string]string{strings.Repeat("a", 64): "c"}}, "labels"},
		"a domain that is none":            {capacity.PoolRules{Labels: map[string]string{"-x.example.com/a": "c"}}, "labels"},
		"Karpenter's domain":               {capacity.PoolRules{Labels: map[string]string{"karpenter.sh/nodepool": "x"}}, "labels"},
		"below Karpenter's domain":         {capacity.PoolRules{Labels: map[string]string{"x.karpenter.sh/a": "x"}}, "labels"},
		"Kubernetes' domain":               {capacity.PoolRules{Labels: map[string]string{"node.kubernetes.io/instance-type": "x"}}, "labels"},
		"Plimsoll's domain":                {capacity.PoolRules{Labels: map[string]string{"plimsoll.dev/pool": "x"}}, "labels"},
		"what a driver writes":             {capacity.PoolRules{Labels: map[string]string{"nvidia.com/gpu.product": "x"}}, "labels"},
		"a value with a slash":             {capacity.PoolRules{Labels: map[string]string{"team": "a/b"}}, "labels"},
		"too many labels":                  {capacity.PoolRules{Labels: many}, "labels"},
		"a taint without an effect":        {capacity.PoolRules{Taints: []string{"team=ml"}}, "taints"},
		"a taint of an unknown effect":     {capacity.PoolRules{Taints: []string{"team=ml:Never"}}, "taints"},
		"a taint that keeps no pod away":   {capacity.PoolRules{Taints: []string{"team=ml:PreferNoSchedule"}}, "taints"},
		"a taint twice":                    {capacity.PoolRules{Taints: []string{"team=ml:NoSchedule", "team=web:NoSchedule"}}, "taints"},
		"a taint of Kubernetes":            {capacity.PoolRules{Taints: []string{"node.kubernetes.io/unreachable:NoExecute"}}, "taints"},
		"a taint of the driver":            {capacity.PoolRules{Taints: []string{"nvidia.com/gpu=present:NoSchedule"}}, "taints"},
		"a taint also at the start":        {capacity.PoolRules{Taints: []string{"a:NoSchedule"}, StartupTaints: []string{"a:NoSchedule"}}, "startup_taints"},
		"a startup taint of Karpenter":     {capacity.PoolRules{StartupTaints: []string{"karpenter.sh/unregistered:NoExecute"}}, "startup_taints"},
		"a startup taint that is no taint": {capacity.PoolRules{StartupTaints: []string{":NoSchedule"}}, "startup_taints"},
		"an age below none":                {capacity.PoolRules{ExpireAfterHrs: -1}, "expire_after_hours"},
		"a grace of a month":               {capacity.PoolRules{TerminationSec: 30 * 86_400}, "termination_grace_sec"},
		"a budget above all":               {capacity.PoolRules{DriftBudget: "101%"}, "drift_budget"},
		"a budget of words":                {capacity.PoolRules{DriftBudget: "some"}, "drift_budget"},
		"a budget below none":              {capacity.PoolRules{EmptyBudget: "-1"}, "empty_budget"},
		"a budget with a sign":             {capacity.PoolRules{EmptyBudget: "+1"}, "empty_budget"},
	} {
		err := capacity.Policy{Pools: &c.rules}.Validate()
		var coded *fleet.Error
		if !errors.As(err, &coded) || coded.Code != fleet.CodeInvalid || coded.Field != "body.node_pools."+c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := capacity.PoolRules{Labels: map[string]string{"team": "ml", "example.com/tier": ""}, Taints: []string{"team=ml:NoSchedule", "team=ml:NoExecute"}, StartupTaints: []string{"node.cilium.io/agent-not-ready=true:NoExecute"},
		ExpireAfterHrs: 720, TerminationSec: 3600, DriftBudget: "10%", EmptyBudget: "0"}
	if err := (capacity.Policy{Pools: &good}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestOfferingsHaveWhatPoolsPutOnThemAndOnlyPodsThatTolerateItMayGoThere(t *testing.T) {
	t.Parallel()
	in := &capacity.Input{
		Policy:     capacity.Policy{Pools: &capacity.PoolRules{Labels: map[string]string{"tier": "gold"}, Taints: []string{"team=ml:NoSchedule"}}},
		Nodes:      []capacity.Node{{Name: "n", Offering: fleet.Offering{InstanceType: "m5.large"}}},
		Candidates: []capacity.Candidate{{Offering: fleet.Offering{InstanceType: "m5.large"}}, {Offering: fleet.Offering{InstanceType: "m5.xlarge"}}},
		Pods:       []capacity.Pod{{Name: "a/tolerates"}, {Name: "a/does-not"}},
	}
	capacity.Rule(in, &capacity.Told{NodeLabels: []map[string]string{nil}, NodeTaints: [][]capacity.Taint{{{Key: "team", Value: "web", Effect: "NoSchedule"}}}, PodLabels: make([]map[string]string, 2),
		Placements: []*capacity.Placement{{Tolerations: []capacity.Toleration{{Key: "team", Operator: "Equal", Value: "ml", Effect: "NoSchedule"}}, Selector: []capacity.Requirement{{Key: "tier", Operator: "In", Values: []string{"gold"}}}}, {}}})
	for _, c := range in.Candidates {
		if !slices.Equal(c.Taints, []string{"team=ml:NoSchedule"}) || c.Labels["tier"] != "gold" {
			t.Errorf("%s: %v %v", c.Offering.InstanceType, c.Taints, c.Labels)
		}
	}
	if in.Nodes[0].Labels["tier"] != "" || !slices.Equal(in.Nodes[0].Taints, []string{"team=web:NoSchedule"}) {
		t.Errorf("a machine that runs is what it is: %+v", in.Nodes[0])
	}
	if !slices.Equal(in.Pods[0].Tolerates, []string{"team=ml:NoSchedule"}) || len(in.Pods[1].Tolerates) != 0 {
		t.Errorf("%v, %v", in.Pods[0].Tolerates, in.Pods[1].Tolerates)
	}
}

func TestMachinesOfOurPoolsAreHeldAgainstWhatThesePutOnThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	p := capacity.Policy{Pools: &capacity.PoolRules{Labels: map[string]string{"tier": "gold"}, Taints: []string{"team=ml:NoSchedule"}, StartupTaints: []string{"agent-not-ready:NoExecute"}, ExpireAfterHrs: 24}}
	good := capacity.NodeFact{Name: "x", Pool: capacity.PoolPrefix + "m5", StartedAt: now.Add(-time.Hour), Labels: map[string]string{"tier": "gold"}, Taints: []string{"team=ml:NoSchedule"}, TaintsOK: true}
	for name, c := range map[string]struct {
		change func(*capacity.NodeFact)
		want   string
	}{
		"as it should be":            {func(*capacity.NodeFact) {}, ""},
		"no label":                   {func(n *capacity.NodeFact) { n.Labels = nil }, "pool_label"},
		"another value":              {func(n *capacity.NodeFact) { n.Labels = map[string]string{"tier": "tin"} }, "pool_label"},
		"no taint":                   {func(n *capacity.NodeFact) { n.Taints = nil }, "pool_taint"},
		"taints not told":            {func(n *capacity.NodeFact) { n.TaintsOK = false }, "?pool_taint"},
		"a startup taint that stays": {func(n *capacity.NodeFact) { n.Taints = append([]string{"agent-not-ready:NoExecute"}, n.Taints...) }, "startup_taint"},
		"a startup taint at the start": {func(n *capacity.NodeFact) {
			n.Taints = append([]string{"agent-not-ready:NoExecute"}, n.Taints...)
			n.StartedAt = now.Add(-time.Minute)
		}, ""},
		"older than it may get":           {func(n *capacity.NodeFact) { n.StartedAt = now.Add(-26 * time.Hour) }, "pool_age"},
		"of a pool that others made":      {func(n *capacity.NodeFact) { n.Pool, n.Labels, n.Taints = "web", nil, nil }, ""},
		"of no pool, and nothing is told": {func(n *capacity.NodeFact) { n.Pool, n.TaintsOK = "", false }, ""},
	} {
		n := good
		c.change(&n)
		got := ""
		for _, r := range capacity.Comply(p, "", now, []capacity.NodeFact{n}) {
			for _, f := range r.Findings {
				got += f.Code
			}
			for _, u := range r.Unchecked {
				got += "?" + u
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
