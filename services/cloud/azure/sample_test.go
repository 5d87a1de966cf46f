package azure

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"

	"plimsoll.dev/services/cloud"
)

func TestSampleRetailPricesAreRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../shared/data/samples/azure_retail_prices_items.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the published samples are not beside this repository")
	}
	var items []item
	if err != nil || json.Unmarshal(text, &items) != nil || len(items) != 2 {
		t.Fatal(err, len(items))
	}
	var out cloud.List[cloud.Price]
	for i := range items {
		readPrice(&out, &items[i], "australiacentral")
	}
	if len(out.Items) != 1 || out.Items[0].Hour == nil || *out.Items[0].Hour != 673_000_000 || out.Items[0].Offering.InstanceType != "Standard_B16als_v2" || out.Skipped[cloud.SkipForeign] != 1 {
		t.Errorf("%+v", out)
	}
	if len(items[0].SavingPlan) != 2 || *items[0].SavingPlan[0].Retail != 0.34323 {
		t.Errorf("savings plan: %+v", items[0].SavingPlan)
	}
}

func TestSizesOfGPUsAreToldByTheirNames(t *testing.T) {
	t.Parallel()
	for size, want := range map[string]string{
		"Standard_ND96isr_H100_v5": "H100", "Standard_NC40ads_H100_v5": "H100-94GB", "Standard_NCC40ads_H100_v5": "H100-94GB", "Standard_NC80adis_H100_v5": "H100-94GB", "Standard_NC24ads_A100_v4": "A100-80GB",
		"Standard_ND96amsr_A100_v4": "A100-80GB", "Standard_ND96asr_v4": "A100-40GB", "Standard_NC4as_T4_v3": "T4", "Standard_NV36ads_A10_v5": "A10", "Standard_NV6ads_A10_v5": "", "Standard_NV12ads_A10_v5": "",
		"Standard_NC16ads_A10_v4": "A10", "Standard_NC24rs_v3": "V100", "Standard_ND40rs_v2": "V100-32GB", "Standard_D2s_v3": "", "Standard_ND96isr_MI300X_v5": "MI300X", "Standard_NC6": "",
	} {
		if model, mib, ok := gpuOf(size); string(model) != want || ok != (want != "") || ok && mib == 0 {
			t.Errorf("%s: %q %d, want %q", size, model, mib, want)
		}
	}
}
