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
