package billing_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"plimsoll.dev/services/billing"
)

// bigBill writes a FOCUS bill of hourly lines as it is read, so that no test holds it: machines, each with a line an hour from the beginning of a month.
type bigBill struct {
	rows, row, machines int
	buf                 bytes.Buffer
}

func newBigBill(rows, machines int) *bigBill {
	b := &bigBill{rows: rows, machines: machines}
	b.buf.WriteString("BillingAccountId,BillingCurrency,BillingPeriodStart,BillingPeriodEnd,ProviderName,BilledCost,EffectiveCost,ListCost,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceName,ServiceCategory,RegionId,ResourceId,SkuId,PricingUnit,PricingQuantity,PricingCategory,Tags\n")
	return b
}

func (b *bigBill) Read(p []byte) (int, error) {
	for b.buf.Len() < len(p) && b.row < b.rows {
		m, hour := b.row%b.machines, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(b.row/b.machines%744)*time.Hour)
		fmt.Fprintf(&b.buf, "123456789012,USD,2026-03-01T00:00:00Z,2026-04-01T00:00:00Z,AWS,0.0960000%03d,0.0960000%03d,0.1000000,%s,%s,Usage,Amazon Elastic Compute Cloud,Compute,us-east-1,i-%08d,SKU%03d,Hours,1,Standard,\"{\"\"team\"\":\"\"t%d\"\"}\"\n",
			m%1000, m%1000, hour.Format(time.RFC3339), hour.Add(time.Hour).Format(time.RFC3339), m, m%50, m%20)
		b.row++
	}
	if b.buf.Len() == 0 {
		return 0, io.EOF
	}
	return b.buf.Read(p)
}

// zipped compresses in as it is read.
func zipped(in io.Reader) io.Reader {
	out, w := io.Pipe()
	go func() {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		_, err := io.Copy(z, in)
		_ = w.CloseWithError(errors.Join(err, z.Close()))
	}()
	return out
}

// heapWhile is the most that the heap grew by while in was read.
type heapWhile struct {
	in         io.Reader
	reads      int
	base, most uint64
}

func (h *heapWhile) Read(p []byte) (int, error) {
	if h.reads++; h.reads%512 == 1 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		if h.base == 0 {
			h.base = m.HeapAlloc
		}
		h.most = max(h.most, m.HeapAlloc)
	}
	return h.in.Read(p)
}

// What a bill takes in memory is its different charges of a day, not its lines: ten times the lines of the same machines and days take no more.
func TestReadingABigBillTakesTheMemoryOfItsCharges(t *testing.T) { //nolint:paralleltest // it measures the heap
	if testing.Short() {
		t.Skip("a load test")
	}
	grown := map[int]uint64{}
	for _, rows := range []int{24_000, 240_000} {
		in := &heapWhile{in: zipped(newBigBill(rows, 1000))}
		f, err := billing.Read(in, billing.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f.Lines != rows || len(f.Rows) != (rows+23_999)/24_000*1000 {
			t.Fatalf("%d lines in %d charges", f.Lines, len(f.Rows))
		}
		grown[rows] = in.most - in.base
		t.Logf("%d lines, %d charges: %.1f MiB of heap", f.Lines, len(f.Rows), float64(grown[rows])/(1<<20))
	}
	if grown[240_000] > 24<<20 {
		t.Errorf("240,000 lines in 10,000 charges took %d bytes", grown[240_000])
	}
}

// BenchmarkReadMillion against BenchmarkPlainMillion says what reading a bill costs beside reading its CSV.
func BenchmarkReadMillion(b *testing.B) {
	for b.Loop() {
		f, err := billing.Read(newBigBill(1_000_000, 2000), billing.Options{})
		if err != nil || f.Lines != 1_000_000 {
			b.Fatal(f.Lines, err)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkPlainMillion(b *testing.B) {
	for b.Loop() {
		r := csv.NewReader(newBigBill(1_000_000, 2000))
		r.ReuseRecord = true
		n := 0
		for {
			if _, err := r.Read(); err != nil {
				break
			}
			n++
		}
		if n != 1_000_001 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "rows/s")
}
