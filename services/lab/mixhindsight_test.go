package lab

import (
	"reflect"
	"testing"
)

// Whatever hindsight finds is as punctual as ours, cheapest first, and the same again; what it says of a target is what playing it says.
func TestHindsightOfMixedProcurementIsAsPunctualAsOurs(t *testing.T) {
	t.Parallel()
	tr := builtin(t)[1]
	markets, err := GeneratedMarkets(tr, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	markets = markets[:1]
	buyers := []MixEntry{}
	for _, e := range Buyers() {
		if e.Name == PlimsollMix {
			buyers = append(buyers, e)
		}
	}
	b, err := ScoreMix(tr, markets, buyers)
	if err != nil {
		t.Fatal(err)
	}
	families := []MixFamily{}
	for _, f := range MixFamilies() {
		if f.Name == "on-demand hpa" || f.Name == "spothedge+1 hpa" || f.Name == "spot-fallback hpa" {
			families = append(families, f)
		}
	}
	never := func() bool { return false }
	h, err := TuneMixInHindsight(tr, markets, &b, families, never)
	if err != nil || len(h.Tuned) != 3 {
		t.Fatalf("%d families, %v; want three", len(h.Tuned), err)
	}
	found := 0
	for i, tuned := range h.Tuned {
		if tuned.Target == 0 {
			continue
		}
		found++
		if tuned.Late > h.Late+1e-6 || (i > 0 && tuned.Paid < h.Tuned[i-1].Paid) {
			t.Errorf("%+v after %+v; ours has %v late", tuned, h.Tuned[max(i-1, 0)], h.Late)
		}
		for _, f := range families {
			if f.Name != tuned.Family {
				continue
			}
			s, err := RunMix(tr, markets[0], DefaultMix(tr), f.New(tuned.Target, tr, DefaultMix(tr)))
			if err != nil || s.CostHours != tuned.Paid || s.LateRatio() != tuned.Late {
				t.Errorf("%s at %d: played alone %v and %v late, %v", f.Name, tuned.Target, s.CostHours, s.LateRatio(), err)
			}
		}
	}
	if found == 0 {
		t.Error("on demand at half use is never as punctual as ours")
	}
	again, err := TuneMixInHindsight(tr, markets, &b, families, never)
	if err != nil || !reflect.DeepEqual(h, again) {
		t.Errorf("another result the second time: %+v, %v", again, err)
	}
	if _, err := TuneMixInHindsight(tr, markets, &MixBoard{}, families, never); err == nil {
		t.Error("a board without ours is taken")
	}
}

// A rise counts for eight days, however slowly the demand falls in between, and not for longer.
func TestARiseIsRememberedForEightDays(t *testing.T) {
	t.Parallel()
	r := newRising()
	slot := 0
	play := func(slots int, demand float64) {
		for range slots {
			r.add(slot, demand)
			slot++
		}
	}
	play(SlotsPerHour, 1)
	play(SlotsPerHour, 9)
	for v := 9.0; v >= 1; v -= 0.01 {
		play(1, v)
	}
	play(7*SlotsPerDay, 1)
	if r.most != 8 || r.level != 1 {
		t.Errorf("after a week the highest rise is %v at a level of %v; want 8 at 1", r.most, r.level)
	}
	play(2*SlotsPerDay, 1)
	if r.most != 0 {
		t.Errorf("after nine days the highest rise is still %v", r.most)
	}
}
