package cloud_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/aws"
	"plimsoll.dev/services/cloud/fakecloud"
)

func amazonWorld() fakecloud.World {
	const start, end = "2026-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"
	return fakecloud.World{AWS: fakecloud.AWS{
		ExternalID: "plimsoll-1",
		Machines: []fakecloud.AWSMachine{
			{Region: "us-east-1", Name: "p5.48xlarge", VCPU: "192", MemMiB: "2097152", GPU: "H100", GPUs: "8", GPUMiB: "81920", Spot: true, EFA: true, Gbps: "3200", DiskGB: "30400"},
			{Region: "us-east-1", Name: "m7g.xlarge", Arch: "arm64", VCPU: "4", MemMiB: "16384", Spot: true},
			{Region: "us-east-1", Name: "mac2.metal", Arch: "arm64_mac", VCPU: "8", MemMiB: "16384"},
			{Region: "us-east-1", Name: "g5.xlarge", VCPU: "4", MemMiB: "16384", GPU: "A10G", GPUs: "1", GPUMiB: "24576", Gbps: "10", BaseGbps: "2.5", Cards: "4", IPs: "15"},
			{Region: "us-east-1", Name: "mystery.large", MemMiB: "16384"},
			{Region: "eu-west-1", Name: "elsewhere.large", VCPU: "2", MemMiB: "16384"},
		},
		Products: []fakecloud.AWSProduct{
			{Region: "us-east-1", Type: "p5.48xlarge", SKU: "P5", Price: "55.0400000000"},
			{Region: "us-east-1", Type: "g5.xlarge", SKU: "G5", Price: "1.0060000000"},
			{Region: "us-east-1", Type: "a.zero", SKU: "Z", Price: "0.0000000000"},
			{Region: "us-east-1", Type: "b.negative", SKU: "N", Price: "-1.0"},
			{Region: "us-east-1", Type: "c.word", SKU: "W", Price: "n/a"},
			{Region: "us-east-1", Type: "d.missing", SKU: "M"},
			{Region: "us-east-1", Type: "e.yuan", SKU: "Y", Price: "7.1", Currency: "CNY"},
			{Region: "us-east-1", Type: "f.twice", SKU: "T1", Price: "1.0"},
			{Region: "us-east-1", Type: "f.twice", SKU: "T2", Price: "2.0"},
			{Region: "us-east-1", Type: "g.same", SKU: "S1", Price: "1.0"},
			{Region: "us-east-1", Type: "g.same", SKU: "S2", Price: "1.00"},
			{Region: "us-east-1", Type: "h.huge", SKU: "H", Price: "1e9"},
			{Region: "us-east-1", SKU: "DISK", Price: "0.138", Family: "Storage", Unit: "GB-Mo"},
			{Region: "us-east-1", Type: "g5.xlarge", SKU: "WIN", Price: "1.19", System: "Windows"},
		},
		Spot: []fakecloud.AWSSpot{
			{Region: "us-east-1", Zone: "us-east-1b", ZoneID: "use1-az2", Type: "g5.xlarge", Price: "0.4020", At: "2026-11-02T10:00:00.000Z"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "g5.xlarge", Price: "0.412300", At: "2026-11-03T10:00:00.000Z"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "g5.xlarge", Price: "0.3021", At: "2026-11-02T10:00:00.000Z"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "g5.xlarge", Price: "0.3021", At: "2026-11-02T10:00:00.000Z", Product: "Linux/UNIX (Amazon VPC)"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "g5.xlarge", Price: "0.6", At: "2026-11-02T10:00:00.000Z", Product: "Windows"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "p5.48xlarge", Price: "0.000000", At: "2026-11-02T10:00:00.000Z"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "p5.48xlarge", Price: "none", At: "2026-11-03T10:00:00.000Z"},
			{Region: "us-east-1", Zone: "us-east-1a", ZoneID: "use1-az1", Type: "g5.xlarge", Price: "0.2", At: "2026-10-02T10:00:00.000Z"},
			{Region: "eu-west-1", Zone: "eu-west-1a", Type: "g5.xlarge", Price: "0.1", At: "2026-11-02T10:00:00.000Z"},
		},
		Reserved: []fakecloud.AWSReserved{
			{Region: "us-east-1", ID: "ri-zonal", Type: "g5.xlarge", Zone: "us-east-1a", Count: "3", Fixed: "2500.1", Hourly: "0.1", Start: start, End: end},
			{Region: "eu-west-1", ID: "ri-regional", Type: "m5.large", Count: "2", Fixed: "0", Hourly: "0.06", Start: start, End: end},
			{Region: "us-east-1", ID: "ri-windows", Type: "m5.large", Count: "2", Fixed: "0", Hourly: "0.06", Product: "Windows", Start: start, End: end},
		},
		Capacity: []fakecloud.AWSCapacity{
			{Region: "us-east-1", ID: "cr-1", Type: "p5.48xlarge", Zone: "us-east-1a", Total: "4", Free: "1", Start: start},
			{Region: "us-east-1", ID: "cr-2", Type: "p5.48xlarge", Zone: "us-east-1b", Total: "2", Free: "2", Kind: "capacity-block", Start: start, End: end},
			{Region: "us-east-1", ID: "cr-3", Type: "p5.48xlarge", Zone: "us-east-1b", Total: "1", Free: "2", Start: start},
			{Region: "eu-west-1", ID: "cr-4", Type: "g5.xlarge", Zone: "eu-west-1a", Total: "1", Free: "0", Start: start},
		},
		Plans: []fakecloud.AWSPlan{
			{ID: "sp-compute", Kind: "Compute", Commitment: "10.00000000", Start: start, End: end, Rates: []fakecloud.AWSRate{
				{Region: "us-east-1", Type: "p5.48xlarge", Price: "31.2"}, {Region: "us-east-1", Type: "g5.xlarge", Price: "0.7"}, {Region: "us-east-1", Type: "g5.xlarge", Price: "0.9", Product: "Windows"}}},
			{ID: "sp-instance", Kind: "EC2Instance", Region: "us-east-1", Family: "g5", Commitment: "0.5", Start: start, End: end, Rates: []fakecloud.AWSRate{
				{Region: "us-east-1", Type: "g5.xlarge", Price: "0.6"}, {Region: "us-east-1", Type: "g5.2xlarge", Price: "0.8"}, {Region: "us-east-1", Type: "g5.4xlarge", Price: "-0.8"}}},
			{ID: "sp-sagemaker", Kind: "SageMaker", Commitment: "1", Start: start, End: end},
		},
		Scores: []fakecloud.AWSScore{{Region: "us-east-1", ZoneID: "use1-az1", Score: "9"}, {Region: "us-east-1", ZoneID: "use1-az2", Score: "3"}, {Region: "eu-west-1", ZoneID: "euw1-az1", Score: "1"}},
	}}
}

func openAmazon(t *testing.T, s *fakecloud.Server, retry cloud.Retry) *aws.Source {
	t.Helper()
	src, err := aws.New(t.Context(), aws.Config{
		Access: cloud.AWSAccess{RoleARN: "arn:aws:iam::123456789012:role/plimsoll", ExternalID: "plimsoll-1"}, Regions: []string{"us-east-1", "eu-west-1"},
		Base: credentials.NewStaticCredentialsProvider("AKIABASE", "secret", ""), Endpoint: s.URL, HTTP: s.Client(), Retry: retry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func amazon() subject {
	return subject{
		name: "aws", region: "us-east-1", world: amazonWorld,
		open: func(t *testing.T, s *fakecloud.Server, retry cloud.Retry) source { return openAmazon(t, s, retry) },
		lists: []listing{
			{"machines", []string{"DescribeInstanceTypes"}, []string{
				"g5.xlarge amd64 4000m 16384Mi 1xA10G(A10G) 24576Mi net=2500 disk=0,false none:0 pods=58 spot=false",
				"m7g.xlarge arm64 4000m 16384Mi 0x() 0Mi net=0 disk=0,false :0 pods=0 spot=true",
				"p5.48xlarge amd64 192000m 2097152Mi 8xH100(H100) 81920Mi net=3200000 disk=30400,true efa:3200 pods=0 spot=true",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 1, cloud.SkipUnknown: 1}},
			{"prices", []string{"GetProducts"}, []string{
				"us-east-1 a.zero on_demand unknown Z.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 b.negative on_demand unknown N.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 c.word on_demand unknown W.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 d.missing on_demand unknown M.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 e.yuan on_demand unknown Y.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 f.twice on_demand unknown T1.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 g.same on_demand 1.00 S1.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 g5.xlarge on_demand 1.006 G5.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 h.huge on_demand unknown H.JRTCKXETXF.6YS6EN2CT7",
				"us-east-1 p5.48xlarge on_demand 55.04 P5.JRTCKXETXF.6YS6EN2CT7",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 2, cloud.SkipNotPositive: 2, cloud.SkipMalformed: 2, cloud.SkipMissing: 1, cloud.SkipCurrency: 1, cloud.SkipConflict: 1}},
			{"spot", []string{"DescribeSpotPriceHistory"}, []string{
				"us-east-1 us-east-1a g5.xlarge 2026-11-02T10:00:00Z 0.3021",
				"us-east-1 us-east-1a g5.xlarge 2026-11-03T10:00:00Z 0.4123",
				"us-east-1 us-east-1b g5.xlarge 2026-11-02T10:00:00Z 0.402",
				"us-east-1 us-east-1a p5.48xlarge 2026-11-02T10:00:00Z unknown",
				"us-east-1 us-east-1a p5.48xlarge 2026-11-03T10:00:00Z unknown",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 1, cloud.SkipNotPositive: 1, cloud.SkipMalformed: 1}},
			{"commitments", []string{"DescribeCapacityReservations", "DescribeSavingsPlans", "DescribeSavingsPlanRates"}, []string{
				"cr-1 aws_capacity_reservation us-east-1/us-east-1a p5.48xlarge machine 4000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..0001-01-01",
				"cr-2 aws_capacity_block us-east-1/us-east-1b p5.48xlarge machine 2000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
				"cr-3 aws_capacity_reservation us-east-1/us-east-1b p5.48xlarge machine 1000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..0001-01-01",
				"cr-4 aws_capacity_reservation eu-west-1/eu-west-1a g5.xlarge machine 1000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..0001-01-01",
				"ri-regional aws_regional_ri eu-west-1/ m5.large machine 2000 up=0.00 hour=0.12 spend=unknown rates=[] 2026-01-01..2027-01-01",
				"ri-zonal aws_zonal_ri us-east-1/us-east-1a g5.xlarge machine 3000 up=7500.30 hour=0.30 spend=unknown rates=[] 2026-01-01..2027-01-01",
				"sp-compute aws_compute_sp /   0 up=unknown hour=unknown spend=10.00 rates=[{us-east-1 g5.xlarge 0.70} {us-east-1 p5.48xlarge 31.20}] 2026-01-01..2027-01-01",
				"sp-instance aws_ec2_instance_sp us-east-1/ g5  0 up=unknown hour=unknown spend=0.50 rates=[{us-east-1 g5.2xlarge 0.80} {us-east-1 g5.xlarge 0.60}] 2026-01-01..2027-01-01",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 3, cloud.SkipNotPositive: 1}},
			{"capacity", []string{"DescribeCapacityReservations"}, []string{
				"cr-1 us-east-1/us-east-1a p5.48xlarge 1 of 4", "cr-2 us-east-1/us-east-1b p5.48xlarge 2 of 2", "cr-4 eu-west-1/eu-west-1a g5.xlarge 0 of 1",
			}, map[cloud.SkipReason]int{cloud.SkipUnknown: 1}},
		},
	}
}

func TestAmazonIsAskedAsTheTenantsRoleWithItsExternalID(t *testing.T) {
	t.Parallel()
	server := serve(t, amazon())
	src := openAmazon(t, server, quick)
	if _, err := src.CapacityReservations(t.Context()); err != nil {
		t.Fatal(err)
	}
	var regions []string
	for _, a := range server.Authorisations() {
		operation, signed, _ := strings.Cut(a, " ")
		base := strings.Contains(signed, "AKIABASE/")
		if operation == "AssumeRole" != base || !base && !strings.Contains(signed, fakecloud.RoleKey+"/") {
			t.Errorf("%s was signed with %.80s", operation, signed)
		}
		if operation == "DescribeCapacityReservations" {
			regions = append(regions, strings.Split(signed, "/")[2])
		}
	}
	if got := strings.Join(regions, " "); got != "us-east-1 us-east-1 eu-west-1" {
		t.Errorf("regions asked: %s", got)
	}
	other, err := aws.New(context.Background(), aws.Config{Access: cloud.AWSAccess{RoleARN: "arn:aws:iam::123456789012:role/plimsoll", ExternalID: "of another tenant"},
		Regions: []string{"us-east-1"}, Base: credentials.NewStaticCredentialsProvider("AKIABASE", "secret", ""), Endpoint: server.URL, HTTP: server.Client(), Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.CapacityReservations(t.Context()); err == nil || !strings.Contains(cloud.Problem(err), "lack a permission") {
		t.Errorf("with the wrong external id: %v", err)
	}
}

func TestAmazonPlacementScores(t *testing.T) {
	t.Parallel()
	server := serve(t, amazon())
	scores, err := openAmazon(t, server, quick).PlacementScores(t.Context(), []string{"p5.48xlarge"}, 2)
	if err != nil || len(scores) != 3 || scores[0] != (aws.Score{Region: "us-east-1", ZoneID: "use1-az1", Score: 9}) {
		t.Errorf("%v, %v", scores, err)
	}
	if server.Calls("GetSpotPlacementScores") != 2 {
		t.Errorf("%d pages", server.Calls("GetSpotPlacementScores"))
	}
}
