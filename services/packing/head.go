package packing

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// head bounds how many pods of a kind lie on some offerings together: what the rules of the kind's workloads allow in a zone or on a few
// pools. It is a row of the linear program like a limit, but counts pods, not machines; its dual takes from what the pods are worth there.
type head struct {
	kind int
	free bool   // counts only pods that are not pinned
	on   []bool // of the given offerings
	max  int64
	sum  func(loose map[int]bool) int64 // max anew, with some shapes bound by nothing
}

// crowd is heads over the kinds of pods.
type crowd struct {
	kind  []int // of each pod
	heads []head
}

// crowded hangs the heads on the shapes they count.
func (p *problem) crowded(c *crowd) {
	if c == nil || len(c.heads) == 0 {
		return
	}
	p.heads = c.heads
	p.headsOf = map[int][]int{}
	for i := range p.shapes {
		s := &p.shapes[i]
		for h := range c.heads {
			if c.heads[h].kind == c.kind[s.pods[0]] && (!c.heads[h].free || s.pin == 0) {
				s.heads = append(s.heads, h)
				p.headsOf[s.want] = append(p.headsOf[s.want], h)
			}
		}
	}
}

// open tells whether every head that counts on offering a also counts on b, for pods of a want: else a may be full where b is not.
func (p *problem) open(want, a, b int) bool {
	for _, h := range p.headsOf[want] {
		if p.heads[h].on[a] && !p.heads[h].on[b] {
			return false
		}
	}
	return true
}

// counted tells whether any head counts a shape on an offering.
func (p *problem) counted(s *shape, j int) bool {
	for _, h := range s.heads {
		if p.heads[h].on[p.offs[j].index] {
			return true
		}
	}
	return false
}

// headRows adds what a pattern takes from the heads to its column.
func (s *solver) headRows(c *column, items []item, r *rows) {
	if len(s.p.heads) == 0 {
		return
	}
	from := len(c.rows)
	for _, it := range items {
		for _, h := range s.p.shapes[it.shape].heads {
			row := r.head[h]
			if row < 0 || !s.p.heads[h].on[s.p.offs[c.off].index] {
				continue
			}
			at := from
			for at < len(c.rows) && c.rows[at] != row {
				at++
			}
			if at == len(c.rows) {
				c.rows, c.vals = append(c.rows, row), append(c.vals, 0)
			}
			c.vals[at] += float64(it.n)
		}
	}
}

// headTolls are the program's duals of the heads.
func (s *solver) headTolls(lp *master, r *rows, out []float64) {
	for h := range out {
		if out[h] = 0; r.head[h] >= 0 {
			out[h] = max(0, -lp.y[r.head[h]])
		}
	}
}

// headRoom is what machines leave of the heads.
func (s *solver) headRoom(bins []bin) []int64 {
	room := make([]int64, len(s.p.heads))
	for h := range room {
		room[h] = s.p.heads[h].max
	}
	for i := range bins {
		s.p.seat(room, bins[i].off, bins[i].items, 1)
	}
	return room
}

// seat takes n machines with items from the heads' room.
func (p *problem) seat(room []int64, j int, items []item, n int64) {
	if len(room) == 0 {
		return
	}
	for _, it := range items {
		for _, h := range p.shapes[it.shape].heads {
			if p.heads[h].on[p.offs[j].index] {
				room[h] -= int64(it.n) * n
			}
		}
	}
}

// mayHold is how many machines with items the heads have room for, at most most.
func (p *problem) mayHold(room []int64, j int, items []item, most int32) int32 {
	if len(room) == 0 {
		return most
	}
	sum := map[int]int64{}
	for _, it := range items {
		for _, h := range p.shapes[it.shape].heads {
			if p.heads[h].on[p.offs[j].index] {
				sum[h] += int64(it.n)
			}
		}
	}
	for h, n := range sum {
		most = int32(min(int64(most), max(0, room[h])/n)) //nolint:gosec // bounded by most
	}
	return most
}

// underHeads is what a shape is worth on an offering after tolls, and how many of it the heads let on.
func (k *pricer) underHeads(s *shape, j int, value float64, most int32) (float64, int32) {
	for _, h := range s.heads {
		if k.p.heads[h].on[k.p.offs[j].index] {
			value -= k.tolls[h]
			most = int32(min(int64(most), max(0, k.room[h]))) //nolint:gosec // bounded by most
		}
	}
	return value, most
}

// headTolls sets tolls in whole nano-units.
func (k *pricer) headTolls(tolls []float64) {
	for h := range k.p.heads {
		v := math.Floor(tolls[h] * fleet.NanosPerUnit)
		if v < 0 || math.IsNaN(v) {
			v = 0
		}
		k.tolls[h] = min(v, 1e15)
		k.room[h] = k.p.heads[h].max
	}
}
