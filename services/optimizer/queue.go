package optimizer

import "plimsoll.dev/services/fleet"

// queueRule sizes by waiting work, with running work if the policy says so, and asks for one replica more when the oldest
// request has waited too long. Pods that gave no value count as full.
func (g *deciding) queueRule(r *QueueRule) {
	waiting := g.read(fleet.SignalQueueLength)
	total, missing, ok := 0.0, 0, waiting.fresh()
	numbers := map[string]float64{"target_per_replica": r.TargetPerReplica}
	if waiting.fresh() {
		total, missing = waiting.level, waiting.last.PodsMissing
		numbers["waiting"] = waiting.level
	}
	var running, age *reading
	if r.IncludeRunning {
		if running = g.read(fleet.SignalRunning); running.fresh() {
			total += running.level
			missing = max(missing, running.last.PodsMissing)
			numbers["running"] = running.level
		}
	}
	load := total / r.TargetPerReplica
	needed := ceilCount(load)
	if missing > 0 && needed < g.d.From {
		needed = min(ceilCount(load+float64(missing)), g.d.From)
		numbers["missing"] = float64(missing)
	}
	if r.MaxAgeSeconds > 0 {
		if age = g.read(fleet.SignalQueueAge); age.fresh() && age.level > r.MaxAgeSeconds {
			needed, ok = max(needed, g.d.From+1), true
			numbers["age_seconds"], numbers["max_age_seconds"] = age.level, r.MaxAgeSeconds
		}
	}
	if ok {
		g.need(Reason{Code: ReasonQueue, Signal: fleet.SignalQueueLength, To: needed, Numbers: numbers}, load)
		g.input(waiting, r.TargetPerReplica, &needed)
	} else {
		g.input(waiting, r.TargetPerReplica, nil)
	}
	if running != nil {
		g.input(running, r.TargetPerReplica, nil)
	}
	if age != nil {
		g.input(age, r.MaxAgeSeconds, nil)
	}
}
