package optimizer

import (
	"encoding/json"
	"math"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// drawInput is any snapshot with one to three workloads under valid policies, with signals in any state of truth and
// memories as they come about.
func drawInput(t *rapid.T) Input {
	in := Input{
		Snapshot: fleet.Snapshot{
			Cluster: "c", Now: noon, Generation: rapid.Int64Range(0, 9).Draw(t, "generation"),
			Mode:   rapid.SampledFrom([]fleet.Mode{fleet.ModeObserve, fleet.ModeRecommend, fleet.ModeApprove, fleet.ModeEnforce}).Draw(t, "mode"),
			Frozen: rapid.IntRange(0, 9).Draw(t, "frozen") == 0,
		},
		Policies: map[fleet.WorkloadID]Binding{}, Memory: map[fleet.WorkloadID]Memory{},
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		id := fleet.WorkloadID(rune('a' + i))
		w := drawState(t, id)
		in.Snapshot.Workloads = append(in.Snapshot.Workloads, w)
		in.Policies[id] = Binding{Version: 1, Policy: drawPolicy(t)}
		in.Memory[id] = drawMemory(t)
	}
	return in
}

func drawState(t *rapid.T, id fleet.WorkloadID) fleet.WorkloadState {
	n := rapid.IntRange(0, 40).Draw(t, "replicas")
	w := fleet.WorkloadState{
		Workload: fleet.Workload{ID: id, Key: "ns/Deployment/" + string(id), Kind: "Deployment"},
		Replicas: n, Ready: rapid.IntRange(0, n).Draw(t, "ready"), Starting: rapid.IntRange(0, 2).Draw(t, "starting"),
	}
	for _, name := range allSignals {
		if rapid.IntRange(0, 7).Draw(t, "absent") == 0 {
			continue
		}
		sig := fleet.Signal{Name: name, Conflicting: rapid.IntRange(0, 19).Draw(t, "conflicting") == 0}
		top := rapid.SampledFrom([]float64{0.05, 1, 3, 200}).Draw(t, "top")
		age := rapid.SampledFrom([]int{0, 0, 0, 5, 44, 45, 46, 400, -30, -100}).Draw(t, "age")
		count := rapid.IntRange(0, 25).Draw(t, "samples")
		for j := range count {
			s := fleet.Sample{At: noon.Add(-seconds(age + 15*(count-1-j))), Value: rapid.Float64Range(0, top).Draw(t, "value"), PodsReported: w.Ready}
			switch rapid.IntRange(0, 39).Draw(t, "odd") {
			case 0:
				s.Value = math.NaN()
			case 1:
				s.Value = -s.Value
			case 2:
				s.Value *= 1000
			case 3:
				s.Value, s.PodsReported, s.PodsUnready = 0, 0, n
			case 4, 5:
				s.PodsReported = w.Ready / 2
				s.PodsMissing = w.Ready - s.PodsReported
			case 6:
				s.PodsUnready = n - w.Ready
			}
			sig.Samples = append(sig.Samples, s)
		}
		w.Signals = append(w.Signals, sig)
	}
	if rapid.IntRange(0, 9).Draw(t, "writer") == 0 {
		w.Writers = []fleet.Writer{{Manager: "hpa", At: noon.Add(-seconds(rapid.IntRange(0, 900).Draw(t, "wrote")))}}
	}
	if rapid.Bool().Draw(t, "priced") {
		m := fleet.Money(rapid.Int64Range(0, 100_000_000_000).Draw(t, "price"))
		w.ReplicaHour = &m
	}
	return w
}

func drawPolicy(t *rapid.T) Policy {
	p := Policy{
		Mode: rapid.SampledFrom([]fleet.Mode{fleet.ModeRecommend, fleet.ModeEnforce}).Draw(t, "policy mode"),
		Min:  rapid.IntRange(1, 6).Draw(t, "min"), OwnReplicas: rapid.Bool().Draw(t, "own"),
	}
	p.Max = p.Min + rapid.IntRange(0, 30).Draw(t, "span")
	if rapid.Bool().Draw(t, "queue rule") {
		p.Queue = &QueueRule{TargetPerReplica: rapid.Float64Range(0.5, 50).Draw(t, "per replica"), IncludeRunning: rapid.Bool().Draw(t, "running"),
			MaxAgeSeconds: rapid.SampledFrom([]float64{0, 10}).Draw(t, "max age")}
		if p.ScaleToZero = rapid.Bool().Draw(t, "to zero"); p.ScaleToZero {
			p.Min = 0
		}
	}
	if rapid.Bool().Draw(t, "latency rule") {
		p.Latency = &LatencyRule{Signal: fleet.SignalTTFTP99, TargetSeconds: rapid.Float64Range(0.05, 5).Draw(t, "slo")}
	}
	if rapid.Bool().Draw(t, "ratio rules") || p.rules() == 0 {
		p.TargetRatio = []TargetRatio{
			{Signal: fleet.SignalGPUSM, Target: rapid.Float64Range(0.1, 0.9).Draw(t, "target")},
			{Signal: fleet.SignalRequestRate, Type: RatioAverageValue, Target: rapid.Float64Range(0.1, 50).Draw(t, "per pod")},
			{Signal: "gateway_load", Type: RatioValue, Target: rapid.Float64Range(0.1, 50).Draw(t, "plain")},
		}[:rapid.IntRange(1, 3).Draw(t, "ratios")]
	}
	off := func(label string, vs ...int) int { return rapid.SampledFrom(append(vs, -1, 0)).Draw(t, label) }
	p.Filter = Filter{WindowSeconds: off("window", 120), OutlierMAD: float64(off("mad", 4))}
	p.Up = Damping{CooldownSeconds: off("cool up", 60), StabilisationSeconds: off("stable up", 60)}
	p.Down = Damping{CooldownSeconds: off("cool down", 60), StabilisationSeconds: off("stable down", 600)}
	p.Flap = Flap{CyclesPerHour: off("flap", 1)}
	if rapid.Bool().Draw(t, "undamped") {
		q := undamped(p)
		p.Up, p.Down = q.Up, q.Down
	}
	if rapid.Bool().Draw(t, "long tail") {
		p.LongTail = &LongTail{QuietSeconds: 60, UseRatio: 0.09}
	}
	return p
}

func drawMemory(t *rapid.T) Memory {
	var m Memory
	if rapid.IntRange(0, 3).Draw(t, "new") == 0 {
		return m
	}
	ago := func(label string) *time.Time { return at(-rapid.IntRange(-50, 4000).Draw(t, label)) }
	m.LastAt, m.LastFrom, m.LastTarget = ago("last at"), rapid.IntRange(0, 40).Draw(t, "last from"), rapid.IntRange(0, 40).Draw(t, "last target")
	if rapid.Bool().Draw(t, "was quiet") {
		m.QuietSince = ago("quiet since")
	}
	if rapid.Bool().Draw(t, "went up") {
		m.LastUp = ago("last up")
	}
	if rapid.Bool().Draw(t, "went down") {
		m.LastDown = ago("last down")
	}
	when, n := -3600, 5
	for range rapid.IntRange(0, 8).Draw(t, "changes") {
		when += rapid.IntRange(1, 400).Draw(t, "gap")
		to := rapid.IntRange(0, 40).Draw(t, "to")
		m.Changes = append(m.Changes, Change{*at(when), n, to})
		m.Recommendations = append(m.Recommendations, Recommendation{*at(when), to})
		n = to
	}
	return m
}

func mustDecide(t *rapid.T, in Input) Plan {
	plan, err := Decide(in)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return plan
}

func TestEveryPlanPassesItsCheckAndCanBeWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		plan := mustDecide(t, in)
		for _, v := range Check(plan, in) {
			t.Errorf("%s: %s", v.Code, v.Message)
		}
		if _, err := json.Marshal(plan); err != nil {
			t.Errorf("marshal: %v", err)
		}
	})
}

func TestTargetIsNeverOutsideItsBoundsUnlessNothingMayChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		for _, d := range mustDecide(t, in).Decisions {
			if d.Target >= d.Min && d.Target <= d.Max {
				continue
			}
			switch d.Binding {
			case ReasonFrozen, ReasonConflict, ReasonZeroReplicas:
			case ReasonNoSignal, ReasonPartialSignal, ReasonMax: // over max in the dark
				if d.Target < d.Min {
					t.Errorf("under min by %s", d.Binding)
				}
			default:
				t.Errorf("target %d outside %d to %d by %s", d.Target, d.Min, d.Max, d.Binding)
			}
			if d.Target != d.From {
				t.Errorf("moved from %d to %d outside %d to %d", d.From, d.Target, d.Min, d.Max)
			}
		}
	})
}

func TestNeverDownUnlessEveryRuleSignalIsFresh(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		for i, d := range mustDecide(t, in).Decisions {
			if d.Outcome != OutcomeDown {
				continue
			}
			p := in.Policies[d.Workload].Policy.WithDefaults()
			for _, name := range ruleSignals(&p) {
				sig := in.Snapshot.Workloads[i].Signal(name)
				if truth := sig.Truth(noon, seconds(p.MaxSignalAgeSeconds)); truth != fleet.TruthFresh {
					t.Errorf("down from %d to %d although %s is %s", d.From, d.Target, name, truth)
				}
				if last, _ := sig.Last(); last.Value < 0 {
					t.Errorf("down on a negative %s", name)
				}
			}
		}
	})
}

func TestFrozenMeansNoChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Snapshot.Frozen = true
		for _, d := range mustDecide(t, in).Decisions {
			if d.Outcome != OutcomeHold || d.Target != d.From {
				t.Errorf("%s from %d to %d while frozen", d.Outcome, d.From, d.Target)
			}
		}
	})
}

func TestSameInputSameBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		a, _ := json.Marshal(mustDecide(t, in))
		for i, j := 0, len(in.Snapshot.Workloads)-1; i < j; i, j = i+1, j-1 {
			w := in.Snapshot.Workloads
			w[i], w[j] = w[j], w[i]
		}
		if b, _ := json.Marshal(mustDecide(t, in)); string(a) != string(b) {
			t.Errorf("bytes differ\n%s\n%s", a, b)
		}
	})
}

// The memory goes through JSON, as the store keeps it.
func TestDecidingTwiceFromTheSameStateChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		first := mustDecide(t, in)
		raw, err := json.Marshal(first.Memory)
		if err != nil {
			t.Fatal(err)
		}
		in.Memory = map[fleet.WorkloadID]Memory{}
		if err := json.Unmarshal(raw, &in.Memory); err != nil {
			t.Fatal(err)
		}
		second := mustDecide(t, in)
		for i, d := range second.Decisions {
			if !reflect.DeepEqual(d, first.Decisions[i]) {
				t.Errorf("second decision differs:\n%+v\n%+v", first.Decisions[i], d)
			}
			if News(in.Memory[d.Workload], d) {
				t.Errorf("the same again is news: %+v", d)
			}
		}
		again, _ := json.Marshal(second.Memory)
		if string(raw) != string(again) {
			t.Errorf("memory differs:\n%s\n%s", raw, again)
		}
	})
}

func TestMoreLoadNeverNeedsFewer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rule := TargetRatio{
			Signal:    fleet.SignalGPUSM,
			Type:      rapid.SampledFrom([]string{RatioUtilization, RatioValue, RatioAverageValue}).Draw(t, "type"),
			Target:    rapid.Float64Range(0.05, 1.5).Draw(t, "target"),
			Tolerance: rapid.SampledFrom([]float64{-1, 0.05, 0.1, 0.3}).Draw(t, "tolerance"),
		}
		n := rapid.IntRange(0, 30).Draw(t, "replicas")
		ready := rapid.IntRange(1, n+5).Draw(t, "ready") // from no pod at all, zero is silence and not a low value
		missing, unready := rapid.IntRange(0, 4).Draw(t, "missing"), rapid.IntRange(0, 4).Draw(t, "unready")
		low := rapid.Float64Range(0, 40).Draw(t, "low")
		high := low + rapid.Float64Range(0, 10).Draw(t, "more")
		needed := func(v float64) int {
			s := newScene(n, withPolicy(func(p *Policy) { p.TargetRatio, p.Max = []TargetRatio{rule}, 1000 }))
			s.state.Ready = ready
			gauge(fleet.SignalGPUSM, 5, v)(&s)
			counted(ready, missing, unready)(&s)
			return mustDecide(t, s.input()).Decisions[0].Needed
		}
		if a, b := needed(low), needed(high); a > b {
			t.Errorf("%v needs %d, %v needs %d", low, a, high, b)
		}
	})
}

// upstream is the Kubernetes calculation for a resource metric pod by pod, in the integers that the controller uses: every
// pod requests 1000 millicores.
func upstream(current int, levels []int64, missing, unready int, targetPercent int64, tolerance float64) int {
	utilisation := func(metrics []int64) (float64, int) {
		var total int64
		for _, m := range metrics {
			total += m
		}
		percent := total * 100 / (int64(len(metrics)) * 1000)
		return float64(percent) / float64(targetPercent), len(metrics)
	}
	inside := func(r float64) bool { return 1-tolerance <= r && r <= 1+tolerance }
	usage, ready := utilisation(levels)
	up := unready > 0 && usage > 1
	if !up && missing == 0 {
		if inside(usage) {
			return current
		}
		return int(math.Ceil(usage * float64(ready)))
	}
	metrics := append([]int64(nil), levels...)
	for range missing {
		switch {
		case usage < 1:
			metrics = append(metrics, 1000*max(100, targetPercent)/100)
		case usage > 1:
			metrics = append(metrics, 0)
		}
	}
	if up {
		metrics = append(metrics, make([]int64, unready)...)
	}
	again, n := utilisation(metrics)
	if inside(again) || (usage < 1 && again > 1) || (usage > 1 && again < 1) {
		return current
	}
	needed := int(math.Ceil(again * float64(n)))
	if (again < 1 && needed > current) || (again > 1 && needed < current) {
		return current
	}
	return needed
}

func TestTheFormulaIsThatOfKubernetesPodByPod(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewSource(1)) // evenly spread cases: the borders are in the middle of the range, not at its ends
	moved := 0
	for range 200_000 {
		current, missing, unready := 1+r.Intn(20), r.Intn(4), r.Intn(4)
		levels := make([]int64, 1+r.Intn(12))
		scale, sum := 100+r.Int63n(1500), int64(0)
		for i := range levels {
			levels[i] = r.Int63n(scale)
			sum += levels[i]
		}
		target, tolerance := 5+r.Int63n(146), []float64{0.05, 0.1, 0.2}[r.Intn(3)]
		rule := TargetRatio{Type: RatioUtilization, Target: float64(target) / 100, Tolerance: tolerance}
		mean := float64(sum) / float64(len(levels)) / 1000
		got := hpaNeed(&rule, mean, pods{current, len(levels), missing, unready}).needed
		want := upstream(current, levels, missing, unready, target, tolerance)
		if got != want {
			t.Fatalf("%d, Kubernetes says %d: %d replicas, levels %v, %d missing, %d unready, target %d, tolerance %v", got, want, current, levels, missing, unready, target, tolerance)
		}
		if want != current {
			moved++
		}
	}
	if moved < 50_000 {
		t.Errorf("only %d of the cases move the count", moved)
	}
}

// In a closed loop over any load the count stays within bounds, moves at most as the steps allow, and no cooldown is broken.
func TestDampingHoldsOverAnyCourseOfLoad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newScene(4, withPolicy(func(p *Policy) {
			p.Up = Damping{CooldownSeconds: 60, Steps: []Step{{StepPods, 3, 60}}}
			p.Down = Damping{CooldownSeconds: 120, StabilisationSeconds: 90, Steps: []Step{{StepPercent, 50, 60}}}
			p.Flap = Flap{}
		}), withMemory(func(m *Memory) { *m = Memory{} }))
		s.memory = Memory{}
		m, n := Memory{}, 4
		course := []int{4, 4, 4, 4} // counts decided; a step is measured from the count 60 s, four ticks, ago
		var lastUp, lastDown time.Time
		for range rapid.IntRange(10, 60).Draw(t, "ticks") {
			s.tick(15, n, m)
			cpu(rapid.Float64Range(0, 1).Draw(t, "use"))(&s)
			plan := mustDecide(t, s.input())
			d := plan.Decisions[0]
			m = plan.Memory[chatID]
			switch d.Outcome {
			case OutcomeUp:
				if s.now.Sub(lastUp) < time.Minute {
					t.Fatalf("up %s after the last one", s.now.Sub(lastUp))
				}
				if start := course[len(course)-4]; d.Target > start+3 {
					t.Fatalf("from %d to %d within 60 s", start, d.Target)
				}
				lastUp = s.now
			case OutcomeDown:
				if s.now.Sub(lastDown) < 2*time.Minute {
					t.Fatalf("down %s after the last one", s.now.Sub(lastDown))
				}
				if start := course[len(course)-4]; d.Target < min(start/2, n) {
					t.Fatalf("from %d to %d within 60 s", start, d.Target)
				}
				lastDown = s.now
			}
			if d.Target < 1 || d.Target > 20 {
				t.Fatalf("target %d", d.Target)
			}
			n = d.Target
			course = append(course, n)
		}
	})
}
