package capacity_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

// ruledCluster is a cluster without machines in which so many pods wait: workloads of up to 14 equal replicas, half of them spread over zones, a
// fifth one per machine, some in the zone of another; a third wants GPUs. The offerings are 60 machine types in three zones, on demand and Spot.
func ruledCluster(pods int) capacity.Input {
	r := rand.New(rand.NewPCG(17, 4))
	one := func(v ...int64) int64 { return v[r.IntN(len(v))] }
	in := capacity.Input{Now: now, DataAt: now, Mode: fleet.ModeRecommend, NodeStart: 120, PodStart: 60}
	in.Policy = capacity.Policy{MaxActions: 1000, MaxStockOut: 1000, SpotUnlabeled: true}
	for t := range 60 {
		cores := one(4, 8, 16, 32, 48, 64, 96)
		c := capacity.Candidate{CPUMilli: cores * 1000, MemMiB: cores * one(2048, 4096, 8192), MaxPods: 110, VCPU: cores, Arch: "amd64"}
		price := cores*30 + c.MemMiB/250
		if t < 3 {
			c.CPUMilli, c.MemMiB, c.VCPU = 96_000, 786_000, 96
		}
		if t < 3 || r.IntN(3) == 0 {
			m := r.IntN(3)
			if c.GPUCount = one(1, 1, 2, 4, 8); t < 3 {
				m, c.GPUCount = t, 8
			}
			c.GPUModel = []fleet.GPUModel{"T4", "L4", "A100-40"}[m]
			price += c.GPUCount * []int64{300, 600, 3000}[m]
		}
		for z := range 3 {
			for _, p := range []fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseSpot} {
				o := c
				o.Offering = offering(fmt.Sprintf("m%02d", t), string(rune('a'+z)), p)
				o.Price = dollars(price * (90 + r.Int64N(20)) / 100)
				if p == fleet.PurchaseSpot {
					o.Price, o.HazardMilli, o.StockOutMilli = dollars(price*(30+r.Int64N(10))/100), 50, 100
				}
				in.Candidates = append(in.Candidates, o)
			}
		}
	}
	for w := 0; len(in.Pods) < pods; w++ {
		name := fmt.Sprintf("w%04d", w)
		p := capacity.Pod{Workload: "ns/Deployment/" + name, Phase: fleet.PodPending, Reason: "Unschedulable", Since: now.Add(-time.Minute), GPUMilli: 1000,
			CPUMilli: 500 * (1 + r.Int64N(16)), MemMiB: 512 * (1 + r.Int64N(40)), SpotOK: r.IntN(3) == 0, Groups: []string{name}}
		if r.IntN(3) == 0 {
			p.GPUCount = one(1, 1, 1, 2)
		}
		if r.IntN(2) == 0 {
			p.Spread = []string{name + "@zone:" + fmt.Sprint(1+r.IntN(2))}
		} else if w > 0 && r.IntN(8) == 0 {
			p.Affinity = []string{fmt.Sprintf("w%04d@zone", r.IntN(w))}
		}
		if r.IntN(5) == 0 {
			p.Anti = []string{name + "@node"}
		}
		for k := range min(1+r.IntN(14), pods-len(in.Pods)) {
			q := p
			q.Name = fmt.Sprintf("ns/%s-%02d", name, k)
			q.UID = "uid-" + q.Name
			in.Pods = append(in.Pods, q)
		}
	}
	return in
}

// rented is the cluster after a plan: its machines run, and the pods on them.
func rented(in capacity.Input, plan *capacity.Plan) capacity.Input {
	at := map[string]int{}
	for i := range in.Pods {
		at[in.Pods[i].Name] = i
	}
	in.Pods = append([]capacity.Pod(nil), in.Pods...)
	for _, g := range plan.Add {
		c := in.Candidates[g.Candidate]
		for _, m := range g.Machines {
			name := fmt.Sprintf("n%05d", len(in.Nodes))
			in.Nodes = append(in.Nodes, capacity.Node{UID: "uid-" + name, Name: name, Offering: c.Offering, Phase: fleet.NodeReady, CPUMilli: c.CPUMilli, MemMiB: c.MemMiB, MaxPods: c.MaxPods,
				GPUModel: c.GPUModel, GPUCount: c.GPUCount, Arch: c.Arch, Price: c.Price, Saves: c.Price, HazardMilli: c.HazardMilli, StartedAt: now.Add(-24 * time.Hour)})
			for _, pod := range m.Pods {
				p := &in.Pods[at[pod]]
				p.Node, p.Phase, p.Reason, p.ReadyAt = name, fleet.PodReady, "", now.Add(-time.Hour)
			}
		}
	}
	return in
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// BenchmarkPlanUnderRules plans a cluster of 2,400 pods under rules: all of it anew, and again with what that plan bought running and a
// hundredth of the pods new. At most 2,000 waiting pods are listed.
func BenchmarkPlanUnderRules(b *testing.B) {
	in := ruledCluster(2_400)
	first, err := capacity.Decide(in, nil)
	if err != nil {
		b.Fatal(err)
	}
	running := rented(in, first)
	fresh := 0
	for i := 0; i < len(running.Pods) && fresh < 24; i += 100 {
		p := &running.Pods[i]
		p.Node, p.Phase, p.Reason, p.ReadyAt = "", fleet.PodPending, "Unschedulable", time.Time{}
		fresh++
	}
	for _, c := range []struct {
		name string
		in   capacity.Input
	}{{"all anew", in}, {"24 new", running}} {
		b.Run(c.name, func(b *testing.B) {
			start := cpuSeconds()
			var plan *capacity.Plan
			for b.Loop() {
				if plan, err = capacity.Decide(c.in, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuSeconds()-start)/float64(b.N), "cpu-s/op")
			b.ReportMetric(plan.After.Float(), "$/h")
			b.ReportMetric(float64(len(plan.Waiting)), "waiting")
			b.ReportMetric(float64(plan.AnewGap)/100, "%gap-anew")
			if bad := capacity.Check(c.in, plan); len(bad) > 0 {
				b.Errorf("the plan breaks rules: %q", bad[0])
			}
		})
	}
}
