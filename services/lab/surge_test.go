package lab

import "testing"

// wave is a policy that asks for a daily wave from 6 to 14, times a factor within a span.
type wave struct{ from, to, times int }

func (p *wave) Step(o *Observation) int {
	n := 6 + o.Slot%SlotsPerDay*8/SlotsPerDay
	if o.Slot >= p.from && o.Slot < p.to {
		return n * p.times
	}
	return n
}

func TestASurgeOfMinutesPassesAndAnAttackOfHoursCostsADay(t *testing.T) {
	t.Parallel()
	const day = SlotsPerDay
	tests := []struct {
		name         string
		p            wave
		capped       bool
		dearest      float64 // days of ordinary spend beyond the wave: the credit, and what lies under the free cap
		wholeForSlot int     // slots of the surge that are served in full
	}{
		{"nothing", wave{}, false, 0.01, 0},
		{"ten times for 20 minutes", wave{8*day + 2000, 8*day + 2080, 10}, false, 0.2, 80},
		{"twenty times for six hours", wave{8*day + 2000, 8*day + 2000 + 1440, 20}, true, 1.35, 200},
		{"twenty times for a day", wave{8 * day, 9 * day, 20}, true, 2.3, 200},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := NewSurge(&tc.p)
			extra, normal, whole, capped := 0.0, 0.0, 0, false
			for slot := range 12 * day {
				o := Observation{Slot: slot}
				got, asked, plain := s.Step(&o), tc.p.Step(&o), (&wave{}).Step(&o)
				extra += float64(max(0, got-plain))
				if slot < day {
					normal += float64(plain)
				}
				capped = capped || got < asked
				if got == asked && asked > plain {
					whole++
				}
				if got > asked || got < min(asked, plain) {
					t.Fatalf("slot %d: %d of %d, ordinary %d", slot, got, asked, plain)
				}
			}
			if capped != tc.capped || extra/normal > tc.dearest || whole < tc.wholeForSlot {
				t.Errorf("capped %v, %.2f days of extra spend, %d slots in full; want %v, at most %v, at least %d", capped, extra/normal, whole, tc.capped, tc.dearest, tc.wholeForSlot)
			}
		})
	}
}
