package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll.dev/agent/serve/contract/externalscaler"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open() (bool, string) { return true, "" }

// start serves a board on the loopback and returns a client's connection.
func start(t *testing.T, cfg Config, b *Board, gate Gate, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	cfg.Address = "127.0.0.1:0"
	s, err := Serve(t.Context(), cfg, b, gate, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ref(ns, name string, metadata ...string) *externalscaler.ScaledObjectRef {
	r := &externalscaler.ScaledObjectRef{Namespace: ns, Name: name}
	if len(metadata) == 2 {
		r.ScalerMetadata = map[string]string{metadata[0]: metadata[1]}
	}
	return r
}

func code(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%v: code %s, want %s", err, got, want)
	}
}

func TestKEDAIsToldTheCountAsAMetricWithTargetOne(t *testing.T) {
	t.Parallel()
	s := newScene()
	client := externalscaler.NewExternalScalerClient(start(t, Config{KEDA: true}, s.Board, open, insecure.NewCredentials()))
	spec, err := client.GetMetricSpec(t.Context(), ref("llm", "chat"))
	if err != nil || len(spec.GetMetricSpecs()) != 1 || spec.GetMetricSpecs()[0].GetTargetSizeFloat() != 1 || spec.GetMetricSpecs()[0].GetTargetSize() != 1 {
		t.Fatal(spec, err)
	}
	ask := &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("llm", "chat"), MetricName: spec.GetMetricSpecs()[0].GetMetricName()}
	_, err = client.GetMetrics(t.Context(), ask)
	code(t, err, codes.NotFound)
	if !s.Asked(chat) || s.Asked(batch) {
		t.Error("the board does not know what KEDA asked about")
	}
	for _, n := range []int32{6, 0, 41} {
		if err := s.Publish(chat, n); err != nil {
			t.Fatal(err)
		}
		got, err := client.GetMetrics(t.Context(), ask)
		if err != nil || len(got.GetMetricValues()) != 1 {
			t.Fatal(got, err)
		}
		v := got.GetMetricValues()[0]
		if v.GetMetricValueFloat() != float64(n) || v.GetMetricValue() != int64(n) || v.GetMetricName() != ask.GetMetricName() {
			t.Errorf("%v, want %d", v, n)
		}
		active, err := client.IsActive(t.Context(), ref("llm", "chat"))
		if err != nil || active.GetResult() != (n > 0) {
			t.Errorf("active %v, %v at %d", active.GetResult(), err, n)
		}
	}
	s.now.Add(publishedFor.Milliseconds())
	_, err = client.GetMetrics(t.Context(), ask)
	code(t, err, codes.Unavailable)
	_, err = client.IsActive(t.Context(), ref("llm", "chat"))
	code(t, err, codes.Unavailable)
}

func TestKEDAIsRefusedWithoutANumber(t *testing.T) {
	t.Parallel()
	s := newScene()
	if err := s.Publish(chat, 50); err != nil {
		t.Fatal(err)
	}
	client := externalscaler.NewExternalScalerClient(start(t, Config{KEDA: true, MaxReplicas: 40}, s.Board, open, insecure.NewCredentials()))
	for name, c := range map[string]struct {
		ref  *externalscaler.ScaledObjectRef
		want codes.Code
	}{
		"over the agent's limit":      {ref("llm", "chat"), codes.FailedPrecondition},
		"no namespace":                {ref("", "chat"), codes.InvalidArgument},
		"nothing at all":              {nil, codes.InvalidArgument},
		"another namespace's":         {ref("llm", "x", WorkloadKey, "other/Deployment/chat"), codes.InvalidArgument},
		"no kind":                     {ref("llm", "x", WorkloadKey, "chat"), codes.InvalidArgument},
		"a name that is too long":     {ref("llm", string(bytes.Repeat([]byte("a"), 300))), codes.InvalidArgument},
		"unknown":                     {ref("llm", "x", WorkloadKey, "StatefulSet/chat"), codes.NotFound},
		"a namespace with a path":     {ref("llm/Deployment", "chat"), codes.InvalidArgument},
		"an empty name in the object": {ref("llm", ""), codes.InvalidArgument},
	} {
		_, err := client.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: c.ref})
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	_, err := client.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("llm", "chat"), MetricName: "other"})
	code(t, err, codes.InvalidArgument)

	closed := externalscaler.NewExternalScalerClient(start(t, Config{KEDA: true}, s.Board, func() (bool, string) { return false, "the agent is in observe mode" }, insecure.NewCredentials()))
	_, err = closed.IsActive(t.Context(), ref("llm", "chat"))
	code(t, err, codes.FailedPrecondition)
}

func TestKEDAIsPushedEachChange(t *testing.T) {
	t.Parallel()
	s := newScene()
	client := externalscaler.NewExternalScalerClient(start(t, Config{KEDA: true}, s.Board, open, insecure.NewCredentials()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := client.StreamIsActive(ctx, ref("llm", "chat"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int32{3, 0, 7} { // nothing comes before the first
		if err := s.Publish(chat, n); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || got.GetResult() != (n > 0) {
			t.Fatal(got, err)
		}
	}
	metrics, err := client.StreamMetricSpec(ctx, ref("llm", "chat"))
	if err == nil {
		_, err = metrics.Recv()
	}
	code(t, err, codes.Unimplemented) // the target is always one: KEDA then asks as before
}

func TestWhatIsOffIsNotServed(t *testing.T) {
	t.Parallel()
	if _, err := Serve(t.Context(), Config{Address: "127.0.0.1:0"}, newScene().Board, open, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a server for nothing")
	}
	c := start(t, Config{Expander: true}, newScene().Board, open, insecure.NewCredentials())
	_, err := externalscaler.NewExternalScalerClient(c).IsActive(t.Context(), ref("llm", "chat"))
	code(t, err, codes.Unimplemented)
	h, err := healthv1.NewHealthClient(c).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "grpcplugin.Expander"})
	if err != nil || h.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Error(h, err)
	}
}

func TestTLSWithClientCertificatesAndRenewal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), ClientCAFile: filepath.Join(dir, "ca.crt")}
	first := selfSigned(t, files)
	s := newScene()
	if err := s.Publish(chat, 2); err != nil {
		t.Fatal(err)
	}
	server, err := Serve(t.Context(), Config{Address: "127.0.0.1:0", KEDA: true, TLS: files}, s.Board, open, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	try := func(cfg *tls.Config) error {
		c, err := grpc.NewClient(server.Address(), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = externalscaler.NewExternalScalerClient(c).IsActive(ctx, ref("llm", "chat"))
		return err
	}
	trust := func(cert tls.Certificate) *tls.Config {
		pool := x509.NewCertPool()
		pool.AddCert(cert.Leaf)
		return &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	if err := try(trust(first)); err != nil {
		t.Error("with a certificate:", err)
	}
	stranger := trust(first)
	stranger.Certificates = nil
	if try(stranger) == nil {
		t.Error("a client without a certificate was answered")
	}
	second := selfSigned(t, files)
	if err := try(trust(second)); err != nil {
		t.Error("after renewal:", err)
	}
	if err := os.WriteFile(files.CertFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(t.Context(), Config{Address: "127.0.0.1:0", KEDA: true, TLS: files}, s.Board, open, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a broken certificate was taken")
	}
}

// selfSigned writes a new certificate that is its own authority.
func selfSigned(t *testing.T, to TLS) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	tmpl := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
	for path, b := range map[string][]byte{to.CertFile: certPEM, to.KeyFile: keyPEM, to.ClientCAFile: certPEM} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
