package focus

import (
	"math/big"
	"slices"
)

// splitRules are about single rows of a split.
var splitRules = []Rule{
	{ID: "AllocatedMethodDetails.elements", Source: "FOCUS 1.3", Text: "AllocatedMethodDetails lists at least one element, each with an AllocatedRatio", row: func(v *view) string {
		if v.null(AllocatedMethodDetails) {
			return ""
		}
		d, ok := v.details()
		if !ok || len(d.Elements) == 0 {
			return "no elements"
		}
		for _, e := range d.Elements {
			if number(e.AllocatedRatio.String()) == nil {
				return "an element without a ratio"
			}
		}
		return ""
	}},
	{ID: "AllocatedMethodDetails.keys", Source: "FOCUS 1.3", Text: "keys of AllocatedMethodDetails are those of FOCUS or start with x_", row: func(v *view) string {
		m, ok := readObject(v.Row[AllocatedMethodDetails])
		if !ok {
			return ""
		}
		if k := unknownKey(m, []string{"Elements"}); k != "" {
			return k
		}
		list, _ := m["Elements"].([]any)
		for _, e := range list {
			if o, ok := e.(map[string]any); ok {
				if k := unknownKey(o, []string{"AllocatedRatio", "UsageUnit", "UsageQuantity"}); k != "" {
					return k
				}
			}
		}
		return ""
	}},
	{ID: "AllocatedMethodDetails.unit_of_quantity", Source: "FOCUS 1.3", Text: "an element with a UsageQuantity has a UsageUnit", row: func(v *view) string {
		d, _ := v.details()
		for _, e := range d.Elements {
			if e.UsageQuantity != nil && (e.UsageUnit == nil || *e.UsageUnit == "") {
				return "a quantity without a unit"
			}
		}
		return ""
	}},
	{ID: "AllocatedMethodDetails.units", Source: "FOCUS 1.3", Text: "a UsageUnit is written like any unit", row: func(v *view) string {
		d, _ := v.details()
		for _, e := range d.Elements {
			if e.UsageUnit != nil && *e.UsageUnit != "" && !unitPattern.MatchString(*e.UsageUnit) {
				return quoted(*e.UsageUnit)
			}
		}
		return ""
	}},
	{ID: "AllocatedTags.include_tags", Source: "FOCUS 1.3", Text: "AllocatedTags include the keys and values of Tags", row: func(v *view) string {
		tags, ok := readObject(v.Row[Tags])
		mine, ok2 := readObject(v.Row[AllocatedTags])
		if !ok || !ok2 {
			return ""
		}
		for k, value := range tags {
			if got, ok := mine[k]; !ok || got != value {
				return "key " + quoted(k)
			}
		}
		return ""
	}},
	{ID: "x_CostKind.values", Source: "Plimsoll", Text: "x_CostKind is one of the ledger's kinds", row: func(v *view) string {
		if !v.null(XCostKind) && !slices.Contains([]string{"workload", "idle", "overhead", "residual", "commitment_unused"}, v.Row[XCostKind]) {
			return quoted(v.Row[XCostKind])
		}
		return ""
	}},
	{ID: "EffectiveCost.resources", Source: "Plimsoll", Text: "x_CpuCost, x_MemoryCost and x_GpuCost of a split row add up to EffectiveCost", row: func(v *view) string {
		cpu, memory, gpu, all := number(v.Row[XCPUCost]), number(v.Row[XMemoryCost]), number(v.Row[XGPUCost]), number(v.Row[EffectiveCost])
		if cpu == nil || memory == nil || gpu == nil || all == nil {
			return ""
		}
		if sum := cpu.Add(cpu, memory); sum.Add(sum, gpu).Cmp(all) != 0 {
			return sum.FloatString(9) + " is not " + v.Row[EffectiveCost]
		}
		return ""
	}},
}

// origin gathers the allocated charges of one origin charge.
type origin struct {
	line   int // of its first row
	first  Row
	sums   [len(summed)]big.Rat
	ratio  big.Rat
	change Col // a column that differs between its rows; -1: none
}

// summed are the metrics whose sum over allocated charges is the origin's, with where our files keep that.
var summed = [...]struct{ metric, whole Col }{
	{BilledCost, XOriginBilledCost}, {ContractedCost, XOriginContractedCost}, {EffectiveCost, XOriginEffectiveCost},
	{ListCost, XOriginListCost}, {PricingQuantity, XOriginPricingQuantity}, {ConsumedQuantity, XOriginPricingQuantity},
}

// own are the columns in which allocated charges of one origin differ.
var own = func() (list [numCols]bool) {
	for _, c := range []Col{AllocatedMethodDetails, AllocatedResourceID, AllocatedResourceName, AllocatedTags, CommitmentDiscountQuantity, XCostKind, XCPUCost, XMemoryCost,
		XGPUCost, XNamespace, XTeam, XWorkloadID} {
		list[c] = true
	}
	for _, s := range summed {
		list[s.metric] = true
	}
	return list
}()

func (o *origin) add(v *view) {
	for i, s := range summed {
		if n := number(v.Row[s.metric]); n != nil {
			o.sums[i].Add(&o.sums[i], n)
		}
	}
	d, _ := v.details()
	for _, e := range d.Elements {
		if n := number(e.AllocatedRatio.String()); n != nil {
			o.ratio.Add(&o.ratio, n)
		}
	}
	for c := range numCols {
		if o.change < 0 && !own[c] && v.Row[c] != o.first[c] {
			o.change = c
		}
	}
}

// sumRules are about all allocated charges of an origin.
var sumRules = func() (list []Rule) {
	for i, s := range summed {
		list = append(list, Rule{ID: s.metric.String() + ".sum_of_split", Source: "FOCUS 1.3",
			Text: s.metric.String() + " of the allocated charges adds up to the origin charge's exactly", sums: func(o *origin) string {
				if whole := number(o.first[s.whole]); whole != nil && whole.Cmp(&o.sums[i]) != 0 {
					return o.sums[i].FloatString(12) + " is not " + o.first[s.whole]
				}
				return ""
			}})
	}
	return append(list,
		Rule{ID: "AllocatedMethodDetails.ratios", Source: "FOCUS 1.3", Text: "the ratios of all allocated charges of an origin charge add up to 1 exactly", sums: func(o *origin) string {
			if o.ratio.Cmp(big.NewRat(1, 1)) != 0 {
				return "they add up to " + o.ratio.FloatString(12)
			}
			return ""
		}},
		Rule{ID: "dimensions.same_in_split", Source: "FOCUS 1.3", Text: "dimensions and unit prices of allocated charges are the origin charge's", sums: func(o *origin) string {
			if o.change >= 0 {
				return o.change.String() + " differs"
			}
			return ""
		}})
}()
