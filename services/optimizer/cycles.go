package optimizer

import "time"

// CyclesPerHour counts the up-down-up cycles that the replicas completed in the hour before now (thrash_cycles_per_hour), whoever moved them.
func (m Memory) CyclesPerHour(now time.Time) int {
	recent := Memory{}
	for _, c := range m.Changes {
		if now.Sub(c.At) <= time.Hour {
			recent.Changes = append(recent.Changes, c)
		}
	}
	return recent.cycles()
}
