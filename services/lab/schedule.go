package lab

import "math"

// steps says how the states of one slot were reached.
type steps struct {
	count   [][]int16 // replicas before the change, by replicas after it and backlog
	emptied []int16   // backlog before the slot of the best that ended without any, by replicas
}

func (s *steps) start(b *bounding) {
	if s.count == nil {
		s.count = make([][]int16, b.most+1)
		cells := make([]int16, (b.most+1)*b.deepest)
		for n := range s.count {
			s.count[n] = cells[n*b.deepest : (n+1)*b.deepest]
		}
		s.emptied = make([]int16, b.most+1)
	}
	for n := range s.count {
		for d := range b.levels {
			s.count[n][d] = int16(n)
		}
	}
}

// checkpoint is the plane before a slot.
type checkpoint struct {
	cells  []int64
	levels int
}

const stretch = 128 // slots between two checkpoints

// Schedule is a cheapest schedule of the bound, replicas per slot of the judged span: what somebody would run who knew the future and
// whose backlogs were always rounded down. Executed as it is it may be late here and there; see Executed.
func Schedule(t *Trace, cfg Config) ([]int, error) {
	b, err := newBounding(t, cfg, 0)
	if err != nil {
		return nil, err
	}
	return b.schedule(), nil
}

func (b *bounding) schedule() []int {
	t := b.trace
	kept := []checkpoint{}
	for s := t.From; s < t.To; s++ {
		if (s-t.From)%stretch == 0 {
			kept = append(kept, b.save())
		}
		b.slot(s, nil)
	}
	n, d := b.cheapest()
	out := make([]int, t.To-t.From)
	notes := make([]steps, stretch)
	for k := len(kept) - 1; k >= 0; k-- {
		first := t.From + k*stretch
		last := min(first+stretch, t.To)
		b.load(kept[k])
		for s := first; s < last; s++ {
			b.slot(s, &notes[s-first])
		}
		for s := last - 1; s >= first; s-- {
			out[s-t.From] = n
			note := &notes[s-first]
			if d == 0 {
				d = int(note.emptied[n])
			} else {
				d -= int(math.Floor((t.Rho[s] - float64(n)) * SlotSeconds / b.step))
			}
			n = int(note.count[n][d])
		}
	}
	return out
}

func (b *bounding) save() checkpoint {
	c := checkpoint{levels: b.levels}
	for n := range b.cost {
		c.cells = append(c.cells, b.cost[n][:b.levels]...)
	}
	return c
}

func (b *bounding) load(c checkpoint) {
	b.levels = c.levels
	for n := range b.cost {
		copy(b.cost[n], c.cells[n*c.levels:(n+1)*c.levels])
	}
}

func (b *bounding) cheapest() (replicas, backlog int) {
	best := b.least()
	for n := b.lowest; n <= b.most; n++ {
		for d, c := range b.cost[n][:b.levels] {
			if c == best {
				return n, d
			}
		}
	}
	return b.lowest, 0
}

// Executed is what a schedule costs in replica-hours when it is played without rounding: where it would be late by then, a replica is added.
// It comes back with what was played.
func Executed(t *Trace, cfg Config, schedule []int) (hours float64, played []int) {
	backlog, paid := 0.0, 0
	played = make([]int, len(schedule))
	for i, n := range schedule {
		rho := t.Rho[t.From+i]
		n = max(n, int(math.Ceil(leastOnTime(backlog, rho)-1e-9)))
		backlog = max(0, backlog+(rho-float64(n))*SlotSeconds)
		played[i] = n
		paid += n
		if i > 0 {
			paid += max(0, n-played[i-1]) * cfg.ColdSlots
		}
	}
	return float64(paid) / SlotsPerHour, played
}

// leastOnTime is the capacity that a slot needs so that nobody is late who is due in it: the last that came before it within LateSeconds
// of its start, and those who come up to LateSeconds before its end. In between both sides are straight lines.
func leastOnTime(backlog, rho float64) float64 {
	return max(backlog/LateSeconds, (backlog+rho*(SlotSeconds-LateSeconds))/SlotSeconds)
}
