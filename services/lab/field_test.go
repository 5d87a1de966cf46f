package lab

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// seen is what a policy sees of a service that is used to a share, with nothing waiting.
func seen(slot, ready, starting int, use float64) *Observation {
	busy := use * float64(ready)
	return &Observation{Slot: slot, Ready: ready, Starting: starting, Rate: 10 * busy, Running: 36 * busy, Busy: busy, Demand: busy}
}

// steady plays the same view for some slots and returns the last answer.
func steady(p Policy, from, slots, ready, starting int, use float64) int {
	want := 0
	for s := range slots {
		want = p.Step(seen(from+s, ready, starting, use))
	}
	return want
}

func TestAzureForecastsAfterSevenDaysAndOnlyAdds(t *testing.T) {
	t.Parallel()
	p := newAzure(0.7, 12)
	load := func(slot int) float64 { // 7 replicas from 9 to 17 o'clock, else 1
		if h := slot / SlotsPerHour % 24; h >= 9 && h < 17 {
			return 7
		}
		return 1
	}
	ready, atNight, ahead, evening := 2, 0, 0, 10
	const morning = 9*SlotsPerHour - 12 // a start before the load
	for s := range 8 * SlotsPerDay {
		day, at := s/SlotsPerDay, s%SlotsPerDay
		want := p.Step(seen(s, ready, 0, min(1, load(s)/float64(ready))))
		switch {
		case day < 7 && at == morning && want > ready:
			t.Fatalf("day %d: %d of %d before the morning, without seven days of history", day, want, ready)
		case day == 7 && at == morning-SlotsPerHour:
			atNight = want
		case day == 7 && at == morning:
			ahead = want
		case day == 7 && at > 17*SlotsPerHour && want < ready:
			if want != ready-1 {
				t.Fatalf("a quiet evening: %d of %d; want one less at a time", want, ready)
			}
			evening = want
		}
		ready = max(want, 1)
		if day < 7 && load(s+1) > 1 { // somebody has ten there by day, so that all of the load is seen
			ready = 10
		}
	}
	if atNight > 2 || ahead != 10 {
		t.Errorf("an hour before the morning %d, a start before it %d; want at most 2, and the 10 that hold seven at 70 %%", atNight, ahead)
	}
	if evening > 3 {
		t.Errorf("%d instances are left at night; want the rule to have taken them away", evening)
	}
}

func TestVariantAutoscalerAddsOneAtATimeAndWaitsForIt(t *testing.T) {
	t.Parallel()
	p := newVariant(0.8)
	if got := steady(p, 0, 4, 5, 0, 0.75); got != 6 {
		t.Errorf("five points of spare cache: %d; want one more", got)
	}
	if got := steady(p, 4, 4, 5, 1, 0.95); got != 6 {
		t.Errorf("hotter still while one is pending: %d; want none more", got)
	}
	if got := steady(newVariant(0.8), 0, 4, 5, 0, 0.65); got != 5 {
		t.Errorf("15 points spare, but not on four: %d; want five", got)
	}
	down := newVariant(0.8)
	if got := steady(down, 0, 4, 10, 0, 0.3); got != 9 {
		t.Errorf("idle with nothing recommended before: %d; want nine", got)
	}
	busy := newVariant(0.8)
	steady(busy, 0, 4, 10, 0, 0.65)
	if got := steady(busy, 4, 16, 10, 0, 0.3); got != 10 {
		t.Errorf("idle within the HPA's 300 s: %d; want ten", got)
	}
	if busy.Needed() != 9 {
		t.Errorf("needed %d; want nine", busy.Needed())
	}
}

func TestMeanWaitIsErlangsC(t *testing.T) {
	t.Parallel()
	// One server: use / (1 - use) of a service time. Two servers at a load of one: a third waits, each half a service time over one less use.
	for _, c := range []struct {
		n         int
		use, want float64
	}{{1, 0.5, 1}, {1, 0.9, 9}, {2, 0.5, 1.0 / 3}, {10, 0, 0}} {
		if got := meanWait(c.n, c.use, 1); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d servers used to %v: %v; want %v", c.n, c.use, got, c.want)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(r, "servers")
		a, b := rapid.Float64Range(0, 0.999).Draw(r, "use"), rapid.Float64Range(0, 0.999).Draw(r, "more use")
		if low, high := meanWait(n, min(a, b), 1), meanWait(n, max(a, b), 1); low > high+1e-9 || low < 0 {
			r.Fatalf("%d servers: %v waits at %v, %v at %v", n, low, min(a, b), high, max(a, b))
		}
	})
	if !math.IsInf(meanWait(3, 1, 1), 1) {
		t.Error("at full use the wait has a mean")
	}
}

func TestDynamoMovesOneWorkerAndKeepsNewOnesForThreeIntervals(t *testing.T) {
	t.Parallel()
	p := newDynamoLoad(0.9)
	if got := steady(p, 0, 2, 5, 0, 0.95); got != 6 {
		t.Errorf("over the threshold: %d; want six", got)
	}
	if got := steady(p, 2, 2, 5, 1, 1); got != 6 {
		t.Errorf("while one starts: %d; want six", got)
	}
	for i := range 3 {
		if got := steady(p, 4+2*i, 2, 6, 0, 0.2); got != 6 {
			t.Errorf("interval %d after it became ready: %d; want six", i, got)
		}
	}
	if got := steady(p, 10, 2, 6, 0, 0.2); got != 5 {
		t.Errorf("after the grace: %d; want five", got)
	}
	sla := newDynamoSLA(0.5, false)
	if got := steady(sla, 0, 12, 4, 0, 0.9); got != 8 {
		t.Errorf("3.6 replicas of work at half a worker's throughput: %d; want eight", got)
	}
}

func TestTheTrendFilterFollowsARamp(t *testing.T) {
	t.Parallel()
	k := levelTrend{}
	next := 0.0
	for i := range 200 {
		next = k.next(100 + 5*float64(i))
	}
	if want := 100 + 5*200.0; math.Abs(next-want) > 1 {
		t.Errorf("after %v the filter expects %v; want %v", want-5, next, want)
	}
	if flat := (&levelTrend{}); flat.next(7) != 7 || flat.next(9) != 9 {
		t.Error("before five points the filter forecasts")
	}
}

func TestAutopilotRemembersThreeDaysAndMovingWindowsFade(t *testing.T) {
	t.Parallel()
	p := newAutopilot(0.5)
	steady(p, 0, 20, 8, 0, 0.5)
	if got := steady(p, 20, 2*SlotsPerDay, 8, 0, 0.1); got != 8 {
		t.Errorf("two days after a use of four: %d; want eight", got)
	}
	if got := steady(p, 2*SlotsPerDay+20, 4*SlotsPerDay, 8, 0, 0.1); got != 2 {
		t.Errorf("after horizon and deferral: %d; want two", got)
	}
	m := newMovingWindow(0.95)
	steady(m, 0, 20*12, 10, 0, 1)
	high := steady(m, 240, SlotsPerHour, 10, 0, 0.1)
	low := steady(m, 480, 21*SlotsPerDay, 10, 0, 0.1)
	if high < 10 || low != 2 {
		t.Errorf("an hour after a use of ten %d, three weeks after it %d; want at least ten, and two", high, low)
	}
}

func TestEveryFamilyIsKnownByNameAndDecidesWithinReason(t *testing.T) {
	t.Parallel()
	tr := builtin(t)[2]
	short := *tr
	short.Rho, short.Requests, short.From, short.To = tr.Rho[:SlotsPerDay], tr.Requests[:SlotsPerDay], 0, SlotsPerDay
	cfg := DefaultConfig(&short)
	seenNames := map[string]bool{}
	for _, f := range Families() {
		if seenNames[f.Name] || f.Means == "" || len(f.Targets) == 0 {
			t.Errorf("%s: twice, or without targets or meaning", f.Name)
		}
		seenNames[f.Name] = true
		e := f.Entry(f.Default)
		named, err := Named([]string{e.Name})
		if err != nil || named[0].Name != e.Name {
			t.Errorf("%s cannot be named: %v", e.Name, err)
			continue
		}
		a, b := Run(&short, cfg, e.New(&short, cfg)), Run(&short, cfg, named[0].New(&short, cfg))
		if a.Paid != b.Paid || a.Late != b.Late {
			t.Errorf("%s: by name another policy", e.Name)
		}
		if a.Most > cfg.Max || a.Paid < float64(short.Slots())/SlotsPerHour {
			t.Errorf("%s: %d replicas at most, %v replica-hours in a day", e.Name, a.Most, a.Paid)
		}
	}
	for _, p := range Policies() {
		if _, err := Named([]string{p.Name}); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"hpa-0", "hpa--1", "hpa-99999", "hpa-x", "magic-70", "hpa-70-70", ""} {
		if _, err := Named([]string{bad}); err == nil {
			t.Errorf("%q is a policy", bad)
		}
	}
}

func TestHindsightFindsTheCheapestThatIsAsPunctual(t *testing.T) {
	t.Parallel()
	tr := builtin(t)[1]
	short := *tr
	short.Rho, short.Requests, short.From, short.To = tr.Rho[:SlotsPerDay], tr.Requests[:SlotsPerDay], SlotsPerDay/4, SlotsPerDay
	l := plainLoad(&short)
	ours, err := Named([]string{"hpa-60"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.column()
	if err != nil {
		t.Fatal(err)
	}
	families := []Family{}
	for _, f := range Families() {
		if f.Name == "hpa" || f.Name == "hpa-queue" || f.Name == "static" {
			families = append(families, f)
		}
	}
	h := TuneInHindsight(l, ours[0], c.Bound, families, func() bool { return false })
	best, ok := h.Best()
	if !ok || best.Delta < 0 {
		t.Fatalf("%+v: ours is of the family hpa, whose best cannot be dearer", h)
	}
	for _, x := range h.Tuned {
		switch x.Family {
		case "hpa-queue":
			if x.Target != 0 || x.Tried != 10 {
				t.Errorf("the queue alone is as punctual: %+v", x)
			}
		case "hpa":
			// Every target of the grid that is as punctual costs at least as much.
			for v := 30; v <= 100; v += 5 {
				f := families[1]
				if r := l.row(f.Entry(v), c.Bound); r.LateRate <= h.Late && r.Paid < x.Paid-1e-9 {
					t.Errorf("hpa at %d costs %v, less than the %v found", v, r.Paid, x.Paid)
				}
			}
		}
	}
	out := bytes.Buffer{}
	if err := WriteHindsight(&out, []Hindsight{h}, nil, nil); err != nil || !strings.Contains(out.String(), "does not hold") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestTheClaimNeedsAllOfItsParts(t *testing.T) {
	t.Parallel()
	on := func(name string, delta float64) Hindsight {
		return Hindsight{Workload: name, Tuned: []Tuned{{Family: "hpa", Target: 70, Delta: delta}}}
	}
	alone := Hindsight{Workload: "alone", Tuned: []Tuned{{Family: "hpa"}}}
	for _, c := range []struct {
		name string
		all  []Hindsight
		want bool
	}{
		{"cheaper on two, even on the third", []Hindsight{on("a", -0.11), on("b", -0.2), on("c", 0.02)}, true},
		{"cheaper on one only", []Hindsight{on("a", -0.11), on("b", -0.05)}, false},
		{"dearer on one", []Hindsight{on("a", -0.11), on("b", -0.2), on("c", 0.021)}, false},
		{"no baseline as punctual counts as cheaper", []Hindsight{on("a", -0.11), alone}, true},
		{"nothing", nil, false},
	} {
		if v := Judge(c.all); v.Holds != c.want {
			t.Errorf("%s: holds %v; want %v", c.name, v.Holds, c.want)
		}
	}
}

func TestTuningMovesOneNotchAndOnlyOnEvidence(t *testing.T) {
	t.Parallel()
	tr := *builtin(t)[1]
	l := plainLoad(&tr)
	f := Family{}
	for _, x := range Families() {
		if x.Name == "hpa" {
			f = x
		}
	}
	grid := FamilyNotches(f)
	for _, c := range []struct {
		name, current, next, reason string
		grid                        []Notch
		minDays                     int
	}{
		{"two days are too few", "hpa-50", "hpa-50", TuneShort, grid, 0},
		{"far from the cheapest on time, one notch up", "hpa-30", "hpa-35", TuneMoved, grid, 2},
		{"over it, one notch down", "hpa-100", "hpa-95", TuneMoved, grid, 2},
		{"none is on time, one notch more careful", "hpa-100", "hpa-95", TuneCareful, grid[len(grid)-2:], 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Tune(l, c.grid, c.current, 4, c.minDays)
			if err != nil {
				t.Fatal(err)
			}
			if got.Next != c.next || got.Reason != c.reason {
				t.Errorf("%s (%s), cheapest on time %q; want %s (%s)", got.Next, got.Reason, got.Best, c.next, c.reason)
			}
		})
	}
	if _, err := Tune(l, grid, "hpa-1", 4, 2); err == nil {
		t.Error("a current setting that is not on the grid is tuned")
	}
	if _, err := Tune(l, nil, "", 4, 2); err == nil {
		t.Error("an empty grid is tuned")
	}
	if _, err := Tune(l, grid, "hpa-50", 90, 2); err == nil {
		t.Error("ninety days are tuned on")
	}
	own := QuantileNotches(0.01)
	again, err := Tune(l, own, "late-60", 4, 2)
	if err != nil || again.Reason == TuneShort || len(again.Tried) != len(own) {
		t.Errorf("our own grid: %+v, %v", again, err)
	}
}

func TestTheReportIsTheSameTwiceAndEscapesNames(t *testing.T) {
	t.Parallel()
	tr := *flat(`<b>"x"`, []float64{1, 1.5, 2, 1.2, 0.4, 0.4, 1, 1})
	l := plainLoad(&tr)
	entries, err := Named([]string{"hpa-70", "oracle", "plimsoll-cq"})
	if err != nil {
		t.Fatal(err)
	}
	write := func() string {
		r := Report{Ours: "plimsoll-cq", Against: "hpa-70", Span: "test", Seed: 1}
		if err := r.Board.AddLoad(l, entries); err != nil {
			t.Fatal(err)
		}
		if err := r.Add(l); err != nil {
			t.Fatal(err)
		}
		r.Hindsight = []Hindsight{{Workload: tr.Name, Policy: r.Ours, Tuned: []Tuned{{Family: "hpa", Target: 70, Delta: 0.3}, {Family: "keda"}}}}
		out := bytes.Buffer{}
		if err := r.WriteHTML(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	one := write()
	if one != write() {
		t.Error("two pages differ")
	}
	if strings.Contains(one, "<b>\"x") || !strings.Contains(one, "&lt;b&gt;") {
		t.Error("a name is written into the page as it is")
	}
	empty := bytes.Buffer{}
	if err := (&Report{}).WriteHTML(&empty); err != nil || !strings.Contains(empty.String(), "No workload was scored.") {
		t.Errorf("a report of nothing: %v", err)
	}
}
