package ledger

import (
	"strings"

	"plimsoll.dev/services/fleet"
)

// GPUMode says how the GPUs of a group are given out.
type GPUMode string

// Modes. Each GPU of a node is in exactly one of them.
const (
	GPUWhole      GPUMode = "whole"      // one holder per GPU, or fractions that a scheduler keeps
	GPUSliced     GPUMode = "mig"        // cut into instances of their own compute and memory
	GPUTimeSliced GPUMode = "time_slice" // Replicas holders take turns
	GPUMPS        GPUMode = "mps"        // Replicas holders at the same time
)

// GPUGroup is GPUs of a node that are given out in the same way. With Device it is one GPU that is known by its UUID.
type GPUGroup struct {
	Device    string
	Mode      GPUMode
	Count     int
	Replicas  int           // how many shares of one GPU the device plugin gives out; 0 is 1
	Instances []GPUInstance // of all GPUs of the group together, held or not
}

// GPUInstance is a MIG profile, such as 1g.10gb, and how often it is there.
type GPUInstance struct {
	Profile string
	Count   int
}

// GPUShare is what a container holds of the GPUs of its node. Without a profile and without thousandths it is Count times what the
// group gives out: a GPU, a turn, an instance.
type GPUShare struct {
	Device    string // UUID of the GPU; empty: nobody knows which
	Profile   string // of a MIG instance
	Count     int    // 0 is 1
	CoreMilli int64  // of one GPU: active threads, or cores of a fraction
	MemMilli  int64  // of one GPU's memory
}

// migSlice is an instance as the driver counts it: compute slices of a GPU's 7 (or 4), memory slices of its 8 (or 4).
type migSlice struct{ compute, computeOf, memory, memoryOf int64 }

// migFamilies names the profiles of each model, smallest first, as NVIDIA's MIG user guide lists them: of sevenths 1g, 1g with twice
// the memory, 2g, 3g, 4g and 7g; of quarters 1g, 2g and 4g.
var migFamilies = map[fleet.GPUModel][][]string{
	"A100-40GB": {{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}},
	"A100-80GB": {{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}},
	"H100":      {{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}, {"1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}},
	"GH200":     {{"1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"}, {"1g.18gb", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"}},
	"H200":      {{"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}},
	"B200":      {{"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}},
	"A30":       {{"1g.6gb", "2g.12gb", "4g.24gb"}},
}

var (
	sevenths = []migSlice{{1, 7, 1, 8}, {1, 7, 2, 8}, {2, 7, 2, 8}, {3, 7, 4, 8}, {4, 7, 4, 8}, {7, 7, 8, 8}}
	quarters = []migSlice{{1, 4, 1, 4}, {2, 4, 2, 4}, {4, 4, 4, 4}}
)

// sliceOf looks a profile up. One that the model's table does not have counts by its compute slices, with the memory that a profile
// of so many has on every model so far.
func sliceOf(model fleet.GPUModel, profile string) (migSlice, bool) {
	profile, _, _ = strings.Cut(profile, "+") // media extensions and graphics are not parts of the price
	profile = strings.TrimSuffix(strings.TrimSuffix(profile, ".me"), ".gfx")
	for _, family := range migFamilies[model] {
		for i, name := range family {
			if name == profile {
				if len(family) == len(quarters) {
					return quarters[i], true
				}
				return sevenths[i], true
			}
		}
	}
	if len(profile) < 2 || profile[1] != 'g' {
		return migSlice{}, false
	}
	for _, i := range []int{0, 2, 3, 4, 5} {
		if s := sevenths[i]; int64(profile[0]-'0') == s.compute {
			return s, true
		}
	}
	return migSlice{}, false
}

// partsPerGPU are the units that a GPU is counted in: the least common multiple of 1000 (thousandths), 7 and 8 (MIG), and 9 and 16,
// so that all usual shares are whole numbers. A node whose GPUs are given out in shares that do not divide it uses a multiple.
const partsPerGPU = 126_000

// Bounds of GPUs: more than any machine has, and few enough that no product here leaves an int64.
const (
	maxGPUs     = 128
	maxReplicas = 64
)

// partsOf is the number of units that one GPU of the groups has.
func partsOf(groups []GPUGroup) int64 {
	parts := int64(partsPerGPU)
	for _, g := range groups {
		r := g.replicas()
		if next := parts / gcd(parts, r) * r; next <= partsPerGPU*maxReplicas {
			parts = next
		}
	}
	return parts
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (g GPUGroup) replicas() int64 { return min(max(int64(g.Replicas), 1), maxReplicas) }

func (g GPUGroup) gpus() int64 { return min(max(int64(g.Count), 0), maxGPUs) }

// units of an instance: the larger of its shares of compute and memory.
func (s migSlice) units(parts int64) int64 {
	return max(parts*s.compute/s.computeOf, parts*s.memory/s.memoryOf)
}

// layout is what a group consists of, in units.
type layout struct {
	bought    int64 // what was paid for: the GPUs
	supply    int64 // what that is divided over: more than bought where instances overlap, see below
	fragment  int64 // part of supply that no instance has yet, though one could be made
	computeIn float64
	memoryIn  float64 // GPUs' worth of compute and of memory that no instance can use any more
}

// layoutOf measures a group. Some layouts have more units than GPUs, because an instance counts with the larger of its two shares: 4g.40gb
// and 3g.40gb fill an H100 and count 4/7 + 1/2. There all instances together are the supply, and each pays its part of it.
func layoutOf(model fleet.GPUModel, g GPUGroup, parts int64) layout {
	l := layout{bought: g.gpus() * parts}
	l.supply = l.bought
	if g.Mode != GPUSliced || len(g.Instances) == 0 {
		return l
	}
	var cut, compute, memory int64
	of := sevenths[0]
	for _, i := range g.Instances {
		s, ok := sliceOf(model, i.Profile)
		if !ok {
			continue
		}
		n := min(max(int64(i.Count), 0), 8*maxGPUs)
		of = s
		cut, compute, memory = cut+n*s.units(parts), compute+n*s.compute, memory+n*s.memory
	}
	l.supply = max(l.bought, cut)
	freeCompute, freeMemory := max(g.gpus()*of.computeOf-compute, 0), max(g.gpus()*of.memoryOf-memory, 0)
	more := min(freeCompute, freeMemory) // smallest instances that could still be made
	l.fragment = max(l.bought-cut, 0)
	l.computeIn = float64(freeCompute-more) / float64(of.computeOf)
	l.memoryIn = float64(freeMemory-more) / float64(of.memoryOf)
	return l
}

// groupFor finds the group of a node that a share is of: by the GPU it names, else by what the group gives out.
func groupFor(groups []GPUGroup, s GPUShare) int {
	best, points := 0, -1
	for i, g := range groups {
		p := 0
		switch {
		case s.Device != "" && s.Device == g.Device:
			p = 8
		case s.Profile != "" && g.Mode == GPUSliced:
			p = 2
			for _, in := range g.Instances {
				if in.Profile == s.Profile {
					p = 4
				}
			}
		case s.Profile == "" && (s.CoreMilli > 0 || s.MemMilli > 0) && g.Mode == GPUMPS:
			p = 3
		case s.Profile == "" && g.Mode != GPUSliced:
			p = 2
		}
		if p > points {
			best, points = i, p
		}
	}
	return best
}

// units that a share is of one of a group's GPUs, all of its count together.
func (s GPUShare) units(model fleet.GPUModel, g GPUGroup, parts int64) int64 {
	n := min(max(int64(s.Count), 1), 8*maxGPUs)
	slice, ok := sliceOf(model, s.Profile)
	switch {
	case s.CoreMilli > 0 || s.MemMilli > 0:
		return n * (min(max(s.CoreMilli, s.MemMilli), 1000) * parts / 1000)
	case ok:
		return n * slice.units(parts)
	case g.Mode == GPUSliced && len(g.Instances) > 0: // the plugin gives out instances under the name of GPUs
		if slice, ok = sliceOf(model, g.Instances[0].Profile); ok {
			return n * slice.units(parts)
		}
	}
	return min(n, maxGPUs*g.replicas()) * (parts / g.replicas())
}
