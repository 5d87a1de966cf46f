package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/httpapi"
)

const billColumns = "BillingAccountId,BillingCurrency,BilledCost,EffectiveCost,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceName,ServiceCategory,ProviderName,RegionId,ResourceId,PricingUnit,PricingQuantity,PricingCategory,ChargeDescription,SkuPriceDetails\n"

// march is a bill of the fixture's days: the GPU machine dearer than thought, the CPU machine by type only, Spot machines as estimated for two
// of three days, and what no agent sees.
func march() []byte {
	var b bytes.Buffer
	b.WriteString(billColumns)
	row := func(day int, cost, category, service, kind, resource, unit, hours, pricing, text, details string) {
		from := accountsFrom.AddDate(0, 0, day)
		fmt.Fprintf(&b, "acc,USD,%s,%s,%s,%s,%s,%s,%s,AWS,us-east-1,%s,%s,%s,%s,%s,%q\n", cost, cost, from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339), category, service, kind, resource, unit, hours, pricing, text,
			details)
	}
	const ec2 = "Amazon Elastic Compute Cloud"
	for day := range 3 {
		row(day, "2400.000000000000000001", "Usage", ec2, "Compute", "arn:aws:ec2:us-east-1:1:instance/node-g0", "Hours", "24", "Standard", "p5", "")
		row(day, "9.5", "Usage", ec2, "Compute", "i-0123", "Hours", "24", "Standard", "m5", `{"InstanceType": "m5.2xlarge"}`)
	}
	row(0, "12.5", "Usage", ec2, "Compute", "i-unseen", "Hours", "24", "Standard", "r5", "")
	row(0, "3.25", "Usage", ec2, "Compute", "node-x0", "GB", "12", "Standard", "=data transfer out", "")
	row(1, "180", "Tax", "Tax", "Other", "", "", "", "", "VAT", "")
	row(1, "100", "Usage", "AWS Support", "Other", "", "", "", "Standard", "Support", "")
	row(2, "-50", "Credit", ec2, "Compute", "", "", "", "", "Credit", "")
	return bytes.ReplaceAll(b.Bytes(), []byte(`\"`), []byte(`""`))
}

func (a *accounts) upload(key, query string, body []byte) (int, string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.url+"/api/v1/bills"+query, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func exactly(t *testing.T, s string) billing.Amount {
	t.Helper()
	a, err := billing.ParseSum(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A bill goes in whole or not at all, once; the comparison's causes add up to its gap, and the CSV to the same.
func TestBillsThroughTheDoor(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	finance := a.key(a.tenant.ID, auth.RoleFinance)
	if status, body := a.upload(a.viewer, "", march()); status != 403 {
		t.Errorf("a viewer imports: %d %s", status, body)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(march()); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	if status, body := a.upload(finance, "?name=march.csv", zipped.Bytes()); status != 201 || !strings.Contains(body, `"known":false`) {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := a.upload(finance, "?name=again.csv", march()); status != 201 || !strings.Contains(body, `"known":true`) {
		t.Errorf("the same content unzipped: %d %s", status, body)
	}
	for _, bad := range []struct {
		name, query string
		body        []byte
		status      int
		text        string
	}{
		{"an amount that is none", "?mode=add", bytes.Replace(march(), []byte("12.5"), []byte("12,5x"), 1), 422, "row 8"},
		{"another currency", "?mode=add", bytes.Replace(march(), []byte("acc,USD,12.5"), []byte("acc,EUR,12.5"), 1), 422, "in EUR, the ledger in USD"},
		{"a word for a number", "?mode=add", bytes.Replace(march(), []byte("acc,USD,12.5"), []byte("acc,USD,much"), 1), 422, "row 8, column BilledCost"},
		{"the same period again", "", bytes.Replace(march(), []byte("12.5,12.5"), []byte("13.5,13.5"), 1), 409, "march.csv"},
		{"no bill", "", []byte("a,b\n1,2\n"), 422, "columns"},
		{"nothing", "", nil, 400, "required"},
		{"cut gzip", "", zipped.Bytes()[:zipped.Len()/2], 422, "cannot be read"},
		{"too large", "", make([]byte, httpapi.MaxBillBytes+1), 413, ""},
	} {
		if status, body := a.upload(finance, bad.query, bad.body); status != bad.status || !strings.Contains(body, bad.text) {
			t.Errorf("%s: %d %.300s", bad.name, status, body)
		}
	}
	span := "?" + url.Values{"from": {accountsFrom.Format(time.RFC3339)}, "to": {accountsTo.Format(time.RFC3339)}}.Encode()
	var r httpapi.Reconciliation
	a.with(a.viewer, "GET", "/api/v1/reconciliation"+span, nil).want(t, 200).into(t, &r)
	gap := exactly(t, r.Bill.Amount).Sub(exactly(t, r.Estimate.Amount))
	var causes, lines billing.Amount
	by := map[billing.Cause]string{}
	for _, c := range r.Causes {
		causes = causes.Add(exactly(t, c.Amount.Amount))
		by[c.Cause] = c.Amount.Amount
	}
	for _, l := range r.Lines {
		lines = lines.Add(exactly(t, l.Gap.Amount))
	}
	if exactly(t, r.Gap.Amount) != gap || causes != gap || lines != gap || r.Estimate.Amount != billing.AmountOf(a.total).String() || r.Bill.Amount != "7474.250000000000000003" {
		t.Errorf("estimate %s (ledger %s), bill %s, gap %s, causes %s, lines %s", r.Estimate.Amount, a.total, r.Bill.Amount, r.Gap.Amount, causes, lines)
	}
	for cause, want := range map[billing.Cause]string{billing.CauseTax: "180.00", billing.CauseSupport: "100.00", billing.CauseCredit: "-50.00", billing.CauseNetwork: "3.25", billing.CauseUnseen: "12.50"} {
		if by[cause] != want {
			t.Errorf("%s %s, want %s", cause, by[cause], want)
		}
	}
	if by[billing.CausePrice] == "" || by[billing.CauseUnbilled] == "" || r.BillMatched == nil || *r.BillMatched < 0.99 || *r.BillMatched >= 1 || len(r.Pairs) == 0 || len(r.LedgerOnly) == 0 || r.OpenHours != 2 {
		t.Errorf("%+v", r.Causes)
	}
	status, _, body := a.raw("/api/v1/exports/reconciliation" + span)
	rows, err := csv.NewReader(bytes.NewReader(body)).ReadAll()
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	var fromCSV billing.Amount
	formula := false
	for _, row := range rows[1:] {
		fromCSV = fromCSV.Add(exactly(t, row[13]))
		formula = formula || strings.HasPrefix(row[16], "=")
	}
	if fromCSV != gap || formula {
		t.Errorf("the CSV's gaps add up to %s, want %s; formula %v", fromCSV, gap, formula)
	}
	var list struct{ Items []httpapi.Bill }
	a.with(a.viewer, "GET", "/api/v1/bills", nil).want(t, 200).into(t, &list)
	if len(list.Items) != 1 || list.Items[0].Lines != 11 {
		t.Fatalf("%+v", list.Items)
	}
	a.with(finance, "DELETE", "/api/v1/bills/"+list.Items[0].ID, nil).want(t, 204)
	a.with(a.viewer, "GET", "/api/v1/bills/"+list.Items[0].ID, nil).want(t, 404)
	other, _ := a.newTenant("Other", "other@harbour.test")
	key := a.key(other.ID, auth.RoleViewer)
	a.with(key, "GET", "/api/v1/reconciliation"+span, nil).want(t, 200).into(t, &r)
	if r.Estimate.Amount != "0.00" || r.Bill.Amount != "0.00" {
		t.Errorf("another tenant sees %+v", r)
	}
	for _, bad := range []string{"", "?from=2026-03-01T01:00:00Z&to=2026-03-02T00:00:00Z", "?from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z", "?from=2025-03-02T00:00:00Z&to=2026-03-01T00:00:00Z"} {
		a.with(a.viewer, "GET", "/api/v1/reconciliation"+bad, nil).want(t, 422)
	}
}

// Prices of a bill stand in the ledger only when somebody says so; before all days are closed nobody can.
func TestRestatingNeedsClosedDays(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	finance := a.key(a.tenant.ID, auth.RoleFinance)
	if status, body := a.upload(finance, "", march()); status != 201 {
		t.Fatal(status, body)
	}
	span := func(days int) map[string]any {
		return map[string]any{"from": accountsFrom, "to": accountsFrom.AddDate(0, 0, days)}
	}
	a.with(finance, "POST", "/api/v1/restatements", span(3)).want(t, 409)
	a.with(a.viewer, "POST", "/api/v1/restatements", span(2)).want(t, 403)
	var r httpapi.Restatement
	a.with(finance, "POST", "/api/v1/restatements", span(2)).want(t, 201).into(t, &r)
	if r.WaitingHours == 0 || r.After.Amount != "4819.00" || r.MachineHours != 96 {
		t.Errorf("%+v", r)
	}
	a.with(finance, "POST", "/api/v1/restatements", span(1)).want(t, 409)
	var bills struct{ Items []httpapi.Bill }
	a.with(a.viewer, "GET", "/api/v1/bills", nil).want(t, 200).into(t, &bills)
	a.with(finance, "DELETE", "/api/v1/bills/"+bills.Items[0].ID, nil).want(t, 409)
	a.with(finance, "POST", "/api/v1/restatements/"+r.ID+"/undo", nil).want(t, 200).into(t, &r)
	if r.UndoneAt == nil {
		t.Errorf("%+v", r)
	}
	a.with(finance, "POST", "/api/v1/restatements/"+r.ID+"/undo", nil).want(t, 200)
	var all struct{ Items []httpapi.Restatement }
	a.with(a.viewer, "GET", "/api/v1/restatements", nil).want(t, 200).into(t, &all)
	if len(all.Items) != 1 || all.Items[0].UndoneBy == "" {
		t.Errorf("%+v", all.Items)
	}
}
