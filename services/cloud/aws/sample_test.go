package aws

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// sample reads a published answer of Amazon; the test is skipped where the samples are not.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../shared/data/samples", name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the published samples are not beside this repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSampleMachineIsRead(t *testing.T) {
	t.Parallel()
	var info types.InstanceTypeInfo
	if err := json.Unmarshal(sample(t, "aws_describe_instance_types_g6e.48xlarge.json"), &info); err != nil {
		t.Fatal(err)
	}
	got, reason := machine(&info)
	want := cloud.InstanceType{InstanceType: fleet.InstanceType{Cloud: fleet.CloudAWS, Name: "g6e.48xlarge", Arch: "amd64", CPUMilli: 192_000, MemMiB: 1_572_864, GPUModel: "L40S", GPUCount: 8, GPUMemoryMiB: 45_776},
		GPUName: "L40S", NetworkMbps: 400_000, LocalDiskGB: 7600, LocalDiskTold: true, Interconnect: "efa", FabricGbps: 400, AddressPods: 492, SpotSold: true}
	if reason != "" || got != want {
		t.Errorf("got %+v, %q\nwant %+v", got, reason, want)
	}
}

func TestSamplePriceOfADiskIsNoMachine(t *testing.T) {
	t.Parallel()
	var page struct{ PriceList []string }
	if err := json.Unmarshal(sample(t, "aws_pricing_get_products_response.json"), &page); err != nil || len(page.PriceList) != 1 {
		t.Fatal(err, len(page.PriceList))
	}
	var out cloud.List[cloud.Price]
	if err := readProduct(&out, []byte(page.PriceList[0]), "ca-central-1"); err != nil || len(out.Items) != 0 || out.Skipped[cloud.SkipForeign] != 1 {
		t.Errorf("%v, %+v", err, out)
	}
}

func TestSampleSpotHistoryIsReadOffTheWire(t *testing.T) {
	t.Parallel()
	text := sample(t, "aws_describe_spot_price_history_response.xml")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(server.Close)
	src, err := New(t.Context(), Config{Regions: []string{"us-west-2"}, Base: credentials.NewStaticCredentialsProvider("a", "b", ""), Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	got, err := src.SpotPrices(t.Context(), "us-west-2", time.Unix(0, 0))
	if err != nil || len(got.Items) != 1 || got.Items[0].Hour == nil || *got.Items[0].Hour != 287_000_000 || got.Items[0].Zone != "us-west-2a" || got.Skipped[cloud.SkipForeign] != 1 {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestProductThatWasCutFailsTheWholeList(t *testing.T) {
	t.Parallel()
	var out cloud.List[cloud.Price]
	if err := readProduct(&out, []byte(`{"product":{"sku":"X"`), "us-east-1"); err == nil {
		t.Error("no error")
	}
}
