package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

func TestWhatAnHourWouldHaveCost(t *testing.T) {
	t.Parallel()
	count := func(n int64) *int64 { return &n }
	cash := func(n fleet.Money) *fleet.Money { n *= unit; return &n }
	for name, tc := range map[string]struct {
		hour AutomatedHour
		want Saving
	}{
		"three of ten replicas, a shadow of five": {AutomatedHour{Amount: 12 * unit, Replicas: count(3000), Max: 10, Shadow: count(5000), Before: count(4000), Cooldown: count(500), Starting: count(250)},
			Saving{Unit: cash(4), Static: cash(40), Shadow: cash(20), Stayed: cash(16), Cooldown: cash(2), Starting: cash(1)}},
		"nothing held: the last price counts":   {AutomatedHour{Replicas: count(0), Unit: cash(4), Max: 2, Cooldown: count(0)}, Saving{Unit: cash(4), Static: cash(8), Cooldown: cash(0)}},
		"nobody knows how many there were":      {AutomatedHour{Amount: 12 * unit, Max: 2, Shadow: count(1000)}, Saving{}},
		"no price: nothing is said to be saved": {AutomatedHour{Replicas: count(3000), Max: 10, Shadow: count(5000)}, Saving{}},
		"more cooldown than replicas is all":    {AutomatedHour{Amount: 12 * unit, Replicas: count(1000), Max: 1, Cooldown: count(7000)}, Saving{Unit: cash(12), Static: cash(12), Cooldown: cash(12)}},
		"counts that nobody means save nothing": {AutomatedHour{Amount: 12 * unit, Replicas: count(1000), Max: 1 << 40, Shadow: count(-1)}, Saving{Unit: cash(12)}},
	} {
		if d := cmp.Diff(tc.want, tc.hour.Save()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestASavingIsNeverMoreThanTheCounterfactualAndPartsNeverMoreThanTheHour(t *testing.T) {
	t.Parallel()
	some := func(t *rapid.T, name string) *int64 {
		if rapid.Bool().Draw(t, name+" known") {
			n := rapid.Int64Range(-10, 1<<40).Draw(t, name)
			return &n
		}
		return nil
	}
	rapid.Check(t, func(t *rapid.T) {
		h := AutomatedHour{Amount: fleet.Money(rapid.Int64Range(0, 1<<55).Draw(t, "amount")), Replicas: some(t, "replicas"), Max: rapid.Int64Range(0, 1<<33).Draw(t, "max"), Shadow: some(t, "shadow"), Before: some(t, "before"), Cooldown: some(t, "cooldown"), Starting: some(t, "starting")}
		if h.Replicas != nil && *h.Replicas < 0 {
			*h.Replicas = 0
		}
		s := h.Save()
		for _, part := range []*fleet.Money{s.Cooldown, s.Starting} {
			if part != nil && (*part < 0 || *part > h.Amount) {
				t.Fatalf("a part of %d in an hour of %d", *part, h.Amount)
			}
		}
		for _, other := range []*fleet.Money{s.Static, s.Shadow, s.Stayed} {
			if other != nil && *other-h.Amount > *other {
				t.Fatalf("saved more than %d", *other)
			}
		}
		if h.Replicas == nil && s.Static != nil {
			t.Fatal("a counterfactual without a count")
		}
	})
}
