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
		for i := range in.Nodes { // a pool may hold dearer types too, and some are not ours
			in.Nodes[i].Pool = rapid.SampledFrom([]string{"", "web", "plimsoll-" + in.Nodes[i].Offering.InstanceType + "-spot", "plimsoll-" + in.Nodes[i].Offering.InstanceType + "-od", "plimsoll-one-od", "plimsoll-rest", "plimsoll-old"}).Draw(t, "pool")
		}
		p := decide(t, in)
		b, err := capacity.Buy(&in, p)
		if err != nil {
			t.Fatal(err)
		}
		where := make([]int, len(b.Pods))
		k := karpenter.Input{Pods: b.Pods, Offerings: b.Offerings, New: b.New, Pools: []string{"plimsoll-old", "plimsoll-older", "plimsoll-rest", "plimsoll-one-od", "plimsoll-small-spot", "plimsoll-big-od"}}
		runs, ends := map[string]int64{}, 0
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
			k.Running = append(k.Running, karpenter.Machine{Name: r.Name, Pool: pool, Offering: r.Offering, Pods: r.Pods, Ends: r.Ends})
			runs[pool]++
			if r.Ends {
				ends++
				k.OpenFor(pool)
			}
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
		if len(b.New) != want || len(b.Running) != len(in.Nodes) || ends != len(p.Drain) {
			t.Fatalf("%d new of %d, %d run of %d, %d of %d end", len(b.New), want, len(b.Running), len(in.Nodes), ends, len(p.Drain))
		}
		capped := rapid.Bool().Draw(t, "told under caps")
		told, err := karpenter.Compose(k, karpenter.Settings{Rounds: 1, TaintGPUs: true, Capped: capped})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range told.Retire {
			if runs[name] > 0 {
				t.Fatalf("%s has %d machines and is to go", name, runs[name])
			}
		}
		room := int64(0)
		for _, np := range told.Pools {
			if capped && np.Nodes == nil {
				t.Fatalf("%s has no limit", np.Name)
			}
			if np.Nodes != nil {
				room += *np.Nodes - runs[np.Name]
			}
			if np.Nodes != nil && *np.Nodes < runs[np.Name] {
				t.Fatalf("%s (%s) has %d machines and a limit of %d", np.Name, np.Why, runs[np.Name], *np.Nodes)
			}
			cpu := int64(0)
			for _, m := range k.Running {
				if m.Pool == np.Name {
					cpu += b.Offerings[m.Offering].CPUMilli
				}
			}
			if np.CPUMilli > 0 && np.CPUMilli < cpu {
				t.Fatalf("%s has %d CPU and a limit of %d", np.Name, cpu, np.CPUMilli)
			}
		}
		if capped && room > int64(want) {
			t.Fatalf("pools have room for %d machines more; the plan adds %d", room, want)
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
