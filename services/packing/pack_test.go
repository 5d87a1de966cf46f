package packing

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

func money(s string) *fleet.Money {
	m, err := fleet.ParseMoney(s)
	if err != nil {
		panic(err)
	}
	return &m
}

// drawPods and drawOfferings make small instances with every constraint in them.
func drawPods(t *rapid.T, most int) []Pod {
	n := rapid.IntRange(1, most).Draw(t, "pods")
	pods := make([]Pod, n)
	for i := range pods {
		p := Pod{Name: fmt.Sprintf("p%d", i), CPUMilli: rapid.SampledFrom([]int64{500, 1000, 1500, 3000, 7000}).Draw(t, "cpu"),
			MemMiB: rapid.SampledFrom([]int64{512, 1024, 3000, 9000}).Draw(t, "mem"), SpotOK: rapid.Bool().Draw(t, "spot")}
		if rapid.IntRange(0, 2).Draw(t, "gpu") == 0 {
			p.GPUCount = rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "gpus")
			p.GPUMilli = 1000
			if p.GPUCount == 1 {
				p.GPUMilli = rapid.SampledFrom([]int64{250, 400, 600, 1000}).Draw(t, "milli")
			}
			p.GPUModels = rapid.SampledFrom([][]fleet.GPUModel{nil, {"T4"}, {"A10"}, {"T4", "A10"}}).Draw(t, "models")
		}
		if rapid.IntRange(0, 5).Draw(t, "arch") == 0 {
			p.Archs = rapid.SampledFrom([][]string{{"arm64"}, {"*"}}).Draw(t, "archs")
		}
		pods[i] = p
	}
	return pods
}

func drawOfferings(t *rapid.T, most int) []Offering {
	n := rapid.IntRange(1, most).Draw(t, "offerings")
	offs := make([]Offering, n)
	for i := range offs {
		o := Offering{CPUMilli: rapid.SampledFrom([]int64{2000, 4000, 8000, 16000}).Draw(t, "cpu"), MemMiB: rapid.SampledFrom([]int64{2048, 8192, 16384}).Draw(t, "mem"),
			MaxPods: rapid.SampledFrom([]int64{2, 4, 110}).Draw(t, "max"), Arch: rapid.SampledFrom([]string{"amd64", "amd64", "arm64"}).Draw(t, "arch")}
		o.InstanceType = fmt.Sprintf("t%d", i)
		o.Purchase = rapid.SampledFrom([]fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseSpot}).Draw(t, "purchase")
		if rapid.IntRange(0, 1).Draw(t, "gpu") == 0 {
			o.GPUModel = rapid.SampledFrom([]fleet.GPUModel{"T4", "A10"}).Draw(t, "model")
			o.GPUCount = rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "gpus")
			o.SharesGPUs = rapid.Bool().Draw(t, "shares")
		}
		switch rapid.IntRange(0, 9).Draw(t, "priced") {
		case 0:
		case 1:
			zero := fleet.Money(0)
			o.Price = &zero
		default:
			price := fleet.Money(rapid.Int64Range(1, 300).Draw(t, "price")) * 10_000_000
			o.Price = &price
		}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			stock := rapid.Int64Range(0, 3).Draw(t, "stock")
			o.Stock = &stock
		}
		offs[i] = o
	}
	return offs
}

func TestAnAnswerPlacesEveryPodOnceWithinEverythingAndNeverCostsLessThanItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pods, offs := drawPods(t, 40), drawOfferings(t, 12)
		opts := Options{ShareGPUs: rapid.Bool().Draw(t, "share"), NoCPUOnGPU: rapid.Bool().Draw(t, "ban"), Effort: 1}
		a, err := Pack(pods, offs, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(pods, offs, opts, a); err != nil {
			t.Fatal(err)
		}
		again, _ := Pack(pods, offs, opts)
		if d := cmp.Diff(a, again, cmp.AllowUnexported(Proof{}, worth{}), cmp.Comparer(func(x, y *big.Int) bool { return x.Cmp(y) == 0 })); d != "" {
			t.Fatalf("the same input gave another answer: %s", d)
		}
	})
}
