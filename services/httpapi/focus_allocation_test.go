package httpapi_test

import (
	"bytes"
	"encoding/csv"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/httpapi"
)

// The export of allocations adds up to the view's total, and Parquet holds what the CSV holds.
func TestAllocationExportAddsUp(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	for _, aggregate := range []string{"team", "workload", "cluster", "label:tier"} {
		query := "?" + url.Values{"from": {accountsFrom.Format(time.RFC3339)}, "to": {accountsTo.Format(time.RFC3339)}, "aggregate": {aggregate}}.Encode()
		var view httpapi.Allocations
		a.with(a.viewer, "GET", "/api/v1/cost/allocations"+query, nil).want(t, 200).into(t, &view)
		_, _, text := a.raw("/api/v1/exports/allocations" + query)
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(rows) < 20 {
			t.Fatalf("%s: %d rows: %v %.200s", aggregate, len(rows), err, text)
		}
		at := slices.Index(rows[0], "amount")
		var sum fleet.Money
		for _, r := range rows[1:] {
			m, err := fleet.ParseMoney(r[at])
			if err != nil {
				t.Fatal(err)
			}
			sum += m
		}
		if sum.String() != view.Total.Amount || sum != a.everything {
			t.Errorf("%s: the export adds up to %s, the view says %s, the ledger %s", aggregate, sum, view.Total.Amount, a.everything)
		}
		_, header, file := a.raw("/api/v1/exports/allocations" + query + "&format=parquet")
		if header.Get("Content-Type") != "application/vnd.apache.parquet" {
			t.Fatalf("%s %.200s", header, file)
		}
		var names []string
		n := 0
		err = focus.ReadParquet(bytes.NewReader(file), int64(len(file)), func(head []string) error { names = slices.Clone(head); return nil }, func(values []string) error {
			n++
			for i, name := range names {
				want := rows[n][slices.Index(rows[0], name)]
				if name == "amount" {
					m, err := fleet.ParseMoney(values[i])
					if err != nil || m.String() != want {
						t.Errorf("row %d: %s, the CSV has %s", n, values[i], want)
					}
				} else if !reflect.DeepEqual(values[i], want) {
					t.Errorf("row %d, %s: %q, the CSV has %q", n, name, values[i], want)
				}
			}
			return nil
		})
		if err != nil || n != len(rows)-1 {
			t.Errorf("%s: %d rows of Parquet, %d of CSV: %v", aggregate, n, len(rows)-1, err)
		}
	}
	a.with(a.viewer, "GET", "/api/v1/exports/allocations?idle=shared", nil).want(t, 422)
}
