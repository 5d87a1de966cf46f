package commitment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

var hour = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func usd(s string) fleet.Money {
	m, err := fleet.ParseMoney(s)
	if err != nil {
		panic(err)
	}
	return m
}

func ptr[T any](v T) *T { return &v }

// year is a term around the test's hour.
var year = fleet.Interval{From: hour.Add(-100 * time.Hour), To: hour.Add(-100*time.Hour + 365*24*time.Hour)}

func machine(node, instanceType, list string) commitment.Usage {
	return commitment.Usage{Cluster: "c1", Node: node, List: ptr(usd(list)), Price: ptr(usd(list)), Running: fleet.Interval{From: hour.Add(-time.Hour)},
		Offering: fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: instanceType, Purchase: fleet.PurchaseOnDemand}}
}

func during(u commitment.Usage, from, to time.Duration) commitment.Usage {
	u.Running = fleet.Interval{From: hour.Add(from), To: hour.Add(to)}
	return u
}

func regional(id, instanceType string, count int64, recurring string) commitment.Commitment {
	return commitment.Commitment{ID: id, Ref: id, Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: instanceType, Quantity: count * 1000, Recurring: usd(recurring), Term: year}
}

func zonal(id, instanceType string, count int64, recurring string) commitment.Commitment {
	c := regional(id, instanceType, count, recurring)
	c.Kind, c.Zone = commitment.KindZonalRI, "us-east-1a"
	return c
}

func plan(id string, kind commitment.Kind, spend string, rates ...commitment.Rate) commitment.Commitment {
	c := commitment.Commitment{ID: id, Ref: id, Kind: kind, Spend: usd(spend), Rates: rates, Term: year}
	if kind == commitment.KindInstanceSP {
		c.Region, c.Family = "us-east-1", "r5"
	}
	return c
}

func at(instanceType, price string) commitment.Rate {
	return commitment.Rate{InstanceType: instanceType, Hour: ptr(usd(price))}
}

// shown tells a statement as text: who covers how much of what for how much, what is left, what is unused.
func shown(s commitment.Statement) string {
	var b strings.Builder
	line := func(r commitment.Row, by string) {
		amount, where := "?", r.Node
		if r.Amount != nil {
			amount = r.Amount.String()
		}
		if r.Held != "" {
			where = "empty place of " + r.Held
		}
		fmt.Fprintf(&b, "%s %s", by, where)
		if r.Resource != commitment.ResourceMachine {
			fmt.Fprintf(&b, " %s", r.Resource)
		}
		fmt.Fprintf(&b, " %g h %s\n", float64(r.Units)/float64(r.Of), amount)
	}
	for _, r := range s.Places {
		fmt.Fprintf(&b, "%s holds %s\n", r.Commitment, r.Node)
	}
	for _, r := range s.Covered {
		line(r, r.Commitment)
	}
	for _, r := range s.Remainder {
		line(r, "-")
	}
	for _, x := range s.Balances {
		fmt.Fprintf(&b, "%s: %s used %s unused %s\n", x.Commitment, x.Bought, x.Used, x.Unused)
	}
	return b.String()
}

func google(node, instanceType string, cpus, gib int64, model fleet.GPUModel, gpus int) commitment.Usage {
	it := fleet.InstanceType{Cloud: fleet.CloudGCP, Name: instanceType, CPUMilli: cpus * 1000, MemMiB: gib * 1024, GPUModel: model, GPUCount: gpus}
	w := market.Weights{CPUHour: usd("0.03"), GiBHour: usd("0.004096"), GPUHour: map[fleet.GPUModel]fleet.Money{"A100": usd("3")}}
	list := w.CPUHour*fleet.Money(cpus) + w.GiBHour*fleet.Money(gib) + usd("3")*fleet.Money(gpus)
	return commitment.Usage{Cluster: "c1", Node: node, List: &list, Price: &list, Weights: w, Machine: it, Running: fleet.Interval{From: hour.Add(-time.Hour)},
		Offering: fleet.Offering{Cloud: fleet.CloudGCP, Region: "us-central1", Zone: "us-central1-a", InstanceType: instanceType, Purchase: fleet.PurchaseOnDemand}}
}

func cud(id string, resource commitment.Resource, family string, quantity int64, recurring string) commitment.Commitment {
	c := commitment.Commitment{ID: id, Ref: id, Kind: commitment.KindGCPResource, Region: "us-central1", Resource: resource, Family: family, Quantity: quantity, Recurring: usd(recurring), Term: year}
	if resource == commitment.ResourceGPU {
		c.GPUModel = "A100"
	}
	return c
}

// The arithmetic that the clouds document, on figures of our own.
func TestGolden(t *testing.T) {
	t.Parallel()
	azure := func(node, instanceType string) commitment.Usage {
		u := machine(node, instanceType, "1")
		u.Offering = fleet.Offering{Cloud: fleet.CloudAzure, Region: "westeurope", InstanceType: instanceType, Purchase: fleet.PurchaseOnDemand}
		return u
	}
	spot := machine("s", "m5.large", "0.1")
	spot.Offering.Purchase = fleet.PurchaseSpot
	reserved := machine("z-reserved", "p5.48xlarge", "98")
	reserved.Offering.Purchase, reserved.Price = fleet.PurchaseReserved, nil
	block := zonal("block", "p5.48xlarge", 1, "0")
	block.Kind, block.Upfront, block.Term = commitment.KindCapacityBlock, usd("2400"), fleet.Interval{From: hour.Add(-10 * time.Hour), To: hour.Add(14 * time.Hour)}
	held := zonal("odcr", "m4.large", 4, "0")
	held.Kind = commitment.KindCapacity
	allUpfront := regional("up", "m5.large", 1, "0")
	allUpfront.Upfront = usd("100")
	flexGroup := commitment.Commitment{ID: "az", Ref: "az", Kind: commitment.KindAzureReservation, Region: "westeurope", InstanceType: "D2", Quantity: 3000, Recurring: usd("0.6"), Term: year,
		Ratios: []commitment.Ratio{{InstanceType: "D2", Milli: 1000}, {InstanceType: "D4", Milli: 2000}, {InstanceType: "D8", Milli: 4000}}}
	list := func(fleet.Offering) *fleet.Money { return ptr(usd("0.1")) }
	for _, c := range []struct {
		name        string
		usage       []commitment.Usage
		commitments []commitment.Commitment
		want        string
	}{
		{"one xlarge covers two large", []commitment.Usage{machine("a", "m4.large", "0.1"), machine("b", "m4.large", "0.1")}, []commitment.Commitment{regional("ri", "m4.xlarge", 1, "0.12")},
			"ri a 1 h 0.06\nri b 1 h 0.06\nri: 0.12 used 0.12 unused 0.00\n"},
		{"two large from two purchases cover half an xlarge each", []commitment.Usage{machine("a", "m4.xlarge", "0.2")},
			[]commitment.Commitment{regional("one", "m4.large", 1, "0.05"), regional("two", "m4.large", 1, "0.05")},
			"one a 0.5 h 0.05\ntwo a 0.5 h 0.05\none: 0.05 used 0.05 unused 0.00\ntwo: 0.05 used 0.05 unused 0.00\n"},
		{"a medium covers half of a large, the rest is on demand", []commitment.Usage{machine("a", "t2.large", "0.0928")}, []commitment.Commitment{regional("ri", "t2.medium", 1, "0.03")},
			"ri a 0.5 h 0.03\n- a 0.5 h 0.0464\nri: 0.03 used 0.03 unused 0.00\n"},
		{"small sizes first", []commitment.Usage{machine("a", "m5.2xlarge", "0.4"), machine("b", "m5.large", "0.1"), machine("c", "m5.xlarge", "0.2")}, []commitment.Commitment{regional("ri", "m5.2xlarge", 1, "0.24")},
			"ri b 1 h 0.06\nri c 1 h 0.12\nri a 0.25 h 0.06\n- a 0.75 h 0.30\nri: 0.24 used 0.24 unused 0.00\n"},
		{"no size flexibility for g5: another size stays on demand", []commitment.Usage{machine("a", "g5.xlarge", "1"), machine("b", "g5.2xlarge", "1.2")}, []commitment.Commitment{regional("ri", "g5.2xlarge", 2, "1.4")},
			"ri b 1 h 0.70\n- a 1 h 1.00\nri: 1.40 used 0.70 unused 0.70\n"},
		{"a zonal reservation goes before a regional one, and not to another zone", []commitment.Usage{machine("a", "m5.large", "0.1"), func() commitment.Usage {
			u := machine("b", "m5.large", "0.1")
			u.Offering.Zone = "us-east-1b"
			return u
		}()}, []commitment.Commitment{regional("r", "m5.large", 1, "0.05"), zonal("z", "m5.large", 2, "0.12")},
			"z a 1 h 0.06\nr b 1 h 0.05\nr: 0.05 used 0.05 unused 0.00\nz: 0.12 used 0.06 unused 0.06\n"},
		{"four machines of a quarter hour fill one clock hour, at the same time or not", []commitment.Usage{during(machine("a", "m5.large", "0.1"), 0, 15*time.Minute), during(machine("b", "m5.large", "0.1"), 0, 15*time.Minute),
			during(machine("c", "m5.large", "0.1"), 30*time.Minute, 45*time.Minute), during(machine("d", "m5.large", "0.1"), 45*time.Minute, time.Hour)}, []commitment.Commitment{zonal("z", "m5.large", 1, "0.06")},
			"z a 0.25 h 0.015\nz b 0.25 h 0.015\nz c 0.25 h 0.015\nz d 0.25 h 0.015\nz: 0.06 used 0.06 unused 0.00\n"},
		{"Spot is never covered", []commitment.Usage{spot}, []commitment.Commitment{regional("ri", "m5.large", 1, "0.06"), plan("sp", commitment.KindComputeSP, "1", at("m5.large", "0.07"))},
			"ri: 0.06 used 0.00 unused 0.06\nsp: 1.00 used 0.00 unused 1.00\n"},
		{"all upfront is spread over the term", []commitment.Usage{machine("a", "m5.large", "0.1")}, []commitment.Commitment{allUpfront},
			"up a 1 h 0.011415526\nup: 0.011415526 used 0.011415526 unused 0.00\n"},
		// r5.4xlarge saves 40 % under the instance plan, m5.24xlarge 25 % and c5.large 30 % under the compute plan.
		{"plans: instance plan before compute plan, then the highest saving, until the commitment is gone",
			[]commitment.Usage{machine("c", "c5.large", "0.1"), machine("m", "m5.24xlarge", "4"), machine("r1", "r5.4xlarge", "1"), machine("r2", "r5.4xlarge", "1")},
			[]commitment.Commitment{plan("compute", commitment.KindComputeSP, "2.17", at("m5.24xlarge", "3"), at("c5.large", "0.07"), at("r5.4xlarge", "0.66")), plan("instance", commitment.KindInstanceSP, "0.6", at("r5.4xlarge", "0.6"))},
			"instance r1 1 h 0.60\ncompute r2 1 h 0.66\ncompute c 1 h 0.07\ncompute m 0.48 h 1.44\n- m 0.52 h 2.08\ncompute: 2.17 used 2.17 unused 0.00\ninstance: 0.60 used 0.60 unused 0.00\n"},
		{"equal savings: the lowest rate first", []commitment.Usage{machine("a", "m5.xlarge", "0.2"), machine("b", "m5.large", "0.1")}, []commitment.Commitment{plan("sp", commitment.KindComputeSP, "0.07", at("m5.xlarge", "0.14"), at("m5.large", "0.07"))},
			"sp b 1 h 0.07\n- a 1 h 0.20\nsp: 0.07 used 0.07 unused 0.00\n"},
		{"a reservation goes before any plan", []commitment.Usage{machine("a", "r5.large", "0.1")}, []commitment.Commitment{plan("sp", commitment.KindInstanceSP, "1", at("r5.large", "0.01")), regional("ri", "r5.large", 1, "0.09")},
			"ri a 1 h 0.09\nri: 0.09 used 0.09 unused 0.00\nsp: 1.00 used 0.00 unused 1.00\n"},
		{"empty places of a capacity reservation are billed, and plans cover them", []commitment.Usage{machine("a", "m4.large", "0.1"), machine("b", "m4.large", "0.1"), machine("c", "m4.large", "0.1")},
			[]commitment.Commitment{held, plan("sp", commitment.KindComputeSP, "0.21", at("m4.large", "0.07"))},
			"odcr holds a\nodcr holds b\nodcr holds c\nsp a 1 h 0.07\nsp b 1 h 0.07\nsp c 1 h 0.07\n- empty place of odcr 1 h 0.10\nodcr: 0.00 used 0.00 unused 0.00\nsp: 0.21 used 0.21 unused 0.00\n"},
		{"a capacity block takes the machines that asked for it", []commitment.Usage{machine("a-on-demand", "p5.48xlarge", "98"), reserved}, []commitment.Commitment{block},
			"block z-reserved 1 h 100.00\n- a-on-demand 1 h 98.00\nblock: 100.00 used 100.00 unused 0.00\n"},
		{"a reserved machine that nothing covers has no known price", []commitment.Usage{reserved}, nil, "- z-reserved 1 h ?\n"},
		{"Azure: the same size first, then by ratio", []commitment.Usage{azure("a", "D8"), azure("b", "D2")}, []commitment.Commitment{flexGroup},
			"az b 1 h 0.20\naz a 0.5 h 0.40\n- a 0.5 h 0.50\naz: 0.60 used 0.60 unused 0.00\n"},
		{"Google: 8 vCPU committed, 24 run: 16 are on demand, memory too", []commitment.Usage{google("a", "n2-standard-24", 24, 96, "", 0)}, []commitment.Commitment{cud("cpu", commitment.ResourceCPU, "n2", 8000, "0.16")},
			"cpu a vcpu 0.3333333333333333 h 0.16\n- a memory 1 h 0.393216\n- a vcpu 0.6666666666666666 h 0.48\ncpu: 0.16 used 0.16 unused 0.00\n"},
		{"Google: vCPU, memory and GPU apart, then the flexible commitment, which passes over GPU series", []commitment.Usage{google("a", "a2-highgpu-1g", 12, 85, "A100", 1), google("b", "n2-standard-8", 8, 32, "", 0)},
			[]commitment.Commitment{cud("gpu", commitment.ResourceGPU, "", 1000, "1.5"), cud("mem", commitment.ResourceMemory, "n2", 16*1024, "0.04"), func() commitment.Commitment {
				c := plan("flex", commitment.KindGCPFlexible, "0.13358592")
				c.DiscountPPM = 280_000
				return c
			}()},
			"gpu a gpu 1 h 1.50\nmem b memory 0.5 h 0.04\nflex b memory 0.5 h 0.04718592\nflex b vcpu 0.5 h 0.0864\n- a memory 1 h 0.34816\n- a vcpu 1 h 0.36\n- b vcpu 0.5 h 0.12\n" +
				"flex: 0.13358592 used 0.13358592 unused 0.00\ngpu: 1.50 used 1.50 unused 0.00\nmem: 0.04 used 0.04 unused 0.00\n"},
		{"Google: what runs one after the other uses a commitment, what runs at once needs two", []commitment.Usage{during(google("a", "n2-custom-8-0", 8, 0, "", 0), 0, 30*time.Minute),
			during(google("b", "n2-custom-8-0", 8, 0, "", 0), 30*time.Minute, time.Hour), during(google("c", "n2-custom-8-0", 8, 0, "", 0), 30*time.Minute, time.Hour)}, []commitment.Commitment{cud("cpu", commitment.ResourceCPU, "n2", 8000, "0.16")},
			"cpu a vcpu 0.5 h 0.08\ncpu b vcpu 0.5 h 0.08\n- c vcpu 0.5 h 0.12\ncpu: 0.16 used 0.16 unused 0.00\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, x := range c.commitments {
				if err := x.Validate(); err != nil {
					t.Fatalf("%s: %v", x.ID, err)
				}
			}
			got := shown(commitment.Allocate(commitment.Input{Interval: fleet.Interval{From: hour, To: hour.Add(time.Hour)}, Usage: c.usage, Commitments: c.commitments, List: list}))
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// The factors that Amazon publishes: n times xlarge is n times eight.
func TestNormalisation(t *testing.T) {
	t.Parallel()
	for instanceType, want := range map[string]int64{"t3.nano": 250, "t3.micro": 500, "t3.small": 1000, "m6a.medium": 2000, "m5.large": 4000, "m5.xlarge": 8000, "m5.2xlarge": 16_000,
		"m5.4xlarge": 32_000, "c5.9xlarge": 72_000, "m5.24xlarge": 192_000, "p5.48xlarge": 384_000, "u-6tb1.112xlarge": 896_000, "m5.metal": 0, "m5": 0, "m5.0xlarge": 0, "m5.-2xlarge": 0} {
		if got := commitment.NormalisationMilli(instanceType); got != want {
			t.Errorf("%s: %d, want %d", instanceType, got, want)
		}
	}
}

func sortTimes(all []time.Time) { slices.SortFunc(all, time.Time.Compare) }
