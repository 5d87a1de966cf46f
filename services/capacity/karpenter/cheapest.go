package karpenter

import (
	"cmp"
	"slices"

	"plimsoll.dev/services/fleet"
)

// useful counts what an offering brings: its GPUs, or without any its CPU and an eighth of its memory, at which a machine with 8 GiB per core counts twice.
func (in *Input) useful(j int) int64 {
	o := &in.Offerings[j]
	if o.GPUCount > 0 {
		return o.GPUCount
	}
	return max(o.CPUMilli+o.MemMiB/8, 1)
}

// dearness is the price of a million useful units.
func (in *Input) dearness(j int) fleet.Money { return in.price(j).MulDiv(1_000_000, in.useful(j)) }

// kindOfType is what a pod may insist on: types of another kind are no substitute.
type kindOfType struct {
	model fleet.GPUModel
	arch  string
}

// cheapest are the instance types of the offerings, sorted, at most so many. Where there are more, those with the least price per useful unit are kept, each
// GPU model and architecture in turn, and of each the one with the most memory and the one with the most CPU: a pod that fits on no other would wait.
func (in *Input) cheapest(offs []int, most int) []string {
	best := map[string]int{} // offering by type
	for _, j := range offs {
		name := in.Offerings[j].InstanceType
		if k, ok := best[name]; !ok || in.dearness(j) < in.dearness(k) {
			best[name] = j
		}
	}
	out := make([]string, 0, len(best))
	if len(best) <= most {
		for name := range best {
			out = append(out, name)
		}
		slices.Sort(out)
		return out
	}
	var kinds []kindOfType
	of := map[kindOfType][]int{}
	for _, j := range best {
		k := kindOfType{in.Offerings[j].GPUModel, in.Offerings[j].Arch}
		of[k] = append(of[k], j)
	}
	for k, list := range of {
		kinds = append(kinds, k)
		of[k] = in.inTurn(list)
	}
	slices.SortFunc(kinds, func(a, b kindOfType) int {
		return cmp.Or(cmp.Compare(in.dearness(of[a][0]), in.dearness(of[b][0])), cmp.Compare(a.model, b.model), cmp.Compare(a.arch, b.arch))
	})
	for round := 0; len(out) < most; round++ {
		for _, k := range kinds {
			if round < len(of[k]) && len(out) < most {
				out = append(out, in.Offerings[of[k][round]].InstanceType)
			}
		}
	}
	slices.Sort(out)
	return out
}

// inTurn sorts offerings of one kind as they are kept: the cheapest, the one with the most memory, the one with the most CPU, then by price per unit.
func (in *Input) inTurn(list []int) []int {
	name := func(a, b int) int { return cmp.Compare(in.Offerings[a].InstanceType, in.Offerings[b].InstanceType) }
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(in.dearness(a), in.dearness(b)), name(a, b)) })
	most := func(of func(j int) int64) int {
		return slices.MaxFunc(slices.Clone(list), func(a, b int) int {
			return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(in.dearness(b), in.dearness(a)), name(b, a))
		})
	}
	mem, cpu := most(func(j int) int64 { return in.Offerings[j].MemMiB }), most(func(j int) int64 { return in.Offerings[j].CPUMilli })
	out := []int{list[0]}
	for _, j := range append([]int{mem, cpu}, list...) {
		if !slices.Contains(out[:min(len(out), 3)], j) {
			out = append(out, j)
		}
	}
	return out
}
