package cloud_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/cloud/gcp"
)

func googleWorld() fakecloud.World {
	const from, to = "2026-01-01T00:00:00.000-08:00", "2027-01-01T00:00:00.000-08:00"
	here, both := []string{"us-central1"}, []string{"us-central1", "europe-west4"}
	core := func(id, words, nanos string) fakecloud.GCPSKU {
		return fakecloud.GCPSKU{ID: id, Description: words + " running in Americas", Regions: both, Nanos: nanos}
	}
	ram := func(id, words, nanos string) fakecloud.GCPSKU {
		k := core(id, words, nanos)
		k.Unit = "GiBy.h"
		return k
	}
	spot := func(k fakecloud.GCPSKU) fakecloud.GCPSKU {
		k.Spot = true
		return k
	}
	yuan := ram("E2R", "E2 Instance Ram", "3000000")
	yuan.Currency = "CNY"
	missing := ram("C3R", "C3 Instance Ram", "1")
	missing.NoPrice = true
	return fakecloud.World{GCP: fakecloud.GCP{
		SKUs: []fakecloud.GCPSKU{
			core("A2C", "A2 Instance Core", "31611000"), ram("A2R", "A2 Instance Ram", "4237000"),
			{ID: "A100", Description: "Nvidia Tesla A100 GPU running in Americas", Regions: both, Units: "2", Nanos: "933908000"},
			{ID: "A100X", Description: "Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas", Regions: both, Units: "1", Nanos: "5"},
			core("N2C", "N2 Instance Core", "31611000"), ram("N2R", "N2 Instance Ram", "4237000"),
			core("N2X", "N2 Custom Instance Core", "33174000"),
			core("A3C", "A3 Instance Core", "29000000"), ram("A3R", "A3 Instance Ram", "2000000"),
			{ID: "H100", Description: "Nvidia H100 80GB GPU running in Americas", Regions: here, Units: "9", Nanos: "796555000"},
			{ID: "SSD", Description: "SSD backed Local Storage", Regions: here, Unit: "GiBy.mo", Nanos: "80000000"},
			core("E2C", "E2 Instance Core", "21000000"), yuan,
			core("C3C", "C3 Instance Core", "33000000"), missing,
			core("T2DC", "T2D AMD Instance Core", "0"), ram("T2DR", "T2D AMD Instance Ram", "3000000"),
			core("N4C", "N4 Instance Core", "-5"), ram("N4R", "N4 Instance Ram", "3000000"),
			core("N1C", "N1 Predefined Instance Core", "30000000"), core("N1D", "N1 Predefined Instance Core", "40000000"), ram("N1R", "N1 Predefined Instance Ram", "4000000"),
			spot(core("A2CS", "Spot Preemptible A2 Instance Core", "9000000")), spot(ram("A2RS", "Spot Preemptible A2 Instance Ram", "1000000")),
			spot(fakecloud.GCPSKU{ID: "A100S", Description: "Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", Regions: both, Nanos: "880000000"}),
			spot(core("N2CS", "Spot Preemptible N2 Instance Core", "7000000")), spot(ram("N2RS", "Spot Preemptible N2 Instance Ram", "900000")),
		},
		Machines: []fakecloud.GCPMachine{
			{Zone: "us-central1-a", Name: "a2-highgpu-1g", CPUs: "12", MemMB: "87040", GPU: "nvidia-tesla-a100", GPUs: 1},
			{Zone: "us-central1-b", Name: "a2-highgpu-1g", CPUs: "12", MemMB: "87040", GPU: "nvidia-tesla-a100", GPUs: 1},
			{Zone: "us-central1-a", Name: "a3-highgpu-8g", CPUs: "208", MemMB: "1916928", GPU: "nvidia-h100-80gb", GPUs: 8, SSDs: 16},
			{Zone: "us-central1-a", Name: "n2-standard-4", CPUs: "4", MemMB: "16384"},
			{Zone: "us-central1-a", Name: "e2-standard-2", CPUs: "2", MemMB: "8192"},
			{Zone: "us-central1-a", Name: "e2-micro", CPUs: "2", MemMB: "1024", Shared: true},
			{Zone: "us-central1-c", Name: "c3-standard-4", CPUs: "4", MemMB: "16384"},
			{Zone: "us-central1-c", Name: "t2d-standard-1", CPUs: "1", MemMB: "4096"},
			{Zone: "us-central1-c", Name: "n4-standard-2", CPUs: "2", MemMB: "8192"},
			{Zone: "us-central1-c", Name: "n1-standard-1", CPUs: "1", MemMB: "3840"},
			{Zone: "us-central1-c", Name: "x9-huge-1", CPUs: "1", MemMB: "4096", Arch: "ARM64"},
			{Zone: "us-central1-c", Name: "riscy-1", CPUs: "1", MemMB: "4096", Arch: "RISCV"},
			{Zone: "us-central1-c", Name: "odd-1", CPUs: "0", MemMB: "4096"},
			{Zone: "us-central1-c", Name: "gpu-unheard", CPUs: "4", MemMB: "4096", GPU: "nvidia-z9", GPUs: 1},
			{Zone: "europe-west4-a", Name: "elsewhere-1", CPUs: "1", MemMB: "4096"},
		},
		Commitments: []fakecloud.GCPCommitment{
			{ID: "11", Region: "us-central1", Type: "GENERAL_PURPOSE_N2", From: from, To: to, Resources: []string{"VCPU", "64", "MEMORY", "262144"}},
			{ID: "12", Region: "us-central1", Type: "ACCELERATOR_OPTIMIZED", From: from, To: to, Resources: []string{"VCPU", "12", "ACCELERATOR", "1", "LOCAL_SSD", "100"}, GPU: "projects/p/zones/us-central1-a/acceleratorTypes/nvidia-tesla-a100"},
			{ID: "13", Region: "us-central1", Type: "UNHEARD_OF", From: from, To: to, Resources: []string{"VCPU", "64"}},
			{ID: "14", Region: "us-central1", Type: "GENERAL_PURPOSE_N2", From: from, To: to, Resources: []string{"VCPU", "64"}, Status: "EXPIRED"},
			{ID: "15", Region: "asia-east1", Type: "GENERAL_PURPOSE_N2", From: from, To: to, Resources: []string{"VCPU", "64"}},
		},
		Reservations: []fakecloud.GCPReservation{
			{ID: "21", Zone: "us-central1-a", Machine: "a3-highgpu-8g", Count: "4", Used: "1"}, {ID: "22", Zone: "us-central1-b", Machine: "a2-highgpu-1g", Count: "2", Used: "3"},
			{ID: "23", Zone: "asia-east1-a", Machine: "a2-highgpu-1g", Count: "2", Used: "0"},
		},
	}}
}

// aKey is a service account's key of the kind that Google makes, with a private key made now.
var aKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "plimsoll-test", "private_key_id": "1", "client_email": "reader@plimsoll-test.iam.gserviceaccount.com", "client_id": "1",
		"token_uri": "https://oauth2.googleapis.com/token", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	if err != nil {
		panic(err)
	}
	return string(text)
})

func googleConfig(s *fakecloud.Server, retry cloud.Retry) gcp.Config {
	return gcp.Config{Access: cloud.GCPAccess{ProjectID: "plimsoll-test", Key: aKey()}, Regions: []string{"us-central1", "europe-west4"},
		Billing: s.URL, Compute: s.URL, Credentials: s.URL, Token: s.URL + "/token", HTTP: s.Client(), Retry: retry}
}

func googled() subject {
	return subject{
		name: "gcp", region: "us-central1", world: googleWorld, partial: []string{"machineTypes", "commitments", "reservations"},
		open: func(t *testing.T, s *fakecloud.Server, retry cloud.Retry) source {
			src, err := gcp.New(googleConfig(s, retry))
			if err != nil {
				t.Fatal(err)
			}
			return src
		},
		lists: []listing{
			{"machines", []string{"machineTypes"}, []string{
				"a2-highgpu-1g amd64 12000m 87040Mi 1xA100-40GB(nvidia-tesla-a100) 40960Mi net=0 disk=0,true :0 pods=0 spot=false",
				"a3-highgpu-8g amd64 208000m 1916928Mi 8xH100(nvidia-h100-80gb) 81920Mi net=0 disk=6442,true gpudirect:0 pods=0 spot=false",
				"c3-standard-4 amd64 4000m 16384Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false", "e2-micro amd64 2000m 1024Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false",
				"e2-standard-2 amd64 2000m 8192Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false", "n1-standard-1 amd64 1000m 3840Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false",
				"n2-standard-4 amd64 4000m 16384Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false", "n4-standard-2 amd64 2000m 8192Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false",
				"t2d-standard-1 amd64 1000m 4096Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false", "x9-huge-1 arm64 1000m 4096Mi 0x() 0Mi net=0 disk=0,true :0 pods=0 spot=false",
			}, map[cloud.SkipReason]int{cloud.SkipUnknown: 3}},
			{"prices", []string{"machineTypes", "billing.skus"}, []string{
				"us-central1 a2-highgpu-1g on_demand 3.673385 A2C+A2R+A100",         // 12 x 0.031611 + 85 x 0.004237 + 2.933908
				"us-central1 a3-highgpu-8g on_demand 88.805974247 A3C+A3R+H100+SSD", // 208 x 0.029 + 1872 x 0.002 + 8 x 9.796555 + 6000 x 0.08 / 730
				"us-central1 c3-standard-4 on_demand unknown C3R", "us-central1 e2-micro on_demand unknown ", "us-central1 e2-standard-2 on_demand unknown E2R", "us-central1 n1-standard-1 on_demand unknown N1D",
				"us-central1 n2-standard-4 on_demand 0.194236 N2C+N2R", "us-central1 n4-standard-2 on_demand unknown N4C", "us-central1 t2d-standard-1 on_demand unknown T2DC", "us-central1 x9-huge-1 on_demand unknown ",
			}, map[cloud.SkipReason]int{cloud.SkipMissing: 1, cloud.SkipUnknown: 2, cloud.SkipCurrency: 1, cloud.SkipConflict: 1, cloud.SkipNotPositive: 2}},
			{"spot", []string{"machineTypes", "billing.skus"}, []string{
				"us-central1  a2-highgpu-1g 2026-11-04T00:00:00Z 1.073", // 12 x 0.009 + 85 x 0.001 + 0.88
				"us-central1  n2-standard-4 2026-11-04T00:00:00Z 0.0424",
			}, map[cloud.SkipReason]int{cloud.SkipMissing: 6, cloud.SkipUnknown: 2}},
			{"commitments", []string{"commitments"}, []string{
				"11/memory gcp_resource_cud us-central1/ n2 memory 262144 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
				"11/vcpu gcp_resource_cud us-central1/ n2 vcpu 64000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
				"12/accelerator/nvidia-tesla-a100 gcp_resource_cud us-central1/ A100-40GB gpu 1000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
				"12/vcpu gcp_resource_cud us-central1/ a2 vcpu 12000 up=unknown hour=unknown spend=unknown rates=[] 2026-01-01..2027-01-01",
			}, map[cloud.SkipReason]int{cloud.SkipForeign: 3, cloud.SkipUnknown: 1}},
			{"capacity", []string{"reservations"}, []string{"21 us-central1/us-central1-a a3-highgpu-8g 3 of 4"}, map[cloud.SkipReason]int{cloud.SkipForeign: 1, cloud.SkipUnknown: 1}},
		},
	}
}

func TestGoogleIsAskedAsTheServiceAccount(t *testing.T) {
	t.Parallel()
	server := serve(t, googled())
	cfg := googleConfig(server, quick)
	cfg.Access.Key, cfg.Access.ServiceAccount = "", "reader@plimsoll-test.iam.gserviceaccount.com"
	if _, err := gcp.New(cfg); err == nil {
		t.Error("opened without an identity of the installation")
	}
	cfg.Ambient = oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "ours"})
	src, err := gcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.CapacityReservations(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range server.Authorisations() {
		if ours := strings.HasSuffix(a, "Bearer ours"); ours != strings.HasPrefix(a, "generateAccessToken") {
			t.Errorf("asked with the wrong token: %s", a)
		}
	}
	if n := server.Calls("generateAccessToken"); n != 1 {
		t.Errorf("took the account %d times for one list", n)
	}
	server = serve(t, googled())
	server.Fail(fakecloud.Fault{Operation: "token", How: fakecloud.Denied})
	if src, err = gcp.New(googleConfig(server, quick)); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Commitments(t.Context()); err == nil || !strings.Contains(cloud.Problem(err), "does not accept the service account's key") {
		t.Errorf("with a refused key: %v", err)
	}
}

func TestGoogleKeysThatReachElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"no JSON":              "hello",
		"another kind":         `{"type": "external_account", "credential_source": {"file": "/etc/passwd"}}`,
		"a person":             `{"type": "authorized_user", "refresh_token": "x"}`,
		"another token server": strings.Replace(aKey(), "https://oauth2.googleapis.com/token", "https://169.254.169.254/token", 1),
	} {
		if _, err := gcp.New(gcp.Config{Access: cloud.GCPAccess{ProjectID: "plimsoll-test", Key: key}, Regions: []string{"us-central1"}}); err == nil || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
