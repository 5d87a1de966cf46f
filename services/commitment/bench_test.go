package commitment_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// fleetOf makes machines of three families on two clouds, a tenth of which start within the hour, and 20 commitments over them.
func fleetOf(n int) (nodes []commitment.Node, owned []commitment.Commitment) {
	for i := range n {
		node := commitment.Node{Cluster: fleet.ClusterID(fmt.Sprintf("c%d", i%4)), UID: fmt.Sprintf("n%05d", i), Life: fleet.Interval{From: hour.Add(-time.Hour)},
			Offering: fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: []string{"m5.large", "m5.4xlarge", "g5.xlarge"}[i%3], Purchase: fleet.PurchaseOnDemand}}
		if i%5 == 0 {
			node.Offering = fleet.Offering{Cloud: fleet.CloudGCP, Region: "us-central1", Zone: "us-central1-a", InstanceType: "n2-standard-8", Purchase: fleet.PurchaseOnDemand}
		}
		if i%10 == 0 {
			node.Life.From = hour.Add(time.Duration(i) * time.Millisecond)
		}
		nodes = append(nodes, node)
	}
	for i := range 5 {
		owned = append(owned, regional(fmt.Sprintf("ri%d", i), "m5.xlarge", int64(n/20), "3"), zonal(fmt.Sprintf("z%d", i), "g5.xlarge", int64(n/40), "3"),
			cud(fmt.Sprintf("cud%d", i), commitment.ResourceCPU, "n2", int64(n)*200, "2"), plan(fmt.Sprintf("sp%d", i), commitment.KindComputeSP, "10", at("m5.4xlarge", "0.5"), at("g5.xlarge", "0.7")))
	}
	return nodes, owned
}

func BenchmarkHourOf1000Machines(b *testing.B) {
	nodes, owned := fleetOf(1000)
	prices := commitment.NewPrices(market.Catalogue(), nil)
	for b.Loop() {
		commitment.Allocate(commitment.HourInput(fleet.Interval{From: hour, To: hour.Add(time.Hour)}, nodes, owned, prices))
	}
}

func BenchmarkMonthOf300Machines(b *testing.B) {
	nodes, owned := fleetOf(300)
	prices := commitment.NewPrices(market.Catalogue(), nil)
	for b.Loop() {
		var t commitment.Tally
		err := commitment.History(fleet.Interval{From: hour, To: hour.Add(720 * time.Hour)}, nodes, owned, prices, func(s commitment.Statement) error { t.Add(s); return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarginal(b *testing.B) {
	nodes, owned := fleetOf(1000)
	prices := commitment.NewPrices(market.Catalogue(), nil)
	in := commitment.HourInput(fleet.Interval{From: hour, To: hour.Add(time.Hour)}, nodes, owned, prices)
	left := commitment.Left(hour, in.Usage, owned, in.List)
	c := prices.Of(nodes[1].Offering, fleet.InstanceType{}, hour)
	for b.Loop() {
		commitment.Marginal(c, 1, left)
	}
}
