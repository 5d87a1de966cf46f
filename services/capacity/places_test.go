package capacity_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

func places(t *testing.T, in capacity.Input, workload string, like *capacity.Pod) capacity.Places {
	t.Helper()
	p, err := capacity.PlacesOf(in, workload, like)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(p.List); i++ {
		if p.List[i].Weighed < p.List[i-1].Weighed {
			t.Fatalf("prices fall: %+v", p.List)
		}
	}
	return p
}

func TestWhatReplicasCostInACluster(t *testing.T) {
	t.Parallel()
	onDemand := []capacity.Candidate{candidates()[0], candidates()[4]} // small and large, on demand in zone a
	paid := node("n1", "large", fleet.PurchaseOnDemand)
	paid.Saves = dollars(0)
	none := int64(0)
	type short struct {
		kind  capacity.PlaceKind
		count int
		price string
	}
	for _, c := range []struct {
		name  string
		in    capacity.Input
		cands []capacity.Candidate
		want  []short
		reach int // -1: no limit
	}{
		{"what a commitment pays for first, then the cheapest machine per replica", input([]capacity.Node{paid}, pod("a1", "n1", 4000, 0), pod("a2", "n1", 4000, 0)), onDemand,
			[]short{{capacity.PlaceRuns, 2, "0.00"}, {capacity.PlaceSpare, 2, "0.00"}, {capacity.PlaceNew, 0, "0.19"}}, -1},
		{"room on a machine that could go costs its share", input([]capacity.Node{node("n1", "small", fleet.PurchaseOnDemand)}, pod("a1", "n1", 2000, 0)), onDemand,
			[]short{{capacity.PlaceNew, 0, "0.095"}}, -1},
		{"a machine without a price gives no place", func() capacity.Input {
			in := input([]capacity.Node{paid}, pod("a1", "n1", 4000, 0))
			in.Nodes = slices.Clone(in.Nodes)
			in.Nodes[0].Price = nil
			return in
		}(), onDemand[:1], []short{{capacity.PlaceNew, 0, "0.20"}}, -1},
		{"a cap on machines is the reach", func() capacity.Input {
			in := input([]capacity.Node{paid}, pod("a1", "n1", 4000, 0))
			in.Policy.MaxNodes = 2
			return in
		}(), onDemand[1:], []short{{capacity.PlaceRuns, 1, "0.00"}, {capacity.PlaceSpare, 3, "0.00"}, {capacity.PlaceNew, 0, "0.19"}}, 8},
		{"nothing to be had", func() capacity.Input { return input([]capacity.Node{paid}, pod("a1", "n1", 9000, 0)) }(), []capacity.Candidate{func() capacity.Candidate {
			c := onDemand[1]
			c.Stock = &none
			return c
		}()}, []short{{capacity.PlaceRuns, 1, "0.00"}}, 1},
		{"others that wait come first", input([]capacity.Node{paid}, pod("a1", "n1", 4000, 0), pod("b1", "", 8000, 0)), onDemand[1:],
			[]short{{capacity.PlaceRuns, 1, "0.00"}, {capacity.PlaceSpare, 1, "0.00"}, {capacity.PlaceNew, 0, "0.19"}}, -1},
		{"its own that wait are what is asked about", input([]capacity.Node{paid}, pod("a1", "n1", 4000, 0), pod("a2", "", 4000, 0)), onDemand[1:],
			[]short{{capacity.PlaceRuns, 1, "0.00"}, {capacity.PlaceSpare, 3, "0.00"}, {capacity.PlaceNew, 0, "0.19"}}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.in.Candidates = c.cands
			p := places(t, c.in, "ns/Deployment/a", nil)
			var got []short
			for _, x := range p.List {
				got = append(got, short{x.Kind, x.Count, x.Price.String()})
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(short{})); diff != "" {
				t.Error(diff)
			}
			if (p.Reach == nil) != (c.reach < 0) || p.Reach != nil && *p.Reach != c.reach {
				t.Errorf("reach %v, want %d", p.Reach, c.reach)
			}
		})
	}
}

func TestTheRiskOfSpotIsInThePrice(t *testing.T) {
	t.Parallel()
	in := input([]capacity.Node{node("n1", "small", fleet.PurchaseSpot)}, pod("a1", "n1", 4000, 0))
	in.Pods[0].SpotOK = true
	in.Candidates = []capacity.Candidate{candidates()[0], candidates()[2]} // on demand and Spot
	p := places(t, in, "ns/Deployment/a", nil)
	last := p.List[len(p.List)-1]
	if last.Offering.Purchase != fleet.PurchaseSpot || last.Price != *dollars(60) || last.Weighed <= *dollars(66) || last.Weighed >= *dollars(200) {
		t.Errorf("%+v", p.List) // 0.06 (1 + 2 x 0.05) in four of five cases, else on demand
	}
	in.Pods[0].SpotOK = false
	if p := places(t, in, "ns/Deployment/a", nil); p.List[len(p.List)-1].Offering.Purchase != fleet.PurchaseOnDemand {
		t.Errorf("%+v", p.List)
	}
	in.Candidates[0].BackoffUntil = now.Add(time.Minute)
	if p := places(t, in, "ns/Deployment/a", nil); *p.Reach != 1 || len(p.List) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestAClusterWithoutAReplicaIsAskedForOneLikeElsewhere(t *testing.T) {
	t.Parallel()
	in := input([]capacity.Node{node("n1", "large", fleet.PurchaseOnDemand)}, pod("b1", "n1", 16_000, 0))
	if p := places(t, in, "ns/Deployment/a", nil); len(p.List) != 0 || p.Reach != nil {
		t.Errorf("%+v", p)
	}
	like := pod("a1", "elsewhere", 8000, 1)
	like.Models = []fleet.GPUModel{"L4"}
	if p := places(t, in, "ns/Deployment/a", &like); len(p.List) != 1 || p.List[0].Kind != capacity.PlaceNew || p.List[0].Price != *dollars(975) {
		t.Errorf("%+v", p)
	}
	in.Pods[0].CPUMilli = -1
	if _, err := capacity.PlacesOf(in, "ns/Deployment/a", nil); err == nil {
		t.Error("a negative size is taken")
	}
}

func TestAMachineThatStaysSaysWhichRuleKeepsIt(t *testing.T) {
	t.Parallel()
	for protected, want := range map[string]string{"label": "protected", "job": "protected", "pdb": "pdb", "rules": "rules"} {
		in := input([]capacity.Node{node("n", "four", fleet.PurchaseOnDemand)}, pod("a1", "n", 1000, 1))
		in.Pods[0].Protected = protected
		if n := decide(t, in).Nodes[0]; n.State != capacity.NodeStays || n.Reason != want || n.Detail != "ns/a1" {
			t.Errorf("%s: %+v", protected, n)
		}
	}
}
