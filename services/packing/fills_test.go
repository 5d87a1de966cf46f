package packing

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// TestFillsFindTheMostValuableMachine compares the search by what single GPUs hold with trying every count of every shape.
func TestFillsFindTheMostValuableMachine(t *testing.T) {
	t.Parallel()
	searched := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "shapes")
		var pods []Pod
		for i := range n {
			p := Pod{Name: fmt.Sprintf("p%d", i), CPUMilli: rapid.Int64Range(1, 12).Draw(t, "cpu") * 500, MemMiB: rapid.Int64Range(1, 12).Draw(t, "mem") * 512}
			if rapid.IntRange(0, 4).Draw(t, "gpu") > 0 {
				p.GPUCount, p.GPUMilli = 1, rapid.SampledFrom([]int64{100, 230, 320, 340, 450, 470, 500, 510, 650, 810, 1000}).Draw(t, "milli")
				if p.GPUMilli == 1000 {
					p.GPUCount = rapid.Int64Range(1, 2).Draw(t, "gpus")
				}
			}
			for range rapid.IntRange(1, 5).Draw(t, "count") {
				pods = append(pods, p)
			}
		}
		price := fleet.Money(fleet.NanosPerUnit)
		o := Offering{Price: &price, CPUMilli: rapid.Int64Range(4, 40).Draw(t, "cpu") * 500, MemMiB: rapid.Int64Range(4, 40).Draw(t, "mem") * 512, MaxPods: 110,
			GPUModel: "T4", GPUCount: rapid.Int64Range(1, 3).Draw(t, "gpus"), SharesGPUs: true, Arch: "amd64"}
		p := newProblem(pods, []Offering{o}, Options{})
		if len(p.shapes) == 0 {
			return
		}
		k := newPricer(p)
		for i := range p.shapes {
			k.value[i], k.limit[i] = rapid.Float64Range(0.01, 1).Draw(t, "value"), int32(p.shapes[i].count)
		}
		k.filter()
		best := mostValuable(k)
		floor := best * rapid.SampledFrom([]float64{0.5, 0.8, 0.99, 1.01, 1.2}).Draw(t, "floor")
		v, items, top, ok := k.byFills(0, floor, 1_000_000)
		if top > 0 && top < best*(1-2e-6) {
			t.Fatalf("the bound %f is below what a machine can be worth, %f", top, best)
		}
		if !ok {
			return
		}
		searched++
		if best > floor*(1+1e-6) && math.Abs(v-best) > 1e-5*best {
			t.Fatalf("found a machine worth %f, the best is worth %f", v, best)
		}
		if best <= floor*(1-1e-6) && items != nil {
			t.Fatalf("found a machine worth %f, the best is worth %f", v, best)
		}
		if items != nil && p.gpusHold(new(slots), items, &p.offs[0]) != gpusFit {
			t.Fatalf("the GPUs cannot hold %v", items)
		}
	})
	t.Logf("%d searched by fills", searched)
	if searched == 0 {
		t.Error("nothing was searched by fills")
	}
}

// mostValuable tries every count of every shape on the first offering.
func mostValuable(k *pricer) float64 {
	p, o := k.p, &k.p.offs[0]
	best := 0.0
	var items []item
	var walk func(i int, room vec, value float64)
	walk = func(i int, room vec, value float64) {
		if i == len(p.shapes) {
			if value > best && p.gpusHold(new(slots), items, o) == gpusFit {
				best = value
			}
			return
		}
		plain := p.shapes[i].need[0]
		plain[dimGPU], plain[dimHeavy] = 0, 0
		for n := int32(0); n <= plain.copies(&room, k.limit[i]); n++ {
			left := room
			left.add(&plain, -n)
			items = append(items, item{i, n})
			walk(i+1, left, value+float64(n)*k.value[i])
			items = items[:len(items)-1]
		}
	}
	walk(0, o.cap, 0)
	return best
}

func TestPodsThatFillGPUsInOneWayOnlyAreFoundToFit(t *testing.T) {
	t.Parallel()
	p := &problem{shapes: []shape{{gpus: 1, milli: 220}, {gpus: 1, milli: 320}, {gpus: 1, milli: 470}}}
	if v := new(slots).fit(p, []item{{0, 5}, {1, 13}, {2, 5}}, 8); v != gpusFit {
		t.Errorf("a machine that holds them: %d", v)
	}
	if v := new(slots).fit(p, []item{{0, 5}, {1, 13}, {2, 7}}, 8); v == gpusFit {
		t.Error("more than there is")
	}
	var many []item // a hundred pods, one by one
	for range 100 {
		many = append(many, item{0, 1})
	}
	if v := new(slots).fit(p, many, 25); v != gpusFit {
		t.Errorf("a hundred equal pods on 25 GPUs: %d", v)
	}
}
