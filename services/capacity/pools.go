package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PoolPrefix begins the names of the NodePools that are made from plans.
const PoolPrefix = "plimsoll-"

// PoolRules are what the NodePools that are made from plans put on their machines, and how Karpenter may end them. NodePools that others made are left as they are.
type PoolRules struct {
	Labels         map[string]string `json:"labels,omitempty"`
	Taints         []string          `json:"taints,omitempty"`                // key=value:effect or key:effect; pods that do not tolerate them get no machine of these pools
	StartupTaints  []string          `json:"startup_taints,omitempty"`        // that something on the machine takes away once it is ready
	ExpireAfterHrs int64             `json:"expire_after_hours,omitempty"`    // Karpenter ends a machine of that age, whatever its budgets say. 0: never
	TerminationSec int64             `json:"termination_grace_sec,omitempty"` // how long a machine that goes may drain before its pods are ended. 0: as long as they take
	DriftBudget    string            `json:"drift_budget,omitempty"`          // machines of a pool that Karpenter may replace at once because they differ from it: 3 or 10%. Empty: none
	EmptyBudget    string            `json:"empty_budget,omitempty"`          // that it may end at once because they are empty. Empty: all
}

const (
	maxPoolLabels   = 50
	maxPoolTaints   = 20
	maxExpireHours  = 24 * 3650
	maxGraceSeconds = 7 * 86_400
	// startupLong is how long a startup taint may stay on a machine that runs.
	startupLong = 15 * time.Minute
	// expireLate is how long after its age a machine may still be on its way out.
	expireLate = time.Hour
)

// reservedDomains are those whose labels and taints Kubernetes, Karpenter and Plimsoll write themselves; providerDomains are written by whoever makes the machine, and pools leave them out.
var (
	reservedDomains = []string{"kubernetes.io", "k8s.io", "karpenter.sh", "plimsoll.dev"}
	providerDomains = []string{"k8s.aws", "amazonaws.com", "google.com", "azure.com", "nvidia.com", "cilium.io"}
)

func inDomain(key string, of ...string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc(of, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

func (p *PoolRules) validate(bad func(field, text string) error) error {
	if p == nil {
		return nil
	}
	wrong := func(field, format string, args ...any) error {
		return bad("node_pools."+field, fmt.Sprintf(format, args...))
	}
	switch {
	case len(p.Labels) > maxPoolLabels:
		return wrong("labels", "at most %d labels", maxPoolLabels)
	case len(p.Taints) > maxPoolTaints:
		return wrong("taints", "at most %d taints", maxPoolTaints)
	case len(p.StartupTaints) > maxPoolTaints:
		return wrong("startup_taints", "at most %d taints", maxPoolTaints)
	case p.ExpireAfterHrs < 0 || p.ExpireAfterHrs > maxExpireHours:
		return wrong("expire_after_hours", "expire_after_hours is 0 to %d", maxExpireHours)
	case p.TerminationSec < 0 || p.TerminationSec > maxGraceSeconds:
		return wrong("termination_grace_sec", "termination_grace_sec is 0 to %d", maxGraceSeconds)
	case !budget(p.DriftBudget):
		return wrong("drift_budget", "%q is no budget such as 3 or 10%%", p.DriftBudget)
	case !budget(p.EmptyBudget):
		return wrong("empty_budget", "%q is no budget such as 3 or 10%%", p.EmptyBudget)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		switch {
		case !qualified(key):
			return wrong("labels", "%q is no label key such as team or example.com/team", key)
		case inDomain(key, reservedDomains...):
			return wrong("labels", "%q is of a domain that is kept for Kubernetes, Karpenter and Plimsoll", key)
		case inDomain(key, providerDomains...):
			return wrong("labels", "%q is written by the cloud or a driver, not by a pool", key)
		case p.Labels[key] != "" && !word(p.Labels[key]):
			return wrong("labels", "%q of %s is no label value: at most 63 letters, digits, dashes, underscores and dots", p.Labels[key], key)
		}
	}
	seen := map[string]bool{}
	for _, list := range []struct {
		field   string
		taints  []string
		domains []string
		effects []string
	}{{"taints", p.Taints, slices.Concat(reservedDomains, providerDomains), []string{"NoSchedule", "NoExecute"}}, {"startup_taints", p.StartupTaints, reservedDomains, []string{"NoSchedule", "NoExecute", "PreferNoSchedule"}}} {
		for _, text := range list.taints {
			t, ok := taintOf(text)
			switch {
			case !ok || !qualified(t.Key) || t.Value != "" && !word(t.Value):
				return wrong(list.field, "%q is no taint such as team=ml:NoSchedule", text)
			case inDomain(t.Key, list.domains...):
				return wrong(list.field, "%q is of a domain that is kept for Kubernetes, Karpenter, Plimsoll, clouds or drivers", t.Key)
			case !slices.Contains(list.effects, t.Effect):
				return wrong(list.field, "the effect of %q is %s", text, strings.Join(list.effects, " or "))
			case seen[t.Key+":"+t.Effect]:
				return wrong(list.field, "%s:%s is there twice", t.Key, t.Effect)
			}
			seen[t.Key+":"+t.Effect] = true
		}
	}
	return nil
}

// budget says that a text is a number of machines or a share of them.
func budget(s string) bool {
	if s == "" {
		return true
	}
	most := int64(MaxNodes)
	digits, share := strings.CutSuffix(s, "%")
	if share {
		most = 100
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return err == nil && int64(n) <= most && digits == strconv.FormatUint(n, 10)
}

// qualified says that a text is a key of a label: a name, with a domain before it or without.
func qualified(key string) bool {
	domain, name, ok := strings.Cut(key, "/")
	if !ok {
		return word(key)
	}
	if len(domain) > 253 || !word(name) {
		return false
	}
	for part := range strings.SplitSeq(domain, ".") {
		if part == "" || len(part) > 63 || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
	}
	return true
}

// word says that a text is 1 to 63 letters, digits, dashes, underscores and dots that begins and ends with a letter or digit.
func word(s string) bool {
	plain := func(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' }
	if s == "" || len(s) > 63 || !plain(s[0]) || !plain(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !plain(s[i]) && s[i] != '-' && s[i] != '_' && s[i] != '.' {
			return false
		}
	}
	return true
}

func taintOf(text string) (t Taint, ok bool) {
	what, effect, ok := strings.Cut(text, ":")
	t.Key, t.Value, _ = strings.Cut(what, "=")
	t.Effect = effect
	return t, ok
}

// pools gives candidates what the NodePools that are made from plans put on their machines; it comes before what of the taints pods tolerate.
func (r *ruler) pools() {
	p := r.in.Policy.Pools
	if p == nil {
		return
	}
	var taints []Taint
	for _, text := range p.Taints {
		if t, ok := taintOf(text); ok {
			taints = append(taints, t)
			if !slices.ContainsFunc(r.taints, func(x Taint) bool { return x.text() == t.text() }) {
				r.taints = append(r.taints, t)
			}
		}
	}
	slices.SortFunc(r.taints, func(a, b Taint) int { return strings.Compare(a.text(), b.text()) })
	for i := range r.in.Candidates {
		c := &r.in.Candidates[i]
		if len(p.Labels) > 0 && c.Labels == nil {
			c.Labels = map[string]string{}
		}
		maps.Copy(c.Labels, p.Labels)
		for _, t := range taints {
			c.Taints = append(slices.DeleteFunc(c.Taints, func(have string) bool {
				x, _ := taintOf(have)
				return x.Key == t.Key && x.Effect == t.Effect
			}), t.text())
		}
		slices.Sort(c.Taints)
	}
}

// pool holds a machine of a NodePool that was made from plans against what these put on their machines. Machines that were made before the policy said so differ too.
func (c *NodeCompliance) pool(p *PoolRules, n *NodeFact, now time.Time) {
	if p == nil || !strings.HasPrefix(n.Pool, PoolPrefix) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if got, ok := n.Labels[key]; !ok {
			c.find("pool_label", key+"="+p.Labels[key], "")
		} else if got != p.Labels[key] {
			c.find("pool_label", key+"="+p.Labels[key], key+"="+got)
		}
	}
	age := time.Duration(0)
	if !n.StartedAt.IsZero() {
		age = now.Sub(n.StartedAt)
	}
	if !n.TaintsOK && len(p.Taints)+len(p.StartupTaints) > 0 {
		c.Unchecked = append(c.Unchecked, "pool_taint")
	} else {
		for _, want := range p.Taints {
			if !slices.ContainsFunc(n.Taints, func(t string) bool { return taintIs(t, want) }) {
				c.find("pool_taint", want, few(n.Taints))
			}
		}
		for _, gone := range p.StartupTaints {
			if age > startupLong && slices.ContainsFunc(n.Taints, func(t string) bool { return taintIs(t, gone) }) {
				c.find("startup_taint", "", gone)
			}
		}
	}
	if most := time.Duration(p.ExpireAfterHrs) * time.Hour; most > 0 && age > most+expireLate {
		c.find("pool_age", strconv.FormatInt(p.ExpireAfterHrs, 10)+" h", strconv.FormatInt(int64(age/time.Hour), 10)+" h")
	}
}
