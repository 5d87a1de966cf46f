package capacity_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
	"plimsoll.dev/services/optimizer/procure"
)

// epoch is the moment of slot 0 in the world of the lab.
var epoch = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

// mirror shows what a buyer of the lab sees to the planner of production: machines, pods, and the evidence about Spot, one event each. It holds the planner's
// choice against the lab's, slot by slot.
type mirror struct {
	t      *testing.T
	demand lab.Policy
	policy *procure.Policy
	safe   float64
	news   map[fleet.Offering][]capacity.SpotNews

	slots, compared, spot, onDemand, insured, later int
}

func (m *mirror) offering(p *lab.PoolView) fleet.Offering {
	o := fleet.Offering{Cloud: fleet.CloudAWS, Region: p.Region, Zone: p.Name, InstanceType: "one", Purchase: p.Purchase}
	if o.Region == "" {
		o.Region = "region-1"
	}
	return o
}

// Buy decides as the lab does and compares.
func (m *mirror) Buy(v *lab.MarketView, targets []int) {
	want := m.demand.Step(&v.Observation)
	in, busy := m.input(v, want)
	m.policy.Buy(v.Slot, v.Pools, want, float64(busy), targets)
	m.slots++
	changes := v.Slot%16 == 0
	for i := range v.Pools {
		changes = changes || targets[i] != v.Pools[i].Held()
	}
	if changes {
		m.compare(v, in, want, targets)
	}
}

func (m *mirror) input(v *lab.MarketView, want int) (in capacity.Input, busy int) {
	at := epoch.Add(time.Duration(v.Slot) * procure.SlotSeconds * time.Second)
	in = capacity.Input{Now: at, DataAt: at, Mode: fleet.ModeRecommend, NodeStart: 60, PodStart: 60}
	none := fleet.Money(1)
	in.Policy = capacity.Policy{MaxActions: 1000, MaxMovedMilli: 1000, MoveCost: &none, MinAgeSec: 1, RampSec: 1, InsureMilli: int64(1000*m.safe + 0.5)}
	pods := 0
	old := epoch.Add(-time.Hour)
	put := func(node string, phase fleet.NodePhase) {
		p := capacity.Pod{UID: fmt.Sprint(pods), Name: fmt.Sprintf("ns/p%04d", pods), Workload: "ns/Deployment/p", Node: node, Phase: fleet.PodReady, CPUMilli: 1000, MemMiB: 1000, GPUCount: 1, GPUMilli: 1000,
			SpotOK: true, Since: old, ReadyAt: old}
		if node == "" || phase == fleet.NodeBooting {
			p.Phase, p.ReadyAt = fleet.PodPending, time.Time{}
		}
		pods++
		in.Pods = append(in.Pods, p)
	}
	spares := []string{}
	for i := range v.Pools {
		p := &v.Pools[i]
		o := m.offering(p)
		price := fleet.Money(p.Price) * 1000
		if p.Purchase == fleet.PurchaseOnDemand { // its price is the measure
			price = fleet.NanosPerUnit
		}
		in.Candidates = append(in.Candidates, capacity.Candidate{Offering: o, Price: &price, CPUMilli: 8000, MemMiB: 32_000, MaxPods: 50, VCPU: 8, GPUModel: "L4", GPUCount: 1, Arch: "amd64"})
		if p.Got+p.Failed+p.Warned+p.Lost > 0 {
			m.news[o] = append(m.news[o], capacity.SpotNews{At: at, Got: p.Got, Failed: p.Failed, Warned: p.Warned, Lost: p.Lost, Held: p.Ready + p.Starting})
		}
		for k := range p.Ready + p.Starting + p.Noticed {
			n := capacity.Node{UID: fmt.Sprintf("%s-%d", p.Name, k), Name: fmt.Sprintf("%s-%d", p.Name, k), Offering: o, Phase: fleet.NodeReady, CPUMilli: 8000, MemMiB: 32_000, MaxPods: 50, GPUModel: "L4", GPUCount: 1, Arch: "amd64",
				Price: &price, Saves: &price, StartedAt: old}
			if p.Purchase == fleet.PurchaseSpot {
				n.StartedAt = at // young: what replaces a stand-in is filled, not given back
			}
			switch {
			case k >= p.Ready+p.Starting:
				n.Notice = true
				spares = append(spares, n.Name)
			case k >= p.Ready:
				n.Phase = fleet.NodeBooting
			case pods < want:
				busy++
			}
			in.Nodes = append(in.Nodes, n)
			if !n.Notice && pods < want {
				put(n.Name, n.Phase)
			}
		}
	}
	for pods < want { // the rest waits, some of it on machines that the cloud takes back
		if len(spares) > 0 {
			put(spares[0], fleet.NodeReady)
			spares = spares[1:]
			continue
		}
		put("", "")
	}
	slices.SortFunc(in.Nodes, func(a, b capacity.Node) int { return compare(a.Name, b.Name) })
	in.Recall(m.news)
	return in, busy
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

func (m *mirror) compare(v *lab.MarketView, in capacity.Input, want int, targets []int) {
	m.t.Helper()
	plan, err := capacity.Decide(in, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	if bad := capacity.Check(in, plan); len(bad) > 0 {
		m.t.Fatalf("slot %d: %q", v.Slot, bad)
	}
	got := map[fleet.Offering]int{}
	for _, g := range plan.Add {
		got[g.Offering] += g.Count
	}
	m.compared++
	spot, young := 0, 0
	for i := range v.Pools {
		if v.Pools[i].Purchase == fleet.PurchaseSpot {
			spot += targets[i]
		} else {
			young += v.Pools[i].Starting
		}
	}
	for i := range v.Pools {
		p := &v.Pools[i]
		lab := max(0, targets[i]-p.Held())
		if p.Purchase == fleet.PurchaseOnDemand && m.safe == 0 { // without a policy to insure, on demand is only for what has no machine
			plain := max(0, want-spot-p.Held())
			m.insured += lab - plain
			lab = plain
		}
		n := got[m.offering(p)]
		if young > 0 && n < lab && p.Purchase == fleet.PurchaseSpot {
			m.later++ // production replaces a machine that stands in for Spot once it runs, the lab while it starts
			continue
		}
		if n != lab {
			m.t.Fatalf("slot %d, want %d: production asks %s for %d more, the lab for %d\npools %+v\ntargets %v\nplan %+v\n%+v", v.Slot, want, p.Name, n, lab, v.Pools, targets, plan.Markets, plan.Add)
		}
		if p.Purchase == fleet.PurchaseSpot {
			m.spot += lab
		} else {
			m.onDemand += lab
		}
	}
}

// staircase asks for more by and by, with a fall every day: the planner gives machines back by pods that go, the lab by their score, so the mirror looks at growth
// and at what losses and refusals lead to.
type staircase struct{ slot int }

func (s *staircase) Step(*lab.Observation) int {
	s.slot++
	return 3 + (s.slot/300)%9
}

func TestProductionBuysAsTheLab(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		seed uint64
		safe float64
	}{{"three regions", 1, 0}, {"another market", 2, 0}, {"half of what is in use is insured", 3, 0.5}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := flatTrace(2 * lab.SlotsPerDay)
			market, err := lab.GeneratedMarket("made", tr.Slots(), c.seed)
			if err != nil {
				t.Fatal(err)
			}
			for i := range market.Pools { // a launch is answered by the next slot, and on demand always gives
				if market.Pools[i].Purchase == fleet.PurchaseOnDemand {
					for s := range market.Pools[i].Stock {
						market.Pools[i].Stock[s] = 1000
					}
				}
			}
			cfg := lab.DefaultMix(tr)
			cfg.RefuseSlots, cfg.DrainSlots, cfg.Max = 0, 0, 100
			policy := procure.Default()
			policy.Safe = c.safe
			m := &mirror{t: t, demand: &staircase{}, policy: procure.New(policy), safe: c.safe, news: map[fleet.Offering][]capacity.SpotNews{}}
			score, err := lab.RunMix(tr, market, cfg, m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d of %d slots compared: %d machines asked of Spot, %d on demand, %d more in the lab alone to insure, %d pools asked later; %d launches refused, %d machines taken back", m.compared, m.slots, m.spot, m.onDemand, m.insured, m.later, score.Failed, score.Interrupted)
			if m.spot < 20 || m.onDemand < 5 || score.Failed < 4 || score.Interrupted < 5 {
				t.Error("the market asked too little of the buyers")
			}
		})
	}
}

func flatTrace(slots int) *lab.Trace {
	t := &lab.Trace{Name: "flat", Share: 0.1, Rho: make([]float64, slots), Requests: make([]float64, slots), To: slots}
	for i := range t.Rho {
		t.Rho[i], t.Requests[i] = 2, 20
	}
	return t
}
