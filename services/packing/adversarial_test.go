package packing

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
)

func machine(name, price string, cpu, mem int64) Offering {
	o := Offering{CPUMilli: cpu, MemMiB: mem, MaxPods: 110, Arch: "amd64"}
	o.InstanceType, o.Purchase = name, fleet.PurchaseOnDemand
	if price != "" {
		o.Price = money(price)
	}
	return o
}

func pods(n int, cpu, mem int64) []Pod {
	out := make([]Pod, n)
	for i := range out {
		out[i] = Pod{Name: string(rune('a' + i)), CPUMilli: cpu, MemMiB: mem}
	}
	return out
}

func spot(o Offering) Offering { o.Purchase = fleet.PurchaseSpot; return o }
func gpu(o Offering, m fleet.GPUModel, n int64) Offering {
	o.GPUModel, o.GPUCount = m, n
	return o
}
func stocked(o Offering, n int64) Offering { o.Stock = &n; return o }

func TestAnswersThatAPersonCanCheck(t *testing.T) {
	t.Parallel()
	gpuPods := func(n int, milli int64, models ...fleet.GPUModel) []Pod {
		ps := pods(n, 1000, 1000)
		for i := range ps {
			ps[i].GPUCount, ps[i].GPUMilli, ps[i].GPUModels = 1, milli, models
		}
		return ps
	}
	for _, c := range []struct {
		name     string
		pods     []Pod
		offs     []Offering
		opts     Options
		cost     string
		nodes    int
		unplaced int
		reason   Constraint
	}{
		{name: "nothing asked, nothing rented", offs: []Offering{machine("m", "1", 4000, 8000)}, cost: "0.00"},
		{name: "no offerings: every pod is left out", pods: pods(2, 1000, 1000), cost: "0.00", unplaced: 2},
		{name: "a price of zero is not free", pods: pods(1, 1000, 1000), offs: []Offering{machine("free", "0", 4000, 8000), machine("m", "1", 4000, 8000)}, cost: "1.00", nodes: 1},
		{name: "an unknown price is not free", pods: pods(1, 1000, 1000), offs: []Offering{machine("unknown", "", 4000, 8000)}, cost: "0.00", unplaced: 1, reason: ConstraintPrice},
		{name: "two small machines beat one large", pods: pods(2, 2000, 1000), offs: []Offering{machine("large", "3", 4000, 8000), machine("small", "1.4", 2000, 8000)}, cost: "2.80", nodes: 2},
		{name: "memory binds, not CPU", pods: pods(4, 100, 4000), offs: []Offering{machine("m", "1", 64000, 8000)}, cost: "2.00", nodes: 2},
		{name: "Spot is for those who may", pods: pods(1, 1000, 1000), offs: []Offering{spot(machine("m", "0.1", 4000, 8000))}, cost: "0.00", unplaced: 1, reason: ConstraintSpot},
		{name: "a pod larger than any machine", pods: pods(1, 9000, 1000), offs: []Offering{machine("m", "1", 4000, 8000)}, cost: "0.00", unplaced: 1, reason: ConstraintCPU},
		{name: "more memory than any machine", pods: pods(1, 900, 100000), offs: []Offering{machine("m", "1", 4000, 8000)}, cost: "0.00", unplaced: 1, reason: ConstraintMemory},
		{name: "no GPU of the model", pods: gpuPods(1, 1000, "H100"), offs: []Offering{gpu(machine("m", "1", 4000, 8000), "T4", 1)}, cost: "0.00", unplaced: 1, reason: ConstraintModel},
		{name: "fractions are whole GPUs where nothing shares", pods: gpuPods(4, 250), offs: []Offering{gpu(machine("m", "1", 16000, 64000), "T4", 1)}, cost: "4.00", nodes: 4},
		{name: "fractions share where they may", pods: gpuPods(4, 250), offs: []Offering{gpu(machine("m", "1", 16000, 64000), "T4", 1)}, opts: Options{ShareGPUs: true}, cost: "1.00", nodes: 1},
		{name: "two pods of 600 thousandths do not share a GPU", pods: gpuPods(3, 600), offs: []Offering{gpu(machine("m", "1", 16000, 64000), "T4", 2)}, opts: Options{ShareGPUs: true}, cost: "2.00", nodes: 2},
		{name: "spare room beside GPUs is used", pods: append(gpuPods(1, 1000), pods(1, 1000, 1000)...), offs: []Offering{gpu(machine("g", "2", 4000, 8000), "T4", 1), machine("c", "1", 4000, 8000)}, cost: "2.00", nodes: 1},
		{name: "unless it is kept for GPU pods", pods: append(gpuPods(1, 1000), pods(1, 1000, 1000)...), offs: []Offering{gpu(machine("g", "2", 4000, 8000), "T4", 1), machine("c", "1", 4000, 8000)}, opts: Options{NoCPUOnGPU: true}, cost: "3.00", nodes: 2},
		{name: "kept from GPU machines with no other", pods: pods(1, 1000, 1000), offs: []Offering{gpu(machine("g", "2", 4000, 8000), "T4", 1)}, opts: Options{NoCPUOnGPU: true}, cost: "0.00", unplaced: 1, reason: ConstraintCPUOnGPU},
		{name: "reserved machines first, as many as there are", pods: pods(3, 4000, 1000), offs: []Offering{stocked(machine("r", "0.000000001", 4000, 8000), 2), machine("m", "1", 4000, 8000)}, cost: "1.000000002", nodes: 3},
		{name: "stock runs out", pods: pods(3, 4000, 1000), offs: []Offering{stocked(machine("m", "1", 4000, 8000), 2)}, cost: "2.00", nodes: 2, unplaced: 1, reason: ConstraintStock},
		{name: "no stock at all", pods: pods(1, 4000, 1000), offs: []Offering{stocked(machine("m", "1", 4000, 8000), 0)}, cost: "0.00", unplaced: 1, reason: ConstraintStock},
		{name: "pods that ask for nothing still count", pods: pods(5, 0, 0), offs: []Offering{func() Offering { o := machine("m", "1", 4000, 8000); o.MaxPods = 2; return o }()}, cost: "3.00", nodes: 3},
		{name: "arm64 machines are not for amd64 pods", pods: pods(1, 1000, 1000), offs: []Offering{func() Offering { o := machine("m", "1", 4000, 8000); o.Arch = "arm64"; return o }()}, cost: "0.00", unplaced: 1, reason: ConstraintArch},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, err := Pack(c.pods, c.offs, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(c.pods, c.offs, c.opts, a); err != nil {
				t.Fatal(err)
			}
			if a.Cost.String() != c.cost || len(a.Nodes) != c.nodes || len(a.Unplaced) != c.unplaced {
				t.Errorf("cost %s on %d nodes, %d left out; want %s, %d, %d", a.Cost, len(a.Nodes), len(a.Unplaced), c.cost, c.nodes, c.unplaced)
			}
			for _, u := range a.Unplaced {
				if c.reason != "" && !slices.ContainsFunc(u.Reasons, func(r Reason) bool { return r.Constraint == c.reason && r.Alone == 1 }) {
					t.Errorf("left out for %+v, want %s alone", u.Reasons, c.reason)
				}
			}
		})
	}
}

func TestTheOrderOfOfferingsDoesNotChangeTheCost(t *testing.T) {
	t.Parallel()
	ps, offs := sample(3, 150, 12, 30)
	a, err := Pack(ps, offs, Options{Effort: 2})
	if err != nil {
		t.Fatal(err)
	}
	back := slices.Clone(offs)
	slices.Reverse(back)
	b, err := Pack(ps, back, Options{Effort: 2})
	if err != nil {
		t.Fatal(err)
	}
	if a.Cost.Float() > b.Cost.Float()*1.02 || b.Cost.Float() > a.Cost.Float()*1.02 {
		t.Errorf("cost %s one way and %s the other", a.Cost, b.Cost)
	}
}

func TestAStopLeavesAFeasiblePackingWithATrueBound(t *testing.T) {
	t.Parallel()
	ps, offs := sample(9, 600, 60, 60)
	asked := 0
	full, err := Pack(ps, offs, Options{Stop: func() bool { asked++; return false }})
	if err != nil {
		t.Fatal(err)
	}
	last := fleet.Money(0)
	for _, asks := range []int{0, 1, 3, asked / 3, asked / 2, asked - 1} {
		n := asks
		a, err := Pack(ps, offs, Options{Stop: func() bool { n--; return n < 0 }})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(ps, offs, Options{}, a); err != nil {
			t.Fatalf("stopped at question %d: %v", asks, err)
		}
		if !a.Stats.Stopped || len(a.Unplaced) != len(full.Unplaced) || a.Bound > full.Cost {
			t.Errorf("stopped at question %d: stopped %v, %d left out (%d), bound %s, cost %s", asks, a.Stats.Stopped, len(a.Unplaced), len(full.Unplaced), a.Bound, full.Cost)
		}
		if last != 0 && a.Cost > last {
			t.Errorf("stopped at question %d the cost is %s, but it was %s before", asks, a.Cost, last)
		}
		last = a.Cost
	}
}

func TestFilesAreReadExactlyAndRefusedWithTheLine(t *testing.T) {
	t.Parallel()
	head := "instance_type,cloud,region,zone,capacity_type,price_per_hour,vcpu,memory_mib,gpu_model,gpu_count,arch,alloc_cpu_milli,alloc_mem_mib,max_pods,family,reservation_id,reservation_count\n"
	offs, err := ReadOfferings(strings.NewReader(head + "m,aws,r,z,reserved,3.91e-07,4,8,T4,1,amd64,3900,7000,110,f,cr-1,30\nn,aws,r,z,spot,,4,8,,0,amd64,3900,7000,110,f,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if offs[0].Price.String() != "0.000000391" || *offs[0].Stock != 30 || offs[0].Purchase != fleet.PurchaseReserved || offs[1].Price != nil || offs[1].Stock != nil {
		t.Errorf("read %+v", offs)
	}
	podHead := "name,cpu_milli,mem_mib,gpu_count,gpu_milli,gpu_models,spot_ok\n"
	ps, err := ReadPods(strings.NewReader(podHead + "p,1000,2000,1,470,T4|A10,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Pod{Name: "p", CPUMilli: 1000, MemMiB: 2000, GPUCount: 1, GPUMilli: 470, GPUModels: []fleet.GPUModel{"T4", "A10"}, SpotOK: true}
	if d := cmp.Diff(want, ps[0]); d != "" {
		t.Error(d)
	}
	for _, c := range []struct{ name, text, want string }{
		{"an empty file", "", "header"},
		{"a missing column", "name,cpu_milli\np,1\n", "mem_mib"},
		{"a word for a number", podHead + "p,many,2000,0,0,,1\n", "line 2: cpu_milli"},
		{"a word for a flag", podHead + "p,1,1,0,0,,1\nq,1,1,0,0,,perhaps\n", "line 3: spot_ok"},
		{"a quote left open", podHead + "\"p,1,1,0,0,,1\n", "line 2"},
	} {
		if _, err := ReadPods(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
	for _, price := range []string{"NaN", "Inf", "-1e-9e", "1e-12", "1e99", "0x1p3", "1_0e2", "1/3e1", "x", "1.0000000001", strings.Repeat("9", 40)} {
		if _, err := ReadOfferings(strings.NewReader(head + "m,aws,r,z,spot," + price + ",4,8,,0,amd64,3900,7000,110,f,,\n")); err == nil {
			t.Errorf("price %q was taken", price)
		}
	}
}

func TestSizesBeyondAnyMachineAreRefused(t *testing.T) {
	t.Parallel()
	good, m := pods(1, 1, 1), machine("m", "1", 4000, 8000)
	for _, c := range []struct {
		name string
		pod  func(p *Pod)
		off  func(o *Offering)
	}{
		{name: "negative CPU", pod: func(p *Pod) { p.CPUMilli = -1 }},
		{name: "memory beyond 32 bits", pod: func(p *Pod) { p.MemMiB = 1 << 40 }},
		{name: "a fraction above one GPU", pod: func(p *Pod) { p.GPUCount, p.GPUMilli = 1, 1001 }},
		{name: "no fraction of a GPU", pod: func(p *Pod) { p.GPUCount = 1 }},
		{name: "a negative price", off: func(o *Offering) { o.Price = money("-1") }},
		{name: "a price beyond sense", off: func(o *Offering) { o.Price = money("9000000000") }},
		{name: "negative stock", off: func(o *Offering) { *o = stocked(*o, -1) }},
		{name: "a machine with a million GPUs", off: func(o *Offering) { o.GPUCount = 1_000_000 }},
	} {
		p, o := good[0], m
		if c.pod != nil {
			c.pod(&p)
		}
		if c.off != nil {
			c.off(&o)
		}
		if _, err := Pack([]Pod{p}, []Offering{o}, Options{}); err == nil {
			t.Errorf("%s was taken", c.name)
		}
	}
}

func FuzzReadOfferings(f *testing.F) {
	f.Add([]byte("instance_type,cloud,region,zone,capacity_type,price_per_hour,gpu_model,gpu_count,arch,alloc_cpu_milli,alloc_mem_mib,max_pods\nm,aws,r,z,spot,1e-3,T4,1,amd64,3900,7000,110\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		offs, err := ReadOfferings(bytes.NewReader(data))
		if err != nil {
			return
		}
		_, _ = Pack(pods(3, 1000, 1000), offs[:min(len(offs), 20)], Options{Effort: 1})
	})
}
