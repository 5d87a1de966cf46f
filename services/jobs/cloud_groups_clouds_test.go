package jobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/azure"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/cloud/gcp"

	"golang.org/x/oauth2"
)

// otherCloud is a cloud besides Amazon's: a group's name there, a node's provider id, and the way in.
type otherCloud struct {
	ref, provider string
	open          func(w *ward) GroupOpener
}

func otherClouds() map[string]otherCloud {
	retry := cloud.Retry{Attempts: 1, Base: time.Millisecond, Max: time.Millisecond}
	const set = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/gpu"
	return map[string]otherCloud{
		"azure": {set, "azure://" + set + "/virtualMachines/%d", func(w *ward) GroupOpener {
			return func(context.Context, cloud.Access) (cloud.Groups, error) {
				const id = "00000000-0000-0000-0000-00000000000"
				return azure.NewGroups(azure.Config{Access: cloud.AzureAccess{DirectoryID: id + "1", ClientID: id + "2", ClientSecret: "open sesame", SubscriptionID: "sub"},
					Regions: []string{"us-east-1"}, Manager: w.cloud.URL, Login: w.cloud.URL, HTTP: w.cloud.Client(), Retry: retry})
			}
		}},
		"gcp": {"zones/us-east1-a/instanceGroupManagers/gpu", "gce://plimsoll-test/us-east1-a/gpu-%d", func(w *ward) GroupOpener {
			return func(context.Context, cloud.Access) (cloud.Groups, error) {
				return gcp.NewGroups(gcp.Config{Access: cloud.GCPAccess{ProjectID: "plimsoll-test", ServiceAccount: "groups@plimsoll-test.iam.gserviceaccount.com"}, Regions: []string{"us-east1"},
					Compute: w.cloud.URL, Credentials: w.cloud.URL, Token: w.cloud.URL + "/token", HTTP: w.cloud.Client(), Retry: retry, Ambient: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "x"})})
			}
		}},
	}
}

// The same story at the two other clouds, which can refuse at the door.
func TestGroupsOfAzureAndGoogleGrowAndRefuse(t *testing.T) {
	t.Parallel()
	for name, c := range otherClouds() {
		for _, refuses := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stock := 20
				if refuses {
					stock = 0
				}
				w := openWard(t, stock, func(m *fakecloud.MachineGroup) {
					m.Cloud, m.AtDoor, m.Zone, m.Zones, m.Scaler = name, refuses, "us-east1-a", []string{"us-east1-a"}, "OFF"
				})
				w.worker.Open = c.open(w)
				w.exec(`UPDATE cloud_group SET ref = $2 WHERE tenant_id = $1`, w.tenant, c.ref)
				w.plan(3)
				if refuses {
					if got := w.look(); !strings.HasPrefix(got, "stock_out 2-5 ended") || !strings.HasSuffix(got, "size 2") {
						t.Errorf("got %q", got)
					}
					return
				}
				w.expect("the plan", "pending 2-5; 1 changes, size 5")
				w.join(3)
				w.expect("they are nodes", "joined 2-5 ended; 1 changes, size 5")
			})
		}
	}
}
