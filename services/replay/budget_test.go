package replay

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
)

// attack multiplies the rate of a source from a time on: a loop in a client, or somebody with a stolen key.
type attack struct {
	Source
	from   int64
	factor float64
}

func (a attack) At(ms int64) Load {
	l := a.Source.At(ms)
	if ms >= a.from {
		l.Rate *= a.factor
	}
	return l
}

// attackedLoop is the demo with the image model under fire from one hour after the start, and a policy that would let it grow to 200.
// Every replica costs 1.00 an hour.
func attackedLoop(tb testing.TB) *Loop {
	tb.Helper()
	demo := Demo(7, start, nil)
	l := &Loop{Tenant: "t", Cluster: "c", Mode: fleet.ModeEnforce, Policies: map[fleet.WorkloadID]optimizer.Binding{}}
	price := fleet.Money(fleet.NanosPerUnit)
	l.ReplicaHour = func(fleet.WorkloadState) *fleet.Money { return &price }
	for i := range demo.Config.Workloads {
		w := &demo.Config.Workloads[i]
		w.ID = fleet.WorkloadID(w.Key)
		p, _ := optimizer.ParsePolicy([]byte(demo.Policies[w.Key]))
		if w.Key == attackedKey {
			w.Traffic = attack{w.Traffic, start.Add(time.Hour).UnixMilli(), 20}
			p.Max = 200
		}
		l.Policies[w.ID] = optimizer.Binding{Version: 1, Policy: p}
	}
	for i := range demo.Config.Pools {
		demo.Config.Pools[i].MaxNodes = 400
	}
	w, err := NewWorld(demo.Config)
	if err != nil {
		tb.Fatal(err)
	}
	l.World = w
	return l
}

const attackedKey = "media/Deployment/image-gen"

// asked is what the replicas asked for cost per hour, of the workloads that a budget counts.
func asked(m Made, b optimizer.Budget) fleet.Money {
	sum := b.ElsewhereHour
	for _, d := range m.Plan.Decisions {
		for _, id := range b.Workloads {
			if id == d.Workload {
				count := d.From
				if d.Mode == fleet.ModeEnforce {
					count = d.Target
				}
				sum += fleet.Money(count) * fleet.NanosPerUnit
			}
		}
	}
	return sum
}

func TestARunawayScaleUpStopsWithinOneTick(t *testing.T) {
	t.Parallel()
	limit := fleet.Money(30 * fleet.NanosPerUnit)
	for _, c := range []struct {
		name   string
		budget *optimizer.Budget
		reason optimizer.ReasonCode
	}{
		{"nothing stops it", nil, ""},
		{"an enforced budget", &optimizer.Budget{Enforced: true, Remaining: 1000 * fleet.NanosPerUnit, AllowedHour: limit}, optimizer.ReasonBudget},
		{"the breaker", &optimizer.Budget{Remaining: 1000 * fleet.NanosPerUnit, BreakerHour: &limit, UsualHour: limit / 3}, optimizer.ReasonSpendBreaker},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := attackedLoop(t)
			watched := optimizer.Budget{Workloads: []fleet.WorkloadID{attackedKey, "media/Deployment/embedder"}}
			if c.budget != nil {
				c.budget.ID, c.budget.Workloads, c.budget.EndsAt = "b", watched.Workloads, start.Add(30*24*time.Hour)
				l.Budgets = []optimizer.Budget{*c.budget}
			}
			var most fleet.Money
			stopped, over := 0, 0
			l.run(t, 4*time.Hour, func(m Made) {
				rate := asked(m, watched)
				most = max(most, rate)
				if rate > limit {
					over++
				}
				for _, d := range m.News {
					if d.Binding == c.reason && c.reason != "" {
						stopped++
					}
				}
				raw, err := json.Marshal(m.Input)
				if err != nil {
					t.Fatal(err)
				}
				var kept optimizer.Input
				if err := json.Unmarshal(raw, &kept); err != nil {
					t.Fatal(err)
				}
				again, err := optimizer.Decide(kept)
				if err != nil {
					t.Fatal(err)
				}
				if a, b := mustJSON(t, again), mustJSON(t, m.Plan); !reflect.DeepEqual(a, b) {
					t.Fatalf("the plan of %v computes to another one", m.Plan.At)
				}
			})
			t.Logf("most asked for: %s an hour, %d of 480 ticks over %s, stopped %d times", most, over, limit, stopped)
			switch {
			case c.budget == nil && over == 0:
				t.Error("the attack does not reach the limit, so nothing is proven")
			case c.budget != nil && over > 0:
				t.Errorf("%d ticks asked for more than %s an hour, the most was %s", over, limit, most)
			case c.budget != nil && stopped == 0:
				t.Errorf("no decision says %s", c.reason)
			}
			if c.reason == optimizer.ReasonSpendBreaker && l.Budgets[0].TrippedAt == nil {
				t.Error("the breaker has not tripped")
			}
		})
	}
}

// A breaker with a time trips again while the attack lasts, and lets go once it is over.
func TestATimedBreakerLetsGoAfterItsTime(t *testing.T) {
	t.Parallel()
	l := attackedLoop(t)
	limit := fleet.Money(30 * fleet.NanosPerUnit)
	l.BreakerHold = 30 * time.Minute
	l.Budgets = []optimizer.Budget{{ID: "b", Workloads: []fleet.WorkloadID{attackedKey}, EndsAt: start.Add(30 * 24 * time.Hour), BreakerHour: &limit}}
	var trips []time.Time
	l.run(t, 4*time.Hour, func(m Made) {
		for _, trip := range m.Plan.Trips {
			trips = append(trips, trip.At)
		}
	})
	if len(trips) < 2 {
		t.Fatalf("tripped %d times", len(trips))
	}
	for i, at := range trips[1:] {
		if at.Sub(trips[i]) < l.BreakerHold {
			t.Errorf("tripped again after %s", at.Sub(trips[i]))
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
