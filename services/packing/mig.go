package packing

import (
	"sort"

	"plimsoll.dev/services/fleet"
)

// profile is a MIG instance on a model: how many compute and memory slices it takes and at which memory slices it may begin. The
// figures are those of NVIDIA's MIG user guide ("Supported MIG Profiles" and the placements that nvidia-smi mig -lgipp prints).
type profile struct {
	name    string
	compute int8
	memory  int8
	starts  []int8
}

// geometry is a kind of GPU that MIG can cut.
type geometry struct {
	compute, memory int8
	profiles        []profile
}

// seven is the geometry of the models with 7 compute and 8 memory slices; the names of the profiles tell the memory.
func seven(one, oneDouble, two, three, four, whole string) *geometry {
	g := &geometry{compute: 7, memory: 8, profiles: []profile{
		{one, 1, 1, []int8{0, 1, 2, 3, 4, 5, 6}},
		{oneDouble, 1, 2, []int8{0, 2, 4, 6}},
		{two, 2, 2, []int8{0, 2, 4}},
		{three, 3, 4, []int8{0, 4}},
		{four, 4, 4, []int8{0}},
		{whole, 7, 8, []int8{0}},
	}}
	return g
}

var (
	migA30     = &geometry{compute: 4, memory: 4, profiles: []profile{{"1g.6gb", 1, 1, []int8{0, 1, 2, 3}}, {"2g.12gb", 2, 2, []int8{0, 2}}, {"4g.24gb", 4, 4, []int8{0}}}}
	migA100x40 = seven("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
	mig80      = seven("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
	mig94      = seven("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb")
	mig96      = seven("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb")
	migH200    = seven("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")
	migB200    = seven("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb")
)

var geometries = map[fleet.GPUModel]*geometry{
	"A30": migA30, "A100": migA100x40, "A100-40": migA100x40, "A100-80": mig80, "H100": mig80, "H100-80": mig80, "H100-94": mig94,
	"H100-NVL": mig94, "GH200": mig96, "H200": migH200, "B200": migB200,
}

// MIGProfiles are the profiles of a GPU model, largest first; nil if the model has no MIG or is not known.
func MIGProfiles(m fleet.GPUModel) []string {
	g := geometries[m]
	if g == nil {
		return nil
	}
	var out []string
	for i := len(g.profiles) - 1; i >= 0; i-- {
		out = append(out, g.profiles[i].name)
	}
	return out
}

func (g *geometry) profile(name string) *profile {
	if g == nil {
		return nil
	}
	for i := range g.profiles {
		if g.profiles[i].name == name {
			return &g.profiles[i]
		}
	}
	return nil
}

func knownProfile(name string) bool {
	for _, g := range geometries {
		if g.profile(name) != nil {
			return true
		}
	}
	return false
}

// migNeed is the least share of a GPU that an instance of a profile takes on any model, in thousandths of its memory and compute slices.
func migNeed(name string) (memory, compute int32) {
	memory, compute = 1000, 1000
	for _, g := range geometries {
		if q := g.profile(name); q != nil {
			memory = min(memory, int32(q.memory)*1000/int32(g.memory))
			compute = min(compute, int32(q.compute)*1000/int32(g.compute))
		}
	}
	return memory, compute
}

// mask is which memory slices a profile takes from a start.
func (q *profile) mask(start int8) uint16 { return (1<<q.memory - 1) << start }

// onGPUs puts instances (profile by profile, so many of each) on GPUs; whole GPUs are taken beforehand. It returns which GPUs hold what, or
// whether that was proven impossible or only not found within the steps.
func (g *geometry) onGPUs(want []migAsk, gpus int32, steps int) ([]gpuLayout, int) {
	var list []*profile
	memory, compute := int32(0), int32(0)
	sort.SliceStable(want, func(a, b int) bool {
		if want[a].profile.memory != want[b].profile.memory {
			return want[a].profile.memory > want[b].profile.memory
		}
		return want[a].profile.compute > want[b].profile.compute
	})
	for _, w := range want {
		memory += int32(w.profile.memory) * w.n
		compute += int32(w.profile.compute) * w.n
		if memory > int32(g.memory)*gpus || compute > int32(g.compute)*gpus {
			return nil, gpusDoNot
		}
		for range w.n {
			list = append(list, w.profile)
		}
	}
	s := &migSearch{g: g, list: list, gpus: make([]gpuLayout, gpus), steps: steps}
	v := s.place(0, 0, -1)
	return s.gpus, v
}

type migAsk struct {
	profile *profile
	n       int32
}

// gpuLayout is what one GPU is cut into.
type gpuLayout struct {
	used    uint16 // memory slices
	compute int8
	parts   []migPart
}

type migPart struct {
	profile *profile
	start   int8
}

type migSearch struct {
	g     *geometry
	list  []*profile // largest first
	gpus  []gpuLayout
	steps int
}

// place puts list[i:]; equal instances go to GPUs and starts in rising order, and GPUs that look alike are tried once.
func (s *migSearch) place(i, fromGPU int, fromStart int8) int {
	if i == len(s.list) {
		return gpusFit
	}
	if s.steps--; s.steps < 0 {
		return gpusUnknown
	}
	q := s.list[i]
	if i > 0 && s.list[i-1] != q {
		fromGPU, fromStart = 0, -1
	}
	type look struct {
		used    uint16
		compute int8
	}
	var seen [16]look
	tried := 0
	verdict := gpusDoNot
	for n := fromGPU; n < len(s.gpus); n++ {
		l := &s.gpus[n]
		if n > fromGPU || fromStart < 0 {
			alike := false
			for _, k := range seen[:tried] {
				alike = alike || k == look{l.used, l.compute}
			}
			if alike {
				continue
			}
			if tried < len(seen) {
				seen[tried] = look{l.used, l.compute}
				tried++
			}
		}
		if l.compute+q.compute > s.g.compute {
			continue
		}
		for k := len(q.starts) - 1; k >= 0; k-- { // from the end: the only place of a larger instance stays free
			start := q.starts[k]
			if l.used&q.mask(start) != 0 || (n == fromGPU && fromStart >= 0 && start > fromStart) {
				continue
			}
			l.used |= q.mask(start)
			l.compute += q.compute
			l.parts = append(l.parts, migPart{q, start})
			v := s.place(i+1, n, start)
			if v == gpusFit {
				return v
			}
			l.used &^= q.mask(start)
			l.compute -= q.compute
			l.parts = l.parts[:len(l.parts)-1]
			if v == gpusUnknown {
				verdict = v
				if s.steps < 0 {
					return v
				}
			}
		}
	}
	return verdict
}
