package store_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const billHead = "BillingCurrency,BilledCost,EffectiveCost,ChargePeriodStart,ChargePeriodEnd,BillingPeriodStart,BillingPeriodEnd,ChargeCategory,ServiceName,ServiceCategory,ProviderName,BillingAccountId,ResourceId,PricingUnit,PricingQuantity,PricingCategory\n"

func bill(t *testing.T, rows ...string) billing.File {
	t.Helper()
	f, err := billing.Read(strings.NewReader(billHead+strings.Join(rows, "\n")+"\n"), billing.Options{Currency: "USD"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func machineRow(month, day, account, resource, cost string) string {
	from, _ := time.Parse(time.DateOnly, day)
	first, _ := time.Parse("2006-01", month)
	return "USD," + cost + "," + cost + "," + from.Format(time.RFC3339) + "," + from.AddDate(0, 0, 1).Format(time.RFC3339) + "," + first.Format(time.RFC3339) + "," + first.AddDate(0, 1, 0).Format(time.RFC3339) +
		",Usage,Amazon Elastic Compute Cloud,Compute,AWS," + account + "," + resource + ",Hours,24,Standard"
}

// A bill is kept as it was read; the same content is recognised; the same period is refused, added or replaced; another tenant sees none.
func TestBillsAreKeptOnceAndReplacedWhole(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	tenant := tenantOf(t, db, "a@harbour.test")
	other := tenantOf(t, db, "b@other.test")
	first := bill(t, machineRow("2026-03", "2026-03-01", "acc", "i-1", "0.000000000000000123"), machineRow("2026-03", "2026-03-02", "acc", "i-1", "98.320000000000000001"))
	second := bill(t, machineRow("2026-03", "2026-03-01", "acc", "i-1", "1.5"))
	wider := bill(t, machineRow("2026-03", "2026-03-01", "acc", "i-1", "2"), machineRow("2026-04", "2026-04-01", "acc", "i-1", "2"))
	save := func(f billing.File, mode store.BillMode) (b store.Bill, known bool, replaced []store.Bill, err error) {
		err = db.Tenant(ctx, tenant, func(tx *store.Tx) error {
			b, known, replaced, err = store.SaveBill(ctx, tx, "march.csv", f, mode, "test")
			return err
		})
		return b, known, replaced, err
	}
	charges := func(tenant fleet.TenantID) (sum billing.Amount, n int) {
		err := db.Tenant(ctx, tenant, func(tx *store.Tx) error {
			rows, err := store.BillRows(ctx, tx, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
			for _, r := range rows {
				sum = sum.Add(r.Billed)
			}
			n = len(rows)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum, n
	}
	one, known, _, err := save(first, store.BillNew)
	if err != nil || known {
		t.Fatal(known, err)
	}
	if sum, n := charges(tenant); sum != first.Billed || n != 2 || sum.String() != "98.320000000000000124" {
		t.Errorf("%d charges of %s, the file has %s", n, sum, first.Billed)
	}
	if sum, n := charges(other); n != 0 {
		t.Errorf("another tenant sees %s", sum)
	}
	if again, known, _, err := save(first, store.BillNew); err != nil || !known || again.ID != one.ID {
		t.Errorf("the same content again: %v %v", known, err)
	}
	if _, _, _, err := save(second, store.BillNew); codeOf(err) != fleet.CodeConflict {
		t.Errorf("the same period again: %v", err)
	}
	added, _, _, err := save(second, store.BillAdd)
	if err != nil {
		t.Fatal(err)
	}
	if sum, n := charges(tenant); n != 3 || sum.String() != "99.820000000000000124" {
		t.Errorf("both: %d charges of %s", n, sum)
	}
	if _, _, replaced, err := save(wider, store.BillReplace); err != nil || len(replaced) != 2 {
		t.Errorf("replaced %d: %v", len(replaced), err)
	}
	if sum, n := charges(tenant); n != 2 || sum.String() != "4.00" {
		t.Errorf("replaced: %d charges of %s", n, sum)
	}
	if _, _, _, err := save(second, store.BillReplace); codeOf(err) != fleet.CodeConflict || !strings.Contains(err.Error(), "2026-04-01") {
		t.Errorf("a replacement that lacks April: %v", err)
	}
	err = db.Tenant(ctx, tenant, func(tx *store.Tx) error { return store.DeleteBill(ctx, tx, added.ID, "test") })
	if codeOf(err) != fleet.CodeNotFound {
		t.Errorf("a replaced bill is deleted again: %v", err)
	}
	var zero bytes.Buffer
	if _, err := billing.Read(&zero, billing.Options{}); codeOf(err) != fleet.CodeInvalid {
		t.Errorf("an empty file: %v", err)
	}
}

func tenantOf(t *testing.T, db *store.DB, email string) fleet.TenantID {
	t.Helper()
	tenant, _ := newTenant(t, db, email)
	return tenant.ID
}
