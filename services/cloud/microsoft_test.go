package cloud_test

import (
	"context"
	"strings"
	"testing"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/azure"
	"plimsoll.dev/services/cloud/fakecloud"
)

func microsoftWorld() fakecloud.World {
	const from, to = "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
	price := func(machine, sku, amount string) fakecloud.AzurePrice {
		return fakecloud.AzurePrice{Region: "eastus", Machine: machine, SKU: sku, Price: amount}
	}
	spot := func(machine, sku, amount string) fakecloud.AzurePrice {
		p := price(machine, sku, amount)
		p.Suffix, p.From = " Spot", "2026-11-05T00:00:00Z"
		return p
	}
	d2 := price("Standard_D2s_v3", "D2", "0.096")
	d2.Plan1Year, d2.Plan3Year = "0.066", "0.044"
	nd := price("Standard_ND96isr_H100_v5", "ND", "98.32")
	nd.Plan1Year, nd.Plan3Year = "70.1", "43.16"
	windows, low, old, yuan := price("Standard_D2s_v3", "D2W", "0.188"), price("Standard_D2s_v3", "D2L", "0.02"), price("Standard_D2s_v3", "D2O", "0.09"), price("Standard_Y", "Y", "0.7")
	windows.Product, low.Suffix, old.Until, yuan.Currency = "Virtual Machines DSv3 Series Windows", " Low Priority", "2026-10-31T00:00:00Z", "CNY"
	elsewhere := d2
	elsewhere.Region, elsewhere.Plan3Year = "westeurope", "0.05"
	return fakecloud.World{Azure: fakecloud.Azure{
		Secret: "open sesame",
		Prices: []fakecloud.AzurePrice{
			nd, d2, windows, low, old, yuan, elsewhere,
			price("Standard_A", "A", "0.0"), price("Standard_B", "B", "-1"), price("Standard_C", "C", ""), price("Standard_E", "E", "1e300"), price("Standard_T", "T1", "1"), price("Standard_T", "T2", "2"),
			spot("Standard_D2s_v3", "D2S", "0.0192"), spot("Standard_ND96isr_H100_v5", "NDS", "39.328"), spot("Standard_A", "AS", "0"),
		},
		SKUs: []fakecloud.AzureSKU{
			{Region: "eastus", Name: "Standard_ND96isr_H100_v5", Capabilities: []string{"vCPUs", "96", "MemoryGB", "1900", "GPUs", "8", "CpuArchitectureType", "x64", "RdmaEnabled", "True", "LowPriorityCapable", "True", "NvmeDiskSizeInMiB", "27465820"}},
			{Region: "eastus", Name: "Standard_D2ps_v5", Capabilities: []string{"vCPUs", "2", "MemoryGB", "8", "CpuArchitectureType", "Arm64", "LowPriorityCapable", "False"}},
			{Region: "eastus", Name: "Standard_B1ls", Capabilities: []string{"vCPUs", "1", "MemoryGB", "0.5"}},
			{Region: "eastus", Name: "Standard_NX1_UNHEARD_v9", Capabilities: []string{"vCPUs", "8", "MemoryGB", "64", "GPUs", "1"}},
			{Region: "eastus", Name: "Standard_Broken", Capabilities: []string{"vCPUs", "many", "MemoryGB", "64"}},
			{Region: "eastus", Name: "Standard_Closed", Restricted: true, Capabilities: []string{"vCPUs", "8", "MemoryGB", "64"}},
			{Region: "eastus", Name: "Premium_LRS", Type: "disks"},
			{Region: "westeurope", Name: "Standard_D2s_v3", Capabilities: []string{"vCPUs", "2", "MemoryGB", "8"}},
		},
		Reservations: []fakecloud.AzureReservation{
			{ID: "/providers/reservations/1", Machine: "Standard_ND96isr_H100_v5", Region: "eastus", Quantity: "2", From: from, To: to},
			{ID: "/providers/reservations/2", Machine: "Standard_D2s_v3", Region: "westeurope", Quantity: "10", From: from, To: to},
			{ID: "/providers/reservations/3", Machine: "SQL", Region: "westeurope", Quantity: "1", From: from, To: to, Type: "SqlDatabases"},
			{ID: "/providers/reservations/4", Machine: "Standard_D2s_v3", Region: "westeurope", Quantity: "-1", From: from, To: to},
		},
		Plans: []fakecloud.AzurePlan{
			{ID: "/providers/savingsPlans/1", Term: "P3Y", Amount: "12.5", From: from, To: "2029-01-01T00:00:00Z"},
			{ID: "/providers/savingsPlans/2", Term: "P1Y", Amount: "0", From: from, To: to},
			{ID: "/providers/savingsPlans/3", Term: "P1Y", Amount: "3", Currency: "EUR", From: from, To: to},
		},
		Capacity: []fakecloud.AzureCapacity{
			{ID: "g1", Machine: "Standard_ND96isr_H100_v5", Region: "eastus", Zone: "1", Total: "4", Used: 3},
			{ID: "g2", Machine: "Standard_D2s_v3", Region: "westeurope", Total: "2", Used: 3},
			{ID: "g3", Machine: "Standard_D2s_v3", Region: "japaneast", Total: "2"},
		},
	}}
}

func microsoftConfig(s *fakecloud.Server, retry cloud.Retry) azure.Config {
	const id = "00000000-0000-0000-0000-00000000000"
	return azure.Config{
		Access:  cloud.AzureAccess{DirectoryID: id + "1", ClientID: id + "2", ClientSecret: "open sesame", SubscriptionID: id + "3"},
		Regions: []string{"eastus", "westeurope"}, Retail: s.URL, Manager: s.URL, Login: s.URL, HTTP: s.Client(), Retry: retry,
	}
}

func microsoft() subject {
	return subject{
		name: "azure", region: "eastus", world: microsoftWorld, links: true, partial: []string{"RetailPrices"},
		open: func(t *testing.T, s *fakecloud.Server, retry cloud.Retry) source {
			src, err := azure.New(microsoftConfig(s, retry))
			if err != nil {
				t.Fatal(err)
			}
			return src
		},
		lists: []listing{
			{"machines", []string{"skus"}, []string{
				"Standard_B1ls amd64 1000m 512Mi 0x() 0Mi net=0 disk=0,false :0 pods=0 spot=false",
				"Standard_D2ps_v5 arm64 2000m 8192Mi 0x() 0Mi net=0 disk=0,false :0 pods=0 spot=false",
				"Standard_ND96isr_H100_v5 amd64 96000m 1945600Mi 8xH100(H100) 81920Mi net=0 disk=28799,true infiniband:0 pods=0 spot=true",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 2, cloud.SkipUnknown: 2}},
			{"prices", []string{"RetailPrices"}, []string{
				"eastus Standard_A on_demand unknown A/meter-A", "eastus Standard_B on_demand unknown B/meter-B", "eastus Standard_C on_demand unknown C/meter-C",
				"eastus Standard_D2s_v3 on_demand 0.096 D2/meter-D2", "eastus Standard_E on_demand unknown E/meter-E", "eastus Standard_ND96isr_H100_v5 on_demand 98.32 ND/meter-ND",
				"eastus Standard_T on_demand unknown T1/meter-T1", "eastus Standard_Y on_demand unknown Y/meter-Y",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 3, cloud.SkipNotPositive: 2, cloud.SkipMissing: 1, cloud.SkipMalformed: 1, cloud.SkipCurrency: 1, cloud.SkipConflict: 1}},
			{"spot", []string{"RetailPrices"}, []string{
				"eastus  Standard_A 2026-11-05T00:00:00Z unknown", "eastus  Standard_D2s_v3 2026-11-05T00:00:00Z 0.0192", "eastus  Standard_ND96isr_H100_v5 2026-11-05T00:00:00Z 39.328",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 3, cloud.SkipNotPositive: 1}},
			{"commitments", []string{"reservations", "savingsPlans", "RetailPrices"}, []string{
				"/providers/reservations/1 azure_reservation eastus/ Standard_ND96isr_H100_v5 machine 2000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
				"/providers/reservations/2 azure_reservation westeurope/ Standard_D2s_v3 machine 10000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
				"/providers/savingsPlans/1 azure_savings_plan /   0 up=unknown hour=unknown spend=12.50 rates=[{eastus Standard_D2s_v3 0.044} {eastus Standard_ND96isr_H100_v5 43.16} {westeurope Standard_D2s_v3 0.05}] 2026-01-01..2029-01-01",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 1, cloud.SkipUnknown: 1, cloud.SkipNotPositive: 1, cloud.SkipCurrency: 1}},
			{"capacity", []string{"capacityReservationGroups"}, []string{
				"/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/g1/capacityReservations/g1 eastus/eastus-1 Standard_ND96isr_H100_v5 1 of 4",
				"/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/g2/capacityReservations/g2 westeurope/ Standard_D2s_v3 0 of 2",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 1}},
		},
	}
}

func TestAzureRetailPricesNeedNoAccountAndSendNoToken(t *testing.T) {
	t.Parallel()
	server := serve(t, microsoft())
	src, err := azure.New(azure.Config{Retail: server.URL, HTTP: server.Client(), Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := src.OnDemandPrices(t.Context(), "eastus"); err != nil || len(l.Items) != 8 {
		t.Errorf("%d prices, %v", len(l.Items), err)
	}
	for _, a := range server.Authorisations() {
		if strings.Contains(a, "Bearer") {
			t.Errorf("sent a token: %s", a)
		}
	}
	if _, err := src.Commitments(t.Context()); err == nil {
		t.Error("commitments without an account")
	}
}

func TestAzureSaysWhenTheDirectoryRefuses(t *testing.T) {
	t.Parallel()
	server := serve(t, microsoft())
	cfg := microsoftConfig(server, quick)
	cfg.Access.ClientSecret = "wrong"
	src, err := azure.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Commitments(t.Context()); err == nil || !strings.Contains(cloud.Problem(err), "directory does not accept") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("error: %v", err)
	}
	cfg.Access.ClientSecret, cfg.Assertion = "", func(context.Context) (string, error) { return "signed by the cluster", nil }
	if src, err = azure.New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Commitments(t.Context()); err != nil {
		t.Errorf("with the federated token: %v", err)
	}
	cfg.Assertion = nil
	if _, err := azure.New(cfg); err == nil {
		t.Error("an account without a secret opened without a federated token")
	}
}
