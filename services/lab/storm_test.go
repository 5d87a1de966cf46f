package lab

import (
	"bytes"
	"reflect"
	"testing"
)

// Until capacity is back, the 95th percentile of what waits for it waits less with us than on a ladder of pools that are asked one after the other.
func TestCapacityIsBackSoonerThanOnALadder(t *testing.T) {
	t.Parallel()
	rows, err := PlayStorms()
	if err != nil {
		t.Fatal(err)
	}
	again, err := PlayStorms()
	if err != nil || !reflect.DeepEqual(rows, again) {
		t.Errorf("two plays differ: %v", err)
	}
	var b bytes.Buffer
	if err := WriteStorms(&b, rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", b.String())
	by := map[string]map[string]StormRow{}
	for _, r := range rows {
		if by[r.Storm] == nil {
			by[r.Storm] = map[string]StormRow{}
		}
		by[r.Storm][r.Buyer] = r
	}
	for _, s := range Storms() {
		ours, ladder := by[s.Name][StormOurs], by[s.Name][StormLadder]
		if ladder.Waited == 0 || ladder.Refused == 0 || ours.Waited == 0 {
			t.Errorf("%s: nothing waits or is refused on the ladder: %+v", s.Name, ladder)
		}
		if ours.P95 >= ladder.P95 {
			t.Errorf("%s: p95 until capacity is %.0f s, on the ladder %.0f s", s.Name, ours.P95, ladder.P95)
		}
	}
}

// When every pool of Spot is gone, a buyer that falls back to on demand has what it needs a start after the first refusals, and not when Spot is back: what
// is refused in several waves is stood in for in full.
func TestSpotWithFallbackFallsBackInFull(t *testing.T) {
	t.Parallel()
	for _, storm := range Storms() {
		for name, b := range map[string]Buyer{
			"spot-fallback": &spotFallback{demand: &known{need: storm.need}, share: 1},
			"half-and-half": &spotFallback{demand: &known{need: storm.need}, share: 0.5},
			"spothedge+1":   &spotHedge{demand: &known{need: storm.need}, extra: 1},
		} {
			row, err := storm.play(b)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %s: %+v", storm.Name, name, row)
			if row.Waited == 0 || row.Longest > 180+5*SlotSeconds {
				t.Errorf("%s, %s: %d replicas waited, the longest %.0f s; want a start of 180 s and the time of two refusals at most", storm.Name, name, row.Waited, row.Longest)
			}
		}
	}
}
