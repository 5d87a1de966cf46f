package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"testing"
	"time"

	"plimsoll.dev/services/httpapi"
)

// put sends bytes that are no JSON.
func (b *books) put(path string, body []byte) (status int, answer string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPut, b.url+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.finance)
	r.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// largeBill is a zipped FOCUS file of more than one part: its tags do not compress.
func largeBill(t *testing.T, lines int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	random := rand.New(rand.NewSource(1))
	noise := make([]byte, 600)
	fmt.Fprint(z, "BillingCurrency,BilledCost,EffectiveCost,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceName,ServiceCategory,ProviderName,ResourceId,PricingUnit,PricingQuantity,PricingCategory,x_Noise\n")
	day := time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC)
	for i := range lines {
		random.Read(noise)
		fmt.Fprintf(z, "USD,0.5,0.5,%s,%s,Usage,Amazon Elastic Compute Cloud,Compute,AWS,i-%d,Hours,1,Standard,%x\n", day.Add(time.Duration(i%24)*time.Hour).Format(time.RFC3339), day.Add(time.Duration(i%24+1)*time.Hour).Format(time.RFC3339), i%500, noise)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A large bill comes in parts: in any order, again after a break, whole or not at all, and once.
func TestALargeBillIsUploadedInPartsAndOnce(t *testing.T) {
	t.Parallel()
	b := openBooks(t)
	file := largeBill(t, 15_000)
	sum := sha256.Sum256(file)
	start := map[string]any{"name": "cur.csv.gz", "bytes": len(file), "sha256": hex.EncodeToString(sum[:])}
	b.with(b.viewer, "POST", "/api/v1/bill-uploads", start).want(t, 403)
	var u, again httpapi.BillUpload
	b.with(b.finance, "POST", "/api/v1/bill-uploads", start).want(t, 200).into(t, &u)
	if u.Parts < 2 || len(u.Here) != 0 {
		t.Fatalf("%d bytes: %+v", len(file), u)
	}
	part := func(n int) []byte {
		return file[int64(n)*u.PartBytes : min(int64(n+1)*u.PartBytes, int64(len(file)))]
	}
	send := func(n int, body []byte, want int) {
		t.Helper()
		if status, text := b.put(fmt.Sprintf("/api/v1/bill-uploads/%s/parts/%d", u.ID, n), body); status != want {
			t.Fatalf("part %d: %d %s, want %d", n, status, text, want)
		}
	}
	last := u.Parts - 1
	send(last, part(last), 204)
	send(last, part(last), 204)
	send(last, make([]byte, len(part(last))), 409) // another file
	send(last, part(last)[1:], 422)
	send(u.Parts, part(last), 422)
	b.with(b.finance, "POST", "/api/v1/bill-uploads/"+u.ID+"/finish", nil).want(t, 409)
	b.with(b.finance, "POST", "/api/v1/bill-uploads", start).want(t, 200).into(t, &again)
	if again.ID != u.ID || len(again.Here) != 1 || again.Here[0] != last {
		t.Fatalf("begun again %+v", again)
	}
	for n := range last {
		send(n, part(n), 204)
	}
	var done, twice httpapi.BillImport
	b.with(b.finance, "POST", "/api/v1/bill-uploads/"+u.ID+"/finish", nil).want(t, 200).into(t, &done)
	if done.Bill.Lines != 15_000 || done.Bill.Charges != 500 || done.Bill.Billed.Amount != "7500.00" || done.Known || done.Bill.Name != "cur.csv.gz" {
		t.Errorf("%+v", done)
	}
	b.with(b.finance, "POST", "/api/v1/bill-uploads/"+u.ID+"/finish", nil).want(t, 200).into(t, &twice)
	if twice.Bill.ID != done.Bill.ID || !twice.Known {
		t.Errorf("finished twice: %+v", twice)
	}
	var n int
	if err := b.owner.QueryRow(t.Context(), `SELECT count(*) FROM bill_upload_part WHERE tenant_id = $1`, b.tenant.ID).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d parts stay: %v", n, err)
	}

	// Parts that together are another file than was announced are no bill.
	sum[0]++
	start["sha256"] = hex.EncodeToString(sum[:])
	b.with(b.finance, "POST", "/api/v1/bill-uploads", start).want(t, 200).into(t, &u)
	for n := range u.Parts {
		send(n, part(n), 204)
	}
	b.with(b.finance, "POST", "/api/v1/bill-uploads/"+u.ID+"/finish", nil).want(t, 422)
	other, _ := b.newTenant("Other", "other@harbour.test")
	b.with(b.key(other.ID, "finance"), "GET", "/api/v1/bill-uploads/"+u.ID, nil).want(t, 404)
	b.with(b.finance, "DELETE", "/api/v1/bill-uploads/"+u.ID, nil).want(t, 204)
	b.with(b.finance, "GET", "/api/v1/bill-uploads/"+u.ID, nil).want(t, 404)
	start["bytes"] = 2 << 30
	b.with(b.finance, "POST", "/api/v1/bill-uploads", start).want(t, 422)
}
