package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// NodeRules are what machines must be beside what a policy lets be bought. They are checked and reported; no machine goes because of them.
type NodeRules struct {
	MaxAgeHours int64    `json:"max_age_hours,omitempty"` // a machine that runs for longer is reported. 0: no limit
	Labels      []string `json:"labels,omitempty"`        // key or key=value that each machine must have
	GPUTaints   []string `json:"gpu_taints,omitempty"`    // key or key=value:effect that each machine with GPUs must have
	MinDriver   int64    `json:"min_driver,omitempty"`    // major version of the NVIDIA driver, as feature discovery labels it. 0: no limit
	SameDriver  bool     `json:"same_driver,omitempty"`   // machines of one GPU model have one major version
}

const maxNodeRules = 50

func (r *NodeRules) validate(bad func(field, text string) error) error {
	if r == nil {
		return nil
	}
	switch {
	case r.MaxAgeHours < 0 || r.MaxAgeHours > 24*3650:
		return bad("node_rules", "max_age_hours is 0 to 87600")
	case r.MinDriver < 0 || r.MinDriver > 100_000:
		return bad("node_rules", "min_driver is a major version, 0 to 100000")
	case len(r.Labels) > maxNodeRules || len(r.GPUTaints) > maxNodeRules:
		return bad("node_rules", fmt.Sprintf("at most %d labels and %d taints", maxNodeRules, maxNodeRules))
	}
	for _, s := range append(slices.Clone(r.Labels), r.GPUTaints...) {
		if key, _, _ := strings.Cut(s, "="); key == "" || len(s) > 400 || strings.ContainsAny(s, " \t\n") {
			return bad("node_rules", fmt.Sprintf("%q is no label such as team=ml and no taint such as nvidia.com/gpu=present:NoSchedule", s))
		}
	}
	return nil
}

// NodeFact is a machine as it was told.
type NodeFact struct {
	Name      string
	Pool      string
	Offering  fleet.Offering
	GPUModel  fleet.GPUModel
	GPUCount  int64
	StartedAt time.Time
	Labels    map[string]string
	Taints    []string // key=value:effect
	TaintsOK  bool     // taints were told
	Kubelet   string   // version, as the kubelet writes it; empty: not told
	Driver    string   // of its GPUs, as telemetry tells it; empty: not told
}

// Finding is a rule that a machine does not obey.
type Finding struct {
	Code string `json:"code"` // type, zone, spot, age, label, taint, driver, driver_differs, kubelet_old, kubelet_new, pool_label, pool_taint, startup_taint, pool_age
	Want string `json:"want"`
	Got  string `json:"got"`
}

// NodeCompliance is what was found on one machine. Unchecked names the rules that nobody can tell about.
type NodeCompliance struct {
	Name      string         `json:"name"`
	Pool      string         `json:"pool"`
	Offering  fleet.Offering `json:"offering"`
	Findings  []Finding      `json:"findings"`
	Unchecked []string       `json:"unchecked"`
	Exempt    bool           `json:"exempt"` // of the control plane
}

const (
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	labelDriverMajor  = "nvidia.com/cuda.driver.major"
	labelDriverFull   = "nvidia.com/cuda.driver-version.major"
)

// Comply holds each machine against a policy: what may be bought, and its rules about machines; and against the version of the API server (empty: not told),
// which a kubelet must not be newer than, nor more than three minor versions older (kubernetes.io/releases/version-skew-policy). The answer is by name. It says
// what is so and leads to no action.
func Comply(p Policy, server string, now time.Time, nodes []NodeFact) []NodeCompliance {
	common := commonDrivers(nodes)
	out := []NodeCompliance{}
	for i := range nodes {
		n := &nodes[i]
		c := NodeCompliance{Name: n.Name, Pool: n.Pool, Offering: n.Offering, Findings: []Finding{}, Unchecked: []string{}}
		if _, c.Exempt = n.Labels[labelControlPlane]; !c.Exempt {
			c.bought(&p, n)
			c.rules(p.Rules, n, now, common)
			c.pool(p.Pools, n, now)
			c.skew(server, n.Kubelet)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b NodeCompliance) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (c *NodeCompliance) find(code, want, got string) {
	c.Findings = append(c.Findings, Finding{code, want, got})
}

// bought checks what the policy lets be bought.
func (c *NodeCompliance) bought(p *Policy, n *NodeFact) {
	one := func(code, got string, allowed []string) {
		switch {
		case len(allowed) == 0:
		case got == "":
			c.Unchecked = append(c.Unchecked, code)
		case !slices.Contains(allowed, got):
			c.find(code, few(allowed), got)
		}
	}
	one("type", n.Offering.InstanceType, p.InstanceTypes)
	one("zone", n.Offering.Zone, p.Zones)
	if p.NoSpot && n.Offering.Purchase == fleet.PurchaseSpot {
		c.find("spot", "on_demand", string(n.Offering.Purchase))
	}
}

// kubeletOlder is how many minor versions a kubelet may be older than the API server.
const kubeletOlder = 3

// skew holds a kubelet against the API server. A cluster that tells neither is no Kubernetes that has versions.
func (c *NodeCompliance) skew(server, kubelet string) {
	if server == "" && kubelet == "" {
		return
	}
	s, sok := minorOf(server)
	k, kok := minorOf(kubelet)
	text := func(v [2]int64) string { return strconv.FormatInt(v[0], 10) + "." + strconv.FormatInt(v[1], 10) }
	switch {
	case !sok || !kok:
		c.Unchecked = append(c.Unchecked, "kubelet")
	case k[0] > s[0] || k[0] == s[0] && k[1] > s[1]:
		c.find("kubelet_new", text(s), kubelet)
	case k[0] < s[0] || k[1] < s[1]-kubeletOlder:
		c.find("kubelet_old", text([2]int64{s[0], max(s[1]-kubeletOlder, 0)}), kubelet)
	}
}

// minorOf reads the major and the minor of a version such as v1.34.1-eks-3cfe0ce or v1.33.5+k3s1.
func minorOf(v string) (out [2]int64, ok bool) {
	p := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(p) < 2 {
		return out, false
	}
	end := strings.IndexFunc(p[1], func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(p[1])
	}
	for i, s := range []string{p[0], p[1][:end]} {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return out, false
		}
		out[i] = n
	}
	return out, true
}

// few names at most five.
func few(all []string) string {
	s := strings.Join(all[:min(len(all), 5)], ", ")
	if len(all) > 5 {
		s += ", …"
	}
	return s
}

func (c *NodeCompliance) rules(r *NodeRules, n *NodeFact, now time.Time, common map[fleet.GPUModel]int64) {
	if r == nil {
		return
	}
	if age := now.Sub(n.StartedAt); r.MaxAgeHours > 0 && !n.StartedAt.IsZero() && age > time.Duration(r.MaxAgeHours)*time.Hour {
		c.find("age", strconv.FormatInt(r.MaxAgeHours, 10)+" h", strconv.FormatInt(int64(age/time.Hour), 10)+" h")
	}
	for _, want := range r.Labels {
		key, value, given := strings.Cut(want, "=")
		if got, ok := n.Labels[key]; !ok {
			c.find("label", want, "")
		} else if given && got != value {
			c.find("label", want, key+"="+got)
		}
	}
	if n.GPUCount == 0 {
		return
	}
	if len(r.GPUTaints) > 0 && !n.TaintsOK {
		c.Unchecked = append(c.Unchecked, "taint")
	} else {
		for _, want := range r.GPUTaints {
			if !slices.ContainsFunc(n.Taints, func(t string) bool { return taintIs(t, want) }) {
				c.find("taint", want, few(n.Taints))
			}
		}
	}
	if r.MinDriver == 0 && !r.SameDriver {
		return
	}
	major := driverOf(n)
	switch {
	case major == 0:
		c.Unchecked = append(c.Unchecked, "driver")
	case major < r.MinDriver:
		c.find("driver", strconv.FormatInt(r.MinDriver, 10), strconv.FormatInt(major, 10))
	case r.SameDriver && common[n.GPUModel] != 0 && major != common[n.GPUModel]:
		c.find("driver_differs", strconv.FormatInt(common[n.GPUModel], 10), strconv.FormatInt(major, 10))
	}
}

// taintIs says that a taint, key=value:effect, is the one wanted, which may be its key alone or lack value or effect.
func taintIs(taint, want string) bool {
	body, effect, _ := strings.Cut(taint, ":")
	key, value, _ := strings.Cut(body, "=")
	wantBody, wantEffect, hasEffect := strings.Cut(want, ":")
	wantKey, wantValue, hasValue := strings.Cut(wantBody, "=")
	return key == wantKey && (!hasValue || value == wantValue) && (!hasEffect || effect == wantEffect)
}

// driverOf is the major version of a machine's driver; 0: not told.
func driverOf(n *NodeFact) int64 {
	for _, key := range []string{labelDriverFull, labelDriverMajor} {
		if v, err := strconv.ParseInt(n.Labels[key], 10, 64); err == nil && v > 0 {
			return v
		}
	}
	if v := parts(n.Driver); v != nil {
		return v[0]
	}
	return 0
}

// commonDrivers is the major version that most machines of each GPU model have, the newer one where as many have another.
func commonDrivers(nodes []NodeFact) map[fleet.GPUModel]int64 {
	count := map[fleet.GPUModel]map[int64]int{}
	for i := range nodes {
		n := &nodes[i]
		if v := driverOf(n); v > 0 && n.GPUCount > 0 {
			if count[n.GPUModel] == nil {
				count[n.GPUModel] = map[int64]int{}
			}
			count[n.GPUModel][v]++
		}
	}
	out := map[fleet.GPUModel]int64{}
	for model, versions := range count {
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			if out[model] == 0 || versions[v] >= versions[out[model]] {
				out[model] = v
			}
		}
	}
	return out
}
