package billing

import (
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// azureParser reads Azure's cost details of the modern and the enterprise agreement, actual or amortised. The file does not say which it is:
// a covered line with a cost is amortised (billed is 0, the purchase is in the other file), one without is actual (its effective cost is not
// known).
var azureParser = parser{
	format: FormatAzure,
	rename: strings.ToLower,
	must:   []string{"costinbillingcurrency|cost|pretaxcost", "date|usagedatetime", "billingcurrency|billingcurrencycode|currency", "metercategory", "chargetype"},
	charges: func(r *record) ([]Charge, string, error) {
		c := Charge{Line: r.line, Description: r.get("productname", "product", "metername")}
		d := &c.Dimensions
		d.Provider, d.Cloud = "Microsoft", fleet.CloudAzure
		d.Account, d.SubAccount = r.get("billingaccountid", "billingprofileid"), r.get("subscriptionid", "subscriptionguid")
		d.Service, d.Region = r.get("metercategory"), strings.ToLower(strings.ReplaceAll(r.get("resourcelocation", "resourcelocationnormalized"), " ", ""))
		d.Resource, d.ResourceName = r.get("resourceid", "instanceid", "instancename"), r.get("resourcename")
		d.SKU, d.Unit, d.Invoice = r.get("meterid"), r.get("unitofmeasure"), r.get("invoiceid")
		d.Zone = r.get("availabilityzone")
		if d.Commitment = r.get("benefitid"); d.Commitment == "" {
			d.Commitment = r.get("reservationid")
		}
		var err error
		if d.From, err = r.time("date", "usagedatetime"); err != nil {
			return nil, "", err
		}
		d.From = d.From.Truncate(24 * time.Hour)
		d.To = d.From.Add(24 * time.Hour)
		if d.PeriodFrom, d.PeriodTo, err = azurePeriod(r, d.From); err != nil {
			return nil, "", err
		}
		if c.Billed, err = r.money("costinbillingcurrency", "cost", "pretaxcost"); err != nil {
			return nil, "", err
		}
		if c.List, err = r.amount("paygcostinbillingcurrency"); err != nil {
			return nil, "", err
		}
		if c.Quantity, err = r.amount("quantity", "usagequantity"); err != nil {
			return nil, "", err
		}
		if err := azureCost(r, &c); err != nil {
			return nil, "", err
		}
		info := r.get("additionalinfo")
		if strings.HasPrefix(info, `"`) { // the enterprise export leaves the braces out
			info = "{" + info + "}"
		}
		d.InstanceType = jsonKey(info, "ServiceType", "VMName")
		if d.Kind == "" {
			d.Kind = azureKind(d.Service)
		}
		if d.Kind == KindMachine {
			if c.Hours = c.Quantity; d.Category != CategoryUsage {
				c.Hours = &Amount{}
			} else if !isHours(d.Unit) {
				c.Hours = nil
			}
			d.Purchase = fleet.PurchaseOnDemand
			switch model := r.get("pricingmodel"); {
			case model == "Spot":
				d.Purchase = fleet.PurchaseSpot
			case d.Commitment != "":
				d.Purchase = fleet.PurchaseReserved
			}
		}
		return []Charge{c}, r.get("billingcurrency", "billingcurrencycode", "currency"), nil
	},
}

// azureCost sets category, billed and effective cost by the type of the charge.
func azureCost(r *record, c *Charge) error {
	d := &c.Dimensions
	d.Category, c.Effective = CategoryUsage, &Amount{}
	*c.Effective = c.Billed
	covered := d.Commitment != ""
	switch kind := r.get("chargetype"); strings.ToLower(kind) {
	case "usage":
		if !covered {
			break
		}
		if d.Status = StatusUsed; c.Billed.Sign() == 0 {
			c.Effective = nil
		} else {
			c.Billed = Amount{}
		}
	case "unusedreservation", "unusedsavingsplan":
		d.Kind, d.Status, c.Billed = KindUnused, StatusUnused, Amount{}
	case "purchase":
		if d.Category = CategoryPurchase; covered {
			d.Kind, c.Effective = KindPurchase, &Amount{}
		}
	case "tax":
		d.Category, d.Kind = CategoryTax, KindTax
	case "refund":
		d.Category, d.Correction, d.Kind = CategoryAdjustment, true, KindCredit
	case "credit":
		d.Category, d.Kind = CategoryCredit, KindCredit
	case "adjustment", "roundingadjustment":
		d.Category, d.Kind = CategoryAdjustment, KindCredit
	default:
		return r.fail("chargetype", "%q is no type of charge that is known here", clip(kind))
	}
	return nil
}

// azurePeriod reads the billing period. Azure names its last day.
func azurePeriod(r *record, at time.Time) (from, to time.Time, err error) {
	if r.get("billingperiodstartdate") == "" || r.get("billingperiodenddate") == "" {
		from, to = month(at)
		return from, to, nil
	}
	if from, err = r.time("billingperiodstartdate"); err != nil {
		return from, to, err
	}
	if to, err = r.time("billingperiodenddate"); err != nil {
		return from, to, err
	}
	if to.Before(from) {
		return from, to, r.fail("billingperiodenddate", "the end is before the beginning")
	}
	return from, to.Truncate(24 * time.Hour).Add(24 * time.Hour), nil
}

func azureKind(meter string) Kind {
	switch m := strings.ToLower(meter); {
	case m == "virtual machines", m == "virtual machines licenses":
		return KindMachine
	case m == "storage":
		return KindStorage
	case m == "bandwidth", m == "load balancer", m == "virtual network", m == "nat gateway", m == "ip addresses":
		return KindNetwork
	case strings.Contains(m, "support"):
		return KindSupport
	}
	return KindOther
}
