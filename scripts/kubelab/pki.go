package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// identity is a user of the API server, known by a static token.
type identity struct{ name, user, group string }

var identities = []identity{
	{"admin", "admin", "system:masters"},
	{"kcm", "system:kube-controller-manager", ""},
	{"scheduler", "system:kube-scheduler", ""},
}

// credentials are what dir/pki holds: the CA's certificate in PEM and a token
// for each identity, by its name.
type credentials struct {
	ca     []byte
	tokens map[string]string
}

// loadOrMakePKI reads dir/pki, or on first use writes it: a CA, the API
// server's certificate, the key pair of service account tokens and the token
// file. A directory keeps its identity over restarts.
func loadOrMakePKI(dir string) (credentials, error) {
	c, err := loadPKI(dir)
	if errors.Is(err, os.ErrNotExist) {
		return makePKI(dir)
	}
	return c, err
}

func loadPKI(dir string) (credentials, error) {
	lines, err := os.ReadFile(filepath.Join(dir, "pki", "tokens.csv"))
	if err != nil {
		return credentials{}, err
	}
	c := credentials{tokens: map[string]string{}}
	for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		f := strings.Split(line, ",") // token,user,uid[,"groups"]; the uid is the identity's name
		if len(f) < 3 {
			return credentials{}, fmt.Errorf("token file: line %q", line)
		}
		c.tokens[f[2]] = f[0]
	}
	c.ca, err = os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	return c, err
}

func makePKI(dir string) (credentials, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	now := time.Now()
	caCert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubelab-ca"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}
	ca, err := x509.CreateCertificate(rand.Reader, caCert, caCert, caKey.Public(), caKey)
	if err != nil {
		return credentials{}, err
	}
	apiKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	api, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, caCert, apiKey.Public(), caKey)
	if err != nil {
		return credentials{}, err
	}
	saKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{ca: certPEM(ca), tokens: map[string]string{}}
	tokenFile := makeTokens(c.tokens)

	f := pemFiles{}
	f.key("ca.key", caKey)
	f.key("apiserver.key", apiKey)
	f.key("sa.key", saKey)
	f.publicKey("sa.pub", saKey.Public())
	f.add("apiserver.crt", append(certPEM(api), c.ca...))
	f.add("ca.crt", c.ca)
	f.add("tokens.csv", []byte(tokenFile)) // last: its presence says that the rest is there
	return c, f.write(filepath.Join(dir, "pki"))
}

func makeTokens(tokens map[string]string) (file string) {
	for _, id := range identities {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		tokens[id.name] = hex.EncodeToString(b[:])
		file += fmt.Sprintf("%s,%s,%s", tokens[id.name], id.user, id.name)
		if id.group != "" {
			file += fmt.Sprintf(",%q", id.group)
		}
		file += "\n"
	}
	return file
}

// pemFiles gathers files in order and the first error, so that callers need not.
type pemFiles struct {
	names []string
	data  [][]byte
	err   error
}

func (f *pemFiles) add(name string, data []byte) {
	f.names, f.data = append(f.names, name), append(f.data, data)
}

func (f *pemFiles) key(name string, key crypto.PrivateKey) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	f.err = errors.Join(f.err, err)
	f.add(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (f *pemFiles) publicKey(name string, key crypto.PublicKey) {
	der, err := x509.MarshalPKIXPublicKey(key)
	f.err = errors.Join(f.err, err)
	f.add(name, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (f *pemFiles) write(dir string) error {
	for i, name := range f.names {
		if f.err != nil {
			return f.err
		}
		f.err = os.WriteFile(filepath.Join(dir, name), f.data[i], 0o600)
	}
	return f.err
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// writeKubeconfigs writes dir/NAME.kubeconfig for each identity.
func writeKubeconfigs(dir string, port int, c credentials) error {
	for _, id := range identities {
		kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: https://127.0.0.1:%d
    certificate-authority-data: %s
users:
- name: %s
  user: {token: %s}
contexts:
- name: lab
  context: {cluster: lab, user: %s}
current-context: lab
`, port, base64.StdEncoding.EncodeToString(c.ca), id.name, c.tokens[id.name], id.name)
		if err := os.WriteFile(filepath.Join(dir, id.name+".kubeconfig"), []byte(kubeconfig), 0o600); err != nil {
			return err
		}
	}
	return nil
}
