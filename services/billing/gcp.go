package billing

import (
	"encoding/json"
	"strings"

	"plimsoll.dev/services/fleet"
)

// gcpParser reads Google's detailed usage cost export as BigQuery writes it: JSON lines, or CSV of a query that flattened it, with dots or
// underscores in the names. The cost of a line and its credits are charges of their own, so their sum is the invoice's.
var gcpParser = parser{
	format: FormatGCP,
	rename: func(n string) string {
		n = strings.ToLower(n)
		for _, top := range []string{"service_", "sku_", "project_", "location_", "usage_amount", "usage_unit", "usage_pricing", "invoice_", "resource_", "price_"} {
			if strings.HasPrefix(n, top) && n != "project_labels" {
				return strings.Replace(n, "_", ".", 1)
			}
		}
		return n
	},
	must: []string{"cost", "currency", "usage_start_time", "usage_end_time", "service.description", "sku.description"},
	charges: func(r *record) ([]Charge, string, error) {
		c := Charge{Line: r.line, Description: r.get("sku.description")}
		d := &c.Dimensions
		d.Provider, d.Cloud = "Google Cloud", fleet.CloudGCP
		d.Account, d.SubAccount = r.get("billing_account_id"), r.get("project.id")
		d.Service, d.SKU = r.get("service.description"), r.get("sku.id")
		d.Region, d.Zone = r.get("location.region"), r.get("location.zone")
		d.ResourceName, d.Resource = r.get("resource.name"), r.get("resource.global_name")
		if d.Resource == "" {
			d.Resource = d.ResourceName
		}
		d.Unit = r.get("usage.pricing_unit")
		var err error
		if d.From, d.To, err = span(r, "usage_start_time", "usage_end_time"); err != nil {
			return nil, "", err
		}
		d.PeriodFrom, d.PeriodTo = month(d.From)
		if m := r.get("invoice.month"); m != "" {
			at, err := r.monthOf("invoice.month", m)
			if err != nil {
				return nil, "", err
			}
			d.PeriodFrom, d.PeriodTo = at.PeriodFrom, at.PeriodTo
		}
		if c.Billed, err = r.money("cost"); err != nil {
			return nil, "", err
		}
		if c.List, err = r.amount("cost_at_list"); err != nil {
			return nil, "", err
		}
		if c.Quantity, err = r.amount("usage.amount_in_pricing_units"); err != nil {
			return nil, "", err
		}
		c.Effective = &c.Billed
		switch kind := r.get("cost_type"); kind {
		case "", "regular":
			d.Category, d.Kind = CategoryUsage, gcpKind(d.Service, c.Description)
		case "tax":
			d.Category, d.Kind = CategoryTax, KindTax
		case "adjustment", "rounding_error":
			d.Category, d.Correction, d.Kind = CategoryAdjustment, kind == "adjustment", KindCredit
		default:
			return nil, "", r.fail("cost_type", "%q is no type of cost that is known here", clip(kind))
		}
		if d.Kind == KindMachine {
			d.Purchase = fleet.PurchaseOnDemand
			if s := strings.ToLower(c.Description); strings.HasPrefix(s, "spot") || strings.Contains(s, "preemptible") {
				d.Purchase = fleet.PurchaseSpot
			}
		}
		credits, err := gcpCredits(r, c)
		if err != nil {
			return nil, "", err
		}
		return append([]Charge{c}, credits...), r.get("currency"), nil
	},
}

// monthOf reads a month written as 202409.
func (r *record) monthOf(column, text string) (d Dimensions, err error) {
	if len(text) != 6 || !allDigits(text) || text[4:] < "01" || text[4:] > "12" || text < "200001" || text > "220012" {
		return d, r.fail(column, "%q is not a month", clip(text))
	}
	at := int(text[0]-'0')*1000 + int(text[1]-'0')*100 + int(text[2]-'0')*10 + int(text[3]-'0')
	from, to := month(date(at, int(text[4]-'0')*10+int(text[5]-'0')))
	return Dimensions{PeriodFrom: from, PeriodTo: to}, nil
}

// gcpCredits makes a charge of each credit: discounts lessen what they are given on, promotions stand for themselves.
func gcpCredits(r *record, of Charge) ([]Charge, error) {
	text := r.get("credits")
	if text == "" || text == "[]" {
		return nil, nil
	}
	var list []struct {
		Name   string
		Type   string
		Amount json.Number
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, r.fail("credits", "not a list of credits: %v", err)
	}
	if len(list) > 100 {
		return nil, r.fail("credits", "%d credits on one line", len(list))
	}
	charges := make([]Charge, 0, len(list))
	for _, credit := range list {
		amount, rounded, err := ParseAmount(credit.Amount.String())
		if err != nil {
			return nil, r.fail("credits", "%v", err)
		}
		if rounded {
			*r.rounded++
		}
		c := of
		c.Description, c.Billed, c.Quantity, c.List = credit.Name, amount, nil, &Amount{}
		c.Effective = &amount
		switch credit.Type {
		case "COMMITTED_USAGE_DISCOUNT", "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE":
			c.Category, c.Status, c.Commitment = CategoryAdjustment, StatusUsed, credit.Name
		case "SUSTAINED_USAGE_DISCOUNT", "DISCOUNT", "FREE_TIER", "RESELLER_MARGIN", "SUBSCRIPTION_BENEFIT", "FEE_UTILIZATION_OFFSET":
			c.Category = CategoryAdjustment
		default:
			c.Category, c.Kind = CategoryCredit, KindCredit
		}
		charges = append(charges, c)
	}
	return charges, nil
}

func gcpKind(service, sku string) Kind {
	s := strings.ToLower(sku)
	has := func(all ...string) bool {
		for _, w := range all {
			if strings.Contains(s, w) {
				return true
			}
		}
		return false
	}
	switch {
	case strings.HasPrefix(s, "commitment"):
		return KindPurchase
	case service == "Compute Engine" && has("instance core", "instance ram", "gpu running", "gpu attached", " vm state", "tpu"):
		return KindMachine
	case service == "Compute Engine" && has("storage pd", "snapshot", "ssd backed", "hyperdisk", "balanced pd", "pd capacity"), service == "Cloud Storage", service == "Cloud Filestore":
		return KindStorage
	case has("egress", "ingress", "data transfer", "nat gateway", "ip charge", "load balanc"), service == "Networking":
		return KindNetwork
	case service == "Support":
		return KindSupport
	}
	return KindOther
}
