package capacity

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

var rolloutStart = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

func money(units int64) *fleet.Money {
	m := fleet.Money(units * fleet.NanosPerUnit)
	return &m
}

func ratio(v float64) *float64 { return &v }

func calm() Signs {
	return Signs{Told: true, Cost: money(100), CPUMilli: 10_000, GPUMilli: 8000, ReadySec: ratio(60), Started: 10, NodeHours: 100, Late: ratio(0.01), Errors: ratio(0.001)}
}

func newRollout(clusters ...fleet.ClusterID) *Rollout {
	r := &Rollout{State: RolloutShadow, Shares: []int64{100, 500, 1000}, ShadowSec: 600, StageSec: 1200, CostOver: 200}
	for _, c := range clusters {
		r.Parts = append(r.Parts, RolloutPart{Cluster: c})
	}
	return r
}

func shadowOf(base, proposed int64) *Comparison {
	return &Comparison{Cost: *money(100), Base: PlanSum{After: *money(base), Machines: 10}, Proposed: PlanSum{After: *money(proposed), Machines: 10}}
}

// sights are a look at each part at a moment after the start.
func sights(r *Rollout, after time.Duration, change func(i int, s *Sight)) []Sight {
	var out []Sight
	for i := range r.Parts {
		s := Sight{Cluster: r.Parts[i].Cluster, Version: r.Parts[i].BaseVersion, DataAt: rolloutStart.Add(after), Planned: true, Signs: calm()}
		if r.State == RolloutShadow {
			s.Shadow = shadowOf(100, 90)
			s.Shadow.At = rolloutStart.Add(after)
		}
		if change != nil {
			change(i, &s)
		}
		out = append(out, s)
	}
	return out
}

// watch looks every half minute until the rollout moves or the time is over, and says when it moved.
func watch(r *Rollout, from, until time.Duration, change func(i int, s *Sight)) (time.Duration, bool) {
	for at := from; at <= until; at += 30 * time.Second {
		if r.Look(rolloutStart.Add(at), sights(r, at, change)) {
			return at, true
		}
	}
	return until, false
}

func TestARolloutGoesStepByStepAndIsDone(t *testing.T) {
	t.Parallel()
	r := newRollout("a", "b", "c", "d", "e")
	var reached []int
	at := time.Duration(0)
	for range 10 {
		var moved bool
		if at, moved = watch(r, at, at+2*time.Hour, nil); !moved {
			break
		}
		n, _ := r.Reach()
		reached = append(reached, n)
		at += 30 * time.Second
	}
	if r.State != RolloutDone || !slices.Equal(reached, []int{1, 3, 5, 0}) {
		t.Fatalf("%s after reaching %v", r.State, reached)
	}
	if at < 600*time.Second+3*1200*time.Second {
		t.Errorf("done after %s: steps were not watched for long enough", at)
	}
}

// inCanary is a rollout whose first step has begun.
func inCanary(t *testing.T, clusters ...fleet.ClusterID) (*Rollout, time.Duration) {
	t.Helper()
	r := newRollout(clusters...)
	at, moved := watch(r, 0, time.Hour, nil)
	if !moved || r.State != RolloutCanary {
		t.Fatalf("no canary but %s", r.State)
	}
	return r, at + 30*time.Second
}

func TestAGuardThatIsPassedTakesARolloutBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Signs)
		want   string
	}{
		"pods wait that did not":               {func(s *Signs) { s.LongWaiting = 1 }, GuardUnplaced},
		"a disruption budget is breached":      {func(s *Signs) { s.Breached = 1 }, GuardDisruption},
		"machines cannot be had":               {func(s *Signs) { s.Failed = 5 }, GuardFailed},
		"two failures are bad luck":            {func(s *Signs) { s.Failed = 2 }, ""},
		"machines are taken back":              {func(s *Signs) { s.Interruptions = 10 }, GuardInterruptions},
		"pods take much longer to get ready":   {func(s *Signs) { s.ReadySec = ratio(200) }, GuardSlow},
		"a little longer is no reason":         {func(s *Signs) { s.ReadySec = ratio(110) }, ""},
		"requests are late":                    {func(s *Signs) { s.Late = ratio(0.1) }, GuardLate},
		"requests fail":                        {func(s *Signs) { s.Errors = ratio(0.1) }, GuardErrors},
		"it costs more than was promised":      {func(s *Signs) { s.Cost = money(130) }, GuardCost},
		"it costs more because more is asked":  {func(s *Signs) { s.Cost, s.CPUMilli = money(130), 13_000 }, ""},
		"all is well":                          {func(*Signs) {}, ""},
		"nobody knows how long pods take":      {func(s *Signs) { s.ReadySec = nil }, ""},
		"worse than before but worse promised": {func(s *Signs) { s.Cost = money(119) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, at := inCanary(t, "a", "b")
			_, moved := watch(r, at, at+15*time.Minute, func(i int, s *Sight) {
				if i == 0 {
					c.change(&s.Signs)
				}
			})
			if c.want == "" {
				if moved {
					t.Fatalf("moved to %s: %s", r.State, r.Outcome)
				}
				return
			}
			if r.State != RolloutBack || r.Outcome != c.want || r.Where != "a" {
				t.Errorf("%s, %q on %s", r.State, r.Outcome, r.Where)
			}
			if n, _ := r.Reach(); n != 0 {
				t.Errorf("still in force on %d clusters", n)
			}
		})
	}
}

func TestOneBadLookIsNotEnough(t *testing.T) {
	t.Parallel()
	r, at := inCanary(t, "a")
	bad := func(_ int, s *Sight) { s.Signs.LongWaiting = 3 }
	for range 4 {
		if r.Look(rolloutStart.Add(at), sights(r, at, bad)) {
			t.Fatal("moved after one look")
		}
		at += 30 * time.Second
		if r.Look(rolloutStart.Add(at), sights(r, at, nil)) {
			t.Fatalf("moved to %s, %s", r.State, r.Outcome)
		}
		at += 30 * time.Second
	}
}

func TestAFrozenClusterStaysAndAPausedRolloutIsStillGuarded(t *testing.T) {
	t.Parallel()
	r, at := inCanary(t, "a")
	if _, moved := watch(r, at, at+24*time.Hour, func(_ int, s *Sight) {
		s.Stands = true
		s.Signs.LongWaiting = 9
	}); moved || r.Parts[0].Silent != 0 || r.Parts[0].Watched != 0 {
		t.Fatalf("a frozen cluster moved to %s, watched %d s, silent %d s", r.State, r.Parts[0].Watched, r.Parts[0].Silent)
	}
	if r.Advance(sights(r, at, func(_ int, s *Sight) { s.Stands = true })) {
		t.Fatal("a frozen cluster was promoted by hand")
	}
	r.Paused = true
	at += 24 * time.Hour
	if _, moved := watch(r, at, at+6*time.Hour, nil); moved {
		t.Fatalf("a paused rollout moved to %s, %s", r.State, r.Outcome)
	}
	if r.Advance(sights(r, at, nil)) {
		t.Fatal("a paused rollout was promoted by hand")
	}
	at += 6 * time.Hour
	if _, moved := watch(r, at, at+time.Hour, func(_ int, s *Sight) { s.Signs.LongWaiting = 1 }); !moved || r.Outcome != GuardUnplaced {
		t.Fatalf("%s, %q", r.State, r.Outcome)
	}
}

func TestAnotherPolicySupersedesARollout(t *testing.T) {
	t.Parallel()
	r, at := inCanary(t, "a", "b")
	if !r.Look(rolloutStart.Add(at), sights(r, at, func(i int, s *Sight) { s.Version = i })) || r.State != RolloutSuperseded || r.Where != "b" {
		t.Fatalf("%s on %s", r.State, r.Where)
	}
}

func TestAShadowThatLeavesPodsWithoutMachinesDoesNotBegin(t *testing.T) {
	t.Parallel()
	r := newRollout("a")
	_, moved := watch(r, 0, time.Hour, func(_ int, s *Sight) { s.Shadow.Proposed.Left = 1 })
	if !moved || r.State != RolloutBack || r.Outcome != GuardLeavesPods {
		t.Fatalf("%s, %q", r.State, r.Outcome)
	}
}

// Whatever comes, in whatever order: a rollout takes one step at a time and only forward, with every cluster that it reached watched for the whole
// step with nothing missing; and one whose signs are missing does not move on but ends.
func TestMissingSignsNeverPromoteARollout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "clusters")
		var clusters []fleet.ClusterID
		for i := range n {
			clusters = append(clusters, fleet.ClusterID(rune('a'+i)))
		}
		r := newRollout(clusters...)
		at, told := time.Duration(0), make([]int64, n) // seconds that each part was well since the last step
		planned := slices.Repeat([]time.Duration{-1}, n)
		for range rapid.IntRange(1, 400).Draw(t, "looks") {
			step := time.Duration(rapid.IntRange(1, 240).Draw(t, "seconds")) * time.Second
			at += step
			missing := make([]bool, n)
			known := func(i int) *Signs {
				if r.State == RolloutShadow {
					return r.Parts[i].After
				}
				return r.Parts[i].Before
			}
			seen := sights(r, at, func(i int, s *Sight) {
				switch rapid.IntRange(0, 11).Draw(t, "what") {
				case 0:
					s.Signs.Told, missing[i] = false, true
				case 1:
					s.Planned, missing[i] = false, r.State == RolloutCanary
				case 2:
					s.Signs.Late, missing[i] = nil, known(i) != nil && known(i).Late != nil
				case 3:
					s.Signs.Cost, missing[i] = nil, known(i) != nil && known(i).Cost != nil
				case 4:
					s.Stands, missing[i] = true, true
				case 5:
					s.Shadow = nil
				}
				if r.State == RolloutShadow {
					if s.Shadow != nil {
						planned[i] = at
					}
					missing[i] = missing[i] || planned[i] < 0 || at-planned[i] > shadowHolds
				}
			})
			before := *r
			reach, _ := r.Reach()
			if r.State == RolloutShadow {
				reach = n
			}
			for i := range reach {
				if !missing[i] {
					told[i] += int64(step / time.Second)
				}
			}
			moved := r.Look(rolloutStart.Add(at), seen)
			if !moved {
				if r.State != before.State || r.Step != before.Step {
					t.Fatalf("moved without saying so: %s %d", r.State, r.Step)
				}
				continue
			}
			switch r.State {
			case RolloutCanary:
				if before.State == RolloutCanary && r.Step != before.Step+1 || before.State == RolloutShadow && r.Step != 0 {
					t.Fatalf("from %s %d to %s %d", before.State, before.Step, r.State, r.Step)
				}
				fallthrough
			case RolloutDone:
				need := before.StageSec
				if before.State == RolloutShadow {
					need = before.ShadowSec
				}
				for i := range reach {
					if missing[i] || told[i] < need {
						t.Fatalf("promoted with cluster %d well for %d of %d s, missing now: %v", i, told[i], need, missing[i])
					}
				}
				told = make([]int64, n)
			case RolloutBack:
				if r.Outcome != RolloutUntold {
					t.Fatalf("taken back for %q though nothing was wrong", r.Outcome)
				}
				return
			default:
				t.Fatalf("ended as %s", r.State)
			}
			if r.State == RolloutDone {
				return
			}
		}
	})
}

func TestWhatIsBadCountsThoughSomethingElseIsNotKnown(t *testing.T) {
	t.Parallel()
	unpriced := func(s *Sight) { s.Signs.Unpriced, s.Signs.Cost = 1, money(10_000) }
	for name, c := range map[string]struct {
		change func(*Sight)
		within time.Duration
		want   string
	}{
		"pods wait beside a machine without a price":       {func(s *Sight) { unpriced(s); s.Signs.LongWaiting = 1 }, time.Minute, GuardUnplaced},
		"nothing is bad but the price unknown":             {unpriced, 2 * 1200 * time.Second, RolloutUntold},
		"pods wait by a plan that is not of the stage":     {func(s *Sight) { s.Planned, s.Signs.LongWaiting = false, 1 }, 2 * 1200 * time.Second, RolloutUntold},
		"pods wait in an inventory that is not new":        {func(s *Sight) { s.Signs.Told, s.Signs.LongWaiting = false, 1 }, 2 * 1200 * time.Second, RolloutUntold},
		"requests are not told and machines cannot be had": {func(s *Sight) { s.Signs.Late, s.Signs.Failed = nil, 5 }, time.Minute, GuardFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, at := inCanary(t, "a", "b")
			ended, moved := watch(r, at, at+2*time.Hour, func(i int, s *Sight) {
				if i == 0 {
					c.change(s)
				}
			})
			if !moved || r.State != RolloutBack || r.Outcome != c.want || r.Where != "a" {
				t.Fatalf("moved %t: %s %q at %q", moved, r.State, r.Outcome, r.Where)
			}
			if took := ended - at; took > c.within+time.Minute {
				t.Errorf("after %s, want within %s", took, c.within)
			}
		})
	}
}

func TestSilenceTakesARolloutBackInTheEnd(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(int, *Sight){
		"no inventory":                    func(_ int, s *Sight) { s.Signs.Told = false },
		"no plan under the policy":        func(_ int, s *Sight) { s.Planned = false },
		"requests are not told any more":  func(_ int, s *Sight) { s.Signs.Late, s.Signs.Errors = nil, nil },
		"the cost is not known any more":  func(_ int, s *Sight) { s.Signs.Cost = nil },
		"machines without a price came":   func(_ int, s *Sight) { s.Signs.Unpriced = 2 },
		"what it is for was not there":    func(_ int, s *Sight) { s.Signs.CPUMilli = 0; s.Signs.Told = false },
		"the cluster never says the time": func(_ int, s *Sight) { s.DataAt = time.Time{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, at := inCanary(t, "a")
			moved, ok := watch(r, at, at+5*time.Hour, change)
			if !ok || r.State != RolloutBack || r.Outcome != RolloutUntold {
				t.Fatalf("%s, %q", r.State, r.Outcome)
			}
			if waited := moved - at; waited < 39*time.Minute || waited > 45*time.Minute {
				t.Errorf("taken back after %s, want twice the step", waited)
			}
		})
	}
}

func TestRestrictKeepsMostMachinesAndAlwaysTheSameOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "nodes")
		share := int64(rapid.IntRange(0, 1000).Draw(t, "share"))
		mk := func() *Input {
			in := &Input{}
			for i := range n {
				in.Nodes = append(in.Nodes, Node{Name: string(rune('a'+i%26)) + string(rune('a'+i/26))})
				if i%7 == 3 {
					in.Nodes[i].Fixed = "protected"
				}
			}
			return in
		}
		in, again, more := mk(), mk(), mk()
		in.Restrict("key", share)
		again.Restrict("key", share)
		more.Restrict("key", min(share+200, 1000))
		free := 0
		for i := range in.Nodes {
			if in.Nodes[i].Fixed != again.Nodes[i].Fixed {
				t.Fatal("other machines the second time")
			}
			if i%7 == 3 && in.Nodes[i].Fixed != "protected" {
				t.Fatal("a protected machine lost its reason")
			}
			if in.Nodes[i].Fixed == "" {
				free++
				if more.Nodes[i].Fixed != "" {
					t.Fatal("a larger share lacks a machine of a smaller one")
				}
			}
		}
		switch {
		case share == 0 && free != 0:
			t.Fatalf("%d machines may go", free)
		case share > 0 && free == 0:
			t.Fatal("no machine may go")
		}
	})
}

func TestAPolicyIsComparedWithTheOneInForceFromOneInventory(t *testing.T) {
	t.Parallel()
	price, cheap := fleet.Money(4*fleet.NanosPerUnit), fleet.Money(fleet.NanosPerUnit)
	o := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g6.12xlarge", Purchase: fleet.PurchaseOnDemand}
	small := o
	small.InstanceType, small.Purchase = "g6.xlarge", fleet.PurchaseSpot
	base := Input{Cluster: "c", Now: rolloutStart, DataAt: rolloutStart, Mode: fleet.ModeEnforce, NodeStart: 100, PodStart: 50, Policy: Policy{NoSpot: true},
		Nodes:      []Node{{UID: "u", Name: "n1", Pool: "gpu", Offering: o, Phase: fleet.NodeReady, CPUMilli: 48_000, MemMiB: 190_000, MaxPods: 100, GPUModel: "L4", GPUCount: 4, Arch: "amd64", Price: &price, Saves: &price, StartedAt: rolloutStart.Add(-time.Hour)}},
		Pods:       []Pod{{UID: "p", Name: "ns/a", Workload: "ns/Deployment/a", Node: "n1", Phase: fleet.PodReady, CPUMilli: 1000, MemMiB: 1000, GPUCount: 1, GPUMilli: 1000, SpotOK: true, Since: rolloutStart.Add(-time.Hour), ReadyAt: rolloutStart.Add(-time.Hour)}},
		Candidates: []Candidate{{Offering: small, Price: &cheap, CPUMilli: 3900, MemMiB: 14_000, MaxPods: 50, GPUModel: "L4", GPUCount: 1, Arch: "amd64", HazardMilli: 20}}}
	proposed := base
	proposed.Policy = Policy{}
	c, err := Compare(base, proposed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cost != price || c.Base.After != price || c.Proposed.After != cheap || c.Base.Spot != 0 || c.Proposed.Spot != 1 || c.Proposed.Hazard != 20 || len(c.Offerings) != 2 {
		t.Errorf("%+v", c)
	}
	if d := c.Offerings[0]; d.Offering != o || d.Now != 1 || d.Base != 1 || d.Proposed != 0 {
		t.Errorf("%+v", c.Offerings)
	}
}
