package httpapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/httpapi"
)

func TestWhatWasPaidInVain(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	cause := func(hour, cause, reason, kind, resource, workload, namespace, team string, nano int64) {
		b.exec(`INSERT INTO cost_hour_cause (tenant_id, cluster_id, hour, cause, reason, kind, resource, purchase, workload_id, namespace, team, amount_nano, quantity)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'on_demand', $8, $9, $10, $11, 0.5)`, b.tenant.ID, b.cluster, hour, cause, reason, kind, resource, workload, namespace, team, nano)
	}
	nobody := uuid.Nil.String()
	cause("2026-03-02T10:00Z", "broken", "ImagePullBackOff", "workload", "gpu", b.chat, "chat", "red", 2_000_000_000)
	cause("2026-03-02T11:00Z", "broken", "ImagePullBackOff", "workload", "gpu", b.chat, "chat", "red", 1_000_000_001)
	cause("2026-03-02T10:00Z", "warm_idle", "", "workload", "gpu", nobody, "web", "blue", 500_000_000)
	cause("2026-03-02T10:00Z", "mig_unusable", "", "idle", "gpu_memory", nobody, "", "", 0)
	cause("2026-03-05T10:00Z", "broken", "CrashLoopBackOff", "workload", "gpu", b.chat, "chat", "red", 1)
	list := func(a answer) (got []string) {
		var body httpapi.CostCauses
		a.want(t, 200).into(t, &body)
		for _, c := range body.Items {
			got = append(got, fmt.Sprintf("%s %s of %s %s: %s, %v", c.Cause, c.Reason, c.Name, c.Resource, c.Amount.Amount, c.Quantity))
		}
		return got
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{marchSpan, []string{"broken ImagePullBackOff of chat/Deployment/llm gpu: 3.000000001, 1", "warm_idle  of web gpu: 0.50, 0.5", "mig_unusable  of  gpu_memory: 0.00, 0.5"}},
		{marchSpan + "&team=red", []string{"broken ImagePullBackOff of chat/Deployment/llm gpu: 3.000000001, 1"}},
		{marchSpan + "&namespace=none", nil},
		{"from=2026-03-02T11:00:00Z&to=2026-03-02T12:00:00Z", []string{"broken ImagePullBackOff of chat/Deployment/llm gpu: 1.000000001, 0.5"}},
	} {
		if d := cmp.Diff(c.want, list(b.get("/api/v1/cost/causes?"+c.query))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.query, d)
		}
	}
	for _, bad := range []string{"from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z", "from=2026-03-03T00:00:00Z&to=2026-03-01T00:00:00Z", "cluster=x"} {
		b.get("/api/v1/cost/causes?"+bad).want(t, 422)
	}
	b.call("GET", "/api/v1/cost/causes", nil).want(t, 401)
	other, _ := b.newTenant("Other", "other@quay.test")
	if got := list(b.with(b.key(other.ID, auth.RoleAdmin), "GET", "/api/v1/cost/causes?"+marchSpan, nil)); got != nil {
		t.Errorf("another tenant sees %v", got)
	}
}

func TestAllocationsSayWhatMomentTheyAreOf(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	b.exec(`INSERT INTO cost_detail (tenant_id, cluster_id, hour, version, as_of, lines, payload) VALUES ($1, $2, '2026-03-02T10:00Z', 1, '2026-03-02T11:15Z', 0, ''), ($1, $2, '2026-03-02T10:00Z', 2, '2026-03-04T00:00Z', 0, '')`,
		b.tenant.ID, b.cluster)
	for version, amount := range map[int]int64{1: 5_000_000_000, 2: 7_000_000_000} {
		b.exec(`INSERT INTO cost_transfer (tenant_id, id, cluster_id, hour, version, debit, credit, kind, resource, workload_id, namespace, team, amount_nano, quantity, purchase, as_of)
VALUES ($1, $2, $3, '2026-03-02T10:00Z', $4, 'workload/x', 'nodes/spot', 'workload', 'gpu', $5, 'chat', 'red', $6, 1, 'spot', $7)`, b.tenant.ID, uuid.NewString(), b.cluster, version, b.chat, amount,
			map[int]string{1: "2026-03-02T11:15Z", 2: "2026-03-04T00:00Z"}[version])
	}
	b.exec(`UPDATE cost_hour SET version = 2, closed_at = '2026-03-04T00:00Z' WHERE tenant_id = $1 AND state = 'closed'`, b.tenant.ID)
	for at, want := range map[string][]string{"2026-03-03T00:00:00Z": {"workload red 5.00"}, "2026-03-04T00:00:00Z": {"workload red 7.00"}, "2026-03-02T11:00:00Z": nil} {
		if d := cmp.Diff(want, lines(t, b.get("/api/v1/cost/allocations?"+marchSpan+"&aggregate=team&as_of="+at))); d != "" {
			t.Errorf("as of %s (-want +got):\n%s", at, d)
		}
	}
	var body httpapi.Allocations
	b.get("/api/v1/cost/allocations?"+marchSpan+"&aggregate=team").want(t, 200).into(t, &body)
	if body.AsOf == nil || !body.AsOf.Equal(time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)) || body.RestatedHours != 1 {
		t.Errorf("as of %v, %d hours restated", body.AsOf, body.RestatedHours)
	}
}
