package capacity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
)

func TestMachinesAreKeptReady(t *testing.T) {
	t.Parallel()
	onDemand, spot := fleet.PurchaseOnDemand, fleet.PurchaseSpot
	fixed := func(n int64) capacity.WarmRule {
		return capacity.WarmRule{Name: "l4", GPUModel: "L4", GPUs: 1, How: capacity.WarmFixed, Count: n}
	}
	booting := func(n capacity.Node) capacity.Node { n.Phase = fleet.NodeBooting; return n }
	for name, c := range map[string]struct {
		nodes []capacity.Node
		pods  []capacity.Pod
		rules []capacity.WarmRule
		grows []capacity.Growth
		pol   func(*capacity.Policy)
		want  []string
		note  string // want ready starting add short why
	}{
		"nothing asked: an empty machine goes":   {nodes: []capacity.Node{node("n", "one", onDemand)}, want: []string{"change", "drain n empty"}},
		"an empty machine is kept":               {nodes: []capacity.Node{node("n", "one", onDemand)}, rules: []capacity.WarmRule{fixed(1)}, want: []string{"nothing"}, note: "1 1 0 0 0 "},
		"one more than is asked for goes":        {nodes: []capacity.Node{node("n", "one", onDemand), node("o", "one", onDemand)}, rules: []capacity.WarmRule{fixed(1)}, want: []string{"change", "drain o empty"}, note: "1 1 0 0 0 "},
		"what is missing is added":               {rules: []capacity.WarmRule{fixed(2)}, nodes: []capacity.Node{node("n", "small", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 3000, 0)}, want: []string{"change", "add 2 one on_demand warm"}, note: "2 0 0 2 0 "},
		"one that starts counts":                 {nodes: []capacity.Node{booting(node("n", "one", onDemand))}, rules: []capacity.WarmRule{fixed(1)}, want: []string{"nothing"}, note: "1 0 1 0 0 "},
		"a pod takes it, and it is filled again": {nodes: []capacity.Node{node("n", "one", onDemand)}, pods: []capacity.Pod{pod("a1", "", 1000, 1)}, rules: []capacity.WarmRule{fixed(1)}, want: []string{"change", "add 1 one on_demand warm"}, note: "1 0 0 1 0 "},
		"one that is busy does not count":        {nodes: []capacity.Node{node("n", "one", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 7000, 1)}, rules: []capacity.WarmRule{fixed(1)}, want: []string{"change", "add 1 one on_demand warm"}, note: "1 0 0 1 0 "},
		"a cap on machines holds":                {nodes: []capacity.Node{node("n", "one", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 7000, 1)}, rules: []capacity.WarmRule{fixed(2)}, pol: func(p *capacity.Policy) { p.MaxNodes = 2 }, want: []string{"change", "add 1 one on_demand warm"}, note: "2 0 0 1 1 cap"},
		"a budget holds":                         {nodes: []capacity.Node{node("n", "one", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 7000, 1)}, rules: []capacity.WarmRule{fixed(2)}, pol: func(p *capacity.Policy) { p.HourlyMax = dollars(1500) }, want: []string{"nothing"}, note: "2 0 0 0 2 cap"},
		"the rule's own cap":                     {nodes: []capacity.Node{node("n", "one", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 7000, 1)}, rules: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", GPUs: 1, How: capacity.WarmFixed, Count: 3, HourlyMax: dollars(2000)}}, want: []string{"change", "add 2 one on_demand warm"}, note: "3 0 0 2 1 hourly_max"},
		"on Spot where that is allowed":          {nodes: []capacity.Node{node("n", "small", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 3000, 0)}, rules: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", GPUs: 1, How: capacity.WarmFixed, Count: 1, Spot: true}}, want: []string{"change", "add 1 one spot warm"}, note: "1 0 0 1 0 "},
		"a Spot machine is no room on demand":    {nodes: []capacity.Node{node("n", "one", spot)}, rules: []capacity.WarmRule{fixed(1)}, want: []string{"change", "add 1 one on_demand warm", "drain n empty"}, note: "1 0 0 1 0 "},
		"growth in GPUs becomes machines": {nodes: []capacity.Node{node("n", "four", onDemand)}, rules: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", GPUs: 4, How: capacity.WarmGrowth, Count: 9}},
			grows: []capacity.Growth{{Rule: "l4", GPUs: 5, Samples: 100}}, want: []string{"change", "add 1 four on_demand warm"}, note: "2 1 0 1 0 "},
		"growth is bounded": {nodes: []capacity.Node{node("n", "one", onDemand)}, rules: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", GPUs: 1, How: capacity.WarmGrowth, Count: 1}},
			grows: []capacity.Growth{{Rule: "l4", GPUs: 50, Samples: 100}}, want: []string{"nothing"}, note: "1 1 0 0 0 "},
		"growth that nobody knows: the least": {nodes: []capacity.Node{node("n", "one", onDemand)}, rules: []capacity.WarmRule{{Name: "l4", GPUModel: "L4", GPUs: 1, How: capacity.WarmGrowth, Count: 5, Least: 1}}, want: []string{"nothing"}, note: "1 1 0 0 0 "},
		"an offering that does not exist": {nodes: []capacity.Node{node("n", "small", onDemand)}, pods: []capacity.Pod{pod("a1", "n", 3000, 0)}, rules: []capacity.WarmRule{{Name: "x", GPUModel: "B200", How: capacity.WarmFixed, Count: 1}},
			want: []string{"nothing"}, note: "1 0 0 0 1 no_offering"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := input(c.nodes, c.pods...)
			x.Policy.Warm, x.Growths = c.rules, c.grows
			if c.pol != nil {
				c.pol(&x.Policy)
			}
			p := decide(t, x)
			if got := told(p); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			note := ""
			for _, n := range p.Warm {
				note = fmt.Sprint(n.Want, n.Ready, n.Starting, n.Add, n.Short, " ", n.Why)
				if n.Ready+n.Starting+n.Add > 0 && (n.Hour == 0 || n.SavesSec != 120 || len(n.Types) == 0 || n.GPUs == 0) {
					t.Errorf("the note tells no cost, delay or size: %+v", n)
				}
			}
			if strings.ReplaceAll(note, "  ", " ") != c.note {
				t.Errorf("note %q, want %q", note, c.note)
			}
			if b, err := capacity.Buy(&x, p); err != nil {
				t.Error(err)
			} else {
				for _, n := range b.New {
					if len(n.Pods) == 0 {
						t.Error("an actuator would buy a machine for no pod")
					}
				}
			}
		})
	}
}

func TestDemandGrowsWithinAStart(t *testing.T) {
	t.Parallel()
	at := func(m int) time.Time { return now.Add(time.Duration(m) * time.Minute) }
	day := func(from, to int, gpus int64) capacity.Span {
		return capacity.Span{From: at(from), To: at(to), GPUs: gpus}
	}
	for name, c := range map[string]struct {
		spans []capacity.Span
		milli int64
		want  int64
	}{
		"nothing ran":                     {nil, 950, 0},
		"what runs all the time":          {[]capacity.Span{day(-1000, 2000, 8)}, 950, 0},
		"one burst, at the highest":       {[]capacity.Span{day(0, 2000, 8), day(100, 130, 4)}, 999, 4},
		"one burst in ten hours, at 95 %": {[]capacity.Span{day(0, 2000, 8), day(100, 130, 4)}, 950, 0},
		"a burst every 20 minutes": {slices.Collect(func(yield func(capacity.Span) bool) { // of 5 minutes each: a quarter of the time it is about to come
			for m := 0; m < 600 && yield(day(m, m+5, 3)); m += 20 {
			}
		}), 950, 3},
		"a step that stays":                     {[]capacity.Span{{From: at(300), GPUs: 16}}, 999, 16},
		"times that make no sense are left out": {[]capacity.Span{{From: at(10), To: at(5), GPUs: 4}, {From: at(10), To: at(50), GPUs: -4}}, 999, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := capacity.Growing("r", c.spans, now, at(600), 6*time.Minute, c.milli)
			if g.GPUs != c.want || g.Samples < 150 || g.Seconds != 360 {
				t.Errorf("%+v, want %d", g, c.want)
			}
		})
	}
	if g := capacity.Growing("r", nil, now, now, time.Minute, 0); g.Samples != 0 {
		t.Errorf("an empty period is measured: %+v", g)
	}
}

func TestGrowthIsNeverBelowZeroNorAboveWhatRan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var spans []capacity.Span
		var sum int64
		for range rapid.IntRange(0, 30).Draw(t, "pods") {
			from := now.Add(time.Duration(rapid.IntRange(-100, 700).Draw(t, "from")) * time.Minute)
			s := capacity.Span{From: from, To: from.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "for")) * time.Minute), GPUs: int64(rapid.IntRange(0, 8).Draw(t, "gpus"))}
			spans, sum = append(spans, s), sum+s.GPUs
		}
		low := capacity.Growing("r", spans, now, now.Add(10*time.Hour), 5*time.Minute, 500)
		high := capacity.Growing("r", spans, now, now.Add(10*time.Hour), 5*time.Minute, 990)
		if low.GPUs < 0 || low.GPUs > high.GPUs || high.GPUs > sum {
			t.Fatalf("%d at a half, %d at 99 %%, %d GPUs in all", low.GPUs, high.GPUs, sum)
		}
	})
}

func TestRulesOfWarmPoolsAreChecked(t *testing.T) {
	t.Parallel()
	good := capacity.WarmRule{Name: "a", GPUModel: "L4", How: capacity.WarmFixed, Count: 1}
	for name, change := range map[string]func(*capacity.WarmRule){
		"no name":             func(r *capacity.WarmRule) { r.Name = "" },
		"a name of capitals":  func(r *capacity.WarmRule) { r.Name = "A_b" },
		"nothing named":       func(r *capacity.WarmRule) { r.GPUModel = "" },
		"another way":         func(r *capacity.WarmRule) { r.How = "guess" },
		"a count below zero":  func(r *capacity.WarmRule) { r.Count = -1 },
		"the least above all": func(r *capacity.WarmRule) { r.How, r.Least = capacity.WarmGrowth, 5 },
		"growth without GPUs": func(r *capacity.WarmRule) {
			r.How, r.GPUModel, r.InstanceTypes = capacity.WarmGrowth, "", []string{"m5.large"}
		},
	} {
		r := good
		change(&r)
		if err := (capacity.Policy{Warm: []capacity.WarmRule{r}}).Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := (capacity.Policy{Warm: []capacity.WarmRule{good}}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (capacity.Policy{Warm: []capacity.WarmRule{good, good}}).Validate(); err == nil {
		t.Error("two pools of one name are taken")
	}
}
