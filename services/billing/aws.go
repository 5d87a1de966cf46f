package billing

import (
	"strings"

	"plimsoll.dev/services/fleet"
)

// awsParser reads a Cost and Usage Report. BilledCost is the unblended cost of each line, after discounts where the report has net columns,
// so the sum is the invoice's; the effective cost is what AWS documents as amortised: the commitment's rate on covered lines, what is left of
// it on the fee lines, nothing on negations and upfront fees.
var awsParser = parser{
	format: FormatAWS,
	rename: snake,
	must:   []string{"line_item_unblended_cost", "line_item_usage_start_date", "line_item_line_item_type", "line_item_product_code", "line_item_currency_code"},
	charges: func(r *record) ([]Charge, string, error) {
		c := Charge{Line: r.line, Description: r.get("line_item_line_item_description")}
		d := &c.Dimensions
		d.Provider, d.Cloud = "AWS", fleet.CloudAWS
		d.Account, d.SubAccount = r.get("bill_payer_account_id"), r.get("line_item_usage_account_id")
		d.Service = r.get("line_item_product_code")
		d.Region, d.Zone = r.get("product_region_code", "product_region"), r.get("line_item_availability_zone")
		d.Resource, d.Invoice = r.get("line_item_resource_id"), r.get("bill_invoice_id")
		d.SKU, d.Unit = r.get("product_sku"), r.get("pricing_unit")
		d.InstanceType = r.get("product_instance_type")
		if d.InstanceType == "" {
			d.InstanceType = jsonKey(r.get("product"), "instance_type")
		}
		if d.Region == "" {
			d.Region = jsonKey(r.get("product"), "region_code", "region")
		}
		var err error
		if d.From, d.To, err = span(r, "line_item_usage_start_date", "line_item_usage_end_date"); err != nil {
			return nil, "", err
		}
		if d.PeriodFrom, d.PeriodTo, err = period(r, d.From, "bill_billing_period_start_date", "bill_billing_period_end_date"); err != nil {
			return nil, "", err
		}
		if c.Billed, err = r.money("line_item_net_unblended_cost", "line_item_unblended_cost"); err != nil {
			return nil, "", err
		}
		if c.List, err = r.amount("pricing_public_on_demand_cost"); err != nil {
			return nil, "", err
		}
		if c.Quantity, err = r.amount("line_item_usage_amount"); err != nil {
			return nil, "", err
		}
		d.Commitment = r.get("savings_plan_savings_plan_a_r_n", "savings_plan_savings_plan_arn")
		if d.Commitment == "" {
			d.Commitment = r.get("reservation_reservation_a_r_n", "reservation_reservation_arn")
		}
		if err := awsCost(r, &c); err != nil {
			return nil, "", err
		}
		usage := r.get("line_item_usage_type")
		if d.Kind == "" {
			d.Kind = awsKind(d.Service, usage, r.get("product_product_family"))
		}
		if d.Kind == KindMachine {
			d.Purchase = fleet.PurchaseOnDemand
			switch {
			case strings.Contains(usage, "SpotUsage"):
				d.Purchase = fleet.PurchaseSpot
			case d.Commitment != "":
				d.Purchase = fleet.PurchaseReserved
			}
			if d.Category == CategoryUsage {
				c.Hours = c.Quantity
			} else {
				c.Hours = &Amount{} // a discount on hours that another line has
			}
			if d.InstanceType == "" {
				_, d.InstanceType, _ = strings.Cut(usage, ":")
			}
		}
		return []Charge{c}, r.get("line_item_currency_code"), nil
	},
}

// awsCost sets category and effective cost by the type of the line.
func awsCost(r *record, c *Charge) (err error) {
	d := &c.Dimensions
	d.Category, c.Effective = CategoryUsage, &c.Billed
	none := &Amount{}
	switch kind := r.get("line_item_line_item_type"); kind {
	case "Usage":
	case "DiscountedUsage":
		d.Status = StatusUsed
		c.Effective, err = r.amount("reservation_net_effective_cost", "reservation_effective_cost")
	case "SavingsPlanCoveredUsage":
		d.Status = StatusUsed
		c.Effective, err = r.amount("savings_plan_net_savings_plan_effective_cost", "savings_plan_savings_plan_effective_cost")
	case "SavingsPlanNegation":
		// Takes back the on-demand price of the covered line: with it in another kind, neither sum would be right.
		d.Category, d.Status, c.Effective, c.List = CategoryAdjustment, StatusUsed, none, none
	case "SavingsPlanRecurringFee":
		d.Category, d.Kind, d.Status, c.List = CategoryPurchase, KindUnused, StatusUnused, none
		c.Effective, err = awsUnusedPlan(r)
	case "SavingsPlanUpfrontFee":
		d.Category, d.Kind, c.Effective, c.List = CategoryPurchase, KindPurchase, none, none
	case "RIFee":
		d.Category, d.Kind, d.Status, c.List = CategoryPurchase, KindUnused, StatusUnused, none
		c.Effective, err = awsUnusedReservation(r)
	case "Fee":
		d.Category = CategoryPurchase
		if d.Commitment != "" {
			d.Kind, c.Effective, c.List = KindPurchase, none, none
		}
	case "Tax":
		d.Category, d.Kind = CategoryTax, KindTax
	case "Credit":
		d.Category, d.Kind = CategoryCredit, KindCredit
	case "Refund":
		d.Category, d.Correction, d.Kind = CategoryAdjustment, true, KindCredit
	case "EdpDiscount", "PrivateRateDiscount", "BundledDiscount", "Discount", "SppDiscount", "RiVolumeDiscount", "DistributorDiscount":
		d.Category = CategoryAdjustment
	default:
		return r.fail("line_item_line_item_type", "%q is no type of line that is known here", clip(kind))
	}
	return err
}

// awsUnusedPlan is what of a plan's commitment nobody used.
func awsUnusedPlan(r *record) (*Amount, error) {
	total, err := r.amount("savings_plan_total_commitment_to_date")
	if err != nil || total == nil {
		return nil, err
	}
	used, err := r.amount("savings_plan_used_commitment")
	if err != nil || used == nil {
		return nil, err
	}
	left := total.Sub(*used)
	return &left, nil
}

// awsUnusedReservation is what of a reservation nobody used, upfront and recurring.
func awsUnusedReservation(r *record) (*Amount, error) {
	upfront, err := r.amount("reservation_net_unused_amortized_upfront_fee_for_billing_period", "reservation_unused_amortized_upfront_fee_for_billing_period")
	if err != nil || upfront == nil {
		return nil, err
	}
	recurring, err := r.amount("reservation_net_unused_recurring_fee", "reservation_unused_recurring_fee")
	if err != nil || recurring == nil {
		return nil, err
	}
	left := upfront.Add(*recurring)
	return &left, nil
}

// awsKind tells by usage type and product family.
func awsKind(service, usage, family string) Kind {
	has := func(all ...string) bool {
		for _, s := range all {
			if strings.Contains(usage, s) {
				return true
			}
		}
		return false
	}
	switch {
	case strings.HasPrefix(service, "AWSSupport"), strings.HasPrefix(service, "AWSDeveloperSupport"), strings.HasPrefix(service, "AWSPremiumSupport"):
		return KindSupport
	case service == "AmazonEC2" && has("BoxUsage", "SpotUsage", "HeavyUsage", "DedicatedUsage", "UnusedBox", "UnusedDed", "Reservation:", "CapacityBlock"):
		return KindMachine
	case service == "AmazonS3", service == "AmazonEFS", service == "AmazonFSx", has("EBS:"), family == "Storage", family == "Storage Snapshot":
		return KindStorage
	case has("DataTransfer", "-Bytes", "NatGateway", "LoadBalancer", "ElasticIP", "PublicIPv4", "VpcEndpoint"), service == "AWSELB", service == "AmazonVPC", family == "Data Transfer":
		return KindNetwork
	}
	return KindOther
}

// snake writes the names of the older report as the newer one does: lineItem/UnblendedCost is line_item_unblended_cost.
func snake(n string) string {
	if strings.ContainsRune(n, ':') { // a tag
		return n
	}
	var b strings.Builder
	for i, c := range n {
		switch {
		case c == '/':
			b.WriteByte('_')
		case c >= 'A' && c <= 'Z':
			if i > 0 && n[i-1] != '/' && n[i-1] != '_' {
				b.WriteByte('_')
			}
			b.WriteRune(c + 'a' - 'A')
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
