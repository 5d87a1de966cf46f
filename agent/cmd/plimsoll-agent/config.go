package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"plimsoll.dev/agent/collect"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// Config is the agent's file. Unknown keys are errors. String values may name environment variables as ${NAME}.
type Config struct {
	Endpoint       string      `json:"endpoint"`       // base URL of the service; required
	TokenFile      string      `json:"tokenFile"`      // file with the enrolment token; it may be absent once the agent has enrolled
	Token          string      `json:"token"`          // the enrolment token itself; tokenFile wins
	StateDir       string      `json:"stateDir"`       // identity, spool and journal; required; one agent at a time
	ClusterName    string      `json:"clusterName"`    // a suggestion; the token decides
	Mode           string      `json:"mode"`           // observe (default), recommend, approve, enforce
	Namespaces     Namespaces  `json:"namespaces"`     // whose workloads are seen
	Intervals      Intervals   `json:"intervals"`      // in seconds
	Spool          Spool       `json:"spool"`          // what waits on disk while the service is away
	Limits         Limits      `json:"limits"`         // hold whatever the service says; 0 = no limit
	Uplink         Uplink      `json:"uplink"`         // how to talk to the service
	Sources        Sources     `json:"sources"`        // where readings come from
	MetricsAddress string      `json:"metricsAddress"` // host:port of /healthz /readyz /metrics; empty: none
	Autoscalers    Autoscalers `json:"autoscalers"`    // Cluster Autoscaler, KEDA and HPAs
	Drain          Drain       `json:"drain"`          // how machines are let go
	WarmPools      WarmPools   `json:"warmPools"`      // room that is kept ready
}

// Namespaces filters workloads. An empty include means all.
type Namespaces struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`
}

// Intervals are in seconds of the cluster's time.
type Intervals struct {
	SampleSeconds          int `json:"sampleSeconds"`          // default 15, 1 to 300
	FrameSeconds           int `json:"frameSeconds"`           // default 60, sampleSeconds to 600
	InventoryResyncSeconds int `json:"inventoryResyncSeconds"` // default 300, 10 to 3600
}

// Spool bounds the disk.
type Spool struct {
	MaxBytes int64 `json:"maxBytes"` // default 256 MiB, at least 1 MiB
}

// Limits are the agent's own.
type Limits struct {
	MaxReplicas            int64 `json:"maxReplicas"`
	MaxReplicasPerWorkload int64 `json:"maxReplicasPerWorkload"`
	MaxActionsPerMinute    int64 `json:"maxActionsPerMinute"`
	Freeze                 bool  `json:"freeze"`
}

// Uplink chooses the transport.
type Uplink struct {
	Transport string `json:"transport"` // auto (default), stream, push
}

// Sources are where readings come from.
type Sources struct {
	Kubernetes   Kubernetes     `json:"kubernetes"`
	PodMetrics   []PodMetrics   `json:"podMetrics"`
	DCGMExporter []DCGMExporter `json:"dcgmExporter"`
	DCGM         DCGM           `json:"dcgm"`
	PodResources PodResources   `json:"podResources"`
	Sim          Sim            `json:"sim"`
}

// Kubernetes is the cluster that the agent runs in, or that kubeconfig names.
type Kubernetes struct {
	Enabled    bool   `json:"enabled"`
	Kubeconfig string `json:"kubeconfig"` // empty: the pod's service account
	MetricsAPI bool   `json:"metricsAPI"` // CPU and memory from metrics.k8s.io
}

// PodMetrics picks pods by selector or annotation and says what their Prometheus text means. The annotations
// plimsoll.dev/scrape-port and plimsoll.dev/scrape-path of a pod win over port and path.
type PodMetrics struct {
	Namespace  string            `json:"namespace"`  // empty: all
	Selector   string            `json:"selector"`   // label selector, "app=chat,tier!=canary"
	Annotation string            `json:"annotation"` // "key" or "key=value"
	Port       int               `json:"port"`
	Path       string            `json:"path"`    // default /metrics
	Preset     string            `json:"preset"`  // "vllm", or empty
	Mapping    map[string]string `json:"mapping"` // signal name: metric name
}

// DCGMExporter is the text of one exporter.
type DCGMExporter struct {
	URL string `json:"url"`
}

// DCGM reads GPUs through NVIDIA's library; needs an agent that was built with the tag dcgm.
type DCGM struct {
	Mode    string `json:"mode"`    // off (default), embedded, hostengine
	Address string `json:"address"` // host:port or socket of nv-hostengine
}

// PodResources joins the node role's GPUs to workloads: by the kubelet's socket, and by the pods of the node as the API server
// lists them.
type PodResources struct {
	Socket string `json:"socket"` // path of the kubelet's pod-resources socket; empty: no join
}

// Sim is the door of a simulated cluster.
type Sim struct {
	URL string `json:"url"`
}

// loadConfig reads the file, puts in the environment variables that lookup knows, and fills in defaults.
func loadConfig(path string, lookup func(string) (string, bool)) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	text, err := expand(string(b), lookup)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		return Config{}, fmt.Errorf("configuration: %s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	c = c.WithDefaults()
	return c, c.Validate()
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand replaces ${NAME}. A variable that is not set is an error: half an address is worse than none.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var missing []string
	out := variable.ReplaceAllStringFunc(s, func(m string) string {
		v, ok := lookup(m[2 : len(m)-1])
		if !ok {
			missing = append(missing, m[2:len(m)-1])
		}
		return v
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("the environment variable %s is not set", missing[0])
	}
	return out, nil
}

// WithDefaults fills in what the comments name as default.
func (c Config) WithDefaults() Config {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&c.Mode, "observe")
	set(&c.Uplink.Transport, "auto")
	set(&c.Sources.DCGM.Mode, "off")
	number := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	number(&c.Intervals.SampleSeconds, 15)
	number(&c.Intervals.FrameSeconds, 60)
	number(&c.Intervals.InventoryResyncSeconds, 300)
	if c.Spool.MaxBytes == 0 {
		c.Spool.MaxBytes = 256 << 20
	}
	for i := range c.Sources.PodMetrics {
		set(&c.Sources.PodMetrics[i].Path, "/metrics")
	}
	c.Autoscalers = c.Autoscalers.withDefaults()
	c.Drain, c.WarmPools = c.Drain.withDefaults(), c.WarmPools.withDefaults()
	return c
}

// Validate returns all faults, one sentence each.
func (c Config) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(!isURL(c.Endpoint), "endpoint must be the http or https address of the service, not %q", c.Endpoint)
	fault(c.StateDir == "", "stateDir is missing: the agent needs a directory that survives a restart")
	fault(!oneOf(c.Mode, "observe", "recommend", "approve", "enforce"), "mode must be observe, recommend, approve or enforce, not %q", c.Mode)
	fault(!oneOf(c.Uplink.Transport, "auto", "stream", "push"), "uplink.transport must be auto, stream or push, not %q", c.Uplink.Transport)
	i := c.Intervals
	fault(i.SampleSeconds < 1 || i.SampleSeconds > 300, "intervals.sampleSeconds must be 1 to 300, not %d", i.SampleSeconds)
	fault(i.FrameSeconds < 1 || i.FrameSeconds > 600, "intervals.frameSeconds must be 1 to 600, not %d", i.FrameSeconds)
	fault(i.InventoryResyncSeconds < 10 || i.InventoryResyncSeconds > 3600, "intervals.inventoryResyncSeconds must be 10 to 3600, not %d", i.InventoryResyncSeconds)
	fault(c.Spool.MaxBytes < 1<<20, "spool.maxBytes must be at least 1048576, not %d", c.Spool.MaxBytes)
	l := c.Limits
	fault(l.MaxReplicas < 0 || l.MaxReplicasPerWorkload < 0 || l.MaxActionsPerMinute < 0, "limits must not be negative; 0 means no limit")
	s := c.Sources
	fault(s.Sim.URL != "" && s.Kubernetes.Enabled, "sources.sim and sources.kubernetes are two clusters: enable one of them")
	fault(s.Sim.URL != "" && !isURL(s.Sim.URL), "sources.sim.url must be an http or https address, not %q", s.Sim.URL)
	fault(!oneOf(s.DCGM.Mode, "off", "embedded", "hostengine"), "sources.dcgm.mode must be off, embedded or hostengine, not %q", s.DCGM.Mode)
	fault(s.DCGM.Mode == "hostengine" && s.DCGM.Address == "", "sources.dcgm.address is missing: hostengine mode needs host:port or a socket")
	fault(s.PodResources.Socket != "" && !filepath.IsAbs(s.PodResources.Socket), "sources.podResources.socket must be an absolute path, not %q", s.PodResources.Socket)
	for n, e := range s.DCGMExporter {
		fault(!isURL(e.URL), "sources.dcgmExporter[%d].url must be an http or https address, not %q", n, e.URL)
	}
	fault(len(s.PodMetrics) > 0 && !s.Kubernetes.Enabled, "sources.podMetrics needs sources.kubernetes: pods are found through it")
	for n, p := range s.PodMetrics {
		faults = append(faults, p.faults(n)...)
	}
	faults = append(faults, c.Autoscalers.faults(s.Kubernetes.Enabled)...)
	return errors.Join(append(faults, c.gentleFaults()...)...)
}

func (p PodMetrics) faults(n int) []error {
	var out []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Errorf("sources.podMetrics[%d]: "+format, append([]any{n}, args...)...))
		}
	}
	_, err := labels.Parse(p.Selector)
	fault(err != nil, "selector %q is not a label selector", p.Selector)
	fault(p.Selector != "" && p.Annotation != "", "give selector or annotation, not both")
	fault(p.Port < 0 || p.Port > 65535, "port must be 1 to 65535, not %d", p.Port)
	fault(!strings.HasPrefix(p.Path, "/"), "path must begin with a slash, not %q", p.Path)
	fault(!oneOf(p.Preset, "", "vllm"), "preset must be vllm or empty, not %q", p.Preset)
	fault(p.Preset == "" && len(p.Mapping) == 0, "give a preset or a mapping: without them no metric has a meaning")
	for signal := range p.Mapping {
		fault(!collect.ValidSignal(signal), "%q cannot name a signal: use lower case letters, digits and underscores", signal)
	}
	return out
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func oneOf(s string, allowed ...string) bool {
	for _, a := range allowed {
		if s == a {
			return true
		}
	}
	return false
}
