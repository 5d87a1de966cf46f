package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

func TestConflictsOfGroupsTellBothWritersAndHowOftenTheyFight(t *testing.T) {
	t.Parallel()
	y := openGroupYard(t)
	y.set(someGroup, y.but(map[string]any{"enabled": true}), 204)
	list := func(key string, want int) []any {
		t.Helper()
		got := y.json(key, http.MethodGet, y.path+"/conflicts", nil, want)
		groups, _ := got["groups"].([]any)
		return groups
	}
	if got := list(y.viewer, 200); len(got) != 0 {
		t.Fatalf("nobody else writes it: %v", got)
	}
	y.acted(true)
	y.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, sql := range []string{
			`UPDATE cloud_group SET writers = '[{"kind": "scaling_policy", "name": "cpu", "sizes": true, "stop": "AlarmNotification"}]', writers_at = now() WHERE tenant_id = $1 AND id = $2`,
			`INSERT INTO cloud_group_change (tenant_id, group_id, id, at, field, before_size, after_size, undid) SELECT $1, $2, gen_random_uuid(), now() - n * interval '1 minute', 'desired', 5, 2, true FROM generate_series(1, 3) n`,
			`INSERT INTO cloud_group_change (tenant_id, group_id, id, at, field, before_size, after_size, undid) VALUES ($1, $2, gen_random_uuid(), now() - interval '2 hours', 'max', 10, 4, false)`,
		} {
			if _, err := tx.PGX().Exec(ctx, sql, tx.Tenant, someGroup); err != nil {
				return err
			}
		}
		return nil
	})
	got := list(y.viewer, 200)
	if len(got) != 1 {
		t.Fatal(got)
	}
	c := got[0].(map[string]any)
	if c["changes"] != 4.0 || c["undone"] != 3.0 || c["fights_per_hour"] != 3.0 || c["stopped"] != true || c["yields"] != true || c["ref"] != "us-east-1/gpu" || len(c["newest"].([]any)) != 4 ||
		c["writers"].([]any)[0].(map[string]any)["name"] != "cpu" {
		t.Errorf("conflict %v", c)
	}
	other := openYard(t)
	other.with(other.key(other.tenant.ID, auth.RoleAdmin), http.MethodGet, y.path+"/conflicts", nil).want(t, 404)
}
