package lab

// peakOf is the highest of the last so many values, kept as the falling ones that may yet be the highest.
type peakOf struct {
	slots     int
	at, value []int
}

func newPeakOf(slots int) peakOf { return peakOf{slots: max(slots, 1)} }

// add takes the value of a slot and returns the highest of the last slots.
func (e *peakOf) add(slot, v int) int {
	for len(e.at) > 0 && e.value[len(e.at)-1] <= v {
		e.at, e.value = e.at[:len(e.at)-1], e.value[:len(e.value)-1]
	}
	e.at, e.value = append(e.at, slot), append(e.value, v)
	first := 0
	for e.at[first] <= slot-e.slots {
		first++
	}
	if first > 0 { // moved to the front, so that the arrays do not creep
		e.at = e.at[:copy(e.at, e.at[first:])]
		e.value = e.value[:copy(e.value, e.value[first:])]
	}
	return e.value[0]
}
