package main

import (
	"fmt"
	"strconv"
	"strings"
)

// source says where the figures of one cloud and one kind come from. Kinds: on_demand,
// spot, types, traits, network, pods and offered.
type source struct{ cloud, kind, name, date, licence, origin string }

var sources = []source{
	{"aws", "on_demand", "aws-ondemand", "2026-07-20", "Apache-2.0", "github.com/aws/karpenter-provider-aws pkg/providers/pricing, from the AWS price list API"},
	{"aws", "spot", "aws-spot-advisor", "2025-06-28", "Apache-2.0", "github.com/alexei-led/spotinfo, from the AWS Spot Instance Advisor; estimate: on-demand price less the published mean saving"},
	{"aws", "offered", "aws-spot-advisor", "2025-06-28", "Apache-2.0", "github.com/alexei-led/spotinfo, from the AWS Spot Instance Advisor: which regions sell a type"},
	{"aws", "network", "aws-network-bandwidth", "2026-08-01", "Apache-2.0", "github.com/aws/karpenter-provider-aws, from DescribeInstanceTypes and the EC2 documentation"},
	{"aws", "traits", "aws-describe-instance-types", "2025-03-14", "MIT", "github.com/hoonoh/aws-spot-price test data, from DescribeInstanceTypes: local disks, EFA"},
	{"aws", "pods", "aws-eni-max-pods", "2026-11-30", "Apache-2.0", "github.com/aws/amazon-vpc-cni-k8s misc/eni-max-pods.txt, from DescribeInstanceTypes"},
	{"aws", "types", "aws-instance-types", "2026-01-22", "Apache-2.0", "github.com/kubernetes/autoscaler aws, from DescribeInstanceTypes"},
	{"azure", "on_demand", "azure-ondemand", "2026-06-18", "Apache-2.0", "github.com/Azure/karpenter-provider-azure, from the Azure Retail Prices API"},
	{"azure", "traits", "azure-gpu-sizes", "2026-11-30", "facts", "learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated: network, InfiniBand and local disks of GPU sizes"},
	{"azure", "types", "azure-instance-types", "2026-03-01", "Apache-2.0", "github.com/kubernetes/autoscaler azure, from the Resource SKUs API"},
	{"gcp", "on_demand", "gcp-prices", "2026-07-30", "Apache-2.0", "github.com/Cyclenerd/google-cloud-pricing-cost-calculator, from the Cloud Billing Catalog API"},
	{"gcp", "spot", "gcp-prices", "2026-07-30", "Apache-2.0", "github.com/Cyclenerd/google-cloud-pricing-cost-calculator, from the Cloud Billing Catalog API"},
	{"gcp", "traits", "gcp-gpu-machines", "2026-11-30", "facts", "cloud.google.com/compute/docs/gpus: network and GPUDirect of GPU machines; local disks from gcp-prices"},
	{"gcp", "types", "gcp-prices", "2026-07-30", "Apache-2.0", "github.com/Cyclenerd/google-cloud-pricing-cost-calculator"},
}

// regions that the catalogue carries. On-demand prices of AWS under a usable licence exist for us-east-1 and the two of GovCloud; the
// price list of China is in yuan, and this catalogue is in dollars. Of the other regions it knows what they sell, not for how much.
var regions = map[string][]string{
	"aws": {"us-east-1", "us-gov-east-1", "us-gov-west-1",
		"af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2", "ap-southeast-1", "ap-southeast-2",
		"ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-7", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1",
		"eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1", "me-south-1", "mx-central-1", "sa-east-1", "us-east-2", "us-west-1", "us-west-2"},
	"azure": {"australiacentral", "australiacentral2", "australiaeast", "australiasoutheast", "austriaeast", "brazilsouth", "brazilsoutheast", "canadacentral",
		"canadaeast", "centralindia", "centralus", "chilecentral", "eastasia", "eastus", "eastus2", "francecentral", "francesouth", "germanynorth",
		"germanywestcentral", "indonesiacentral", "israelcentral", "italynorth", "japaneast", "japanwest", "jioindiacentral", "jioindiawest",
		"koreacentral", "koreasouth", "malaysiawest", "mexicocentral", "newzealandnorth", "northcentralus", "northeurope", "norwayeast", "norwaywest",
		"polandcentral", "qatarcentral", "southafricanorth", "southafricawest", "southcentralus", "southeastasia", "southindia", "spaincentral",
		"swedencentral", "swedensouth", "switzerlandnorth", "switzerlandwest", "uaecentral", "uaenorth", "uksouth", "ukwest", "westcentralus",
		"westeurope", "westindia", "westus", "westus2", "westus3"},
	"gcp": {"africa-south1", "asia-east1", "asia-east2", "asia-northeast1", "asia-northeast2", "asia-northeast3", "asia-south1", "asia-south2",
		"asia-southeast1", "asia-southeast2", "asia-southeast3", "australia-southeast1", "australia-southeast2", "europe-central2", "europe-north1",
		"europe-north2", "europe-southwest1", "europe-west1", "europe-west10", "europe-west12", "europe-west2", "europe-west3", "europe-west4",
		"europe-west6", "europe-west8", "europe-west9", "me-central1", "me-central2", "me-west1", "northamerica-northeast1", "northamerica-northeast2",
		"northamerica-south1", "southamerica-east1", "southamerica-west1", "us-central1", "us-east1", "us-east4", "us-east5", "us-south1", "us-west1",
		"us-west2", "us-west3", "us-west4"},
}

// home are the regions where a cloud sells most of its types: levels that prices are held against, and weights, are taken from them. Lists
// of the others have prices of types that nobody can have there.
var home = map[string]map[string]bool{
	"aws":   words("us-east-1"),
	"azure": words("australiaeast centralus eastus eastus2 germanywestcentral japaneast northeurope southcentralus southeastasia swedencentral westeurope westus3"),
	"gcp":   words("asia-northeast1 asia-south1 asia-southeast1 europe-west1 europe-west3 europe-west4 us-central1 us-east1 us-east4 us-east5 us-west1 us-west4"),
}

// gpuMemory is the memory of one GPU in MiB, as its maker states it; the model names are the catalogue's spelling.
var gpuMemory = map[string]int64{
	"K80": 12 << 10, "M60": 8 << 10, "V100": 16 << 10, "V100-32GB": 32 << 10, "T4": 16 << 10, "T4g": 16 << 10,
	"A10": 24 << 10, "A10G": 24 << 10, "L4": 24 << 10, "L40S": 48 << 10, "A100-40GB": 40 << 10, "A100-80GB": 80 << 10,
	"H100": 80 << 10, "H200": 141 << 10, "B200": 180 << 10, "RTX-PRO-6000": 96 << 10, "MI300X": 192 << 10, "Radeon-V520": 8 << 10,
}

// awsGPU names the GPU of an EC2 family.
var awsGPU = map[string]string{
	"p2": "K80", "p3": "V100", "p3dn": "V100-32GB", "p4d": "A100-40GB", "p4de": "A100-80GB", "p5": "H100", "p5en": "H200", "p6-b200": "B200",
	"g4ad": "Radeon-V520", "g4dn": "T4", "g5": "A10G", "g5g": "T4g", "g6": "L4", "gr6": "L4", "g6e": "L40S", "g7e": "RTX-PRO-6000",
}

// azureGPU names the GPU of an Azure size and how many whole ones it has. Sizes with a part of a GPU are left out.
var azureGPU = map[string]string{
	"Standard_NC6s_v3": "1 V100", "Standard_NC12s_v3": "2 V100", "Standard_NC24s_v3": "4 V100", "Standard_NC24rs_v3": "4 V100",
	"Standard_NC4as_T4_v3": "1 T4", "Standard_NC8as_T4_v3": "1 T4", "Standard_NC16as_T4_v3": "1 T4", "Standard_NC64as_T4_v3": "4 T4",
	"Standard_NC24ads_A100_v4": "1 A100-80GB", "Standard_NC48ads_A100_v4": "2 A100-80GB", "Standard_NC96ads_A100_v4": "4 A100-80GB",
	"Standard_NC40ads_H100_v5": "1 H100-94GB", "Standard_NC80adis_H100_v5": "2 H100-94GB", "Standard_NCC40ads_H100_v5": "1 H100-94GB",
	"Standard_NC8ads_A10_v4": "1 A10", "Standard_NC16ads_A10_v4": "1 A10", "Standard_NC32ads_A10_v4": "2 A10",
	"Standard_NV36ads_A10_v5": "1 A10", "Standard_NV36adms_A10_v5": "1 A10", "Standard_NV72ads_A10_v5": "2 A10",
	"Standard_ND40rs_v2": "8 V100-32GB", "Standard_ND96asr_v4": "8 A100-40GB", "Standard_ND96amsr_A100_v4": "8 A100-80GB",
	"Standard_ND96isr_H100_v5": "8 H100", "Standard_ND96isr_H200_v5": "8 H200", "Standard_ND96isr_MI300X_v5": "8 MI300X",
}

// gcpGPU maps the price list's accelerator to the catalogue's spelling.
var gcpGPU = map[string]string{
	"L4": "L4", "A100-40GB": "A100-40GB", "A100-80GB": "A100-80GB", "H100-80GB": "H100", "H100-80GB-mega": "H100", "RTX-PRO-6000": "RTX-PRO-6000",
}

var gcpFamilies = words("a2 a3 g2 g4 e2 n1 n2 n2d n4 n4a n4d c2 c2d c3 c3d c4 c4a c4d t2a t2d m3")
var gcpArm = words("t2a c4a n4a")

func init() { gpuMemory["H100-94GB"] = 94 << 10 } // the NVL card of Azure's NC H100 v5

func readAWS(facts string, b *book) error {
	saving, sold := map[string]int64{}, map[string][]string{}
	err := eachRow(facts+"/availability/aws_spot_advisor_linux.csv.gz", func(r row) error {
		name, region := r.at("instance_type"), r.at("region")
		if r.at("as_of_commit_date") != "2025-06-28" {
			return nil
		}
		if !listed("aws", region) {
			return fmt.Errorf("region %q is not in the catalogue", region)
		}
		sold[name] = append(sold[name], region)
		if region == "us-east-1" {
			saving[name] = r.integer("savings_percent")
		}
		return nil
	})
	if err != nil {
		return err
	}
	types := map[string]*machine{}
	err = eachRow(facts+"/catalog/aws_instance_types_2026-01-22.csv.gz", func(r row) error {
		name := r.at("instance_type")
		family, _, _ := strings.Cut(name, ".")
		m := &machine{cloud: "aws", name: name, arch: r.at("arch"), cpuMilli: r.integer("vcpus") * 1000, memMiB: r.integer("memory_mb")}
		if n := r.integer("gpu_count"); n > 0 {
			if m.gpu = awsGPU[family]; m.gpu == "" {
				return nil // an accelerator that is not a GPU
			}
			m.gpus = n
		}
		m.offered, m.pods = sold[name], podsOf(name)
		m.link, m.linkGB = linkOf(m)
		types[name] = m
		return nil
	})
	if err == nil {
		err = awsTraits(facts, types)
	}
	if err != nil {
		return err
	}
	return eachRow(facts+"/catalog/aws_ondemand_2026-07-20.csv.gz", func(r row) error {
		m := types[r.at("instance_type")]
		region := r.at("region")
		if m == nil || !listed("aws", region) || r.at("currency") != "USD" || strings.HasPrefix(m.name, "inf") || strings.HasPrefix(m.name, "trn") {
			return nil
		}
		p := price{region: region, onDemand: r.nano("ondemand_price")}
		if s := saving[m.name]; region == "us-east-1" && s > 0 && s < 100 && p.onDemand > 0 {
			p.spot = p.onDemand / 100 * (100 - s)
		}
		m.prices = append(m.prices, p)
		b.add(m)
		return nil
	})
}

// awsTraits reads bandwidths, local disks and fabrics of types.
func awsTraits(facts string, types map[string]*machine) error {
	err := eachRow(facts+"/catalog/aws_network_bandwidth_2026-08.csv.gz", func(r row) error {
		if m, ok := types[r.at("instance_type")]; ok && r.at("megabits_per_second") != "" {
			m.netMbps = known(r.integer("megabits_per_second"))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eachRow(facts+"/catalog/aws_instance_types_2025-03-14.csv.gz", func(r row) error {
		m, ok := types[r.at("instance_type")]
		if !ok {
			return nil
		}
		if m.cpuMilli != r.integer("vcpus")*1000 || m.gpu != "" && m.gpus != r.integer("gpu_count") {
			return fmt.Errorf("%s: the two tables of types disagree", m.name)
		}
		m.diskGiB = gib(r.integer("instance_storage_gb"))
		m.efa(r.at("efa_supported") == "True")
		return nil
	})
	for name, n := range awsNewer {
		if m, ok := types[name]; ok && m.fabric == "" {
			m.diskGiB = gib(n.diskGB)
			m.efa(true)
		}
	}
	return err
}

// efa notes whether a machine has an Elastic Fabric Adapter, which may use all of its network.
func (m *machine) efa(has bool) {
	m.fabric = "none"
	if has {
		m.fabric = "efa"
		if m.netMbps != nil {
			m.fabricGbps = known(*m.netMbps / 1000)
		}
	}
}

func readAzure(facts string, b *book) error {
	types := map[string]*machine{}
	err := eachRow(facts+"/catalog/azure_instance_types_2026-03.csv.gz", func(r row) error {
		name := r.at("instance_type")
		m := &machine{cloud: "azure", name: name, arch: r.at("arch"), cpuMilli: r.integer("vcpus") * 1000, memMiB: r.integer("memory_mb")}
		if gpu, ok := azureGPU[name]; ok {
			count, model, _ := strings.Cut(gpu, " ")
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				return err
			}
			if have := r.integer("gpu_count"); have != n {
				return fmt.Errorf("%s: %d GPUs here, %d in the table", name, n, have)
			}
			m.gpu, m.gpus = model, n
		} else if !azureCommon(name) || r.integer("gpu_count") > 0 {
			return nil
		}
		azureTraits(m)
		types[name] = m
		return nil
	})
	if err != nil {
		return err
	}
	return eachRow(facts+"/catalog/azure_ondemand_2026-06-18.csv.gz", func(r row) error {
		m := types[r.at("instance_type")]
		if m == nil || !listed("azure", r.at("region")) {
			return nil
		}
		m.prices = append(m.prices, price{region: r.at("region"), onDemand: r.nano("ondemand_price")})
		b.add(m)
		return nil
	})
}

// azureCommon keeps the B, D, E and F series from version 3 on.
func azureCommon(name string) bool {
	size := strings.TrimPrefix(name, "Standard_")
	if size == name || !strings.ContainsAny(size[:1], "BDEF") || strings.Contains(size, "-") || strings.HasPrefix(size, "DC") || strings.HasPrefix(size, "EC") {
		return false
	}
	for _, v := range []string{"_v3", "_v4", "_v5", "_v6", "_v7"} {
		if strings.HasSuffix(size, v) {
			return true
		}
	}
	return strings.HasPrefix(size, "F") && strings.HasSuffix(size, "_v2") || strings.HasPrefix(size, "B") && strings.HasSuffix(size, "_v2")
}

func readGCP(facts string, b *book) error {
	types := map[string]*machine{}
	return eachRow(facts+"/catalog/gcp_prices_2026-07-30.csv.gz", func(r row) error {
		name := r.at("instance_type")
		family, _, _ := strings.Cut(name, "-")
		if !gcpFamilies[family] || !listed("gcp", r.at("region")) {
			return nil
		}
		m := types[name]
		if m == nil {
			m = &machine{cloud: "gcp", name: name, arch: "amd64", cpuMilli: int64(r.float("vcpus")*1000 + 0.5), memMiB: int64(r.float("ram_gb")*1024 + 0.5)}
			if gcpArm[family] {
				m.arch = "arm64"
			}
			if a := r.at("accelerator"); a != "" {
				n, err := strconv.ParseInt(r.at("accelerator_count"), 10, 64)
				if err != nil || gcpGPU[a] == "" {
					return nil // a part of a GPU
				}
				m.gpu, m.gpus = gcpGPU[a], n
			}
			gcpTraits(m, r.integer("local_ssd_gb"))
			types[name] = m
		}
		m.prices = append(m.prices, price{region: r.at("region"), onDemand: r.nano("ondemand_hour"), spot: r.nano("spot_hour")})
		b.add(m)
		return nil
	})
}

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

func listed(cloud, region string) bool {
	for _, r := range regions[cloud] {
		if r == region {
			return true
		}
	}
	return false
}
