package packing

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// MIGInstance is one MIG instance on a GPU.
type MIGInstance struct {
	Profile string
	Start   int  // its first memory slice
	Busy    bool // a pod runs on it
}

// MIGGPU is a GPU and what it is cut into. Only a drained GPU may be cut anew.
type MIGGPU struct {
	Name      string
	Instances []MIGInstance
	Drained   bool
}

// MIGLayout is what a GPU should be cut into.
type MIGLayout struct {
	GPU       int // index into the GPUs given; -1: one more GPU
	Changed   bool
	Instances []MIGInstance
}

// MIGPlan says how to cut GPUs so that a demand for instances is met.
type MIGPlan struct {
	Layouts []MIGLayout      // of all GPUs given, in their order, then of new ones
	New     int              // GPUs beyond those given
	Changed int              // drained GPUs that are cut anew
	Idle    []int            // drained GPUs that the demand does not need
	Bound   int              // no plan needs fewer New
	Missing map[string]int64 // of each profile, instances that most GPUs do not allow
}

const (
	migGPUs      = 10_000
	migInstances = 70_000
	migSteps     = 60_000
)

// PlanMIG chooses layouts for GPUs of one model so that the demand (instances per profile, those that run included) is met with the fewest
// new GPUs, at most most of them, and among those plans with the fewest GPUs cut anew. GPUs that are not drained stay as they are; what
// they hold counts. Errors: an unknown model or profile, a layout that the model does not allow, a drained GPU with busy instances.
func PlanMIG(model fleet.GPUModel, demand map[string]int64, gpus []MIGGPU, most int) (*MIGPlan, error) {
	g := geometries[model]
	if g == nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "GPU model %q has no MIG or is not known", model)
	}
	if len(gpus) > migGPUs || most < 0 || most > migGPUs {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "more than %d GPUs", migGPUs)
	}
	m := &migPlanner{g: g, patterns: g.patterns(), memo: map[migCount]int{}}
	want, err := m.read(demand, gpus)
	if err != nil {
		return nil, err
	}
	var drained []int
	for i := range gpus {
		if gpus[i].Drained {
			drained = append(drained, i)
			continue
		}
		want = want.less(m.counts[i])
	}
	keep := m.chooseKept(want, drained)
	return m.plan(want, gpus, drained, keep, most), nil
}

// migCount is so many instances of each profile of the geometry.
type migCount [6]int32

func (a migCount) less(b migCount) migCount {
	for i := range a {
		a[i] = max(0, a[i]-b[i])
	}
	return a
}

func (a migCount) sum() int32 {
	n := int32(0)
	for _, v := range a {
		n += v
	}
	return n
}

func (a migCount) fits(b migCount) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// patterns are the largest sets of instances that one GPU can hold.
func (g *geometry) patterns() []migCount {
	var all []migCount
	var walk func(i int, c migCount)
	walk = func(i int, c migCount) {
		if i == len(g.profiles) {
			if c.sum() > 0 {
				all = append(all, c)
			}
			return
		}
		for n := int32(0); ; n++ {
			c[i] = n
			if g.layout(c) == nil {
				return
			}
			walk(i+1, c)
		}
	}
	walk(0, migCount{})
	var out []migCount
	for i, c := range all {
		largest := true
		for k, o := range all {
			largest = largest && (i == k || !c.fits(o))
		}
		if largest {
			out = append(out, c)
		}
	}
	return out
}

// layout places a set of instances on one GPU; nil if it does not fit.
func (g *geometry) layout(c migCount) []migPart {
	var asks []migAsk
	for i, n := range c {
		if n > 0 {
			asks = append(asks, migAsk{&g.profiles[i], n})
		}
	}
	l, v := g.onGPUs(asks, 1, 20_000)
	if v != gpusFit {
		return nil
	}
	if l[0].parts == nil {
		return []migPart{}
	}
	return l[0].parts
}

type migPlanner struct {
	g        *geometry
	patterns []migCount
	counts   []migCount // what each GPU given holds
	memo     map[migCount]int
	steps    int
}

func (m *migPlanner) index(name string) int {
	for i := range m.g.profiles {
		if m.g.profiles[i].name == name {
			return i
		}
	}
	return -1
}

func (m *migPlanner) read(demand map[string]int64, gpus []MIGGPU) (migCount, error) {
	var want migCount
	total := int64(0)
	for name, n := range demand {
		i := m.index(name)
		if i < 0 || n < 0 {
			return want, fleet.Errorf(fleet.CodeInvalid, "%d instances of profile %q: the model does not have it, or fewer than none", n, name)
		}
		if total += n; n > migInstances || total > migInstances {
			return want, fleet.Errorf(fleet.CodeTooLarge, "more than %d instances", migInstances)
		}
		want[i] = int32(n)
	}
	for _, gpu := range gpus {
		var c migCount
		var used uint16
		compute := int8(0)
		for _, part := range gpu.Instances {
			i := m.index(part.Profile)
			if i < 0 {
				return want, fleet.Errorf(fleet.CodeInvalid, "GPU %q has an instance of profile %q, which the model does not have", gpu.Name, part.Profile)
			}
			q := &m.g.profiles[i]
			ok := false
			for _, s := range q.starts {
				ok = ok || int(s) == part.Start
			}
			if !ok || used&q.mask(int8(part.Start)) != 0 || compute+q.compute > m.g.compute { //nolint:gosec // one of starts
				return want, fleet.Errorf(fleet.CodeInvalid, "GPU %q: %s at slice %d is not possible", gpu.Name, part.Profile, part.Start)
			}
			if part.Busy && gpu.Drained {
				return want, fleet.Errorf(fleet.CodeInvalid, "GPU %q is given as drained, but its %s at slice %d is busy", gpu.Name, part.Profile, part.Start)
			}
			used |= q.mask(int8(part.Start)) //nolint:gosec // one of starts
			compute += q.compute
			c[i]++
		}
		m.counts = append(m.counts, c)
	}
	return want, nil
}

// floor is a number of GPUs that instances need at least: by slices, and by those that cannot share a GPU.
func (m *migPlanner) floor(c migCount) int {
	memory, compute, alone, half := 0, 0, 0, 0
	for i, n := range c {
		if i >= len(m.g.profiles) {
			break
		}
		q := &m.g.profiles[i]
		memory += int(n) * int(q.memory)
		compute += int(n) * int(q.compute)
		switch {
		case 2*q.compute > m.g.compute:
			alone += int(n)
			if q.compute == m.g.compute {
				half += 2 * int(n)
			} else {
				half += int(n)
			}
		case 2*q.memory == m.g.memory && 3*q.compute > m.g.compute:
			half += int(n)
		}
	}
	up := func(a, b int) int { return (a + b - 1) / b }
	return max(up(memory, int(m.g.memory)), up(compute, int(m.g.compute)), alone, up(half, 2))
}

// need is how many GPUs instances need; exact for small sets, for large ones the bulk is cut greedily first.
func (m *migPlanner) need(c migCount) int {
	n := 0
	for c.sum() > 48 {
		p, times := m.bulk(c)
		if times == 0 {
			break
		}
		n += times
		for i := range c {
			c[i] -= p[i] * int32(times) //nolint:gosec // bounded by c
		}
	}
	m.steps = migSteps
	return n + m.cover(c)
}

// bulk is the fullest pattern that all fits a set, the one with the largest instances first, and how often to take it.
func (m *migPlanner) bulk(c migCount) (migCount, int) {
	var best migCount
	most := -1
	for _, p := range m.patterns {
		if !p.fits(c) {
			continue
		}
		worth := 0
		for i, n := range p {
			if n > 0 {
				q := &m.g.profiles[i]
				worth += int(n) * (int(q.memory)*100 + int(q.compute)*100 + int(q.memory)*int(q.compute))
			}
		}
		if worth > most {
			best, most = p, worth
		}
	}
	if most < 0 {
		return best, 0
	}
	times := migInstances
	for i, n := range best {
		if n > 0 {
			times = min(times, int(c[i]/n))
		}
	}
	return best, max(1, times-2)
}

// cover is the fewest GPUs for a set, by branch and bound over the patterns that hold its largest instance.
func (m *migPlanner) cover(c migCount) int {
	if c.sum() == 0 {
		return 0
	}
	if n, ok := m.memo[c]; ok {
		return n
	}
	m.steps--
	floor := m.floor(c)
	best := int(c.sum())
	exact := true
	for _, p := range m.choices(c) {
		if best <= floor {
			break
		}
		if m.steps < 0 && best < int(c.sum()) {
			exact = false
			break
		}
		best = min(best, 1+m.cover(c.less(p)))
	}
	if exact {
		m.memo[c] = best
	}
	return best
}

// choices are the patterns, cut down to a set, that hold the set's largest instance; fullest first, none that another contains.
func (m *migPlanner) choices(c migCount) []migCount {
	top := len(c) - 1
	for c[top] == 0 {
		top--
	}
	var out []migCount
	for _, p := range m.patterns {
		for i := range p {
			p[i] = min(p[i], c[i])
		}
		if p[top] == 0 {
			continue
		}
		beaten := false
		for _, o := range out {
			beaten = beaten || p.fits(o)
		}
		if !beaten {
			out = append(out, p)
		}
	}
	size := func(p migCount) (n int) {
		for i, k := range p {
			if k > 0 {
				n += int(k) * (int(m.g.profiles[i].memory) + int(m.g.profiles[i].compute))
			}
		}
		return n
	}
	sort.SliceStable(out, func(a, b int) bool { return size(out[a]) > size(out[b]) })
	return out
}

// result is what keeping some drained GPUs as they are leads to: new GPUs, then GPUs cut anew.
func (m *migPlanner) result(want migCount, drained, kept int) [2]int {
	n := m.need(want)
	return [2]int{max(0, n-(drained-kept)), min(n, drained-kept)}
}

// chooseKept chooses which drained GPUs keep their layout: all choices where they are few, else as many of each layout as does no harm.
func (m *migPlanner) chooseKept(want migCount, drained []int) map[int]bool {
	best, kept := m.result(want, len(drained), 0), map[int]bool{}
	better := func(v [2]int) bool { return v[0] < best[0] || (v[0] == best[0] && v[1] < best[1]) }
	if len(drained) <= 8 {
		for set := 1; set < 1<<len(drained); set++ {
			left, n := want, 0
			for b, i := range drained {
				if set>>b&1 == 1 {
					left, n = left.less(m.counts[i]), n+1
				}
			}
			if v := m.result(left, len(drained), n); better(v) {
				best, kept = v, map[int]bool{}
				for b, i := range drained {
					kept[i] = set>>b&1 == 1
				}
			}
		}
		return kept
	}
	alike := map[migCount][]int{}
	var order []migCount
	for _, i := range drained {
		if c := m.counts[i]; c.sum() > 0 {
			if alike[c] == nil {
				order = append(order, c)
			}
			alike[c] = append(alike[c], i)
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return len(alike[order[a]]) > len(alike[order[b]]) })
	n := 0
	for _, c := range order {
		for take := len(alike[c]); take > 0; take /= 2 {
			left := want
			for range take {
				left = left.less(c)
			}
			if v := m.result(left, len(drained), n+take); better(v) {
				best, want, n = v, left, n+take
				for _, i := range alike[c][:take] {
					kept[i] = true
				}
				break
			}
		}
	}
	return kept
}

// plan writes the layouts down.
func (m *migPlanner) plan(want migCount, gpus []MIGGPU, drained []int, keep map[int]bool, most int) *MIGPlan {
	out := &MIGPlan{Missing: map[string]int64{}, Bound: max(0, m.floor(want)-len(drained))}
	free := []int{}
	for _, i := range drained {
		if keep[i] {
			want = want.less(m.counts[i])
		} else {
			free = append(free, i)
		}
	}
	for i := range gpus {
		out.Layouts = append(out.Layouts, MIGLayout{GPU: i, Instances: gpus[i].Instances})
	}
	for want.sum() > 0 {
		p := m.next(want)
		if len(free) == 0 && out.New >= most {
			break
		}
		want = want.less(p)
		l := MIGLayout{GPU: -1, Changed: true}
		for _, part := range m.g.layout(p) {
			l.Instances = append(l.Instances, MIGInstance{Profile: part.profile.name, Start: int(part.start)})
		}
		sort.Slice(l.Instances, func(a, b int) bool { return l.Instances[a].Start < l.Instances[b].Start })
		if len(free) > 0 {
			l.GPU, free = free[0], free[1:]
			out.Layouts[l.GPU] = l
			out.Changed++
			continue
		}
		out.New++
		out.Layouts = append(out.Layouts, l)
	}
	for i, n := range want {
		if n > 0 {
			out.Missing[m.g.profiles[i].name] = int64(n)
		}
	}
	for i := range gpus {
		if !out.Layouts[i].Changed && gpus[i].Drained && !keep[i] {
			out.Idle = append(out.Idle, i)
		}
	}
	return out
}

// next is the pattern to cut next on the way to the fewest GPUs.
func (m *migPlanner) next(c migCount) migCount {
	if c.sum() > 48 {
		if p, times := m.bulk(c); times > 0 {
			return p
		}
	}
	m.steps = migSteps
	goal := m.cover(c)
	choices := m.choices(c)
	for _, p := range choices {
		m.steps = migSteps
		if 1+m.cover(c.less(p)) <= goal {
			return p
		}
	}
	return choices[0]
}

// MIGFragmentation tells how badly the free slices of a GPU lie: one minus the memory slices of the largest instance that could be made
// beside the busy ones over all free memory slices, in thousandths; zero if nothing is free. Errors as PlanMIG.
func MIGFragmentation(model fleet.GPUModel, gpu MIGGPU) (int64, error) {
	g := geometries[model]
	if g == nil {
		return 0, fleet.Errorf(fleet.CodeInvalid, "GPU model %q has no MIG or is not known", model)
	}
	m := &migPlanner{g: g}
	if _, err := m.read(nil, []MIGGPU{gpu}); err != nil {
		return 0, err
	}
	var used uint16
	compute, memory := int8(0), int64(0)
	for _, part := range gpu.Instances {
		if part.Busy {
			q := g.profile(part.Profile)
			used |= q.mask(int8(part.Start)) //nolint:gosec // checked by read
			compute += q.compute
			memory += int64(q.memory)
		}
	}
	free, largest := int64(g.memory)-memory, int64(0)
	for i := range g.profiles {
		q := &g.profiles[i]
		for _, s := range q.starts {
			if used&q.mask(s) == 0 && compute+q.compute <= g.compute {
				largest = max(largest, int64(q.memory))
			}
		}
	}
	if free == 0 {
		return 0, nil
	}
	return 1000 - 1000*largest/free, nil
}
