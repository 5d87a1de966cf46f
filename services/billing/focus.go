package billing

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// focusParser reads FOCUS 1.0 to 1.3: columns by their names in the specification, absent ones unknown.
var focusParser = parser{
	format: FormatFOCUS,
	rename: func(n string) string { return n },
	must:   []string{"BilledCost", "BillingCurrency", "ChargePeriodStart", "ChargePeriodEnd", "ChargeCategory", "ServiceName", "ProviderName|ServiceProviderName"},
	charges: func(r *record) ([]Charge, string, error) {
		c := Charge{Line: r.line, Description: r.get("ChargeDescription")}
		d := &c.Dimensions
		d.Provider = r.get("ProviderName", "ServiceProviderName")
		d.Account, d.SubAccount = r.get("BillingAccountId"), r.get("SubAccountId")
		d.Service, d.Region, d.Zone = r.get("ServiceName"), r.get("RegionId"), r.get("AvailabilityZone")
		d.Resource, d.ResourceName = r.get("ResourceId"), r.get("ResourceName")
		d.Commitment, d.Status = r.get("CommitmentDiscountId"), r.get("CommitmentDiscountStatus")
		if d.Commitment == "" {
			d.Commitment, d.Status = r.get("CapacityReservationId"), r.get("CapacityReservationStatus")
		}
		d.SKU, d.Unit, d.Invoice = r.get("SkuId"), r.get("PricingUnit"), r.get("InvoiceId")
		d.Cloud = cloudOf(d.Provider)
		switch d.Category = Category(r.get("ChargeCategory")); d.Category {
		case CategoryUsage, CategoryPurchase, CategoryTax, CategoryCredit, CategoryAdjustment:
		default:
			return nil, "", r.fail("ChargeCategory", "%q is none of Usage, Purchase, Tax, Credit, Adjustment", clip(string(d.Category)))
		}
		switch class := r.get("ChargeClass"); class {
		case "", "Correction":
			d.Correction = class != ""
		default:
			return nil, "", r.fail("ChargeClass", "%q is not Correction", clip(class))
		}
		var err error
		if d.From, d.To, err = span(r, "ChargePeriodStart", "ChargePeriodEnd"); err != nil {
			return nil, "", err
		}
		if d.PeriodFrom, d.PeriodTo, err = period(r, d.From, "BillingPeriodStart", "BillingPeriodEnd"); err != nil {
			return nil, "", err
		}
		if c.Billed, err = r.money("BilledCost"); err != nil {
			return nil, "", err
		}
		for _, m := range []struct {
			to     **Amount
			column string
		}{{&c.Effective, "EffectiveCost"}, {&c.List, "ListCost"}, {&c.Quantity, "PricingQuantity"}} {
			if *m.to, err = r.amount(m.column); err != nil {
				return nil, "", err
			}
		}
		d.InstanceType = jsonKey(r.get("SkuPriceDetails", "x_SkuDetails"), "InstanceType", "x_InstanceType", "ServiceType")
		d.Kind = d.kind(r.get("ServiceCategory"), r.get("ServiceSubcategory"), c.Description)
		if d.Kind == KindMachine {
			if isHours(d.Unit) {
				c.Hours = c.Quantity
			}
			d.Purchase = purchaseOf(r.get("PricingCategory"), d.Commitment)
		}
		return []Charge{c}, r.get("BillingCurrency"), nil
	},
}

// kind finds out what a charge of a FOCUS file is for.
func (d *Dimensions) kind(category, sub, description string) Kind {
	switch d.Category {
	case CategoryTax:
		return KindTax
	case CategoryCredit:
		return KindCredit
	case CategoryPurchase:
		if d.Commitment != "" {
			return KindPurchase
		}
	case CategoryUsage, CategoryAdjustment:
	}
	if d.Status == StatusUnused {
		return KindUnused
	}
	text := strings.ToLower(description)
	switch {
	case strings.Contains(strings.ToLower(d.Service), "support"):
		return KindSupport
	case category == "Storage":
		return KindStorage
	case category == "Networking", strings.Contains(text, "data transfer"), strings.Contains(text, "bandwidth"), strings.Contains(text, "nat gateway"):
		return KindNetwork
	case category == "Compute" && strings.HasPrefix(strings.ToLower(d.Unit), "gb"):
		if strings.Contains(strings.ToLower(d.Unit), "month") {
			return KindStorage
		}
		return KindNetwork
	case category == "Compute" && isHours(d.Unit) && (sub == "Virtual Machines" || sub == "" && slices.Contains(machineServices, d.Service)):
		return KindMachine
	}
	return KindOther
}

var machineServices = []string{"Amazon Elastic Compute Cloud", "Amazon Elastic Compute Cloud - Compute", "AmazonEC2", "Virtual Machines", "Compute Engine", "Virtual Machine Scale Sets"}

// isHours says whether a unit counts hours.
func isHours(unit string) bool {
	u := strings.ToLower(strings.TrimPrefix(unit, "1 "))
	return u == "hours" || u == "hour" || u == "hrs" || u == "hr" || u == "h"
}

func purchaseOf(pricing, commitment string) fleet.Purchase {
	switch {
	case commitment != "", pricing == "Committed":
		return fleet.PurchaseReserved
	case pricing == "Dynamic":
		return fleet.PurchaseSpot
	case pricing == "Standard":
		return fleet.PurchaseOnDemand
	}
	return ""
}

func cloudOf(provider string) fleet.Cloud {
	p := strings.ToLower(provider)
	switch {
	case p == "aws", strings.HasPrefix(p, "amazon"):
		return fleet.CloudAWS
	case strings.HasPrefix(p, "microsoft"), strings.HasPrefix(p, "azure"):
		return fleet.CloudAzure
	case strings.HasPrefix(p, "google"), p == "gcp":
		return fleet.CloudGCP
	}
	return ""
}

// span reads the period of a charge.
func span(r *record, from, to string) (a, b time.Time, err error) {
	if a, err = r.time(from); err != nil {
		return a, b, err
	}
	if b, err = r.time(to); err != nil {
		return a, b, err
	}
	if !a.Before(b) {
		return a, b, r.fail(to, "the end %s is not after the beginning %s", b.Format(time.RFC3339), a.Format(time.RFC3339))
	}
	return a, b, nil
}

// period reads the billing period; without one it is the month of the charge.
func period(r *record, at time.Time, from, to string) (a, b time.Time, err error) {
	if r.get(from) == "" && r.get(to) == "" {
		a, b = month(at)
		return a, b, nil
	}
	return span(r, from, to)
}

// jsonKey is the first text under one of the keys of a JSON object; empty where there is none.
func jsonKey(text string, keys ...string) string {
	if !strings.HasPrefix(text, "{") {
		return ""
	}
	var m map[string]any
	if json.Unmarshal([]byte(text), &m) != nil {
		return ""
	}
	for _, k := range keys {
		if s, ok := m[k].(string); ok && s != "" {
			return s
		}
	}
	return ""
}
