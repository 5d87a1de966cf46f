package capacity_test

import (
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/capacity/karpenter"
	"plimsoll.dev/services/fleet"
)

func TestAPlanBecomesPools(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		p := decide(t, in)
		b, err := capacity.Buy(&in, p)
		if err != nil {
			t.Fatal(err)
		}
		where := make([]int, len(b.Pods))
		k := karpenter.Input{Pods: b.Pods, Offerings: b.Offerings, New: b.New}
		for _, n := range b.New {
			for _, i := range n.Pods {
				where[i]++
			}
		}
		for _, r := range b.Running {
			pool := r.Pool
			if pool == "" {
				pool = "none"
			}
			k.Running = append(k.Running, karpenter.Machine{Name: r.Name, Pool: pool, Offering: r.Offering, Pods: r.Pods})
			for _, i := range r.Pods {
				where[i]++
			}
		}
		for i, n := range where {
			if n > 1 {
				t.Fatalf("%s is on %d machines", b.Pods[i].Name, n)
			}
		}
		want := 0
		for _, g := range p.Add {
			want += g.Count
		}
		if len(b.New) != want || len(b.Running)+len(p.Drain) != len(in.Nodes) {
			t.Fatalf("%d new of %d, %d stay of %d", len(b.New), want, len(b.Running), len(in.Nodes))
		}
		if _, err := karpenter.Compose(k, karpenter.Settings{Rounds: 1}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAMachineOfNoCandidateKeepsItsOffering(t *testing.T) {
	t.Parallel()
	n := node("n", "small", fleet.PurchaseOnDemand)
	n.Offering.InstanceType = "own"
	in := input([]capacity.Node{n}, pod("a1", "n", 1000, 0))
	b, err := capacity.Buy(&in, decide(t, in))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Running[0]; b.Offerings[r.Offering].InstanceType != "own" || *b.Offerings[r.Offering].Stock != 0 || len(r.Pods) != 1 {
		t.Errorf("%+v", b.Running)
	}
}
