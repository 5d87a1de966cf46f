package focus_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

var account = focus.Account{ID: "8b0c2f4e-0000-4000-8000-000000000001", Name: "Harbour", Currency: "USD"}

// closed turns what the ledger says of an hour into what the export reads.
func closed(h ledger.Hour, machines map[string]focus.Machine, list map[string]fleet.Money, claims map[string][]focus.Claim) []focus.NodeHour {
	s := ledger.Close(h)
	byNode := map[string]*focus.NodeHour{}
	var order []string
	for _, n := range h.Nodes {
		to := h.To
		if !n.Life.To.IsZero() && n.Life.To.Before(to) {
			to = n.Life.To
		}
		from := h.From
		if n.Life.From.After(from) {
			from = n.Life.From
		}
		m := machines[n.UID]
		nh := &focus.NodeHour{Account: account, Cluster: focus.Cluster{ID: "c1", Name: "north"}, Machine: m, Hour: h.From, Millis: max(0, to.Sub(from).Milliseconds()),
			Version: 1, AsOf: h.To.Add(10 * time.Minute), Effective: n.Price, Source: "list", Claims: claims[n.UID]}
		if p, ok := list[n.UID]; ok {
			nh.List = &p
		}
		byNode[n.UID] = nh
		order = append(order, n.UID)
	}
	for _, l := range s.Lines {
		if l.Amount != 0 { // as the ledger posts it
			nh := byNode[l.Node]
			nh.Lines = append(nh.Lines, focus.Line{Kind: l.Kind, Resource: l.Resource, Owner: l.Owner, Name: "chat/Deployment/llm", Labels: map[string]string{"tier": "hot"}, Amount: l.Amount, Quantity: l.Quantity})
		}
	}
	var out []focus.NodeHour
	for _, uid := range order {
		out = append(out, *byNode[uid])
	}
	return out
}

// export writes charges as a file.
func export(t interface{ Fatal(...any) }, rows []focus.Row) []byte {
	var b bytes.Buffer
	w, err := focus.NewWriter(&b)
	for i := range rows {
		if err == nil {
			err = w.Write(&rows[i])
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// month is thirty days of a small estate: GPU machines on demand, Spot machines that come and go, a machine that a plan covers in part, a
// reservation that is left unused at night, workloads of two teams, bare pods, machines that boot and one that is over-allocated.
var month = sync.OnceValues(func() (rows []focus.Row, total fleet.Money) {
	prices := map[string]fleet.Money{"g0": 98_320_000_000, "g1": 98_320_000_000, "s0": 1_234_567_891, "s1": 1_111_111_111, "c0": 384_000_001}
	plan := focus.Commitment{ID: "p", Ref: "arn:aws:savingsplans::000000000000:savingsplan/p", Kind: "aws_compute_sp", Cloud: fleet.CloudAWS, Spend: true}
	reserved := focus.Commitment{ID: "r", Ref: "r-1", Kind: "aws_regional_ri", Cloud: fleet.CloudAWS, Region: "us-east-1"}
	weights := market.Catalogue().Weights(fleet.CloudAWS)
	for hour := range 30 * 24 {
		from := start.Add(time.Duration(hour) * time.Hour)
		h := ledger.Hour{From: from, To: from.Add(time.Hour), Usage: map[fleet.WorkloadID]ledger.Usage{}}
		machines, claims := map[string]focus.Machine{}, map[string][]focus.Claim{}
		for i, uid := range []string{"g0", "g1", "s0", "s1", "c0"} {
			price := prices[uid]
			n := ledger.Node{UID: uid, Name: "node-" + uid, Purchase: fleet.PurchaseOnDemand, CPUMilli: 192_000, MemMiB: 2 << 20, GPUModel: "H100", GPUCount: 8,
				Life: fleet.Interval{From: start.Add(-time.Hour)}, ReadyAt: start.Add(-50 * time.Minute), Price: &price, Weights: weights}
			o := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "p5.48xlarge", Purchase: fleet.PurchaseOnDemand}
			switch uid[0] {
			case 's':
				n.Purchase, o.Purchase = fleet.PurchaseSpot, fleet.PurchaseSpot
				n.Life = fleet.Interval{From: from.Add(time.Duration(hour*7+i) % 3600 * time.Second)} // born within the hour
				n.ReadyAt = n.Life.From.Add(3 * time.Minute)
				if hour%3 == 0 {
					n.Life.To = n.Life.From.Add(11 * time.Minute)
				}
			case 'c':
				n.CPUMilli, n.MemMiB, n.GPUModel, n.GPUCount, o.InstanceType = 8000, 32768, "", 0, "m5.2xlarge"
				claims[uid] = []focus.Claim{{Commitment: plan, Machine: true, UnitMillis: 1000 * 1_800_000, Amount: 120_000_000}, {Commitment: reserved, Machine: true, UnitMillis: 1000 * 900_000, Amount: 60_000_000}}
			}
			machines[uid] = focus.Machine{UID: uid, Name: n.Name, Pool: "gpu", Offering: o, CPUMilli: n.CPUMilli, MemMiB: n.MemMiB, GPUModel: string(n.GPUModel), GPUCount: n.GPUCount}
			h.Nodes = append(h.Nodes, n)
		}
		pod := func(uid, node string, w fleet.WorkloadID, ns, team string, cpu, mem, gpu int64) {
			h.Pods = append(h.Pods, ledger.Pod{UID: uid, Node: "node-" + node, Owner: ledger.Owner{Workload: w, Namespace: ns, Team: team}, CPUMilli: cpu, MemMiB: mem, GPUMilli: gpu, Held: fleet.Interval{From: start}})
		}
		pod("a", "g0", "w-llm", "chat", "red", 7000, 70_001, 4000)
		pod("b", "g0", "w-train", "train", "blue", 33_333, 99_999, int64(hour%5)*1000)
		pod("c", "g1", "w-llm", "chat", "red", 7000, 70_001, 8000)
		pod("d", "s0", "w-train", "train", "blue", 1000, 1024, 1000)
		pod("e", "s1", "", "tools", "", 1000, 1024, 0)
		pod("f", "c0", "w-web", "web", "", 3000+int64(hour%7)*1000, 1024, 0) // more than there is, at times
		for _, n := range closed(h, machines, prices, claims) {
			for _, l := range n.Lines {
				total = total.Add(l.Amount)
			}
			rows = append(rows, n.Rows()...)
		}
		fee := focus.Purchase{Account: account, Commitment: plan, Hour: from, AsOf: from, Team: "red", Amount: 120_000_000, Millis: time.Hour.Milliseconds()}
		rows = append(rows, fee.Row())
		if fee.Commitment, fee.Quantity, fee.Amount = reserved, 3000, 60_000_001; hour == 0 {
			fee.Upfront, fee.Millis, fee.Amount = true, 365*24*time.Hour.Milliseconds(), 525_600_123_456_789
			rows = append(rows, fee.Row())
		}
		if hour%24 < 6 {
			u := focus.Unused{Account: account, Commitment: reserved, Hour: from, Version: 1, AsOf: from.Add(time.Hour), Team: "red", Amount: 60_000_007, Hours: 0.25}
			rows, total = append(rows, u.Row()), total.Add(u.Amount)
		}
	}
	return rows, total
})

// The export of a month breaks no rule, and adds up to what the ledger says, to the last nano-unit.
func TestAMonthPassesTheChecker(t *testing.T) {
	t.Parallel()
	rows, total := month()
	file := export(t, rows)
	r, err := focus.Check(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("line %d, %d times: %s: %s", f.Line, f.Count, f.Rule.ID, f.Detail)
	}
	if want := fmt.Sprintf("%d.%09d", total/fleet.NanosPerUnit, total%fleet.NanosPerUnit); r.Effect != want {
		t.Errorf("EffectiveCost adds up to %s, the ledger to %s", r.Effect, want)
	}
	if r.Rows != len(rows) || r.Origins < 30*24*5 {
		t.Errorf("%d rows, %d origin charges", r.Rows, r.Origins)
	}
	t.Logf("%d rules hold over %d rows of %d origin charges, %d bytes", r.Rules, r.Rows, r.Origins, len(file))
}

// Whatever the ledger closes, the rows of every origin add up, and no rule of FOCUS is broken.
func TestRandomHoursPassTheChecker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := ledger.Hour{From: start, To: start.Add(time.Hour)}
		machines, claims, list := map[string]focus.Machine{}, map[string][]focus.Claim{}, map[string]fleet.Money{}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			uid := fmt.Sprintf("n%d", i)
			price := fleet.Money(rapid.Int64Range(1, 500*fleet.NanosPerUnit).Draw(t, "price"))
			n := ledger.Node{UID: uid, Name: uid, Purchase: fleet.PurchaseOnDemand, CPUMilli: rapid.Int64Range(0, 200_000).Draw(t, "cpu"), MemMiB: rapid.Int64Range(1, 2<<20).Draw(t, "mem"),
				GPUCount: rapid.IntRange(0, 8).Draw(t, "gpus"), GPUModel: "H100", Price: &price, Weights: market.Catalogue().Weights(fleet.CloudAWS),
				Life: fleet.Interval{From: start.Add(time.Duration(rapid.Int64Range(-100, 3_599_999).Draw(t, "born")) * time.Millisecond)}}
			if rapid.Bool().Draw(t, "listed") {
				list[uid] = fleet.Money(rapid.Int64Range(0, 900*fleet.NanosPerUnit).Draw(t, "list"))
			}
			machines[uid] = focus.Machine{UID: uid, Name: uid, Offering: fleet.Offering{Cloud: rapid.SampledFrom([]fleet.Cloud{"aws", "azure", "gcp", ""}).Draw(t, "cloud"), Purchase: n.Purchase}, CPUMilli: n.CPUMilli, MemMiB: n.MemMiB}
			for range rapid.IntRange(0, 3).Draw(t, "claims") {
				claims[uid] = append(claims[uid], focus.Claim{Commitment: focus.Commitment{Ref: rapid.StringMatching(`[a-z]{5}`).Draw(t, "ref"), Kind: "aws_compute_sp",
					Spend: rapid.Bool().Draw(t, "spend"), Capacity: rapid.Bool().Draw(t, "capacity")}, Machine: rapid.Bool().Draw(t, "machine"),
					UnitMillis: rapid.Int64Range(0, 1_800_000_000).Draw(t, "units"), Amount: fleet.Money(rapid.Int64Range(0, 300*fleet.NanosPerUnit).Draw(t, "claimed"))})
			}
			h.Nodes = append(h.Nodes, n)
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			h.Pods = append(h.Pods, ledger.Pod{UID: fmt.Sprintf("p%d", i), Node: fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "on")),
				Owner:    ledger.Owner{Workload: fleet.WorkloadID(rapid.SampledFrom([]string{"", "w1", "w2"}).Draw(t, "workload")), Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "ns")},
				CPUMilli: rapid.Int64Range(0, 100_000).Draw(t, "pod cpu"), MemMiB: rapid.Int64Range(0, 1<<20).Draw(t, "pod mem"), GPUMilli: rapid.Int64Range(0, 4000).Draw(t, "pod gpu"), Held: fleet.Interval{From: start}})
		}
		var rows []focus.Row
		var total fleet.Money
		for _, n := range closed(h, machines, list, claims) {
			sum := fleet.Money(0)
			for _, l := range n.Lines {
				sum += l.Amount
			}
			if sum > 0 { // what costs nothing is no charge
				total += sum
			}
			rows = append(rows, n.Rows()...)
		}
		got := fleet.Money(0)
		for _, r := range rows {
			m, err := fleet.ParseMoney(r[focus.EffectiveCost])
			if err != nil {
				t.Fatal(err)
			}
			got += m
		}
		if got != total {
			t.Fatalf("rows add up to %s, the ledger to %s", got, total)
		}
		report, err := focus.Check(bytes.NewReader(export(t, rows)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			t.Errorf("line %d: %s: %s", f.Line, f.Rule.ID, f.Detail)
		}
	})
}

// sheet is a file that can be changed cell by cell.
type sheet [][]string

func (s sheet) col(name string) int { return slices.Index(s[0], name) }

func (s sheet) set(row int, name, value string) { s[row][s.col(name)] = value }

// find is the first row whose column has the value.
func (s sheet) find(t *testing.T, name, value string) int {
	t.Helper()
	for i, r := range s[1:] {
		if r[s.col(name)] == value {
			return i + 1
		}
	}
	t.Fatalf("no row has %s %q", name, value)
	return 0
}

func smallFile(t *testing.T) sheet {
	t.Helper()
	rows, _ := month()
	n := 60
	for rows[n][focus.XOriginChargeID] == rows[n-1][focus.XOriginChargeID] { // no part of a charge
		n++
	}
	all, err := csv.NewReader(bytes.NewReader(export(t, rows[:n]))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func broken(t *testing.T, s sheet) []string {
	t.Helper()
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(s); err != nil {
		t.Fatal(err)
	}
	r, err := focus.Check(&b)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range r.Findings {
		ids = append(ids, f.Rule.ID)
	}
	return ids
}

// Every change to a good file is caught, and the rule that it breaks is named.
func TestChangedFilesAreCaught(t *testing.T) {
	t.Parallel()
	if ids := broken(t, smallFile(t)); ids != nil {
		t.Fatalf("the file is not good to begin with: %v", ids)
	}
	// cell changes the first row that has a value in another column.
	cell := func(where, is, name, value string) func(*testing.T, sheet) {
		return func(t *testing.T, s sheet) { s.set(s.find(t, where, is), name, value) }
	}
	usage := func(name, value string) func(*testing.T, sheet) { return cell("ChargeCategory", "Usage", name, value) }
	correction := func(name, value string) func(*testing.T, sheet) {
		return func(t *testing.T, s sheet) { i := 1; s.set(i, "ChargeCategory", "Tax"); s.set(i, name, value) }
	}
	cases := map[string]func(*testing.T, sheet){
		"columns.custom_prefix":                           func(_ *testing.T, s sheet) { s[0][s.col("x_Team")] = "Team" },
		"columns.pascal_case":                             func(_ *testing.T, s sheet) { s[0][s.col("x_Team")] = "x_team" },
		"columns.order":                                   func(_ *testing.T, s sheet) { s[0][0], s[0][s.col("x_Team")] = "x_Team", s[0][0] },
		"strings.trimmed":                                 usage("ResourceName", " node"),
		"nulls.no_placeholder":                            usage("InvoiceId", "N/A"),
		"RegionName.name_of_id":                           usage("RegionName", ""),
		"ResourceName.null_without_id":                    usage("ResourceId", ""),
		"ResourceType.type_of_id":                         usage("ResourceType", ""),
		"SubAccountName.name_of_id":                       usage("SubAccountName", ""),
		"SubAccountType.type_of_id":                       usage("SubAccountType", ""),
		"BillingAccountType.type_of_id":                   usage("BillingAccountType", ""),
		"PricingUnit.unit_of_quantity":                    usage("PricingUnit", ""),
		"ConsumedUnit.unit_of_quantity":                   usage("ConsumedUnit", ""),
		"CommitmentDiscountUnit.unit_of_quantity":         cell("CommitmentDiscountStatus", "Used", "CommitmentDiscountUnit", ""),
		"CommitmentDiscountCategory.category_of_id":       cell("CommitmentDiscountStatus", "Used", "CommitmentDiscountCategory", ""),
		"CommitmentDiscountType.type_of_id":               cell("CommitmentDiscountStatus", "Used", "CommitmentDiscountType", ""),
		"CommitmentDiscountName.null_without_id":          usage("CommitmentDiscountName", "sp-1"),
		"CommitmentDiscountStatus.null_without_id":        usage("CommitmentDiscountStatus", "Used"),
		"CommitmentDiscountQuantity.null_without_id":      usage("CommitmentDiscountQuantity", "1"),
		"CapacityReservationStatus.null_without_id":       usage("CapacityReservationStatus", "Used"),
		"SkuPriceDetails.null_without_price":              usage("SkuPriceId", ""),
		"SkuPriceId.null_without_sku":                     usage("SkuId", ""),
		"SkuMeter.null_without_sku":                       usage("SkuId", ""),
		"AllocatedMethodDetails.with_method":              usage("AllocatedMethodDetails", ""),
		"AllocatedResourceId.with_method":                 usage("AllocatedResourceId", ""),
		"AllocatedResourceName.null_without_id":           usage("AllocatedResourceId", ""),
		"AllocatedTags.with_method":                       usage("AllocatedMethodId", ""),
		"x_OriginChargeId.with_method":                    usage("x_OriginChargeId", ""),
		"ListCost.product":                                usage("ListCost", "1.000000000"),
		"ContractedCost.product":                          usage("ContractedUnitPrice", "98.320000100"),
		"ListUnitPrice.required":                          usage("ListUnitPrice", ""),
		"ContractedUnitPrice.required":                    usage("ContractedUnitPrice", ""),
		"PricingQuantity.required":                        usage("PricingQuantity", ""),
		"PricingUnit.required":                            usage("PricingUnit", ""),
		"PricingCategory.required":                        usage("PricingCategory", ""),
		"SkuId.required":                                  usage("SkuId", ""),
		"SkuPriceId.required":                             usage("SkuPriceId", ""),
		"ConsumedQuantity.required":                       usage("ConsumedQuantity", ""),
		"ConsumedQuantity.null_outside_usage":             correction("ConsumedQuantity", "1"),
		"ConsumedQuantity.null_when_unused":               cell("CommitmentDiscountStatus", "Unused", "ConsumedQuantity", "1"),
		"ListUnitPrice.null_for_tax":                      correction("ListUnitPrice", "1"),
		"ContractedUnitPrice.null_for_tax":                correction("ContractedUnitPrice", "1"),
		"PricingQuantity.null_for_tax":                    correction("PricingQuantity", "1"),
		"PricingCategory.null_for_tax":                    correction("PricingCategory", "Standard"),
		"SkuPriceId.null_for_tax":                         correction("SkuPriceId", "x"),
		"ListUnitPrice.not_negative":                      usage("ListUnitPrice", "-1"),
		"ContractedUnitPrice.not_negative":                usage("ContractedUnitPrice", "-1"),
		"PricingCurrencyListUnitPrice.not_negative":       func(_ *testing.T, s sheet) { rename(s, "InvoiceId", "PricingCurrencyListUnitPrice", "-1") },
		"PricingCurrencyContractedUnitPrice.not_negative": func(_ *testing.T, s sheet) { rename(s, "InvoiceId", "PricingCurrencyContractedUnitPrice", "-1") },
		"ChargeFrequency.purchase":                        usage("ChargeCategory", "Purchase"),
		"EffectiveCost.purchase":                          cell("CommitmentDiscountStatus", "Used", "ChargeCategory", "Purchase"),
		"EffectiveCost.tax":                               correction("BilledCost", "7"),
		"ServiceSubcategory.of_category":                  usage("ServiceSubcategory", "Object Storage"),
		"SkuPriceDetails.keys":                            usage("SkuPriceDetails", `{"Cores":1}`),
		"SkuPriceDetails.flat":                            usage("SkuPriceDetails", `{"x_A":{}}`),
		"Tags.flat":                                       usage("Tags", `{"a":[1]}`),
		"AllocatedTags.flat":                              usage("AllocatedTags", `{"pool":"gpu","a":[1]}`),
		"CommitmentDiscountStatus.usage":                  cell("CommitmentDiscountStatus", "Used", "CommitmentDiscountStatus", ""),
		"CapacityReservationStatus.usage":                 usage("CapacityReservationId", "cr-1"),
		"CommitmentDiscountQuantity.required":             cell("CommitmentDiscountStatus", "Used", "CommitmentDiscountQuantity", ""),
		"CommitmentDiscountStatus.unused_is_usage":        cell("CommitmentDiscountStatus", "Unused", "ChargeCategory", "Adjustment"),
		"CommitmentDiscountStatus.unused_resource":        cell("CommitmentDiscountStatus", "Unused", "ResourceId", "i-1"),
		"PricingCategory.committed":                       cell("CommitmentDiscountStatus", "Used", "PricingCategory", "Standard"),
		"BilledCost.committed":                            cell("CommitmentDiscountStatus", "Used", "BilledCost", "1"),
		"CommitmentDiscountStatus.null_outside_usage":     cell("ChargeCategory", "Purchase", "CommitmentDiscountStatus", "Used"),
		"CapacityReservationStatus.null_outside_usage":    cell("ChargeCategory", "Purchase", "CapacityReservationStatus", "Used"),
		"PricingCategory.purchase":                        cell("ChargeCategory", "Purchase", "PricingCategory", "Committed"),
		"CommitmentDiscountUnit.spend":                    cell("CommitmentDiscountCategory", "Spend", "CommitmentDiscountUnit", "Hours"),
		"x_CostKind.purchase":                             cell("ChargeCategory", "Purchase", "x_CostKind", "idle"),
		"PricingCategory.dynamic":                         cell("PricingCategory", "Dynamic", "PricingCategory", "Standard"),
		"BillingPeriodStart.month":                        usage("BillingPeriodStart", "2026-03-01T01:00:00Z"),
		"ChargePeriodEnd.after_start":                     usage("ChargePeriodEnd", "2026-03-01T00:00:00Z"),
		"BillingPeriodEnd.after_start":                    usage("BillingPeriodEnd", "2026-03-01T00:00:00Z"),
		"ChargePeriodStart.in_billing_period":             usage("BillingPeriodStart", "2026-03-20T00:00:00Z"),
		"ChargePeriodStart.hour":                          usage("ChargePeriodEnd", "2026-03-01T00:59:59Z"),
		"AllocatedMethodDetails.elements":                 usage("AllocatedMethodDetails", `{"Elements":[{"UsageUnit":"GPU-Hours"}]}`),
		"AllocatedMethodDetails.keys":                     usage("AllocatedMethodDetails", `{"Elements":[{"AllocatedRatio":1,"Ratio":2}]}`),
		"AllocatedMethodDetails.unit_of_quantity":         usage("AllocatedMethodDetails", `{"Elements":[{"AllocatedRatio":1,"UsageQuantity":2}]}`),
		"AllocatedMethodDetails.units":                    usage("AllocatedMethodDetails", `{"Elements":[{"AllocatedRatio":1,"UsageUnit":"gpu_h","UsageQuantity":2}]}`),
		"AllocatedTags.include_tags":                      usage("AllocatedTags", `{"team":"red"}`),
		"x_CostKind.values":                               usage("x_CostKind", "waste"),
		"EffectiveCost.resources":                         usage("x_CpuCost", "0.000000001"),
		"BilledCost.sum_of_split":                         usage("BilledCost", "0.000000001"),
		"ContractedCost.sum_of_split":                     usage("ContractedCost", "0.000000001"),
		"EffectiveCost.sum_of_split":                      usage("EffectiveCost", "0.000000001"),
		"ListCost.sum_of_split":                           usage("ListCost", "0.000000001"),
		"PricingQuantity.sum_of_split":                    usage("PricingQuantity", "0.000000000001"),
		"ConsumedQuantity.sum_of_split":                   usage("ConsumedQuantity", "0.000000000001"),
		"AllocatedMethodDetails.ratios":                   usage("AllocatedMethodDetails", `{"Elements":[{"AllocatedRatio":0.5}]}`),
		"dimensions.same_in_split":                        cell("x_OriginChargeId", "c1/g0/2026-03-01T00Z/0", "ChargeDescription", "something else"),
	}
	generic := map[string]bool{} // by column and kind, made and tried in a loop below
	for _, r := range focus.Rules() {
		column, kind, _ := strings.Cut(r.ID, ".")
		switch {
		case cases[r.ID] != nil:
		case slices.Contains([]string{"present", "not_null", "values", "format"}, kind):
			generic[r.ID] = true
			value := map[string]string{"values": "Sometimes", "format": "12,5 a"}[kind]
			cases[r.ID] = func(t *testing.T, s sheet) {
				switch {
				case kind == "present":
					s[0][s.col(column)] = "x_Gone"
				case s.col(column) < 0: // not a column of ours
					rename(s, "InvoiceId", column, value)
				default:
					s.set(1, column, value)
				}
			}
		default:
			t.Errorf("no case breaks the rule %s", r.ID)
		}
	}
	for id, change := range cases {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s := smallFile(t)
			change(t, s)
			if ids := broken(t, s); !slices.Contains(ids, id) {
				t.Errorf("broken rules: %v", ids)
			}
		})
	}
	t.Logf("%d rules, %d of them by column", len(focus.Rules()), len(generic))
}

// rename makes a column of a column that is empty, with a value in the first row.
func rename(s sheet, from, to, value string) {
	i := s.col(from)
	s[0][i], s[1][i] = to, value
}

func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"empty":                {"", "empty"},
		"a column twice":       {"BilledCost,BilledCost\n", `"BilledCost" stands twice`},
		"a short row":          {"BilledCost,ListCost\n1\n", "line 2"},
		"a quote in the wrong": {"BilledCost\n1\"2\n", "line 2"},
		"a huge value":         {"BilledCost\n" + strings.Repeat("1", 70_000) + "\n", "line 2: the value of BilledCost"},
		"columns without end":  {strings.Repeat("x_A,", 500) + "x_B\n", "501 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := focus.Check(strings.NewReader(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// The public sample of FOCUS 1.0 is of several providers' making and keeps not every rule; it must read all the same.
func TestThePublicSampleReads(t *testing.T) {
	t.Parallel()
	path := os.Getenv("PLIMSOLL_FOCUS_SAMPLE")
	if path == "" {
		path = "../../../shared/data/samples/focus_1.0_sample_1000.csv.gz"
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the public FOCUS sample is not here; set PLIMSOLL_FOCUS_SAMPLE to its path")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	in, err := focus.NewReader(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	rows, providers, services := 0, map[string]int{}, map[string]bool{}
	for {
		r, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := new(big.Rat).SetString(r[focus.BilledCost]); !ok || r[focus.BillingCurrency] != "USD" {
			t.Errorf("line %d: BilledCost %q", in.Line(), r[focus.BilledCost])
		}
		rows++
		providers[r[focus.ProviderName]]++
		id, _ := in.Custom("x_ServiceId")
		services[id] = true
	}
	if rows != 1000 || providers["AWS"] != 942 || providers["Microsoft"] != 51 || providers["Oracle"] != 7 || len(services) != 1000 {
		t.Errorf("%d rows of %v, %d service ids", rows, providers, len(services))
	}
}
