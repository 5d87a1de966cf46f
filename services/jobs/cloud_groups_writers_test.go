package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

func (w *ward) groups() store.CloudGroup {
	w.t.Helper()
	var list []store.CloudGroup
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = store.CloudGroups(ctx, tx, w.cluster)
		return err
	})
	return list[0]
}

func scaled(m *fakecloud.MachineGroup) {
	m.Policies, m.Schedules = []string{"cpu"}, []string{"morning"}
}

func TestAGroupThatTheCloudScalesIsLeftToItAndItsWritersAreNamed(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20, scaled)
	w.expect("nothing to do", "none; 0 changes, size 2")
	if g := w.groups(); g.WritersAt == nil || !strings.Contains(string(g.Writers), `"cpu"`) || !strings.Contains(string(g.Writers), `"morning"`) {
		t.Fatalf("writers %s", g.Writers)
	}
	w.plan(3)
	w.expect("the plan yields", "none; 0 changes, size 2")
	if w.cloud.Scaling("gpu") != " " {
		t.Errorf("the cloud's own scaling was touched: %q", w.cloud.Scaling("gpu"))
	}
}

func TestAnOwnedGroupsScalingIsStoppedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20, scaled)
	w.group.Own = true
	save := func() {
		w.tx(func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
	}
	save()
	w.plan(3)
	w.expect("told to own it", "pending 2-5; 1 changes, size 5")
	if got := w.cloud.Scaling("gpu"); got != " AlarmNotification,ScheduledActions" {
		t.Fatalf("stopped %q", got)
	}
	if g := w.groups(); strings.Join(g.Suspended, ",") != "AlarmNotification,ScheduledActions" || string(g.Writers) != "[]" {
		t.Errorf("%v, writers %s", g.Suspended, g.Writers)
	}
	err := w.db.Tenant(context.Background(), w.tenant, func(tx *store.Tx) error {
		return store.DeleteCloudGroup(context.Background(), tx, w.cluster, w.group.ID)
	})
	var coded *fleet.Error
	if !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Errorf("a group whose scaling is stopped is forgotten: %v", err)
	}
	err = w.db.Tenant(context.Background(), w.tenant, func(tx *store.Tx) error { return store.DeleteCloudAccount(context.Background(), tx, w.group.Account) })
	if !errors.As(err, &coded) || coded.Code != fleet.CodeConflict {
		t.Errorf("the account that could start it again is forgotten: %v", err)
	}
	w.exec(`UPDATE cluster SET frozen = true WHERE tenant_id = $1`, w.tenant)
	w.group.Own = false
	save()
	w.look()
	if got := w.cloud.Scaling("gpu"); got == " " {
		t.Error("something is changed while the cluster is frozen")
	}
	w.exec(`UPDATE cluster SET frozen = false WHERE tenant_id = $1`, w.tenant)
	w.look()
	if got := w.cloud.Scaling("gpu"); got != " " || len(w.groups().Suspended) != 0 {
		t.Errorf("not given back: %q, %v", got, w.groups().Suspended)
	}
}

func TestTheScalingOfAGroupIsGivenBackWhenItIsSwitchedOff(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20, scaled)
	w.group.Own = true
	w.tx(func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
	w.plan(3)
	w.look()
	w.join(3)
	w.look()
	w.group.Enabled = false
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := store.SaveCloudGroup(ctx, tx, w.group); err != nil {
			return err
		}
		list, err := store.ClustersWithGroups(ctx, tx)
		if len(list) != 1 {
			t.Errorf("nobody looks after it: %v", list)
		}
		return err
	})
	w.look()
	if got := w.cloud.Scaling("gpu"); got != " " {
		t.Errorf("still stopped: %q", got)
	}
}

func TestTwoThatFightOverAGroupAreFoundAndWeStop(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20, scaled)
	w.group.Own = true
	w.group.Step, w.group.Hourly = 1, 20
	w.tx(func(ctx context.Context, tx *store.Tx) error { return store.SaveCloudGroup(ctx, tx, w.group) })
	grown := 0
	for range 5 {
		w.plan(1)
		w.look()
		times, _ := w.cloud.Resizes("gpu")
		if times > grown {
			grown = times
			w.exec(`UPDATE cloud_group_action SET state = 'joined', closed_at = now() WHERE tenant_id = $1 AND closed_at IS NULL`, w.tenant)
		}
		w.cloud.Restart("gpu") // somebody starts the cloud's own scaling again
	}
	if grown != groupStops {
		t.Errorf("it was stopped for %d actions, want %d", grown, groupStops)
	}
	if g := w.groups(); !strings.Contains(string(g.Writers), "cpu") || len(g.StoppedAt) != groupStops {
		t.Errorf("writers %s, stopped %d times", g.Writers, len(g.StoppedAt))
	}
}

func TestAnAccountThatMayNotSayWhatScalesAGroupGrowsItAsBefore(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20, scaled)
	w.cloud.Fail(fakecloud.Fault{Operation: "DescribePolicies", How: fakecloud.Denied})
	w.plan(3)
	w.expect("nobody knows", "pending 2-5; 1 changes, size 5")
	if g := w.groups(); g.WritersWhy == "" || string(g.Writers) != "[]" {
		t.Errorf("%q, %s", g.WritersWhy, g.Writers)
	}
}

func TestAnUndoWhileNothingMayBeChangedIsAConflict(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.plan(3)
	w.look()
	w.join(3)
	w.look()
	undo := func() error {
		return w.db.Tenant(context.Background(), w.tenant, func(tx *store.Tx) error {
			list, err := store.GroupActions(context.Background(), tx, w.cluster, false, 1)
			if err != nil {
				return err
			}
			return store.UndoGroupAction(context.Background(), tx, w.cluster, list[0].ID, uuid.Must(uuid.NewV7()).String())
		})
	}
	for name, c := range map[string]struct{ sql, says string }{
		"the kill switch":         {`UPDATE cluster SET frozen = true, mode = 'enforce', agent_limits = '{}' WHERE tenant_id = $1`, "frozen"},
		"the agent's kill switch": {`UPDATE cluster SET frozen = false, mode = 'enforce', agent_limits = '{"frozen": true}' WHERE tenant_id = $1`, "agent"},
		"approval only":           {`UPDATE cluster SET frozen = false, mode = 'approve', agent_limits = '{}' WHERE tenant_id = $1`, "approve"},
	} {
		w.exec(c.sql, w.tenant)
		var coded *fleet.Error
		if err := undo(); !errors.As(err, &coded) || coded.Code != fleet.CodeConflict || !strings.Contains(coded.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.exec(`UPDATE cluster SET frozen = false, mode = 'enforce', agent_limits = '{}' WHERE tenant_id = $1`, w.tenant)
	w.exec(`UPDATE cloud_group SET enabled = false WHERE tenant_id = $1`, w.tenant)
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	w.expect("an undo also of a group that is off by now", "pending 5-2; 2 changes, size 2")
}
