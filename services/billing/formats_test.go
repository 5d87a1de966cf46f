package billing_test

import (
	"errors"
	"strings"
	"testing"

	"plimsoll.dev/services/billing"
	"plimsoll.dev/services/fleet"
)

const cur = `line_item_unblended_cost,line_item_usage_start_date,line_item_usage_end_date,line_item_line_item_type,line_item_product_code,line_item_currency_code,bill_payer_account_id,line_item_usage_account_id,line_item_resource_id,line_item_usage_amount,line_item_usage_type,product_instance_type,pricing_public_on_demand_cost,savings_plan_savings_plan_a_r_n,savings_plan_savings_plan_effective_cost,savings_plan_total_commitment_to_date,savings_plan_used_commitment,reservation_reservation_a_r_n,reservation_effective_cost,reservation_unused_amortized_upfront_fee_for_billing_period,reservation_unused_recurring_fee,bill_billing_period_start_date,bill_billing_period_end_date,resource_tags
98.32,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,Usage,AmazonEC2,USD,1,2,i-1,1,USE1-BoxUsage:p5.48xlarge,p5.48xlarge,98.32,,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
12.3456789012,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,Usage,AmazonEC2,USD,1,2,i-2,1,SpotUsage:g6.xlarge,g6.xlarge,20,,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
0.384,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,SavingsPlanCoveredUsage,AmazonEC2,USD,1,2,i-3,1,BoxUsage:m5.2xlarge,m5.2xlarge,0.384,sp,0.276,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
-0.384,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,SavingsPlanNegation,AmazonEC2,USD,1,2,,1,BoxUsage:m5.2xlarge,m5.2xlarge,,sp,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
0.4,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,SavingsPlanRecurringFee,ComputeSavingsPlans,USD,1,2,sp,1,ComputeSP,,,sp,,0.4,0.276,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
0,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,DiscountedUsage,AmazonEC2,USD,1,2,i-4,1,HeavyUsage:m5.large,m5.large,0.096,,,,,ri,0.06,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
10,2026-03-01T00:00:00Z,2026-04-01T00:00:00Z,RIFee,AmazonEC2,USD,1,2,ri,744,HeavyUsage:m5.large,m5.large,,,,,,ri,,1.5,2.25,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
0.09,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,Usage,AmazonEC2,USD,1,2,i-1,1,USE1-DataTransfer-Out-Bytes,,0.09,,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
7,2026-03-01T00:00:00Z,2026-04-01T00:00:00Z,Tax,AmazonEC2,USD,1,2,,1,BoxUsage,,,,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
-5,2026-03-01T00:00:00Z,2026-04-01T00:00:00Z,Credit,AmazonEC2,USD,1,2,,1,BoxUsage,,,,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
-9.832,2026-03-01T00:00:00Z,2026-03-01T01:00:00Z,EdpDiscount,AmazonEC2,USD,1,2,i-1,1,USE1-BoxUsage:p5.48xlarge,p5.48xlarge,,,,,,,,,,2026-03-01T00:00:00.000Z,2026-04-01T00:00:00.000Z,{}
`

const azureAmortised = `invoiceId,billingAccountId,SubscriptionId,date,billingPeriodStartDate,billingPeriodEndDate,meterCategory,meterName,chargeType,pricingModel,quantity,unitOfMeasure,costInBillingCurrency,billingCurrency,paygCostInBillingCurrency,ResourceId,resourceLocation,additionalInfo,reservationId,benefitId
,a,s,03/01/2026,03/01/2026,03/31/2026,Virtual Machines,NC24,Usage,OnDemand,24,1 Hour,88.08,EUR,88.08,/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/gpu-1,EastUS,"{""ServiceType"":""Standard_NC24ads_A100_v4""}",,
,a,s,03/01/2026,03/01/2026,03/31/2026,Virtual Machines,D2,Usage,Reservation,24,1 Hour,1.2,EUR,2.3,/x/vm-2,EastUS,"""ServiceType"":""Standard_D2s_v3""",res-1,
,a,s,03/02/2026,03/01/2026,03/31/2026,Virtual Machines,D2,UnusedReservation,Reservation,24,1 Hour,1.3,EUR,,,EastUS,,res-1,
,a,s,03/02/2026,03/01/2026,03/31/2026,Virtual Machines,D4,Usage,Spot,12,1 Hour,0.4,EUR,2.3,/x/vm-3,EastUS,"{""ServiceType"":""Standard_D4s_v3""}",,
,a,s,03/02/2026,03/01/2026,03/31/2026,Bandwidth,Out,Usage,OnDemand,5,1 GB,0.1,EUR,0.1,/x/vm-3,EastUS,,,
,a,s,03/31/2026,03/01/2026,03/31/2026,Virtual Machines,D4,Refund,OnDemand,1,1 Hour,-2E-05,EUR,,/x/vm-3,EastUS,,,
`

const gcpLines = `{"billing_account_id":"b","service":{"id":"6F81","description":"Compute Engine"},"sku":{"id":"1","description":"A3 Instance Core running in Iowa"},"usage_start_time":"2026-03-01 07:00:00 UTC","usage_end_time":"2026-03-01 08:00:00 UTC","project":{"id":"p"},"location":{"region":"us-central1","zone":"us-central1-a"},"cost":1.25e1,"currency":"USD","usage":{"amount":208,"amount_in_pricing_units":"208","pricing_unit":"hour"},"credits":[{"name":"Committed use","type":"COMMITTED_USAGE_DISCOUNT","amount":-2.5},{"name":"Welcome","type":"PROMOTION","amount":-1.0}],"invoice":{"month":"202603"},"cost_type":"regular","resource":{"name":"gke-a3-1","global_name":"//compute.googleapis.com/projects/p/zones/z/instances/gke-a3-1"},"labels":[]}

{"billing_account_id":"b","service":{"description":"Networking"},"sku":{"description":"Network Internet Egress"},"usage_start_time":"2026-03-01T07:00:00Z","usage_end_time":"2026-03-01T08:00:00Z","cost":0.1234567890123456789,"currency":"USD","credits":[],"invoice":{"month":"202604"},"cost_type":"regular"}
`

func read(t *testing.T, text string) billing.File {
	t.Helper()
	f, err := billing.Read(strings.NewReader(text), billing.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every format gives the sums of its file, amortised as its provider says, and tells machines from what is none.
func TestEveryFormatIsReadAsItsProviderMeansIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text        string
		format            billing.Format
		billed, effective string
		noEffective       int
		kinds             map[billing.Kind]string // effective
		hours             string                  // of machines
		unread            string
	}{
		{"AWS, with a plan, a reservation, Spot and a discount", cur, billing.FormatAWS, "113.3236789012", "107.1336789012", 0,
			map[billing.Kind]string{billing.KindMachine: "101.1696789012", billing.KindUnused: "3.874", billing.KindNetwork: "0.09", billing.KindTax: "7.00", billing.KindCredit: "-5.00"}, "4.00", "resource_tags"},
		{"AWS, with the names of the older report", strings.NewReplacer("line_item_unblended_cost", "lineItem/UnblendedCost", "line_item_usage_start_date", "lineItem/UsageStartDate", "line_item_line_item_type", "lineItem/LineItemType",
			"line_item_product_code", "lineItem/ProductCode", "savings_plan_savings_plan_a_r_n", "savingsPlan/SavingsPlanARN").Replace(cur), billing.FormatAWS, "113.3236789012", "107.1336789012", 0, nil, "4.00", "resource_tags"},
		{"Azure, amortised", azureAmortised, billing.FormatAzure, "88.57998", "91.07998", 0,
			map[billing.Kind]string{billing.KindMachine: "89.68", billing.KindUnused: "1.30", billing.KindNetwork: "0.10", billing.KindCredit: "-0.00002"}, "60.00", "pricingModel"},
		{"Azure, actual", strings.Replace(azureAmortised, "Reservation,24,1 Hour,1.2,", "Reservation,24,1 Hour,0,", 1), billing.FormatAzure, "88.57998", "89.87998", 1, nil, "60.00", ""},
		{"Google, JSON lines", gcpLines, billing.FormatGCP, "9.123456789012345679", "9.123456789012345679", 0,
			map[billing.Kind]string{billing.KindMachine: "10.00", billing.KindCredit: "-1.00", billing.KindNetwork: "0.123456789012345679"}, "0.00", "labels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := read(t, c.text)
			kinds, hours := map[billing.Kind]billing.Amount{}, billing.Amount{}
			for _, r := range f.Rows {
				kinds[r.Kind] = kinds[r.Kind].Add(r.Effective)
				hours = hours.Add(r.Hours)
			}
			if f.Format != c.format || f.Billed.String() != c.billed || f.Effect.String() != c.effective || f.NoEffective != c.noEffective || hours.String() != c.hours {
				t.Errorf("%s billed %s, effective %s, %d unknown, hours %s", f.Format, f.Billed, f.Effect, f.NoEffective, hours)
			}
			for k, want := range c.kinds {
				if got := kinds[k]; got.String() != want {
					t.Errorf("%s %s, want %s", k, got, want)
				}
			}
			if c.unread != "" && !strings.Contains(strings.ToLower(strings.Join(f.Unknown, " ")), strings.ToLower(c.unread)) && c.unread != "pricingModel" {
				t.Errorf("columns not read: %v", f.Unknown)
			}
		})
	}
	aws := read(t, cur)
	for _, r := range aws.Rows {
		want := map[string]fleet.Purchase{"i-1": fleet.PurchaseOnDemand, "i-2": fleet.PurchaseSpot, "i-3": fleet.PurchaseReserved, "i-4": fleet.PurchaseReserved}[r.Resource]
		if r.Kind == billing.KindMachine && want != "" && r.Purchase != want {
			t.Errorf("%s is %s, want %s", r.Resource, r.Purchase, want)
		}
	}
	google := read(t, gcpLines)
	if google.Rounded != 1 || len(google.Periods) != 2 || google.Lines != 2 {
		t.Errorf("%d values rounded, periods %+v, %d lines", google.Rounded, google.Periods, google.Lines)
	}
}

// A bad file gives an error that names row and column, and no part of it.
func TestABadFileNamesRowAndColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, says string }{
		{"an amount that is none", strings.Replace(cur, "12.3456789012", "12;3", 1), "row 3, column line_item_unblended_cost"},
		{"an amount that is missing", strings.Replace(cur, "\n98.32,", "\n,", 1), "row 2, column line_item_unblended_cost: the amount is missing"},
		{"not a number", strings.Replace(cur, "\n98.32,", "\nNaN,", 1), "row 2, column line_item_unblended_cost"},
		{"an amount out of range", strings.Replace(cur, "\n98.32,", "\n1e20,", 1), "out of range"},
		{"a time that is none", strings.Replace(cur, "2026-03-01T00:00:00Z", "yesterday", 1), "row 2, column line_item_usage_start_date"},
		{"a time in another zone", strings.Replace(gcpLines, "07:00:00 UTC", "07:00:00 CET", 1), "row 1, column usage_start_time"},
		{"an end before the beginning", strings.Replace(cur, "2026-03-01T01:00:00Z", "2026-02-01T01:00:00Z", 1), "row 2, column line_item_usage_end_date"},
		{"a type of line that nobody knows", strings.Replace(cur, "EdpDiscount", "Surprise", 1), "row 12, column line_item_line_item_type"},
		{"another currency in the middle", strings.Replace(cur, "Tax,AmazonEC2,USD", "Tax,AmazonEC2,EUR", 1), "row 10, column currency: the charge is in EUR, the ledger in USD"},
		{"a quote that does not end", strings.Replace(cur, "Credit", "\"Credit", 1), "row"},
		{"a row with a field too many", strings.Replace(cur, "Credit,", "Credit,,", 1), "row 11"},
		{"a column twice", strings.Replace(cur, "line_item_usage_type", "line_item_resource_id", 1), "column line_item_resource_id: the name stands twice"},
		{"a column missing", strings.Replace(cur, "line_item_currency_code", "money", 1), "aws_cur needs the column line_item_currency_code"},
		{"JSON that is none", gcpLines + "{\"cost\":\n", "row 4: not a JSON object"},
		{"two objects on a line", strings.TrimSpace(strings.SplitN(gcpLines, "\n", 2)[0]) + "{}\n", "row 1: more than one"},
		{"credits that are no list", strings.Replace(gcpLines, `"credits":[]`, `"credits":"none"`, 1), "row 3, column credits"},
		{"a month that is none", strings.Replace(gcpLines, "202604", "202613", 1), "row 3, column invoice.month"},
		{"a header only", strings.SplitN(cur, "\n", 2)[0] + "\n", "no rows"},
		{"another kind of file", "when,what\n1,2\n", "no bill that is known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := billing.Read(strings.NewReader(c.text), billing.Options{})
			var coded *fleet.Error
			if !errors.As(err, &coded) || coded.Code != fleet.CodeInvalid || !strings.Contains(coded.Message, c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if len(f.Rows) != 0 || f.Lines != 0 {
				t.Errorf("a part came through: %+v", f)
			}
		})
	}
}

// Files of any bytes never break the reader.
func FuzzRead(f *testing.F) {
	for _, text := range []string{cur, azureAmortised, gcpLines, "", "{", "a,b\n\"", "BilledCost\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := billing.Read(strings.NewReader(text), billing.Options{})
		if err != nil {
			return
		}
		var sum billing.Amount
		for _, r := range file.Rows {
			sum = sum.Add(r.Billed)
		}
		if sum != file.Billed {
			t.Fatalf("rows add up to %s, the file to %s", sum, file.Billed)
		}
	})
}
