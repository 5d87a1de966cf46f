package commitment_test

import (
	"testing"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
)

// Prices of 1.0 on demand, 0.63 reserved and 0.40 on Spot: a level that is always busy is worth reserving only where Spot is available
// less than 0.62 of the time.
func TestAdvise(t *testing.T) {
	t.Parallel()
	window := fleet.Interval{From: hour, To: hour.Add(100 * time.Hour)}
	run := func(spot bool, from, to int) commitment.Machine {
		return commitment.Machine{Spot: spot, Running: fleet.Interval{From: hour.Add(time.Duration(from) * time.Hour), To: hour.Add(time.Duration(to) * time.Hour)}}
	}
	need := func(spot string, available int64, owned int, machines ...commitment.Machine) commitment.Need {
		n := commitment.Need{Window: window, Machines: machines, Owned: owned, OnDemand: usd("1"), Reserved: usd("0.63")}
		if spot != "" {
			n.Spot = ptr(usd(spot))
		}
		if available >= 0 {
			n.AvailablePPM = &available
		}
		return n
	}
	always := run(false, -5, 1000)
	for _, c := range []struct {
		name    string
		need    commitment.Need
		buy     int
		instead string // of the first level
	}{
		{"always busy, Spot had 61 % of the time: buy", need("0.4", 610_000, 0, always), 1, "0.634"},
		{"always busy, Spot had 62 % of the time: not", need("0.4", 620_000, 0, always), 0, "0.628"},
		{"busy 63 % without Spot is not above 0.63", need("", -1, 0, run(false, 0, 63)), 0, "0.63"},
		{"busy 64 % without Spot is", need("", -1, 0, run(false, 0, 64)), 1, "0.64"},
		{"an unknown Spot price is no alternative", need("", 900_000, 0, always), 1, "1.00"},
		{"two levels, the second half busy", need("", -1, 0, always, run(false, 0, 50)), 1, "1.00"},
		{"one is owned, the next level counts", need("", -1, 1, always, run(false, 0, 80)), 1, "0.80"},
		{"Spot carried the level 70 % of its time", need("0.4", -1, 0, run(true, 0, 70), run(false, 70, 100)), 0, "0.58"},
		{"one after the other is one level", need("", -1, 0, run(false, 0, 40), run(false, 40, 80)), 1, "0.80"},
		{"nothing ran", need("", -1, 0, run(false, 200, 300), run(false, 50, 40)), 0, ""},
	} {
		a := commitment.Advise(c.need)
		if a.Buy != c.buy || c.instead == "" && len(a.Levels) != 0 {
			t.Errorf("%s: buy %d, want %d: %+v", c.name, a.Buy, c.buy, a.Levels)
		}
		if c.instead != "" && (len(a.Levels) == 0 || a.Levels[0].Instead != usd(c.instead)) {
			t.Errorf("%s: %+v, want %s instead", c.name, a.Levels, c.instead)
		}
	}
}
