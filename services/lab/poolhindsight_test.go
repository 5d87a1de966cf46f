package lab

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What hindsight finds for several services is as punctual in all as ours, is what playing it says, and comes out the same again; the verdict over all columns is
// computed from it.
func TestHindsightOfPoolsIsAsPunctualAsOurs(t *testing.T) {
	t.Parallel()
	services := []*Trace{}
	for _, tr := range builtin(t)[:3] {
		c := *tr
		from, to := tr.From-4*SlotsPerHour, tr.From+8*SlotsPerHour
		c.Rho, c.Requests, c.From, c.To = tr.Rho[from:to], tr.Requests[from:to], 4*SlotsPerHour, 12*SlotsPerHour
		services = append(services, &c)
	}
	alone, err := GeneratedMarkets(services[0], 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := GeneratedMarkets(services[0], 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	alone, shared = alone[:1], shared[:1]
	b, err := ScorePool(services, alone, shared)
	if err != nil {
		t.Fatal(err)
	}
	named := []string{"spothedge+1 hpa", "on-demand hpa", "spot-fallback restless-cq"}
	siloed := slices.DeleteFunc(MixFamilies(), func(f MixFamily) bool { return !slices.Contains(named, f.Name) })
	pooled := slices.DeleteFunc(PoolFamilies(true), func(f PoolFamily) bool { return !strings.HasPrefix(f.Name, "pooled spothedge+1 hpa,") })
	if len(siloed) != 3 || len(pooled) != len(poolWays) {
		t.Fatalf("%d and %d families; want three and %d", len(siloed), len(pooled), len(poolWays))
	}
	tune := func() Hindsight {
		h, err := TunePoolInHindsight(services, alone, shared, &b, PooledMix, pooled, siloed, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := tune()
	if again := tune(); !reflect.DeepEqual(h, again) {
		t.Errorf("another result the second time: %+v, %+v", h, again)
	}
	onDemand, err := TunePoolInHindsight(services, nil, nil, &b, PooledOnDemand, PoolFamilies(false)[:4], OnDemandFamilies()[1:2], func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	only := []*Market{{Name: "on demand", Pools: []Pool{OnDemand(services[0].Slots())}}}
	checkTuned(t, &h, services, alone[0], shared[0], siloed, pooled)
	checkTuned(t, &onDemand, services, only[0], only[0], OnDemandFamilies()[1:2], PoolFamilies(false)[:4])
	both := []Hindsight{h, onDemand}
	v := Judge(both)
	for _, x := range both {
		best, ok := x.Best()
		in := slices.Contains(v.Dearer, x.Workload)
		if ok && in != (best.Delta > ClaimDearer) || best.Own {
			t.Errorf("%s: %+v is the best, the verdict is %+v", x.Workload, best, v)
		}
	}
	var out bytes.Buffer
	if err := WriteHindsight(&out, nil, nil, both); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	for _, want := range []string{"steady + daily + bursty, " + PooledMix, "steady + daily + bursty, " + PooledOnDemand, "alone", "pooled spothedge+1 hpa, the sum", "Claim: never over 2 % dearer"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if _, err := TunePoolInHindsight(services, alone, shared, &PoolBoard{}, PooledMix, nil, nil, func() bool { return false }); err == nil {
		t.Error("a board without ours is taken")
	}
}

// checkTuned plays what hindsight found again.
func checkTuned(t *testing.T, h *Hindsight, services []*Trace, alone, shared *Market, siloed []MixFamily, pooled []PoolFamily) {
	t.Helper()
	all, err := Summed("sum", services)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range h.Tuned {
		x := &h.Tuned[i]
		if !x.Found() {
			continue
		}
		found++
		if x.Late > h.Late+1e-6 || (i > 0 && x.Paid < h.Tuned[i-1].Paid) || math.Abs(x.Delta-(h.Paid/x.Paid-1)) > 1e-12 {
			t.Errorf("%+v; ours costs %v with %v late", *x, h.Paid, h.Late)
		}
		cost := 0.0
		for k, p := range x.Parts {
			for _, f := range siloed {
				if f.Name == p.Family {
					s, err := RunMix(services[k], alone, DefaultMix(services[k]), f.New(p.Target, services[k], DefaultMix(services[k])))
					if err != nil {
						t.Fatal(err)
					}
					cost += s.CostHours
				}
			}
		}
		for _, f := range pooled {
			if f.Name == x.Family {
				s, _, err := RunPooled(services, shared, DefaultMix(all), f.New(x.Target, services, all, DefaultMix(all)))
				if err != nil {
					t.Fatal(err)
				}
				cost += s.CostHours
			}
		}
		if math.Abs(cost-x.Paid) > 1e-9*x.Paid {
			t.Errorf("%s, %s: played %v, told %v", x.Family, x.Setting(), cost, x.Paid)
		}
	}
	if found < 2 {
		t.Errorf("%s: %d of %d were punctual enough", h.Workload, found, len(h.Tuned))
	}
}

// Opponents under our own demand policy make the comparison harder, and never count as baselines of the field.
func TestTheVerdictTellsTheFieldFromWhatBorrowsOurDemand(t *testing.T) {
	t.Parallel()
	at := func(delta float64, own bool) Tuned { return Tuned{Family: "f", Target: 1, Delta: delta, Own: own} }
	for _, c := range []struct {
		name                    string
		tuned                   [][]Tuned
		holds, hardest          bool
		dearer, cheaper, nobody int // by the field
	}{
		{"ten per cent under the field twice", [][]Tuned{{at(-0.1, false)}, {at(-0.3, false)}, {at(0.02, false)}}, true, true, 0, 2, 0},
		{"once is not enough", [][]Tuned{{at(-0.1, false)}, {at(-0.05, false)}}, false, false, 0, 1, 0},
		{"dearer by more than two per cent", [][]Tuned{{at(-0.1, false)}, {at(-0.1, false)}, {at(0.021, false)}}, false, false, 1, 2, 0},
		{"our demand policy in other hands is dearer for us, the field is not", [][]Tuned{{at(0.05, true), at(-0.2, false)}, {at(-0.2, false)}}, true, false, 0, 2, 0},
		{"a field that is never as punctual counts as beaten", [][]Tuned{{{Family: "f"}}, {at(0.01, true)}}, true, false, 0, 0, 2},
		{"a combination of services alone counts", [][]Tuned{{{Family: "alone", Parts: []TunedPart{{}}, Delta: 0.5}}}, false, false, 1, 0, 0},
	} {
		all := []Hindsight{}
		for i, tuned := range c.tuned {
			all = append(all, Hindsight{Workload: string(rune('a' + i)), Tuned: tuned})
		}
		v := Judge(all)
		if v.Holds != c.holds || JudgeHardest(all).Holds != c.hardest || len(v.Dearer) != c.dearer || len(v.Cheaper) != c.cheaper || len(v.Alone) != c.nobody {
			t.Errorf("%s: %+v, and against all %+v", c.name, v, JudgeHardest(all))
		}
	}
}

// The cost over the best of the same span is compared, whatever the spans cost; what only one span has is left out.
func TestTrainingAndTestStandSideBySide(t *testing.T) {
	t.Parallel()
	h := func(name string, ratio, delta float64) Hindsight {
		return Hindsight{Workload: name, Ratio: ratio, Late: 0.009, Tuned: []Tuned{{Family: "hpa", Target: 80, Delta: delta}}}
	}
	late := h("late", 1.2, 0)
	late.Tuned[0].Target = 0
	rows := PutSideBySide([]Hindsight{h("a", 1.2, -0.05), h("b", 1.2, -0.05), h("late", 1.2, 0), h("gone", 1, 0)}, []Hindsight{h("a", 2.4, -0.08), h("b", 1.23, 0.1), late, h("new", 1, 0)})
	if len(rows) != 3 {
		t.Fatalf("%d rows; want three", len(rows))
	}
	for i, want := range []struct{ bound, best bool }{{false, true}, {true, false}, {true, false}} {
		if bound, best := rows[i].Within(); bound != want.bound || best != want.best {
			t.Errorf("%+v: within in cost over bound %v, over the best %v; want %v", rows[i], bound, best, want)
		}
	}
	if d := *rows[0].BestDelta; math.Abs(d-(0.92/0.95-1)) > 1e-12 || rows[2].BestDelta != nil {
		t.Errorf("differences %v, %v", d, rows[2].BestDelta)
	}
	var out bytes.Buffer
	if err := WriteSideBySide(&out, rows); err != nil || !strings.Contains(out.String(), "within 5 % in cost / bound: b, late") || !strings.Contains(out.String(), "within 5 % in ours / best: a\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
