package market_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

func TestSpotShapes(t *testing.T) {
	t.Parallel()
	at := func(s string) int64 {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.Unix()
	}
	aws := "timestamp,cloud,region,zone,instance_type,spot_price,ondemand_price"
	for _, c := range []struct {
		name, header, row string
		want              market.SpotRow
		bad               string // part of the error
	}{
		{"AWS changes", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1-az2,dl1.24xlarge,3.9327,13.10904",
			market.SpotRow{Pool: market.SpotPool{Cloud: "aws", Region: "us-east-1", Zone: "use1-az2", InstanceType: "dl1.24xlarge", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2022-11-29T01:45:34Z"), Spot: 3_932_700_000, OnDemand: 13_109_040_000}}, ""},
		{"listed without Spot", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1-az1,dl1.24xlarge,,13.10904",
			market.SpotRow{Pool: market.SpotPool{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "dl1.24xlarge", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2022-11-29T01:45:34Z"), OnDemand: 13_109_040_000}}, ""},
		{"gone", aws, "2023-02-22T07:14:53Z,aws,us-east-1,use1-az1,dl1.24xlarge,,",
			market.SpotRow{Pool: market.SpotPool{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "dl1.24xlarge", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2023-02-22T07:14:53Z")}}, ""},
		{"with a product and no on-demand price", "timestamp,cloud,region,zone,instance_type,product_description,spot_price", "2019-12-22T13:41:55Z,aws,eu-west-1,eu-west-1a,p2.16xlarge,Windows,4.665600",
			market.SpotRow{Pool: market.SpotPool{Cloud: "aws", Region: "eu-west-1", Zone: "eu-west-1a", InstanceType: "p2.16xlarge", Product: "Windows"},
				Change: market.SpotChange{At: at("2019-12-22T13:41:55Z"), Spot: 4_665_600_000}}, ""},
		{"Azure by days, in its own spelling", "date,cloud,region,instance_size,spot_price", "2020-02-24,azure,us_north_central,NC6s v3,1.20625",
			market.SpotRow{Pool: market.SpotPool{Cloud: "azure", Region: "northcentralus", InstanceType: "Standard_NC6s_v3", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2020-02-24T00:00:00Z"), Spot: 1_206_250_000}}, ""},
		{"Google by region, with more columns", "timestamp,cloud,region,instance_type,ondemand_price,spot_price,month_price", "2024-01-26T10:03:41Z,gcp,africa-south1,a2-highgpu-1g,4.80478794,1.4414358351,3507",
			market.SpotRow{Pool: market.SpotPool{Cloud: "gcp", Region: "africa-south1", InstanceType: "a2-highgpu-1g", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2024-01-26T10:03:41Z"), Spot: 1_441_435_835, OnDemand: 4_804_787_940}}, ""},
		{"an accelerator without a machine is no machine", "timestamp,cloud,region,zone,instance_type,accelerator,accelerator_count,spot_price,ondemand_price", "2023-06-28T14:14:40Z,gcp,us-west1,us-west1-b,,V100,8.0,7.5392,19.84",
			market.SpotRow{Pool: market.SpotPool{Cloud: "gcp", Region: "us-west1", Zone: "us-west1-b", InstanceType: "V100 x8", Product: market.ProductAccelerator},
				Change: market.SpotChange{At: at("2023-06-28T14:14:40Z"), Spot: 7_539_200_000, OnDemand: 19_840_000_000}}, ""},
		{"another currency is quarantined", aws + ",currency", "2022-11-29T01:45:34Z,aws,cn-north-1,cnn1-az1,g5.xlarge,3,13,CNY",
			market.SpotRow{Pool: market.SpotPool{Cloud: "aws", Region: "cn-north-1", Zone: "cnn1-az1", InstanceType: "g5.xlarge", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2022-11-29T01:45:34Z"), Spot: 3e9, OnDemand: 13e9}, Reason: market.SuspectCurrency, SpotText: "3", OnDemandText: "13"}, ""},
		{"a negative price is quarantined", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1-az1,g5.xlarge,-1,1",
			market.SpotRow{Pool: market.SpotPool{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "g5.xlarge", Product: market.ProductLinux},
				Change: market.SpotChange{At: at("2022-11-29T01:45:34Z"), OnDemand: 1e9}, Reason: market.SuspectNotPositive, SpotText: "-1", OnDemandText: "1"}, ""},
		{"a word for a price", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1-az1,g5.xlarge,cheap,1", market.SpotRow{}, `"cheap" is not a price`},
		{"no time", aws, "yesterday,aws,us-east-1,use1-az1,g5.xlarge,1,1", market.SpotRow{}, `"yesterday" is not a time`},
		{"a time without a zone", aws, "2022-11-29T01:45:34,aws,us-east-1,use1-az1,g5.xlarge,1,1", market.SpotRow{}, "is not a time"},
		{"before there were clouds", aws, "1970-01-01T00:00:00Z,aws,us-east-1,use1-az1,g5.xlarge,1,1", market.SpotRow{}, "before any cloud"},
		{"a cloud that nobody knows", aws, "2022-11-29T01:45:34Z,moon,us-east-1,use1-az1,g5.xlarge,1,1", market.SpotRow{}, `"moon" is none of`},
		{"a field short", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1-az1,g5.xlarge,1", market.SpotRow{}, "6 fields instead of 7"},
		{"no machine", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1-az1,,1,1", market.SpotRow{}, "no instance type"},
		{"a control character in a name", aws, "2022-11-29T01:45:34Z,aws,us-east-1,use1\x00az1,g5.xlarge,1,1", market.SpotRow{}, "is not a name"},
		{"half an accelerator", "timestamp,cloud,region,instance_type,accelerator,accelerator_count,spot_price", "2023-06-28T14:14:40Z,gcp,us-west1,,V100,0.5,7", market.SpotRow{}, "count of accelerators"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			shape, err := market.NewSpotShape(strings.Split(c.header, ","))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time from what it remembers
				got, err := shape.Row(strings.Split(c.row, ","))
				if c.bad != "" {
					if err == nil || !strings.Contains(err.Error(), c.bad) {
						t.Errorf("%v, want %q", err, c.bad)
					}
				} else if err != nil || got != c.want {
					t.Errorf("%+v, %v; want %+v", got, err, c.want)
				}
			}
		})
	}
	for _, header := range []string{"obs,timestamp,rows_in_catalog,source_commit", "timestamp,gpu,socket,price_min", "", "region,zone"} {
		if _, err := market.NewSpotShape(strings.Split(header, ",")); err == nil {
			t.Errorf("%q was taken for a price history", header)
		}
	}
	_ = fleet.CloudAWS
}
