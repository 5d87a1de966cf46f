package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/agent/uplink/uplinktest"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// realClients names the program of scripts/autoscalers, which asks as Cluster Autoscaler and KEDA do.
const realClients = "PLIMSOLL_AUTOSCALERS"

// An agent as a process, over TLS, asked by another process with KEDA's own client and with the expander's contract in both forms.
func TestRealClientsAreAnswered(t *testing.T) {
	client := os.Getenv(realClients)
	if client == "" {
		t.Skip(realClients + " is not set: ./scripts/e2e autoscalers runs this")
	}
	dir, address := t.TempDir(), freeAddress(t)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key)
	r := newRig(t, fmt.Sprintf("autoscalers: {address: %q, keda: true, expander: true, tls: {certFile: %s, keyFile: %s}}\n", address, cert, key))
	r.start()
	r.wait("the cluster was read", func(s uplinktest.State) bool { return kinds(s)["inventory"] > 0 })
	ask := func(want, what string, args ...string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			out, err := exec.Command(client, append([]string{what, "-address", address, "-ca", cert}, args...)...).CombinedOutput()
			got, _, _ := strings.Cut(strings.TrimSpace(string(out)), " in ")
			if err == nil && got == want {
				t.Logf("%s %s: %s", what, strings.Join(args, " "), strings.TrimSpace(string(out)))
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s %v: %v\ngot  %s\nwant %s\n%s", what, args, err, out, want, r.log)
			}
			<-time.After(50 * time.Millisecond) // the agent starts, or a message travels: no signal reaches this process
		}
	}
	keda := []string{"-namespace", "a", "-name", "x"}
	ask("metric plimsoll-replicas target 1 refused NotFound", "keda", keda...)
	pushes := exec.Command(client, append([]string{"keda-push", "-address", address, "-ca", cert, "-count", "1"}, keda...)...)
	var pushed strings.Builder
	pushes.Stdout, pushes.Stderr = &pushed, &pushed
	if err := pushes.Start(); err != nil {
		t.Fatal(err)
	}
	r.svc.Send(planMessage("p1", 1, 3, 5))
	ask("metric plimsoll-replicas target 1 value 5 active true", "keda", keda...)
	if err := pushes.Wait(); err != nil || strings.TrimSpace(pushed.String()) != "active true" {
		t.Fatalf("the push: %v, %s", err, &pushed)
	}
	groups := []string{"cheap=node.kubernetes.io/instance-type=m,topology.kubernetes.io/region=r1,topology.kubernetes.io/zone=z1",
		"dear=node.kubernetes.io/instance-type=n,topology.kubernetes.io/region=r1,topology.kubernetes.io/zone=z1"}
	for _, form := range []string{"old", "new"} {
		ask("options cheap dear", "expander", append([]string{"-form", form}, groups...)...)
	}
	r.svc.Send(&agentv1.StreamResponse{Message: &agentv1.StreamResponse_Standing{Standing: &agentv1.Standing{Generation: 1, ValidUntilMs: simStart + 1<<40, Offerings: []*agentv1.OfferingPrice{
		{Region: "r1", InstanceType: "m", Purchase: "on_demand", HourNano: 1_000_000_000}, {Region: "r1", InstanceType: "n", Purchase: "on_demand", HourNano: 3_000_000_000}}}}})
	for _, form := range []string{"old", "new"} {
		ask("options cheap", "expander", append([]string{"-form", form}, groups...)...)
	}
	plain, err := exec.Command(client, "keda", "-address", address, "-ca", os.Args[0]).CombinedOutput()
	if err == nil {
		t.Errorf("a client that trusts nothing was answered: %s", plain)
	}
}

func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
