package focus

import (
	"slices"
	"strings"
)

// priceRules are about what was priced and what it cost.
var priceRules = []Rule{
	{ID: "ListCost.product", Source: "FOCUS 1.2", Text: "ListCost is ListUnitPrice times PricingQuantity, except in corrections", row: func(v *view) string {
		return product(v, ListCost, ListUnitPrice)
	}},
	{ID: "ContractedCost.product", Source: "FOCUS 1.2", Text: "ContractedCost is ContractedUnitPrice times PricingQuantity, except in corrections", row: func(v *view) string {
		return product(v, ContractedCost, ContractedUnitPrice)
	}},
	required("ListUnitPrice", ListUnitPrice, (*view).charge, "usage and purchases that correct nothing"),
	required("ContractedUnitPrice", ContractedUnitPrice, (*view).charge, "usage and purchases that correct nothing"),
	required("PricingQuantity", PricingQuantity, (*view).charge, "usage and purchases that correct nothing"),
	required("PricingUnit", PricingUnit, (*view).charge, "usage and purchases that correct nothing"),
	required("PricingCategory", PricingCategory, (*view).charge, "usage and purchases that correct nothing"),
	required("SkuId", SkuID, (*view).charge, "usage and purchases that correct nothing"),
	required("SkuPriceId", SkuPriceID, (*view).charge, "usage and purchases that correct nothing"),
	required("ConsumedQuantity", ConsumedQuantity, func(v *view) bool {
		return v.Row[ChargeCategory] == "Usage" && v.Row[ChargeClass] != "Correction" && !v.unused()
	}, "usage that is not an unused commitment"),
	forbidden("ConsumedQuantity", "null_outside_usage", ConsumedQuantity, func(v *view) bool { return !v.null(ChargeCategory) && v.Row[ChargeCategory] != "Usage" }, "charges that are no usage"),
	forbidden("ConsumedQuantity", "null_when_unused", ConsumedQuantity, func(v *view) bool { return v.Row[CommitmentDiscountStatus] == "Unused" }, "what is unused of a commitment"),
	forbidden("ListUnitPrice", "null_for_tax", ListUnitPrice, tax, "taxes"),
	forbidden("ContractedUnitPrice", "null_for_tax", ContractedUnitPrice, tax, "taxes"),
	forbidden("PricingQuantity", "null_for_tax", PricingQuantity, tax, "taxes"),
	forbidden("PricingCategory", "null_for_tax", PricingCategory, tax, "taxes"),
	forbidden("SkuPriceId", "null_for_tax", SkuPriceID, tax, "taxes"),
	notNegative(ListUnitPrice), notNegative(ContractedUnitPrice), notNegative(PricingCurrencyListUnitPrice), notNegative(PricingCurrencyContractedUnitPrice),
	{ID: "ChargeFrequency.purchase", Source: "FOCUS 1.2", Text: "a purchase is not Usage-Based", row: func(v *view) string {
		if v.Row[ChargeCategory] == "Purchase" && v.Row[ChargeFrequency] == "Usage-Based" {
			return "a purchase is Usage-Based"
		}
		return ""
	}},
	{ID: "EffectiveCost.purchase", Source: "FOCUS 1.2", Text: "EffectiveCost of a purchase that covers later charges is 0", row: func(v *view) string {
		if n := number(v.Row[EffectiveCost]); v.Row[ChargeCategory] == "Purchase" && !v.null(CommitmentDiscountID) && n != nil && n.Sign() != 0 {
			return v.Row[EffectiveCost]
		}
		return ""
	}},
	{ID: "EffectiveCost.tax", Source: "FOCUS 1.2", Text: "EffectiveCost of a tax is its BilledCost", row: func(v *view) string {
		e, b := number(v.Row[EffectiveCost]), number(v.Row[BilledCost])
		if tax(v) && e != nil && b != nil && e.Cmp(b) != 0 {
			return v.Row[EffectiveCost] + " is not " + v.Row[BilledCost]
		}
		return ""
	}},
	{ID: "ServiceSubcategory.of_category", Source: "FOCUS 1.2", Text: "ServiceSubcategory of Compute is one of that category's", row: func(v *view) string {
		if v.Row[ServiceCategory] == "Compute" && !v.null(ServiceSubcategory) && !slices.Contains(computeKinds, v.Row[ServiceSubcategory]) {
			return quoted(v.Row[ServiceSubcategory])
		}
		return ""
	}},
	{ID: "SkuPriceDetails.keys", Source: "FOCUS 1.2", Text: "keys of SkuPriceDetails are those of FOCUS or start with x_", row: func(v *view) string {
		m, ok := readObject(v.Row[SkuPriceDetails])
		if !ok {
			return ""
		}
		return unknownKey(m, skuKeys)
	}},
	flat(SkuPriceDetails), flat(Tags), flat(AllocatedTags),
}

var computeKinds = []string{"Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines", "Other (Compute)"}

var skuKeys = []string{"CoreCount", "DiskMaxIops", "DiskSpace", "DiskType", "GpuCount", "InstanceSeries", "InstanceType", "MemorySize", "NetworkMaxIops",
	"NetworkMaxThroughput", "OperatingSystem", "Redundancy", "StorageClass"}

func unknownKey(m map[string]any, known []string) string {
	for k := range m {
		if !slices.Contains(known, k) && !strings.HasPrefix(k, "x_") {
			return quoted(k)
		}
	}
	return ""
}

func tax(v *view) bool { return v.Row[ChargeCategory] == "Tax" }

func product(v *view, cost, price Col) string {
	if v.Row[ChargeClass] == "Correction" || isProduct(v.Row[cost], v.Row[price], v.Row[PricingQuantity], v.Row[XOriginPricingQuantity]) {
		return ""
	}
	return v.Row[cost] + " is not " + v.Row[price] + " times " + v.Row[PricingQuantity]
}

func required(name string, c Col, when func(*view) bool, what string) Rule {
	return Rule{ID: name + ".required", Source: "FOCUS 1.2", Text: name + " has a value in " + what, row: func(v *view) string {
		if v.has[c] && when(v) && v.null(c) {
			return "is null"
		}
		return ""
	}}
}

func forbidden(name, id string, c Col, when func(*view) bool, what string) Rule {
	return Rule{ID: name + "." + id, Source: "FOCUS 1.2", Text: name + " is null in " + what, row: func(v *view) string {
		if when(v) && !v.null(c) {
			return quoted(v.Row[c])
		}
		return ""
	}}
}

func notNegative(c Col) Rule {
	return Rule{ID: c.String() + ".not_negative", Source: "FOCUS 1.2", Text: c.String() + " is not below 0", row: func(v *view) string {
		if n := number(v.Row[c]); n != nil && n.Sign() < 0 {
			return v.Row[c]
		}
		return ""
	}}
}

// flat is the rule that key-values hold no objects or lists.
func flat(c Col) Rule {
	return Rule{ID: c.String() + ".flat", Source: "FOCUS 1.2", Text: "values of " + c.String() + " are text, numbers, true, false or null", row: func(v *view) string {
		m, _ := readObject(v.Row[c])
		for k, value := range m {
			switch value.(type) {
			case map[string]any, []any:
				return "key " + quoted(k)
			}
		}
		return ""
	}}
}

// commitmentRules are about what was paid already.
var commitmentRules = []Rule{
	{ID: "CommitmentDiscountStatus.usage", Source: "FOCUS 1.2", Text: "CommitmentDiscountStatus has a value in usage of a commitment", row: func(v *view) string {
		if v.has[CommitmentDiscountStatus] && v.Row[ChargeCategory] == "Usage" && !v.null(CommitmentDiscountID) && v.null(CommitmentDiscountStatus) {
			return "is null"
		}
		return ""
	}},
	{ID: "CapacityReservationStatus.usage", Source: "FOCUS 1.2", Text: "CapacityReservationStatus has a value in usage of a reservation", row: func(v *view) string {
		if v.has[CapacityReservationStatus] && v.Row[ChargeCategory] == "Usage" && !v.null(CapacityReservationID) && v.null(CapacityReservationStatus) {
			return "is null"
		}
		return ""
	}},
	{ID: "CommitmentDiscountQuantity.required", Source: "FOCUS 1.2", Text: "CommitmentDiscountQuantity has a value in usage and purchases of a commitment that correct nothing", row: func(v *view) string {
		if v.has[CommitmentDiscountQuantity] && v.charge() && !v.null(CommitmentDiscountID) && v.null(CommitmentDiscountQuantity) {
			return "is null"
		}
		return ""
	}},
	{ID: "CommitmentDiscountStatus.unused_is_usage", Source: "FOCUS 1.2", Text: "what is unused of a commitment is a usage", row: func(v *view) string {
		if v.Row[CommitmentDiscountStatus] == "Unused" && v.Row[ChargeCategory] != "Usage" {
			return quoted(v.Row[ChargeCategory])
		}
		return ""
	}},
	{ID: "CommitmentDiscountStatus.unused_resource", Source: "FOCUS 1.2", Text: "ResourceId of what is unused of a commitment is the commitment's", row: func(v *view) string {
		if v.Row[CommitmentDiscountStatus] == "Unused" && v.has[ResourceID] && v.Row[ResourceID] != v.Row[CommitmentDiscountID] {
			return quoted(v.Row[ResourceID])
		}
		return ""
	}},
	{ID: "PricingCategory.committed", Source: "FOCUS 1.2", Text: "usage of a commitment is Committed", row: func(v *view) string {
		if v.Row[ChargeCategory] == "Usage" && !v.null(CommitmentDiscountID) && !v.null(PricingCategory) && v.Row[PricingCategory] != "Committed" {
			return quoted(v.Row[PricingCategory])
		}
		return ""
	}},
	forbidden("CommitmentDiscountStatus", "null_outside_usage", CommitmentDiscountStatus, notUsage, "charges that are no usage"),
	forbidden("CapacityReservationStatus", "null_outside_usage", CapacityReservationStatus, notUsage, "charges that are no usage"),
	{ID: "PricingCategory.purchase", Source: "FOCUS 1.2", Text: "the purchase of a commitment is not Committed itself", row: func(v *view) string {
		if v.Row[ChargeCategory] == "Purchase" && v.Row[PricingCategory] == "Committed" {
			return quoted(v.Row[PricingCategory])
		}
		return ""
	}},
	{ID: "CommitmentDiscountUnit.spend", Source: "FOCUS 1.2", Text: "CommitmentDiscountUnit of a Spend commitment is a currency, of a Usage commitment none", row: func(v *view) string {
		unit := v.Row[CommitmentDiscountUnit]
		if isCurrency := slices.Contains(currencies, unit); unit != "" && (v.Row[CommitmentDiscountCategory] == "Spend" && !isCurrency || v.Row[CommitmentDiscountCategory] == "Usage" && isCurrency) {
			return quoted(unit) + " beside " + v.Row[CommitmentDiscountCategory]
		}
		return ""
	}},
	{ID: "x_CostKind.purchase", Source: "Plimsoll", Text: "a purchase of ours has no kind of cost: what uses it has", row: func(v *view) string {
		if v.has[XCostKind] && v.Row[ChargeCategory] == "Purchase" && !v.null(XCostKind) {
			return quoted(v.Row[XCostKind])
		}
		return ""
	}},
	{ID: "PricingCategory.dynamic", Source: "Plimsoll", Text: "Spot machines of ours are priced Dynamic, and nothing else is", row: func(v *view) string {
		if spot := v.Row[XCapacityType] == "spot"; v.has[XCapacityType] && !v.null(XCapacityType) && v.null(CommitmentDiscountID) && spot != (v.Row[PricingCategory] == "Dynamic") {
			return v.Row[XCapacityType] + " is " + quoted(v.Row[PricingCategory])
		}
		return ""
	}},
	{ID: "BilledCost.committed", Source: "Plimsoll", Text: "BilledCost of usage that a commitment covers is 0 in our files: the purchase is billed", row: func(v *view) string {
		if n := number(v.Row[BilledCost]); v.has[XCostKind] && v.Row[ChargeCategory] == "Usage" && !v.null(CommitmentDiscountID) && n != nil && n.Sign() != 0 {
			return v.Row[BilledCost]
		}
		return ""
	}},
}

func notUsage(v *view) bool { return !v.null(ChargeCategory) && v.Row[ChargeCategory] != "Usage" }

// timeRules are about periods.
var timeRules = []Rule{
	{ID: "BillingPeriodStart.month", Source: "Plimsoll", Text: "a billing period of ours is a calendar month of UTC", row: func(v *view) string {
		from, err := parseTime(v.Row[BillingPeriodStart])
		to, err2 := parseTime(v.Row[BillingPeriodEnd])
		if v.has[XCostKind] && err == nil && err2 == nil && (from.Day() != 1 || from.Hour()+from.Minute()+from.Second() != 0 || !from.AddDate(0, 1, 0).Equal(to)) {
			return v.Row[BillingPeriodStart] + " to " + v.Row[BillingPeriodEnd]
		}
		return ""
	}},
	{ID: "ChargePeriodEnd.after_start", Source: "FOCUS 1.2", Text: "ChargePeriodEnd is exclusive and lies after ChargePeriodStart", row: func(v *view) string {
		return inOrder(v, ChargePeriodStart, ChargePeriodEnd)
	}},
	{ID: "BillingPeriodEnd.after_start", Source: "FOCUS 1.2", Text: "BillingPeriodEnd is exclusive and lies after BillingPeriodStart", row: func(v *view) string {
		return inOrder(v, BillingPeriodStart, BillingPeriodEnd)
	}},
	{ID: "ChargePeriodStart.in_billing_period", Source: "Plimsoll", Text: "a charge of ours that corrects nothing starts within its billing period", row: func(v *view) string {
		if !v.has[XCostKind] || v.Row[ChargeClass] == "Correction" {
			return ""
		}
		at, err := parseTime(v.Row[ChargePeriodStart])
		from, err2 := parseTime(v.Row[BillingPeriodStart])
		to, err3 := parseTime(v.Row[BillingPeriodEnd])
		if err == nil && err2 == nil && err3 == nil && (at.Before(from) || !at.Before(to)) {
			return v.Row[ChargePeriodStart]
		}
		return ""
	}},
	{ID: "ChargePeriodStart.hour", Source: "Plimsoll", Text: "a charge of ours is for one whole hour of UTC", row: func(v *view) string {
		from, err := parseTime(v.Row[ChargePeriodStart])
		to, err2 := parseTime(v.Row[ChargePeriodEnd])
		if v.has[XCostKind] && err == nil && err2 == nil && (from.Minute() != 0 || from.Second() != 0 || to.Sub(from).Hours() != 1) {
			return v.Row[ChargePeriodStart] + " to " + v.Row[ChargePeriodEnd]
		}
		return ""
	}},
}

func inOrder(v *view, from, to Col) string {
	a, err := parseTime(v.Row[from])
	b, err2 := parseTime(v.Row[to])
	if err == nil && err2 == nil && !a.Before(b) {
		return v.Row[from] + " to " + v.Row[to]
	}
	return ""
}
