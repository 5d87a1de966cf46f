package billing

import (
	"slices"
	"testing"
)

func TestABillNamesAMachineAsItsCloudDoes(t *testing.T) {
	t.Parallel()
	for id, bill := range map[string]string{
		"aws:///us-east-1a/i-0abc": "arn:aws:ec2:us-east-1:123456789012:instance/i-0abc",
		"aws:///us-east-1a/i-0def": "i-0def",
		"azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/np/virtualMachines/3": "/subscriptions/s/resourcegroups/rg/providers/microsoft.compute/virtualmachinescalesets/np/virtualmachines/3",
		"gce://proj/us-east1-b/gke-np-1": "//compute.googleapis.com/projects/proj/zones/us-east1-b/instances/gke-np-1",
	} {
		row := Row{Dimensions: Dimensions{Resource: bill}}
		e := Estimate{Node: "a0b1", Name: "ip-10-0-0-1.ec2.internal", ProviderID: id}
		if !slices.ContainsFunc(row.names(), func(n string) bool { return slices.Contains(e.names(), n) }) {
			t.Errorf("%s is not found as %s: %v and %v", id, bill, e.names(), row.names())
		}
		if e.ProviderID = ""; slices.ContainsFunc(row.names(), func(n string) bool { return slices.Contains(e.names(), n) }) {
			t.Errorf("%s is found without its provider id", bill)
		}
	}
	for _, id := range []string{"", "aws://", "kind://docker/x/y", "azure:///", "gce://only"} {
		if got := providerNames(id); len(got) > 0 {
			t.Errorf("%q gives %v", id, got)
		}
	}
}
