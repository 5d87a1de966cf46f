package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/store"
)

func TestDueHours(t *testing.T) {
	t.Parallel()
	at := func(hours float64) *time.Time {
		v := start.Add(time.Duration(hours * float64(time.Hour)))
		return &v
	}
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	dirty := func(ago time.Duration, hours ...float64) (blocks []store.DirtyBlock) {
		for _, h := range hours {
			blocks = append(blocks, store.DirtyBlock{At: *at(h), MarkedAt: now.Add(-ago)})
		}
		return blocks
	}
	for _, c := range []struct {
		name   string
		state  store.Costing
		since  *time.Time
		shared bool
		want   string // hours after start, "!" closes, "~" stays open
	}{
		{"a fresh cluster has one open hour", store.Costing{DataAt: at(0.5), FirstHour: at(0)}, nil, false, "~0"},
		{"an hour closes ten minutes after its end", store.Costing{DataAt: at(1.2), FirstHour: at(0)}, nil, false, "!0 ~1"},
		{"five minutes are too early", store.Costing{DataAt: at(1.05), FirstHour: at(0)}, nil, false, "~0 ~1"},
		{"data that ends at the full hour opens no empty hour", store.Costing{DataAt: at(2), FirstHour: at(0)}, nil, false, "!0 ~1"},
		{"a dirty block keeps its hours open, and those after it", store.Costing{DataAt: at(5), FirstHour: at(0), Dirty: dirty(time.Hour, 2)}, nil, false, "!0 !1 ~2 ~3 ~4"},
		{"after six hours nobody waits for roll-ups", store.Costing{DataAt: at(9), FirstHour: at(0), Dirty: dirty(time.Hour, 0, 6)}, nil, false, "!0 !1 !2 !3 !4 !5 ~6 ~7 ~8"},
		{"but for a backlog that just came they do", store.Costing{DataAt: at(9), FirstHour: at(0), Dirty: dirty(time.Minute, 0)}, nil, false, "~0 ~1 ~2 ~3 ~4 ~5 ~6 ~7 ~8"},
		{"an hour that closes leaves those before it alone", store.Costing{DataAt: at(4.5), FirstHour: at(0), LastClosed: at(2)}, nil, false, "!3 ~4"},
		{"where commitments are shared it looks at the day before again", store.Costing{DataAt: at(4.5), FirstHour: at(0), LastClosed: at(2)}, nil, true, "!0 !1 !2 !3 ~4"},
		{"hours that had no price are tried again with the next that closes", store.Costing{DataAt: at(4.5), FirstHour: at(0), LastClosed: at(2), Unpriced: []time.Time{*at(1)}}, nil, false, "!1 !3 ~4"},
		{"and not before", store.Costing{DataAt: at(4.05), FirstHour: at(0), LastClosed: at(2), Unpriced: []time.Time{*at(1)}}, nil, false, "~3 ~4"},
		{"late data costs exactly the hours that it touches again, at once", store.Costing{DataAt: at(4.05), FirstHour: at(0), LastClosed: at(2), Touched: []time.Time{*at(0), *at(2), *at(3)}}, nil, false, "!0 !2 ~3 ~4"},
		{"without one to close nothing is looked at again", store.Costing{DataAt: at(4.05), FirstHour: at(0), LastClosed: at(2)}, nil, false, "~3 ~4"},
		{"closed hours are costed again on demand", store.Costing{DataAt: at(4.05), FirstHour: at(0), LastClosed: at(2)}, at(1), false, "!1 !2 ~3 ~4"},
		{"data older than what was costed changes nothing", store.Costing{DataAt: at(1), FirstHour: at(0), LastClosed: at(2)}, nil, false, ""},
	} {
		var since time.Time
		if c.since != nil {
			since = *c.since
		}
		got := ""
		for _, d := range dueHours(c.state, since, now, c.shared) {
			mark := "~"
			if d.final {
				mark = "!"
			}
			if got != "" {
				got += " "
			}
			got += fmt.Sprint(mark, d.from.Sub(start).Hours())
			if !d.from.Before(d.to) || d.to.After(*c.state.DataAt) && !d.final {
				t.Errorf("%s: hour %s to %s", c.name, d.from, d.to)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
