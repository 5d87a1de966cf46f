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
