package gcp

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

func TestSampleOfTheBillingCatalogueIsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../shared/data/samples/gcp_cloud_billing_skus_page.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the published samples are not beside this repository")
	}
	var page struct{ Skus []sku }
	if err != nil || json.Unmarshal(text, &page) != nil || len(page.Skus) != 7 {
		t.Fatal(err, len(page.Skus))
	}
	sh := stock(page.Skus, "us-central1", fleet.PurchaseOnDemand)
	m := machine{InstanceType: cloud.InstanceType{InstanceType: fleet.InstanceType{Name: "a2-highgpu-1g", CPUMilli: 12_000, MemMiB: 87_040, GPUCount: 1}, GPUName: "nvidia-tesla-a100"}}
	hour, id, from, reason := sh.hour(&m)
	if reason != "" || hour == nil || *hour != 3_673_385_000 || id != "2922-40C5-B19F+2390-DCAF-DA38+039F-D0DA-4055" || from.IsZero() {
		t.Errorf("a2-highgpu-1g: %v %s %s %q", hour, id, from, reason)
	}
	// The page's other rows are in rupiah: they are no dollars.
	e2 := machine{InstanceType: cloud.InstanceType{InstanceType: fleet.InstanceType{Name: "e2-standard-2", CPUMilli: 2000, MemMiB: 8192}}}
	if hour, _, _, reason := sh.hour(&e2); hour != nil || reason != cloud.SkipCurrency {
		t.Errorf("e2-standard-2: %v %q", hour, reason)
	}
}
