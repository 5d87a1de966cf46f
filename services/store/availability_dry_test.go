package store

import (
	"testing"

	"plimsoll.dev/services/fleet"
)

func TestStockOutsArePlaced(t *testing.T) {
	t.Parallel()
	had := func(pool, cloud, region, zone, name, purchase string) poolOffering {
		return poolOffering{pool, fleet.Offering{Cloud: fleet.Cloud(cloud), Region: region, Zone: zone, InstanceType: name, Purchase: fleet.Purchase(purchase)}}
	}
	known := []poolOffering{
		had("gpu", "aws", "us-east-1", "us-east-1a", "g5.xlarge", "spot"), had("gpu", "aws", "us-east-1", "us-east-1b", "g5.xlarge", "spot"),
		had("mix", "aws", "us-east-1", "us-east-1a", "m5.large", "spot"), had("mix", "aws", "us-east-1", "us-east-1a", "m5.xlarge", "on_demand"),
		had("one", "gcp", "us-central1", "us-central1-a", "a2-highgpu-1g", "spot"),
	}
	for _, c := range []struct{ name, pool, message, want string }{
		{"everything is said", "gpu", "no g5.xlarge spot in us-east-1b", "aws us-east-1 us-east-1b g5.xlarge spot"},
		{"a zone never had, of a region that was", "gpu", "no g5.xlarge spot in us-east-1f.", "aws us-east-1 us-east-1f g5.xlarge spot"},
		{"the pool has one type and way of buying", "gpu", "insufficient capacity in us-east-1a", "aws us-east-1 us-east-1a g5.xlarge spot"},
		{"the pool has one offering only", "one", "ZONE_RESOURCE_POOL_EXHAUSTED", "gcp us-central1 us-central1-a a2-highgpu-1g spot"},
		{"Karpenter's words", "gpu", `creating instance, insufficient capacity, (instance type "g5.xlarge", zone "us-east-1b", capacity type "spot")`, "aws us-east-1 us-east-1b g5.xlarge spot"},
		{"another way of buying than the pool had", "gpu", "no g5.xlarge on-demand in us-east-1b", "aws us-east-1 us-east-1b g5.xlarge on_demand"},
		{"which zone, nobody knows", "gpu", "no g5.xlarge spot", ""},
		{"which type, nobody knows", "mix", "no spot in us-east-1a", ""},
		{"a pool that had nothing, all said", "new", "no m5.large spot in us-east-1a", "aws us-east-1 us-east-1a m5.large spot"},
		{"a pool that had nothing, nothing said", "new", "none left", ""},
		{"an empty sentence", "mix", "", ""},
	} {
		o, ok := offeringOf("NodePool/"+c.pool, c.message, known)
		got := ""
		if ok {
			got = string(o.Cloud) + " " + o.Region + " " + o.Zone + " " + o.InstanceType + " " + string(o.Purchase)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, ok := offeringOf("NodePool/gpu", "no g5.xlarge spot in us-east-1a", nil); ok {
		t.Error("a cluster that has had nothing cannot place a stock-out")
	}
}
