package httpapi_test

import (
	"testing"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
)

func TestUnitsAreTheLedgersCostOverWhatWasReportedAndUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	a := openLedger(t)
	a.standard("2026-02-10T10:00:00Z", 1, 1)
	a.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, ready, request_rate, late_ratio, tokens_in_per_second, tokens_out_per_second) VALUES ($1, $2, $3, '2026-02-10T10:00Z', 240, 2, 10, 0.25, 1000, 250)`,
		a.tenant.ID, a.cluster, a.chat)
	a.exec(`INSERT INTO rollup_1h (tenant_id, cluster_id, workload_id, at, samples, ready) VALUES ($1, $2, $3, '2026-02-10T10:00Z', 120, 1)`, a.tenant.ID, a.cluster, a.web)
	const span = "from=2026-02-10T00:00:00Z&to=2026-02-11T00:00:00Z"
	var units httpapi.UnitEconomics
	a.get("/api/v1/cost/unit-economics?"+span+"&output_weight=4").want(t, 200).into(t, &units)
	if len(units.Items) != 2 || units.Items[0].Key != a.chat {
		t.Fatalf("%+v", units)
	}
	chat, web := units.Items[0], units.Items[1]
	if want := a.total("aggregate=workload&workload=" + a.chat + "&" + span); nano(t, *chat.Allocation.Cost) != want {
		t.Errorf("cost %s, ledger %s", chat.Allocation.Cost.Amount, want)
	}
	// 3.6M tokens in, 0.9M out that count four times: 4.500000008 over 7.2M.
	for name, tc := range map[string]struct {
		got  *httpapi.Money
		want fleet.Money
	}{
		"in": {chat.Allocation.PerMTokensIn, 625_000_001}, "out": {chat.Allocation.PerMTokensOut, 2_500_000_004}, "requests": {chat.Allocation.PerKRequests, 125_000_000},
		"minutes kept": {chat.Allocation.PerKeptMinutes, 100_000_000}, "in, of what was used": {chat.Usage.PerMTokensIn, 156_250_000},
	} {
		if tc.got == nil || nano(t, *tc.got)-tc.want > 1 || tc.want-nano(t, *tc.got) > 1 {
			t.Errorf("%s: %+v, want %s", name, tc.got, tc.want)
		}
	}
	if chat.Utilisation == nil || *chat.Utilisation < 0.2499 || *chat.Utilisation > 0.2501 {
		t.Errorf("utilisation %v", chat.Utilisation)
	}
	if web.TokensIn != nil || web.Allocation.PerMTokensIn != nil || web.Allocation.PerKRequests != nil || web.Allocation.PerTrainHour != nil || web.Allocation.PerKeptMinutes != nil {
		t.Errorf("what nobody reported has a price: %+v", web)
	}
}
