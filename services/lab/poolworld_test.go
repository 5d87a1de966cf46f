package lab

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// wildPool assigns and buys at random.
type wildPool struct{ r *rapid.T }

func (b *wildPool) Buy(v *PooledView, targets, assign []int) {
	for i := range v.Market.Pools {
		targets[i] = rapid.IntRange(0, 6).Draw(b.r, "target")
	}
	for k := range assign {
		assign[k] = rapid.IntRange(0, 5).Draw(b.r, "assign")
	}
}

// Every replica that serves is with one service, warm, on its way to a service, or being given back: never in two places, never lost.
func TestPooledReplicasAreInOnePlaceEach(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(r, "slots")
		services := []*Trace{}
		for range rapid.IntRange(1, 3).Draw(r, "services") {
			rho := make([]float64, n)
			for s := range rho {
				rho[s] = rapid.Float64Range(0, 3).Draw(r, "demand")
			}
			services = append(services, flat("s", rho))
		}
		m := drawnMarket(r, n)
		w, err := NewPooledWorld(services, m, smallMix)
		if err != nil {
			r.Fatal(err)
		}
		b := &wildPool{r}
		for !w.Over() {
			v := w.Advance()
			with := 0
			for k := range v.Services {
				o := &v.Services[k]
				with += o.Ready + o.Starting
				if o.Ready < 0 || o.Starting < 0 || o.Busy > float64(o.Ready)+1e-9 {
					r.Fatalf("slot %d, service %d: %+v", v.Slot, k, *o)
				}
			}
			if v.Warm < 0 || v.Releasing < 0 || with+v.Warm+v.Releasing != w.serving {
				r.Fatalf("slot %d: %d with services, %d warm, %d given back, %d serve", v.Slot, with, v.Warm, v.Releasing, w.serving)
			}
			clear(w.target)
			clear(w.assign)
			b.Buy(v, w.target, w.assign)
			w.Order(w.target, w.assign)
		}
	})
}

func TestThePooledBoundIsNoMoreThanTheSumOfTheSiloedOnes(t *testing.T) {
	t.Parallel()
	services := []*Trace{}
	for _, tr := range builtin(t)[:3] {
		services = append(services, flat(tr.Name, tr.Rho[tr.From:tr.From+SlotsPerDay]))
	}
	m, err := GeneratedMarket("m", SlotsPerDay, 5)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Summed("sum", services)
	if err != nil {
		t.Fatal(err)
	}
	pooled, err := PooledBound(services, m, DefaultMix(all))
	if err != nil {
		t.Fatal(err)
	}
	siloed := int64(0)
	for _, tr := range services {
		b, err := PricedBound(tr, m, DefaultMix(tr))
		if err != nil {
			t.Fatal(err)
		}
		siloed += b
	}
	// Rounding of backlogs differs between the programs; nothing else may.
	if float64(pooled) > 1.001*float64(siloed) || pooled < siloed/2 {
		t.Errorf("pooled %d, sum of the siloed %d", pooled, siloed)
	}
	if _, err := Summed("x", []*Trace{services[0], flat("short", []float64{1})}); err == nil {
		t.Error("services of other lengths: no error")
	}
}

func TestAWarmReplicaServesAfterTheSwap(t *testing.T) {
	t.Parallel()
	rho := []float64{0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}
	services := []*Trace{flat("a", append([]float64(nil), rho...)), flat("b", append([]float64(nil), rho...))}
	w, err := NewPooledWorld(services, &Market{Name: "m", Pools: []Pool{OnDemand(8)}}, smallMix)
	if err != nil {
		t.Fatal(err)
	}
	// Each has one. From slot 1 on a gives its own up; it drains for a slot, is warm in slot 2, swaps for two slots and serves b.
	want := [][3]int{{1, 1, 0}, {0, 1, 0}, {0, 1, 1}, {0, 1, 0}, {0, 1, 0}, {0, 2, 0}}
	for s, x := range want {
		v := w.Advance()
		if v.Services[0].Ready != x[0] || v.Services[1].Ready != x[1] || v.Warm != x[2] {
			t.Fatalf("slot %d: %d and %d serve, %d warm; want %v", s, v.Services[0].Ready, v.Services[1].Ready, v.Warm, x)
		}
		w.Order([]int{2}, []int{0, 2})
	}
}

// On the built-in set, our own buyer keeps within the SLO and is cheaper than the baselines that do; scores are the same twice.
func TestOwnBuyerOnTheBuiltinSet(t *testing.T) {
	t.Parallel()
	tr := builtin(t)[1]
	markets, err := GeneratedMarkets(tr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	markets = markets[:1]
	buyers := []MixEntry{}
	for _, e := range Buyers() {
		switch e.Name {
		case PlimsollMix, "on-demand", "spothedge+2":
			buyers = append(buyers, e)
		}
	}
	b, err := ScoreMix(tr, markets, buyers)
	if err != nil {
		t.Fatal(err)
	}
	own, _ := b.Row(PlimsollMix)
	alone, _ := b.Row("on-demand")
	hedge, _ := b.Row("spothedge+2")
	t.Logf("own %.3f / %.4f, spothedge+2 %.3f / %.4f, on demand %.3f", own.Ratio, own.LateRate, hedge.Ratio, hedge.LateRate, alone.Ratio)
	if own.LateRate > 0.01 || own.Ratio > 0.95*hedge.Ratio || own.Ratio > 0.6*alone.Ratio {
		t.Errorf("own %.3f with %.4f late, spothedge+2 %.3f, on demand %.3f", own.Ratio, own.LateRate, hedge.Ratio, alone.Ratio)
	}
	again, err := ScoreMix(tr, markets, buyers[:1])
	if err != nil {
		t.Fatal(err)
	}
	for i := range again.Rows {
		if math.Float64bits(b.Rows[i].Cost) != math.Float64bits(again.Rows[i].Cost) || b.Rows[i].Failed != again.Rows[i].Failed {
			t.Errorf("%s: not the same twice", b.Rows[i].Policy)
		}
	}
}
