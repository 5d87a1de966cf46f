package httpapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/httpapi"
)

// Rows from before list prices were kept stand with what was borne and are named; others have their list price.
func TestCostsAtTheListPrice(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	const at = "/api/v1/cost/allocations?" + marchSpan
	look := func(path string) (a httpapi.Allocations) {
		t.Helper()
		b.get(path).want(t, 200).into(t, &a)
		return a
	}
	borne, list := look(at), look(at+"&basis=list")
	if list.Total != borne.Total || list.Unviewed != borne.Total || list.Basis != "list" {
		t.Errorf("nothing is kept: %+v of %+v, %+v unknown", list.Total, borne.Total, list.Unviewed)
	}
	b.exec(`DELETE FROM cost_day WHERE tenant_id = $1`, b.tenant.ID)
	b.exec(`INSERT INTO cost_day (tenant_id, cluster_id, day, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity, unpriced, measured, used, list_nano, contracted_nano, carried_nano)
VALUES ($1, $2, '2026-03-01', 'workload', 'gpu', 'on_demand', $3, 'chat', 'red', 4000000000, 4, 0, 0, 0, 8000000000, 6000000000, 1000000000),
  ($1, $2, '2026-03-01', 'idle', 'gpu', 'on_demand', '00000000-0000-0000-0000-000000000000', '', '', 1000000000, 1, 0, 0, 0, 2000000000, 1500000000, -1000000000)`, b.tenant.ID, b.cluster, b.chat)
	for query, want := range map[string][]string{
		"":                        {"workload red 4.00", "idle  1.00"},
		"&basis=list":             {"workload red 8.00", "idle  2.00"},
		"&basis=contracted":       {"workload red 6.00", "idle  1.50"},
		"&idle=machine":           {"workload red 5.00"},
		"&basis=list&idle=shared": {"workload red 10.00"},
	} {
		if diff := cmp.Diff(want, lines(t, b.get(at+query))); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
		if a := look(at + query); a.Unviewed.Amount != look(at).Unviewed.Amount {
			t.Errorf("%q: %+v are not known", query, a.Unviewed)
		}
	}
	for path, field := range map[string]string{
		at + "&idle=machine&basis=list":                     "query.idle",
		at + "&basis=contracted&as_of=2026-03-02T00:00:00Z": "query.as_of",
		at + "&basis=retail":                                "query.basis",
	} {
		var problem struct {
			Errors []struct{ Location string }
		}
		b.get(path).want(t, 422).into(t, &problem)
		if len(problem.Errors) != 1 || problem.Errors[0].Location != field {
			t.Errorf("%s: %+v, want one about %s", path, problem.Errors, field)
		}
	}
}
