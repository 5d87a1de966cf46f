package optimizer

import "time"

// flapNarrows is after how long without a cycle the widened window narrows by one factor, and maxFlapLevel more factors
// than any window needs to reach its hour.
const (
	flapNarrows  = 6 * time.Hour
	maxFlapLevel = 8
)

// cycles counts the up-down-up cycles completed within the hour that changes are remembered for.
func (m *Memory) cycles() int {
	n := 0
	var before, last int // directions, runs of one direction counted once
	for _, c := range m.Changes {
		dir := 1
		if c.To < c.From {
			dir = -1
		}
		if dir == last {
			continue
		}
		if dir > 0 && last < 0 && before > 0 {
			n++
		}
		before, last = last, dir
	}
	return n
}

// flapped raises the level after a change that completed a cycle, if there were enough of them or the window is widened
// already.
func (m *Memory) flapped(f Flap, cyclesBefore int, at time.Time) {
	n := m.cycles()
	if f.CyclesPerHour <= 0 || n <= cyclesBefore || (n < f.CyclesPerHour && m.FlapLevel == 0) {
		return
	}
	m.FlapLevel, m.FlapAt = min(m.FlapLevel+1, maxFlapLevel), &at
}

// calmed lowers the level by one for every six hours without a cycle.
func (m *Memory) calmed(f Flap, now time.Time) {
	if f.CyclesPerHour <= 0 || m.FlapLevel <= 0 || m.FlapAt == nil {
		m.FlapLevel, m.FlapAt = 0, nil
		return
	}
	m.FlapLevel = min(m.FlapLevel, maxFlapLevel)
	at := *m.FlapAt
	for m.FlapLevel > 0 && now.Sub(at) >= flapNarrows {
		m.FlapLevel, at = m.FlapLevel-1, at.Add(flapNarrows)
		m.FlapAt = &at
	}
	if m.FlapLevel == 0 {
		m.FlapAt = nil
	}
}

// widened is the down window at a flap level: multiplied once per level, to at most an hour.
func widened(f Flap, window, level int) int {
	if f.WidenFactor <= 1 || level <= 0 {
		return window
	}
	wide := max(window, defaultWindow)
	for i := 0; i < level && wide < maxStabilisation; i++ {
		wide = min(wide*f.WidenFactor, maxStabilisation)
	}
	return max(wide, window)
}
