package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodehb "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// options of `kubelab up`.
type options struct {
	dir             string        // certificates, kubeconfigs, logs, etcd data
	basePort        int           // first of 6 loopback ports: see ports
	nodeGracePeriod time.Duration // silence after which a node is NotReady
	allNodes        bool          // KWOK plays every node, else those annotated kwok.x-k8s.io/node=fake
	kwokConfig      string        // more KWOK configuration files, comma separated
	timeout         time.Duration // allowed from start to ready
}

// runUp starts the control plane, writes DIR/ready when it can take work, and
// runs until it is told to stop or a component ends.
func runUp() int {
	var o options
	fs := flag.NewFlagSet("kubelab up", flag.ExitOnError)
	fs.StringVar(&o.dir, "dir", "", "state directory (certificates, kubeconfigs, logs, etcd data)")
	fs.IntVar(&o.basePort, "base-port", 21000, "first of 6 loopback ports")
	fs.DurationVar(&o.nodeGracePeriod, "node-monitor-grace-period", 50*time.Second, "silence after which a node is NotReady")
	fs.BoolVar(&o.allNodes, "kwok-all-nodes", true, "KWOK plays every node; false: only nodes annotated kwok.x-k8s.io/node=fake")
	fs.StringVar(&o.kwokConfig, "kwok-config", "", "more KWOK configuration files, comma separated")
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "time allowed to become ready")
	_ = fs.Parse(os.Args[1:]) // ExitOnError
	if o.dir == "" {
		fmt.Fprintln(os.Stderr, "kubelab up: -dir is required")
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := up(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "kubelab up:", err)
		return 1
	}
	return 0
}

func up(ctx context.Context, o options) error {
	l, err := newLab(o)
	if err != nil {
		return err
	}
	defer l.stop()
	for _, start := range []func(context.Context) error{l.startEtcd, l.startAPIServer, l.startControllers, l.startKwok} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	if err := l.waitReady(ctx); err != nil {
		return err
	}
	select {
	case err := <-l.ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// lab is one running control plane. Its ports are basePort + 0 etcd, 1 etcd's
// peer port, 2 API server, 3 controller manager, 4 scheduler, 5 KWOK.
type lab struct {
	options
	credentials
	started time.Time
	running []*process
	ended   chan error
	checked *http.Client // trusts the lab's CA
	loose   *http.Client // checks no certificate: two components make their own, and only their health is read
}

func newLab(o options) (*lab, error) {
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return nil, err
	}
	for _, d := range []string{"pki", "log", "etcd"} {
		if err := os.MkdirAll(filepath.Join(o.dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	l := &lab{options: o, started: time.Now(), ended: make(chan error, 8)}
	_ = os.Remove(l.path("ready"))
	if l.credentials, err = loadOrMakePKI(o.dir); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if err := writeKubeconfigs(o.dir, o.basePort+2, l.credentials); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.ca)
	client := func(c *tls.Config) *http.Client {
		return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: c}}
	}
	l.checked, l.loose = client(&tls.Config{RootCAs: roots}), client(&tls.Config{InsecureSkipVerify: true})
	return l, nil
}

func (l *lab) startEtcd(ctx context.Context) error {
	client, peer := l.url("http", 0), l.url("http", 1)
	err := l.launch("etcd", "--name=lab", "--data-dir="+l.path("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=lab="+peer,
		"--unsafe-no-fsync=true", // a lab that is lost with its machine
		"--auto-compaction-mode=revision", "--auto-compaction-retention=1000", "--log-level=warn")
	if err != nil {
		return err
	}
	return l.wait(ctx, "etcd", l.checked, client+"/health")
}

func (l *lab) startAPIServer(ctx context.Context) error {
	err := l.launch("kube-apiserver", "--etcd-servers="+l.url("http", 0),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.basePort+2),
		"--endpoint-reconciler-type=none", // a loopback address is refused as an endpoint
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file="+l.path("pki/apiserver.crt"), "--tls-private-key-file="+l.path("pki/apiserver.key"),
		"--client-ca-file="+l.path("pki/ca.crt"), "--token-auth-file="+l.path("pki/tokens.csv"),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+l.path("pki/sa.pub"), "--service-account-signing-key-file="+l.path("pki/sa.key"),
		"--profiling=false")
	if err != nil {
		return err
	}
	return l.wait(ctx, "kube-apiserver", l.checked, l.url("https", 2)+"/readyz")
}

func (l *lab) startControllers(context.Context) error {
	common := func(kubeconfig string, port int) []string {
		k := l.path(kubeconfig)
		return []string{
			"--kubeconfig=" + k, "--authentication-kubeconfig=" + k, "--authorization-kubeconfig=" + k,
			"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.basePort+port),
			"--leader-elect=false", "--profiling=false", "--kube-api-qps=200", "--kube-api-burst=400",
		}
	}
	err := l.launch("kube-controller-manager", append(common("kcm.kubeconfig", 3),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+l.path("pki/sa.key"), "--root-ca-file="+l.path("pki/ca.crt"),
		"--cluster-signing-cert-file="+l.path("pki/ca.crt"), "--cluster-signing-key-file="+l.path("pki/ca.key"),
		"--node-monitor-grace-period="+l.nodeGracePeriod.String(),
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller")...)
	if err != nil {
		return err
	}
	return l.launch("kube-scheduler", common("scheduler.kubeconfig", 4)...)
}

func (l *lab) startKwok(context.Context) error {
	if err := os.WriteFile(l.path("kwok-stages.yaml"), []byte(kwokStages()), 0o600); err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + l.path("admin.kubeconfig"), "--config=" + l.path("kwok-stages.yaml"),
		"--node-ip=127.0.0.1", "--node-lease-duration-seconds=40",
		fmt.Sprintf("--server-address=127.0.0.1:%d", l.basePort+5), fmt.Sprintf("--manage-all-nodes=%t", l.allNodes),
	}
	if l.kwokConfig != "" {
		args = append(args, "--config="+l.kwokConfig)
	}
	if !l.allNodes {
		args = append(args, "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake")
	}
	return l.launch("kwok", args...)
}

// waitReady waits for the components started without waiting, then for the
// default service account, which every pod needs, and writes DIR/ready.
func (l *lab) waitReady(ctx context.Context) error {
	for _, w := range []struct {
		name   string
		client *http.Client
		url    string
	}{
		{"kube-controller-manager", l.loose, l.url("https", 3) + "/healthz"},
		{"kube-scheduler", l.loose, l.url("https", 4) + "/readyz"},
		{"kwok", l.checked, l.url("http", 5) + "/healthz"},
		{"default service account", l.checked, l.url("https", 2) + "/api/v1/namespaces/default/serviceaccounts/default"},
	} {
		if err := l.wait(ctx, w.name, w.client, w.url); err != nil {
			return err
		}
	}
	if err := os.WriteFile(l.path("ready"), []byte(time.Since(l.started).String()+"\n"), 0o600); err != nil {
		return err
	}
	fmt.Printf("%8.2fs READY KUBECONFIG=%s\n", time.Since(l.started).Seconds(), l.path("admin.kubeconfig"))
	return nil
}

func (l *lab) launch(name string, args ...string) error {
	p, err := startProcess(l.dir, name, args...)
	if err != nil {
		return err
	}
	l.running = append(l.running, p)
	go func() { <-p.done; l.ended <- p.err }()
	return nil
}

// wait asks url until it answers 200, the time is up or a component ends.
func (l *lab) wait(ctx context.Context, name string, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	for {
		err := l.ask(ctx, client, url)
		if err == nil {
			fmt.Printf("%8.2fs %s ready\n", time.Since(l.started).Seconds(), name)
			return nil
		}
		select {
		case ended := <-l.ended:
			return ended
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last answer: %w)", name, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *lab) ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if client == l.checked && strings.HasPrefix(url, "https:") { // the API server: no other holds a certificate of this CA
		req.Header.Set("Authorization", "Bearer "+l.tokens["admin"])
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", resp.StatusCode, body)
	}
	return nil
}

// stop ends the components, the last started first.
func (l *lab) stop() {
	for i := len(l.running) - 1; i >= 0; i-- {
		l.running[i].stop()
	}
	_ = os.Remove(l.path("ready"))
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) url(scheme string, port int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, l.basePort+port)
}

// readyDelay makes the time from scheduled to Ready a property of the pod, so
// that image pulls and model loads can be played: kubelab.test/ready-delay: 30s
const readyDelay = `  delay:
    durationMilliseconds: 0
    durationFrom:
      expressionFrom: '.metadata.annotations["kubelab.test/ready-delay"]'
`

// notFailed keeps KWOK from making Ready again a node that a test has failed
// with the label kubelab.test/not-ready=true (see manifests/kwok-extra.yaml).
const notFailed = `    - key: '.metadata.labels["kubelab.test/not-ready"]'
      operator: 'NotIn'
      values:
      - 'true'
`

// kwokStages are KWOK's own fast stages with the two additions above.
func kwokStages() string {
	node := strings.Replace(nodefast.DefaultNodeInit, "    matchExpressions:\n", "    matchExpressions:\n"+notFailed, 1)
	podReady := strings.Replace(podfast.DefaultPodReady, "  next:\n", readyDelay+"  next:\n", 1)
	return strings.Join([]string{
		node, nodehb.DefaultNodeHeartbeatWithLease, podReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	}, "\n---\n")
}
