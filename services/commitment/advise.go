package commitment

import (
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// Machine is one machine's time in the history that advice is taken from.
type Machine struct {
	Running fleet.Interval // To zero: still there
	Spot    bool
}

// Need is the history of one instance type in one region, with the prices that buying is weighed against.
type Need struct {
	Window   fleet.Interval
	Machines []Machine
	Owned    int // of this type, that commitments cover already
	OnDemand fleet.Money
	Spot     *fleet.Money // mean of the window; nil: unknown, Spot is then no alternative
	Reserved fleet.Money
	// AvailablePPM is how often a Spot machine was to be had, in millionths; nil: as often as Spot machines carried the level.
	AvailablePPM *int64
}

// Level is the k-th machine of a type, counted from the first that was always needed.
type Level struct {
	K            int
	BusyMillis   int64       // of the window, in which at least K machines ran
	AvailablePPM int64       // A_k
	Instead      fleet.Money // busy x [A_k p_spot + (1 - A_k) p_od]: what an hour of the level costs without a reservation
	Reserved     fleet.Money
	Buy          bool
}

// Advice says how many more machines of a type to reserve.
type Advice struct {
	WindowMillis int64
	Levels       []Level // from the first that is not owned, as far as one past the last to buy, at most maxLevels
	Buy          int
	SavingHour   fleet.Money // mean, of those to buy, over the window
}

const maxLevels = 200

// Advise weighs reserving level k against running it as needed: buy while busy x [A_k p_spot + (1 - A_k) p_od] > p_reserved.
func Advise(n Need) Advice {
	window := n.Window.To.Sub(n.Window.From).Milliseconds()
	a := Advice{WindowMillis: window}
	if window <= 0 {
		return a
	}
	busy, carried := levels(n.Window, n.Machines, n.Owned+maxLevels)
	for k := n.Owned + 1; k <= len(busy) && len(a.Levels) < maxLevels; k++ {
		l := Level{K: k, BusyMillis: busy[k-1], Reserved: n.Reserved}
		switch {
		case n.Spot == nil:
		case n.AvailablePPM != nil:
			l.AvailablePPM = min(max(*n.AvailablePPM, 0), million)
		case busy[k-1] > 0:
			l.AvailablePPM = mulDivFloor(carried[k-1], million, busy[k-1])
		}
		hour := n.OnDemand.MulDiv(million-l.AvailablePPM, million)
		if n.Spot != nil {
			hour = hour.Add(n.Spot.MulDiv(l.AvailablePPM, million))
		}
		l.Instead = hour.MulDiv(l.BusyMillis, window)
		l.Buy = l.Instead > n.Reserved
		a.Levels = append(a.Levels, l)
		if !l.Buy {
			break
		}
		a.Buy++
		a.SavingHour = a.SavingHour.Add(l.Instead - n.Reserved)
	}
	return a
}

// levels sweeps the window: busy[k-1] is how long at least k machines ran, carried[k-1] how long at least k Spot machines did.
func levels(window fleet.Interval, machines []Machine, limit int) (busy, carried []int64) {
	type edge struct {
		at        time.Time
		all, spot int
	}
	var edges []edge
	for _, m := range machines {
		from, to := m.Running.From, m.Running.To
		if from.Before(window.From) {
			from = window.From
		}
		if to.IsZero() || to.After(window.To) {
			to = window.To
		}
		if !from.Before(to) {
			continue
		}
		spot := 0
		if m.Spot {
			spot = 1
		}
		edges = append(edges, edge{from, 1, spot}, edge{to, -1, -spot})
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	all, spot := 0, 0
	for i, e := range edges {
		if i > 0 {
			ms := e.at.Sub(edges[i-1].at).Milliseconds()
			for k := range min(all, limit) {
				if k == len(busy) {
					busy, carried = append(busy, 0), append(carried, 0)
				}
				busy[k] += ms
				if k < spot {
					carried[k] += ms
				}
			}
		}
		all, spot = all+e.all, spot+e.spot
	}
	return busy, carried
}
