package spread_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
)

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const dollar = fleet.Money(fleet.NanosPerUnit)

func num(n int) *int { return &n }

// site has replicas that run and as many more at the same price, then at twice it.
func site(name string, replicas, need int, price fleet.Money) spread.Site {
	return spread.Site{Workload: fleet.WorkloadID(name), Cluster: fleet.ClusterID(name), Name: name, Key: "llm/Deployment/chat", Cloud: fleet.CloudAWS, Region: "r-" + name,
		Replicas: replicas, Ready: replicas, Need: num(need), Min: 1, Max: 100, Steps: []spread.Step{{Count: replicas, Price: price, Weighed: price, Kind: spread.StepRuns},
			{Price: price, Weighed: price, Kind: spread.StepNew}}}
}

func service(mode fleet.Mode, rules spread.Rules, sites ...spread.Site) spread.Input {
	spread.SortSites(sites)
	return spread.Input{Service: "chat", Now: now, Mode: mode, Rules: rules, Sites: sites}
}

func decide(t rapid.TB, in spread.Input) *spread.Plan {
	t.Helper()
	p, err := spread.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if bad := spread.Check(in, p); len(bad) > 0 {
		t.Fatalf("%v\n%+v", bad, p)
	}
	return p
}

func targets(p *spread.Plan) (out []int) {
	for i := range p.Parts {
		out = append(out, p.Parts[i].Target)
	}
	return out
}

func TestASplit(t *testing.T) {
	t.Parallel()
	balanced := spread.Rules{Traffic: spread.TrafficBalanced}
	silent := site("b", 4, 4, dollar)
	silent.Held = spread.HeldSilent
	few := site("b", 0, 0, dollar/10)
	few.Min, few.Steps, few.Reach = 0, []spread.Step{{Price: dollar / 10, Weighed: dollar / 10, Kind: spread.StepNew}}, num(3)
	risky := site("b", 5, 5, dollar)
	risky.Steps[0].Weighed, risky.Steps[1].Weighed = 3*dollar, 3*dollar
	paid := site("b", 2, 2, dollar)
	paid.Steps = []spread.Step{{Count: 4, Kind: spread.StepSpare}, {Price: 5 * dollar, Weighed: 5 * dollar, Kind: spread.StepNew}}
	far := site("b", 5, 5, dollar/2)
	far.Rules = spread.SiteRules{EgressGBHour: 20, EgressPrice: ptr(dollar / 10)}
	capped := site("b", 5, 5, dollar/2)
	capped.Rules.Max = 6
	half := site("b", 5, 5, dollar/2)
	half.Rules.MaxShareMilli = 600
	frozen := site("b", 5, 5, dollar/2)
	frozen.Held = spread.HeldFrozen
	unpriced := site("b", 5, 5, dollar)
	unpriced.Steps = nil
	for _, c := range []struct {
		name    string
		rules   spread.Rules
		sites   []spread.Site
		want    []int
		outcome spread.Outcome
		stays   string
		bound   string // of the second
	}{
		{"the dear cluster keeps its least", balanced, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar/2)}, []int{1, 9}, spread.OutcomeMove, "", "price"},
		{"equal prices move nothing", balanced, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar)}, []int{5, 5}, spread.OutcomeKeep, "", "price"},
		{"a saving below what a move must save moves nothing", balanced, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar*97/100)}, []int{5, 5}, spread.OutcomeKeep, "gain", "gain"},
		{"what a commitment pays for is used first", balanced, []spread.Site{site("a", 4, 4, dollar), paid}, []int{2, 4}, spread.OutcomeMove, "", "price"},
		{"the risk of Spot counts", balanced, []spread.Site{site("a", 5, 5, 2*dollar), risky}, []int{9, 1}, spread.OutcomeMove, "", "min"},
		{"what leaves the place counts", balanced, []spread.Site{site("a", 5, 5, dollar), far}, []int{9, 1}, spread.OutcomeMove, "", "min"},
		{"stock ends at what can be had", balanced, []spread.Site{site("a", 6, 6, dollar), few}, []int{3, 3}, spread.OutcomeMove, "", "reach"},
		{"a maximum holds", balanced, []spread.Site{site("a", 5, 5, dollar), capped}, []int{4, 6}, spread.OutcomeMove, "", "max"},
		{"a share holds", balanced, []spread.Site{site("a", 5, 5, dollar), half}, []int{4, 6}, spread.OutcomeMove, "", "max_share"},
		{"losing any cluster leaves enough", spread.Rules{Traffic: spread.TrafficBalanced, HeadroomMilli: 1000}, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar/2)}, []int{10, 10}, spread.OutcomeSize, "", "headroom"},
		{"losing any cluster leaves half", spread.Rules{Traffic: spread.TrafficBalanced, HeadroomMilli: 500}, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar/2)}, []int{5, 5}, spread.OutcomeKeep, "", "headroom"},
		{"a region that is not allowed keeps its policy's least", spread.Rules{Traffic: spread.TrafficBalanced, Regions: []string{"r-a"}}, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar/2)}, []int{9, 1}, spread.OutcomeMove, "", "min"},
		{"a silent cluster keeps what it has and counts for nothing", balanced, []spread.Site{site("a", 5, 5, dollar), silent, site("c", 5, 5, dollar/2)}, []int{1, 4, 9}, spread.OutcomeMove, "", ""},
		{"a frozen cluster keeps what it has and counts", balanced, []spread.Site{site("a", 5, 7, dollar), frozen, site("c", 5, 5, dollar*3/4)}, []int{1, 5, 11}, spread.OutcomeMove, "", ""},
		{"an unknown price is not compared", balanced, []spread.Site{site("a", 5, 5, dollar), unpriced}, []int{5, 5}, spread.OutcomeKeep, "", ""},
		{"one queue for all: the largest need is the demand", spread.Rules{Traffic: spread.TrafficShared}, []spread.Site{site("a", 5, 8, dollar), site("b", 3, 8, dollar)}, []int{5, 3}, spread.OutcomeKeep, "", "price"},
		{"more is asked: it grows where that is cheapest", balanced, []spread.Site{site("a", 5, 8, dollar), site("b", 5, 5, dollar*98/100)}, []int{5, 8}, spread.OutcomeSize, "gain", "gain"},
		{"advice where load stays: what it would save", spread.Rules{}, []spread.Site{site("a", 5, 5, dollar), site("b", 5, 5, dollar/2)}, []int{1, 9}, spread.OutcomeMove, "", "price"},
		{"one cluster only", balanced, []spread.Site{site("a", 5, 7, dollar)}, []int{7}, spread.OutcomeSize, "", ""},
		{"none at all", balanced, nil, nil, spread.OutcomeHeld, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := decide(t, service(fleet.ModeRecommend, c.rules, c.sites...))
			if !slices.Equal(targets(p), c.want) || p.Outcome != c.outcome || p.Stays != c.stays || c.bound != "" && p.Parts[1].Bound != c.bound {
				text, _ := json.MarshalIndent(p, "", " ")
				t.Fatalf("want %v %s %s, bound %s: %s", c.want, c.outcome, c.stays, c.bound, text)
			}
			for _, q := range p.Parts {
				if q.Floor != nil || q.Cap != nil {
					t.Error("advice bounds a policy")
				}
			}
		})
	}
}

func ptr(m fleet.Money) *fleet.Money { return &m }

func TestMoreThanThereMayBeIsMissing(t *testing.T) {
	t.Parallel()
	a, b := site("a", 5, 50, dollar), site("b", 5, 50, dollar)
	a.Max, b.Rules.Max = 30, 20
	p := decide(t, service(fleet.ModeRecommend, spread.Rules{Traffic: spread.TrafficBalanced, HeadroomMilli: 1000}, a, b))
	if !slices.Equal(targets(p), []int{30, 20}) || p.Missing != 50 || !slices.Equal(p.Relaxed, []string{"headroom"}) || p.Survives != 20 {
		t.Errorf("%+v", p)
	}
}

// A move is carried out in steps: the target grows first, the source gives up only what is ready there.
func TestNothingIsTakenAwayBeforeWhatStandsInForItIsReady(t *testing.T) {
	t.Parallel()
	in := service(fleet.ModeEnforce, spread.Rules{Traffic: spread.TrafficBalanced}, site("a", 10, 10, dollar), site("b", 2, 2, dollar/4))
	p := decide(t, in)
	a, b := &p.Parts[0], &p.Parts[1]
	if a.Target != 1 || b.Target != 11 || *b.Floor != 11 || *a.Cap != 10 || a.Wait != spread.WaitReady {
		t.Fatalf("%+v", p.Parts)
	}
	in.Memory, in.Sites[1].Replicas, in.Now = p.Memory, 11, in.Now.Add(30*time.Second) // it grows, and 4 of 9 are ready
	in.Sites[1].Ready = 6
	p = decide(t, in)
	if *p.Parts[0].Cap != 8 || p.Parts[0].Wait != spread.WaitStep || p.Parts[1].Target != 11 { // a quarter at once
		t.Fatalf("%+v", p.Parts)
	}
	in.Sites[0].Replicas, in.Sites[0].Ready, in.Memory = 8, 8, p.Memory
	p = decide(t, in)
	if *p.Parts[0].Cap != 6 {
		t.Fatalf("%+v", p.Parts)
	}
	in.Sites[0].Replicas, in.Sites[0].Ready, in.Memory = 6, 6, p.Memory
	p = decide(t, in)
	if *p.Parts[0].Cap != 6 || p.Parts[0].Wait != spread.WaitReady { // 12 ready of 12
		t.Fatalf("%+v", p.Parts)
	}
	// It falls silent: what it has is not known, nothing is taken away, and the other one is not made smaller for it.
	in.Sites[1].Held, in.Memory = spread.HeldSilent, p.Memory
	p = decide(t, in)
	if p.Parts[1].Cap != nil || *p.Parts[0].Cap < 6 || p.Parts[0].Target < 6 {
		t.Fatalf("%+v", p.Parts)
	}
}

func TestPricesThatGoBackAndForthDoNotMoveReplicasBackAndForth(t *testing.T) {
	t.Parallel()
	in := service(fleet.ModeEnforce, spread.Rules{Traffic: spread.TrafficBalanced}, site("a", 6, 6, dollar), site("b", 6, 6, dollar))
	moved, last := 0, []int{6, 6}
	for minute := range 120 {
		in.Now = now.Add(time.Duration(minute) * time.Minute)
		price := dollar / 2
		if minute%2 == 1 {
			price = 2 * dollar
		}
		for k := range in.Sites[1].Steps {
			in.Sites[1].Steps[k].Price, in.Sites[1].Steps[k].Weighed = price, price
		}
		p := decide(t, in)
		in.Memory = p.Memory
		if got := targets(p); !slices.Equal(got, last) {
			moved, last = moved+1, got
		}
		for i := range p.Parts { // carried out at once
			in.Sites[i].Replicas, in.Sites[i].Ready = p.Parts[i].Target, p.Parts[i].Target
			in.Sites[i].Steps[0].Count = p.Parts[i].Target
		}
	}
	if moved > 4 { // one per dwell time
		t.Errorf("moved %d times in two hours", moved)
	}
}

func TestAMoveThatLoadDoesNotFollowIsGivenUp(t *testing.T) {
	t.Parallel()
	in := service(fleet.ModeEnforce, spread.Rules{Traffic: spread.TrafficLocal}, site("a", 10, 10, dollar), site("b", 2, 2, dollar/4))
	p := decide(t, in)
	if p.Parts[0].Target != 1 || *p.Parts[1].Floor != 11 || p.Parts[0].Floor != nil || p.Parts[0].Cap != nil {
		t.Fatalf("%+v", p.Parts)
	}
	in.Sites[1].Replicas, in.Sites[1].Ready = 11, 11
	step := func(after time.Duration) {
		in.Now, in.Memory = in.Now.Add(after), p.Memory
		p = decide(t, in)
	}
	step(time.Minute)
	if p.Parts[0].Wait != spread.WaitLoad || p.Memory.WaitsSince == nil || *p.Parts[1].Floor != 11 {
		t.Fatalf("%+v %+v", p.Parts, p.Memory)
	}
	// Half of the load follows: it stays where it is, and the rest is waited for.
	in.Sites[0].Need, in.Sites[1].Need, in.Sites[0].Replicas, in.Sites[0].Ready = num(6), num(6), 6, 6
	step(time.Minute)
	if p.Parts[0].Target != 1 || *p.Parts[1].Floor != 11 {
		t.Fatalf("%+v", p.Parts)
	}
	step(31 * time.Minute)
	if p.Memory.RestUntil == nil {
		t.Fatalf("%+v", p.Memory)
	}
	step(time.Minute)
	if p.Parts[0].Target != 6 || p.Parts[1].Target != 6 || p.Parts[1].Floor != nil || p.Stays != spread.StaysRest {
		t.Fatalf("%+v %s", p.Parts, p.Stays)
	}
	step(4 * time.Hour)
	if p.Memory.RestUntil != nil || p.Parts[1].Target != 11 {
		t.Errorf("%+v %+v", p.Parts, p.Memory)
	}
}

func TestASurgeIsNotHeldBack(t *testing.T) {
	t.Parallel()
	b := spread.Bound{Floor: num(2), Cap: num(4), Need: 4}
	for _, c := range []struct{ min, max, need, low, high int }{
		{1, 20, 4, 2, 4}, {1, 20, 9, 2, 9}, {1, 6, 9, 2, 6}, {3, 20, 1, 3, 4}, {5, 20, 1, 5, 5}, {1, 1, 9, 1, 1},
	} {
		if low, high := b.Lift(c.min, c.max, c.need); low != c.low || high != c.high {
			t.Errorf("%+v: %d to %d", c, low, high)
		}
	}
	if low, high := (spread.Bound{}).Lift(1, 9, 5); low != 1 || high != 9 {
		t.Errorf("no bound is %d to %d", low, high)
	}
	if _, high := (spread.Bound{Cap: num(4), Need: 4, Max: 6}).Lift(1, 20, 30); high != 6 {
		t.Errorf("above the service's maximum: %d", high)
	}
}

func draw(t *rapid.T, mode fleet.Mode) spread.Input {
	n := rapid.IntRange(1, 3).Draw(t, "sites")
	var sites []spread.Site
	for i := range n {
		s := site(string(rune('a'+i)), rapid.IntRange(0, 5).Draw(t, "replicas"), rapid.IntRange(0, 5).Draw(t, "need"), 0)
		s.Ready = rapid.IntRange(0, s.Replicas).Draw(t, "ready")
		s.Min = rapid.IntRange(0, 2).Draw(t, "min")
		s.Max = rapid.IntRange(max(s.Min, 1), 8).Draw(t, "max")
		s.Rules.Max = rapid.IntRange(0, 6).Draw(t, "rule max")
		s.Rules.MaxShareMilli = rapid.SampledFrom([]int64{0, 0, 400, 700}).Draw(t, "share")
		s.Held = rapid.SampledFrom([]spread.Held{"", "", "", "", spread.HeldSilent, spread.HeldFrozen, spread.HeldMode}).Draw(t, "held")
		s.Steps = nil
		var last fleet.Money
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			last += fleet.Money(rapid.IntRange(0, 4).Draw(t, "price")) * dollar / 4
			s.Steps = append(s.Steps, spread.Step{Count: rapid.IntRange(1, 4).Draw(t, "count"), Price: last, Weighed: last})
		}
		if rapid.Bool().Draw(t, "open") {
			s.Steps[len(s.Steps)-1].Count = 0
		}
		sites = append(sites, s)
	}
	in := service(mode, spread.Rules{Traffic: rapid.SampledFrom([]spread.Traffic{spread.TrafficLocal, spread.TrafficBalanced, spread.TrafficShared}).Draw(t, "traffic"),
		HeadroomMilli: rapid.SampledFrom([]int64{0, 0, 500, 1000}).Draw(t, "headroom")}, sites...)
	return in
}

// The best of all splits that keep the rules, by trying each.
func TestTheCheapestSplitIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, fleet.ModeRecommend)
		p := decide(t, in)
		if p.Missing > 0 || len(p.Relaxed) > 0 {
			return
		}
		got, ok := weigh(&in, p, targets(p))
		if !ok {
			t.Fatalf("the plan breaks its rules: %+v", p)
		}
		if p.Stays != "" { // a cheaper one was found and left alone
			for _, o := range p.Options {
				if o.Name == spread.OptionBest {
					got, _ = weigh(&in, p, o.Counts)
				}
			}
		}
		try := targets(p)
		var all func(k int)
		all = func(k int) {
			if k == len(try) {
				if w, ok := weigh(&in, p, try); ok && w < got {
					t.Fatalf("%v costs %s, the plan's %v %s: %+v", try, w, targets(p), got, p)
				}
				return
			}
			if p.Parts[k].Held != "" {
				try[k] = p.Parts[k].From
				all(k + 1)
				return
			}
			for try[k] = 0; try[k] <= 12; try[k]++ {
				all(k + 1)
			}
		}
		all(0)
	})
}

// weigh is what a split costs with its moves, written anew, and whether it keeps the rules.
func weigh(in *spread.Input, p *spread.Plan, counts []int) (fleet.Money, bool) {
	rules := in.Rules.WithDefaults()
	var sum fleet.Money
	total, most := 0, 0
	for i, n := range counts {
		if h := p.Parts[i].Held; h != spread.HeldSilent {
			total, most = total+n, max(most, n)
		}
	}
	if total < p.Demand || total-most < (p.Demand*int(rules.HeadroomMilli)+999)/1000 {
		return 0, false
	}
	for i, n := range counts {
		s := &in.Sites[i]
		if p.Parts[i].Held != "" {
			continue
		}
		least := s.Min
		limit := s.Max
		if s.Rules.Max > 0 {
			limit = min(limit, s.Rules.Max)
		}
		limit = max(limit, least)
		if n < least || n > limit {
			return 0, false
		}
		if m := s.Rules.MaxShareMilli; m > 0 && n > max((total*int(m)+999)/1000, least) {
			return 0, false
		}
		at := 0
		for j := range n {
			for at < len(s.Steps)-1 && j >= upTo(s.Steps, at) {
				at++
			}
			if j >= upTo(s.Steps, at) {
				if n > least { // beyond what can be had
					return 0, false
				}
				continue
			}
			sum += s.Steps[at].Weighed
			if j >= s.Replicas {
				sum += rules.MoveCost.MulDiv(1, rules.HorizonHours)
			}
		}
	}
	return sum, true
}

func upTo(steps []spread.Step, at int) (n int) {
	for i := 0; i <= at; i++ {
		if steps[i].Count == 0 {
			return 1 << 30
		}
		n += steps[i].Count
	}
	return n
}

// Whatever the numbers are: no maximum is passed, nothing silent is touched, everything asked for is there or missing, and what is taken away is
// ready elsewhere. Check says so of every plan; these are the same words as a test of their own.
func TestAPlanNeverBreaksItsRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, fleet.ModeEnforce)
		for range rapid.IntRange(1, 4).Draw(t, "plans") {
			p := decide(t, in)
			again := decide(t, in)
			if a, b := text(t, p), text(t, again); a != b {
				t.Fatalf("%s\n%s", a, b)
			}
			bounds := p.Bounds(&in)
			total := 0
			for i := range p.Parts {
				q, s := &p.Parts[i], &in.Sites[i]
				b, bound := bounds[q.Workload]
				if q.Held != "" && bound {
					t.Fatalf("%s is held and bounded", s.Name)
				}
				if q.Held != spread.HeldSilent {
					total += q.Target
				}
				low, high := b.Lift(s.Min, s.Max, rapid.IntRange(0, 9).Draw(t, "need now"))
				if low < s.Min || high > s.Max || low > high {
					t.Fatalf("%d to %d of a policy of %d to %d", low, high, s.Min, s.Max)
				}
			}
			if total+p.Missing < p.Demand {
				t.Fatalf("%d of %d", total, p.Demand)
			}
			if len(p.Relaxed) == 0 && in.Rules.HeadroomMilli == 0 && total > p.Demand && p.Outcome != spread.OutcomeHeld && !floors(&in, p, total) {
				t.Fatalf("%d replicas for a demand of %d: %+v", total, p.Demand, p)
			}
			in.Memory, in.Now = p.Memory, in.Now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "seconds"))*time.Second)
			for i := range in.Sites {
				s := &in.Sites[i]
				s.Need = num(rapid.IntRange(0, 5).Draw(t, "need"))
				s.Held = rapid.SampledFrom([]spread.Held{"", "", s.Held, spread.HeldSilent}).Draw(t, "held")
				if c := p.Parts[i].Cap; c != nil {
					s.Replicas = min(max(s.Replicas, p.Parts[i].Target), *c)
				}
				s.Ready = rapid.IntRange(0, s.Replicas).Draw(t, "ready")
			}
		}
	})
}

// floors tells whether some minimum or share explains more replicas than the demand.
func floors(in *spread.Input, p *spread.Plan, total int) bool {
	for i := range p.Parts {
		if q := &p.Parts[i]; q.Held != "" && q.Held != spread.HeldSilent && q.From > 0 || q.Held == "" && (in.Sites[i].Min > 0 || in.Sites[i].Rules.MaxShareMilli > 0) {
			return true
		}
	}
	return total == 0
}

// A split over clusters is never dearer than everything in one of them, where one alone keeps the rules.
func TestASplitIsNeverDearerThanOneCluster(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, fleet.ModeRecommend)
		p := decide(t, in)
		if len(p.Options) == 0 {
			return
		}
		best := p.Options[0].Counts
		for _, o := range p.Options {
			if o.Name == spread.OptionBest {
				best = o.Counts
			}
		}
		least, ok := weigh(&in, p, best)
		if !ok {
			return
		}
		for _, o := range p.Options {
			if o.Name != spread.OptionSingle || o.WhyNot != "dearer" {
				continue
			}
			if w, ok := weigh(&in, p, o.Counts); ok && w < least {
				t.Fatalf("%v costs %s, %s alone %s", best, least, o.Site, w)
			}
		}
	})
}

func text(t interface{ Fatal(...any) }, p *spread.Plan) string {
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	good := func() spread.Input {
		return service(fleet.ModeRecommend, spread.Rules{}, site("a", 1, 1, dollar), site("b", 1, 1, dollar))
	}
	for name, spoil := range map[string]func(*spread.Input){
		"no time":             func(in *spread.Input) { in.Now = time.Time{} },
		"unknown mode":        func(in *spread.Input) { in.Mode = fleet.ModeApprove },
		"unsorted":            func(in *spread.Input) { slices.Reverse(in.Sites) },
		"a cluster twice":     func(in *spread.Input) { in.Sites[1].Cluster = in.Sites[0].Cluster },
		"negative count":      func(in *spread.Input) { in.Sites[0].Replicas = -1 },
		"price below zero":    func(in *spread.Input) { in.Sites[0].Steps[0].Price = -1 },
		"falling prices":      func(in *spread.Input) { in.Sites[0].Steps[1].Weighed = 0 },
		"open step first":     func(in *spread.Input) { in.Sites[0].Steps[0].Count = 0 },
		"unknown traffic":     func(in *spread.Input) { in.Rules.Traffic = "random" },
		"more than all":       func(in *spread.Input) { in.Rules.HeadroomMilli = 1001 },
		"free moves":          func(in *spread.Input) { in.Rules.MoveCost = ptr(0) },
		"share above one":     func(in *spread.Input) { in.Sites[0].Rules.MaxShareMilli = 1001 },
		"max below min":       func(in *spread.Input) { in.Sites[0].Rules.Min, in.Sites[0].Rules.Max = 3, 2 },
		"too many clusters":   func(in *spread.Input) { in.Sites = make([]spread.Site, spread.MaxSites+1) },
		"negative penalty":    func(in *spread.Input) { in.Sites[0].Rules.Penalty = ptr(-1) },
		"egress not a number": func(in *spread.Input) { in.Sites[0].Rules.EgressGBHour = -1 },
	} {
		in := good()
		spoil(&in)
		if _, err := spread.Decide(in); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := spread.Decide(good()); err != nil {
		t.Error(err)
	}
}
