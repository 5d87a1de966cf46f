package capacity

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// Labels and annotations of pods that say what a GPU and its driver must at least be. Versions are numbers with dots.
const (
	NoteMinDriver  = "plimsoll.dev/min-driver"  // 550.54
	NoteMinCUDA    = "plimsoll.dev/min-cuda"    // 12.4: of the driver, which runs everything up to it
	NoteMinCompute = "plimsoll.dev/min-compute" // 8.0
)

// The things that a machine's GPUs can be too old in. They are the reasons, too.
const (
	FitDriver  = "driver"
	FitCUDA    = "cuda"
	FitCompute = "compute_capability"
)

// Facts are what is known of a machine's GPUs. Empty is unknown, never none.
type Facts struct {
	Driver  string `json:"driver,omitempty"`
	CUDA    string `json:"cuda,omitempty"` // newest that the driver runs
	Compute string `json:"compute,omitempty"`
	// Unlabelled: the driver is known by telemetry alone. Needs go by it, selectors of labels do not: the machine has none.
	Unlabelled bool `json:"unlabelled,omitempty"`
}

// Need is one thing that pods ask of a machine's GPUs: a least version, or a rule of the spec about a label of feature discovery.
type Need struct {
	What  string       `json:"what"`
	Least string       `json:"least,omitempty"`
	Rule  *Requirement `json:"rule,omitempty"`
}

// GPUNeed is what the policy asks for workloads that say nothing themselves.
type GPUNeed struct {
	Workload string `json:"workload"` // key, or a beginning of one that ends with a slash; empty: all with GPUs
	Driver   string `json:"driver,omitempty"`
	CUDA     string `json:"cuda,omitempty"`
	Compute  string `json:"compute,omitempty"`
}

// maxGPUNeeds bounds a policy's list.
const maxGPUNeeds = 200

func (p *Policy) validateFit(bad func(field, text string) error) error {
	if len(p.GPUNeeds) > maxGPUNeeds {
		return bad("gpu_needs", "a list of the policy is too long")
	}
	for _, v := range []string{p.GPUDriver, p.GPUCUDA} {
		if v != "" && parts(v) == nil {
			return bad("gpu_driver", "versions are numbers with dots such as 550.54.14 and 12.4")
		}
	}
	for _, n := range p.GPUNeeds {
		for _, v := range []string{n.Driver, n.CUDA, n.Compute} {
			if v != "" && parts(v) == nil {
				return bad("gpu_needs", "versions are numbers with dots such as 550.54, 12.4 and 8.0")
			}
		}
	}
	return nil
}

// parts are the numbers of a version; nil: it is none.
func parts(v string) []int64 {
	var out []int64
	for s := range strings.SplitSeq(v, ".") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || len(out) == 4 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// older tells whether a is an older version than b; numbers that one of them does not name are zero.
func older(a, b string) bool {
	x, y := parts(a), parts(b)
	for i := range max(len(x), len(y)) {
		var m, n int64
		if i < len(x) {
			m = x[i]
		}
		if i < len(y) {
			n = y[i]
		}
		if m != n {
			return m < n
		}
	}
	return false
}

// cudaOfDriver is the newest CUDA that each branch of NVIDIA's Linux driver runs, by the table "CUDA Toolkit and Corresponding Driver Versions" of
// the CUDA release notes (docs.nvidia.com/cuda/cuda-toolkit-release-notes, seen 2026-11-30). Sorted; a branch between two has the older one's.
var cudaOfDriver = []struct {
	branch int64
	cuda   string
}{{440, "10.2"}, {450, "11.0"}, {455, "11.1"}, {460, "11.2"}, {465, "11.3"}, {470, "11.4"}, {495, "11.5"}, {510, "11.6"}, {515, "11.7"}, {520, "11.8"}, {525, "12.0"}, {530, "12.1"},
	{535, "12.2"}, {545, "12.3"}, {550, "12.4"}, {555, "12.5"}, {560, "12.6"}, {565, "12.7"}, {570, "12.8"}, {575, "12.9"}, {580, "13.0"}}

func cudaOf(driver string) string {
	v, out := parts(driver), ""
	for _, b := range cudaOfDriver {
		if len(v) > 0 && v[0] >= b.branch {
			out = b.cuda
		}
	}
	return out
}

// FactsOf reads what NVIDIA's feature discovery labels a node with, in its older and its newer words.
func FactsOf(labels map[string]string) Facts {
	join := func(keys ...string) string {
		var out []string
		for _, k := range keys {
			if labels[k] == "" {
				break
			}
			out = append(out, labels[k])
		}
		return strings.Join(out, ".")
	}
	f := Facts{
		Driver:  cmp.Or(labels["nvidia.com/cuda.driver-version.full"], join("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver-version.minor", "nvidia.com/cuda.driver-version.revision"), join("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")),
		CUDA:    cmp.Or(labels["nvidia.com/cuda.runtime-version.full"], join("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime-version.minor"), join("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor")),
		Compute: join("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"),
	}
	for _, v := range []*string{&f.Driver, &f.CUDA, &f.Compute} {
		if parts(*v) == nil {
			*v = ""
		}
	}
	if f.CUDA == "" {
		f.CUDA = cudaOf(f.Driver)
	}
	return f
}

// Labels that facts answer where a machine, or an offering that no machine runs of, has none.
var factLabels = map[string]func(Facts) (string, int){
	"nvidia.com/gpu.compute.major":          func(f Facts) (string, int) { return f.Compute, 0 },
	"nvidia.com/gpu.compute.minor":          func(f Facts) (string, int) { return f.Compute, 1 },
	"nvidia.com/cuda.driver.major":          func(f Facts) (string, int) { return f.Driver, 0 },
	"nvidia.com/cuda.driver.minor":          func(f Facts) (string, int) { return f.Driver, 1 },
	"nvidia.com/cuda.driver-version.major":  func(f Facts) (string, int) { return f.Driver, 0 },
	"nvidia.com/cuda.driver-version.minor":  func(f Facts) (string, int) { return f.Driver, 1 },
	"nvidia.com/cuda.runtime.major":         func(f Facts) (string, int) { return f.CUDA, 0 },
	"nvidia.com/cuda.runtime.minor":         func(f Facts) (string, int) { return f.CUDA, 1 },
	"nvidia.com/cuda.runtime-version.major": func(f Facts) (string, int) { return f.CUDA, 0 },
	"nvidia.com/cuda.runtime-version.minor": func(f Facts) (string, int) { return f.CUDA, 1 },
}

// fitOf is what a label of feature discovery is about; empty: it is none of those.
func fitOf(key string) string {
	switch {
	case strings.HasPrefix(key, "nvidia.com/cuda.driver"):
		return FitDriver
	case strings.HasPrefix(key, "nvidia.com/cuda.runtime"):
		return FitCUDA
	case strings.HasPrefix(key, "nvidia.com/gpu.compute."):
		return FitCompute
	}
	return ""
}

func (f Facts) label(key string) (string, bool) {
	get, ok := factLabels[key]
	if !ok || f.Unlabelled && fitOf(key) != FitCompute {
		return "", false
	}
	version, at := get(f)
	all := strings.Split(version, ".")
	if version == "" || at >= len(all) {
		return "", false
	}
	return all[at], true
}

// met tells whether a machine is known to have what is needed. What is unknown is not met: a machine bought on a hope may not run the pod, and
// the next plan would buy another.
func (n *Need) met(k *kind) bool {
	if n.Rule != nil {
		v, has := k.label(n.Rule.Key)
		if !has {
			v, has = k.facts.label(n.Rule.Key)
		}
		return n.Rule.meets(v, has)
	}
	has := map[string]string{FitDriver: k.facts.Driver, FitCUDA: k.facts.CUDA, FitCompute: k.facts.Compute}[n.What]
	return has != "" && !older(has, n.Least)
}

// unfit is the reason why a pod's needs keep it from a kind of machine; empty: nothing does.
func (in *Input) unfit(p *Pod, k *kind) string {
	for _, key := range p.Needs {
		what, at, _ := strings.Cut(key, "/")
		if i, err := strconv.Atoi(at); err != nil || i < 1 || i > len(in.Needs) || !in.Needs[i-1].met(k) {
			return what
		}
	}
	return ""
}

// needKey names a need by what it is about, which is told as the reason, and its place in Input.Needs, from 1.
func needKey(what string, i int) string { return what + "/" + strconv.Itoa(i) }

// addNeeds writes a pod's needs in the packing's words.
func (p *Pod) addNeeds(r *packing.Rules) {
	for _, key := range p.Needs {
		r.Where = append(slices.Clone(r.Where), packing.Selector{Key: packing.FitPrefix + key, Values: []string{"met"}})
	}
}

// needLabels are the labels by which the packing knows which needs a kind of machine meets.
func (in *Input) needLabels(k *kind) (out []string) {
	for i := range in.Needs {
		if in.Needs[i].met(k) {
			out = append(out, packing.FitPrefix+needKey(in.Needs[i].What, i+1)+"=met")
		}
	}
	return out
}

// Fit fills in what machines' GPUs are and what pods ask of them: notes, labels and rules of their own first, then the policy. told is what Rule
// was given and is called after it; notes belong to pods by index; compute is the compute capability of a model in tenths. Offerings have the
// driver that the policy names for new machines, else the oldest of the machines of their type, where all of them tell it.
func Fit(in *Input, told *Told, notes []map[string]string, compute func(fleet.GPUModel) (int64, bool)) {
	f := &fitter{in: in, index: map[string]int{}}
	byModel := func(facts *Facts, m fleet.GPUModel) {
		if tenths, ok := compute(m); ok && facts.Compute == "" {
			facts.Compute = strconv.FormatInt(tenths/10, 10) + "." + strconv.FormatInt(tenths%10, 10)
		}
	}
	byType := map[string]*Facts{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		n.Facts = Facts{}
		if n.GPUCount == 0 {
			continue
		}
		if i < len(told.NodeLabels) {
			n.Facts = FactsOf(told.NodeLabels[i])
		}
		if i < len(told.NodeDrivers) && n.Facts.Driver == "" && parts(told.NodeDrivers[i]) != nil {
			n.Facts.Driver, n.Facts.CUDA, n.Facts.Unlabelled = told.NodeDrivers[i], cmp.Or(n.Facts.CUDA, cudaOf(told.NodeDrivers[i])), true
		}
		byModel(&n.Facts, n.GPUModel)
		all := byType[n.Offering.InstanceType]
		if all == nil {
			own := n.Facts
			byType[n.Offering.InstanceType] = &own
			continue
		}
		all.Unlabelled = all.Unlabelled || n.Facts.Unlabelled
		for _, v := range []struct {
			all *string
			own string
		}{{&all.Driver, n.Facts.Driver}, {&all.CUDA, n.Facts.CUDA}} {
			if v.own == "" || *v.all != "" && older(v.own, *v.all) {
				*v.all = v.own
			}
		}
	}
	for i := range in.Candidates {
		c := &in.Candidates[i]
		c.Facts = Facts{}
		maps.DeleteFunc(c.Labels, func(key, _ string) bool { return fitOf(key) != "" }) // facts answer these: no new machine is labelled with what another one runs
		if c.GPUCount == 0 {
			continue
		}
		if all := byType[c.Offering.InstanceType]; all != nil {
			c.Facts = Facts{Driver: all.Driver, CUDA: all.CUDA, Unlabelled: all.Unlabelled}
		}
		if in.Policy.GPUDriver != "" {
			c.Facts.Driver, c.Facts.CUDA = in.Policy.GPUDriver, cmp.Or(in.Policy.GPUCUDA, cudaOf(in.Policy.GPUDriver))
		}
		byModel(&c.Facts, c.GPUModel)
	}
	f.rules()
	for i := range in.Pods {
		var own, labels map[string]string
		if i < len(notes) {
			own = notes[i]
		}
		if i < len(told.PodLabels) {
			labels = told.PodLabels[i]
		}
		f.pod(&in.Pods[i], own, labels)
	}
}

type fitter struct {
	in    *Input
	index map[string]int // of needs by what they say
	rule  [][]string     // needs of each of the input's rules
}

func (f *fitter) need(n Need) string {
	key := n.What + " " + n.Least
	if n.Rule != nil {
		key = n.What + " " + n.Rule.Key + " " + n.Rule.Operator + " " + strings.Join(n.Rule.Values, ",")
	}
	if f.index[key] == 0 {
		f.in.Needs = append(f.in.Needs, n)
		f.index[key] = len(f.in.Needs)
	}
	return needKey(n.What, f.index[key])
}

// rules takes out of pods' rules what is about drivers, so that it is told as such. Of rules with a choice of terms it is left in: either may hold.
func (f *fitter) rules() {
	f.in.Needs, f.rule = nil, make([][]string, len(f.in.Rules))
	for i := range f.in.Rules {
		r := &f.in.Rules[i]
		lists := []*[]Requirement{&r.Selector}
		terms := slices.Clone(r.Terms)
		if len(terms) == 1 && len(terms[0]) > 0 {
			lists = append(lists, &terms[0])
		}
		for _, l := range lists {
			var rest []Requirement
			for _, q := range *l {
				if what := fitOf(q.Key); what != "" {
					f.rule[i] = append(f.rule[i], f.need(Need{What: what, Rule: &q}))
				} else {
					rest = append(rest, q)
				}
			}
			*l = rest
		}
		if len(terms) == 1 && len(terms[0]) == 0 && len(r.Terms[0]) > 0 {
			terms = nil
		}
		r.Terms = terms
	}
}

func (f *fitter) pod(p *Pod, notes, labels map[string]string) {
	p.Needs = nil
	if p.Rule > 0 && p.Rule <= len(f.rule) {
		p.Needs = slices.Clone(f.rule[p.Rule-1])
	}
	if p.GPUCount == 0 && p.MIG == "" {
		return
	}
	var policy GPUNeed
	for _, n := range f.in.Policy.GPUNeeds {
		if n.Workload == "" || n.Workload == p.Workload || strings.HasSuffix(n.Workload, "/") && strings.HasPrefix(p.Workload, n.Workload) {
			policy = n
			break
		}
	}
	for _, x := range []struct{ what, key, policy string }{{FitDriver, NoteMinDriver, policy.Driver}, {FitCUDA, NoteMinCUDA, policy.CUDA}, {FitCompute, NoteMinCompute, policy.Compute}} {
		v := cmp.Or(notes[x.key], labels[x.key], x.policy)
		if v == "" {
			continue
		}
		if parts(v) == nil {
			p.Untold = true // it asks for something that nobody can read: it is neither placed nor moved
			continue
		}
		p.Needs = append(p.Needs, f.need(Need{What: x.what, Least: v}))
	}
	slices.Sort(p.Needs)
	p.Needs = slices.Compact(p.Needs)
}
