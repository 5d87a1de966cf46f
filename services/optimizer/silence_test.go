package optimizer

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

// quietInput is a workload at 11 replicas whose queue asks for 8, with a down window of five minutes.
func quietInput(now time.Time, m Memory) Input {
	w := fleet.WorkloadState{Workload: fleet.Workload{ID: "w", Key: "ns/Deployment/w"}, Replicas: 11, Ready: 11,
		Signals: []fleet.Signal{{Name: fleet.SignalQueueLength, Samples: []fleet.Sample{{At: now.Add(-15 * time.Second), Value: 80, PodsReported: 11}, {At: now, Value: 80, PodsReported: 11}}}}}
	p := Policy{Mode: fleet.ModeEnforce, Min: 1, Max: 20, Queue: &QueueRule{TargetPerReplica: 10}}.WithDefaults()
	return Input{Snapshot: fleet.Snapshot{Cluster: "c", Now: now, Mode: fleet.ModeEnforce, Workloads: []fleet.WorkloadState{w}},
		Policies: map[fleet.WorkloadID]Binding{"w": {Version: 1, Policy: p}}, Memory: map[fleet.WorkloadID]Memory{"w": m}}
}

func decideQuiet(t *testing.T, now time.Time, m Memory) (Decision, Memory) {
	t.Helper()
	plan, err := Decide(quietInput(now, m))
	if err != nil {
		t.Fatal(err)
	}
	return plan.Decisions[0], plan.Memory["w"]
}

func TestAfterALongSilenceADecisionCountsAsTheFirst(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	d, m := decideQuiet(t, start, Memory{})
	if d.Target != 11 {
		t.Fatalf("the first decision went down at once: %+v", d)
	}
	now := start.Add(2 * time.Hour) // the service was away
	d, m = decideQuiet(t, now, m)
	if d.Target != 11 || d.Binding != ReasonStabilisation {
		t.Fatalf("the first decision after two hours without any went to %d (%s)", d.Target, d.Binding)
	}
	for range 24 { // six minutes in the agents' rhythm: the window is over and the load still asks for 8
		now = now.Add(15 * time.Second)
		d, m = decideQuiet(t, now, m)
	}
	if d.Target >= 11 {
		t.Fatalf("still held after the window: %+v", d)
	}
}

func TestTakingTurnsBetweenReasonsOfTheSameTargetIsNoNews(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	expires := at.Add(time.Hour)
	prev := Memory{LastAt: &at, LastNews: &at, LastExpires: &expires, LastTarget: 4, LastFrom: 4}
	for name, c := range map[string]struct {
		outcome Outcome
		was, is ReasonCode
		after   time.Duration
		news    bool
	}{
		"a hold: stabilisation after steady, soon":             {OutcomeHold, ReasonSteady, ReasonStabilisation, time.Minute, false},
		"a hold: stabilisation after steady, ten minutes on":   {OutcomeHold, ReasonSteady, ReasonStabilisation, calmNews, true},
		"a hold: within tolerance after steady":                {OutcomeHold, ReasonSteady, ReasonWithinTolerance, time.Hour, false},
		"a hold: capped after steady":                          {OutcomeHold, ReasonSteady, ReasonMax, time.Second, true},
		"a hold: no signal after stabilisation":                {OutcomeHold, ReasonStabilisation, ReasonNoSignal, time.Second, true},
		"an action: stabilisation after need, before it ended": {OutcomeDown, ReasonTargetRatio, ReasonStabilisation, time.Minute, false},
		"an action: still wanted when it ran out":              {OutcomeDown, ReasonTargetRatio, ReasonTargetRatio, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prev := prev
			prev.LastOutcome, prev.LastBinding = c.outcome, c.was
			d := Decision{Outcome: c.outcome, Binding: c.is, Target: 4, From: 4, At: at.Add(c.after)}
			if got := News(prev, d); got != c.news {
				t.Errorf("news %v, want %v", got, c.news)
			}
		})
	}
}
