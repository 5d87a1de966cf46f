package lab

import (
	"math"

	"plimsoll.dev/services/fleet"
)

// Bound is the least that serving everybody on time can cost over the judged span, in replica-hours: no schedule of replicas, whatever it
// knows of the future, is cheaper. It is a dynamic program over (replicas, backlog) per slot that asks only what every such schedule
// fulfils: the work done in a slot is at most its capacity, and what has been done, at the slot's end and LateSeconds after its start, is at
// least all that came LateSeconds before. Backlogs are rounded down to the grid, which only ever helps the schedule. A replica is paid while it
// starts; those there at the beginning are free to have.
func Bound(t *Trace, cfg Config) (float64, error) {
	b, err := newBounding(t, cfg, 0)
	if err != nil {
		return 0, err
	}
	for s := t.From; s < t.To; s++ {
		b.slot(s, nil)
	}
	return float64(b.least()) / SlotsPerHour, nil
}

// tariff is what slots cost: pay[n] for n replicas that run in the slot, start for each one more than before it.
type tariff interface {
	slot(s int) (pay []int64, start int64)
}

// flatRate is one price for every replica: costs are counted in replica-slots.
type flatRate struct {
	pay  []int64
	cold int64
}

func newFlatRate(most, cold int) *flatRate {
	f := &flatRate{pay: make([]int64, most+1), cold: int64(cold)}
	for n := range f.pay {
		f.pay[n] = int64(n)
	}
	return f
}

func (f *flatRate) slot(int) (pay []int64, start int64) { return f.pay, f.cold }

// bounding is the cost to come: cost[n][d] is the least paid so far, in replica-slots, of all schedules with n replicas in the slot that
// just passed and a backlog of at most d+1 steps now.
type bounding struct {
	trace        *Trace
	cfg          Config
	step         float64 // of the backlog grid, replica-seconds
	lowest, most int     // replicas
	cost, next   [][]int64
	rate         tariff
	levels       int // of cost that are in use
	deepest      int // levels there may be
}

// never is a cost that no schedule reaches.
const never = math.MaxInt64 / 4

// backlogLevels is how fine the grid is for the deepest backlog that is on time anywhere.
const backlogLevels = 360

// cells bounds the work of one slot.
const maxCells = 4_000_000

func newBounding(t *Trace, cfg Config, step float64) (*bounding, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	peak := t.Peak()
	b := &bounding{trace: t, cfg: cfg, step: step, lowest: cfg.Min, most: max(int(math.Ceil(peak)), cfg.Min)}
	if b.step == 0 {
		b.step = max(peak*LateSeconds/backlogLevels, 1e-6)
	}
	b.deepest = int(peak*LateSeconds/b.step+1e-9) + 1
	switch {
	case cfg.ColdSlots < 0 || cfg.ColdSlots > SlotsPerDay || cfg.Min < 0:
		return nil, fleet.Errorf(fleet.CodeInvalid, "trace %s: a start of %d slots and at least %d replicas; want 0 to %d slots and no negative count", t.Name, cfg.ColdSlots, cfg.Min, SlotsPerDay)
	case cfg.Max < b.most:
		return nil, fleet.Errorf(fleet.CodeInvalid, "trace %s: its peak needs %d replicas, at most %d are allowed", t.Name, b.most, cfg.Max)
	case (b.most+1)*b.deepest > maxCells:
		return nil, fleet.Errorf(fleet.CodeTooLarge, "trace %s: a peak of %d replicas is too large for an exact bound", t.Name, b.most)
	}
	b.rate = newFlatRate(b.most, cfg.ColdSlots)
	b.cost, b.next = b.plane(), b.plane()
	b.levels = 1
	for n := b.lowest; n <= b.most; n++ {
		b.cost[n][0] = 0
	}
	return b, nil
}

func (b *bounding) plane() [][]int64 {
	cells := make([]int64, (b.most+1)*b.deepest)
	for i := range cells {
		cells[i] = never
	}
	out := make([][]int64, b.most+1)
	for n := range out {
		out[n] = cells[n*b.deepest : (n+1)*b.deepest]
	}
	return out
}

// slot moves the plane over one slot; with steps it notes how each state was reached.
func (b *bounding) slot(s int, steps *steps) {
	pays, start := b.rate.slot(s)
	b.change(start, steps)
	rho := b.trace.Rho[s]
	room := int(rho*LateSeconds/b.step+1e-9) + 1 // levels on time at the end of the slot
	for n := b.lowest; n <= b.most; n++ {
		pay := pays[n]
		out := b.next[n][:max(room, b.levels)]
		for d := range out {
			out[d] = never
		}
		out = out[:room]
		// The last to come before this slot are due LateSeconds into it.
		in := b.cost[n][:min(b.levels, int(float64(n)*LateSeconds/b.step+1e-9)+1)]
		shift := int(math.Floor((rho - float64(n)) * SlotSeconds / b.step))
		emptied := min(max(1-shift, 0), len(in)) // levels that are worked off within the slot
		for d, c := range in[:emptied] {
			if c += pay; d+shift <= 0 && c < out[0] {
				out[0] = c
				if steps != nil {
					steps.emptied[n] = int16(d)
				}
			}
		}
		for d := emptied; d < len(in) && d+shift < room; d++ {
			out[d+shift] = in[d] + pay
		}
	}
	b.cost, b.next = b.next, b.cost
	b.levels = room
}

// change lets the count move before a slot: down for nothing, up for the pay of the replicas while they start. Both directions are
// prefix minima, so that a slot costs no more than its cells: a first pass from above leaves in each row the best that may fall to it,
// a second from below the best that may rise.
func (b *bounding) change(start int64, steps *steps) {
	if steps != nil {
		steps.start(b)
	}
	for n := b.most - 1; n >= b.lowest; n-- {
		b.move(n+1, n, 0, steps)
	}
	for n := b.lowest + 1; n <= b.most; n++ {
		b.move(n-1, n, start, steps)
	}
}

// move lets schedules go from one count to its neighbour at a price.
func (b *bounding) move(from, to int, price int64, steps *steps) {
	row, other := b.cost[to][:b.levels], b.cost[from][:b.levels]
	if steps == nil {
		for d, c := range other {
			row[d] = min(row[d], c+price)
		}
		return
	}
	for d, c := range other {
		if c+price < row[d] {
			row[d] = c + price
			steps.count[to][d] = steps.count[from][d]
		}
	}
}

func (b *bounding) least() int64 {
	best := int64(never)
	for n := b.lowest; n <= b.most; n++ {
		for _, c := range b.cost[n][:b.levels] {
			best = min(best, c)
		}
	}
	return best
}
