package commitment_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
)

func candidate(purchase fleet.Purchase, list, spot string) commitment.Candidate {
	u := machine("", "r5.4xlarge", "1")
	c := commitment.Candidate{Offering: u.Offering, Machine: u.Machine}
	c.Offering.Purchase = purchase
	if list != "" {
		c.List = commitment.Known{Hour: ptr(usd(list)), Source: "catalogue"}
	}
	if spot != "" {
		c.Spot = commitment.Known{Hour: ptr(usd(spot)), Source: "history"}
	}
	return c
}

func told(q commitment.Quote) string {
	var b strings.Builder
	price := func(m *fleet.Money) string {
		if m == nil {
			return "unknown"
		}
		return m.String()
	}
	fmt.Fprintf(&b, "%s:", price(q.PerHour))
	for _, p := range q.Parts {
		name := string(p.Basis)
		if p.Commitment != "" {
			name = p.Commitment
		}
		fmt.Fprintf(&b, " %s %d%% %s", name, p.SharePPM/10_000, price(p.PerHour))
	}
	return b.String()
}

func TestMarginal(t *testing.T) {
	t.Parallel()
	onDemand := candidate(fleet.PurchaseOnDemand, "1", "")
	contracted := candidate(fleet.PurchaseOnDemand, "1", "")
	contracted.Contracted = commitment.Known{Hour: ptr(usd("0.8")), Source: "tenant"}
	held := zonal("odcr", "r5.4xlarge", 2, "0")
	held.Kind = commitment.KindCapacity
	half := plan("sp", commitment.KindComputeSP, "0.9", at("r5.4xlarge", "0.6"))
	for _, c := range []struct {
		name        string
		c           commitment.Candidate
		running     []commitment.Usage
		commitments []commitment.Commitment
		want        []string // of the first, second ... machine
	}{
		{"nothing owned: the list price", onDemand, nil, nil, []string{"1.00: list 100% 1.00", "1.00: list 100% 1.00"}},
		{"a contract comes before the list", contracted, nil, nil, []string{"0.80: contracted 100% 0.80"}},
		{"an unused reservation is free up to what is left", onDemand, nil, []commitment.Commitment{zonal("ri", "r5.4xlarge", 1, "0.5")}, []string{"0.00: ri 100% 0.00", "1.00: list 100% 1.00"}},
		{"what another cluster uses is not left", onDemand, []commitment.Usage{machine("a", "r5.4xlarge", "1")}, []commitment.Commitment{zonal("ri", "r5.4xlarge", 1, "0.5")}, []string{"1.00: list 100% 1.00"}},
		{"smaller sizes leave a part", onDemand, []commitment.Usage{machine("a", "r5.2xlarge", "0.5")}, []commitment.Commitment{regional("ri", "r5.4xlarge", 1, "0.5")}, []string{"0.50: ri 50% 0.00 list 50% 0.50"}},
		{"a plan reaches for one machine and a half", onDemand, nil, []commitment.Commitment{half}, []string{"0.00: sp 100% 0.00", "0.50: sp 50% 0.00 list 50% 0.50", "1.00: list 100% 1.00"}},
		{"reservation, then plan, then list", onDemand, nil, []commitment.Commitment{half, regional("ri", "r5.2xlarge", 1, "0.3")},
			[]string{"0.00: ri 50% 0.00 sp 50% 0.00", "0.00: sp 100% 0.00", "1.00: list 100% 1.00"}},
		{"an empty place of a capacity reservation is paid for", onDemand, []commitment.Usage{machine("a", "r5.4xlarge", "1")}, []commitment.Commitment{held}, []string{"0.00: odcr 100% 0.00", "1.00: list 100% 1.00"}},
		{"a reserved machine beyond what is owned has no known price", candidate(fleet.PurchaseReserved, "1", ""), nil, []commitment.Commitment{zonal("ri", "r5.4xlarge", 1, "0.5")},
			[]string{"0.00: ri 100% 0.00", "unknown: unknown 100% unknown"}},
		{"Spot costs what Spot costs, whatever is owned", candidate(fleet.PurchaseSpot, "1", "0.4"), nil, []commitment.Commitment{half}, []string{"0.40: spot 100% 0.40"}},
		{"an unknown Spot price is not zero", candidate(fleet.PurchaseSpot, "1", ""), nil, nil, []string{"unknown: spot 100% unknown"}},
		{"an unknown list price is not zero", candidate(fleet.PurchaseOnDemand, "", ""), nil, nil, []string{"unknown: list 100% unknown"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			left := commitment.Left(hour, c.running, c.commitments, nil)
			for i, want := range c.want {
				if got := told(commitment.Marginal(c.c, i+1, left)); got != want {
					t.Errorf("machine %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

// When Spot is dearer than what is left to pay under a commitment, the choice flips, and back once the commitment is used up.
func TestSpotAboveTheRestUnderACommitmentFlipsTheChoice(t *testing.T) {
	t.Parallel()
	half := plan("sp", commitment.KindComputeSP, "0.3", at("r5.4xlarge", "0.6")) // covers half a machine: 0.50 are left to pay
	for _, c := range []struct {
		name, spot  string
		commitments []commitment.Commitment
		quantity    int
		want        fleet.Purchase
	}{
		{"without commitments Spot is cheaper", "0.45", nil, 1, fleet.PurchaseSpot},
		{"half a machine is paid, Spot at 0.45 is still cheaper than 0.50", "0.45", []commitment.Commitment{half}, 1, fleet.PurchaseSpot},
		{"Spot at 0.55 is not", "0.55", []commitment.Commitment{half}, 1, fleet.PurchaseOnDemand},
		{"at the same price nobody can take away what is on demand", "0.50", []commitment.Commitment{half}, 1, fleet.PurchaseOnDemand},
		{"two machines on demand cost 1.50, on Spot 1.10", "0.55", []commitment.Commitment{half}, 2, fleet.PurchaseSpot},
		{"an unknown Spot price wins nothing", "", []commitment.Commitment{half}, 1, fleet.PurchaseOnDemand},
	} {
		left := commitment.Left(hour, nil, c.commitments, nil)
		best, ok := commitment.Cheapest(c.quantity, left, candidate(fleet.PurchaseSpot, "1", c.spot), candidate(fleet.PurchaseOnDemand, "1", ""))
		if !ok || best.Offering.Purchase != c.want {
			t.Errorf("%s: %s at %v, want %s", c.name, best.Offering.Purchase, best.Total, c.want)
		}
	}
	if _, ok := commitment.Cheapest(1, commitment.State{}, candidate(fleet.PurchaseSpot, "1", "")); ok {
		t.Error("a choice without any price")
	}
}
