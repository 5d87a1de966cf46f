package lab

import (
	"math"
	"math/rand/v2"
	"time"

	"plimsoll.dev/services/fleet"
)

// Scenarios are the faults that a policy must get through, in the order of docs/chaos.md.
func Scenarios() []Scenario {
	out := telemetryFaults()
	out = append(out, supplyFaults()...)
	return append(out, loadFaults()...)
}

// telemetryFaults are about what is known.
func telemetryFaults() []Scenario {
	during := func(n int) func(int) bool {
		return func(slot int) bool { return within(slot, chaosFault, minutes(n)) }
	}
	// The newest sample counts as fresh for 45 s: signals are gone from then on.
	gone := func(n int) func(int) bool {
		return func(slot int) bool { return within(slot, chaosFault+45/SlotSeconds, minutes(n)-45/SlotSeconds) }
	}
	return []Scenario{
		{Name: "metric-loss", About: "every signal is gone for 30 minutes while the load falls to a third", fault: func() fault {
			return fault{load: fallTo(1.0/3, 60), dark: gone(30), deliver: dropped(during(30))}
		}, pass: []criterion{noFall("replicas kept until the signals are back, share", gone(30)), lateAtMost(0.03)}},
		{Name: "metric-loss-partial", About: "half of the pods give no value for 30 minutes, at an even load", fault: func() fault {
			return fault{deliver: halfOfPods(during(30))}
		}, pass: []criterion{noHalving(), lateAtMost(0.03)}},
		{Name: "metric-one-lost", About: "one of the signals is gone for 30 minutes while the load falls to a third", fault: func() fault {
			drop := dropped(during(30))
			return fault{load: fallTo(1.0/3, 60), deliver: func(slot int, n fleet.SignalName, s fleet.Sample) []fleet.Sample {
				if n == fleet.SignalRunning || n == fleet.SignalGPUSM {
					return drop(slot, n, s)
				}
				return []fleet.Sample{s}
			}, dark: gone(30)}
		}, pass: []criterion{lateAtMost(0.03)}},
		{Name: "metrics-late", About: "samples arrive up to 90 s late and out of order for an hour", fault: func() fault {
			return fault{deliver: delayed(during(60))}
		}, pass: []criterion{lateAtMost(0.03), thrashAtMost(2)}},
		{Name: "metrics-duplicated", About: "every sample arrives two or three times, some of them later again, for an hour", fault: func() fault {
			return fault{deliver: duplicated(during(60))}
		}, pass: []criterion{lateAtMost(0.03), thrashAtMost(2)}},
		{Name: "metrics-not-numbers", About: "every third sample is NaN, infinite, negative or absurd for an hour", fault: func() fault {
			return fault{deliver: broken(during(60))}
		}, pass: []criterion{lateAtMost(0.03), {name: "highest count over that of the hour before", most: 2.5, value: func(r *chaosRun) float64 {
			return part(r.highest(chaosFault, chaosFault+minutes(60)), r.highest(chaosFault-SlotsPerHour, chaosFault))
		}}}},
		{Name: "agent-silent", About: "the agent reports nothing for 30 minutes", fault: func() fault {
			return fault{load: fallTo(1.0/3, 60), silent: during(30), dark: during(30), deliver: dropped(during(30))}
		}, pass: []criterion{noFall("replicas kept until the agent is back, share", during(30)),
			{name: "fall in the first minute after, share", most: 0.3, value: func(r *chaosRun) float64 {
				at := chaosFault + minutes(30)
				return 1 - part(r.lowest(at, at+minutes(1)), float64(r.orders[at-1]))
			}}}},
		{Name: "clock-back", About: "the agent's clock jumps back by ten minutes and stays there", fault: func() fault {
			return jumped(-10*time.Minute, chaosSlots)
		}, pass: []criterion{lateAtMost(0.03), noHalving()}},
		{Name: "clock-forward", About: "the agent's clock is two hours ahead for ten minutes, then right again", fault: func() fault {
			return jumped(2*time.Hour, minutes(10))
		}, pass: []criterion{lateAtMost(0.03), noHalving()}},
		{Name: "other-writer", About: "a HorizontalPodAutoscaler writes the same count for 30 minutes", fault: func() fault {
			return fault{prepare: func(slot int, s *fleet.Snapshot) {
				if within(slot, chaosFault, minutes(30)) {
					s.Workloads[0].Writers = []fleet.Writer{{Manager: "horizontal-pod-autoscaler", Field: "spec.replicas", At: s.Now}}
				}
			}}
		}, pass: []criterion{changesBesideWriter(kindRule), changesBesideWriter("slo")}},
	}
}

// supplyFaults are about machines.
func supplyFaults() []Scenario {
	once := func(share float64) func(slot, ready int) int {
		return func(slot, ready int) int {
			if slot == chaosFault {
				return int(math.Ceil(share * float64(ready)))
			}
			return 0
		}
	}
	return []Scenario{
		{Name: "mass-reclaim", About: "seven of ten replicas are taken back at once, without a notice", fault: func() fault {
			return fault{lose: once(0.7)}
		}, pass: []criterion{recoversWithin(kindForecast, 600), recoversWithin(kindRule, 1800), noFallAfter()}},
		{Name: "zone-failure", About: "a third of the replicas is lost, and no machine can be had for ten minutes", fault: func() fault {
			return fault{lose: once(1.0 / 3), stock: func(slot int) bool { return !within(slot, chaosFault, minutes(10)) }}
		}, pass: []criterion{recoversWithin(kindForecast, 1500), recoversWithin(kindRule, 2400), noFallAfter()}},
		{Name: "node-broken", About: "two replicas break every twenty minutes for two hours", fault: func() fault {
			return fault{lose: func(slot, ready int) int {
				if within(slot, chaosFault, minutes(120)) && (slot-chaosFault)%minutes(20) == 0 {
					return min(2, ready)
				}
				return 0
			}}
		}, pass: []criterion{lateAtMost(0.12), thrashAtMost(3)}},
		{Name: "stock-out", About: "the load doubles and no machine can be had for 20 minutes", fault: func() fault {
			return fault{load: stepTo(2, 90), stock: func(slot int) bool { return !within(slot, chaosFault, minutes(20)) }}
		}, pass: []criterion{recoversWithin(kindForecast, 2400), recoversWithin(kindRule, 4800)}},
		{Name: "cold-start-doubled", About: "from now on a replica takes six minutes to serve instead of three, and the load goes up and down by a half", fault: func() fault {
			return fault{load: func(slot int, rho float64) float64 {
				if slot < chaosFault {
					return rho
				}
				return rho * (1.25 + 0.25*math.Sin(2*math.Pi*float64(slot-chaosFault)/SlotsPerHour))
			}, cold: func(slot int) int {
				if slot >= chaosFault {
					return 360 / SlotSeconds
				}
				return 0
			}, start: func(slot int) int { // five slow starts were seen
				if slot >= chaosFault+minutes(30) {
					return 360
				}
				return 180
			}}
		}, pass: []criterion{lateAtMost(0.10)}},
		{Name: "price-spike", About: "the Spot price of every zone rises to three times that of on demand for an hour", market: true},
	}
}

// loadFaults are about what is asked of the service.
func loadFaults() []Scenario {
	course := func(f func(slot int) float64) func(int, float64) float64 {
		return func(slot int, rho float64) float64 {
			if slot < chaosFault {
				return rho
			}
			return f(slot - chaosFault)
		}
	}
	noise := func() func(int) float64 {
		r := rand.New(rand.NewPCG(4, 7))
		return func(int) float64 { return max(0, 8+2*r.NormFloat64()) }
	}
	return []Scenario{
		{Name: "flash-crowd", About: "ten times the load at once, for 20 minutes", fault: func() fault {
			return fault{load: stepTo(10, 20), judge: minutes(40)}
		}, pass: []criterion{
			{name: "late-equivalent, seconds", only: kindForecast, most: 300, value: (*chaosRun).lateFor},
			{name: "late-equivalent, seconds", only: kindRule, most: 1200, value: (*chaosRun).lateFor},
		}},
		{Name: "cap", About: "the load grows without end; the ceiling is 24 replicas", fault: func() fault {
			return fault{load: stepTo(100, 120), max: 24}
		}, pass: []criterion{{name: "highest count", most: 24, value: func(r *chaosRun) float64 { return r.highest(0, len(r.orders)) }}}},
		{Name: "traffic-collapse", About: "the load falls to a twentieth at once for 20 minutes, then is back", fault: func() fault {
			return fault{load: func(slot int, rho float64) float64 {
				if within(slot, chaosFault, minutes(20)) {
					return rho / 20
				}
				return rho
			}}
		}, pass: []criterion{
			{name: "replicas kept for 20 minutes, share", only: "slo", least: 0.7, value: func(r *chaosRun) float64 {
				return part(r.lowest(chaosFault, chaosFault+minutes(20)), float64(r.orders[chaosFault-1]))
			}},
			lateAtMost(0.05),
		}},
		{Name: "sine", About: "the load swings by 40 % every 12 minutes for five hours", fault: func() fault {
			return fault{load: course(func(i int) float64 { return 8 + 3.2*math.Sin(2*math.Pi*float64(i)/float64(minutes(12))) })}
		}, pass: []criterion{thrashAtMost(2), lateAtMost(0.12)}},
		{Name: "noise", About: "the load is noise of a quarter of its mean for five hours", fault: func() fault {
			f := noise()
			return fault{load: course(f)}
		}, pass: []criterion{thrashAtMost(2), lateAtMost(0.05)}},
		{Name: "steps", About: "the load jumps between 4 and 10 replicas every eight minutes for five hours", fault: func() fault {
			return fault{load: course(func(i int) float64 { return 4 + 6*float64(i/minutes(8)%2) })}
		}, pass: []criterion{thrashAtMost(2)}},
	}
}

// stepTo multiplies the load for some minutes.
func stepTo(by float64, n int) func(int, float64) float64 {
	return func(slot int, rho float64) float64 {
		if within(slot, chaosFault, minutes(n)) {
			return rho * by
		}
		return rho
	}
}

func fallTo(by float64, n int) func(int, float64) float64 { return stepTo(by, n) }

// dropped loses the samples of the slots that during names.
func dropped(during func(int) bool) func(int, fleet.SignalName, fleet.Sample) []fleet.Sample {
	return func(slot int, _ fleet.SignalName, s fleet.Sample) []fleet.Sample {
		if during(slot) {
			return nil
		}
		return []fleet.Sample{s}
	}
}

// halfOfPods gives what half of the pods said: totals are halved, the others are counted as missing.
func halfOfPods(during func(int) bool) func(int, fleet.SignalName, fleet.Sample) []fleet.Sample {
	return func(slot int, name fleet.SignalName, s fleet.Sample) []fleet.Sample {
		if half := s.PodsReported / 2; during(slot) && half > 0 {
			if name == fleet.SignalRunning || name == fleet.SignalQueueLength {
				s.Value *= float64(half) / float64(s.PodsReported)
			}
			s.PodsMissing, s.PodsReported = s.PodsReported-half, half
		}
		return []fleet.Sample{s}
	}
}

// delayed gives samples up to six slots later, so that they overtake each other.
func delayed(during func(int) bool) func(int, fleet.SignalName, fleet.Sample) []fleet.Sample {
	waiting := map[fleet.SignalName]map[int][]fleet.Sample{}
	return func(slot int, name fleet.SignalName, s fleet.Sample) []fleet.Sample {
		w := waiting[name]
		if w == nil {
			w = map[int][]fleet.Sample{}
			waiting[name] = w
		}
		late := 0
		if during(slot) {
			late = slot * 5 % 7
		}
		w[slot+late] = append(w[slot+late], s)
		out := w[slot]
		delete(w, slot)
		return out
	}
}

// duplicated gives samples again.
func duplicated(during func(int) bool) func(int, fleet.SignalName, fleet.Sample) []fleet.Sample {
	last := map[fleet.SignalName]fleet.Sample{}
	return func(slot int, name fleet.SignalName, s fleet.Sample) []fleet.Sample {
		out := []fleet.Sample{s}
		if during(slot) {
			out = append(out, s)
			if old, ok := last[name]; ok && slot%2 == 0 {
				out = append(out, old)
			}
		}
		if slot%3 == 0 {
			last[name] = s
		}
		return out
	}
}

// broken makes every third sample something that is no measurement.
func broken(during func(int) bool) func(int, fleet.SignalName, fleet.Sample) []fleet.Sample {
	bad := []float64{math.NaN(), math.Inf(1), -5, math.Inf(-1), 1e308}
	return func(slot int, _ fleet.SignalName, s fleet.Sample) []fleet.Sample {
		if during(slot) && slot%3 == 0 {
			s.Value = bad[slot/3%len(bad)]
		}
		return []fleet.Sample{s}
	}
}

// jumped sets the agent's clock off by so much for some slots.
func jumped(by time.Duration, slots int) fault {
	off := func(slot int) time.Duration {
		if within(slot, chaosFault, slots) {
			return by
		}
		return 0
	}
	return fault{
		deliver: func(slot int, _ fleet.SignalName, s fleet.Sample) []fleet.Sample {
			s.At = s.At.Add(off(slot))
			return []fleet.Sample{s}
		},
		prepare: func(slot int, s *fleet.Snapshot) {
			s.Now = s.Now.Add(off(slot))
			s.LastSeen = s.Now
		},
	}
}

func lateAtMost(v float64) criterion {
	return criterion{name: "late, share", most: v, value: func(r *chaosRun) float64 { return r.score.LateRatio() }}
}

func thrashAtMost(v float64) criterion {
	return criterion{name: "up-down-up cycles per hour", most: v, value: func(r *chaosRun) float64 { return r.score.Thrash() }}
}

func recoversWithin(kind string, seconds float64) criterion {
	return criterion{name: "seconds until nobody waits", only: kind, most: seconds, value: (*chaosRun).recovered}
}

// noFall: in the slots that during names the count is never under what it was when they began.
func noFall(name string, during func(int) bool) criterion {
	return criterion{name: name, least: 1, value: func(r *chaosRun) float64 {
		kept, before := 1.0, 0
		for s, n := range r.orders {
			if !during(s) {
				before = n
				continue
			}
			kept = min(kept, part(float64(n), float64(before)))
		}
		return kept
	}}
}

// noHalving: no single slot takes away a half or more.
func noHalving() criterion {
	return criterion{name: "largest fall in one slot, share", most: 0.5, value: func(r *chaosRun) float64 { return r.drop(chaosFault, chaosFault+2*SlotsPerHour) }}
}

// noFallAfter: what is lost is no reason to want less.
func noFallAfter() criterion {
	return criterion{name: "fall in the five minutes after, share", most: 0.3, value: func(r *chaosRun) float64 {
		return 1 - part(r.lowest(chaosFault, chaosFault+minutes(5)), float64(r.orders[chaosFault-1]))
	}}
}

func (r *chaosRun) highest(a, b int) float64 {
	high := 0
	for _, n := range r.orders[a:b] {
		high = max(high, n)
	}
	return float64(high)
}

func changesBesideWriter(only string) criterion {
	return criterion{name: "changes while another controller writes", only: only, value: func(r *chaosRun) float64 { return r.changes(chaosFault, chaosFault+minutes(30)) }}
}

func (r *chaosRun) changes(a, b int) float64 {
	n := 0
	for s := a; s < b; s++ {
		if r.orders[s] != r.orders[s-1] {
			n++
		}
	}
	return float64(n)
}
