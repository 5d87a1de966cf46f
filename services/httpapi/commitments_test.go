package httpapi_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/httpapi"
)

// berth is a tenant with two clusters: two m5.large run all day in the north, one m5.xlarge half the day in the south, one Spot machine too.
type berth struct {
	*door
	finance, viewer string
}

func openBerth(t *testing.T) *berth {
	t.Helper()
	b := &berth{door: openDoor(t, doorOptions{})}
	b.finance, b.viewer = b.key(b.tenant.ID, auth.RoleFinance), b.key(b.tenant.ID, auth.RoleViewer)
	north, south := uuid.NewString(), uuid.NewString()
	for name, id := range map[string]string{"north": north, "south": south} {
		b.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at, data_at) VALUES ($1, $2, $3, 'observe', now(), '2026-03-02T12:00:00Z')`, b.tenant.ID, id, name)
	}
	node := func(cluster, uid, instanceType, purchase, from string, to any) {
		b.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, started_at, ended_at)
VALUES ($1, $2, $3, $3, 'aws', 'us-east-1', 'us-east-1a', $4, $5, 'ready', 2000, 8192, $6, $7)`, b.tenant.ID, cluster, uid, instanceType, purchase, from, to)
	}
	node(north, "n1", "m5.large", "on_demand", "2026-03-01T12:00:00Z", nil)
	node(north, "n2", "m5.large", "on_demand", "2026-03-01T12:00:00Z", nil)
	node(south, "s1", "m5.xlarge", "on_demand", "2026-03-02T00:00:00Z", "2026-03-02T12:00:00Z")
	node(south, "s2", "m5.large", "spot", "2026-03-01T12:00:00Z", nil)
	return b
}

func (b *berth) get(path string) answer { b.t.Helper(); return b.with(b.viewer, "GET", path, nil) }

func (b *berth) load(csv string) answer {
	b.t.Helper()
	return b.call("POST", "/api/v1/commitments/import", csv, "Authorization", "Bearer "+b.finance, "Content-Type", "text/csv")
}

const twoPurchases = "ref,kind,region,zone,instance_type,quantity,recurring_hour,hourly_commitment,discount_percent,starts_at,ends_at,owner\n" +
	"ri-1,aws_regional_ri,us-east-1,,m5.xlarge,1,0.12,,,2026-01-01,2027-01-01,web\n" +
	"sp-1,aws_compute_sp,,,,,,0.5,28,2026-01-01,2026-04-01,\n"

const day = "from=2026-03-01T12:00:00Z&to=2026-03-02T12:00:00Z"

func TestCommitmentsAreImportedOnceAndWhole(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	var done httpapi.CommitmentImport
	b.load(twoPurchases).want(t, 200).into(t, &done)
	if done != (httpapi.CommitmentImport{Added: 2}) {
		t.Fatalf("%+v", done)
	}
	b.load(twoPurchases).want(t, 200).into(t, &done)
	if done != (httpapi.CommitmentImport{Unchanged: 2}) {
		t.Errorf("the same import again: %+v", done)
	}
	broken := b.load(twoPurchases+"ri-2,aws_regional_ri,us-east-1,,m5.xlarge,none,0.12,,,2026-01-01,2027-01-01,web\n").want(t, 422)
	var problem struct {
		Detail string
		Errors []struct{ Location string }
	}
	broken.into(t, &problem)
	if len(problem.Errors) != 1 || problem.Errors[0].Location != "row 4.quantity" {
		t.Errorf("%s", broken.body)
	}
	b.load("ref,kind,region,instance_type,quantity,recurring_hour,starts_at,ends_at,owner\nri-1,aws_regional_ri,us-east-1,m5.xlarge,2,0.24,2026-01-01,2027-01-01,web\n").want(t, 200).into(t, &done)
	if done != (httpapi.CommitmentImport{Changed: 1}) {
		t.Errorf("other content: %+v", done)
	}
	var list struct{ Items []httpapi.Commitment }
	b.get("/api/v1/commitments").want(t, 200).into(t, &list)
	if len(list.Items) != 2 || list.Items[0].Ref != "ri-1" || list.Items[0].Quantity != 2 || list.Items[0].State != "active" || list.Items[0].HourCost.Amount != "0.24" || list.Items[1].Spend.Amount != "0.50" {
		t.Fatalf("%+v", list.Items)
	}
	b.with(b.finance, "DELETE", "/api/v1/commitments/"+list.Items[0].ID, nil).want(t, 204)
	b.with(b.finance, "DELETE", "/api/v1/commitments/"+list.Items[0].ID, nil).want(t, 404)
	b.get("/api/v1/commitments/"+list.Items[0].ID).want(t, 404)
	b.load(twoPurchases).want(t, 200).into(t, &done)
	if done != (httpapi.CommitmentImport{Added: 1, Unchanged: 1}) {
		t.Errorf("after deleting one: %+v", done)
	}
	var entries int
	if err := b.owner.QueryRow(context.Background(), `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action LIKE 'commitment.%'`, b.tenant.ID).Scan(&entries); err != nil || entries != 4 {
		t.Errorf("%d audit entries, %v: imports without effect are not worth one", entries, err)
	}
}

func TestCommitmentsAreWrittenDownOneByOne(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	body := map[string]string{"ref": "cr-1", "kind": "aws_capacity_reservation", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "p5.48xlarge", "quantity": "2", "starts_at": "2026-03-01"}
	b.with(b.viewer, "POST", "/api/v1/commitments", body).want(t, 403)
	var one, again httpapi.Commitment
	b.with(b.finance, "POST", "/api/v1/commitments", body).want(t, 201).into(t, &one)
	b.with(b.finance, "POST", "/api/v1/commitments", body).want(t, 201).into(t, &again)
	if one.ID != again.ID || one.EndsAt != nil {
		t.Errorf("%+v, then %+v", one, again)
	}
	body["quantity"] = "3"
	b.with(b.finance, "POST", "/api/v1/commitments", body).want(t, 409)
	body["ref"], body["zone"] = "cr-2", ""
	b.with(b.finance, "POST", "/api/v1/commitments", body).want(t, 422)
	b.call("POST", "/api/v1/commitments/import", "x", "Authorization", "Bearer "+b.finance, "Content-Type", "text/plain").want(t, 415)
	b.with(b.finance, "POST", "/api/v1/commitments/import", `[{"ref":"x","kind":"aws_capacity_block"}]`).want(t, 422)
}

func TestUtilisationAndCoverage(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	b.load(twoPurchases).want(t, 200)
	// The RI covers both m5.large (8 units each hour). The plan covers the m5.xlarge for its 12 hours: 0.192 x 0.72 = 0.13824 an hour.
	var use httpapi.CommitmentUtilisation
	b.get("/api/v1/commitments/utilisation?"+day).want(t, 200).into(t, &use)
	var got []string
	for _, i := range use.Items {
		got = append(got, fmt.Sprintf("%s %s %s %s %.4f", i.Ref, i.Bought.Amount, i.Used.Amount, i.Unused.Amount, *i.Ratio))
	}
	if want := "[sp-1 12.00 1.65888 10.34112 0.1382 ri-1 2.88 2.88 0.00 1.0000]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if use.Bought.Amount != "14.88" || use.Unused.Amount != "10.34112" {
		t.Errorf("sums %+v", use)
	}
	var cover httpapi.CommitmentCoverage
	b.get("/api/v1/commitments/coverage?"+day).want(t, 200).into(t, &cover)
	if len(cover.Items) != 1 || cover.Items[0].Family != "m5" || cover.Items[0].EligibleHours != 60 || cover.Items[0].CoveredHours != 60 || *cover.Ratio != 1 {
		t.Errorf("%+v", cover)
	}
	b.get("/api/v1/commitments/utilisation?from=2026-03-02T12:00:00Z&to=2026-03-01T12:00:00Z").want(t, 422)
	b.get("/api/v1/commitments/coverage?from=2025-03-02T12:00:00Z&to=2026-03-01T12:00:00Z").want(t, 422)
}

func TestHoursBeforeAnythingWasSeenAreNeitherUsedNorUnused(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	b.load(twoPurchases).want(t, 200)
	const long, before = "from=2026-02-01T12:00:00Z&to=2026-03-02T12:00:00Z", "from=2026-02-01T00:00:00Z&to=2026-02-08T00:00:00Z"
	seen := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var use httpapi.CommitmentUtilisation
	b.get("/api/v1/commitments/utilisation?"+long).want(t, 200).into(t, &use)
	if use.Bought.Amount != "14.88" || use.Unused.Amount != "10.34112" || !use.From.Equal(seen) {
		t.Errorf("a month of which a day was seen: %+v", use)
	}
	var series httpapi.CommitmentSeries
	b.get("/api/v1/commitments/series?step=day&"+long).want(t, 200).into(t, &series)
	if len(series.Items) != 2 || !series.From.Equal(seen) {
		t.Errorf("%d days from %s on", len(series.Items), series.From)
	}
	var none httpapi.CommitmentUtilisation
	b.get("/api/v1/commitments/utilisation?"+before).want(t, 200).into(t, &none)
	if none.Bought.Amount != "0.00" || none.Unused.Amount != "0.00" || len(none.Items) != 0 {
		t.Errorf("a week before anything was seen: %+v", none)
	}
	b.get("/api/v1/commitments/coverage?"+before).want(t, 200)
	b.get("/api/v1/commitments/series?step=day&"+before).want(t, 200)
}

func TestExpiries(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	b.load(twoPurchases).want(t, 200)
	var body struct{ Items []httpapi.CommitmentExpiry }
	b.get("/api/v1/commitments/expiries").want(t, 200).into(t, &body)
	if len(body.Items) != 2 || body.Items[0].Ref != "sp-1" || body.Items[0].DaysLeft != 29 || body.Items[0].Left.Amount != "354.00" {
		t.Errorf("%+v", body.Items)
	}
	b.get("/api/v1/commitments/expiries?days=10").want(t, 200).into(t, &body)
	if len(body.Items) != 0 {
		t.Errorf("within ten days: %+v", body.Items)
	}
}

func TestRecommendations(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	var body httpapi.CommitmentAdviceAnswer
	b.get("/api/v1/commitments/recommendations?spot_availability=0&"+day).want(t, 200).into(t, &body)
	// m5.large: three at all times (one of them Spot), worth 0.096 against 0.06048 each. m5.xlarge: half the day is not worth 63 %.
	if len(body.Items) != 2 || body.Items[0].InstanceType != "m5.large" || body.Items[0].Buy != 3 || body.Items[0].Reserved.Amount != "0.06048" || body.Items[0].SavingMonth.Amount != "77.7888" {
		t.Fatalf("%+v", body.Items)
	}
	if x := body.Items[1]; x.Buy != 0 || len(x.Levels) != 1 || x.Levels[0].Busy != 0.5 || x.Levels[0].Instead.Amount != "0.096" {
		t.Errorf("%+v", x)
	}
	b.get("/api/v1/commitments/recommendations?"+day).want(t, 200).into(t, &body)
	large := func() httpapi.CommitmentAdvice {
		i := slices.IndexFunc(body.Items, func(a httpapi.CommitmentAdvice) bool { return a.InstanceType == "m5.large" })
		return body.Items[max(i, 0)]
	}
	if x := large(); x.Levels[0].Available != 1 || x.Availability != "own_nodes" {
		t.Errorf("the first level was carried by Spot all the time: %+v", x)
	}
	b.load("ref,kind,region,instance_type,quantity,recurring_hour,starts_at,ends_at\nri,aws_regional_ri,us-east-1,m5.large,2,0.1,2026-01-01,2027-01-01\n").want(t, 200)
	b.get("/api/v1/commitments/recommendations?spot_availability=0&"+day).want(t, 200).into(t, &body)
	if x := large(); x.Owned != 2 || x.Buy != 1 || x.Levels[0].Level != 3 || x.Reserved.Amount != "0.05" || x.ReservedSource != "own" {
		t.Errorf("two are owned: %+v", x)
	}
}

func TestExplainPrice(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	const m5 = "/api/v1/prices/explain?cloud=aws&region=us-east-1&instance_type=m5.large"
	told := func(path string) string {
		var q httpapi.PriceExplained
		b.get(path).want(t, 200).into(t, &q)
		price := "unknown"
		if q.PerHour != nil {
			price = q.PerHour.Amount
		}
		out := price + ":"
		for _, p := range q.Parts {
			out += fmt.Sprintf(" %s%s %g", p.Basis, map[bool]string{true: "/" + p.Commitment}[p.Commitment != ""], p.Share)
		}
		return out
	}
	if got := told(m5); got != "0.096: list 1" {
		t.Error(got)
	}
	b.load("ref,kind,region,instance_type,quantity,recurring_hour,starts_at,ends_at\nri,aws_regional_ri,us-east-1,m5.large,3,0.1,2026-01-01,2027-01-01\n").want(t, 200)
	for _, c := range []struct{ name, path, want string }{
		{"two of three are in use, one is left", m5, "0.00: commitment/ri 1"},
		{"the second one more is not", m5 + "&quantity=2", "0.096: list 1"},
		{"at eleven the xlarge of the other cluster takes what is left", m5 + "&at=2026-03-02T11:00:00Z", "0.096: list 1"},
		{"before the term there is nothing", m5 + "&at=2025-06-01T00:00:00Z", "0.096: list 1"},
		{"half of an xlarge is left", "/api/v1/prices/explain?cloud=aws&region=us-east-1&instance_type=m5.xlarge", "0.096: commitment/ri 0.5 list 0.5"},
		{"a reserved machine beyond that is unknown", m5 + "&purchase=reserved&quantity=2", "unknown: unknown 1"},
		{"an unknown type has an unknown price", "/api/v1/prices/explain?cloud=azure&region=nowhere&instance_type=none", "unknown: list 1"},
	} {
		if got := told(c.path); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	b.with(b.finance, "PUT", "/api/v1/prices", map[string]string{"cloud": "aws", "instance_type": "m5.large", "purchase": "on_demand", "hour": "0.08"}).want(t, 204)
	if got := told(m5 + "&quantity=2"); got != "0.08: contracted 1" {
		t.Error(got)
	}
}

func TestCommitmentsOfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	b.load(twoPurchases).want(t, 200)
	other, _ := b.newTenant("Quay", "owner@quay.test")
	key := b.key(other.ID, auth.RoleAdmin)
	var list struct{ Items []httpapi.Commitment }
	b.with(key, "GET", "/api/v1/commitments", nil).want(t, 200).into(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("another tenant sees %+v", list.Items)
	}
	b.get("/api/v1/commitments").want(t, 200).into(t, &list)
	b.with(key, "DELETE", "/api/v1/commitments/"+list.Items[0].ID, nil).want(t, 404)
}

func TestUseAndCoverageOverTimeAddUpToTheTotals(t *testing.T) {
	t.Parallel()
	b := openBerth(t)
	b.load(twoPurchases).want(t, 200)
	money := func(m httpapi.Money) int64 { return int64(fleetMoney(t, m.Amount)) }
	for step, want := range map[string]int{"hour": 24, "day": 2} {
		var use httpapi.CommitmentUtilisation
		b.get("/api/v1/commitments/utilisation?"+day).want(t, 200).into(t, &use)
		var series httpapi.CommitmentSeries
		b.get("/api/v1/commitments/series?step="+step+"&"+day).want(t, 200).into(t, &series)
		if len(series.Items) != want || series.Step != step {
			t.Fatalf("%d steps of a %s, want %d", len(series.Items), series.Step, want)
		}
		var bought, used, unused int64
		at := series.From
		for _, i := range series.Items {
			if !i.From.Equal(at) {
				t.Errorf("a gap before %s", i.From)
			}
			at = i.To
			if money(i.Used)+money(i.Unused) != money(i.Bought) {
				t.Errorf("%s: %s used and %s unused of %s", i.From, i.Used.Amount, i.Unused.Amount, i.Bought.Amount)
			}
			bought, used, unused = bought+money(i.Bought), used+money(i.Used), unused+money(i.Unused)
		}
		if !at.Equal(series.To) || bought != money(use.Bought) || used != money(use.Used) || unused != money(use.Unused) {
			t.Errorf("by the %s: %d bought, %d used, %d unused; in total %+v", step, bought, used, unused, use)
		}
	}
	// At night one plan lies idle: the m5.xlarge runs from midnight on.
	var series httpapi.CommitmentSeries
	b.get("/api/v1/commitments/series?step=hour&"+day).want(t, 200).into(t, &series)
	night, noon := series.Items[0], series.Items[23]
	if night.Used.Amount != "0.12" || noon.Used.Amount != "0.25824" || night.EligibleHours != 2 || noon.EligibleHours != 3 || *noon.Coverage != 1 {
		t.Errorf("before midnight %+v, before noon %+v", night, noon)
	}
	var list struct{ Items []httpapi.Commitment }
	b.get("/api/v1/commitments").want(t, 200).into(t, &list)
	b.get("/api/v1/commitments/series?commitment="+list.Items[0].ID+"&"+day).want(t, 200).into(t, &series)
	if len(series.Items) != 2 || series.Items[0].Bought.Amount != "1.44" || *series.Items[0].Utilisation != 1 {
		t.Errorf("the RI alone: %+v", series.Items)
	}
	b.get("/api/v1/commitments/series?commitment="+uuid.NewString()+"&"+day).want(t, 404)
	b.get("/api/v1/commitments/series?step=week&"+day).want(t, 422)
	b.get("/api/v1/commitments/series?step=hour&from=2026-01-01T00:00:00Z&to=2026-03-02T12:00:00Z").want(t, 422)
}
