package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Requirement is a rule about a label, in Kubernetes' words: In, NotIn, Exists, DoesNotExist, Gt, Lt.
type Requirement struct {
	Key      string   `json:"k"`
	Operator string   `json:"o"`
	Values   []string `json:"v,omitempty"`
}

// Toleration of a taint, in Kubernetes' words.
type Toleration struct {
	Key      string `json:"k,omitempty"`
	Operator string `json:"o,omitempty"`
	Value    string `json:"v,omitempty"`
	Effect   string `json:"e,omitempty"`
}

// Taint of a node.
type Taint struct {
	Key    string `json:"k"`
	Value  string `json:"v,omitempty"`
	Effect string `json:"e"`
}

// PodTerm names pods and a place, in Kubernetes' words.
type PodTerm struct {
	Topology      string        `json:"t"`
	Selector      []Requirement `json:"s,omitempty"`
	Namespaces    []string      `json:"n,omitempty"` // empty: the pod's own
	AllNamespaces bool          `json:"a,omitempty"`
}

// TopologySpread bounds how unevenly pods lie.
type TopologySpread struct {
	Topology string        `json:"t"`
	MaxSkew  int64         `json:"m"`
	Soft     bool          `json:"f,omitempty"`
	Selector []Requirement `json:"s,omitempty"`
}

// Placement is where pods may run, as their specs say.
type Placement struct {
	Selector     []Requirement    `json:"selector,omitempty"`
	NodeTerms    [][]Requirement  `json:"node_terms,omitempty"` // one of them holds
	Tolerations  []Toleration     `json:"tolerations,omitempty"`
	Affinity     []PodTerm        `json:"affinity,omitempty"`
	AntiAffinity []PodTerm        `json:"anti_affinity,omitempty"`
	Spread       []TopologySpread `json:"spread,omitempty"`
	Incomplete   bool             `json:"incomplete,omitempty"` // the spec asks for more
}

// DisruptionLimit is a PodDisruptionBudget: so many of its pods may be evicted now.
type DisruptionLimit struct {
	Namespace string
	Name      string
	Selector  []Requirement
	Allowed   int64
}

// NodeRule is what a spec says about nodes; pods name it by its place in Input.Rules, from 1.
type NodeRule struct {
	Selector []Requirement   `json:"selector,omitempty"`
	Terms    [][]Requirement `json:"terms,omitempty"`
}

// Limit is a DisruptionLimit in an Input; pods name it by its place in Input.Limits, from 1.
type Limit struct {
	Name    string `json:"name"` // namespace/name
	Allowed int64  `json:"allowed"`
}

// Labels that an offering answers by itself.
var ownLabels = map[string]func(*kind) string{
	"topology.kubernetes.io/zone":   func(k *kind) string { return k.offering.Zone },
	"topology.kubernetes.io/region": func(k *kind) string { return k.offering.Region },
	"node.kubernetes.io/instance-type": func(k *kind) string {
		return k.offering.InstanceType
	},
	"beta.kubernetes.io/instance-type":         func(k *kind) string { return k.offering.InstanceType },
	"failure-domain.beta.kubernetes.io/zone":   func(k *kind) string { return k.offering.Zone },
	"failure-domain.beta.kubernetes.io/region": func(k *kind) string { return k.offering.Region },
	"kubernetes.io/os":                         func(*kind) string { return "linux" },
	"kubernetes.io/arch": func(k *kind) string {
		if k.arch == "" {
			return "amd64"
		}
		return k.arch
	},
	"karpenter.sh/capacity-type": func(k *kind) string {
		if k.offering.Purchase == fleet.PurchaseOnDemand {
			return "on-demand"
		}
		return string(k.offering.Purchase)
	},
}

func (k *kind) label(key string) (string, bool) {
	if v, ok := k.labels[key]; ok {
		return v, true
	}
	if f, ok := ownLabels[key]; ok {
		v := f(k)
		return v, v != ""
	}
	return "", false
}

// meets tells whether a requirement holds for a label, by the rules of Kubernetes' node affinity.
func (r *Requirement) meets(v string, has bool) bool {
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, v)
	case "NotIn":
		return !has || !slices.Contains(r.Values, v)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		if !has || len(r.Values) != 1 {
			return false
		}
		a, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return false
		}
		b, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && (a > b) == (r.Operator == "Gt") && a != b
	}
	return false
}

func allMeet(list []Requirement, label func(string) (string, bool)) bool {
	for i := range list {
		if !list[i].meets(label(list[i].Key)) {
			return false
		}
	}
	return true
}

func (r *NodeRule) holds(k *kind) bool {
	if !allMeet(r.Selector, k.label) {
		return false
	}
	return len(r.Terms) == 0 || slices.ContainsFunc(r.Terms, func(t []Requirement) bool { return len(t) > 0 && allMeet(t, k.label) })
}

func (r *NodeRule) text() string { return fmt.Sprintf("%v%v", r.Selector, r.Terms) }

// keys of labels that the rule speaks of.
func (r *NodeRule) keys(into map[string]bool) {
	for _, list := range append([][]Requirement{r.Selector}, r.Terms...) {
		for i := range list {
			into[list[i].Key] = true
		}
	}
}

func (t *Toleration) tolerates(x Taint) bool {
	return (t.Key == "" && t.Operator == "Exists" || t.Key == x.Key) && (t.Effect == "" || t.Effect == x.Effect) && (t.Operator == "Exists" || t.Value == x.Value)
}

func (x Taint) text() string { return x.Key + "=" + x.Value + ":" + x.Effect }

// Told is what an inventory says about rules, by index of the input's nodes and pods.
type Told struct {
	NodeLabels []map[string]string
	// NodeDrivers of the nodes' GPUs, as telemetry tells them; empty: not told.
	NodeDrivers []string
	NodeTaints  [][]Taint
	PodLabels   []map[string]string
	Placements  []*Placement // of each pod; nil: not told
	Limits      []DisruptionLimit
}

// Rule fills in what pods' specs, taints and PodDisruptionBudgets say. Pods of which nothing was told keep what Evidence found. Candidates get the
// labels and taints that all running machines of their type share. It is called after Evidence, with candidates in place.
func Rule(in *Input, told *Told) {
	r := &ruler{in: in, told: told, rules: map[string]int{}, keys: map[string]bool{}, groups: map[string]*podGroup{}}
	for i := range in.Pods {
		if i < len(told.Placements) && told.Placements[i] != nil {
			r.nodeRule(&in.Pods[i], told.Placements[i])
		}
	}
	r.machines()
	r.pools()
	for i := range in.Pods {
		p := &in.Pods[i]
		if i >= len(told.Placements) || told.Placements[i] == nil {
			if p.Tolerates = nil; len(r.taints) > 0 {
				p.Tolerates = []string{"*"}
			}
			continue
		}
		r.pod(p, told.Placements[i])
	}
	r.label()
	r.limits()
}

type podGroup struct {
	name      string
	namespace string // empty: all
	selector  []Requirement
}

type ruler struct {
	in     *Input
	told   *Told
	rules  map[string]int
	keys   map[string]bool
	taints []Taint
	groups map[string]*podGroup
}

func (r *ruler) nodeRule(p *Pod, at *Placement) {
	rule := NodeRule{Selector: at.Selector, Terms: at.NodeTerms}
	if len(rule.Selector)+len(rule.Terms) == 0 {
		return
	}
	text := rule.text()
	if r.rules[text] == 0 {
		r.in.Rules = append(r.in.Rules, rule)
		r.rules[text] = len(r.in.Rules)
		rule.keys(r.keys)
	}
	p.Rule = r.rules[text]
}

// machines keeps of labels what rules speak of, and gives candidates what all machines of their type share.
func (r *ruler) machines() {
	type shared struct {
		labels map[string]string
		taints []string
	}
	byType, all := map[string]*shared{}, map[string]Taint{}
	for i := range r.in.Nodes {
		n := &r.in.Nodes[i]
		n.Labels, n.Taints = nil, nil
		if i < len(r.told.NodeLabels) {
			for k, v := range r.told.NodeLabels[i] {
				if r.keys[k] {
					if n.Labels == nil {
						n.Labels = map[string]string{}
					}
					n.Labels[k] = v
				}
			}
		}
		if i < len(r.told.NodeTaints) {
			for _, t := range r.told.NodeTaints[i] {
				n.Taints = append(n.Taints, t.text())
				all[t.text()] = t
			}
			slices.Sort(n.Taints)
		}
		s := byType[n.Offering.InstanceType]
		if s == nil {
			byType[n.Offering.InstanceType] = &shared{labels: maps.Clone(n.Labels), taints: slices.Clone(n.Taints)}
			continue
		}
		maps.DeleteFunc(s.labels, func(k, v string) bool { return n.Labels[k] != v })
		s.taints = slices.DeleteFunc(s.taints, func(t string) bool { return !slices.Contains(n.Taints, t) })
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		r.taints = append(r.taints, all[k])
	}
	for i := range r.in.Candidates {
		c := &r.in.Candidates[i]
		c.Labels, c.Taints = nil, nil
		if s := byType[c.Offering.InstanceType]; s != nil {
			for k, v := range s.labels {
				if _, own := ownLabels[k]; !own && k != "kubernetes.io/hostname" {
					if c.Labels == nil {
						c.Labels = map[string]string{}
					}
					c.Labels[k] = v
				}
			}
			c.Taints = slices.Clone(s.taints)
		}
	}
}

func (r *ruler) pod(p *Pod, at *Placement) {
	p.Tolerates = nil
	for _, x := range r.taints {
		if slices.ContainsFunc(at.Tolerations, func(t Toleration) bool { return t.tolerates(x) }) {
			p.Tolerates = append(p.Tolerates, x.text())
		}
	}
	namespace, _, _ := strings.Cut(p.Name, "/")
	p.Untold = at.Incomplete
	term := func(topology string, selector []Requirement, namespaces []string) (out []string) {
		place := placeOf(topology)
		if place == "" {
			p.Untold = p.Untold || topology != "topology.kubernetes.io/region"
			return nil
		}
		for _, n := range namespaces {
			out = append(out, r.group(n, selector)+"@"+place)
		}
		return out
	}
	terms := func(list []PodTerm) (out []string) {
		for _, t := range list {
			in := t.Namespaces
			if t.AllNamespaces {
				in = []string{""}
			} else if len(in) == 0 {
				in = []string{namespace}
			}
			out = append(out, term(t.Topology, t.Selector, in)...)
		}
		return out
	}
	p.Affinity, p.Anti, p.Spread = terms(at.Affinity), terms(at.AntiAffinity), nil
	for _, s := range at.Spread {
		for _, t := range term(s.Topology, s.Selector, []string{namespace}) {
			t += ":" + strconv.FormatInt(max(s.MaxSkew, 1), 10)
			if s.Soft {
				t += ":soft"
			}
			p.Spread = append(p.Spread, t)
		}
	}
}

func placeOf(topology string) string {
	switch topology {
	case "kubernetes.io/hostname":
		return string(packing.TopologyNode)
	case "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone":
		return string(packing.TopologyZone)
	}
	return ""
}

func (r *ruler) group(namespace string, selector []Requirement) string {
	key := fmt.Sprint(namespace, "\x00", selector)
	g := r.groups[key]
	if g == nil {
		g = &podGroup{name: "g" + strconv.Itoa(len(r.groups)+1), namespace: namespace, selector: selector}
		r.groups[key] = g
	}
	return g.name
}

// label says which groups each pod belongs to.
func (r *ruler) label() {
	by := map[string][]*podGroup{}
	for _, g := range r.groups {
		by[g.namespace] = append(by[g.namespace], g)
	}
	for i := range r.in.Pods {
		p := &r.in.Pods[i]
		p.Groups = nil
		namespace, _, _ := strings.Cut(p.Name, "/")
		for _, list := range [][]*podGroup{by[namespace], by[""]} {
			for _, g := range list {
				if allMeet(g.selector, r.podLabel(i)) {
					p.Groups = append(p.Groups, g.name)
				}
			}
		}
		slices.Sort(p.Groups)
	}
}

func (r *ruler) podLabel(i int) func(string) (string, bool) {
	return func(key string) (string, bool) {
		if i >= len(r.told.PodLabels) {
			return "", false
		}
		v, ok := r.told.PodLabels[i][key]
		return v, ok
	}
}

// limits says which budget each pod is under. Kubernetes evicts no pod that is under two.
func (r *ruler) limits() {
	by := map[string][]int{}
	for i, l := range r.told.Limits {
		r.in.Limits = append(r.in.Limits, Limit{Name: l.Namespace + "/" + l.Name, Allowed: l.Allowed})
		by[l.Namespace] = append(by[l.Namespace], i)
	}
	for i := range r.in.Pods {
		p := &r.in.Pods[i]
		p.Limit = 0
		namespace, _, _ := strings.Cut(p.Name, "/")
		n := 0
		for _, l := range by[namespace] {
			if allMeet(r.told.Limits[l].Selector, r.podLabel(i)) {
				p.Limit, n = l+1, n+1
			}
		}
		// Labels of a very large inventory are dropped on the way, and the pods of a workload always have some: nobody knows then.
		if n == 0 && len(by[namespace]) > 0 && p.Workload != "" && !p.Planned && (i >= len(r.told.PodLabels) || len(r.told.PodLabels[i]) == 0) {
			n = 2
		}
		if p.Protected == "" && !p.Daemon && (n > 1 || n == 1 && r.told.Limits[p.Limit-1].Allowed < 1) {
			p.Protected = "pdb"
		}
		if p.Protected == "" && p.Untold {
			p.Protected = "rules"
		}
	}
}

// ruled is the reason why a pod's spec, or a taint, keeps it from a kind of machine; empty: nothing does.
func (d *planner) ruled(p *Pod, k *kind) string {
	if p.Untold {
		return "untold"
	}
	if p.Rule > 0 && p.Rule <= len(d.in.Rules) && !d.in.Rules[p.Rule-1].holds(k) {
		return "where"
	}
	if why := d.in.unfit(p, k); why != "" {
		return why
	}
	for _, t := range k.taints {
		if !slices.Contains(p.Tolerates, t) && !slices.Contains(p.Tolerates, "*") {
			return "taint"
		}
	}
	return ""
}

// terms reads "g1@node" or "g1@zone:2:soft"; soft ones bind nobody here.
func hardTerm(s, place string) (group string, skew int64, ok bool) {
	group, rest, _ := strings.Cut(s, "@")
	parts := strings.Split(rest, ":")
	if parts[0] != place || len(parts) > 2 {
		return "", 0, false
	}
	if len(parts) == 2 {
		skew, _ = strconv.ParseInt(parts[1], 10, 64)
	}
	return group, skew, true
}

// together tells whether pods may share one machine: anti-affinity both ways, and spread by node.
func (d *planner) together(pods []int) bool {
	for _, i := range pods {
		p := &d.in.Pods[i]
		count := func(group string) (n int64) {
			for _, j := range pods {
				if j != i && slices.Contains(d.in.Pods[j].Groups, group) {
					n++
				}
			}
			return n
		}
		for _, t := range p.Anti {
			if g, _, ok := hardTerm(t, "node"); ok && count(g) > 0 {
				return false
			}
		}
		for _, t := range p.Spread {
			if g, skew, ok := hardTerm(t, "node"); ok && count(g)+1 > skew {
				return false
			}
		}
	}
	return true
}

// welcome tells whether rules between pods let one more pod onto a machine, from where the others are in the plan.
func (d *planner) welcome(pod int, h *host) bool {
	p := &d.in.Pods[pod]
	if d.bound && !d.together(append(slices.Clone(h.pods), pod)) {
		return false
	}
	if !d.bound {
		return true
	}
	zones := map[string]map[string]int64{} // of groups, pods by zone
	count := func(group string) map[string]int64 {
		if zones[group] == nil {
			zones[group] = map[string]int64{}
			for _, o := range d.hosts {
				if o.gone {
					continue
				}
				zones[group][o.offering.Zone] += 0
				for _, j := range o.pods {
					if j != pod && slices.Contains(d.in.Pods[j].Groups, group) {
						zones[group][o.offering.Zone]++
					}
				}
			}
		}
		return zones[group]
	}
	for _, t := range p.Affinity {
		if g, _, ok := hardTerm(t, "zone"); ok && count(g)[h.offering.Zone] == 0 && (!slices.Contains(p.Groups, g) || sum(count(g)) != 0) {
			return false
		}
		if g, _, ok := hardTerm(t, "node"); ok && !slices.ContainsFunc(h.pods, func(j int) bool { return j != pod && slices.Contains(d.in.Pods[j].Groups, g) }) {
			return false
		}
	}
	for _, t := range p.Anti {
		if g, _, ok := hardTerm(t, "zone"); ok && count(g)[h.offering.Zone] > 0 {
			return false
		}
	}
	for _, t := range p.Spread {
		if g, skew, ok := hardTerm(t, "zone"); ok {
			least := int64(-1)
			for _, n := range count(g) {
				if least < 0 || n < least {
					least = n
				}
			}
			if count(g)[h.offering.Zone]+1-max(least, 0) > skew {
				return false
			}
		}
	}
	return true
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// zoned tells whether any of the pods has a rule about zones or about being beside others, which a move to a new machine could break.
func (d *planner) zoned(pods []int) bool {
	return slices.ContainsFunc(pods, func(i int) bool {
		p := &d.in.Pods[i]
		has := func(s string) bool { return strings.Contains(s, "@zone") && !strings.HasSuffix(s, ":soft") }
		return slices.ContainsFunc(p.Affinity, has) || slices.ContainsFunc(p.Anti, has) || slices.ContainsFunc(p.Spread, has)
	})
}

// ruleKey names a node rule in the packing; machines for which the rule holds carry it as a label.
func ruleKey(rule int) string { return "rule-" + strconv.Itoa(rule) }

// addRules writes a pod's rules in the packing's words.
func (p *Pod) addRules(r *packing.Rules) error {
	text := packing.RuleText{Labels: p.Groups, Tolerates: p.Tolerates, Affinity: p.Affinity, AntiAffinity: p.Anti, Spread: p.Spread}
	own, err := text.Rules()
	if err != nil {
		return err
	}
	if own != nil {
		r.Labels, r.Tolerates, r.Affinity, r.AntiAffinity, r.Spread = own.Labels, own.Tolerates, own.Affinity, own.AntiAffinity, own.Spread
	}
	if p.Rule > 0 {
		r.Where = append(slices.Clone(r.Where), packing.Selector{Key: ruleKey(p.Rule), Values: []string{"holds"}})
	}
	p.addNeeds(r)
	if p.Untold {
		r.Where = append(slices.Clone(r.Where), packing.Selector{Key: "untold", Values: []string{"holds"}})
	}
	return nil
}

// ruleLabels are the labels by which the packing knows which node rules hold for a kind of machine.
func (in *Input) ruleLabels(k *kind) (out []string) {
	for i := range in.Rules {
		if in.Rules[i].holds(k) {
			out = append(out, ruleKey(i+1)+"=holds")
		}
	}
	return append(out, in.needLabels(k)...)
}
