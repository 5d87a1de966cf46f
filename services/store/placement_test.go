package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func ruledInventory(seq uint64, at time.Time) *agentv1.Report {
	chat := []*agentv1.NodeRequirement{{Key: "app", Operator: "In", Values: []string{"chat"}}}
	return inventoryReport(seq, at, &agentv1.Inventory{
		Snapshot: true,
		Nodes: []*agentv1.Node{{Uid: "u1", Name: "n1", Cloud: "aws", Region: "us-east-1", Zone: "us-east-1a", InstanceType: "m5.large", Purchase: "on_demand", Phase: "ready", CpuMilli: 2000, MemMib: 8192,
			ProviderId: "aws:///us-east-1a/i-0abc", TaintsTold: true, Taints: []*agentv1.NodeTaint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}, Labels: map[string]string{"disk": "nvme"}}},
		Pods: []*agentv1.Pod{
			{Uid: "p1", Name: "chat-1", Namespace: "web", Workload: "web/Deployment/chat", Node: "n1", Phase: "ready", CpuMilli: 100, MemMib: 100, Labels: map[string]string{"app": "chat"}, Placement: 1 << 63},
			{Uid: "p2", Name: "chat-2", Namespace: "web", Workload: "web/Deployment/chat", Phase: "pending", CpuMilli: 100, MemMib: 100, Labels: map[string]string{"app": "chat"}, Placement: 1 << 63},
			{Uid: "p3", Name: "old-1", Namespace: "web", Phase: "pending", CpuMilli: 100, MemMib: 100},
		},
		Placements: []*agentv1.Placement{{Id: 1 << 63, Selector: []*agentv1.NodeRequirement{{Key: "disk", Operator: "In", Values: []string{"nvme"}}},
			Tolerations: []*agentv1.Toleration{{Key: "gpu", Operator: "Exists"}}, AntiAffinity: []*agentv1.PodTerm{{Topology: "kubernetes.io/hostname", Selector: chat}}}},
		LimitsTold: true, DisruptionLimits: []*agentv1.DisruptionLimit{{Namespace: "web", Name: "chat", Selector: chat, Allowed: 0, Healthy: 1, Wanted: 1}},
	})
}

func TestWhatSpecsSayReachesTheCapacityInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	take := func(r *agentv1.Report) {
		t.Helper()
		if out := ingest(t, src, r); out[0].Result != "accepted" {
			t.Fatalf("%+v", out[0])
		}
	}
	load := func() (in *capacity.Input) {
		t.Helper()
		s.tx(t, s.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
			in, err = store.LoadCapacityInput(ctx, tx, market.Catalogue(), s.cluster)
			return err
		})
		return in
	}
	take(ruledInventory(1, day))
	in := load()
	n := in.Nodes[0]
	if n.Labels["disk"] != "nvme" || !slices.Equal(n.Taints, []string{"gpu=yes:NoSchedule"}) || len(in.Rules) != 1 || len(in.Limits) != 1 {
		t.Errorf("node %+v, rules %v, limits %v", n, in.Rules, in.Limits)
	}
	for _, p := range in.Pods {
		switch p.UID {
		case "p1", "p2":
			if p.Rule != 1 || p.Limit != 1 || !slices.Equal(p.Tolerates, n.Taints) || len(p.Anti) != 1 || len(p.Groups) != 1 || p.Protected != "pdb" {
				t.Errorf("pod %+v", p)
			}
		case "p3": // of an agent that tells nothing
			if p.Rule != 0 || !slices.Equal(p.Tolerates, []string{"*"}) || p.Untold {
				t.Errorf("a pod of which nothing was told: %+v", p)
			}
		}
	}
	// An agent of before takes over: what it does not tell is not known, and the cloud's name stays.
	take(inventoryReport(2, day.Add(time.Minute), &agentv1.Inventory{Snapshot: true, Nodes: []*agentv1.Node{{Uid: "u1", Name: "n1", Cloud: "aws", Region: "us-east-1", Zone: "us-east-1a", InstanceType: "m5.large", Purchase: "on_demand", Phase: "ready", CpuMilli: 2000, MemMib: 8192}},
		Pods: []*agentv1.Pod{{Uid: "p1", Name: "chat-1", Namespace: "web", Workload: "web/Deployment/chat", Node: "n1", Phase: "ready", Labels: map[string]string{"app": "chat"}}}}))
	if in := load(); len(in.Rules) != 0 || len(in.Nodes[0].Taints) != 0 || in.Pods[0].Rule != 0 || len(in.Limits) != 1 {
		t.Errorf("after an agent of before: %+v", in)
	}
	if got := s.lives(t, `SELECT provider_id || ' ' || (taints IS NULL) FROM node WHERE $1::timestamptz IS NOT NULL`); !slices.Equal(got, []string{"aws:///us-east-1a/i-0abc true"}) {
		t.Errorf("node %v", got)
	}
	if got := s.lives(t, `SELECT count(*)::text FROM placement WHERE $1::timestamptz IS NOT NULL`); !slices.Equal(got, []string{"0"}) {
		t.Errorf("%v placements stay that no pod names", got)
	}
}
