package store

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

func TestDetailsUnpackToWhatWasPacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.SampledFrom([]string{"", "cpu", "gpu", "workload"}), rapid.String())
		lines := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ledger.CostLine {
			return ledger.CostLine{Node: word.Draw(t, "node"), Row: ledger.Row{Kind: ledger.Kind(word.Draw(t, "kind")), Resource: ledger.Resource(word.Draw(t, "resource")),
				Purchase: fleet.Purchase(word.Draw(t, "purchase")), Amount: fleet.Money(rapid.Int64().Draw(t, "amount")), Quantity: rapid.Float64Range(-1e300, 1e300).Draw(t, "quantity"),
				Owner: ledger.Owner{Workload: fleet.WorkloadID(word.Draw(t, "workload")), Namespace: word.Draw(t, "namespace"), Team: word.Draw(t, "team")}}}
		}), 0, 50).Draw(t, "lines")
		got, err := unpackDetail(packDetail(lines))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(lines, got); d != "" && len(lines)+len(got) > 0 {
			t.Fatalf("(-packed +unpacked):\n%s", d)
		}
	})
}

func TestDamagedDetailsAreErrors(t *testing.T) {
	t.Parallel()
	pack := func(raw []byte) []byte { return detailCoder().in.EncodeAll(raw, nil) }
	good := packDetail([]ledger.CostLine{{Node: "n", Row: ledger.Row{Amount: 5, Quantity: math.Pi}}})
	for name, payload := range map[string][]byte{
		"nothing": nil, "no zstd": []byte("cost"), "cut": good[:len(good)-3], "another format": pack([]byte{9}), "a count of words beyond the bytes": pack([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"a count of lines beyond the bytes": pack([]byte{1, 0, 0xff, 0xff, 0xff, 0x0f}), "an unknown word": pack(append([]byte{1, 1, 0, 1, 7}, make([]byte, 20)...)), "bytes left over": pack([]byte{1, 0, 0, 0}),
	} {
		if _, err := unpackDetail(payload); !errors.Is(err, errDetail) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkDetailOf10kPods(b *testing.B) {
	var lines []ledger.CostLine
	for n := range 1250 {
		for p := range 24 {
			lines = append(lines, ledger.CostLine{Node: fmt.Sprintf("6f1f7c1e-3c0e-5d0a-9b0e-%012d", n), Row: ledger.Row{Kind: ledger.KindWorkload, Resource: []ledger.Resource{"cpu", "gpu", "memory"}[p%3],
				Purchase: fleet.PurchaseOnDemand, Amount: fleet.Money(1e9 + n*7919 + p*104729), Quantity: 1 + float64(p)/7, Owner: ledger.Owner{Workload: fleet.WorkloadID(fmt.Sprintf("7f1f7c1e-3c0e-5d0a-9b0e-%012d", (n*8+p/3)%500)),
					Namespace: fmt.Sprintf("ns%d", p%50), Team: "red"}}})
		}
	}
	var size int
	for b.Loop() {
		size = len(packDetail(lines))
	}
	b.ReportMetric(float64(size)/float64(len(lines)), "bytes/line")
}
