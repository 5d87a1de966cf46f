package jobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/store"
)

// later lets so much time pass for what was seen and done.
func (w *ward) later(d time.Duration) {
	w.age(d)
	w.exec(`UPDATE capacity_plan SET checked_at = checked_at - $2 * interval '1 second' WHERE tenant_id = $1`, w.tenant, d.Seconds())
	w.exec(`UPDATE cloud_group SET seen_at = seen_at - $2 * interval '1 second' WHERE tenant_id = $1`, w.tenant, d.Seconds())
	w.exec(`UPDATE cloud_group_change SET at = at - $2 * interval '1 second' WHERE tenant_id = $1`, w.tenant, d.Seconds())
	w.exec(`UPDATE cloud_group_action SET closed_at = closed_at - $2 * interval '1 second' WHERE tenant_id = $1`, w.tenant, d.Seconds())
}

func (w *ward) conflicts() []store.GroupConflict {
	w.t.Helper()
	var list []store.GroupConflict
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = store.GroupConflicts(ctx, tx, w.cluster)
		return err
	})
	return list
}

// grow lets the plan add a machine, and ends the action.
func (w *ward) grow(n int) string {
	w.t.Helper()
	w.plan(n)
	said := w.look()
	w.exec(`UPDATE cloud_group_action SET state = 'joined', closed_at = now() WHERE tenant_id = $1 AND closed_at IS NULL`, w.tenant)
	return said
}

func TestChangesOfAGroupThatOthersMakeAreFoundAndOursAreNot(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.look()
	w.later(2 * time.Minute)
	w.grow(3)
	w.later(2 * time.Minute)
	w.look()
	if list := w.conflicts(); len(list) != 0 {
		t.Fatalf("our own change is taken for somebody's: %+v", list)
	}
	w.cloud.Meddle("gpu", 7)
	w.later(2 * time.Minute)
	w.look()
	list := w.conflicts()
	if len(list) != 1 || list[0].Changes != 1 || list[0].Undone != 1 || list[0].Applied != 1 || list[0].Newest[0].Before != 5 || list[0].Newest[0].After != 7 || !list[0].Newest[0].Undid {
		t.Fatalf("%+v", list)
	}
	w.later(2 * time.Minute)
	w.look()
	if got := w.conflicts()[0].Changes; got != 1 {
		t.Errorf("one change is counted %d times", got)
	}
	w.cloud.Meddle("gpu", 6)
	w.later(2 * time.Minute)
	w.look()
	if got := w.conflicts()[0]; got.Changes != 2 || got.Undone != 1 {
		t.Errorf("a change of somebody's own size undid ours: %+v", got)
	}
	w.later(25 * time.Hour)
	w.look()
	if list := w.conflicts(); len(list) != 0 {
		t.Errorf("what is a day old is still told: %+v", list)
	}
}

func TestTwoThatFightOverASizeAreFoundAndWeStopUntilAnHourIsCalm(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.group.Step, w.group.Hourly = 1, 100
	w.tx(func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
	w.look()
	grown := 0
	for range 6 {
		w.later(90 * time.Second)
		before, _ := w.cloud.Resizes("gpu")
		w.grow(1)
		if after, _ := w.cloud.Resizes("gpu"); after > before {
			grown++
			w.cloud.Meddle("gpu", 2)
		}
		w.later(90 * time.Second)
		w.look()
	}
	if grown != store.GroupFights {
		t.Errorf("the size was asked for %d times while somebody undid it, want %d", grown, store.GroupFights)
	}
	if c := w.conflicts()[0]; c.Undone != store.GroupFights || !c.Group.Contended() {
		t.Errorf("%+v", c)
	}
	alerts := func(open bool) (n int) {
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			list, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: open, Kind: store.GroupConflictAlert, Limit: 10})
			if len(list) > 0 && (list[0].Severity != store.SeverityWarning || !strings.HasPrefix(list[0].Subject, "group/")) {
				t.Errorf("alert %+v", list[0])
			}
			n = len(list)
			return err
		})
		return n
	}
	if alerts(true) != 1 {
		t.Error("nobody is told")
	}
	w.later(time.Hour)
	w.look()
	if w.conflicts()[0].Group.Contended() || alerts(true) != 0 || alerts(false) != 1 {
		t.Error("after a calm hour it is left alone still")
	}
	if got := w.grow(1); !strings.Contains(got, "size 3") {
		t.Errorf("after a calm hour: %s", got)
	}
}

func TestWhatWritesAGroupIsAConflictOfItsOwnTenantAlone(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20, scaled)
	w.look()
	if list := w.conflicts(); len(list) != 1 || list[0].Changes != 0 || !strings.Contains(string(list[0].Group.Writers), `"cpu"`) {
		t.Errorf("%+v", list)
	}
	other := openWard(t, 20)
	if err := other.db.Tenant(context.Background(), other.tenant, func(tx *store.Tx) error {
		list, err := store.GroupConflicts(context.Background(), tx, w.cluster)
		if len(list) != 0 {
			t.Errorf("another tenant's conflicts: %+v", list)
		}
		if err == nil && store.SeeGroup(context.Background(), tx, w.group.ID, store.GroupSizes{Desired: 1, Max: 1}) == nil {
			t.Error("another tenant's group is written")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
