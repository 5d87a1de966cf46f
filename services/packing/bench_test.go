package packing

import (
	"fmt"
	"testing"
)

// BenchmarkPack packs made-up instances and reports how far above the proven bound the cost is.
func BenchmarkPack(b *testing.B) {
	for _, c := range []struct{ pods, shapes, offerings int }{{2_000, 200, 500}, {20_000, 300, 500}, {20_000, 300, 2_000}} {
		b.Run(fmt.Sprintf("%dx%d", c.pods, c.offerings), func(b *testing.B) {
			pods, offs := sample(11, c.pods, c.shapes, c.offerings)
			b.ResetTimer()
			for b.Loop() {
				a, err := Pack(pods, offs, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(1+a.Gap(), "x-bound")
			}
		})
	}
}

// BenchmarkRepack changes a hundredth of the pods of a running fleet.
func BenchmarkRepack(b *testing.B) {
	for _, c := range []struct{ pods, shapes, offerings int }{{2_000, 200, 500}, {20_000, 300, 500}} {
		b.Run(fmt.Sprintf("%dx%d", c.pods, c.offerings), func(b *testing.B) {
			pods, offs := sample(11, c.pods, c.shapes, c.offerings)
			before, err := Pack(pods, offs, Options{})
			if err != nil {
				b.Fatal(err)
			}
			pods, running := change(pods, before.Nodes, 100, 0)
			b.ResetTimer()
			for b.Loop() {
				plan, err := Repack(pods, offs, running, *money("0.05"), before.Proof, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(1+plan.Gap(), "x-bound")
				b.ReportMetric(float64(len(plan.Moved)), "moved")
			}
		})
	}
}
