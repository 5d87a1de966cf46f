package commitment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

type estate struct {
	usage       []commitment.Usage
	commitments []commitment.Commitment
}

var (
	awsTypes   = []string{"m5.large", "m5.xlarge", "m5.2xlarge", "m5.nano", "g5.xlarge", "g5.4xlarge", "r5.large", "r5.metal"}
	azureTypes = []string{"D2", "D4", "D8"}
	gcpTypes   = []string{"n2-standard-8", "n2-custom-2-4", "a2-highgpu-1g", "c2-standard-4"}
)

func anyMoment(t *rapid.T, name string, from, to int64) time.Time {
	return hour.Add(time.Duration(rapid.Int64Range(from, to).Draw(t, name)) * time.Millisecond)
}

func anyUsage(t *rapid.T, i int) commitment.Usage {
	cloud := rapid.SampledFrom([]fleet.Cloud{fleet.CloudAWS, fleet.CloudAWS, fleet.CloudAzure, fleet.CloudGCP, fleet.CloudOnPrem}).Draw(t, "cloud")
	types := map[fleet.Cloud][]string{fleet.CloudAWS: awsTypes, fleet.CloudAzure: azureTypes, fleet.CloudGCP: gcpTypes, fleet.CloudOnPrem: {"rack"}}[cloud]
	u := commitment.Usage{Cluster: fleet.ClusterID(rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "cluster")), Node: fmt.Sprintf("n%02d", i), Weights: market.Catalogue().Weights(cloud)}
	u.Offering = fleet.Offering{Cloud: cloud, Region: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "region"), Zone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"),
		InstanceType: rapid.SampledFrom(types).Draw(t, "type"), Purchase: rapid.SampledFrom([]fleet.Purchase{fleet.PurchaseOnDemand, fleet.PurchaseOnDemand, fleet.PurchaseSpot, fleet.PurchaseReserved}).Draw(t, "purchase")}
	u.Machine = fleet.InstanceType{Cloud: cloud, Name: u.Offering.InstanceType, CPUMilli: rapid.Int64Range(0, 96_000).Draw(t, "cpu"), MemMiB: rapid.Int64Range(0, 800_000).Draw(t, "mem")}
	if strings.HasPrefix(u.Offering.InstanceType, "a2") {
		u.Machine.GPUModel, u.Machine.GPUCount = "A100", rapid.IntRange(0, 8).Draw(t, "gpus")
	}
	if rapid.IntRange(0, 5).Draw(t, "listed") > 0 {
		u.List = ptr(fleet.Money(rapid.Int64Range(0, 100*fleet.NanosPerUnit).Draw(t, "list")))
		u.Price = u.List
	}
	u.Running.From = anyMoment(t, "from", -3_600_000, 4_000_000)
	if rapid.Bool().Draw(t, "ended") {
		u.Running.To = anyMoment(t, "to", -3_600_000, 5_000_000) // may lie before From
	}
	return u
}

func anyCommitment(t *rapid.T, i int) commitment.Commitment {
	c := commitment.Commitment{ID: fmt.Sprintf("x%02d", i), Ref: fmt.Sprintf("ref%02d", i), Kind: rapid.SampledFrom(commitment.Kinds()).Draw(t, "kind"),
		Region: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "region"), Zone: "a", Owner: "team"}
	c.Term.From = anyMoment(t, "start", -100*3_600_000, 3_700_000)
	c.Term.To = c.Term.From.Add(time.Duration(rapid.Int64Range(1, 9000*3_600_000).Draw(t, "term")) * time.Millisecond)
	money := rapid.Custom(func(t *rapid.T) fleet.Money {
		return fleet.Money(rapid.Int64Range(0, 50*fleet.NanosPerUnit).Draw(t, "money"))
	})
	if c.Kind.Spend() {
		c.Spend, c.Zone = money.Draw(t, "spend")+1, ""
		c.DiscountPPM = rapid.Int64Range(1, 700_000).Draw(t, "discount")
		if rapid.Bool().Draw(t, "rated") && c.Kind.Cloud() == fleet.CloudAWS {
			c.Rates = []commitment.Rate{{InstanceType: rapid.SampledFrom(awsTypes).Draw(t, "rate type"), Hour: ptr(money.Draw(t, "rate") + 1)}, {Family: "m5", Region: "r1", DiscountPPM: 300_000}}
		}
		if c.Kind == commitment.KindInstanceSP {
			c.Family = rapid.SampledFrom([]string{"m5", "g5"}).Draw(t, "family")
		} else {
			c.Region = ""
		}
		return c
	}
	if c.Kind != commitment.KindCapacity {
		c.Upfront, c.Recurring = money.Draw(t, "upfront")*100, money.Draw(t, "recurring")
	}
	c.Quantity = 1000 * rapid.Int64Range(1, 6).Draw(t, "quantity")
	switch c.Kind.Cloud() {
	case fleet.CloudAWS:
		c.InstanceType = rapid.SampledFrom(awsTypes).Draw(t, "type")
	case fleet.CloudAzure:
		c.InstanceType = "D2"
		if rapid.Bool().Draw(t, "group") {
			c.Ratios = []commitment.Ratio{{InstanceType: "D2", Milli: 1000}, {InstanceType: "D4", Milli: rapid.Int64Range(1, 3000).Draw(t, "ratio")}}
		}
	default:
		c.InstanceType, c.Zone = "", ""
		c.Resource = rapid.SampledFrom([]commitment.Resource{commitment.ResourceCPU, commitment.ResourceMemory, commitment.ResourceGPU}).Draw(t, "resource")
		c.Quantity = rapid.Int64Range(1, 100_000).Draw(t, "units")
		if c.Resource == commitment.ResourceGPU {
			c.GPUModel = "A100"
		} else {
			c.Family = "n2"
		}
	}
	return c
}

func anyEstate() *rapid.Generator[estate] {
	return rapid.Custom(func(t *rapid.T) (e estate) {
		for i := range rapid.IntRange(0, 25).Draw(t, "machines") {
			e.usage = append(e.usage, anyUsage(t, i))
		}
		for i := range rapid.IntRange(0, 10).Draw(t, "commitments") {
			c := anyCommitment(t, i)
			if err := c.Validate(); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			e.commitments = append(e.commitments, c)
		}
		return e
	})
}

func (e estate) input() commitment.Input {
	return commitment.Input{Interval: fleet.Interval{From: hour, To: hour.Add(time.Hour)}, Usage: e.usage, Commitments: e.commitments,
		List: func(fleet.Offering) *fleet.Money { return ptr(usd("1.25")) }}
}

type place struct {
	cluster    fleet.ClusterID
	node, held string
	resource   commitment.Resource
}

// No hour of a machine is covered twice, no hour of a commitment is used twice, and Used + Unused is what was bought.
func TestNothingIsUsedTwiceAndNothingIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEstate().Draw(t, "estate")
		s := commitment.Allocate(e.input())
		units, of := map[place]int64{}, map[place]int64{}
		used, taken := map[string]fleet.Money{}, map[string]int64{}
		for _, r := range append(append([]commitment.Row{}, s.Covered...), s.Remainder...) {
			k := place{r.Cluster, r.Node, r.Held, r.Resource}
			units[k] += r.Units
			of[k] = r.Of
			if r.Units <= 0 {
				t.Fatalf("an empty row: %+v", r)
			}
			if r.Commitment != "" {
				used[r.Commitment] += *r.Amount
				taken[r.Commitment] += r.Taken
				if *r.Amount < 0 {
					t.Fatalf("negative: %+v", r)
				}
			}
		}
		for _, r := range s.Places {
			taken[r.Commitment] += r.Taken
		}
		// What nothing covers costs its price, whatever it is cut into.
		bare := commitment.Allocate(commitment.Input{Interval: s.Interval, Usage: e.usage})
		alone := map[string]fleet.Money{}
		for _, r := range bare.Remainder {
			if r.Amount != nil {
				alone[string(r.Cluster)+r.Node] += *r.Amount
			}
		}
		seen := map[place]bool{}
		for _, u := range e.usage {
			from, to := u.Running.From, u.Running.To
			if from.Before(hour) {
				from = hour
			}
			if to.IsZero() || to.After(hour.Add(time.Hour)) {
				to = hour.Add(time.Hour)
			}
			ms := to.Sub(from).Milliseconds()
			if u.Price != nil && ms > 0 && commitment.Eligible(u.Offering) {
				if d := alone[string(u.Cluster)+u.Node] - u.Price.MulDiv(ms, 3_600_000); d < -1 || d > 1 { // three resources are rounded apart
					t.Fatalf("%+v costs %s uncovered", u, alone[string(u.Cluster)+u.Node])
				}
			}
			for _, r := range []commitment.Resource{commitment.ResourceMachine, commitment.ResourceCPU, commitment.ResourceMemory, commitment.ResourceGPU} {
				k := place{u.Cluster, u.Node, "", r}
				if _, ok := units[k]; !ok {
					continue
				}
				seen[k] = true
				if !commitment.Eligible(u.Offering) || ms <= 0 || units[k] != of[k]/3_600_000*ms {
					t.Fatalf("%+v ran %d ms, rows say %d of %d", k, ms, units[k], of[k])
				}
			}
		}
		for k := range units {
			if k.held == "" && !seen[k] {
				t.Fatalf("%+v never ran", k)
			}
		}
		byID := map[string]commitment.Commitment{}
		for _, c := range e.commitments {
			byID[c.ID] = c
		}
		for _, b := range s.Balances {
			if b.Used+b.Unused != b.Bought || b.Unused < 0 || b.Used != used[b.Commitment] {
				t.Fatalf("%+v, rows say %s", b, used[b.Commitment])
			}
			if want := ptr(byID[b.Commitment]).Bought(s.Interval); b.Bought != want {
				t.Fatalf("bought %s, want %s", b.Bought, want)
			}
			if b.UsedUnits > b.BoughtUnits || b.UsedUnits != taken[b.Commitment] {
				t.Fatalf("%+v, rows took %d", b, taken[b.Commitment])
			}
		}
	})
}

// Whoever lists clusters, machines or commitments in another order gets the same statement.
func TestAllocateIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEstate().Draw(t, "estate")
		other := estate{rapid.Permutation(e.usage).Draw(t, "usage"), rapid.Permutation(e.commitments).Draw(t, "commitments")}
		if d := cmp.Diff(commitment.Allocate(e.input()), commitment.Allocate(other.input())); d != "" {
			t.Fatalf("another order, another statement:\n%s", d)
		}
	})
}

// A commitment of a later stage covers nothing of a machine that an earlier one could still have covered.
func TestOrderOfApplication(t *testing.T) {
	t.Parallel()
	rank := map[commitment.Kind]int{}
	for i, k := range commitment.Kinds() {
		rank[k] = i
	}
	rapid.Check(t, func(t *rapid.T) {
		e := anyEstate().Draw(t, "estate")
		kind := map[string]commitment.Kind{}
		for _, c := range e.commitments {
			kind[c.ID] = c.Kind
		}
		s := commitment.Allocate(e.input())
		last := -1
		for _, r := range s.Covered {
			if at := rank[kind[r.Commitment]]; at < last {
				t.Fatalf("%s after %v", kind[r.Commitment], s.Covered)
			} else {
				last = at
			}
		}
		// Without the later stages the earlier ones cover exactly the same.
		cut := rapid.IntRange(0, len(rank)).Draw(t, "cut")
		early := estate{usage: e.usage}
		for _, c := range e.commitments {
			if rank[c.Kind] < cut {
				early.commitments = append(early.commitments, c)
			}
		}
		var want []commitment.Row
		for _, r := range s.Covered {
			if rank[kind[r.Commitment]] < cut {
				want = append(want, r)
			}
		}
		if d := cmp.Diff(want, commitment.Allocate(early.input()).Covered); d != "" {
			t.Fatalf("later stages changed earlier ones:\n%s", d)
		}
	})
}

// A size-flexible reservation covers its normalised hours whatever sizes run, as long as enough of the family does.
func TestSizeFlexibilityConservesUnits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var usage []commitment.Usage
		var ran int64
		for i := range rapid.IntRange(1, 20).Draw(t, "machines") {
			it := rapid.SampledFrom([]string{"m5.nano", "m5.large", "m5.xlarge", "m5.9xlarge"}).Draw(t, "type")
			ms := rapid.Int64Range(1, 3_600_000).Draw(t, "ms")
			usage = append(usage, during(machine(fmt.Sprintf("n%02d", i), it, "1"), 0, time.Duration(ms)*time.Millisecond))
			ran += commitment.NormalisationMilli(it) * ms
		}
		owned := regional("ri", rapid.SampledFrom([]string{"m5.large", "m5.4xlarge"}).Draw(t, "owned"), rapid.Int64Range(1, 5).Draw(t, "count"), "7")
		s := commitment.Allocate(commitment.Input{Interval: fleet.Interval{From: hour, To: hour.Add(time.Hour)}, Usage: usage, Commitments: []commitment.Commitment{owned}})
		b := s.Balances[0]
		if b.BoughtUnits != owned.Quantity/1000*commitment.NormalisationMilli(owned.InstanceType)*3_600_000 {
			t.Fatalf("bought %d units", b.BoughtUnits)
		}
		if want := min(ran, b.BoughtUnits); b.UsedUnits != want {
			t.Fatalf("used %d of %d units, %d ran", b.UsedUnits, b.BoughtUnits, ran)
		}
	})
}

// The next machine never costs less than the one before it, and its parts add up.
func TestMarginalIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEstate().Draw(t, "estate")
		left := commitment.Left(hour, e.usage, e.commitments, e.input().List)
		u := anyUsage(t, 99)
		c := commitment.Candidate{Offering: u.Offering, Machine: u.Machine, Weights: u.Weights, List: commitment.Known{Hour: u.List}}
		if u.Offering.Purchase == fleet.PurchaseSpot {
			c.Spot = commitment.Known{Hour: ptr(usd("0.4"))}
		}
		var before, sum fleet.Money
		unknown := false
		for n := 1; n <= 12; n++ {
			q := commitment.Marginal(c, n, left)
			if q.PerHour == nil {
				unknown = true
				continue
			}
			if unknown || *q.PerHour < before {
				t.Fatalf("machine %d costs %s after %s (unknown %v): %+v", n, *q.PerHour, before, unknown, q.Parts)
			}
			var parts fleet.Money
			for _, p := range q.Parts {
				parts += *p.PerHour
			}
			before = *q.PerHour
			if sum += before; parts != before || *q.Total != sum {
				t.Fatalf("parts %s, price %s, total %s, sum %s", parts, before, *q.Total, sum)
			}
		}
		if d := cmp.Diff(commitment.Marginal(c, 3, left), commitment.Marginal(c, 3, left)); d != "" {
			t.Fatalf("asking changes the answer:\n%s", d)
		}
	})
}

// What a term costs does not depend on how it is cut into hours.
func TestAmortisationAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := anyCommitment(t, 0)
		cuts := []time.Time{c.Term.From.Add(-time.Hour), c.Term.To.Add(time.Hour)}
		for range rapid.IntRange(0, 20).Draw(t, "cuts") {
			cuts = append(cuts, c.Term.From.Add(time.Duration(rapid.Int64Range(0, c.Term.To.Sub(c.Term.From).Milliseconds()).Draw(t, "cut"))*time.Millisecond))
		}
		sortTimes(cuts)
		var sum, paid fleet.Money
		for i := 1; i < len(cuts); i++ {
			span := fleet.Interval{From: cuts[i-1], To: cuts[i]}
			sum += c.Bought(span)
			upfront, recurring := c.Paid(span)
			paid += upfront + recurring
		}
		if paid != sum {
			t.Fatalf("paid %s for what costs %s", paid, sum)
		}
		whole := c.Upfront + (c.Recurring+c.Spend).MulDiv(c.Term.To.Sub(c.Term.From).Milliseconds(), 3_600_000)
		if sum != whole {
			t.Fatalf("parts %s, whole %s", sum, whole)
		}
	})
}

// A cluster that settles later finds what the first one left: together they use no more than was bought.
func TestClaimsAreTakenOff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := anyEstate().Draw(t, "estate")
		first := commitment.Allocate(e.input())
		later := e.input()
		later.Usage = nil
		for _, u := range e.usage {
			if u.Cluster != "c1" {
				later.Usage = append(later.Usage, u)
			}
		}
		used, taken := map[string]fleet.Money{}, map[string]int64{}
		for _, r := range append(append([]commitment.Row{}, first.Covered...), first.Places...) {
			if r.Cluster == "c1" && r.Held == "" {
				later.Claims = append(later.Claims, commitment.Claim{Cluster: r.Cluster, Node: r.Node, Commitment: r.Commitment, Resource: r.Resource, Units: r.Units, Taken: r.Taken, Amount: *r.Amount})
				used[r.Commitment] += *r.Amount
				taken[r.Commitment] += r.Taken
			}
		}
		s := commitment.Allocate(later)
		for _, r := range append(append([]commitment.Row{}, s.Covered...), s.Places...) {
			used[r.Commitment] += *r.Amount
			taken[r.Commitment] += r.Taken
		}
		for _, b := range s.Balances {
			if b.Used != used[b.Commitment] || b.Used+b.Unused != b.Bought || b.Unused < 0 || b.UsedUnits != taken[b.Commitment] || b.UsedUnits > b.BoughtUnits {
				t.Fatalf("%+v, rows and claims say %s and %d", b, used[b.Commitment], taken[b.Commitment])
			}
		}
	})
}
